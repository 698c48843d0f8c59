/* test_brought.c - limits that come with a request answer as policies of the same rule do: windows
 * that begin with the first hit, and lockouts. */
#include "support/limiter.h"

#include <stdio.h>

enum { STEPS = 2000, WINDOW = 1000, BLOCK = 1700, LIMIT = 3 };

struct shape {
    const char *rule; /* as a policy has it */
    weir_algorithm algorithm;
    weir_start start;
    int64_t block_for_ms;
};

static const struct shape shapes[] = {
    { "algorithm: fixed_window, start: first", WEIR_FIXED_WINDOW, WEIR_START_FIRST, 0 },
    { "algorithm: fixed_window, start: first, block_for: 1700ms", WEIR_FIXED_WINDOW,
      WEIR_START_FIRST, BLOCK },
    { "algorithm: fixed_window, block_for: 1700ms", WEIR_FIXED_WINDOW, WEIR_START_EPOCH, BLOCK },
    { "algorithm: sliding_window, block_for: 1700ms", WEIR_SLIDING_WINDOW, WEIR_START_EPOCH,
      BLOCK },
    { "algorithm: token_bucket, block_for: 1700ms", WEIR_TOKEN_BUCKET, WEIR_START_EPOCH, BLOCK },
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static weir_request brought(const struct shape *s, const char *name)
{
    return (weir_request){
        .key = "ann",
        .name = name,
        .limit = LIMIT,
        .window_ms = WINDOW,
        .algorithm = s->algorithm,
        .start = s->start,
        .block_for_ms = s->block_for_ms,
    };
}

typedef weir_err verb(weir *w, const weir_request *r, weir_answer *a, weir_diag *diag);

static void assert_same(const weir_answer *a, const weir_answer *b)
{
    assert_int_equal(a->allowed, b->allowed);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ms, b->retry_after_ms);
    assert_int_equal(a->reset_after_ms, b->reset_after_ms);
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->over, b->over);
}

static void play(const struct shape *s, const char *name)
{
    static verb *const verbs[] = { weir_check,  weir_check,  weir_check, weir_peek,
                                   weir_charge, weir_refund, weir_reset };
    uint32_t random = 12345;
    int64_t now = NOW;
    char text[256];
    weir *w;

    snprintf(text, sizeof text, "version: 1\npolicies: {p: {limit: %d per %dms, by: user, %s}}\n",
             LIMIT, WINDOW, s->rule);
    w = open_text(text);
    for (int i = 0; i < STEPS; i++) {
        weir_request own = brought(s, name), policy = { .policy = "p", .key = "ann" };
        weir_answer a, b;
        size_t which;

        random = random * 1664525u + 1013904223u;
        which = (random >> 8) % 50 == 0 ? 6 : (random >> 8) % 6; /* few resets */
        now += (random >> 16) % 400;
        own.now = policy.now = now;
        own.cost = policy.cost = 1 + (int64_t)((random >> 24) % 2);
        a = ask(verbs[which], w, &own);
        b = ask(verbs[which], w, &policy);
        assert_same(&a, &b);
    }
    weir_close(w);
}

static void without_a_name_answers_are_those_of_a_policy(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        play(&shapes[i], NULL);
}

static void with_a_name_answers_are_those_of_a_policy(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        play(&shapes[i], "own");
}

/* ---- keys ------------------------------------------------------------------------------------- */

static void without_a_name_start_and_lockout_are_in_the_key(void **state)
{
    weir *w = open_text(NULL);

    (void)state;
    for (int start = 0; start < 2; start++)
        for (int64_t block = 0; block < 3; block++) {
            const struct shape s = { NULL, WEIR_FIXED_WINDOW, (weir_start)start, block * BLOCK };
            weir_request r = brought(&s, NULL);

            r.now = NOW;
            assert_int_equal(ask(weir_check, w, &r).remaining, LIMIT - 1);
            assert_int_equal(ask(weir_check, w, &r).remaining, LIMIT - 2);
        }
    weir_close(w);
}

static void with_a_name_only_the_start_is_in_the_key_as_in_a_policys(void **state)
{
    weir *w = open_text(NULL);
    weir_request r = brought(&shapes[1], "own");
    weir_answer a;

    (void)state;
    r.now = NOW;
    for (int i = 0; i < LIMIT; i++)
        ask(weir_check, w, &r);
    r.block_for_ms = 0;
    a = ask(weir_check, w, &r);
    assert_false(a.allowed);
    assert_int_equal(a.retry_after_ms, WINDOW);
    r.block_for_ms = BLOCK; /* what was denied before has begun no lockout */
    assert_int_equal(ask(weir_check, w, &r).retry_after_ms, BLOCK);
    r.block_for_ms = 0; /* one that is in force keeps its end */
    assert_int_equal(ask(weir_check, w, &r).retry_after_ms, BLOCK);
    r.start = WEIR_START_EPOCH;
    assert_true(ask(weir_check, w, &r).allowed);
    weir_close(w);
}

/* ---- mistakes --------------------------------------------------------------------------------- */

static void assert_refused(weir *w, const weir_request *r, const char *text)
{
    weir_answer a;
    weir_diag diag;

    assert_int_equal(weir_check(w, r, &a, &diag), WEIR_EREQUEST);
    assert_string_equal(diag.text, text);
}

static void a_start_or_a_lockout_that_cannot_be_is_an_error(void **state)
{
    weir *w = open_text("version: 1\npolicies: {p: {limit: 3 per 1m, by: user}}\n");
    weir_request r = brought(&shapes[0], NULL);

    (void)state;
    r.algorithm = WEIR_TOKEN_BUCKET;
    assert_refused(w, &r, "token_bucket has no start: only fixed_window does");
    r.start = (weir_start)2;
    assert_refused(w, &r, "start must be epoch or first");
    r = brought(&shapes[1], NULL);
    r.block_for_ms = -1;
    assert_refused(w, &r, "block_for must be from 1 ms to 4398046511104 ms, not -1");
    for (int i = 0; i < 2; i++) {
        r = (weir_request){ .policy = "p", .key = "ann" };
        if (i == 0)
            r.start = WEIR_START_FIRST;
        else
            r.block_for_ms = 1;
        assert_refused(w, &r,
                       "the request names a policy and has a limit: leave out limit, window, "
                       "burst, precision, algorithm, start and block_for, or the policy");
    }
    weir_close(w);
}

static void an_id_is_of_one_name_one_start_and_one_lockout(void **state)
{
    weir *w = open_text(NULL);
    weir_request r = brought(&shapes[1], "own");
    weir_answer a;
    weir_diag diag;

    (void)state;
    r.id = "order-1";
    assert_false(ask(weir_check, w, &r).repeated);
    assert_true(ask(weir_check, w, &r).repeated);
    r.block_for_ms++;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EREUSED);
    r.block_for_ms--;
    r.start = WEIR_START_EPOCH;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EREUSED);
    r.start = WEIR_START_FIRST;
    r.name = "other";
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EREUSED);
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_name_answers_are_those_of_a_policy),
        cmocka_unit_test(with_a_name_answers_are_those_of_a_policy),
        cmocka_unit_test(without_a_name_start_and_lockout_are_in_the_key),
        cmocka_unit_test(with_a_name_only_the_start_is_in_the_key_as_in_a_policys),
        cmocka_unit_test(a_start_or_a_lockout_that_cannot_be_is_an_error),
        cmocka_unit_test(an_id_is_of_one_name_one_start_and_one_lockout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
