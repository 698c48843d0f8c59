/* test_threads.c - many threads, one handle: limits stay exact, and nothing races. */
#include "support/limiter.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "limit/limit.h"

#define FOREVER (52 * INT64_C(604800000)) /* 52 weeks: nothing drains during a test */

/* ---- a thread_pool of threads ------------------------------------------------------------------ */

enum { CREW = 16 };

typedef void job_fn(void *ctx, int member);

/* Threads that start on a job together, again and again. Assertions are for who runs them. */
struct thread_pool {
    pthread_t threads[CREW];
    pthread_barrier_t begin, end;
    job_fn *job; /* NULL: go home */
    void *ctx;
    atomic_int next_member;
};

static void *work(void *ctx)
{
    struct thread_pool *c = ctx;
    int member = c->next_member++;

    for (;;) {
        pthread_barrier_wait(&c->begin);
        if (!c->job)
            return NULL;
        c->job(c->ctx, member);
        pthread_barrier_wait(&c->end);
    }
}

static void thread_pool_init(struct thread_pool *c)
{
    *c = (struct thread_pool){ .next_member = 0 };
    pthread_barrier_init(&c->begin, NULL, CREW + 1);
    pthread_barrier_init(&c->end, NULL, CREW + 1);
    for (int i = 0; i < CREW; i++)
        assert_int_equal(pthread_create(&c->threads[i], NULL, work, c), 0);
}

static void thread_pool_run(struct thread_pool *c, job_fn *job, void *ctx)
{
    c->job = job;
    c->ctx = ctx;
    pthread_barrier_wait(&c->begin);
    pthread_barrier_wait(&c->end);
}

static void thread_pool_done(struct thread_pool *c)
{
    c->job = NULL;
    pthread_barrier_wait(&c->begin);
    for (int i = 0; i < CREW; i++)
        pthread_join(c->threads[i], NULL);
    pthread_barrier_destroy(&c->begin);
    pthread_barrier_destroy(&c->end);
}

static int64_t standing_clock(void *ctx)
{
    (void)ctx;
    return NOW;
}

/* ---- one key ---------------------------------------------------------------------------- */

enum { LIMIT = 1000, BATCH = 3 };

struct hammering {
    weir *w;
    weir_request request;
    int admitted[CREW];
    atomic_int errors;
};

/* Until refused; every other thread asks for several at once. */
static void hammer(void *ctx, int member)
{
    struct hammering *h = ctx;
    const weir_request batch[BATCH] = { h->request, h->request, h->request };
    weir_answer answers[BATCH];
    bool refused = false;
    int n = member % 2 ? BATCH : 1;

    for (int turn = 0; !refused; turn++) {
        if (n == 1 ? weir_check(h->w, batch, answers, NULL)
                   : weir_check_many(h->w, batch, answers, BATCH, NULL)) {
            h->errors++;
            return;
        }
        for (int i = 0; i < n; i++) {
            h->admitted[member] += answers[i].allowed;
            refused = refused || !answers[i].allowed;
        }
        if (turn % 8 == 0) /* or the first to wake up would take all */
            sched_yield();
    }
}

static void sixteen_threads_on_one_key_get_exactly_its_limit_every_time(void **state)
{
    const int runs = scaled(1000);
    weir *w = open_with(&(weir_options){ .clock = standing_clock });
    int together = 0;
    struct thread_pool thread_pool;

    (void)state;
    thread_pool_init(&thread_pool);
    for (int run = 0; run < runs; run++) {
        char key[32];
        struct hammering h = { .w = w };
        int admitted = 0, members = 0;

        snprintf(key, sizeof key, "run %d", run);
        h.request = (weir_request){
            .key = key,
            .limit = LIMIT,
            .window_ms = FOREVER,
            .algorithm = (weir_algorithm)(1 + run % ALGORITHM_COUNTED),
        };
        thread_pool_run(&thread_pool, hammer, &h);
        for (int i = 0; i < CREW; i++) {
            admitted += h.admitted[i];
            members += h.admitted[i] > 0;
        }
        assert_int_equal(h.errors, 0);
        assert_int_equal(admitted, LIMIT);
        assert_int_equal(ask(weir_peek, w, &h.request).remaining, 0);
        together += members;
    }
    printf("# %d runs, %d of 16 threads admitted in each\n", runs, together / runs);
    assert_true(together > runs); /* they did meet */
    thread_pool_done(&thread_pool);
    assert_int_equal(stats_of(w).keys, runs);
    weir_close(w);
}

/* ---- three rules ------------------------------------------------------------------------ */

enum { HOSTS = 4, TRIES = 20 };

