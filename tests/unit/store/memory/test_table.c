/* test_table.c - the rules of table.c: what questions change, and what a full table forgets. */
#include "support/unit.h"

#include <pthread.h>
#include <unistd.h>

#include "store/memory/table_internal.h"

enum { EPOCH = 1000000 };

static struct table *new_table(int64_t max_keys, bool callers_bring_now, weir_allocator allocator)
{
    struct store_options options = {
        .max_keys = max_keys,
        .callers_bring_now = callers_bring_now,
        .allocator = allocator,
    };
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

static struct key key_of(int64_t n)
{
    struct dice d = { (uint64_t)n };

    return (struct key){ dice_roll(&d), dice_roll(&d) | 1 };
}

static struct question ask(struct table *t, enum verb verb, struct charge *charges, size_t n,
                           struct ask how)
{
    struct question q = {
        .verb = verb, .ask = { how.now, how.peek }, .charges = charges, .count = n
    };

    for (size_t i = 0; i < n; i++)
        charges[i].cost = how.cost;
    table_judge(t, &q);
    return q;
}

static bool take(struct table *t, const struct rule *r, int64_t key, int64_t now, int64_t cost)
{
    struct charge c = { .rule = r, .key = key_of(key) };

    return ask(t, VERB_CHECK, &c, 1, (struct ask){ .now = now, .cost = cost, .peek = false })
        .allowed;
}

static int64_t remaining(struct table *t, const struct rule *r, int64_t key, int64_t now)
{
    struct charge c = { .rule = r, .key = key_of(key) };

    ask(t, VERB_CHECK, &c, 1, (struct ask){ .now = now, .cost = 1, .peek = true });
    return c.step.decision.remaining;
}

static weir_stats stats_of(struct table *t)
{
    weir_stats stats;

    table_stats(t, &stats);
    return stats;
}

static void T1_a_denied_question_a_peek_and_a_cost_of_0_change_nothing(void **state)
{
    const struct rule r = make_rule(WEIR_FIXED_WINDOW, 3, 1000),
                      narrow = make_rule(WEIR_FIXED_WINDOW, 2, 1000);
    struct table *t = new_table(1000, false, heap());
    struct charge several[] = { { .rule = &r, .key = key_of(1) },
                                { .rule = &narrow, .key = key_of(2) } };

    (void)state;
    assert_false(take(t, &r, 1, EPOCH, 4));
    assert_true(take(t, &r, 1, EPOCH, 0));
    assert_int_equal(remaining(t, &r, 1, EPOCH), 3);
    assert_int_equal(stats_of(t).keys, 0);

    assert_false(
        ask(t, VERB_CHECK, several, 2, (struct ask){ .now = EPOCH, .cost = 3, .peek = false })
            .allowed);
    assert_true(several[0].step.decision.allowed);
    assert_int_equal(several[0].step.decision.remaining, 3); /* as it stands */
    assert_int_equal(several[1].step.decision.retry_after, WEIR_NEVER);
    assert_int_equal(stats_of(t).keys, 0);
    table_free(t);
}

struct failing {
    int64_t left;
};

static void *fail_later(void *ctx, void *block, size_t size)
{
    struct failing *f = ctx;

    if (size == 0) {
        free(block);
        return NULL;
    }
    return f->left-- > 0 ? realloc(block, size) : NULL;
}

static void T2_several_charges_are_charged_whole_or_not_at_all(void **state)
{
    const struct rule log = make_rule(WEIR_SLIDING_WINDOW, 50, 1000),
                      count = make_rule(WEIR_FIXED_WINDOW, 50, 1000);
    struct failing failing = { 3 };
    struct table *t = new_table(1000, false, (weir_allocator){ fail_later, &failing });
    struct charge charges[] = {
        { .rule = &log, .key = key_of(1) },
        { .rule = &count, .key = key_of(2) },
        { .rule = &log, .key = key_of(3) },
    };
    int64_t passed = 0;

    (void)state;
    for (int64_t i = 0; i < 60; i++) {
        struct question q;

        failing.left = i % 3; /* both logs grow, one does, none does */
        q = ask(t, VERB_CHECK, charges, 3,
                (struct ask){ .now = EPOCH + i, .cost = 1, .peek = false });
        if (q.err)
            assert_int_equal(q.err, WEIR_ENOMEM);
        else
            passed += q.allowed;
        for (int64_t key = 1; key <= 3; key++)
            assert_int_equal(remaining(t, key == 2 ? &count : &log, key, EPOCH + i), 50 - passed);
    }
    assert_int_equal(passed, 50);
    table_free(t);
}

/* Room is made for the last of three keys while the first two are old or only just made. */
static void T2_making_room_drops_no_key_of_the_question(void **state)
{
    const struct rule r = make_rule(WEIR_SLIDING_WINDOW, 5, 100);

    (void)state;
    for (int64_t filled = 0; filled < 200; filled++) {
        struct table *t = new_table(1000, false, heap());
        struct charge charges[] = {
            { .rule = &r, .key = key_of(1001) },
            { .rule = &r, .key = key_of(0) },
            { .rule = &r, .key = key_of(1002) },
        };

        for (int64_t i = 0; i < filled; i++)
            assert_true(take(t, &r, i, EPOCH, 1));
        assert_true(ask(t, VERB_CHECK, charges, 3,
                        (struct ask){ .now = EPOCH + 5000, .cost = 2, .peek = false })
                        .allowed);
        assert_int_equal(remaining(t, &r, 1001, EPOCH + 5000), 3);
        assert_int_equal(remaining(t, &r, 0, EPOCH + 5000), 3);
        assert_int_equal(remaining(t, &r, 1002, EPOCH + 5000), 3);
        table_free(t);
    }
}

static void T3_no_more_than_max_keys_are_held(void **state)
{
    const struct rule r = make_rule(WEIR_TOKEN_BUCKET, 10, 100000);

    (void)state;
    for (int64_t max = 64; max <= 50000; max = max * 7 / 2) {
        struct table *t = new_table(max, false, heap());

        for (int64_t i = 0; i < max * 3; i++) {
            assert_true(take(t, &r, i, EPOCH, 1));
            assert_true(stats_of(t).keys <= max || i % 64 != 0);
        }
        assert_int_equal(stats_of(t).keys, max);
        assert_int_equal(stats_of(t).evicted_keys, 2 * max);
        table_free(t);
    }
}

static void T4_a_flood_of_fresh_keys_cannot_make_a_limited_one_forgotten(void **state)
{
    const struct rule r = make_rule(WEIR_SLIDING_WINDOW, 5, 100000);
    struct table *t = new_table(20000, false, heap());

    (void)state;
    for (int64_t i = 0; i < 10000; i++)
        assert_true(take(t, &r, i, EPOCH, 5));
    for (int64_t i = 0; i < 200000; i++)
        assert_true(take(t, &r, 1000000 + i, EPOCH, 1));
    for (int64_t i = 0; i < 10000; i++)
        assert_false(take(t, &r, i, EPOCH, 1));
    assert_int_equal(stats_of(t).keys, 20000);
    table_free(t);
}

/* ---- every call ends ---------------------------------------------------------------------- */

enum {
    LONGEST_CALLS = 60
}; /* seconds, for all calls between two of these: then the test is killed */

static void expect_an_end(void)
{
    alarm(LONGEST_CALLS);
}

/* Keys of the last home, more than fit behind it: each that comes moves the shard or pushes another
 * out. */
static void T5_a_call_ends_when_all_keys_crowd_behind_the_last_home(void **state)
{
    const struct rule r = make_rule(WEIR_FIXED_WINDOW, 5, 100000);
    struct table *t = new_table(2000, false, heap());

    (void)state;
    for (uint64_t i = 1; i <= 4000; i++) {
        struct charge c = { .rule = &r, .key = { UINT64_MAX, i * 7919 % 4001 } };
        struct question q;

        expect_an_end();
        q = ask(t, VERB_CHECK, &c, 1, (struct ask){ .now = EPOCH, .cost = 1, .peek = false });
        assert_int_equal(q.err, WEIR_OK);
        assert_true(q.allowed);
        assert_true(stats_of(t).keys <= 2000);
    }
    alarm(0);
    assert_int_equal(stats_of(t).keys + stats_of(t).evicted_keys, 4000);
    table_free(t);
}

/* Of a question's own keys none makes room for another, even where all of them crowd. */
static void T5_a_question_of_many_keys_ends_when_they_crowd(void **state)
{
    const struct rule r = make_rule(WEIR_SLIDING_WINDOW, 5, 100000);
    struct table *t = new_table(64, false, heap());
    struct charge charges[WEIR_MAX_RULES];

    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        for (uint64_t k = 0; k < WEIR_MAX_RULES; k++)
            charges[k] = (struct charge){
                .rule = &r, .key = { UINT64_MAX, (i * WEIR_MAX_RULES + k) * 48271 + 1 }
            };
        expect_an_end();
        assert_true(ask(t, VERB_CHECK, charges, WEIR_MAX_RULES,
                        (struct ask){ .now = EPOCH, .cost = 1, .peek = false })
                        .allowed);
        for (uint64_t k = 0; k < WEIR_MAX_RULES; k++)
            assert_int_equal(charges[k].step.decision.remaining, 4);
    }
    alarm(0);
    table_free(t);
}

