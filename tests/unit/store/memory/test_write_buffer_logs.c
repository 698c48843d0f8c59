/* test_write_buffer_logs.c - the rules of write_buffer.c that are about logs: turns that overlap leave
 * the log of each key as its last decision did, bucket by bucket. */
#include "support/trial.h"

#include <pthread.h>

enum {
    KEYS = 4,
    BUCKETS = 200,
    BUCKET = 10, /* ms */
    MOST_TURN = 12,
    TURNS = 3,
    THREADS = 3,
    LASTING = 1000000000,
    MANY = 100, /* more than are appended without memory of their own */
};
#define BEGIN ((int64_t)1700000000000)

static const struct rule counting = {
    .algorithm = WEIR_SLIDING_WINDOW,
    .limit = 1000000,
    .window = LASTING,
    .burst = 1000000,
    .precision = BUCKET,
};

static struct key key_of(int64_t k)
{
    return trial_key(0, k);
}

static size_t bucket_of(int64_t start)
{
    const size_t bucket = (size_t)((start - BEGIN) / BUCKET);

    assert_true(start >= BEGIN && bucket < BUCKETS);
    return bucket;
}

/* Questions of one thread, from the first to the commit. */
struct asker {
    struct pending pending;
    struct charge charges[MOST_TURN][2];
    struct question questions[MOST_TURN];
    size_t count;
};

static void note_done(struct question *q)
{
    assert_false(q->is_unkept);
    assert_int_equal(q->err, WEIR_OK);
}

static void submit_at(struct trial *t, struct asker *a, enum verb verb, int64_t now, int64_t key,
                      int64_t second)
{
    struct charge *c = a->charges[a->count];
    struct question *q = &a->questions[a->count];

    assert_true(a->count < MOST_TURN);
    c[0] = (struct charge){ .rule = &counting, .key = key_of(key), .cost = 1 };
    c[1] = (struct charge){ .rule = &counting, .key = key_of(second), .cost = 1 };
    *q = (struct question){
        .verb = verb,
        .ask = { .now = now },
        .charges = c,
        .count = second == key ? 1 : 2,
        .done = note_done,
    };
    a->count++;
    a->pending.is_long = true;
    t->store->ops->submit(t->store, &a->pending, q);
}

static void check(struct trial *t, struct asker *a, int64_t key)
{
    submit_at(t, a, VERB_CHECK, t->now, key, key);
}

static void commit(struct trial *t, struct asker *a)
{
    t->store->ops->commit(t->store, &a->pending);
    a->count = 0;
}

struct found {
    int64_t counts[KEYS][BUCKETS];
    uint64_t records;
};

static void find_buckets(void *ctx, const struct record *r, const struct sliding_window *log,
                         const struct kept_block *block)
{
    struct found *f = ctx;

    (void)block;
    for (int64_t k = 0; k < KEYS; k++)
        for (uint32_t i = 0; r->key.high == key_of(k).high && i < log_length(log); i++)
            f->counts[k][bucket_of(log_at(log, i).start)] = log_at(log, i).count;
}

static void find_on(struct trial *t, struct sim *disk, struct found *f)
{
    const weir_allocator allocator = heap();
    const struct secret_ids ids = trial_secret_ids();
    struct table *table = trial_table(t);
    struct recovery recovery;
    weir_diag diag = { "" };

    if (recovery_run(&disk->dir, &(struct restoring){ table, BEGIN, 1 }, &ids, RECOVERY_LOOK,
                     &allocator, &recovery, &diag))
        fail_msg("%s", diag.text);
    *f = (struct found){ .records = recovery.records };
    for (size_t i = 0; i < table_shards(table); i++)
        table_export(table, i, BEGIN, find_buckets, f);
    table_free(table);
}

/* What the next process finds if this one is killed now. */
static struct found find_after_kill(struct trial *t)
{
    struct sim *disk = sim_cut(t->sim, SIM_KEPT, SIM_KEPT, 0);
    struct found f;

    find_on(t, disk, &f);
    sim_free(disk);
    return f;
}

static void assert_buckets(struct trial *t, const int64_t *counts, size_t n)
{
    const struct found f = find_after_kill(t);

    for (size_t i = 0; i < n; i++)
        assert_int_equal(f.counts[1][i], counts[i]);
}