static const struct {
    int global, host, user, admitted;
} cases[] = {
    { 100, 30, 8, 100 },  /* users and hosts bind first, then all together */
    { 1000, 30, 8, 120 }, /* hosts */
    { 1000, 1000, 8, 128 },
    { 50, 1000, 1000, 50 },
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Each case with the algorithms in turn: "case-0-fixed_window" … */
static char *text_of_cases(void)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    fprintf(f, "version: 1\npolicies:\n");
    for (int c = 0; c < CASES; c++)
        for (int a = 0; a < 5; a++) {
            const int limits[] = { cases[c].global, cases[c].host, cases[c].user };
            static const char *const names[] = { "global", "host", "user" };

            fprintf(f, "  case-%d-%d:\n    rules:\n", c, a);
            for (int r = 0; r < 3; r++)
                fprintf(f, "      %s: {limit: %d per 52w, algorithm: %s, by: [run%s%s]}\n",
                        names[r], limits[r],
                        weir_algorithm_name((weir_algorithm)(1 + (a + r) % ALGORITHM_COUNTED)),
                        r ? ", " : "", r ? names[r] : "");
        }
    fclose(f);
    return text;
}

struct joint {
    weir *w;
    char policy[32], run[32];
    int admitted[CREW];
    atomic_int errors;
};

static weir_err ask_jointly(ask_fn *how, const struct joint *j, int member, weir_answer *a)
{
    char host[16], user[16];
    const weir_attribute attributes[] = { { "run", j->run, 0 },
                                          { "host", host, 0 },
                                          { "user", user, 0 } };
    const weir_request request = { .policy = j->policy,
                                   .attributes = attributes,
                                   .attribute_count = 3 };

    snprintf(host, sizeof host, "%d", member % HOSTS);
    snprintf(user, sizeof user, "%d", member);
    return how(j->w, &request, a, NULL);
}

static void try_jointly(void *ctx, int member)
{
    struct joint *j = ctx;
    weir_answer a;

    for (int i = 0; i < TRIES; i++) {
        if (ask_jointly(weir_check, j, member, &a))
            j->errors++;
        j->admitted[member] += a.allowed;
        if (i % 4 == 0)
            sched_yield();
    }
}

/* What a rule has charged is what was admitted under it, to the last one. */
static void assert_charged_as_admitted(const struct joint *j, int c)
{
    int all = 0, by_host[HOSTS] = { 0 };

    for (int i = 0; i < CREW; i++) {
        all += j->admitted[i];
        by_host[i % HOSTS] += j->admitted[i];
    }
    assert_int_equal(all, cases[c].admitted);
    for (int i = 0; i < CREW; i++) {
        weir_answer a;

        assert_int_equal(ask_jointly(weir_peek, j, i, &a), WEIR_OK);
        assert_false(a.allowed); /* all tried more often than they could be let in */
        assert_int_equal(rule_of(&a, "global")->remaining, cases[c].global - all);
        assert_int_equal(rule_of(&a, "host")->remaining, cases[c].host - by_host[i % HOSTS]);
        assert_int_equal(rule_of(&a, "user")->remaining, cases[c].user - j->admitted[i]);
    }
}

static void no_rule_is_charged_by_a_denied_check(void **state)
{
    char *text = text_of_cases();
    weir *w = open_with(&(weir_options){ .policy_text = text, .clock = standing_clock });
    struct thread_pool thread_pool;

    (void)state;
    free(text);
    thread_pool_init(&thread_pool);
    for (int run = 0; run < scaled(1000); run++) {
        struct joint j = { .w = w };
        const int c = run % CASES;

        snprintf(j.policy, sizeof j.policy, "case-%d-%d", c, run / CASES % 5);
        snprintf(j.run, sizeof j.run, "%d", run);
        thread_pool_run(&thread_pool, try_jointly, &j);
        assert_int_equal(j.errors, 0);
        assert_charged_as_admitted(&j, c);
    }
    thread_pool_done(&thread_pool);
    weir_close(w);
}

/* ---- everything at once ----------------------------------------------------------------- */

enum { ASKERS = CREW - 2, HOT_KEYS = 100, HOT_LIMIT = 3, EXTRAS = 20, COLD_KEYS = 20000 };

/* Of the thread_pool one reloads, one ticks and lets time jump, the others ask. */
struct melee {
    weir *w;
    char path[32];
    int turns; /* of each asker */
    uint64_t seed;
    _Atomic int64_t now;
    atomic_int asking, errors, unreadable, reloads, over_limit;
    atomic_int hot[HOT_KEYS]; /* admitted */
};

static int64_t jumping_clock(void *ctx)
{
    struct melee *m = ctx;

    return m->now;
}

