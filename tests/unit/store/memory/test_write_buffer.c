/* test_write_buffer.c - the rules of write_buffer.c: turns that overlap leave each key as its last decision did. */
#include "support/trial.h"

#include <pthread.h>

enum { KEYS = 5, MOST_TURN = 8, TURNS = 3, THREADS = 4, LASTING = 1000000000 };

/* What is a whole value in the log, and what is not. */
static const struct rule rules[] = {
    { .algorithm = WEIR_FIXED_WINDOW, .limit = 1000000, .window = LASTING, .burst = 1000000 },
    {
        .algorithm = WEIR_SLIDING_WINDOW,
        .limit = 1000000,
        .window = LASTING,
        .burst = 1000000,
        .precision = 10,
    },
};
enum { RULES = sizeof rules / sizeof rules[0] };

static const struct rule *counting = rules;

static struct key key_of(int64_t k)
{
    return trial_key(0, k);
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

static void submit(struct trial *t, struct asker *a, enum verb verb, int64_t key, int64_t second)
{
    struct charge *c = a->charges[a->count];
    struct question *q = &a->questions[a->count];

    assert_true(a->count < MOST_TURN);
    c[0] = (struct charge){ .rule = counting, .key = key_of(key), .cost = 1 };
    c[1] = (struct charge){ .rule = counting, .key = key_of(second), .cost = 1 };
    *q = (struct question){
        .verb = verb,
        .ask = { .now = t->now },
        .charges = c,
        .count = second == key ? 1 : 2,
        .done = note_done,
    };
    a->count++;
    a->pending.is_long = true;
    t->store->ops->submit(t->store, &a->pending, q);
}

static void commit(struct trial *t, struct asker *a)
{
    t->store->ops->commit(t->store, &a->pending);
    a->count = 0;
}

struct found {
    int64_t counts[KEYS];
};

static void find_count(void *ctx, const struct record *r, const struct sliding_window *log,
                       const struct kept_block *block)
{
    struct found *f = ctx;

    (void)block;
    for (int64_t k = 0; k < KEYS; k++)
        if (r->key.high == key_of(k).high)
            f->counts[k] = log ? log_total(log) : r->packed.words[1];
}

/* What the next process finds if this one is killed now. */
static struct found find_after_kill(struct trial *t)
{
    const weir_allocator allocator = heap();
    const struct secret_ids ids = trial_secret_ids();
    struct sim *disk = sim_cut(t->sim, SIM_KEPT, SIM_KEPT, 0);
    struct table *table = trial_table(t);
    struct recovery recovery;
    struct found f = { { 0 } };
    weir_diag diag = { "" };

    if (recovery_run(&disk->dir, &(struct restoring){ table, t->now, 1 }, &ids, RECOVERY_LOOK,
                     &allocator, &recovery, &diag))
        fail_msg("%s", diag.text);
    for (size_t i = 0; i < table_shards(table); i++)
        table_export(table, i, t->now, find_count, &f);
    table_free(table);
    sim_free(disk);
    return f;
}

static void begin(struct trial *t, const struct rule *rule, const char *sync, bool maps)
{
    weir_diag diag;

    counting = rule;
    trial_init(t, 1, sync, LASTING);
    t->sim->can_map = maps;
    assert_int_equal(trial_open(t, &diag), WEIR_OK);
}

static void end(struct trial *t)
{
    trial_close(t);
    trial_done(t);
}

/* ---- by hand ------------------------------------------------------------------------------- */

static void H1_a_change_of_a_key_in_a_write_buffer_overtakes_it(void **state)
{
    (void)state;
    for (int way = 0; way < 2 * RULES; way++) {
        const int second = way % 2; /* by another write_buffer, or with two keys and none */
        struct asker a = { 0 }, b = { 0 };
        struct trial t;

        begin(&t, &rules[way / 2], "os", true);
        submit(&t, &a, VERB_CHECK, 1, 1);
        submit(&t, &b, VERB_CHECK, 1, second ? 2 : 1);
        commit(&t, &b);
        assert_int_equal(find_after_kill(&t).counts[1], 2); /* a's was charged, if not answered */
        commit(&t, &a);
        assert_int_equal(find_after_kill(&t).counts[1], 2);
        assert_int_equal(find_after_kill(&t).counts[2], second);
        end(&t);
    }
}

static void overtake_each_other(const struct rule *rule)
{
    struct asker a = { 0 }, b = { 0 };
    struct trial t;
    struct found f;

    begin(&t, rule, "os", true);
    submit(&t, &a, VERB_CHECK, 0, 0);
    submit(&t, &a, VERB_CHECK, 1, 1);
    submit(&t, &b, VERB_CHECK, 1, 1);
    submit(&t, &b, VERB_CHECK, 2, 2);
    submit(&t, &a, VERB_CHECK, 2, 2); /* now each has overtaken the other */
    commit(&t, &a);
    f = find_after_kill(&t);
    assert_int_equal(f.counts[0], 1);
    assert_int_equal(f.counts[1], 2);
    assert_int_equal(f.counts[2], 2);
    commit(&t, &b);
    f = find_after_kill(&t);
    assert_int_equal(f.counts[0], 1);
    assert_int_equal(f.counts[1], 2);
    assert_int_equal(f.counts[2], 2);
    end(&t);
}

static void H2_a_write_buffer_that_was_overtaken_appends_what_its_keys_are_by_then(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++)
        overtake_each_other(&rules[i]);
}