static void begin(struct trial *t, const char *sync, bool maps)
{
    weir_diag diag;

    trial_init(t, 1, sync, LASTING);
    assert_int_equal(t->now, BEGIN);
    t->sim->can_map = maps;
    assert_int_equal(trial_open(t, &diag), WEIR_OK);
}

static void end(struct trial *t)
{
    trial_close(t);
    trial_done(t);
}

/* ---- by hand ------------------------------------------------------------------------------- */

static void H1_a_log_that_has_grown_out_of_its_cell_is_still_in_the_write_buffer(void **state)
{
    struct asker a = { 0 }, b = { 0 };
    struct trial t;

    (void)state;
    begin(&t, "os", true);
    for (int i = 0; i < SLIDING_WINDOW_NEAR; i++, t.now += BUCKET)
        check(&t, &a, 1);
    check(&t, &b, 1);
    commit(&t, &b);
    commit(&t, &a);
    assert_buckets(&t, (int64_t[]){ 1, 1, 1, 1 }, SLIDING_WINDOW_NEAR + 1);
    end(&t);
}

static void H4_of_a_log_all_buckets_since_its_record_are_appended(void **state)
{
    struct asker a = { 0 }, b = { 0 };
    struct trial t;

    (void)state;
    begin(&t, "os", true);
    check(&t, &a, 1);
    commit(&t, &a);
    check(&t, &a, 1); /* two in the first bucket, */
    t.now += BUCKET;
    check(&t, &a, 1); /* … one in the second, */
    check(&t, &b, 1); /* … one more by another thread, */
    t.now += BUCKET;
    check(&t, &b, 1); /* … and its one in the third */
    commit(&t, &b);
    assert_buckets(&t, (int64_t[]){ 1, 2, 1 }, 3); /* of the first, what was answered */
    commit(&t, &a);
    assert_buckets(&t, (int64_t[]){ 2, 2, 1 }, 3);
    end(&t);
}

static void H4_of_a_log_what_was_given_back_meanwhile_stays_so(void **state)
{
    struct asker a = { 0 }, b = { 0 };
    struct trial t;

    (void)state;
    begin(&t, "os", true);
    check(&t, &a, 1);
    check(&t, &a, 1);
    commit(&t, &a);
    t.now += BUCKET;
    check(&t, &a, 1);
    submit_at(&t, &b, VERB_REFUND, t.now, 1, 1);
    submit_at(&t, &b, VERB_REFUND, t.now, 1, 1); /* the second bucket is gone */
    commit(&t, &b);
    commit(&t, &a);
    assert_buckets(&t, (int64_t[]){ 1, 0, 0 }, 3);
    t.now += BUCKET;
    check(&t, &a, 1);
    submit_at(&t, &b, VERB_RESET, t.now, 1, 1);
    commit(&t, &b);
    commit(&t, &a);
    assert_buckets(&t, (int64_t[]){ 0, 0, 0 }, 3);
    check(&t, &a, 1);
    submit_at(&t, &b, VERB_RESET, t.now, 1, 1);
    t.now += BUCKET;
    check(&t, &b, 1);
    commit(&t, &b);
    commit(&t, &a);
    assert_buckets(&t, (int64_t[]){ 0, 0, 0, 1 }, 4);
    end(&t);
}

/* A log that counts what is appended, and keeps it. */
struct counting_log {
    struct table_log log;
    size_t appends, count;
    struct record records[2 * MANY];
};

static uint64_t count_append(struct table_log *log, const struct record *records, size_t n)
{
    struct counting_log *l = (struct counting_log *)log;

    assert_true(l->count + n <= sizeof l->records / sizeof l->records[0]);
    memcpy(&l->records[l->count], records, n * sizeof *records);
    l->count += n;
    return ++l->appends;
}

struct failing {
    bool fails;
};

static void *fail_if_asked(void *ctx, void *block, size_t size)
{
    const struct failing *f = ctx;

    if (size > 0 && f->fails)
        return NULL;
    return heap().resize(heap().ctx, block, size);
}

static void check_in(struct table *table, int64_t now)
{
    struct charge c = { .rule = &counting, .key = key_of(1), .cost = 1 };
    struct question q = { .ask = { .now = now }, .charges = &c, .count = 1 };

    table_judge(table, &q);
    assert_true(q.allowed);
}

