/* test_fallback.c - what is decided while the shared store cannot. */
#include "engine/fallback.h"
#include "engine/handle.h"
#include "support/limiter.h"

/* A store that fails when it is told to, over one that does not. */
struct frail {
    struct store store;
    struct store *inner;
    bool fails;
};

static void frail_submit(struct store *s, struct pending *pending, struct question *q)
{
    struct frail *f = (struct frail *)s;

    if (!f->fails) {
        f->inner->ops->submit(f->inner, pending, q);
        return;
    }
    q->err = WEIR_EIO;
    q->done(q);
}

static void frail_commit(struct store *s, struct pending *pending)
{
    struct frail *f = (struct frail *)s;

    f->inner->ops->commit(f->inner, pending);
}

static const struct store_ops frail_ops = { .submit = frail_submit, .commit = frail_commit };

static weir *open_frail(const char *policies, struct frail *f)
{
    const struct store_options local = {
        .uri = "memory:", .max_keys = 1000, .allocator = alloc_or_default((weir_allocator){ 0 })
    };
    weir *w = open_text(policies);

    *f = (struct frail){ { .ops = &frail_ops }, w->engine.store, false };
    w->engine.store = &f->store;
    assert_int_equal(store_open(&w->engine.local, &local, NULL), WEIR_OK);
    return w;
}

static void close_frail(weir *w, struct frail *f)
{
    w->engine.store = f->inner;
    weir_close(w);
}

static int admitted(weir *w, const char *words, int attempts)
{
    int n = 0;

    for (int i = 0; i < attempts; i++) {
        weir_answer a = check(w, NOW, words);

        assert_int_equal(a.source, WEIR_FROM_FALLBACK);
        n += a.allowed;
    }
    return n;
}

#define TEN "  ten: {limit: 10 per 1h, by: user}\n"

static void it_knows_what_the_store_has_admitted(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES(TEN), &f);

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(check(w, NOW, "ten user=a").allowed);
    assert_true(peek(w, NOW, "ten user=a").allowed); /* which admits nothing */
    f.fails = true;
    assert_int_equal(admitted(w, "ten user=a", 20), 7);
    assert_int_equal(admitted(w, "ten user=b", 20), 10);
    close_frail(w, &f);
}

static void each_amount_is_counted_here_too(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES("  model:\n"
                                  "    rules:\n"
                                  "      calls: {limit: 5 per 1h, by: user}\n"
                                  "      tokens: {limit: 100 per 1h, by: user, counts: tokens}\n"),
                         &f);
    const weir_cost tokens = { "tokens", 30 };
    weir_request r = {
        .policy = "model", .key = "a", .now = NOW, .costs = &tokens, .cost_count = 1
    };
    weir_answer a;

    (void)state;
    assert_true(ask(weir_check, w, &r).allowed);
    f.fails = true;
    for (int i = 0; i < 2; i++)
        assert_true(ask(weir_check, w, &r).allowed);
    a = ask(weir_check, w, &r);
    assert_true(!a.allowed && a.source == WEIR_FROM_FALLBACK && a.rules[0].allowed);
    r.cost_count = 0;
    for (int i = 0; i < 2; i++)
        assert_true(ask(weir_check, w, &r).allowed);
    assert_false(ask(weir_check, w, &r).allowed);
    close_frail(w, &f);
}

static void lockouts_are_begun_here_and_end_with_the_store(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES("  login: {limit: 1 per 1s, by: user, block_for: 1m}\n"), &f);
    weir_answer a;

    (void)state;
    f.fails = true;
    assert_int_equal(admitted(w, "login user=a", 3), 1);
    a = check(w, NOW + 2000, "login user=a");
    assert_true(!a.allowed && a.retry_after_ms == 58000 && a.source == WEIR_FROM_FALLBACK);
    f.fails = false;
    a = check(w, NOW + 2000, "login user=a"); /* which the store knows nothing of */
    assert_true(a.allowed && a.source == WEIR_FROM_STORE);
    assert_false(check(w, NOW + 2000, "login user=a").allowed);
    f.fails = true;
    assert_false(check(w, NOW + 4000, "login user=a").allowed);
    a = check(w, NOW + 62000, "login user=a");
    assert_true(a.allowed && a.source == WEIR_FROM_FALLBACK);
    close_frail(w, &f);
}

static void instances_share_a_limit(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES(TEN "  one: {limit: 1 per 1h, by: user}\n"
                                      "fallback: {instances: 4}\n"),
                         &f);

    (void)state;
    assert_true(check(w, NOW, "ten user=a").allowed);
    f.fails = true;
    assert_int_equal(admitted(w, "ten user=a", 20), 1); /* 10 / 4 is 2, and one was had */
    assert_int_equal(admitted(w, "one user=a", 20), 1); /* no share is nothing */
    close_frail(w, &f);
}