/* `hot` is the same each time, the other limits change, and policies come and go. */
static void write_variant(const struct melee *m, int n)
{
    FILE *f = fopen(m->path, "w");

    if (!f)
        abort();
    fprintf(f,
            "version: 1\n"
            "policies:\n"
            "  hot: {limit: %d per 52w, by: user}\n"
            "  cold: {limit: %d per 5s, by: user, algorithm: %s}\n"
            "  three:\n"
            "    rules:\n"
            "      all:   {limit: 1000000 per 1s, algorithm: sliding_counter}\n"
            "      user:  {limit: %d per 2s, by: user, shadow_limit: 50 per 2s}\n"
            "      trial: {limit: 5 per 1s, by: user, mode: shadow, algorithm: leaky_bucket}\n"
            "  extra-%d: {rules: {rule-%d: {limit: 1000 per 1s}}}\n",
            HOT_LIMIT, 1000 + n, n % 2 ? "token_bucket" : "sliding_window", 500 + n, n % EXTRAS,
            n % EXTRAS);
    fclose(f);
}

static void reload_on(struct melee *m)
{
    for (int n = 0; m->asking > 0; n++) {
        write_variant(m, n);
        if (weir_reload(m->w, NULL))
            m->errors++;
        m->reloads++;
    }
}

static void tick_on(struct melee *m)
{
    struct dice dice = { m->seed };
    weir_stats stats;

    while (m->asking > 0) {
        m->now += dice_below(&dice, 100);
        weir_tick(m->w);
        weir_get_stats(m->w, &stats);
        if (stats.keys > stats.max_keys + CREW) /* each thread may have one too many */
            m->over_limit++;
        sched_yield();
    }
}

/* Policies that are there only sometimes: if there was an answer, its names stay readable. */
struct memory_of_names {
    const char *policies[EXTRAS], *rules[EXTRAS];
};

static void ask_extra(struct melee *m, struct memory_of_names *names, int extra)
{
    char policy[32], rule[32];
    const weir_request request = { .policy = policy };
    weir_answer a;
    weir_err err;

    snprintf(policy, sizeof policy, "extra-%d", extra);
    snprintf(rule, sizeof rule, "rule-%d", extra);
    err = weir_check(m->w, &request, &a, NULL);
    if (err && err != WEIR_ENOPOLICY)
        m->errors++;
    if (!err) {
        names->policies[extra] = a.policy;
        names->rules[extra] = a.rule;
    }
    if (names->policies[extra] &&
        (strcmp(names->policies[extra], policy) != 0 || strcmp(names->rules[extra], rule) != 0))
        m->unreadable++;
}

static void ask_hot(struct melee *m, int which)
{
    char user[32];
    const weir_request request = { .policy = "hot", .key = user };
    weir_answer a;

    snprintf(user, sizeof user, "hot %d", which);
    if (weir_check(m->w, &request, &a, NULL))
        m->errors++;
    else
        m->hot[which] += a.allowed;
}

static void ask_cold(struct melee *m, struct dice *dice)
{
    static ask_fn *const verbs[] = { weir_check, weir_check, weir_peek, weir_refund, weir_reset };
    char users[4][32];
    weir_request requests[4];
    weir_answer answers[4];

    for (int i = 0; i < 4; i++) {
        snprintf(users[i], sizeof users[i], "%d", (int)dice_below(dice, COLD_KEYS));
        requests[i] = (weir_request){ .policy = i % 2 ? "three" : "cold", .key = users[i] };
        if (verbs[dice_below(dice, 5)](m->w, &requests[i], &answers[i], NULL))
            m->errors++;
    }
    if (weir_check_many(m->w, requests, answers, 4, NULL))
        m->errors++;
}

static void mingle(void *ctx, int member)
{
    struct melee *m = ctx;
    struct dice dice = { m->seed + (uint64_t)member };
    struct memory_of_names names = { 0 };

    if (member == 0) {
        reload_on(m);
    } else if (member == 1) {
        tick_on(m);
    } else {
        for (int i = 0; i < m->turns; i++) {
            ask_cold(m, &dice);
            ask_hot(m, (int)dice_below(&dice, HOT_KEYS));
            ask_extra(m, &names, (int)dice_below(&dice, EXTRAS));
        }
        m->asking--;
    }
}

