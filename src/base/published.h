/* published.h - one pointer that many threads read while another replaces it.
 *
 * Readers take no lock and never wait. A writer swaps the pointer and then sleeps until every
 * reader that may have seen the old one is gone; then the old one may be freed. So a visit must not
 * last until something happens for which another thread has to replace the pointer first. */
#ifndef WEIR_BASE_PUBLISHED_H
#define WEIR_BASE_PUBLISHED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PUBLISHED_LANES = 16 };

struct published {
    _Atomic(const void *) current;
    atomic_uint phase;
    atomic_bool is_awaited; /* by a writer: who leaves wakes it */
    atomic_uint departures; /* of readers, since then; what a writer sleeps on */
    pthread_mutex_t writer;
    char apart[64];
    struct {
        atomic_long readers[2]; /* by the phase they came in */
        char apart[64 - 2 * sizeof(atomic_long)];
    } lanes[PUBLISHED_LANES]; /* no two in one cache line */
};

/* What a reader hands back when it is done. */
struct published_visit {
    const void *current;
    unsigned lane, phase;
};

void published_init(struct published *p, const void *first);
void published_done(struct published *p);

static inline struct published_visit published_enter(struct published *p)
{
    struct published_visit visit = {
        .lane = (unsigned)((uintptr_t)pthread_self() >> 12) % PUBLISHED_LANES,
        .phase = atomic_load_explicit(&p->phase, memory_order_relaxed) & 1,
    };

    atomic_fetch_add(&p->lanes[visit.lane].readers[visit.phase], 1);
    visit.current = atomic_load(&p->current);
    return visit;
}

/* Is it worth entering? What is being replaced right now may be missed. */
static inline bool published_is_set(const struct published *p)
{
    return atomic_load_explicit(&p->current, memory_order_relaxed);
}

void published_wake(struct published *p); /* the writer that waits */

static inline void published_leave(struct published *p, struct published_visit visit)
{
    if (atomic_fetch_sub(&p->lanes[visit.lane].readers[visit.phase], 1) == 1 &&
        atomic_load(&p->is_awaited))
        published_wake(p);
}

/* Returns the old pointer once no reader uses it. Not from inside a visit. */
const void *published_replace(struct published *p, const void *next);

#endif
