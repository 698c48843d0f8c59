/* fixed_window.h - the fixed window: a count that starts anew at every multiple of the window. */
#ifndef WEIR_LIMIT_FIXED_WINDOW_H
#define WEIR_LIMIT_FIXED_WINDOW_H

#include "limit/limit.h"

struct fixed_window {
    int64_t start, count;
};

struct fixed_window_step {
    struct fixed_window next;
    struct decision decision;
    int64_t now; /* the time that was used */
};

struct fixed_window_step fixed_window_take(struct fixed_window s, const struct rule *r,
                                           const struct ask *ask);
struct fixed_window_step fixed_window_refund(struct fixed_window s, const struct rule *r,
                                             const struct ask *ask);

#endif
