/* published.c - one pointer that many threads read while another replaces it.
 *
 * Readers count themselves in on a lane (threads mostly have different ones, so that they do
 * not share a cache line) under the current phase, and read the pointer after that. A writer swaps the pointer,
 * turns the phase and waits for the counts of the old phase to reach zero.
 *
 * WHY TWO TURNS: a reader may read the phase, sleep through a turn, and count itself in under
 * the phase that is no longer current. It then sees the new pointer, but the next writer must
 * wait for it too; so every replacement waits for both phases. */
#include "base/published.h"

#include <sched.h>
#include <stdint.h>

void published_init(struct published *p, const void *first)
{
    *p = (struct published){ .writer = PTHREAD_MUTEX_INITIALIZER };
    atomic_store(&p->current, first);
}

void published_done(struct published *p)
{
    pthread_mutex_destroy(&p->writer);
}

struct published_visit published_enter(struct published *p)
{
    struct published_visit visit = {
        .lane = (unsigned)((uintptr_t)pthread_self() >> 12) % PUBLISHED_LANES,
        .phase = atomic_load_explicit(&p->phase, memory_order_relaxed) & 1,
    };

    atomic_fetch_add(&p->lanes[visit.lane].readers[visit.phase], 1);
    visit.current = atomic_load(&p->current);
    return visit;
}

void published_leave(struct published *p, struct published_visit visit)
{
    atomic_fetch_sub_explicit(&p->lanes[visit.lane].readers[visit.phase], 1, memory_order_release);
}

static void turn_and_wait(struct published *p)
{
    unsigned old = atomic_fetch_add(&p->phase, 1) & 1;

    for (size_t i = 0; i < PUBLISHED_LANES; i++)
        while (atomic_load(&p->lanes[i].readers[old]) != 0)
            sched_yield();
}

const void *published_replace(struct published *p, const void *next)
{
    const void *old;

    pthread_mutex_lock(&p->writer);
    old = atomic_exchange(&p->current, next);
    turn_and_wait(p);
    turn_and_wait(p);
    pthread_mutex_unlock(&p->writer);
    return old;
}
