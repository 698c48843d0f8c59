/* test_cell.c - GCRA as redis-cell answers it: its vectors, its formulas, and over a restart. */
#include "support/unit.h"

#include <inttypes.h>
#include <limits.h>

#include "engine/handle.h"
#include "limit/pack.h"
#include "support/temp_dir.h"

#define EPOCH INT64_C(1700000000000)

__extension__ typedef __int128 wide;

static struct rule rule_of(int64_t max_burst, int64_t count, int64_t period)
{
    struct rule r;
    weir_diag diag;

    if (cell_rule(max_burst + 1, count, period, &r, &diag))
        fail_msg("%s", diag.text);
    return r;
}

static struct decision take(struct state *s, const struct rule *r, int64_t now, int64_t quantity)
{
    struct step step;

    state_take(s, r, &(struct ask){ .now = now, .cost = quantity, .peek = false }, &step);
    if (step.decision.allowed && quantity != 0) {
        const struct arrival *kept = &step.next.arrival;
        const int64_t until = kept->ms +
                              (kept->ns > 0); /* and a whole ms more, if it is due later */

        if (until > now)
            assert_int_equal(step.now + step.decision.reset_after, until);
        state_apply(s, r, &step);
    }
    return step.decision;
}

static int64_t seconds(int64_t ms)
{
    return ms / 1000 + (ms % 1000 > 0);
}

/* The five numbers of a reply. */
static void assert_reply(struct decision d, const struct rule *r, const char *expected)
{
    char got[128];

    snprintf(got, sizeof got, "%d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, !d.allowed,
             r->limit, d.remaining,
             d.allowed || d.retry_after == WEIR_NEVER ? -1 : seconds(d.retry_after),
             seconds(d.reset_after));
    assert_string_equal(got, expected);
}

static void the_documented_example_is_answered_to_the_letter(void **state)
{
    struct rule r = rule_of(15, 30, 60);

    (void)state;
    assert_reply(take(&(struct state){ 0 }, &r, EPOCH, 1), &r, "0 16 15 -1 2");
    r = rule_of(5, 5, 3600);
    assert_reply(take(&(struct state){ 0 }, &r, EPOCH, 1), &r, "0 6 5 -1 720");
}

static void a_burst_passes_then_one_unit_per_interval(void **state)
{
    const struct rule r = rule_of(2, 1, 10);
    struct state s = { 0 };

    (void)state;
    assert_reply(take(&s, &r, EPOCH, 1), &r, "0 3 2 -1 10");
    assert_reply(take(&s, &r, EPOCH, 1), &r, "0 3 1 -1 20");
    assert_reply(take(&s, &r, EPOCH, 1), &r, "0 3 0 -1 30");
    assert_reply(take(&s, &r, EPOCH, 1), &r, "1 3 0 10 30");
    assert_reply(take(&s, &r, EPOCH + 9999, 1), &r, "1 3 0 1 21");
    assert_reply(take(&s, &r, EPOCH + 10000, 1), &r, "0 3 0 -1 30");
}

static void a_cost_above_the_limit_is_denied_without_a_retry_time(void **state)
{
    const struct rule r = rule_of(2, 1, 10);

    (void)state;
    assert_reply(take(&(struct state){ 0 }, &r, EPOCH, 4), &r, "1 3 3 -1 0");
}

static void a_quantity_of_none_looks_only(void **state)
{
    const struct rule r = rule_of(2, 1, 10);
    struct state s = { 0 };

    (void)state;
    assert_reply(take(&s, &r, EPOCH, 0), &r, "0 3 3 -1 0");
    take(&s, &r, EPOCH, 3);
    assert_reply(take(&s, &r, EPOCH, 0), &r, "0 3 0 -1 30");
}

static void less_than_a_second_is_reported_as_one(void **state)
{
    const struct rule r = rule_of(0, 3, 1);
    struct state s = { 0 };

    (void)state;
    assert_reply(take(&s, &r, EPOCH, 1), &r, "0 1 0 -1 1");
    assert_reply(take(&s, &r, EPOCH, 1), &r, "1 1 0 1 1");
}

static void less_than_a_millisecond_is_reported_as_zero(void **state)
{
    const struct rule r = rule_of(0, 3, 1); /* 333,333,333 ns */
    struct state s = { 0 };

    (void)state;
    take(&s, &r, EPOCH, 1);
    assert_reply(take(&s, &r, EPOCH + 333, 1), &r, "1 1 0 0 0");
    assert_reply(take(&s, &r, EPOCH + 334, 1), &r, "0 1 0 -1 1");
}

