/* sliding_window.h - the sliding window: never more than the limit in any interval.
 *
 * Its state is a log of admissions in sparse buckets. A short log lives inside the 40 bytes
 * of the state; a longer one in a block beside it, from the allocator. So that a check of
 * several rules can be all or nothing, taking is in three parts: sliding_window_take() looks,
 * sliding_window_reserve() gets the memory and may fail, sliding_window_apply() cannot. */
#ifndef WEIR_LIMIT_SLIDING_WINDOW_H
#define WEIR_LIMIT_SLIDING_WINDOW_H

#include "base/alloc.h"
#include "limit/limit.h"

enum { SLIDING_WINDOW_NEAR = 3 };

struct sliding_window {
    int64_t base;       /* what the entries' offsets count from */
    uint32_t count;     /* entries */
    uint32_t room : 31; /* entries that `far` can hold; 0: they are in `near` */
    uint32_t wide : 1;  /* an entry is two words, see sliding_window.c */
    union {
        uint64_t near[SLIDING_WINDOW_NEAR];
        struct sliding_window_block *far;
    };
};

struct sliding_window_step {
    struct decision decision;
    int64_t now;
    uint32_t drop; /* entries that have left the window */
    int64_t start; /* then count `add` in the bucket that starts here */
    int64_t add;   /* 0: nothing changes */
};

struct sliding_window_step sliding_window_take(const struct sliding_window *s, const struct rule *r,
                                               const struct ask *ask);
bool sliding_window_reserve(struct sliding_window *s, const struct sliding_window_step *step,
                            const weir_allocator *allocator);
void sliding_window_apply(struct sliding_window *s, const struct sliding_window_step *step);

/* Takes `cost` back from the newest entries on. Changes the state itself: it only shrinks. */
struct sliding_window_step sliding_window_refund(struct sliding_window *s, const struct rule *r,
                                                 const struct ask *ask);

void sliding_window_done(struct sliding_window *s, const weir_allocator *allocator);
size_t sliding_window_beside(const struct sliding_window *s); /* bytes of the block */

#endif
