/* test_neighbours.c - keys with the same upper half, which lie side by side in one shard: questions about
 * them say and count the same as one after the other, and as if they lay apart. */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "store/memory/table_internal.h"

enum { EPOCH = 1000000, RULES = 6, IDENTITIES = 40 };

static struct table *new_table(int64_t max_keys)
{
    const struct store_options options = { .max_keys = max_keys, .allocator = heap() };
    struct table *t;

    assert_int_equal(table_new(&t, &options, NULL), WEIR_OK);
    return t;
}

static struct rule make_rule(weir_algorithm algorithm, int64_t limit, int64_t window)
{
    struct rule r = { .algorithm = algorithm, .limit = limit, .window = window };

    assert_int_equal(rule_check(&r, NULL), WEIR_OK);
    return r;
}

/* As key_beside() makes them. */
static struct key beside(int64_t identity, int64_t rule)
{
    struct dice of_identity = { (uint64_t)identity }, of_rule = { ~(uint64_t)rule };
    const struct key base = { dice_roll(&of_identity), dice_roll(&of_identity) };

    return key_beside(base, dice_roll(&of_rule));
}

static struct key apart(int64_t identity, int64_t rule)
{
    struct dice d = { (uint64_t)(identity * 1000 + rule + 1) };

    return (struct key){ dice_roll(&d), dice_roll(&d) };
}

static struct question question(struct table *t, enum verb verb, struct charge *charges, size_t n,
                                int64_t now, bool peek)
{
    struct question q = { .verb = verb, .ask = { now, peek }, .charges = charges, .count = n };

    table_judge(t, &q);
    assert_int_equal(q.err, WEIR_OK);
    return q;
}

static int64_t left(struct table *t, const struct rule *r, struct key key, int64_t now)
{
    struct charge c = { .rule = r, .key = key, .cost = 1 };

    question(t, VERB_CHECK, &c, 1, now, true);
    return c.step.decision.remaining;
}

static weir_stats stats_of(struct table *t)
{
    weir_stats stats;

    table_stats(t, &stats);
    return stats;
}

/* ---- the same as one after the other ------------------------------------------------------- */

static void make_rules(struct rule rules[RULES])
{
    rules[0] = make_rule(WEIR_FIXED_WINDOW, 20, 5000);
    rules[1] = make_rule(WEIR_SLIDING_WINDOW, 15, 3000);
    rules[2] = make_rule(WEIR_TOKEN_BUCKET, 30, 9000);
    rules[3] = make_rule(WEIR_SLIDING_COUNTER, 25, 7000);
    rules[4] = make_rule(WEIR_LEAKY_BUCKET, 10, 2000);
    rules[5] = make_rule(WEIR_TOKEN_BUCKET, 12, 4000);
    rules[5].block_for = 1500;
}

/* Some of the rules, each once, in any order. */
static size_t some_rules(struct dice *d, size_t which[RULES])
{
    const size_t n = (size_t)dice_below(d, RULES) + 1;

    for (size_t i = 0; i < RULES; i++)
        which[i] = i;
    for (size_t i = 0; i < n; i++) {
        const size_t k = i + (size_t)dice_below(d, (int64_t)(RULES - i)), other = which[k];

        which[k] = which[i];
        which[i] = other;
    }
    return n;
}

static void ask_alone(struct table *t, enum verb verb, struct charge *c, int64_t now, bool peek)
{
    question(t, verb, c, 1, now, peek);
}

/* What a question of several says, asked one by one of a table where none is beside another. */
static bool ask_one_by_one(struct table *t, enum verb verb, struct charge *charges, size_t n,
                           int64_t now, bool peek)
{
    bool allowed = true;

    if (verb != VERB_CHECK) {
        for (size_t i = 0; i < n; i++)
            ask_alone(t, verb, &charges[i], now, peek);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        ask_alone(t, verb, &charges[i], now, true);
        allowed &= charges[i].step.decision.allowed;
    }
    for (size_t i = 0; i < n; i++) {
        const bool counts = allowed || !charges[i].step.decision.allowed;

        ask_alone(t, verb, &charges[i], now, peek || !counts);
    }
    return allowed;
}