static void drop_and_make_anew(const struct rule *rule)
{
    struct asker a = { 0 }, b = { 0 };
    struct trial t;

    begin(&t, rule, "os", true);
    submit(&t, &a, VERB_CHECK, 1, 1);
    submit(&t, &a, VERB_CHECK, 1, 1);
    submit(&t, &b, VERB_RESET, 1, 1);
    submit(&t, &b, VERB_CHECK, 1, 1);
    commit(&t, &b);
    commit(&t, &a);
    assert_int_equal(find_after_kill(&t).counts[1], 1);

    submit(&t, &a, VERB_CHECK, 2, 2);
    submit(&t, &a, VERB_CHECK, 2, 2);
    t.now += 2 * (int64_t)LASTING; /* it expires, and is swept */
    t.store->ops->tick(t.store, t.now);
    submit(&t, &b, VERB_CHECK, 2, 2);
    commit(&t, &b);
    commit(&t, &a);
    assert_int_equal(find_after_kill(&t).counts[2], 1);
    end(&t);
}

static void H3_a_key_that_was_dropped_and_made_anew_overtakes_it_too(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++)
        drop_and_make_anew(&rules[i]);
}

static void take_a_long_turn(const struct rule *rule)
{
    enum { LONG = 3 * WRITE_BUFFER_RECORDS + 1 };
    static struct charge charges[LONG];
    static struct question questions[LONG];
    struct pending pending = { 0 };
    struct trial t;

    begin(&t, rule, "os", true);
    for (size_t i = 0; i < LONG; i++) {
        charges[i] = (struct charge){ .rule = counting, .key = key_of(3), .cost = 1 };
        questions[i] = (struct question){
            .ask = { .now = t.now }, .charges = &charges[i], .count = 1, .done = note_done
        };
        t.store->ops->submit(t.store, &pending, &questions[i]);
    }
    t.store->ops->commit(t.store, &pending);
    assert_int_equal(find_after_kill(&t).counts[3], LONG);
    end(&t);
}

static void a_turn_that_is_longer_than_a_write_buffer_is_kept_whole(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++)
        take_a_long_turn(&rules[i]);
}

/* ---- by chance ----------------------------------------------------------------------------- */

/* What it tells when it is answered: of a fixed window also what others have charged. */
static void note_answered(const struct asker *a, int64_t answered[KEYS])
{
    for (size_t q = 0; q < a->count; q++)
        for (size_t c = 0; c < a->questions[q].count; c++)
            for (int64_t k = 0; k < KEYS; k++) {
                const struct charge *charge = &a->charges[q][c];
                const int64_t count = charge->rule->algorithm == WEIR_SLIDING_WINDOW
                                          ? answered[k] + 1
                                          : charge->step.next.fixed_window.count;

                if (charge->key.high == key_of(k).high && answered[k] < count)
                    answered[k] = count;
            }
}

