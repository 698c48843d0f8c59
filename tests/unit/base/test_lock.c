/* test_lock.c - a lock in four bytes: one thread at a time, and no thread sleeps for good. */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>

#include "base/lock.h"

enum { THREADS = 6, TURNS = 40000 };

struct scene {
    struct lock lock;
    long turns; /* plain, so that two at a time lose some, and TSan sees them */
    int32_t each;
    _Atomic int arrived;
};

/* Every 64th holds it for so long that others go to sleep. */
static void *count(void *ctx)
{
    struct scene *s = ctx;

    for (int i = 0; i < s->each; i++) {
        const bool is_tried = i % 8 == 0 && lock_try(&s->lock);

        if (!is_tried)
            lock_take(&s->lock);
        s->turns++;
        for (int rest = i % 64 == 0 ? 50 : 0; rest > 0; rest--)
            sched_yield();
        lock_drop(&s->lock);
    }
    return NULL;
}

static void one_thread_at_a_time_and_all_come_to_their_turn(void **state)
{
    struct scene s = { .each = (int32_t)scaled(TURNS) };
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, &s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(s.turns, (long)THREADS * s.each);
    assert_int_equal(atomic_load(&s.lock.state), LOCK_FREE);
}

static void one_that_is_taken_is_not_taken_again(void **state)
{
    struct lock l = { 0 };

    (void)state;
    assert_true(lock_try(&l));
    assert_false(lock_try(&l));
    lock_drop(&l);
    assert_true(lock_try(&l));
    lock_drop(&l);
}

static void *wait_and_tell(void *ctx)
{
    struct scene *s = ctx;

    lock_take(&s->lock);
    s->turns++;
    lock_drop(&s->lock);
    return NULL;
}

/* All of them sleep before the first is woken; each that leaves wakes the next. */
static void threads_that_sleep_are_woken_one_after_the_other(void **state)
{
    struct scene s = { 0 };
    pthread_t threads[THREADS];

    (void)state;
    lock_take(&s.lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_and_tell, &s), 0);
    while (atomic_load(&s.lock.state) != LOCK_AWAITED)
        sched_yield();
    assert_int_equal(s.turns, 0);
    lock_drop(&s.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(s.turns, THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_at_a_time_and_all_come_to_their_turn),
        cmocka_unit_test(one_that_is_taken_is_not_taken_again),
        cmocka_unit_test(threads_that_sleep_are_woken_one_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
