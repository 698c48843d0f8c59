/* test_history.c - decisions over time: what is told of ninety days, and how little they take. */
#include "support/unit.h"

#include "engine/named.h"
#include "store/history.h"

#define DAY HISTORY_DAY
#define HOUR HISTORY_HOUR
#define MINUTE HISTORY_MINUTE

static const int64_t begin = INT64_C(1700006400000) / HISTORY_DAY * HISTORY_DAY;

static struct history *history_of(size_t most_bytes)
{
    const weir_allocator usual = heap();
    struct history *h = history_new(&usual, most_bytes);

    assert_non_null(h);
    return h;
}

static void add(struct history *h, const char *policy, int64_t at, uint64_t allowed,
                uint64_t denied)
{
    const struct history_entry e = { at, policy, "default", { allowed, denied, 0, 0 } };

    assert_int_equal(history_add(h, &e), WEIR_OK);
}

/* What was read. */
struct told {
    struct history_entry entries[4096];
    size_t count;
};

static void note(void *ctx, const struct history_entry *e)
{
    struct told *t = ctx;

    assert_true(t->count < sizeof t->entries / sizeof *t->entries);
    t->entries[t->count++] = *e;
}

static const struct told *told_of(const struct history *h, const char *policy, int64_t since,
                                  int64_t until, int64_t step)
{
    static struct told t;

    t.count = 0;
    history_read(h, &(struct history_query){ policy, NULL, since, until, step }, note, &t);
    return &t;
}

static uint64_t sum_of(const struct told *t, enum history_count which)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < t->count; i++)
        sum += t->entries[i].counts[which];
    return sum;
}

/* ---- telling ----------------------------------------------------------------------------------- */

static void a_minute_is_reported_as_it_was_counted(void **state)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);
    const struct history_entry e = { begin, "login", "ip", { 5, 4, 3, 2 } };
    const struct told *t;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(history_add(h, &e), WEIR_OK);
    t = told_of(h, NULL, begin, begin + MINUTE, MINUTE);
    assert_int_equal(t->count, 1);
    assert_string_equal(t->entries[0].policy, "login");
    assert_string_equal(t->entries[0].rule, "ip");
    assert_int_equal(t->entries[0].at, begin);
    for (int i = 0; i < HISTORY_COUNTS; i++)
        assert_int_equal(t->entries[0].counts[i], 3 * e.counts[i]);
    assert_int_equal(told_of(h, NULL, begin + MINUTE, begin + DAY, MINUTE)->count, 0);
    assert_int_equal(told_of(h, NULL, begin - DAY, begin, MINUTE)->count, 0);
    assert_int_equal(told_of(h, "other", begin, begin + DAY, MINUTE)->count, 0);
    history_free(h);
}

static void steps_add_up_and_empty_ones_are_left_out(void **state)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);
    const struct told *t;

    (void)state;
    for (int64_t m = 0; m < 120; m++)
        if (m % 60 < 30)
            add(h, "login", begin + m * MINUTE, 1, (uint64_t)m);
    t = told_of(h, "login", begin, begin + DAY, 10 * MINUTE);
    assert_int_equal(t->count, 6);
    for (size_t i = 0; i < t->count; i++) {
        assert_int_equal(t->entries[i].counts[HISTORY_ALLOWED], 10);
        assert_int_equal(t->entries[i].at,
                         begin + (int64_t)(i / 3) * HOUR + (int64_t)(i % 3) * 10 * MINUTE);
    }
    assert_int_equal(told_of(h, "login", begin, begin + DAY, DAY)->count, 1);
    history_free(h);
}

static void a_clock_that_steps_back_loses_nothing(void **state)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);

    (void)state;
    add(h, "login", begin + HOUR, 1, 0);
    add(h, "login", begin, 1, 0);
    add(h, "login", begin + HOUR + MINUTE, 1, 0);
    assert_int_equal(sum_of(told_of(h, NULL, begin, begin + DAY, MINUTE), HISTORY_ALLOWED), 3);
    history_free(h);
}

static void a_clock_that_was_far_ahead_does_not_stop_the_counting(void **state)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);
    const struct told *t;

    (void)state;
    add(h, "login", begin + 1000 * DAY, 1, 0);
    add(h, "login", begin, 7, 0);
    add(h, "login", begin + MINUTE, 7, 0);
    t = told_of(h, NULL, 0, begin + 2000 * DAY, MINUTE);
    assert_int_equal(t->count, 2);
    assert_int_equal(t->entries[1].at, begin + MINUTE);
    history_free(h);
}

static void names_beyond_the_bound_are_counted_together(void **state)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);
    char name[32];

    (void)state;
    for (int i = 0; i < HISTORY_MOST_SERIES + 100; i++) {
        snprintf(name, sizeof name, "policy-%d", i);
        add(h, name, begin, 1, 0);
    }
    assert_int_equal(sum_of(told_of(h, HISTORY_OTHER, begin, begin + DAY, DAY), HISTORY_ALLOWED),
                     101);
    history_free(h);
}

