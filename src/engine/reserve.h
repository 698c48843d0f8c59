/* reserve.h - reservations: from a request to the question about one. */
#ifndef WEIR_ENGINE_RESERVE_H
#define WEIR_ENGINE_RESERVE_H

#include "engine/engine.h"

/* The check is of a verb about reservations, or a check with an id, which becomes one. */
WEIR_MUSTCHECK weir_err reserve_prepare(struct engine *e, struct check *check, weir_diag *diag);

#endif
