/* ledger.h - the ledger of a Postgres store: the table weir.ledger. */
#ifndef WEIR_STORE_POSTGRES_LEDGER_H
#define WEIR_STORE_POSTGRES_LEDGER_H

#include <pthread.h>

#include "store/ledger.h"

struct postgres_ledger {
    const char *conninfo;
    pthread_mutex_t lock;             /* of what follows; held while the database is asked */
    struct postgres_session *session; /* NULL: none yet, or the last one failed */
};

void postgres_ledger_init(struct postgres_ledger *l, const char *conninfo);
void postgres_ledger_done(struct postgres_ledger *l);

/* As a store's; see store.h. Also sets the entry's `at`. */
WEIR_MUSTCHECK weir_err postgres_ledger_append(struct postgres_ledger *l, struct ledger_entry *e,
                                               weir_diag *diag);
WEIR_MUSTCHECK weir_err postgres_ledger_read(struct postgres_ledger *l, uint64_t after,
                                             ledger_visit *visit, void *ctx, weir_diag *diag);

#endif