static void names_that_callers_make_up_leave_policies_their_history(void **state)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);
    struct history_entry e = { .at = begin, .counts = { 1 } };
    char name[32];

    (void)state;
    e.policy = name;
    for (int i = 0; i < 2 * NAMED_MOST; i++) {
        snprintf(name, sizeof name, "name-%d", i / 2);
        e.rule = i % 2 == 0 ? HISTORY_CHECKS : "default";
        assert_int_equal(history_add(h, &e), WEIR_OK);
    }
    add(h, "late", begin, 3, 0);
    assert_int_equal(sum_of(told_of(h, "late", begin, begin + DAY, DAY), HISTORY_ALLOWED), 3);
    history_free(h);
}

/* ---- ninety days ------------------------------------------------------------------------------- */

/* As a model: every minute of every rule, apart from what is kept. */
static uint64_t denied_in(int policy, int64_t minute)
{
    return minute % 7 == 0 ? (uint64_t)(policy + minute % 13) : 0;
}

static uint64_t allowed_in(int policy, int64_t minute)
{
    return (uint64_t)(100 * (policy + 1) + minute % 977);
}

enum { MOST_POLICIES = 40, DAYS = 100 };

static struct history *hundred_days(int policies, size_t most_bytes)
{
    struct history *h = history_of(most_bytes);
    char names[MOST_POLICIES][24];

    for (int p = 0; p < policies; p++)
        snprintf(names[p], sizeof names[p], "policy-%d", p);
    for (int64_t m = 0; m < DAYS * 1440; m++)
        for (int p = 0; p < policies; p++)
            add(h, names[p], begin + m * MINUTE, allowed_in(p, m), denied_in(p, m));
    return h;
}

static void ninety_days_of_forty_rules_take_less_than_four_megabytes(void **state)
{
    const int policies = scaled(MOST_POLICIES);
    struct history *h = hundred_days(policies, HISTORY_MOST_BYTES);
    const int64_t end = begin + DAYS * DAY;
    const struct told *t;

    (void)state;
    print_message("# %d rules, busy every minute: %zu bytes\n", policies, history_bytes(h));
    assert_true(history_bytes(h) < (size_t)policies * (HISTORY_MOST_BYTES / MOST_POLICIES));

    /* The oldest hour is of ninety days ago, and every hour since is there. */
    t = told_of(h, "policy-0", 0, end, HOUR);
    assert_int_equal(t->count, 90 * 24);
    assert_int_equal(t->entries[0].at, end - 90 * DAY);
    for (size_t i = 0; i < t->count; i++) {
        const int64_t from = (t->entries[i].at - begin) / MINUTE;
        uint64_t allowed = 0, denied = 0;

        for (int64_t m = from; m < from + 60; m++) {
            allowed += allowed_in(0, m);
            denied += denied_in(0, m);
        }
        assert_int_equal(t->entries[i].counts[HISTORY_ALLOWED], allowed);
        assert_int_equal(t->entries[i].counts[HISTORY_DENIED], denied);
    }

    /* Every minute of the last three days is there. */
    t = told_of(h, "policy-0", end - 2 * DAY, end, MINUTE);
    assert_int_equal(t->count, 2 * 1440);
    for (size_t i = 0; i < t->count; i++)
        assert_int_equal(t->entries[i].counts[HISTORY_ALLOWED],
                         allowed_in(0, (t->entries[i].at - begin) / MINUTE));
    t = told_of(h, "policy-0", end - 3 * DAY, end - 2 * DAY, MINUTE);
    assert_int_equal(t->count, 1440);
    history_free(h);
}

static void excess_history_is_dropped_minutes_first_and_oldest_first(void **state)
{
    const int policies = scaled(MOST_POLICIES);
    const size_t little = (size_t)policies * 20000;
    struct history *h = hundred_days(policies, little);
    const int64_t end = begin + DAYS * DAY;
    const struct told *t;

    (void)state;
    assert_true(history_bytes(h) < little + (size_t)policies * 1024);
    t = told_of(h, "policy-0", 0, end, HOUR);
    assert_int_equal(t->entries[t->count - 1].at, end - HOUR); /* the newest stays */
    assert_int_equal(t->count, 90 * 24);                       /* and so do hours */
    t = told_of(h, "policy-0", end - 3 * DAY, end - 2 * DAY, MINUTE);
    assert_int_equal(t->count, 24); /* of minutes, the oldest are gone */
    t = told_of(h, "policy-0", end - HOUR, end, MINUTE);
    assert_int_equal(t->count, 60);
    history_free(h);
}

static void policies_that_are_gone_for_ninety_days_leave_nothing(void **state)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);

    (void)state;
    add(h, "old", begin, 1, 0);
    add(h, "new", begin + 91 * DAY, 1, 0);
    assert_int_equal(told_of(h, NULL, 0, begin + 100 * DAY, DAY)->count, 1);
    assert_int_equal(told_of(h, "old", 0, begin + 100 * DAY, DAY)->count, 0);
    history_free(h);
}

/* ---- as bytes ---------------------------------------------------------------------------------- */