/* A reader that found some of them would not have those that others had appended before. */
static void H4_they_are_appended_as_one_however_many_they_are(void **state)
{
    struct failing failing = { false };
    const weir_allocator allocator = { fail_if_asked, &failing }, standard = heap();
    struct store_options options = { .max_keys = 1000, .allocator = allocator };
    struct counting_log log = { .log = { .append = count_append } };
    struct table *table;

    (void)state;
    log.log.write_buffers = write_buffers_new(&standard);
    assert_int_equal(table_new(&table, &options, NULL), WEIR_OK);
    table_keep_log(table, &log.log);
    for (int64_t i = 0; i < MANY; i++)
        check_in(table, BEGIN + i * BUCKET);
    assert_int_equal(log.count, MANY);
    failing.fails = true; /* then it is not told as kept, and nothing is appended */
    assert_true(table_keep_again(table, &log.records[0]) == MARK_LOST);
    assert_int_equal(log.count, MANY);
    failing.fails = false;
    log.appends = 0;
    for (size_t from = MANY - 1; from < MANY; from -= MANY / 10) {
        log.count = MANY;
        assert_true(table_keep_again(table, &log.records[from]) != MARK_LOST);
        assert_int_equal(log.count - MANY, MANY - from);
    }
    assert_int_equal(log.appends, 10);
    write_buffers_free(log.log.write_buffers);
    table_free(table);
}

static void H5_a_hot_key_is_one_record_of_each_bucket(void **state)
{
    struct asker a = { 0 };
    struct trial t;
    struct found f;
    uint64_t before;

    (void)state;
    begin(&t, "os", true);
    before = find_after_kill(&t).records;
    for (size_t i = 0; i < MOST_TURN; i++) {
        check(&t, &a, 1);
        t.now += i == MOST_TURN / 2 ? BUCKET : 0;
    }
    commit(&t, &a);
    f = find_after_kill(&t);
    assert_int_equal(f.counts[1][0], MOST_TURN / 2 + 1);
    assert_int_equal(f.counts[1][1], MOST_TURN / 2 - 1);
    assert_int_equal(f.records - before, 2);
    end(&t);
}

/* ---- by chance ----------------------------------------------------------------------------- */

/* What was charged in each bucket; by several threads. */
struct tally {
    _Atomic int64_t counts[KEYS][BUCKETS], all[KEYS];
};

static void tally_add(struct tally *to, const struct asker *a)
{
    for (size_t q = 0; q < a->count; q++)
        for (size_t c = 0; c < a->questions[q].count; c++)
            for (int64_t k = 0; k < KEYS; k++) {
                const struct charge *charge = &a->charges[q][c];

                if (charge->key.high == key_of(k).high)
                    to->counts[k][bucket_of(charge->step.next.sliding_window.start)]++;
            }
}

/* Crashes at disk operations: each finds what was answered, and nothing that was not asked. */
struct crashes {
    struct trial *trial;
    struct tally answered, asked;
    enum sim_fate writes;
    pthread_mutex_t lock;
    uint64_t seen, every, made;
};

