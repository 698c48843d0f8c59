/* test_limit.c - properties of the arithmetic, by brute force over small numbers. */
#include "support/unit.h"

#include "limit/pack.h"
#include "limit/state.h"

enum { EPOCH = 1000000 };

static weir_allocator memory;

#define X(name, value, text, has_burst, has_precision) WEIR_##name,
static const weir_algorithm algorithms[] = { WEIR_ALGORITHMS(X) };
#undef X

static struct rule make_rule(weir_algorithm algorithm, int64_t limit, int64_t window, int64_t extra)
{
    struct rule r = { .algorithm = algorithm, .limit = limit, .window = window };

    if (algorithm_has_burst(algorithm))
        r.burst = extra;
    if (algorithm_has_precision(algorithm))
        r.precision = extra > window ? window : extra;
    assert_int_equal(rule_check(&r, NULL), WEIR_OK);
    return r;
}

static struct decision peek(const struct state *s, const struct rule *r, int64_t now, int64_t cost)
{
    struct step step;

    state_take(s, r, &(struct ask){ .now = now, .cost = cost, .peek = true }, &step);
    return step.decision;
}

static struct decision take(struct state *s, const struct rule *r, int64_t now, int64_t cost)
{
    struct step step;

    state_take(s, r, &(struct ask){ .now = now, .cost = cost, .peek = false }, &step);
    if (step.decision.allowed && cost > 0) {
        assert_true(state_reserve(s, r, &step, &memory));
        state_apply(s, r, &step);
    }
    return step.decision;
}

/* Every algorithm, small limits, windows and bursts or precisions; a walk of random steps,
 * with `check` after each. Time goes on by 0 to twice the window. */
static void walk(int steps, void (*check)(const struct state *, const struct rule *, int64_t now))
{
    struct dice dice = dice_new();

    for (size_t a = 0; a < ALGORITHM_COUNTED; a++)
        for (int64_t limit = 1; limit <= 5; limit += 2)
            for (int64_t window = 1; window <= 13; window += 3)
                for (int64_t extra = 1; extra <= 7; extra += 3) {
                    struct rule r = make_rule(algorithms[a], limit, window, extra);
                    struct state s = { 0 };
                    int64_t now = EPOCH + dice_below(&dice, 100);

                    for (int i = 0; i < steps; i++) {
                        if (dice_below(&dice, 3) > 0)
                            now += dice_below(&dice, dice_below(&dice, 3) ? 3 : 2 * window + 1);
                        take(&s, &r, now,
                             1 + dice_below(&dice, dice_below(&dice, 4) ? 2 : limit + 1));
                        check(&s, &r, now);
                    }
                    state_done(&s, r.algorithm, &memory);
                }
}

static void check_retry_after(const struct state *s, const struct rule *r, int64_t now)
{
    for (int64_t cost = 1; cost <= r->burst + 1; cost++) {
        struct decision d = peek(s, r, now, cost);

        if (d.allowed) {
            assert_int_equal(d.retry_after, 0);
        } else if (d.retry_after == WEIR_NEVER) {
            assert_true(cost > r->burst);
        } else {
            assert_true(d.retry_after > 0);
            for (int64_t t = 1; t < d.retry_after; t++)
                assert_false(peek(s, r, now + t, cost).allowed);
            assert_true(peek(s, r, now + d.retry_after, cost).allowed);
        }
    }
}

/* retry_after is a promise: refused at every ms before, admitted on the ms. */
static void retry_after_is_exact(void **state)
{
    (void)state;
    walk(60, check_retry_after);
}

static struct state copy_of(const struct state *s, const struct rule *r)
{
    struct state copy = *s;

    if (r->algorithm == WEIR_SLIDING_WINDOW && s->sliding_window.is_far) {
        size_t size = state_heap_bytes(s, r->algorithm);

        copy.sliding_window.far = malloc(size);
        memcpy(copy.sliding_window.far, s->sliding_window.far, size);
    }
    return copy;
}