/* Millions of keys that are asked for once, of all algorithms and at all levels of consumption,
 * while the clock goes on, the table is swept, and grows. */
static void T5_a_flood_of_keys_that_come_once_ends(void **state)
{
#define X(name, value, text, has_burst, has_precision) WEIR_##name,
    static const weir_algorithm algorithms[] = { WEIR_ALGORITHMS(X) };
#undef X
    const int64_t sizes[] = { 64, 1000, 5000, 20000 };
    struct dice dice = dice_new();

    (void)state;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        struct table *t = new_table(sizes[size], false, heap());
        struct rule rules[10];
        int64_t now = EPOCH;

        for (size_t i = 0; i < 10; i++)
            /* but the last, concurrency, which counts nothing that is not held */
            rules[i] = make_rule(algorithms[i % ALGORITHM_COUNTED], i < 5 ? 5 : 100,
                                 i % 2 ? 3600000 : 20000);
        for (int64_t i = 0; i < scaled(300000); i++) {
            const size_t which = i / 50000 % 2 ? (size_t)dice_below(&dice, 10) : i % 2 ? 1 : 8;
            const int64_t key = dice_below(&dice, 16) ? i : dice_below(&dice, i + 1);
            struct charge c = { .rule = &rules[which], .key = key_of(key * 10 + (int64_t)which) };

            if (i % 1000 == 0) {
                expect_an_end();
                now += 10;
                table_sweep(t, now);
            }
            assert_int_equal(ask(t, VERB_CHECK, &c, 1,
                                 (struct ask){ .now = now, .cost = 1 + i % 3, .peek = false })
                                 .err,
                             WEIR_OK);
        }
        alarm(0);
        assert_true(stats_of(t).keys <= sizes[size]);
        table_free(t);
    }
}

