/* held.h - what reservations hold in a Redis store, for people. */
#ifndef WEIR_STORE_REDIS_HELD_H
#define WEIR_STORE_REDIS_HELD_H

#include "store/redis/slots.h"
#include "store/reservation.h"

/* As a store's; see store.h. `slots` are of a cluster. It fails if there are more than HELD_MOST,
 * or if it takes too long, as nothing is told then. */
WEIR_MUSTCHECK weir_err redis_held_visit(struct redis_common *common, struct redis_slots *slots,
                                         int64_t now, held_visit *visit, void *ctx,
                                         weir_diag *diag);

#endif