static void check_remaining(const struct state *s, const struct rule *r, int64_t now)
{
    struct state copy = copy_of(s, r);
    struct decision before = peek(s, r, now, 1);
    int64_t passed = 0;

    for (int64_t said = before.remaining; take(&copy, r, now, 1).allowed; passed++)
        assert_int_equal(peek(&copy, r, now, 1).remaining, --said);
    assert_int_equal(passed, before.remaining);
    assert_int_equal(before.allowed, before.remaining > 0);
    state_done(&copy, r->algorithm, &memory);
}

static void remaining_is_what_still_passes(void **state)
{
    (void)state;
    walk(60, check_remaining);
}

static void check_reset_after(const struct state *s, const struct rule *r, int64_t now)
{
    const struct state untouched = { 0 };
    struct decision d = peek(s, r, now, 1);

    for (int64_t t = d.reset_after; t < d.reset_after + 3; t++) {
        struct decision then = peek(s, r, now + t, 1), fresh = peek(&untouched, r, now + t, 1);

        assert_int_equal(then.remaining, fresh.remaining);
        assert_int_equal(then.reset_after, fresh.reset_after);
    }
}

static void after_reset_after_a_key_is_like_untouched(void **state)
{
    (void)state;
    walk(60, check_reset_after);
}

static void check_stepping_back(const struct state *s, const struct rule *r, int64_t now)
{
    for (int64_t back = 1; back <= 2 * r->window; back++)
        assert_true(peek(s, r, now - back, 1).remaining <= peek(s, r, now, 1).remaining);
}

static void a_clock_that_steps_back_never_mints(void **state)
{
    (void)state;
    walk(60, check_stepping_back);
}

enum { MOST_ADMITTED = 4000 };

struct admitted {
    int64_t at[MOST_ADMITTED], cost[MOST_ADMITTED];
    size_t n;
};

/* The most that was admitted in any interval [t, t + length). */
static int64_t most_in(const struct admitted *a, int64_t length)
{
    int64_t most = 0, sum = 0;

    for (size_t first = 0, next = 0; first < a->n; sum -= a->cost[first++]) {
        while (next < a->n && a->at[next] < a->at[first] + length)
            sum += a->cost[next++];
        most = sum > most ? sum : most;
    }
    return most;
}

static void run_greedily(const struct rule *r, struct dice *dice, struct admitted *out)
{
    struct state s = { 0 };
    int64_t now = EPOCH;

    out->n = 0;
    while (out->n < MOST_ADMITTED) {
        int64_t cost = 1 + dice_below(dice, r->limit);

        now += dice_below(dice, 3);
        if (!take(&s, r, now, cost).allowed)
            continue;
        out->at[out->n] = now;
        out->cost[out->n++] = cost;
    }
    state_done(&s, r->algorithm, &memory);
}

static void a_sliding_window_never_exceeds_its_limit_in_any_interval(void **state)
{
    struct dice dice = dice_new();
    static struct admitted admitted;

    (void)state;
    for (int64_t limit = 1; limit <= 9; limit += 2)
        for (int64_t window = 1; window <= 31; window += 5)
            for (int64_t precision = 1; precision <= window; precision += 4) {
                struct rule r = make_rule(WEIR_SLIDING_WINDOW, limit, window, precision);

                run_greedily(&r, &dice, &admitted);
                assert_true(most_in(&admitted, window) <= limit);
            }
}

static void a_bucket_never_exceeds_its_burst_and_rate_in_any_interval(void **state)
{
    struct dice dice = dice_new();
    static struct admitted admitted;

    (void)state;
    for (int64_t limit = 1; limit <= 9; limit += 2)
        for (int64_t burst = 1; burst <= 9; burst += 4)
            for (int64_t window = 1; window <= 31; window += 5) {
                struct rule r = make_rule(WEIR_TOKEN_BUCKET, limit, window, burst);

                run_greedily(&r, &dice, &admitted);
                for (int64_t length = 1; length <= 3 * window; length++)
                    assert_true(most_in(&admitted, length) <=
                                burst + limit * (length - 1) / window);
            }
}