static void expired_keys_go_before_live_ones(void **state)
{
    const struct rule brief = make_rule(WEIR_TOKEN_BUCKET, 10, 1000),
                      lasting = make_rule(WEIR_TOKEN_BUCKET, 10, 1000000);
    struct table *t = new_table(1000, true, heap());

    (void)state;
    for (int64_t i = 0; i < 500; i++) {
        take(t, &brief, i, EPOCH, 9);
        take(t, &lasting, 10000 + i, EPOCH, 1);
    }
    for (int64_t i = 0; i < 500; i++)
        take(t, &lasting, 20000 + i, EPOCH + 1000, 1);
    assert_int_equal(stats_of(t).evicted_keys, 0);
    assert_int_equal(stats_of(t).expired_keys, 500);
    for (int64_t i = 0; i < 500; i++)
        assert_int_equal(remaining(t, &lasting, 10000 + i, EPOCH + 1000), 9);
    table_free(t);
}

static void sweeping_drops_what_has_expired_and_gives_memory_back(void **state)
{
    const struct rule brief = make_rule(WEIR_SLIDING_WINDOW, 10, 1000),
                      lasting = make_rule(WEIR_SLIDING_WINDOW, 10, 1000000);
    struct table *t = new_table(100000, false, heap());
    int64_t full;

    (void)state;
    for (int64_t i = 0; i < 50000; i++)
        for (int64_t n = 0; n < 5; n++)
            take(t, &brief, i, EPOCH + n, 1);
    take(t, &lasting, 99999, EPOCH, 7);
    full = stats_of(t).memory_bytes;
    for (int i = 0; i < 200; i++)
        table_sweep(t, EPOCH + 1000); /* expired just now: a clock may still slip back */
    assert_int_equal(stats_of(t).keys, 50001);
    for (int i = 0; i < 200; i++)
        table_sweep(t, EPOCH + 10000);
    assert_int_equal(stats_of(t).keys, 1);
    assert_int_equal(stats_of(t).expired_keys, 50000);
    assert_int_equal(remaining(t, &lasting, 99999, EPOCH + 10000), 3);
    assert_true(stats_of(t).memory_bytes < full / 100);
    table_free(t);
}

