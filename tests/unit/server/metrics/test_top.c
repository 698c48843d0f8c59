/* test_top.c - the sketch of the identities that are denied most, against exact counts. */
#include "support/unit.h"

#include "server/metrics/top.h"

enum { NOW = 1000 * TOP_HALVED_MS };

static struct key key_of(uint64_t id)
{
    struct dice d = { id };

    return (struct key){ dice_roll(&d), dice_roll(&d) };
}

static struct top *top_new(void)
{
    struct top *t = malloc(sizeof *t);

    assert_non_null(t);
    top_init(t);
    return t;
}

static const char policy[] = "login", rule[] = "ip";

static void few_are_counted_exactly(void **state)
{
    struct top *t = top_new();

    (void)state;
    for (uint64_t id = 0; id < TOP_ENTRIES; id++)
        for (uint64_t i = 0; i <= id % 7; i++)
            top_count(t, policy, rule, key_of(id), NOW);
    for (uint64_t id = 0; id < TOP_ENTRIES; id++) {
        const struct top_entry *e = top_find(t, policy, rule, key_of(id));

        assert_non_null(e);
        assert_int_equal(e->count, id % 7 + 1);
        assert_int_equal(e->error, 0);
    }
    free(t);
}

static void the_same_key_of_another_rule_is_another_entry(void **state)
{
    static const char other[] = "email";
    struct top *t = top_new();

    (void)state;
    top_count(t, policy, rule, key_of(1), NOW);
    top_count(t, policy, other, key_of(1), NOW);
    top_count(t, NULL, NULL, key_of(1), NOW);
    assert_int_equal(t->count, 3);
    assert_int_equal(top_find(t, policy, other, key_of(1))->count, 1);
    free(t);
}

/* Ten times as many as there are entries, some of them often. */
static void counts_are_never_too_low_and_too_high_by_their_error_at_most(void **state)
{
    enum { IDS = 10 * TOP_ENTRIES, HEAVY = 20 };
    static uint64_t exact[IDS];
    struct dice d = dice_new();
    struct top *t = top_new();
    uint64_t all = 0;

    (void)state;
    for (int i = 0; i < scaled(400000); i++) {
        const int64_t id = dice_below(&d, 4) == 0 ? dice_below(&d, HEAVY) : dice_below(&d, IDS);

        exact[id]++;
        all++;
        top_count(t, policy, rule, key_of((uint64_t)id), NOW);
        if (i % 10000 == 0) /* the heap's root is the least */
            for (size_t k = 0; k < t->count; k++)
                assert_true(t->entries[k].count >= t->entries[t->heap[0]].count);
    }
    for (size_t k = 0; k < t->count; k++)
        assert_ptr_equal(top_find(t, policy, rule, t->entries[k].key), &t->entries[k]);
    for (uint64_t id = 0; id < IDS; id++) {
        const struct top_entry *e = top_find(t, policy, rule, key_of(id));

        if (!e) {
            assert_true(exact[id] <= top_least(t));
            assert_true(exact[id] <= all / TOP_ENTRIES);
            continue;
        }
        assert_true(e->count >= exact[id]);
        assert_true(e->count - e->error <= exact[id]);
    }
    for (uint64_t id = 0; id < HEAVY; id++)
        assert_non_null(top_find(t, policy, rule, key_of(id)));
    free(t);
}

static void counts_are_halved_and_then_forgotten(void **state)
{
    struct top *t = top_new();

    (void)state;
    for (int i = 0; i < 100; i++)
        top_count(t, policy, rule, key_of(1), NOW);
    top_forget(t, NOW + TOP_HALVED_MS - 1);
    assert_int_equal(top_find(t, policy, rule, key_of(1))->count, 100);
    top_forget(t, NOW + TOP_HALVED_MS);
    assert_int_equal(top_find(t, policy, rule, key_of(1))->count, 50);
    top_forget(t, NOW); /* a clock that steps back brings nothing back, nor takes more away */
    assert_int_equal(top_find(t, policy, rule, key_of(1))->count, 50);
    top_count(t, policy, rule, key_of(1), NOW + 3 * (int64_t)TOP_HALVED_MS);
    assert_int_equal(top_find(t, policy, rule, key_of(1))->count, 13);
    top_forget(t, NOW + 1000 * (int64_t)TOP_HALVED_MS);
    assert_int_equal(top_find(t, policy, rule, key_of(1))->count, 0);
    free(t);
}

static void an_entry_that_is_taken_over_begins_anew(void **state)
{
    struct top *t = top_new();
    struct top_entry *e;

    (void)state;
    for (uint64_t id = 0; id < TOP_ENTRIES; id++)
        top_count(t, policy, rule, key_of(id), NOW)->logged_until = NOW + 5;
    e = top_count(t, policy, rule, key_of(TOP_ENTRIES), NOW);
    assert_int_equal(e->count, 2);
    assert_int_equal(e->error, 1);
    assert_int_equal(e->logged_until, 0);
    assert_int_equal(t->count, TOP_ENTRIES);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_are_counted_exactly),
        cmocka_unit_test(the_same_key_of_another_rule_is_another_entry),
        cmocka_unit_test(counts_are_never_too_low_and_too_high_by_their_error_at_most),
        cmocka_unit_test(counts_are_halved_and_then_forgotten),
        cmocka_unit_test(an_entry_that_is_taken_over_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
