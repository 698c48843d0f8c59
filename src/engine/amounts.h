/* amounts.h - what a request costs, by the names of the amounts that rules count. */
#ifndef WEIR_ENGINE_AMOUNTS_H
#define WEIR_ENGINE_AMOUNTS_H

#include <string.h>

#include "engine/engine.h"

/* Mostly their first letters differ. */
static inline bool amount_is(const char *a, const char *b)
{
    return a == b || (*a == *b && strcmp(a, b) == 0);
}

/* Are these few, and would amounts_read() find nothing wrong? Of a request with a policy or a
 * reservation. */
enum { AMOUNTS_FEW = 4 };
bool amounts_are_usual(const weir_request *r);

/* The costs of the request by themselves; `requests` among them take the place of its cost. */
WEIR_MUSTCHECK weir_err amounts_read(struct check *check, weir_diag *diag);

/* … and by its policies: an amount that no rule counts would have no effect. */
WEIR_MUSTCHECK weir_err amounts_are_counted(const struct check *check, weir_diag *diag);

/* The same of a reservation that a store has found, for its answer. */
void amounts_say_counted(const struct question *q, char *out, size_t size);

/* What the request costs of this amount, which is not `requests`. */
int64_t amount_of(const weir_request *r, const char *counts);

#endif