static void keys_are_reused_lazily_as_time_goes_on(void **state)
{
    const struct rule r = make_rule(WEIR_FIXED_WINDOW, 2, 100);
    struct table *t = new_table(1 << 20, false, heap());

    (void)state;
    for (int64_t i = 0; i < 400000; i++)
        assert_true(
            take(t, &r, i, EPOCH + i / 4, 1)); /* 4 keys a ms, each for 100 ms, + 1000 of slip */
    assert_true(stats_of(t).keys < 20000);
    table_free(t);
}

static void callers_that_bring_the_time_lose_nothing_by_it(void **state)
{
    const struct rule r = make_rule(WEIR_FIXED_WINDOW, 1, 100);
    struct table *t = new_table(10000, true, heap());

    (void)state;
    for (int64_t i = 0; i < 5000; i++)
        assert_true(take(t, &r, i, EPOCH, 1));
    take(t, &r, 9999, EPOCH + 1000000000, 1);
    table_sweep(t, EPOCH + 1000000000);
    for (int64_t i = 0; i < 5000; i++)
        assert_false(take(t, &r, i, EPOCH, 1));
    table_free(t);
}

static void states_beside_the_cells_are_bounded_too(void **state)
{
    struct rule fine = {
        .algorithm = WEIR_SLIDING_WINDOW, .limit = 1000000, .window = 1000000, .precision = 1
    };
    struct table *t = new_table(64, false, heap());

    (void)state;
    assert_int_equal(rule_check(&fine, NULL), WEIR_OK);
    for (int64_t i = 0; i < 20; i++)
        for (int64_t n = 0; n < 300000; n++)
            assert_true(take(t, &fine, i, EPOCH + n, 1));
    assert_true(stats_of(t).memory_bytes <= (64 << 20) + (1 << 20));
    assert_true(stats_of(t).evicted_keys > 0);
    table_free(t);
}

