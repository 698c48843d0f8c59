/* test_published.c - a pointer that is replaced while threads read: no reader sees freed data. */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/published.h"

enum { READERS = 6, WRITERS = 2, WORDS = 16, GRAVES = 64 };
#define ALIVE UINT64_C(0xa11fea11fea11fe0)
#define GONE UINT64_C(0xdeaddeaddeaddead)

/* All words say the same: ALIVE, and GONE from when it may be freed. */
struct payload {
    _Atomic uint64_t words[WORDS];
};

struct scene {
    struct published published;
    pthread_barrier_t begin;
    atomic_bool over;
    atomic_long visits, stale;
    int replacements;
};

static struct payload *new_payload(void)
{
    struct payload *p = malloc(sizeof *p);

    if (!p)
        abort();
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&p->words[i], ALIVE, memory_order_relaxed);
    return p;
}

/* Old payloads are freed later, so that a late reader is detected and does not crash. */
struct graves {
    struct payload *graves[GRAVES];
    size_t next;
};

static void bury(struct graves *g, const void *gone)
{
    struct payload *p = (struct payload *)gone;

    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&p->words[i], GONE, memory_order_relaxed);
    free(g->graves[g->next]);
    g->graves[g->next] = p;
    g->next = (g->next + 1) % GRAVES;
}

static void free_all(struct graves *g)
{
    for (size_t i = 0; i < GRAVES; i++)
        free(g->graves[i]);
}

static void look_at(struct scene *s, const struct payload *p, bool twice)
{
    for (int round = 0; round <= twice; round++) {
        for (int i = 0; i < WORDS; i++)
            if (atomic_load_explicit(&p->words[i], memory_order_relaxed) != ALIVE)
                s->stale++;
        if (twice)
            sched_yield(); /* long enough for a writer to come along */
    }
}

static void *read_on(void *ctx)
{
    struct scene *s = ctx;
    long visits = 0;

    pthread_barrier_wait(&s->begin);
    while (!s->over) {
        struct published_visit visit = published_enter(&s->published);

        look_at(s, visit.current, ++visits % 16 == 0);
        published_leave(&s->published, visit);
        atomic_fetch_add_explicit(&s->visits, 1, memory_order_relaxed);
    }
    return NULL;
}

static void *replace_on(void *ctx)
{
    struct scene *s = ctx;
    struct graves graves = { 0 };

    pthread_barrier_wait(&s->begin);
    for (int i = 0; i < s->replacements || s->visits <= READERS; i++)
        bury(&graves, published_replace(&s->published, new_payload()));
    free_all(&graves);
    return NULL;
}

static void readers_never_see_what_was_freed(void **state)
{
    pthread_t readers[READERS], writers[WRITERS];
    struct scene s = { .replacements = scaled(2000) };

    (void)state;
    published_init(&s.published, new_payload());
    pthread_barrier_init(&s.begin, NULL, READERS + WRITERS);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, &s), 0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, replace_on, &s), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    s.over = true;
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert_int_equal(s.stale, 0);
    free((void *)published_replace(&s.published, NULL));
    published_done(&s.published);
    pthread_barrier_destroy(&s.begin);
}

struct waiting {
    struct published published;
    atomic_bool replaced;
};

static void *replace_once(void *ctx)
{
    struct waiting *w = ctx;

    published_replace(&w->published, NULL);
    w->replaced = true;
    return NULL;
}

/* A reader that slept between reading the phase and counting itself in is under the phase that
 * is no longer current. */
static struct published_visit enter_under(struct published *p, unsigned phase)
{
    const struct published_visit visit = { atomic_load(&p->current), 3, phase };

    atomic_fetch_add(&p->lanes[visit.lane].readers[phase], 1);
    return visit;
}