static void a_negative_quantity_is_a_refund(void **state)
{
    const struct rule r = rule_of(2, 1, 10);
    struct state s = { 0 };

    (void)state;
    take(&s, &r, EPOCH, 3);
    assert_reply(take(&s, &r, EPOCH, -1), &r, "0 3 1 -1 20");
    assert_reply(take(&s, &r, EPOCH, -3), &r, "0 3 4 -1 -10");
    /* What is given back beyond what was taken is not kept. */
    assert_reply(take(&s, &r, EPOCH, 3), &r, "0 3 0 -1 30");
}

static void numbers_may_change_between_calls(void **state)
{
    const struct rule before = rule_of(2, 1, 10), after = rule_of(5, 1, 1);
    struct state s = { 0 };

    (void)state;
    take(&s, &before, EPOCH, 3);
    assert_reply(take(&s, &after, EPOCH, 1), &after, "1 6 0 25 30");
    assert_reply(take(&s, &after, EPOCH + 25000, 1), &after, "0 6 0 -1 6");
}

static void a_clock_that_steps_back_mints_nothing(void **state)
{
    const struct rule r = rule_of(2, 1, 10);
    struct state s = { 0 };

    (void)state;
    take(&s, &r, EPOCH, 3);
    assert_reply(take(&s, &r, EPOCH - 5000, 1), &r, "1 3 0 15 35");
}

/* redis-cell, transcribed: what it computes in floats and saturating conversions included. */
struct reference {
    bool limited;
    int64_t remaining, retry_ms, reset_ms;
    wide tat; /* 0: there is no key */
};

static struct reference redis_cell(wide tat, wide now, wide interval, wide limit, wide quantity)
{
    const wide tolerance = interval * limit, increment = interval * quantity;
    const wide arrival = tat == 0 ? now : tat;
    const wide new_tat = (now > arrival ? now : arrival) + increment;
    const wide diff = now - (new_tat - tolerance);
    struct reference r = { .limited = diff < 0, .retry_ms = -1, .tat = tat };
    wide ttl, next;

    if (r.limited) {
        if (increment <= tolerance)
            r.retry_ms = (int64_t)(-diff / 1000000);
        ttl = arrival - now;
    } else {
        ttl = new_tat - now;
        r.tat = ttl > 0 ? new_tat : 0; /* expired at once */
    }
    next = tolerance - ttl;
    if (next > -interval)
        r.remaining = (int64_t)((double)(int64_t)(next / 1000) /
                                (double)(int64_t)(interval / 1000));
    r.reset_ms = (int64_t)(ttl / 1000000);
    return r;
}

static void every_answer_is_that_of_the_formulas(void **state)
{
    static const int64_t periods[] = { 1, 7, 60, 3600, 86400 * 30 };
    struct dice dice = dice_new();

    (void)state;
    for (int round = 0; round < scaled(20000); round++) {
        const int64_t capacity = dice_below(&dice, 12) - 2;
        const bool is_long = capacity < 3 && dice_below(&dice, 4) == 0; /* for 64 bits of ns */
        const struct rule r = rule_of(capacity, 1 + dice_below(&dice, is_long ? 5 : 1000),
                                      is_long ? INT64_C(86400) * 365 * 70
                                              : periods[dice_below(&dice, 5)]);
        struct state s = { 0 };
        int64_t now = EPOCH;
        wide tat = 0;

        for (int i = 0; i < 30; i++) {
            const int64_t quantity = dice_below(&dice, 4) ? 1 : dice_below(&dice, 14) - 4;
            struct reference expected;
            struct decision d;

            now += dice_below(&dice, 3) ? 0 : dice_below(&dice, r.window / 500000 % EPOCH + 2);
            if (tat <= (wide)now * 1000000) /* what has passed is gone from Redis */
                tat = 0;
            expected = redis_cell(tat, (wide)now * 1000000, r.window, r.limit, quantity);
            d = take(&s, &r, now, quantity);
            assert_int_equal(d.allowed, !expected.limited);
            assert_int_equal(d.remaining, expected.remaining);
            assert_int_equal(d.reset_after, expected.reset_ms);
            if (!d.allowed)
                assert_int_equal(d.retry_after, expected.retry_ms);
            tat = expected.tat;
        }
    }
}

/* As far as the numbers go: no overflow, which the sanitizers watch for, and no arrival time that
 * could not be kept. */