static void a_refund_and_a_reset_reach_every_charge(void **state)
{
    const struct rule r = make_rule(WEIR_TOKEN_BUCKET, 10, 100000),
                      s = make_rule(WEIR_SLIDING_WINDOW, 8, 100000);
    struct table *t = new_table(1000, false, heap());
    struct charge charges[] = { { .rule = &r, .key = key_of(1) },
                                { .rule = &s, .key = key_of(2) } };

    (void)state;
    ask(t, VERB_CHECK, charges, 2, (struct ask){ .now = EPOCH, .cost = 6, .peek = false });
    assert_true(
        ask(t, VERB_REFUND, charges, 2, (struct ask){ .now = EPOCH, .cost = 2, .peek = false })
            .allowed);
    assert_int_equal(charges[0].step.decision.remaining, 6);
    assert_int_equal(charges[1].step.decision.remaining, 4);
    assert_true(
        ask(t, VERB_RESET, charges, 2, (struct ask){ .now = EPOCH, .cost = 1, .peek = false })
            .allowed);
    assert_int_equal(charges[0].step.decision.remaining, 10);
    assert_int_equal(remaining(t, &s, 2, EPOCH), 8);
    assert_int_equal(stats_of(t).keys, 0);
    ask(t, VERB_REFUND, charges, 2,
        (struct ask){ .now = EPOCH, .cost = 2, .peek = false }); /* of an absent key */
    assert_int_equal(stats_of(t).keys, 0);
    table_free(t);
}

static void a_max_keys_out_of_bounds_is_rejected(void **state)
{
    struct store_options options = { .max_keys = 63, .allocator = heap() };
    struct table *t;
    weir_diag diag;

    (void)state;
    assert_int_equal(table_new(&t, &options, &diag), WEIR_EOPTION);
    assert_string_equal(diag.text, "max_keys must be from 64 to 17179869184, not 63");
}

static void a_charge_of_cost_0_passes_beside_others_and_makes_no_key(void **state)
{
    struct rule r = { WEIR_FIXED_WINDOW, 5, 1000, 5, .precision = 0 };
    struct table *t = new_table(1000, false, heap());
    struct charge charges[] = {
        { .rule = &r, .key = key_of(1), .cost = 0 },
        { .rule = &r, .key = key_of(2), .cost = 3 },
    };
    struct question q = { .ask = { .now = EPOCH }, .charges = charges, .count = 2 };
    weir_stats stats;

    (void)state;
    table_judge(t, &q);
    assert_true(q.allowed);
    table_stats(t, &stats);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(remaining(t, &r, 2, EPOCH), 2);
    assert_true(take(t, &r, 1, EPOCH, 5));
    charges[1].cost = 1;
    table_judge(t, &q); /* the first is used up, and not asked for anything */
    assert_true(q.allowed);
    charges[0].cost = 1;
    table_judge(t, &q);
    assert_false(q.allowed);
    assert_int_equal(remaining(t, &r, 2, EPOCH), 1);
    table_free(t);
}

/* What is fetched for a key before its shard is looked at is its home, also while the table grows. */
static void the_home_of_a_key_is_found_without_its_shard(void **state)
{
    const struct rule r = make_rule(WEIR_FIXED_WINDOW, 3, 1000000);
    struct table *t = new_table(100000, false, heap());
    bool was_between = false;

    (void)state;
    for (int64_t n = 0; n < 30000; n++) {
        const struct key key = key_of(n);
        const size_t at = shard_index(t, key);
        const struct shard *s = &t->shards[at];

        assert_true(take(t, &r, n, EPOCH, 1));
        was_between = was_between || t->growth.moved > 0;
        if (!s->lives_apart)
            assert_ptr_equal(growth_home(&t->growth, at, t->shard_bits, key),
                             s->cells + home_of(key, s->skip_bits, s->homes));
    }
    assert_true(was_between);
    table_free(t);
}

/* How many homes a table of 1000 each grows to, with so many bytes beside each home. */
static uint32_t homes_after_growth(int64_t beside)
{
    struct table *t = new_table(10000000, true, heap());
    struct growth *g = &t->growth;
    uint32_t homes;

    growth_expect(g, (int64_t)g->count * 837);
    assert_int_equal(g->now.homes, 1000);
    growth_step(g, (int64_t)g->count * 1000 * beside);
    homes = g->next.homes;
    table_free(t);
    return homes;
}

static void a_table_grows_by_a_part_of_all_memory_and_at_most_doubles(void **state)
{
    (void)state;
    assert_int_equal(homes_after_growth(0), 1000 + 1000 / 12 + 16);
    assert_int_equal(homes_after_growth(64), 1000 + 1000 / 12 + 1000 / 3 + 16);
    assert_int_equal(homes_after_growth(6400), 2000);
}