static void a_leaky_bucket_delays_to_its_rate(void **state)
{
    const struct rule r = make_rule(WEIR_LEAKY_BUCKET, 2, 1000, 4);
    struct state s = { 0 };

    (void)state;
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(take(&s, &r, EPOCH, 1).delay, i * 500);
    assert_false(take(&s, &r, EPOCH, 1).allowed);
    assert_int_equal(take(&s, &r, EPOCH + 500, 1).delay, 1500);
}

static void check_refund(const struct state *s, const struct rule *r, int64_t now)
{
    struct state copy = copy_of(s, r);
    struct decision before = peek(s, r, now, 1);
    struct step after;

    if (take(&copy, r, now, 1).allowed) {
        state_refund(&copy, r, &(struct ask){ .now = now, .cost = 1, .peek = false }, &after);
        assert_int_equal(after.decision.remaining, before.remaining);
        assert_int_equal(peek(&copy, r, now, 1).remaining, before.remaining);
    }
    state_refund(&copy, r, &(struct ask){ .now = now, .cost = WEIR_MAX_AMOUNT, .peek = false },
                 &after);
    assert_int_equal(peek(&copy, r, now, 1).remaining, r->burst); /* and no more than that */
    state_done(&copy, r->algorithm, &memory);
}

static void a_refund_takes_back_what_was_charged_and_no_more(void **state)
{
    (void)state;
    walk(60, check_refund);
}

/* ---- the log of a sliding window against the simplest model of it ------------------------ */

struct model {
    int64_t start[512], count[512];
    size_t n;
};

static bool model_take(struct model *m, const struct rule *r, int64_t now, int64_t cost)
{
    int64_t live = 0, start;

    if (m->n > 0 && now < m->start[m->n - 1])
        now = m->start[m->n - 1];
    for (size_t i = 0; i < m->n; i++)
        if (m->start[i] + r->precision - 1 + r->window > now)
            live += m->count[i];
    if (live + cost > r->limit)
        return false;
    start = now - now % r->precision;
    if (m->n > 0 && m->start[m->n - 1] == start) {
        m->count[m->n - 1] += cost;
        return true;
    }
    if (m->n == 512) {
        memmove(m->start, m->start + 256, sizeof *m->start * 256);
        memmove(m->count, m->count + 256, sizeof *m->count * 256);
        m->n = 256;
    }
    m->start[m->n] = start;
    m->count[m->n++] = cost;
    return true;
}

static void run_against_model(struct rule r, struct dice *dice, int64_t step, int64_t most_cost)
{
    struct model *m = calloc(1, sizeof *m);
    struct state s = { 0 };
    int64_t now = EPOCH;

    for (int i = 0; i < 3000; i++) {
        int64_t cost = 1 + dice_below(dice, most_cost);

        now += dice_below(dice, step);
        if (dice_below(dice, 400) == 0)
            now += 2 * r.window;
        assert_int_equal(take(&s, &r, now, cost).allowed, model_take(m, &r, now, cost));
    }
    state_done(&s, r.algorithm, &memory);
    free(m);
}

static void a_log_of_any_length_counts_like_the_model(void **state)
{
    struct dice dice = dice_new();

    (void)state;
    run_against_model(make_rule(WEIR_SLIDING_WINDOW, 3, 50, 1), &dice, 20, 2);  /* near */
    run_against_model(make_rule(WEIR_SLIDING_WINDOW, 60, 100, 1), &dice, 4, 3); /* far */
    run_against_model(make_rule(WEIR_SLIDING_WINDOW, 200, 200, 1), &dice, 3,
                      3); /* far, moving up */
    run_against_model(make_rule(WEIR_SLIDING_WINDOW, 500, 120, 7), &dice, 5, 9);
}

static void a_log_whose_numbers_outgrow_a_word_becomes_wide(void **state)
{
    struct dice dice = dice_new();
    const int64_t years = (int64_t)1 << 42;

    (void)state;
    run_against_model(make_rule(WEIR_SLIDING_WINDOW, 500000000, 100, 10), &dice, 5, 40000000);
    run_against_model(make_rule(WEIR_SLIDING_WINDOW, 9, years / 8, 1), &dice, years / 64, 3);
}

static void *refuse(void *ctx, void *block, size_t size)
{
    (void)ctx;
    if (size == 0)
        free(block);
    return NULL;
}

