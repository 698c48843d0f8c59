/* thread_pool.h - threads that work through loads which one thread fills.
 *
 * Loads are worked through in any order, several at once. The threads are started with the first
 * heavy loads, so that little work starts none; without them, or if none can be had, the caller
 * does the work as it hands it over. */
#ifndef WEIR_BASE_THREAD_POOL_H
#define WEIR_BASE_THREAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

enum { THREAD_POOL_MOST_HANDS = 8, THREAD_POOL_HEAVY = 256 << 10 };

struct pool_job {
    char *bytes;
    size_t len, room;
    uint64_t at;       /* where the bytes are from, for those who want to know */
    bool is_under_way; /* the thread_pool's */
};

bool pool_job_reserve(struct pool_job *l, size_t more, const weir_allocator *allocator);

struct thread_pool;

WEIR_MUSTCHECK weir_err thread_pool_new(struct thread_pool **out,
                                        unsigned hands, /* 0 or 1: no threads */
                                        const weir_allocator *allocator);
void thread_pool_free(struct thread_pool *c); /* when all is done that was handed over */

/* Have it worked through. Until that is done, the load is not to be touched. */
void thread_pool_hand(struct thread_pool *c, struct pool_job *l,
                      void (*work)(void *ctx, const struct pool_job *l), void *ctx);

void thread_pool_wait_for(struct thread_pool *c, const struct pool_job *l);
void thread_pool_wait(struct thread_pool *c); /* for all */

unsigned thread_pool_processors(
    void); /* that this process may use, at most THREAD_POOL_MOST_HANDS */

#endif
