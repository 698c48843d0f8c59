/* usage.h - how one identity stands: what is used of its limits, what is held, what is left. */
#ifndef WEIR_ENGINE_USAGE_H
#define WEIR_ENGINE_USAGE_H

#include "engine/handle.h"

struct usage_rule {
    const char *policy, *rule, *counts; /* the handle's; `policy` NULL: the limit has none */
    struct key key;
    int64_t limit;
    int64_t counted; /* used and held */
    int64_t held;
    int64_t left, reset_after_ms;
    bool is_shadow;
};

struct usage {
    bool is_held_known; /* the store can tell what is held */
    int64_t reservations;
    size_t count;
    struct usage_rule rules[WEIR_MAX_RULES];
    bool is_counted; /* the reservation that is being looked at is among the `reservations` */
};

/* What is counted and what is left; what is held is not known yet. */
WEIR_MUSTCHECK weir_err usage_counted(weir *w, const weir_request *r, struct usage *out,
                                      weir_diag *diag);

/* Add what is held to n of them. Looks at all that is held: never from a loop's turn. */
WEIR_MUSTCHECK weir_err usage_held(weir *w, int64_t now, struct usage *all, size_t n,
                                   weir_diag *diag);

/* Both, of one. */
WEIR_MUSTCHECK weir_err usage_read(weir *w, const weir_request *r, struct usage *out,
                                   weir_diag *diag);

#endif