static void a_log_that_cannot_grow_is_unchanged(void **state)
{
    const struct rule r = make_rule(WEIR_SLIDING_WINDOW, 9, 100, 1);
    const weir_allocator none = { refuse, NULL };
    struct state s = { 0 }, before;
    struct step step;

    (void)state;
    for (int64_t i = 0; i < SLIDING_WINDOW_NEAR; i++)
        take(&s, &r, EPOCH + i, 1);
    before = s;
    state_take(&s, &r, &(struct ask){ .now = EPOCH + SLIDING_WINDOW_NEAR - 1, .cost = 1 }, &step);
    assert_true(state_has_room(&s, &r, &step)); /* it is added to the newest */
    state_take(&s, &r, &(struct ask){ .now = EPOCH + 50, .cost = 1, .peek = false }, &step);
    assert_true(step.decision.allowed);
    assert_false(state_has_room(&s, &r, &step));
    assert_false(state_reserve(&s, &r, &step, &none));
    assert_memory_equal(&s, &before, sizeof s);
}

/* ---- numbers ---------------------------------------------------------------------------- */

static void a_lowered_limit_keeps_what_is_counted(void **state)
{
    (void)state;
    for (size_t a = 0; a < ALGORITHM_COUNTED; a++) {
        struct rule r = { .algorithm = algorithms[a], .limit = 10, .window = 1000 }, lower = r,
                    higher = r;
        struct state s = { 0 };

        lower.limit = 4;
        higher.limit = 20;
        assert_int_equal(rule_check(&r, NULL), WEIR_OK);
        assert_int_equal(rule_check(&lower, NULL), WEIR_OK);
        assert_int_equal(rule_check(&higher, NULL), WEIR_OK);
        take(&s, &r, EPOCH, 6);
        assert_int_equal(peek(&s, &lower, EPOCH, 1).remaining, 0);
        assert_false(peek(&s, &lower, EPOCH, 1).allowed);
        assert_int_equal(peek(&s, &higher, EPOCH, 1).remaining, 14);
        check_retry_after(&s, &lower, EPOCH);
        state_done(&s, r.algorithm, &memory);
    }
}

static void a_limit_of_zero_always_denies(void **state)
{
    struct rule r = { .algorithm = WEIR_FIXED_WINDOW, .limit = 0 };
    const struct state s = { 0 };

    (void)state;
    assert_int_equal(rule_check(&r, NULL), WEIR_OK);
    assert_false(peek(&s, &r, EPOCH, 1).allowed);
    assert_int_equal(peek(&s, &r, EPOCH, 1).retry_after, WEIR_NEVER);
    assert_true(peek(&s, &r, EPOCH, 0).allowed);
}

static void numbers_at_the_bound_do_not_overflow(void **state)
{
    const int64_t most = WEIR_MAX_AMOUNT - 1;

    (void)state;
    for (size_t a = 0; a < ALGORITHM_COUNTED; a++) {
        struct rule tall = make_rule(algorithms[a], most, 1, 0),
                    wide = make_rule(algorithms[a], 1, most, 0);
        struct state s = { 0 }, w = { 0 };

        assert_true(take(&s, &tall, EPOCH, most).allowed);
        assert_false(take(&s, &tall, EPOCH, 1).allowed);
        assert_false(take(&s, &tall, EPOCH, WEIR_MAX_AMOUNT).allowed);
        assert_true(take(&s, &tall, EPOCH + most, 1).allowed); /* a rest times the limit would */
        assert_true(take(&w, &wide, EPOCH, 1).allowed);
        assert_false(take(&w, &wide, EPOCH * 2, 1).allowed);
        state_done(&s, tall.algorithm, &memory);
        state_done(&w, wide.algorithm, &memory);
    }
}

static void assert_refused(struct rule r, const char *why)
{
    weir_diag diag = { "" };

    assert_int_equal(rule_check(&r, &diag), WEIR_EREQUEST);
    if (!strstr(diag.text, why))
        fail_msg("\"%s\" does not say \"%s\"", diag.text, why);
}