static void assert_same(const struct charge *a, const struct charge *b)
{
    assert_int_equal(a->step.decision.allowed, b->step.decision.allowed);
    assert_int_equal(a->step.decision.remaining, b->step.decision.remaining);
    assert_int_equal(a->step.decision.retry_after, b->step.decision.retry_after);
    assert_int_equal(a->step.decision.reset_after, b->step.decision.reset_after);
}

static enum verb some_verb(struct dice *d)
{
    const int64_t n = dice_below(d, 20);

    return n == 0 ? VERB_RESET : n == 1 ? VERB_REFUND : n == 2 ? VERB_CHARGE : VERB_CHECK;
}

static void a_question_about_neighbours_says_what_single_ones_say(void **state)
{
    struct dice d = dice_new();
    struct table *together = new_table(20000), *alone = new_table(20000);
    struct rule rules[RULES];
    int64_t now = EPOCH, denied = 0, passed = 0;

    (void)state;
    make_rules(rules);
    for (int round = 0; round < scaled(200000); round++) {
        struct charge these[RULES] = { { 0 } }, those[RULES];
        const int64_t identity = dice_below(&d, IDENTITIES);
        const enum verb verb = some_verb(&d);
        const bool peek = verb == VERB_CHECK && dice_below(&d, 10) == 0;
        size_t which[RULES];
        const size_t n = some_rules(&d, which);
        bool allowed;

        for (size_t i = 0; i < n; i++) {
            these[i].rule = &rules[which[i]];
            these[i].cost = dice_below(&d, 4);
            those[i] = these[i];
            these[i].key = beside(identity, (int64_t)which[i]);
            those[i].key = apart(identity, (int64_t)which[i]);
        }
        allowed = question(together, verb, these, n, now, peek).allowed;
        assert_int_equal(allowed, ask_one_by_one(alone, verb, those, n, now, peek));
        for (size_t i = 0; i < n; i++)
            assert_same(&these[i], &those[i]);
        passed += allowed;
        denied += !allowed;
        now += dice_below(&d, 30);
    }
    assert_true(passed > 0 && denied > 0);
    table_free(together);
    table_free(alone);
}

/* ---- many ---------------------------------------------------------------------------------- */

static const weir_algorithm bucket = WEIR_TOKEN_BUCKET;

static void charge_all(struct table *t, const struct rule *r, int64_t identity, size_t n,
                       int64_t now)
{
    struct charge charges[RULES] = { { 0 } };

    for (size_t i = 0; i < n; i++)
        charges[i] = (struct charge){ .rule = r,
                                      .key = beside(identity, (int64_t)(n - i)),
                                      .cost = (int64_t)i + 1 };
    assert_true(question(t, VERB_CHECK, charges, n, now, false).allowed);
}

static void neighbours_are_found_again_when_a_table_has_grown(void **state)
{
    const struct rule r = make_rule(bucket, 100, 3600000);
    const int64_t identities = scaled(30000);
    struct table *t = new_table(1 << 20);

    (void)state;
    for (int64_t i = 0; i < identities; i++)
        charge_all(t, &r, i, 3, EPOCH);
    assert_int_equal(stats_of(t).keys, 3 * identities);
    for (int64_t i = 0; i < identities; i++)
        for (int64_t k = 0; k < 3; k++)
            assert_int_equal(left(t, &r, beside(i, 3 - k), EPOCH), 99 - k);
    table_free(t);
}

static void a_full_table_never_drops_what_its_question_is_about(void **state)
{
    const struct rule r = make_rule(bucket, 100, 3600000);
    struct table *t = new_table(300);

    (void)state;
    for (int64_t i = 0; i < scaled(20000); i++) {
        charge_all(t, &r, i, 3, EPOCH);
        for (int64_t k = 0; k < 3; k++)
            assert_int_equal(left(t, &r, beside(i, 3 - k), EPOCH), 99 - k);
        assert_true(stats_of(t).keys <= 300);
    }
    assert_true(stats_of(t).evicted_keys > 0);
    table_free(t);
}

