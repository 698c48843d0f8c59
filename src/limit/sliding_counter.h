/* sliding_counter.h - the sliding counter: two fixed windows, the older one fading out. */
#ifndef WEIR_LIMIT_SLIDING_COUNTER_H
#define WEIR_LIMIT_SLIDING_COUNTER_H

#include "limit/limit.h"

struct sliding_counter {
    int64_t start, current, previous;
};

struct sliding_counter_step {
    struct sliding_counter next;
    struct decision decision;
    int64_t now;
};

struct sliding_counter_step sliding_counter_take(struct sliding_counter s, const struct rule *r,
                                                 const struct ask *ask);
struct sliding_counter_step sliding_counter_refund(struct sliding_counter s, const struct rule *r,
                                                   const struct ask *ask);

#endif