static void crash_here(void *ctx, struct sim *s, enum sim_op op, const char *name)
{
    struct crashes *c = ctx;
    int64_t answered[KEYS][BUCKETS];
    struct sim *disk;
    struct found f;

    (void)name;
    pthread_mutex_lock(&c->lock);
    if (sim_changes(op) && c->seen++ % c->every == 0) {
        for (int k = 0; k < KEYS; k++)
            for (int i = 0; i < BUCKETS; i++)
                answered[k][i] = c->answered.counts[k][i];
        disk = sim_cut(s, c->writes, c->writes == SIM_LOST ? SIM_LOST : SIM_KEPT, c->seen);
        find_on(c->trial, disk, &f);
        sim_free(disk);
        c->made++;
        for (int k = 0; k < KEYS; k++) {
            int64_t all = 0;

            for (int i = 0; i < BUCKETS; i++) {
                all += f.counts[k][i];
                if (f.counts[k][i] < answered[k][i])
                    fail_msg("key %d: %lld in bucket %d, %lld answered", k,
                             (long long)f.counts[k][i], i, (long long)answered[k][i]);
            }
            assert_in_range(all, 0, c->asked.all[k]);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

static void begin_crashing(struct trial *t, struct crashes *c, const char *sync, bool maps,
                           uint64_t every)
{
    *c = (struct crashes){
        .trial = t,
        .writes = strcmp(sync, "always") == 0 ? SIM_LOST : SIM_KEPT,
        .every = every,
    };
    pthread_mutex_init(&c->lock, NULL);
    begin(t, sync, maps);
    t->sim->ctx = c;
    t->sim->before = crash_here;
}

static void end_crashing(struct trial *t, struct crashes *c)
{
    struct found f;

    t->sim->before = NULL;
    f = find_after_kill(t);
    for (int k = 0; k < KEYS; k++)
        for (int i = 0; i < BUCKETS; i++)
            assert_int_equal(f.counts[k][i], c->answered.counts[k][i]);
    assert_true(c->made > 0);
    pthread_mutex_destroy(&c->lock);
    end(t);
}

static void check_some(struct crashes *c, struct asker *a, struct dice *d, int64_t now)
{
    const int64_t key = dice_below(d, KEYS), second = dice_below(d, 8) ? key : dice_below(d, KEYS);

    c->asked.all[key]++;
    c->asked.all[second] += second != key;
    submit_at(c->trial, a, VERB_CHECK, now, key, second);
}

static void answer(struct crashes *c, struct asker *a)
{
    const struct asker asked = *a;

    commit(c->trial, a);
    tally_add(&c->answered, &asked);
}

static void overlap(const char *sync, bool maps)
{
    struct dice d = dice_new();
    struct asker askers[TURNS] = { 0 };
    struct crashes *c = malloc(sizeof *c);
    struct trial t;

    assert_non_null(c);
    begin_crashing(&t, c, sync, maps, (uint64_t)(5 - scaled(4)));
    for (int i = 0; i < scaled(3000); i++) {
        struct asker *a = &askers[dice_below(&d, TURNS)];

        if (a->count < MOST_TURN && dice_below(&d, 8) != 0)
            check_some(c, a, &d, t.now);
        else
            answer(c, a);
        if (dice_below(&d, 30) == 0 && t.now < BEGIN + (BUCKETS - 1) * BUCKET)
            t.now += BUCKET;
        if (dice_below(&d, 10) == 0)
            t.store->ops->tick(t.store, t.now);
    }
    for (int i = 0; i < TURNS; i++)
        answer(c, &askers[i]);
    end_crashing(&t, c);
    free(c);
}

static void a_crash_at_any_step_finds_each_bucket_that_was_answered(void **state)
{
    (void)state;
    overlap("os", true);
    overlap("os", false);
    overlap("50ms", true);
    overlap("always", true);
}

struct racer {
    struct crashes *crashes;
    _Atomic int64_t *now;
    uint64_t seed;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct dice d = { r->seed };
    struct asker a = { 0 };

    for (int i = 0; i < scaled(1500); i++) {
        const int64_t n = 1 + dice_below(&d, MOST_TURN);

        for (int64_t q = 0; q < n; q++)
            check_some(r->crashes, &a, &d, *r->now);
        answer(r->crashes, &a);
        if (dice_below(&d, 20) == 0 && *r->now < BEGIN + (BUCKETS - 1 - THREADS) * BUCKET)
            *r->now += BUCKET;
        if (r->seed % THREADS == 0 && dice_below(&d, 4) == 0)
            r->crashes->trial->store->ops->tick(r->crashes->trial->store, BEGIN);
    }
    return NULL;
}

static void race_all(const char *sync)
{
    struct dice d = dice_new();
    struct crashes *c = malloc(sizeof *c);
    _Atomic int64_t now = BEGIN;
    struct racer racers[THREADS];
    pthread_t threads[THREADS];
    struct trial t;

    assert_non_null(c);
    begin_crashing(&t, c, sync, false, 20);
    for (size_t i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){ c, &now, dice_roll(&d) / THREADS * THREADS + i };
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end_crashing(&t, c);
    free(c);
}

static void a_crash_while_threads_want_the_same_keys_finds_each_bucket_that_was_answered(
    void **state)
{
    (void)state;
    race_all("os");
    race_all("always");
}

/* ---- beside a table in memory -------------------------------------------------------------- */

/* A short window, so that buckets and keys come and go; and rules that lock their keys out. */
static struct rule rules_of_all[3];

static void make_rules(void)
{
    rules_of_all[0] = (struct rule){ .algorithm = WEIR_SLIDING_WINDOW, .limit = 5, .window = 300 };
    rules_of_all[1] = (struct rule){
        .algorithm = WEIR_SLIDING_WINDOW, .limit = 60, .window = 900, .precision = 7
    };
    rules_of_all[2] = (struct rule){
        .algorithm = WEIR_SLIDING_WINDOW, .limit = 8, .window = 200, .precision = 1, .block_for = 90
    };
    for (int i = 0; i < 3; i++)
        assert_int_equal(rule_check(&rules_of_all[i], NULL), WEIR_OK);
}

static void ask_both(struct trial *t, struct asker *a, struct dice *d)
{
    const int64_t kind = dice_below(d, 40), rule = dice_below(d, 3);
    const struct charge charge = { .rule = &rules_of_all[rule],
                                   .key = trial_key((size_t)rule, dice_below(d, KEYS)),
                                   .cost = 1 + dice_below(d, 2) };
    struct question *q = &a->questions[a->count];
    struct charge same = charge;
    struct question model;

    a->charges[a->count][0] = charge;
    *q = (struct question){
        .verb = kind < 4   ? VERB_REFUND
                : kind < 5 ? VERB_RESET
                : kind < 8 ? VERB_CHARGE
                           : VERB_CHECK,
        .ask = { .now = t->now },
        .charges = a->charges[a->count],
        .count = 1,
        .done = note_done,
    };
    model = *q;
    model.charges = &same;
    a->count++;
    a->pending.is_long = true;
    t->store->ops->submit(t->store, &a->pending, q);
    table_judge(t->model, &model);
    assert_int_equal(q->allowed, model.allowed);
}

static void assert_found(struct trial *t)
{
    struct sim *disk = sim_cut(t->sim, SIM_KEPT, SIM_KEPT, 0);

    assert_true(trial_recovered(t, disk) == trial_digest(t, t->model));
    sim_free(disk);
}

/* Whenever nothing is under way, the disk has all that the model has. */
static void whatever_turns_overlap_the_logs_found_are_those_in_memory(void **state)
{
    struct dice d = dice_new();

    (void)state;
    make_rules();
    for (int maps = 0; maps < 2; maps++) {
        struct asker askers[TURNS] = { 0 };
        struct trial t;

        begin(&t, "os", maps);
        for (int i = 0; i < scaled(4000); i++) {
            struct asker *a = &askers[dice_below(&d, TURNS)];

            if (a->count < MOST_TURN && dice_below(&d, 6) != 0)
                ask_both(&t, a, &d);
            else
                commit(&t, a);
            t.now += dice_below(&d, 4) ? 0 : dice_below(&d, dice_below(&d, 80) ? 12 : 1200);
            if (dice_below(&d, 20) != 0)
                continue;
            for (int k = 0; k < TURNS; k++)
                commit(&t, &askers[k]);
            assert_found(&t);
            if (dice_below(&d, 4) == 0)
                t.store->ops->tick(t.store, t.now);
        }
        for (int k = 0; k < TURNS; k++)
            commit(&t, &askers[k]);
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(H1_a_log_that_has_grown_out_of_its_cell_is_still_in_the_write_buffer),
        cmocka_unit_test(H4_of_a_log_all_buckets_since_its_record_are_appended),
        cmocka_unit_test(H4_of_a_log_what_was_given_back_meanwhile_stays_so),
        cmocka_unit_test(H4_they_are_appended_as_one_however_many_they_are),
        cmocka_unit_test(H5_a_hot_key_is_one_record_of_each_bucket),
        cmocka_unit_test(a_crash_at_any_step_finds_each_bucket_that_was_answered),
        cmocka_unit_test(
            a_crash_while_threads_want_the_same_keys_finds_each_bucket_that_was_answered),
        cmocka_unit_test(whatever_turns_overlap_the_logs_found_are_those_in_memory),
    };

    return cmocka_run_group_tests_name("write_buffer_logs", tests, NULL, NULL);
}