/* Bytes of all cells that there is memory for. */
static int64_t bytes_of_cells(const struct table *t)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < table_shards(t); i++)
        bytes += (int64_t)(shard_cells(t->shards[i].homes) * sizeof(struct cell));
    return bytes;
}

/* By the thread that inserts, or by a housekeeper that comes now and then. */
static void a_growing_table_has_79_bytes_of_cells_a_key_at_most(void **state)
{
    const struct rule r = make_rule(WEIR_FIXED_WINDOW, 3, 1000000);
    const int64_t most = 64 * 8192;

    (void)state;
    for (int by_housekeeper = 0; by_housekeeper < 2; by_housekeeper++) {
        struct table *t = new_table(most, true, heap());
        int64_t times = 0;

        for (int64_t n = 1; n <= most; n++) {
            assert_true(take(t, &r, n, EPOCH, 1));
            if (by_housekeeper && n % 1000 == 0)
                table_sweep(t, EPOCH);
            if (n > most / 2 && n % 100 == 0 && bytes_of_cells(t) > 79 * n)
                times++;
        }
        assert_int_equal(times, 0);
        assert_int_equal(stats_of(t).keys, most);
        table_free(t);
    }
}

/* Keys that were to come did not, and others have gone. */
static void a_table_that_stopped_growing_half_way_shrinks(void **state)
{
    const struct rule r = make_rule(WEIR_FIXED_WINDOW, 3, 1000);
    struct table *t = new_table(1000000, false, heap());
    int64_t n = 0;

    (void)state;
    while (n < 20000 || t->growth.moved < t->growth.count / 2)
        assert_true(take(t, &r, n++, EPOCH, 1));
    assert_true(n < 30000);
    for (int i = 0; i < 500; i++)
        table_sweep(t, EPOCH + 10000);
    assert_int_equal(stats_of(t).keys, 0);
    assert_null(t->growth.next.cells);
    assert_int_equal(t->growth.now.homes, 16);
    for (n = 0; n < 20000; n++)
        assert_true(take(t, &r, n, EPOCH + 10000, 1));
    table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_growing_table_has_79_bytes_of_cells_a_key_at_most),
        cmocka_unit_test(a_table_that_stopped_growing_half_way_shrinks),
        cmocka_unit_test(a_table_grows_by_a_part_of_all_memory_and_at_most_doubles),
        cmocka_unit_test(the_home_of_a_key_is_found_without_its_shard),
        cmocka_unit_test(T1_a_denied_question_a_peek_and_a_cost_of_0_change_nothing),
        cmocka_unit_test(T2_several_charges_are_charged_whole_or_not_at_all),
        cmocka_unit_test(T2_making_room_drops_no_key_of_the_question),
        cmocka_unit_test(T3_no_more_than_max_keys_are_held),
        cmocka_unit_test(T4_a_flood_of_fresh_keys_cannot_make_a_limited_one_forgotten),
        cmocka_unit_test(T5_a_call_ends_when_all_keys_crowd_behind_the_last_home),
        cmocka_unit_test(T5_a_question_of_many_keys_ends_when_they_crowd),
        cmocka_unit_test(T5_a_flood_of_keys_that_come_once_ends),
        cmocka_unit_test(expired_keys_go_before_live_ones),
        cmocka_unit_test(sweeping_drops_what_has_expired_and_gives_memory_back),
        cmocka_unit_test(keys_are_reused_lazily_as_time_goes_on),
        cmocka_unit_test(callers_that_bring_the_time_lose_nothing_by_it),
        cmocka_unit_test(states_beside_the_cells_are_bounded_too),
        cmocka_unit_test(a_refund_and_a_reset_reach_every_charge),
        cmocka_unit_test(a_charge_of_cost_0_passes_beside_others_and_makes_no_key),
        cmocka_unit_test(a_max_keys_out_of_bounds_is_rejected),
    };

    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
