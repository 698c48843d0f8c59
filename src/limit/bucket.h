/* bucket.h - the token bucket and the leaky bucket: what was taken, draining at a steady rate. */
#ifndef WEIR_LIMIT_BUCKET_H
#define WEIR_LIMIT_BUCKET_H

#include "limit/limit.h"

struct bucket {
    int64_t used; /* in units of request x ms */
    int64_t at;   /* when it was that */
};

struct bucket_step {
    struct bucket next;
    struct decision decision;
    int64_t now;
};

struct bucket_step bucket_take(struct bucket s, const struct rule *r, const struct ask *ask);
struct bucket_step bucket_refund(struct bucket s, const struct rule *r, const struct ask *ask);

#endif
