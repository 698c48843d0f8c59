/* lock.h - a lock in four bytes, for what is held for less than a microsecond.
 *
 * To take one that is free, and to drop one that no thread waits for, is one atomic instruction
 * each, where the caller is. A thread that finds it taken looks again for a moment, as the holder
 * is about to drop it, and then sleeps until it is woken. All zero is a lock that is free; there is
 * nothing to free. It is not fair, and not for one thread twice. */
#ifndef WEIR_BASE_LOCK_H
#define WEIR_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOCK_FREE, LOCK_TAKEN, LOCK_AWAITED /* taken, and a thread may sleep */ };

struct lock {
    _Atomic uint32_t state;
};

void lock_wait(struct lock *l); /* until it is taken by this thread */
void lock_wake(struct lock *l); /* a thread that sleeps */

static inline bool lock_try(struct lock *l)
{
    uint32_t seen = LOCK_FREE;

    return atomic_compare_exchange_strong_explicit(&l->state, &seen, LOCK_TAKEN,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void lock_take(struct lock *l)
{
    if (!lock_try(l))
        lock_wait(l);
}

static inline void lock_drop(struct lock *l)
{
    if (atomic_exchange_explicit(&l->state, LOCK_FREE, memory_order_release) == LOCK_AWAITED)
        lock_wake(l);
}

#endif