static void the_store_is_the_truth_again_afterwards(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES(TEN), &f);
    weir_answer a;

    (void)state;
    assert_true(check(w, NOW, "ten user=a").allowed);
    f.fails = true;
    assert_int_equal(admitted(w, "ten user=a", 20), 9);
    f.fails = false;
    a = check(w, NOW, "ten user=a");
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    assert_int_equal(a.remaining, 8);
    close_frail(w, &f);
}

static void refunds_and_resets_clear_the_deny_cache(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES(TEN), &f);

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(check(w, NOW, "ten user=a").allowed);
    for (int i = 0; i < 5; i++)
        assert_true(check(w, NOW, "ten user=b").allowed);
    refund(w, NOW, "ten user=a cost=2");
    reset(w, NOW, "ten user=b");
    f.fails = true;
    assert_int_equal(admitted(w, "ten user=a", 20), 7);
    assert_int_equal(admitted(w, "ten user=b", 20), 10);
    close_frail(w, &f);
}

static void policies_that_allow_or_deny_on_error_do_so(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES("  open: {limit: 2 per 1h, by: user, on_error: allow}\n"
                                  "  shut: {limit: 2 per 1h, by: user, on_error: deny}\n"),
                         &f);

    (void)state;
    f.fails = true;
    assert_int_equal(admitted(w, "open user=a", 20), 20);
    assert_int_equal(admitted(w, "shut user=a", 20), 0);
    close_frail(w, &f);
}

static int admitted_by(weir *w, const weir_request *r, int attempts)
{
    int n = 0;

    for (int i = 0; i < attempts; i++)
        n += ask(weir_check, w, r).allowed;
    return n;
}

static void a_limit_given_in_a_request_has_its_own_on_error(void **state)
{
    weir_request r = { .key = "a", .limit = 3, .window_ms = 60000, .now = NOW };
    struct frail f;
    weir *w = open_frail(POLICIES(TEN), &f);

    (void)state;
    f.fails = true;
    assert_int_equal(admitted_by(w, &r, 9), 3);
    r.on_error = WEIR_ON_ERROR_ALLOW;
    assert_int_equal(admitted_by(w, &r, 9), 9);
    r.on_error = WEIR_ON_ERROR_DENY;
    assert_int_equal(admitted_by(w, &r, 9), 0);
    r.name = "login";
    assert_int_equal(admitted_by(w, &r, 9), 0);
    assert_string_equal(ask(weir_check, w, &r).policy, "login");
    r.on_error = WEIR_ON_ERROR_ALLOW;
    assert_int_equal(admitted_by(w, &r, 9), 9);
    r.on_error = WEIR_ON_ERROR_LOCAL;
    assert_int_equal(admitted_by(w, &r, 9), 3);
    close_frail(w, &f);
}

static void after_so_many_errors_nothing_is_let_through(void **state)
{
    struct frail f;
    weir *w = open_frail("version: 1\n"
                         "fallback: {deny_after_errors: 4}\n"
                         "policies:\n" TEN "  open: {limit: 2 per 1h, by: user, on_error: allow}\n",
                         &f);

    (void)state;
    f.fails = true;
    assert_int_equal(admitted(w, "ten user=a", 20), 4);
    assert_int_equal(admitted(w, "open user=a", 5), 5);
    f.fails = false;
    assert_int_equal(check(w, NOW, "ten user=a").source, WEIR_FROM_STORE);
    f.fails = true; /* it is counted anew */
    assert_int_equal(admitted(w, "ten user=a", 20), 4);
    close_frail(w, &f);
}

/* All rules or none, as ever. */
static void several_rules_are_decided_together(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES("  both:\n"
                                  "    rules:\n"
                                  "      all: {limit: 5 per 1h}\n"
                                  "      user: {limit: 2 per 1h, by: user}\n"),
                         &f);
    weir_answer a;

    (void)state;
    f.fails = true;
    assert_int_equal(admitted(w, "both user=a", 5), 2);
    assert_int_equal(admitted(w, "both user=b", 5), 2);
    assert_int_equal(admitted(w, "both user=c", 5), 1);
    a = check(w, NOW, "both user=d");
    assert_false(a.allowed);
    assert_string_equal(a.rule, "all");
    assert_int_equal(rule_of(&a, "user")->remaining, 2);
    close_frail(w, &f);
}

