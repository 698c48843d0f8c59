/* held.h - what reservations hold in a Postgres store, for people. */
#ifndef WEIR_STORE_POSTGRES_HELD_H
#define WEIR_STORE_POSTGRES_HELD_H

#include <pthread.h>

#include "store/reservation.h"

struct postgres_held {
    const char *conninfo;
    pthread_mutex_t lock;             /* of what follows; held while the database is asked */
    struct postgres_session *session; /* NULL: none yet, or the last one failed */
};

void postgres_held_init(struct postgres_held *h, const char *conninfo);
void postgres_held_done(struct postgres_held *h);

/* As a store's; see store.h. It fails if there are more than HELD_MOST, as nothing is told then. */
WEIR_MUSTCHECK weir_err postgres_held_visit(struct postgres_held *h, held_visit *visit, void *ctx,
                                            weir_diag *diag);

#endif