static void no_number_overflows(void **state)
{
    static const int64_t some[] = { INT64_MIN,  INT64_MIN + 1, -1000000000, -2,       -1, 0, 1, 2,
                                    1000000000, 1ll << 53,     1ll << 62,   INT64_MAX };
    enum { N = sizeof some / sizeof *some };
    const weir_allocator memory = heap();
    int accepted = 0;

    (void)state;
    for (int i = 0; i < N * N * N * N; i++) {
        const int64_t quantity = some[i % N], capacity = some[i / N % N];
        const int64_t count = some[i / N / N % N], period = some[i / N / N / N];
        weir_diag diag;
        struct rule r;

        if (cell_rule(capacity, count, period, &r, &diag) ||
            cell_check_quantity(&r, quantity, &diag))
            continue;
        accepted++;
        for (int64_t now = 1; now < (int64_t)1 << 48; now *= 1000) {
            struct state s = { 0 }, again = { 0 };
            struct packed packed;

            for (int k = 0; k < 3; k++)
                take(&s, &r, now, quantity);
            state_pack(&s, ALGORITHM_CELL, &packed);
            assert_true(state_unpack(&again, ALGORITHM_CELL, &packed, &memory));
            assert_memory_equal(&s.arrival, &again.arrival, sizeof s.arrival);
        }
    }
    assert_true(accepted > 100);
}

static void rates_of_nothing_and_less_are_rejected(void **state)
{
    weir_diag diag;
    struct rule r;

    (void)state;
    assert_int_equal(cell_rule(1, 0, 10, &r, &diag), WEIR_EREQUEST);
    assert_string_equal(diag.text, "Zero rates are not supported");
    assert_int_equal(cell_rule(1, 1, 0, &r, &diag), WEIR_EREQUEST);
    assert_int_equal(cell_rule(1, INT64_MAX, 1, &r, &diag), WEIR_EREQUEST);
    assert_int_equal(cell_rule(1, -1, 10, &r, &diag), WEIR_EREQUEST);
    assert_string_equal(diag.text, "Negative rates are not supported");
    assert_int_equal(cell_rule(INT64_MAX, 1, 10, &r, &diag), WEIR_EREQUEST);
}

static void no_policy_can_name_it(void **state)
{
    struct rule r = { .algorithm = ALGORITHM_CELL, .limit = 1, .window = 1 };

    (void)state;
    assert_int_equal(rule_check(&r, NULL), WEIR_EREQUEST);
    assert_int_equal(algorithm_by_name(span_of("cell")), WEIR_DEFAULT_ALGORITHM);
}

/* ---- in a store ------------------------------------------------------------------------ */

static weir_answer ask_store(weir *w, const char *key, const struct rule *rule, int64_t quantity,
                             int64_t now)
{
    struct published_visit visit = published_enter(&w->policies);
    struct pending pending = { 0 };
    weir_answer answer;
    struct check check = { .answer = &answer, .policies = visit.current };
    weir_diag diag;

    if (engine_prepare_cell(&w->engine, &check, span_of(key), rule, quantity, &diag))
        fail_msg("%s", diag.text);
    engine_prefetch(&w->engine, &check, PREFETCH_PLACE);
    engine_ask(&w->engine, &pending, &check, now);
    engine_commit(&w->engine, &pending);
    published_leave(&w->policies, visit);
    return answer;
}

static int64_t clock_of_test(void *ctx)
{
    return *(int64_t *)ctx;
}

static weir *open_store(const char *store, int64_t *now, unsigned flags)
{
    const weir_options options = {
        .store = store,
        .max_keys = 1000,
        .flags = WEIR_NO_THREAD | flags,
        .clock = clock_of_test,
        .clock_ctx = now,
        .policy_text = "version: 1\npolicies:\n  any: {limit: 1 per 1s}\n",
    };
    weir_diag diag;
    weir *w;

    if (weir_open(&w, &options, &diag))
        fail_msg("%s", diag.text);
    return w;
}

static void a_state_belongs_to_one_key_and_can_be_refunded_and_reset(void **state)
{
    const struct rule r = rule_of(2, 1, 10);
    int64_t now = EPOCH;
    weir *w = open_store("memory:", &now, WEIR_IGNORE_ENVIRONMENT);

    (void)state;
    assert_true(ask_store(w, "a", &r, 3, now).allowed);
    assert_false(ask_store(w, "a", &r, 1, now).allowed);
    assert_int_equal(ask_store(w, "b", &r, 1, now).remaining, 2);
    assert_int_equal(ask_store(w, "a", &r, -1, now).remaining, 1);
    assert_true(ask_store(w, "a", &r, 1, now).allowed);
    assert_false(ask_store(w, "a", &r, 1, now).allowed);
    ask_store(w, "a", NULL, 0, now);
    assert_int_equal(ask_store(w, "a", &r, 1, now).remaining, 2);
    weir_close(w);
}

/* A sweep at a ms where less than that is left must not forget it. */
static void a_sweep_keeps_fractions(void **state)
{
    const struct rule r = rule_of(0, 10000, 7); /* 700,000 ns */
    int64_t now = EPOCH;
    weir *w = open_store("memory:", &now, WEIR_IGNORE_ENVIRONMENT);
    weir_stats stats;

    (void)state;
    assert_true(ask_store(w, "a", &r, 1, now).allowed);
    assert_false(ask_store(w, "a", &r, 1, now).allowed);
    now += 1000; /* what the table leaves for clocks that are set back */
    for (int i = 0; i < 200; i++)
        weir_tick(w);
    weir_get_stats(w, &stats);
    assert_int_equal(stats.keys, 1);
    now++;
    for (int i = 0; i < 200; i++)
        weir_tick(w);
    weir_get_stats(w, &stats);
    assert_int_equal(stats.keys, 0);
    weir_close(w);
}

