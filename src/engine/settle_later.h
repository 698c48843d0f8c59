/* settle_later.h - settlements that wait for a store that is away.
 *
 * What was used is known; that it cannot be said now must not lose it. So a commit or a release
 * that the store did not take is kept here, and sent again with the next question of any thread
 * that finds the store in order. It comes before that question: what it gives back is there for it.
 * It can be sent twice, as the record knows that it is settled.
 *
 * It waits for as long as a reservation can last. What is dropped is counted: of a full list, after
 * that time, of a reservation that the store does not know any more, and when the process ends. */
#ifndef WEIR_ENGINE_SETTLE_LATER_H
#define WEIR_ENGINE_SETTLE_LATER_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/store.h"

enum {
    SETTLE_LATER_MOST = 10000,    /* that wait */
    SETTLE_LATER_TOGETHER = 16,   /* sent with one question */
    SETTLE_LATER_RETRY_MS = 1000, /* while the store is away */
};

struct settle_later {
    pthread_mutex_t mutex;
    struct waiting_settlement *first, *last; /* under the mutex */
    _Atomic int64_t count;                   /* of these and those under way */
    _Atomic int64_t dropped;
    _Atomic int64_t retry_at; /* by clock_steady_ms() */
};

void settle_later_init(struct settle_later *l);
void settle_later_done(struct settle_later *l); /* what waits is dropped */

/* The store has not taken this settlement. False: nor is it kept here. */
bool settle_later_add(struct settle_later *l, const struct question *q);

/* Submit what waits, if it is time to. */
void settle_later_send(struct settle_later *l, struct store *store, struct pending *pending);

static inline bool settle_later_has_some(const struct settle_later *l)
{
    return atomic_load_explicit(&l->count, memory_order_relaxed) > 0;
}

#endif
