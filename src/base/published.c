/* published.c - one pointer that many threads read while another replaces it.
 *
 * Readers count themselves in on a lane (threads mostly have different ones, so that they do not
 * share a cache line) under the current phase, and read the pointer after that. A writer swaps the
 * pointer, turns the phase and waits for the counts of the old phase to reach zero.
 *
 * WHILE IT WAITS the writer sleeps, and says so in `is_awaited`. The last reader of a lane that
 * sees this says that it has gone in `departures`, and wakes the writer. No wake-up is lost: a
 * reader counts itself out before it looks at `is_awaited`, and the writer sets that, and has read
 * `departures`, before it looks at the counts.
 *
 * WHY TWO TURNS: a reader may read the phase, sleep through a turn, and count itself in under
 * the phase that is no longer current. It then sees the new pointer, but the next writer must
 * wait for it too; so every replacement waits for both phases. */
#include "base/published.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_AGAIN_MS = 100 }; /* a writer that was not woken looks even so */

static void sleep_on(atomic_uint *word, unsigned seen)
{
    const struct timespec most = { .tv_nsec = LOOK_AGAIN_MS * 1000000L };

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
}

static void wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void published_init(struct published *p, const void *first)
{
    *p = (struct published){ .writer = PTHREAD_MUTEX_INITIALIZER };
    atomic_store(&p->current, first);
}

void published_done(struct published *p)
{
    pthread_mutex_destroy(&p->writer);
}

void published_wake(struct published *p)
{
    atomic_fetch_add(&p->departures, 1);
    wake_all(&p->departures);
}

static void wait_for_lane(struct published *p, size_t lane, unsigned phase)
{
    for (;;) {
        const unsigned seen = atomic_load(&p->departures);

        if (atomic_load(&p->lanes[lane].readers[phase]) == 0)
            return;
        sleep_on(&p->departures, seen);
    }
}

static void turn_and_wait(struct published *p)
{
    unsigned old = atomic_fetch_add(&p->phase, 1) & 1;

    for (size_t i = 0; i < PUBLISHED_LANES; i++)
        wait_for_lane(p, i, old);
}

const void *published_replace(struct published *p, const void *next)
{
    const void *old;

    pthread_mutex_lock(&p->writer);
    old = atomic_exchange(&p->current, next);
    atomic_store(&p->is_awaited, true);
    turn_and_wait(p);
    turn_and_wait(p);
    atomic_store(&p->is_awaited, false);
    pthread_mutex_unlock(&p->writer);
    return old;
}
