/* test_worker.c - a thread that works at intervals, or when it is woken. */
#include "support/unit.h"

#include <semaphore.h>
#include <signal.h>

#include "base/clock.h"
#include "base/worker.h"

static const int64_t hour_us = INT64_C(3600) * 1000000;

struct scene {
    struct worker worker;
    sem_t called; /* posted by each call */
    int calls;    /* the worker's, until it is stopped */
    int64_t pause_us;
    int64_t rest_us; /* > 0: in each call */
    bool takes_signals;
};

static int64_t work(void *ctx)
{
    struct scene *s = ctx;
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    s->takes_signals = !sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGUSR1);
    s->calls++;
    sem_post(&s->called);
    if (s->rest_us > 0)
        worker_rest(&s->worker, s->rest_us);
    return s->pause_us;
}

static void begin(struct scene *s, int64_t first_us, int64_t pause_us)
{
    weir_diag diag;

    *s = (struct scene){ .pause_us = pause_us };
    sem_init(&s->called, 0, 0);
    worker_init(&s->worker);
    assert_int_equal(worker_start(&s->worker, "test", first_us, work, s, &diag), WEIR_OK);
}

static void end(struct scene *s)
{
    worker_stop(&s->worker);
    worker_done(&s->worker);
    sem_destroy(&s->called);
}

static void it_works_at_intervals(void **state)
{
    struct scene s;

    (void)state;
    begin(&s, 1000, 1000);
    for (int i = 0; i < 5; i++)
        sem_wait(&s.called);
    end(&s);
    assert_true(s.calls >= 5);
    assert_false(s.takes_signals);
}

static void it_does_not_come_early(void **state)
{
    enum { PAUSE_US = 20000 };
    const int64_t from = clock_monotonic_us();
    struct scene s;

    (void)state;
    begin(&s, PAUSE_US, PAUSE_US);
    sem_wait(&s.called);
    sem_wait(&s.called);
    assert_true(clock_monotonic_us() - from >= 2 * PAUSE_US);
    end(&s);
}

static void it_is_woken_before_its_time(void **state)
{
    struct scene s;

    (void)state;
    begin(&s, hour_us, WORKER_UNTIL_WOKEN);
    worker_wake(&s.worker);
    sem_wait(&s.called);
    worker_wake(&s.worker);
    sem_wait(&s.called);
    end(&s);
    assert_int_equal(s.calls, 2);
}

static void a_wake_before_the_start_is_kept(void **state)
{
    struct scene s = { .pause_us = WORKER_UNTIL_WOKEN };
    weir_diag diag;

    (void)state;
    sem_init(&s.called, 0, 0);
    worker_init(&s.worker);
    worker_wake(&s.worker);
    assert_int_equal(worker_start(&s.worker, "test", hour_us, work, &s, &diag), WEIR_OK);
    sem_wait(&s.called);
    end(&s);
}

static void a_stop_ends_every_wait(void **state)
{
    struct scene s;

    (void)state;
    begin(&s, hour_us, hour_us);
    end(&s);
    assert_int_equal(s.calls, 0);

    begin(&s, WORKER_UNTIL_WOKEN, hour_us);
    s.rest_us = hour_us; /* before it is woken */
    worker_wake(&s.worker);
    sem_wait(&s.called);
    end(&s);
    assert_int_equal(s.calls, 1);
}

static void a_first_call_at_once_is_always_made(void **state)
{
    struct scene s;

    (void)state;
    for (int i = 0; i < 50; i++) {
        begin(&s, 0, hour_us);
        end(&s);
        assert_int_equal(s.calls, 1);
    }
}

static void a_worker_that_was_not_started_is_not_stopped(void **state)
{
    struct worker w;

    (void)state;
    worker_init(&w);
    worker_stop(&w);
    worker_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_works_at_intervals),
        cmocka_unit_test(it_does_not_come_early),
        cmocka_unit_test(it_is_woken_before_its_time),
        cmocka_unit_test(a_wake_before_the_start_is_kept),
        cmocka_unit_test(a_stop_ends_every_wait),
        cmocka_unit_test(a_first_call_at_once_is_always_made),
        cmocka_unit_test(a_worker_that_was_not_started_is_not_stopped),
    };

    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