static void numbers_out_of_bounds_are_rejected_with_the_bounds(void **state)
{
    const int64_t third = WEIR_MAX_AMOUNT / 3;

    (void)state;
    assert_refused((struct rule){ .limit = -1, .window = 1 }, "at least 0");
    assert_refused((struct rule){ .limit = 1, .window = 0 }, "at least 1 ms");
    assert_refused((struct rule){ .algorithm = WEIR_SLIDING_COUNTER, .limit = 4, .window = third },
                   "at most 3");
    assert_refused(
        (struct rule){ .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .window = WEIR_MAX_AMOUNT },
        "below 2^53 ms");
    assert_refused((struct rule){ .limit = 61, .window = WEIR_MAX_AMOUNT - 1 }, "together");
    assert_refused((struct rule){ .limit = WEIR_MAX_AMOUNT, .window = 1 }, "below 2^53");
    assert_refused((struct rule){ .limit = 1, .window = 9, .burst = 2 },
                   "only token_bucket and leaky");
    assert_refused((struct rule){ .limit = 1, .window = 9, .precision = 10 },
                   "from 1 ms to the window");
    assert_refused((struct rule){ WEIR_TOKEN_BUCKET, 1, 9, 0, .precision = 3 },
                   "only sliding_window");
    assert_refused((struct rule){ WEIR_TOKEN_BUCKET, 1, third, 4, .precision = 0 }, "at most 3");
    assert_refused((struct rule){ .limit = 1 << 22, .window = 1 << 22, .precision = 1 },
                   "at least 5 ms");
    assert_refused((struct rule){ .limit = 1, .window = 9, .start = START_FIRST },
                   "sliding_window has no start: only fixed_window does");
    assert_refused((struct rule){ .limit = 1, .window = 9, .block_for = RULE_MOST_BLOCK_FOR + 1 },
                   "block_for must be from 1 ms");
    assert_refused((struct rule){ .algorithm = (weir_algorithm)9, .limit = 1, .window = 1 },
                   "number 9");
}

/* Charged one by one, 10 ms apart: when each is answered to end. */
static void assert_ends(enum rule_start start, const int64_t *wanted, size_t n)
{
    const struct rule r = { WEIR_FIXED_WINDOW, 2, 100, 2, .start = start };
    struct state s = { 0 };
    struct step step;

    for (size_t i = 0; i < n; i++) {
        state_take(&s, &r, &(struct ask){ 1000 + 10 * (int64_t)i, 1, .forced = true }, &step);
        state_apply(&s, &r, &step);
        assert_int_equal(step.decision.remaining, 1 - (int64_t)i);
        assert_int_equal(step.decision.reset_after, wanted[i]);
        assert_int_equal(s.fixed_window.start, 1000);
    }
}

static void charges_move_the_end_of_a_window_as_its_start_says(void **state)
{
    struct state s = { .fixed_window = { 1000, 80, 1100 } };
    const struct rule r = { WEIR_FIXED_WINDOW, 2, 100, 2, .start = START_BACKOFF };
    struct step step;

    (void)state;
    assert_ends(START_FIRST, (const int64_t[]){ 100, 90, 80, 70, 60 }, 5);
    assert_ends(START_EACH, (const int64_t[]){ 100, 100, 100, 100, 100 }, 5);
    assert_ends(START_OVER, (const int64_t[]){ 100, 90, 100, 100, 100 }, 5);
    assert_ends(START_BACKOFF, (const int64_t[]){ 100, 90, 100, 200, 400 }, 5);

    state_take(&s, &r, &(struct ask){ 1050, 1, .forced = true }, &step);
    assert_int_equal(step.decision.reset_after, AMOUNT_MOST); /* and no further */
    state_take(&s, &r, &(struct ask){ 1050, 0, .forced = true }, &step);
    assert_int_equal(step.decision.reset_after, 50);
    state_take(&s, &r, &(struct ask){ 1100, 1, .forced = true }, &step);
    assert_int_equal(step.decision.remaining, 1); /* over: the next begins */
    assert_int_equal(step.decision.reset_after, 100);
}