static void reloading_expiring_evicting_and_growing_do_not_disturb_checks(void **state)
{
    struct melee m = {
        .path = "/tmp/weir-melee-XXXXXX",
        .turns = scaled(5000),
        .seed = dice_new().state,
        .now = NOW,
        .asking = ASKERS,
    };
    struct thread_pool thread_pool;
    weir_stats stats;

    (void)state;
    assert_true(close(mkstemp(m.path)) == 0);
    write_variant(&m, 0);
    m.w = open_with(&(weir_options){
        .policy_file = m.path,
        .max_keys = 9000, /* two shards, too few for all */
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
        .clock = jumping_clock,
        .clock_ctx = &m,
    });
    thread_pool_init(&thread_pool);
    thread_pool_run(&thread_pool, mingle, &m);
    thread_pool_done(&thread_pool);
    stats = stats_of(m.w);
    printf("# %d reloads, %lld ms, %lld keys evicted, %lld expired\n", m.reloads,
           (long long)(m.now - NOW), (long long)stats.evicted_keys, (long long)stats.expired_keys);

    assert_int_equal(m.errors, 0);
    assert_int_equal(m.unreadable, 0);
    assert_int_equal(m.over_limit, 0);
    for (int i = 0; i < HOT_KEYS; i++) /* no flood makes a limited key forgotten */
        assert_int_equal(m.hot[i], HOT_LIMIT);
    assert_true(m.reloads > 0);
    assert_true(stats.keys <= stats.max_keys);
    assert_true(stats.evicted_keys + stats.expired_keys > 0);
    unlink(m.path);
    weir_close(m.w);
}

/* ---- growth ----------------------------------------------------------------------------- */

enum { INSERTERS = 4 };

struct inserting {
    weir *w;
    int keys; /* of each inserter */
    atomic_int errors, wrong;
};

/* Keys differ in how much of them is used, so that none can pass for another. */
static weir_answer use_key(struct inserting *s, ask_fn *how, int n)
{
    char key[32];
    const weir_request request = {
        .key = key,
        .limit = 10,
        .window_ms = FOREVER,
        .algorithm = n % 3 ? WEIR_TOKEN_BUCKET : WEIR_SLIDING_WINDOW,
        .cost = 1 + n % 7,
    };
    weir_answer a = { 0 };

    snprintf(key, sizeof key, "key %d", n);
    if (how(s->w, &request, &a, NULL))
        s->errors++;
    return a;
}

static void insert(void *ctx, int member)
{
    struct inserting *s = ctx;

    if (member >= INSERTERS)
        return;
    for (int i = 0; i < s->keys; i++) {
        const int n = i * INSERTERS + member;

        if (use_key(s, weir_check, n).remaining != 10 - (1 + n % 7))
            s->wrong++;
        if (i % 16 == 0 && use_key(s, weir_peek, n / 2).remaining > 10)
            s->wrong++;
    }
}

static void a_table_that_grows_under_four_threads_loses_no_key(void **state)
{
    weir *w = open_with(&(weir_options){ .clock = standing_clock });
    struct inserting s = { .w = w, .keys = scaled(300000) / INSERTERS };
    struct thread_pool thread_pool;

    (void)state;
    thread_pool_init(&thread_pool);
    thread_pool_run(&thread_pool, insert, &s);
    thread_pool_done(&thread_pool);
    assert_int_equal(s.errors, 0);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(stats_of(w).keys, s.keys * INSERTERS);
    assert_int_equal(stats_of(w).evicted_keys, 0);
    assert_int_equal(stats_of(w).expired_keys, 0);
    for (int n = 0; n < s.keys * INSERTERS; n++)
        if (use_key(&s, weir_peek, n).remaining != 10 - (1 + n % 7))
            fail_msg("key %d was not counted exactly", n);
    weir_close(w);
}

/* ---- handles ---------------------------------------------------------------------------- */

static void open_and_close(void *ctx, int member)
{
    atomic_int *errors = ctx;
    weir_request request = { .policy = "p", .cost = 1 + member };

    for (int i = 0; i < 5; i++) {
        const weir_options options = { .policy_text = POLICIES("  p: {limit: 16 per 52w}\n"),
                                       .max_keys = 100 };
        weir_answer a;
        weir *w;

        if (weir_open(&w, &options, NULL)) {
            ++*errors;
            continue;
        }
        if (weir_check(w, &request, &a, NULL) || a.remaining != 15 - member)
            ++*errors;
        weir_close(w);
    }
}

static void handles_know_nothing_of_each_other(void **state)
{
    atomic_int errors = 0;
    struct thread_pool thread_pool;

    (void)state;
    thread_pool_init(&thread_pool);
    thread_pool_run(&thread_pool, open_and_close, &errors);
    thread_pool_done(&thread_pool);
    assert_int_equal(errors, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_threads_on_one_key_get_exactly_its_limit_every_time),
        cmocka_unit_test(no_rule_is_charged_by_a_denied_check),
        cmocka_unit_test(reloading_expiring_evicting_and_growing_do_not_disturb_checks),
        cmocka_unit_test(a_table_that_grows_under_four_threads_loses_no_key),
        cmocka_unit_test(handles_know_nothing_of_each_other),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