/* After every commit: what was answered is found, and nothing that was not decided. */
static void overlap(const struct rule *rule, const char *sync, bool maps)
{
    struct dice d = dice_new();
    struct asker askers[TURNS] = { 0 };
    int64_t decided[KEYS] = { 0 }, answered[KEYS] = { 0 };
    struct trial t;

    begin(&t, rule, sync, maps);
    for (int i = 0; i < scaled(3000); i++) {
        struct asker *a = &askers[dice_below(&d, TURNS)];
        const int64_t key = dice_below(&d, KEYS);
        struct found f;

        if (a->count < MOST_TURN && dice_below(&d, 4) != 0) {
            const int64_t second = dice_below(&d, 5) ? key : dice_below(&d, KEYS);

            submit(&t, a, VERB_CHECK, key, second);
            decided[key]++;
            decided[second] += second != key;
            continue;
        }
        note_answered(a, answered);
        commit(&t, a);
        f = find_after_kill(&t);
        for (int k = 0; k < KEYS; k++)
            assert_in_range(f.counts[k], answered[k], decided[k]);
        if (dice_below(&d, 10) == 0)
            t.store->ops->tick(t.store, t.now);
    }
    for (int i = 0; i < TURNS; i++)
        commit(&t, &askers[i]);
    for (int k = 0; k < KEYS; k++)
        assert_int_equal(find_after_kill(&t).counts[k], decided[k]);
    end(&t);
}

static void whatever_turns_overlap_what_was_answered_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++) {
        for (int maps = 0; maps < 2; maps++) {
            overlap(&rules[i], "os", maps);
            overlap(&rules[i], "50ms", maps);
        }
        overlap(&rules[i], "always", true);
    }
}

struct racer {
    struct trial *trial;
    uint64_t seed;
    int64_t charged[KEYS];
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct dice d = { r->seed };
    struct asker a = { 0 };

    for (int i = 0; i < scaled(2000); i++) {
        const int64_t n = 1 + dice_below(&d, MOST_TURN);

        for (int64_t q = 0; q < n; q++) {
            const int64_t key = dice_below(&d, KEYS);
            const int64_t second = dice_below(&d, 16) ? key : dice_below(&d, KEYS);

            submit(r->trial, &a, VERB_CHECK, key, second);
            r->charged[key]++;
            r->charged[second] += second != key;
        }
        commit(r->trial, &a);
    }
    return NULL;
}

static void threads_that_want_the_same_keys_leave_them_as_they_are_in_memory(void **state)
{
    struct racer racers[THREADS];
    pthread_t threads[THREADS];
    struct found f;
    struct trial t;

    (void)state;
    for (int way = 0; way < 2 * RULES; way++) {
        begin(&t, &rules[way / 2], "os", way % 2);
        for (int i = 0; i < THREADS; i++) {
            racers[i] = (struct racer){ .trial = &t, .seed = (uint64_t)i };
            assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        f = find_after_kill(&t);
        for (int k = 0; k < KEYS; k++) {
            int64_t charged = 0;

            for (int i = 0; i < THREADS; i++)
                charged += racers[i].charged[k];
            assert_int_equal(f.counts[k], charged);
        }
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(H1_a_change_of_a_key_in_a_write_buffer_overtakes_it),
        cmocka_unit_test(H2_a_write_buffer_that_was_overtaken_appends_what_its_keys_are_by_then),
        cmocka_unit_test(H3_a_key_that_was_dropped_and_made_anew_overtakes_it_too),
        cmocka_unit_test(a_turn_that_is_longer_than_a_write_buffer_is_kept_whole),
        cmocka_unit_test(whatever_turns_overlap_what_was_answered_is_found),
        cmocka_unit_test(threads_that_want_the_same_keys_leave_them_as_they_are_in_memory),
    };

    return cmocka_run_group_tests_name("write_buffer", tests, NULL, NULL);
}