/* More of them than a shard has room for behind a home: a policy of many plans. */
static void one_identity_can_have_very_many(void **state)
{
    enum { MANY = 1000 };
    const struct rule r = make_rule(bucket, 100, 3600000);
    struct table *t = new_table(20000);

    (void)state;
    for (int64_t i = 0; i < MANY; i++) {
        struct charge c[] = { { .rule = &r, .key = beside(7, i), .cost = i % 90 + 1 },
                              { .rule = &r, .key = beside(7, MANY + i), .cost = 1 } };

        assert_true(question(t, VERB_CHECK, c, 2, EPOCH, false).allowed);
    }
    assert_int_equal(stats_of(t).keys + stats_of(t).evicted_keys, 2 * MANY);
    assert_true(stats_of(t).keys > 0);
    table_free(t);
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { THREADS = 4, SHARED = 5, LIMIT = 3000 };

struct crowd {
    struct table *t;
    struct rule rules[3];
    _Atomic int64_t admitted[SHARED];
    _Atomic int64_t singles[SHARED];
};

struct member {
    struct crowd *crowd;
    uint64_t seed;
};

static void *ask_often(void *arg)
{
    const struct member *m = arg;
    struct crowd *crowd = m->crowd;
    struct dice d = { m->seed };

    for (int i = 0; i < scaled(20000); i++) {
        const int64_t identity = dice_below(&d, SHARED), first = dice_below(&d, 3);
        const size_t n = dice_below(&d, 4) > 0 ? 3 : 1;
        struct charge charges[3] = { { 0 } };

        for (size_t k = 0; k < n; k++) {
            const int64_t rule = n == 1 ? 2 : (first + (int64_t)k) % 3;

            charges[k] = (struct charge){ .rule = &crowd->rules[rule],
                                          .key = beside(identity, rule),
                                          .cost = 1 };
        }
        if (question(crowd->t, VERB_CHECK, charges, n, EPOCH, false).allowed)
            atomic_fetch_add(n == 1 ? &crowd->singles[identity] : &crowd->admitted[identity], 1);
    }
    return NULL;
}

static void threads_that_ask_about_neighbours_exceed_no_limit(void **state)
{
    struct crowd crowd = { .t = new_table(1000) };
    struct member members[THREADS];
    pthread_t threads[THREADS];

    (void)state;
    crowd.rules[0] = make_rule(WEIR_FIXED_WINDOW, LIMIT, 3600000);
    crowd.rules[1] = make_rule(WEIR_FIXED_WINDOW, 2 * LIMIT, 3600000);
    crowd.rules[2] = make_rule(WEIR_FIXED_WINDOW, 100 * LIMIT, 3600000);
    for (size_t i = 0; i < THREADS; i++) {
        members[i] = (struct member){ &crowd, i + 1 };
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &members[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int64_t i = 0; i < SHARED; i++) {
        const int64_t admitted = crowd.admitted[i], all = admitted + crowd.singles[i];

        assert_true(admitted <= LIMIT && admitted > 0);
        assert_int_equal(left(crowd.t, &crowd.rules[0], beside(i, 0), EPOCH), LIMIT - admitted);
        assert_int_equal(left(crowd.t, &crowd.rules[1], beside(i, 1), EPOCH), 2 * LIMIT - admitted);
        assert_int_equal(left(crowd.t, &crowd.rules[2], beside(i, 2), EPOCH), 100 * LIMIT - all);
    }
    table_free(crowd.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_about_neighbours_says_what_single_ones_say),
        cmocka_unit_test(neighbours_are_found_again_when_a_table_has_grown),
        cmocka_unit_test(a_full_table_never_drops_what_its_question_is_about),
        cmocka_unit_test(one_identity_can_have_very_many),
        cmocka_unit_test(threads_that_ask_about_neighbours_exceed_no_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
