/* reserve.h - reservations: from a request to the question about one. */
#ifndef WEIR_ENGINE_RESERVE_H
#define WEIR_ENGINE_RESERVE_H

#include "engine/engine.h"

/* The check is of a verb about reservations, or a check with an id, which becomes one. */
WEIR_MUSTCHECK weir_err reserve_prepare(struct engine *e, struct check *check, weir_diag *diag);

/* Of a reservation that this process holds by itself, as the store is away: its id says so. */
bool reserve_is_local(const char *id);

/* The id of one, for this question; its key is the reservation's then. */
void reserve_make_local(const struct engine *e, struct check *check, struct key *key);

#endif
