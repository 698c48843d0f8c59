/* lock.c - a lock in four bytes: what a thread does that has to wait. */
#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOKS = 100 }; /* about as long as what is done under such a lock takes */

static void breathe(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* It is dropped as one that is awaited, even if this thread was the only one to wait: it cannot
 * know. Then one wake is for none. */
void lock_wait(struct lock *l)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&l->state, memory_order_relaxed) == LOCK_FREE && lock_try(l))
            return;
        breathe();
    }
    while (atomic_exchange_explicit(&l->state, LOCK_AWAITED, memory_order_acquire) != LOCK_FREE)
        syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, LOCK_AWAITED, NULL, NULL, 0);
}

void lock_wake(struct lock *l)
{
    syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