/* One that denies is enough; else the rules of those that decide here do. */
static void policies_of_one_request_each_decide_for_their_rules(void **state)
{
    struct frail f;
    weir *w = open_frail(POLICIES(TEN "  open: {limit: 2 per 1h, by: user, on_error: allow}\n"
                                      "  shut: {limit: 2 per 1h, by: user, on_error: deny}\n"),
                         &f);
    const char *const local[] = { "open", "ten" }, *const denied[] = { "ten", "open", "shut" };
    weir_request r = { .policies = local, .policy_count = 2, .key = "a", .now = NOW };
    weir_answer a;

    (void)state;
    assert_int_equal(admitted_by(w, &r, 9), 2);
    r.policies = denied;
    r.policy_count = 3;
    r.key = "c";
    assert_true(ask(weir_check, w, &r).allowed); /* which the limiter here hears of */
    f.fails = true;
    r.policies = local;
    r.policy_count = 2;
    assert_int_equal(admitted_by(w, &r, 20), 9);
    r.key = "a";
    assert_int_equal(admitted_by(w, &r, 20), 8);
    a = ask(weir_check, w, &r);
    assert_int_equal(a.source, WEIR_FROM_FALLBACK);
    assert_string_equal(a.policy, "ten");
    assert_int_equal(a.rule_count, 1);
    r.key = "b";
    r.policies = denied;
    r.policy_count = 3;
    assert_int_equal(admitted_by(w, &r, 5), 0);
    assert_string_equal(ask(weir_check, w, &r).policy, "shut");
    r.policies = &local[0];
    r.policy_count = 1;
    assert_int_equal(admitted_by(w, &r, 5), 5);
    close_frail(w, &f);
}

/* So many checks of this cost, in runs of so many, or one by one. */
static void learn(weir *w, const char *policy, int count, int64_t cost, int together)
{
    struct published_visit visit = published_enter(&w->policies);
    const weir_request r = { .policy = policy, .key = "a", .cost = cost };
    struct fallback_run run = { 0 };
    struct check_room room;
    weir_answer answer;
    weir_diag diag;
    struct check one = { .request = &r,
                         .verb = VERB_CHECK,
                         .answer = &answer,
                         .room = &room,
                         .policies = visit.current };

    assert_int_equal(engine_prepare(&w->engine, &one, &diag), WEIR_OK);
    one.ask.now = NOW;
    for (int i = 0; i < count; i++) {
        fallback_run_add(&w->engine, &run, &one);
        if (i % together == together - 1)
            fallback_run_end(&w->engine, &run);
    }
    fallback_run_end(&w->engine, &run);
    published_leave(&w->policies, visit);
}

static void what_is_learnt_together_counts_as_if_one_by_one(void **state)
{
    static const char *const policies[] = { "ten", "fixed", "token", "leaky", "fading" };

    (void)state;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (int cost = 1; cost <= 3; cost++)
            for (int count = 0; count <= 12; count++)
                for (int together = 1; together <= 12; together += 11) {
                    const int fit = 10 / cost < count ? 10 / cost : count;
                    char words[64];
                    struct frail f;
                    weir *w = open_frail(
                        POLICIES(TEN
                                 "  fixed: {limit: 10 per 1h, by: user, algorithm: fixed_window}\n"
                                 "  token: {limit: 10 per 1h, by: user, algorithm: token_bucket}\n"
                                 "  leaky: {limit: 10 per 1h, by: user, algorithm: leaky_bucket}\n"
                                 "  fading: {limit: 10 per 1h, by: user, algorithm: "
                                 "sliding_counter}\n"),
                        &f);

                    learn(w, policies[p], count, cost, together);
                    f.fails = true;
                    snprintf(words, sizeof words, "%s user=a", policies[p]);
                    assert_int_equal(admitted(w, words, 20), 10 - fit * cost);
                    close_frail(w, &f);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_knows_what_the_store_has_admitted),
        cmocka_unit_test(each_amount_is_counted_here_too),
        cmocka_unit_test(lockouts_are_begun_here_and_end_with_the_store),
        cmocka_unit_test(instances_share_a_limit),
        cmocka_unit_test(the_store_is_the_truth_again_afterwards),
        cmocka_unit_test(refunds_and_resets_clear_the_deny_cache),
        cmocka_unit_test(policies_that_allow_or_deny_on_error_do_so),
        cmocka_unit_test(a_limit_given_in_a_request_has_its_own_on_error),
        cmocka_unit_test(after_so_many_errors_nothing_is_let_through),
        cmocka_unit_test(several_rules_are_decided_together),
        cmocka_unit_test(policies_of_one_request_each_decide_for_their_rules),
        cmocka_unit_test(what_is_learnt_together_counts_as_if_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