static void a_window_from_the_first_request_begins_and_ends_on_the_millisecond(void **state)
{
    const struct rule r = { WEIR_FIXED_WINDOW, 2, 100, 2, .start = START_FIRST };
    struct state s = { 0 };

    (void)state;
    assert_int_equal(peek(&s, &r, EPOCH + 7, 1).reset_after, 0);
    assert_int_equal(take(&s, &r, EPOCH + 7, 0).reset_after, 0); /* counts nothing */
    assert_int_equal(take(&s, &r, EPOCH + 7, 1).reset_after, 100);
    assert_int_equal(take(&s, &r, EPOCH + 100, 1).reset_after, 7);
    assert_int_equal(take(&s, &r, EPOCH + 106, 1).retry_after, 1);
    assert_int_equal(take(&s, &r, EPOCH + 1, 1).retry_after, 100); /* a clock that steps back */
    assert_int_equal(take(&s, &r, EPOCH + 300, 1).reset_after, 100);
    assert_int_equal(peek(&s, &r, EPOCH + 400, 1).reset_after, 0);
    assert_int_equal(peek(&s, &r, EPOCH + 400, 1).remaining, 2);
}

static void the_default_precision_follows_the_limit(void **state)
{
    struct rule exact = make_rule(WEIR_SLIDING_WINDOW, 60, 61000, 0);
    struct rule coarse = make_rule(WEIR_SLIDING_WINDOW, 61, 61001, 0);

    (void)state;
    assert_int_equal(exact.precision, 1);
    assert_int_equal(coarse.precision, 1017);
}

/* A log comes from a file: its sum must stay a number too, in few entries and in many. */
static void a_log_whose_sum_is_no_amount_is_rejected(void **state)
{
    const int64_t most = ((int64_t)1 << 62) - 1;

    (void)state;
    for (int few = 0; few < 20; few++) {
        struct state s = { 0 };
        struct sliding_window *log = &s.sliding_window;

        for (int i = 0; i < few; i++)
            assert_true(log_push(log, (struct log_entry){ EPOCH + i, 1 }, &memory));
        assert_true(log_push(log, (struct log_entry){ EPOCH + few, most - few }, &memory));
        assert_false(log_push(log, (struct log_entry){ EPOCH + few, 1 }, &memory));
        assert_false(log_push(log, (struct log_entry){ EPOCH + few + 1, most }, &memory));
        assert_int_equal(log_total(log), most);
        state_done(&s, WEIR_SLIDING_WINDOW, &memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_after_is_exact),
        cmocka_unit_test(remaining_is_what_still_passes),
        cmocka_unit_test(after_reset_after_a_key_is_like_untouched),
        cmocka_unit_test(a_clock_that_steps_back_never_mints),
        cmocka_unit_test(a_sliding_window_never_exceeds_its_limit_in_any_interval),
        cmocka_unit_test(a_bucket_never_exceeds_its_burst_and_rate_in_any_interval),
        cmocka_unit_test(a_leaky_bucket_delays_to_its_rate),
        cmocka_unit_test(a_refund_takes_back_what_was_charged_and_no_more),
        cmocka_unit_test(a_log_of_any_length_counts_like_the_model),
        cmocka_unit_test(a_log_whose_numbers_outgrow_a_word_becomes_wide),
        cmocka_unit_test(a_log_that_cannot_grow_is_unchanged),
        cmocka_unit_test(a_lowered_limit_keeps_what_is_counted),
        cmocka_unit_test(a_limit_of_zero_always_denies),
        cmocka_unit_test(numbers_at_the_bound_do_not_overflow),
        cmocka_unit_test(numbers_out_of_bounds_are_rejected_with_the_bounds),
        cmocka_unit_test(a_log_whose_sum_is_no_amount_is_rejected),
        cmocka_unit_test(a_window_from_the_first_request_begins_and_ends_on_the_millisecond),
        cmocka_unit_test(charges_move_the_end_of_a_window_as_its_start_says),
        cmocka_unit_test(the_default_precision_follows_the_limit),
    };

    memory = heap();
    return cmocka_run_group_tests_name("limit", tests, NULL, NULL);
}
