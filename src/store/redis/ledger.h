/* ledger.h - the ledger of a Redis store: a list that is only ever added to. */
#ifndef WEIR_STORE_REDIS_LEDGER_H
#define WEIR_STORE_REDIS_LEDGER_H

#include <pthread.h>

#include "store/ledger.h"
#include "store/redis/connect.h"

struct redis_ledger {
    const struct redis_uri *uri;
    pthread_mutex_t lock;
    struct redis_session *session; /* NULL: none yet, or none any more */
};

void redis_ledger_init(struct redis_ledger *l, const struct redis_uri *uri);
void redis_ledger_done(struct redis_ledger *l);

/* Both block; see struct store_ops. */
WEIR_MUSTCHECK weir_err redis_ledger_append(struct redis_ledger *l, struct ledger_entry *e,
                                            weir_diag *diag);
WEIR_MUSTCHECK weir_err redis_ledger_read(struct redis_ledger *l, uint64_t after,
                                          ledger_visit *visit, void *ctx, weir_diag *diag);

#endif