static void a_writer_waits_for_readers_of_the_old_version(void **state)
{
    static const char value[] = "value";
    struct waiting w;

    (void)state;
    published_init(&w.published, NULL);
    for (int i = 0; i < 4; i++) {
        struct published_visit visit;
        pthread_t writer;

        published_replace(&w.published, value);
        visit = enter_under(&w.published, (atomic_load(&w.published.phase) + (unsigned)i) & 1);
        w.replaced = false;
        assert_int_equal(pthread_create(&writer, NULL, replace_once, &w), 0);
        while (atomic_load(&w.published.current)) /* it has swapped … */
            sched_yield();
        for (int turn = 0; turn < 100; turn++) /* … and waits */
            sched_yield();
        assert_false(w.replaced);
        published_leave(&w.published, visit);
        pthread_join(writer, NULL);
        assert_true(w.replaced);
    }
    published_done(&w.published);
}

/* ---- while it waits --------------------------------------------------------------------------- */

struct sleeper {
    struct published published;
    _Atomic pid_t thread;
    double cpu; /* seconds, for one replacement */
};

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *replace_and_measure(void *ctx)
{
    struct sleeper *s = ctx;
    const double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);

    s->thread = gettid();
    published_replace(&s->published, NULL);
    s->cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
    return NULL;
}

/* As the kernel has it: 'S' is asleep. */
static char state_of(pid_t thread)
{
    char path[64], line[512] = "";
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f))
        fail_msg("cannot read %s", path);
    fclose(f);
    return strrchr(line, ')')[2];
}

/* A writer that has swapped, and sleeps until this visit is over. */
static struct published_visit keep_waiting(struct sleeper *s, pthread_t *writer)
{
    static const char value[] = "value";
    const double until = seconds_of(CLOCK_MONOTONIC) + 10;
    struct published_visit visit;

    published_replace(&s->published, value);
    visit = published_enter(&s->published);
    s->thread = 0;
    assert_int_equal(pthread_create(writer, NULL, replace_and_measure, s), 0);
    while (s->thread == 0 || atomic_load(&s->published.current) || state_of(s->thread) != 'S') {
        sched_yield();
        assert_true(seconds_of(CLOCK_MONOTONIC) < until);
    }
    return visit;
}

static void a_writer_that_waits_long_takes_no_processor(void **state)
{
    const double long_time = 0.3;
    struct sleeper s;
    struct published_visit visit;
    pthread_t writer;
    double until;

    (void)state;
    published_init(&s.published, NULL);
    visit = keep_waiting(&s, &writer);
    until = seconds_of(CLOCK_MONOTONIC) + long_time;
    while (seconds_of(CLOCK_MONOTONIC) < until)
        sched_yield();
    published_leave(&s.published, visit);
    pthread_join(writer, NULL);
    assert_true(s.cpu < long_time / 10);
    published_done(&s.published);
}

static void the_last_reader_wakes_the_writer(void **state)
{
    const int rounds = 50;
    struct sleeper s;
    int late = 0;

    (void)state;
    published_init(&s.published, NULL);
    for (int i = 0; i < rounds; i++) {
        pthread_t writer;
        struct published_visit visit = keep_waiting(&s, &writer);
        const double began = seconds_of(CLOCK_MONOTONIC);

        published_leave(&s.published, visit);
        pthread_join(writer, NULL);
        late += seconds_of(CLOCK_MONOTONIC) - began > 0.02; /* it looks by itself after 0.1 */
    }
    assert_true(late < rounds / 2);
    published_done(&s.published);
}

static void a_reader_sees_the_newest(void **state)
{
    static const char values[] = "abc";
    struct published p;

    (void)state;
    published_init(&p, NULL);
    for (int i = 0; i < 10; i++) {
        const char *next = &values[i % 3];
        struct published_visit visit;

        published_replace(&p, next);
        visit = published_enter(&p);
        assert_ptr_equal(visit.current, next);
        published_leave(&p, visit);
        assert_ptr_equal(published_replace(&p, NULL), next);
    }
    published_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_never_see_what_was_freed),
        cmocka_unit_test(a_writer_waits_for_readers_of_the_old_version),
        cmocka_unit_test(a_writer_that_waits_long_takes_no_processor),
        cmocka_unit_test(the_last_reader_wakes_the_writer),
        cmocka_unit_test(a_reader_sees_the_newest),
    };

    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