static void everything_is_allowed_while_the_limiter_is_off(void **state)
{
    const struct rule r = rule_of(0, 1, 10);
    int64_t now = EPOCH;
    weir *w;

    (void)state;
    assert_int_equal(setenv("WEIR_ENABLED", "false", 1), 0);
    w = open_store("memory:", &now, 0);
    assert_int_equal(unsetenv("WEIR_ENABLED"), 0);
    for (int i = 0; i < 3; i++) {
        weir_answer a = ask_store(w, "a", &r, 1, now);

        assert_true(a.allowed);
        assert_int_equal(a.source, WEIR_FROM_OFF);
    }
    weir_close(w);
}

static void a_key_too_long_is_rejected(void **state)
{
    static char key[WEIR_MAX_IDENTITY + 2];
    const struct rule r = rule_of(0, 1, 10);
    int64_t now = EPOCH;
    weir *w = open_store("memory:", &now, WEIR_IGNORE_ENVIRONMENT);
    struct published_visit visit = published_enter(&w->policies);
    weir_answer answer;
    struct check check = { .answer = &answer, .policies = visit.current };

    (void)state;
    memset(key, 'k', sizeof key - 1);
    assert_int_equal(engine_prepare_cell(&w->engine, &check, span_of(key), &r, 1, NULL),
                     WEIR_EREQUEST);
    assert_int_equal(answer.err, WEIR_EREQUEST);
    published_leave(&w->policies, visit);
    weir_close(w);
}

/* Once from the journal, then from the snapshot that closing takes. */
static void a_restart_keeps_every_nanosecond(void **state)
{
    const struct rule r = rule_of(4, 7, 60), long_ago = rule_of(0, 1, 9000000000);
    struct temp_dir temp = temp_dir_make();
    char store[PATH_MAX + 16];
    int64_t now = EPOCH;
    weir_answer before;
    weir *w;

    (void)state;
    snprintf(store, sizeof store, "file:%s/store", temp.path);
    w = open_store(store, &now, WEIR_IGNORE_ENVIRONMENT);
    assert_true(ask_store(w, "a", &r, 3, now).allowed);
    assert_true(ask_store(w, "b", &long_ago, 1, now).allowed);
    assert_true(ask_store(w, "c", &r, 5, now).allowed);
    ask_store(w, "c", NULL, 0, now);
    before = ask_store(w, "a", &r, 0, now);
    for (int life = 0; life < 3; life++) {
        weir_close(w);
        w = open_store(store, &now, WEIR_IGNORE_ENVIRONMENT);
        assert_int_equal(ask_store(w, "a", &r, 0, now).reset_after_ms, before.reset_after_ms);
        assert_false(ask_store(w, "a", &r, 3, now).allowed);
        assert_false(ask_store(w, "b", &long_ago, 1, now).allowed);
        assert_int_equal(ask_store(w, "c", &r, 0, now).remaining, 5);
    }
    assert_true(ask_store(w, "a", &r, 2, now).allowed);
    weir_close(w);
    temp_dir_remove(&temp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_example_is_answered_to_the_letter),
        cmocka_unit_test(a_burst_passes_then_one_unit_per_interval),
        cmocka_unit_test(a_cost_above_the_limit_is_denied_without_a_retry_time),
        cmocka_unit_test(a_quantity_of_none_looks_only),
        cmocka_unit_test(less_than_a_second_is_reported_as_one),
        cmocka_unit_test(less_than_a_millisecond_is_reported_as_zero),
        cmocka_unit_test(a_negative_quantity_is_a_refund),
        cmocka_unit_test(numbers_may_change_between_calls),
        cmocka_unit_test(a_clock_that_steps_back_mints_nothing),
        cmocka_unit_test(every_answer_is_that_of_the_formulas),
        cmocka_unit_test(no_number_overflows),
        cmocka_unit_test(rates_of_nothing_and_less_are_rejected),
        cmocka_unit_test(no_policy_can_name_it),
        cmocka_unit_test(a_state_belongs_to_one_key_and_can_be_refunded_and_reset),
        cmocka_unit_test(a_sweep_keeps_fractions),
        cmocka_unit_test(everything_is_allowed_while_the_limiter_is_off),
        cmocka_unit_test(a_key_too_long_is_rejected),
        cmocka_unit_test(a_restart_keeps_every_nanosecond),
    };

    return cmocka_run_group_tests_name("cell", tests, NULL, NULL);
}