static void check_same(const struct history *a, const struct history *b)
{
    struct told *first = malloc(sizeof *first);
    const struct told *second;

    assert_non_null(first);
    *first = *told_of(a, NULL, 0, begin + 200 * DAY, HOUR);
    second = told_of(b, NULL, 0, begin + 200 * DAY, HOUR);
    assert_int_equal(first->count, second->count);
    for (size_t i = 0; i < first->count; i++) {
        assert_string_equal(first->entries[i].policy, second->entries[i].policy);
        assert_int_equal(first->entries[i].at, second->entries[i].at);
        assert_memory_equal(first->entries[i].counts, second->entries[i].counts,
                            sizeof first->entries[i].counts);
    }
    free(first);
}

/* A few days of two rules, with gaps. */
static struct history *sample(void)
{
    struct history *h = history_of(HISTORY_MOST_BYTES);

    for (int64_t m = 0; m < 5 * 1440; m += 1 + m % 50) {
        add(h, "login", begin + m * MINUTE, (uint64_t)m * 1000000, 1);
        if (m % 3 == 0)
            add(h, "api", begin + m * MINUTE, 0, (uint64_t)m);
    }
    return h;
}

static void saved_counts_are_loaded_and_continued(void **state)
{
    const weir_allocator usual = heap();
    struct history *h = sample(), *again = history_of(HISTORY_MOST_BYTES);
    struct buf bytes;
    bool is_whole;

    (void)state;
    buf_init(&bytes, &usual);
    history_save(h, &bytes);
    assert_false(bytes.failed);
    assert_int_equal(history_load(again, buf_span(&bytes), &is_whole), WEIR_OK);
    assert_true(is_whole);
    check_same(h, again);
    assert_int_equal(history_bytes(h), history_bytes(again));
    for (int i = 0; i < 3; i++) {
        add(h, "login", begin + (5 + i) * DAY, 9, 9);
        add(again, "login", begin + (5 + i) * DAY, 9, 9);
    }
    check_same(h, again);
    buf_done(&bytes);
    history_free(h);
    history_free(again);
}

/* Checksums are others' business; but whatever the bytes are, nothing worse may happen than that
 * they are refused. */
static void bytes_that_are_cut_or_changed_do_no_harm(void **state)
{
    const weir_allocator usual = heap();
    struct history *h = sample();
    struct buf bytes;
    bool is_whole;

    (void)state;
    buf_init(&bytes, &usual);
    history_save(h, &bytes);
    for (size_t len = 0; len < bytes.len; len += 1 + len / 100) {
        struct history *cut = history_of(HISTORY_MOST_BYTES);

        assert_int_equal(history_load(cut, (struct span){ bytes.at, len }, &is_whole), WEIR_OK);
        assert_false(is_whole);
        history_free(cut);
    }
    for (size_t at = 0; at < bytes.len; at += 1 + at / 100) {
        struct history *changed = history_of(HISTORY_MOST_BYTES);

        bytes.at[at] = (char)(bytes.at[at] ^ 0x81);
        assert_int_equal(history_load(changed, buf_span(&bytes), &is_whole), WEIR_OK);
        told_of(changed, NULL, 0, begin + 200 * DAY, DAY);
        bytes.at[at] = (char)(bytes.at[at] ^ 0x81);
        history_free(changed);
    }
    buf_done(&bytes);
    history_free(h);
}

static void an_entry_is_read_as_it_was_written(void **state)
{
    const weir_allocator usual = heap();
    const struct history_entry e = { begin, "a-policy", "rule", { 0, UINT64_MAX, 1, 0 } };
    struct history_names names;
    struct history_entry read;
    struct span rest;
    struct buf bytes;

    (void)state;
    buf_init(&bytes, &usual);
    history_entry_write(&e, &bytes);
    rest = buf_span(&bytes);
    assert_true(history_entry_read(&rest, &read, &names));
    assert_int_equal(rest.len, 0);
    assert_int_equal(read.at, begin);
    assert_string_equal(read.policy, "a-policy");
    assert_string_equal(read.rule, "rule");
    assert_memory_equal(read.counts, e.counts, sizeof e.counts);
    for (size_t len = 0; len < bytes.len; len++) {
        rest = (struct span){ bytes.at, len };
        assert_false(history_entry_read(&rest, &read, &names));
    }
    buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minute_is_reported_as_it_was_counted),
        cmocka_unit_test(steps_add_up_and_empty_ones_are_left_out),
        cmocka_unit_test(a_clock_that_steps_back_loses_nothing),
        cmocka_unit_test(a_clock_that_was_far_ahead_does_not_stop_the_counting),
        cmocka_unit_test(names_beyond_the_bound_are_counted_together),
        cmocka_unit_test(names_that_callers_make_up_leave_policies_their_history),
        cmocka_unit_test(ninety_days_of_forty_rules_take_less_than_four_megabytes),
        cmocka_unit_test(excess_history_is_dropped_minutes_first_and_oldest_first),
        cmocka_unit_test(policies_that_are_gone_for_ninety_days_leave_nothing),
        cmocka_unit_test(saved_counts_are_loaded_and_continued),
        cmocka_unit_test(bytes_that_are_cut_or_changed_do_no_harm),
        cmocka_unit_test(an_entry_is_read_as_it_was_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
