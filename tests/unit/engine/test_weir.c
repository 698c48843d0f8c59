/* test_weir.c - asking through the library: limits that come along, peeks, refunds, many at once. */
#include "support/limiter.h"

#include "limit/limit.h"

static weir_request limit_of(const char *key, weir_algorithm algorithm, int64_t limit,
                             int64_t window)
{
    return (weir_request){
        .key = key,
        .algorithm = algorithm,
        .limit = limit,
        .window_ms = window,
        .now = NOW,
    };
}

/* ---- limits that come with the request -------------------------------------------------- */

static void a_request_may_bring_its_limit_for_every_algorithm(void **state)
{
    weir *w = open_text(NULL);

    (void)state;
    for (weir_algorithm algorithm = WEIR_DEFAULT_ALGORITHM;
         algorithm <= (weir_algorithm)ALGORITHM_COUNTED; algorithm++) {
        weir_request r = limit_of(weir_algorithm_name(algorithm), algorithm, 3, 1000);
        weir_answer a;

        if (algorithm == WEIR_DEFAULT_ALGORITHM)
            r.key = "not that of sliding_window below";
        for (int i = 0; i < 3; i++) {
            a = ask(weir_check, w, &r);
            assert_true(a.allowed);
            assert_int_equal(a.remaining, 2 - i);
        }
        assert_null(a.policy);
        assert_string_equal(a.rule, "default");
        assert_int_equal(a.rule_count, 1);
        assert_int_equal(a.limit, 3);
        assert_int_equal(a.source, WEIR_FROM_STORE);

        a = ask(weir_check, w, &r);
        assert_false(a.allowed);
        r.now += a.retry_after_ms - 1;
        assert_false(ask(weir_check, w, &r).allowed);
        r.now++;
        assert_true(ask(weir_check, w, &r).allowed);
    }
    weir_close(w);
}

static void another_key_window_or_algorithm_is_another_count(void **state)
{
    weir *w = open_text(POLICIES("  p: {limit: 1 per 1s, by: user}\n"));
    weir_request same = limit_of("k", WEIR_TOKEN_BUCKET, 1, 1000), other = same;

    (void)state;
    assert_true(ask(weir_check, w, &same).allowed);
    assert_false(ask(weir_check, w, &same).allowed);
    other.key = "K";
    assert_true(ask(weir_check, w, &other).allowed);
    other = limit_of("k", WEIR_TOKEN_BUCKET, 1, 1001);
    assert_true(ask(weir_check, w, &other).allowed);
    other = limit_of("k", WEIR_LEAKY_BUCKET, 1, 1000);
    assert_true(ask(weir_check, w, &other).allowed);
    assert_true(check(w, NOW, "p user=k").allowed); /* nor is it a policy's */
    assert_int_equal(stats_of(w).keys, 5);
    weir_close(w);
}

static void a_charge_counts_whatever_the_limit_says(void **state)
{
    weir *w = open_text(NULL);

    (void)state;
    for (weir_algorithm algorithm = 1; algorithm <= (weir_algorithm)ALGORITHM_COUNTED;
         algorithm++) {
        weir_request r = limit_of("k", algorithm, 10, 1000);
        weir_answer a;

        r.cost = 13;
        a = ask(weir_charge, w, &r);
        assert_true(a.allowed && a.used == 13 && a.over == 3 && a.remaining == 0);
        assert_true(a.rules[0].used == 13 && a.rules[0].over == 3);
        r.cost = 1;
        assert_false(ask(weir_check, w, &r).allowed);
        r.cost = 5;
        a = ask(weir_refund, w, &r);
        assert_true(a.remaining == 2 && a.over == 0);
        r.cost = WEIR_COST_ZERO;
        assert_int_equal(ask(weir_charge, w, &r).used, 8);
    }
    weir_close(w);
}

static void a_charge_begins_no_lockout_and_is_forgotten_with_one(void **state)
{
    weir *w = open_text(POLICIES("  login: {limit: 2 per 1h, by: user, block_for: 1m}\n"));

    (void)state;
    assert_int_equal(ask_words(weir_charge, w, NOW, "login user=u cost=5").over, 3);
    assert_int_equal(peek(w, NOW, "login user=u").retry_after_ms, 3600000); /* no lockout */
    assert_int_equal(check(w, NOW, "login user=u").retry_after_ms, 60000);
    assert_int_equal(ask_words(weir_charge, w, NOW, "login user=u").over, 0);
    assert_int_equal(ask_words(weir_charge, w, NOW + 1000, "login user=u cost=5").over, 4);
    assert_int_equal(peek(w, NOW + 59999, "login user=u").retry_after_ms, 1);
    assert_int_equal(peek(w, NOW + 60000, "login user=u").remaining, 2);
    weir_close(w);
}

static void a_lockout_in_shadow_is_only_reported(void **state)
{
    weir *w = open_text(
        POLICIES("  try: {limit: 1 per 1s, by: user, block_for: 1m, mode: shadow}\n"
                 "  beside: {limit: 9 per 1s, by: user, block_for: 1m, shadow_limit: 1 per 1s}\n"));
    static const char *const words[] = { "try user=u", "beside user=u" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        weir_answer a = check(w, NOW, words[i]);

        assert_true(a.allowed && !a.shadow);
        a = check(w, NOW, words[i]); /* this locks */
        assert_true(a.allowed && a.shadow);
        a = check(w, NOW + 2000, words[i]); /* its window is over */
        assert_true(a.allowed && a.shadow);
        a = check(w, NOW + 59999, words[i]);
        assert_true(a.allowed && a.shadow);
        a = check(w, NOW + 60000, words[i]);
        assert_true(a.allowed && !a.shadow);
    }
    weir_close(w);
}

static void a_lockout_is_rolled_out_with_its_rule(void **state)
{
    weir *w = open_text(
        POLICIES("  login: {limit: 1 per 1s, by: user, block_for: 1m, rollout: 50%}\n"));
    int locked = 0;

    (void)state;
    for (int i = 0; i < 40; i++) {
        char words[32];
        weir_answer a;
        bool is_reached;

        snprintf(words, sizeof words, "login user=u%d", i);
        assert_true(check(w, NOW, words).allowed);
        is_reached = !check(w, NOW, words).allowed;
        a = check(w, NOW + 2000, words);
        assert_int_equal(a.allowed, !is_reached);
        assert_int_equal(a.retry_after_ms, is_reached ? 58000 : 0);
        assert_int_equal(a.shadow, !is_reached);
        locked += is_reached;
    }
    assert_true(locked > 0 && locked < 40);
    weir_close(w);
}

static void each_rule_counts_its_own_amount(void **state)
{
    weir *w = open_text("version: 1\n"
                        "policies:\n"
                        "  model:\n"
                        "    rules:\n"
                        "      calls: {limit: 3 per 1m, by: user}\n"
                        "      tokens: {limit: 100 per 1m, by: user, counts: tokens}\n"
                        "  calls: {limit: 3 per 1m, by: user}\n");
    weir_cost costs[] = { { "tokens", 60 }, { "requests", 2 } };
    weir_request r = {
        .policy = "model", .key = "ann", .now = NOW, .costs = costs, .cost_count = 1
    };
    weir_answer a;
    weir_diag diag;

    (void)state;
    a = ask(weir_check, w, &r);
    assert_true(a.allowed && a.rules[0].remaining == 2 && a.rules[1].remaining == 40);
    a = ask(weir_check, w, &r);
    assert_true(!a.allowed && a.rules[0].allowed && !a.rules[1].allowed);
    r.cost_count = 0; /* no tokens: what is used up of them does not matter */
    a = ask(weir_check, w, &r);
    assert_true(a.allowed && a.rules[0].remaining == 1 && a.rules[1].remaining == 40);
    r.cost_count = 2;
    a = ask(weir_charge, w, &r);
    assert_true(a.over == 20 && strcmp(a.rule, "tokens") == 0 && a.rules[0].over == 1);
    a = ask(weir_refund, w, &r);
    assert_true(a.rules[0].remaining == 1 && a.rules[1].remaining == 40);

    costs[0].name = "rows";
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_ECOST);
    assert_string_equal(diag.text, "no rule counts rows: give the cost of requests, tokens");
    costs[0].name = "tokens";
    costs[0].amount = -1;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_ECOST);
    costs[0].amount = 1;
    r.cost = 1;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EREQUEST);
    r.cost = 0;
    r.cost_count = WEIR_MAX_COSTS + 1;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EREQUEST);
    costs[1].name = "tokens";
    r.cost_count = 2;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EREQUEST);
    r = limit_of("k", WEIR_FIXED_WINDOW, 5, 1000);
    costs[0].amount = 1;
    r.costs = costs;
    r.cost_count = 1;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_ECOST);
    weir_close(w);
}

static void plans_and_shadow_limits_count_their_rules_amount(void **state)
{
    weir *w = open_text("version: 1\n"
                        "policies:\n"
                        "  model:\n"
                        "    by: user\n"
                        "    counts: tokens\n"
                        "    limit: 10 per 1m\n"
                        "    plans: {paid: 100 per 1m}\n"
                        "    shadow_limit: 5 per 1m\n");
    const weir_cost tokens = { "tokens", 6 };
    weir_request r = {
        .policy = "model", .key = "ann", .now = NOW, .costs = &tokens, .cost_count = 1
    };
    weir_answer a;
    weir_diag diag;

    (void)state;
    a = ask(weir_check, w, &r);
    assert_true(a.allowed && a.remaining == 4 && a.shadow);
    assert_false(ask(weir_check, w, &r).allowed);
    r.plan = "paid";
    a = ask(weir_check, w, &r);
    assert_true(a.allowed && a.remaining == 88);
    r.cost_count = 0; /* a request that has no tokens */
    a = ask(weir_check, w, &r);
    assert_true(a.allowed && a.remaining == 88 && !a.shadow);
    r.cost = 1; /* which no rule counts */
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_ECOST);
    assert_string_equal(diag.text, "no rule counts requests: give the cost of tokens");
    weir_close(w);
}

static void what_several_policies_count_may_be_brought(void **state)
{
    weir *w = open_text(POLICIES("  calls: {limit: 5 per 1m, by: user}\n"
                                 "  model: {limit: 10 per 1m, by: user, counts: tokens}\n"));
    const weir_cost costs[] = { { "tokens", 4 }, { "requests", 2 } };
    const weir_cost rows = { "rows", 4 };
    weir_request r = { .policies = (const char *const[]){ "calls", "model" },
                       .policy_count = 2,
                       .key = "ann",
                       .now = NOW,
                       .costs = costs,
                       .cost_count = 2 };
    weir_answer a;
    weir_diag diag;

    (void)state;
    a = ask(weir_check, w, &r);
    assert_true(a.allowed && a.rules[0].remaining == 3 && a.rules[1].remaining == 6);
    r.costs = &rows;
    r.cost_count = 1;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_ECOST);
    assert_string_equal(diag.text, "no rule counts rows: give the cost of requests, tokens");
    weir_close(w);
}

static void a_debt_stops_where_it_would_not_be_exact(void **state)
{
    weir *w = open_text(NULL);

    (void)state;
    for (weir_algorithm algorithm = 1; algorithm <= (weir_algorithm)ALGORITHM_COUNTED;
         algorithm++) {
        weir_request r = limit_of("k", algorithm, 10, 1000);
        int64_t used = 0;

        r.cost = WEIR_MAX_AMOUNT;
        for (int i = 0; i < 3; i++) {
            const weir_answer a = ask(weir_charge, w, &r);

            assert_true(a.used < WEIR_MAX_AMOUNT && a.used >= WEIR_MAX_AMOUNT / 1000 - 1);
            assert_true(a.reset_after_ms > 0 && (i == 0 || a.used == used));
            used = a.used;
        }
        r.cost = 1;
        assert_false(ask(weir_check, w, &r).allowed);
        r = limit_of("none", algorithm, 0, 1000);
        assert_int_equal(ask(weir_charge, w, &r).over, 0); /* a limit of 0 counts nothing */
    }
    weir_close(w);
}

static void changing_limit_burst_or_precision_keeps_what_is_counted(void **state)
{
    weir *w = open_text(NULL);
    weir_request r;

    (void)state;
    for (weir_algorithm algorithm = 1; algorithm <= (weir_algorithm)ALGORITHM_COUNTED;
         algorithm++) {
        r = limit_of("k", algorithm, 10, 1000);
        r.cost = 6;
        ask(weir_check, w, &r);
        r.cost = 1;
        r.limit = 8;
        assert_int_equal(ask(weir_peek, w, &r).remaining, 2);
        r.limit = 4;
        assert_int_equal(ask(weir_peek, w, &r).remaining, 0);
        r.limit = 20;
        assert_int_equal(ask(weir_peek, w, &r).remaining, 14);
    }
    r = limit_of("k", WEIR_TOKEN_BUCKET, 10, 1000);
    r.burst = 7;
    assert_int_equal(ask(weir_peek, w, &r).remaining, 1);
    r = limit_of("k", WEIR_SLIDING_WINDOW, 10, 1000);
    r.precision_ms = 100;
    assert_int_equal(ask(weir_peek, w, &r).remaining, 4);
    weir_close(w);
}

static void a_limit_of_0_may_come_with_a_request_too(void **state)
{
    weir *w = open_text(NULL);
    weir_request r = limit_of("k", WEIR_DEFAULT_ALGORITHM, 0, 1000);
    weir_answer a = ask(weir_check, w, &r);

    (void)state;
    assert_false(a.allowed);
    assert_int_equal(a.retry_after_ms, WEIR_NEVER);
    r.exempt = true;
    a = ask(weir_check, w, &r);
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_EXEMPT);
    assert_int_equal(stats_of(w).keys, 0);
    weir_close(w);
}

static void a_key_may_be_any_text_up_to_4096_bytes(void **state)
{
    weir *w = open_text(NULL);
    char key[WEIR_MAX_IDENTITY];
    weir_request r = limit_of(key, WEIR_FIXED_WINDOW, 1, 1000);

    (void)state;
    memset(key, 'k', sizeof key);
    r.key_len = sizeof key; /* not ended by a NUL */
    assert_true(ask(weir_check, w, &r).allowed);
    assert_false(ask(weir_check, w, &r).allowed);
    r.key_len--;
    assert_true(ask(weir_check, w, &r).allowed);
    r.key = "gr\xc3\xbc\xc3\x9f dich, \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x8c\x8d %s%n";
    r.key_len = 0;
    assert_true(ask(weir_check, w, &r).allowed);
    assert_false(ask(weir_check, w, &r).allowed);
    weir_close(w);
}

/* ---- cost, peek, refund, reset ---------------------------------------------------------- */

#define QUERY                                                                                      \
    "  query:\n"                                                                                   \
    "    rules:\n"                                                                                 \
    "      user:  {limit: 10 per 1m, by: user}\n"                                                  \
    "      route: {limit: 20 per 1m, by: route, algorithm: token_bucket}\n"                        \
    "      trial: {limit: 5 per 1m, by: user, mode: shadow, algorithm: fixed_window}\n"

static void a_peek_says_what_a_check_would_and_changes_nothing(void **state)
{
    weir *w = open_text(POLICIES(QUERY));
    weir_answer a, b;

    (void)state;
    assert_true(peek(w, NOW, "query user=u route=r").allowed);
    assert_int_equal(stats_of(w).keys, 0);
    check(w, NOW, "query user=u route=r cost=8");
    a = peek(w, NOW, "query user=u route=r cost=2");
    assert_true(a.allowed);
    assert_int_equal(a.remaining, 2); /* uncharged */
    b = peek(w, NOW, "query user=u route=r cost=2");
    assert_same_answer(&a, &b);
    a = peek(w, NOW, "query user=u route=r cost=6");
    assert_false(a.allowed);
    b = check(w, NOW, "query user=u route=r cost=6");
    assert_same_answer(&a, &b);
    weir_close(w);
}

static void a_cost_of_nothing_changes_nothing_and_always_passes(void **state)
{
    weir *w = open_text(POLICIES("  p: {limit: 2 per 1m, by: user}\n"));
    weir_answer a;

    (void)state;
    assert_true(check(w, NOW, "p user=u cost=none").allowed);
    assert_int_equal(stats_of(w).keys, 0);
    check(w, NOW, "p user=u cost=2");
    a = check(w, NOW + 5, "p user=u cost=none");
    assert_true(a.allowed);
    assert_int_equal(a.remaining, 0);
    assert_int_equal(a.reset_after_ms, 60000 - 5);
    weir_close(w);
}

static void a_cost_beyond_the_limit_never_passes(void **state)
{
    weir *w = open_text(NULL);

    (void)state;
    for (weir_algorithm algorithm = 1; algorithm <= (weir_algorithm)ALGORITHM_COUNTED;
         algorithm++) {
        weir_request r = limit_of("k", algorithm, 5, 1000);
        weir_answer a;

        r.cost = 6;
        a = ask(weir_check, w, &r);
        assert_false(a.allowed);
        assert_int_equal(a.retry_after_ms, WEIR_NEVER);
        assert_int_equal(a.remaining, 5);
        r.cost = WEIR_MAX_AMOUNT;
        assert_int_equal(ask(weir_check, w, &r).retry_after_ms, WEIR_NEVER);
        r.cost = 5;
        assert_true(ask(weir_check, w, &r).allowed);
    }
    weir_close(w);
}

static void a_refund_applies_to_every_rule(void **state)
{
    weir *w = open_text(POLICIES(QUERY));
    weir_answer a;

    (void)state;
    check(w, NOW, "query user=u route=r cost=4");
    a = refund(w, NOW, "query user=u route=r cost=3");
    assert_true(a.allowed);
    assert_int_equal(rule_of(&a, "user")->remaining, 9);
    assert_int_equal(rule_of(&a, "route")->remaining, 19);
    assert_int_equal(rule_of(&a, "trial")->remaining, 4);
    a = refund(w, NOW, "query user=u route=r cost=100"); /* never more than was taken */
    assert_int_equal(rule_of(&a, "user")->remaining, 10);
    assert_int_equal(rule_of(&a, "route")->remaining, 20);
    a = refund(w, NOW, "query user=zoe route=r");
    assert_int_equal(rule_of(&a, "user")->remaining, 10);
    weir_close(w);
}

static void after_a_refund_a_denied_request_is_allowed_at_once(void **state)
{
    weir *w = open_text(NULL);

    (void)state;
    for (weir_algorithm algorithm = 1; algorithm <= (weir_algorithm)ALGORITHM_COUNTED;
         algorithm++) {
        weir_request r = limit_of("k", algorithm, 5, 1000);

        for (int i = 0; i < 5; i++)
            assert_true(ask(weir_check, w, &r).allowed);
        assert_false(ask(weir_check, w, &r).allowed);
        assert_int_equal(ask(weir_refund, w, &r).remaining, 1);
        assert_true(ask(weir_check, w, &r).allowed);
        assert_false(ask(weir_check, w, &r).allowed);
    }
    weir_close(w);
}

static void a_reset_forgets_this_identity_and_no_other(void **state)
{
    weir *w = open_text(POLICIES(QUERY));
    weir_answer a;

    (void)state;
    check(w, NOW, "query user=u route=r cost=4");
    check(w, NOW, "query user=v route=s cost=4");
    a = reset(w, NOW, "query user=u route=r");
    assert_true(a.allowed);
    assert_int_equal(rule_of(&a, "user")->remaining, 10);
    assert_int_equal(stats_of(w).keys, 3);
    a = peek(w, NOW, "query user=u route=s");
    assert_int_equal(rule_of(&a, "user")->remaining, 10);
    assert_int_equal(rule_of(&a, "trial")->remaining, 5);
    assert_int_equal(rule_of(&a, "route")->remaining, 16);
    weir_close(w);
}

static void a_clock_that_steps_back_mints_nothing(void **state)
{
    weir *w = open_text(NULL);

    (void)state;
    for (weir_algorithm algorithm = 1; algorithm <= (weir_algorithm)ALGORITHM_COUNTED;
         algorithm++) {
        weir_request r = limit_of("k", algorithm, 5, 1000);

        r.cost = 5;
        assert_true(ask(weir_check, w, &r).allowed);
        r.cost = 1;
        for (int64_t back = 1; back < 100000; back *= 3) {
            r.now = NOW - back;
            assert_false(ask(weir_check, w, &r).allowed);
        }
    }
    weir_close(w);
}

/* ---- many at once ----------------------------------------------------------------------- */

enum { MOST = 40 };

static void many_requests_are_judged_in_order(void **state)
{
    weir *w = open_text(NULL);
    weir_request requests[MOST];
    weir_answer answers[MOST];
    weir_diag diag;

    (void)state;
    for (size_t i = 0; i < MOST; i++) /* two keys in turn */
        requests[i] = limit_of(i % 2 ? "odd" : "even", WEIR_SLIDING_WINDOW, 15, 1000);
    assert_int_equal(weir_check_many(w, requests, answers, MOST, &diag), WEIR_OK);
    for (size_t i = 0; i < MOST; i++) {
        assert_int_equal(answers[i].err, WEIR_OK);
        assert_int_equal(answers[i].allowed, i / 2 < 15);
        assert_int_equal(answers[i].remaining, i / 2 < 15 ? 14 - (int)i / 2 : 0);
    }
    assert_int_equal(weir_check_many(w, requests, answers, 0, &diag), WEIR_OK);
    assert_int_equal(weir_check_many(w, NULL, NULL, 0, NULL), WEIR_OK);
    weir_close(w);
}

static void a_bad_request_among_many_is_reported_and_the_others_are_answered(void **state)
{
    weir *w = open_text(POLICIES("  p: {limit: 2 per 1m, by: user}\n"));
    weir_request requests[MOST];
    weir_answer answers[MOST];
    weir_diag diag;

    (void)state;
    for (size_t i = 0; i < MOST; i++)
        requests[i] = (weir_request){ .policy = "p", .key = "u", .now = NOW };
    requests[3].cost = -1;
    requests[4].policy = "q";
    requests[21].key = "";
    assert_int_equal(weir_check_many(w, requests, answers, MOST, &diag), WEIR_ECOST);
    assert_string_equal(diag.text, "cost must be from 0 to 2^53, not -1"); /* about the first */
    for (size_t i = 0; i < MOST; i++) {
        assert_int_equal(answers[i].err, i == 3    ? WEIR_ECOST
                                         : i == 4  ? WEIR_ENOPOLICY
                                         : i == 21 ? WEIR_EATTRIBUTE
                                                   : WEIR_OK);
        if (!answers[i].err)
            assert_int_equal(answers[i].allowed, i < 2);
    }
    requests[3].cost = requests[4].cost = 0;
    requests[4].policy = "p";
    assert_int_equal(weir_check_many(w, requests, answers, MOST, &diag), WEIR_EATTRIBUTE);
    assert_string_equal(diag.text, "policy 'p': attribute 'user' is empty");
    weir_close(w);
}

/* The same requests, in batches and one by one: the same answers. */
static void many_at_once_are_answered_as_one_by_one(void **state)
{
    static const char text[] = POLICIES(
        QUERY "  other: {limit: 4 per 30ms, by: user, algorithm: sliding_counter}\n"
              "  off: {limit: 1 per 1s, mode: off}\n");
    weir *many = open_text(text), *single = open_text(text);
    struct dice dice = dice_new();
    int64_t now = NOW;

    (void)state;
    for (int batch = 0; batch < scaled(2000); batch++) {
        struct worded words[MOST];
        weir_request requests[MOST];
        weir_answer answers[MOST];
        size_t n = (size_t)dice_below(&dice, MOST);

        for (size_t i = 0; i < n; i++) {
            static const char *const policies[] = { "query", "other", "off", "query" };
            char sentence[80];

            now += dice_below(&dice, 4);
            snprintf(sentence, sizeof sentence, "%s user=u%d route=r%d cost=%d",
                     policies[dice_below(&dice, 4)], (int)dice_below(&dice, 4),
                     (int)dice_below(&dice, 4), 1 + (int)dice_below(&dice, 3));
            read_words(&words[i], now, sentence);
            requests[i] = words[i].request;
        }
        assert_int_equal(weir_check_many(many, requests, answers, n, NULL), WEIR_OK);
        for (size_t i = 0; i < n; i++) {
            weir_answer one = ask(weir_check, single, &requests[i]);

            assert_same_answer(&answers[i], &one);
        }
    }
    weir_close(many);
    weir_close(single);
}

/* ---- a check of one rule by a key, asked by itself ---------------------------------------- */

/* What time it is, and whether there is memory. */
struct world {
    int64_t now;
    bool is_poor;
};

static int64_t world_clock(void *ctx)
{
    return ((struct world *)ctx)->now;
}

static void *world_resize(void *ctx, void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    return ((struct world *)ctx)->is_poor ? NULL : realloc(block, size);
}

static weir *open_world(struct world *world, const char *text)
{
    return open_with(&(weir_options){
        .policy_text = text,
        .max_keys = 10000,
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
        .clock = world_clock,
        .clock_ctx = world,
        .allocator = { .resize = world_resize, .ctx = world },
    });
}

/* As weir_check() answers, and as weir_check_many() does, which goes the way of all checks. */
static void assert_alike(weir *alone, weir *among, const weir_request *r)
{
    weir_answer a, b;
    const weir_err err = weir_check(alone, r, &a, NULL);

    assert_int_equal(weir_check_many(among, r, &b, 1, NULL), err);
    if (err)
        return;
    assert_same_answer(&a, &b);
    assert_int_equal(a.err, b.err);
    assert_string_equal(a.policy, b.policy);
    assert_int_equal(a.used | a.over | a.override_id | a.reservation[0] | a.expires_in_ms, 0);
    assert_false(a.repeated || a.expired);
    for (size_t i = 0; i < a.rule_count; i++) {
        assert_string_equal(a.rules[i].policy, b.rules[i].policy);
        assert_int_equal(a.rules[i].limit, b.rules[i].limit);
        assert_int_equal(a.rules[i].window_ms, b.rules[i].window_ms);
        assert_int_equal(a.rules[i].retry_after_ms, b.rules[i].retry_after_ms);
        assert_int_equal(a.rules[i].delay_ms, b.rules[i].delay_ms);
        assert_int_equal(a.rules[i].used | a.rules[i].over, 0);
        assert_false(a.rules[i].shadow || a.rules[i].shadow_denied);
    }
}

static const char lone_policies[] = POLICIES(
    "  a: {limit: 5 per 40ms, by: user, algorithm: fixed_window}\n"
    "  of-a-name-that-is-long-1-and-so-on: {limit: 5 per 40ms, by: user}\n"
    "  of-a-name-that-is-long-2-and-so-on: {limit: 3 per 30ms, by: user, precision: 5ms}\n"
    "  counter: {limit: 5 per 40ms, by: user, algorithm: sliding_counter}\n"
    "  bucket: {limit: 5 per 40ms, by: user, algorithm: token_bucket, burst: 8}\n"
    "  leaky: {limit: 5 per 40ms, by: user, algorithm: leaky_bucket}\n"
    "  locked: {limit: 2 per 40ms, by: user, block_for: 100ms}\n"
    "  none: {limit: 0, by: user}\n"
    "  by-day: {limit: 5 per day, by: user}\n"
    "  by-ip: {limit: 5 per 40ms, by: ip}\n"
    "  two: {by: user, rules: {s: {limit: 4 per 20ms}, m: {limit: 6 per 60ms}}}\n");

static void a_check_by_itself_is_answered_as_one_of_many(void **state)
{
    static const char *const policies[] = {
        "a",      "of-a-name-that-is-long-1-and-so-on",
        "bucket", "of-a-name-that-is-long-2-and-so-on",
        "leaky",  "of-a-name-that-is-long-3-and-so-on",
        "locked", "counter",
        "none",   "by-day",
        "by-ip",  "two",
    };
    static const char *const keys[] = {
        "k",
        "10.1.2.3",
        "ninechars",
        "sixteencharacter",
        "seventeen letters",
        "key-of-forty-four-bytes-is-the-longest-short",
        "key-of-forty-five-bytes-is-no-more-than-long!",
        "M\xc3\xbcller & S\xc3\xb6hne",
        "not \xff text",
        "",
    };
    struct world world = { .now = NOW };
    weir *alone = open_world(&world, lone_policies), *among = open_world(&world, lone_policies);
    struct dice dice = dice_new();

    (void)state;
    for (int i = 0; i < scaled(20000); i++) {
        const weir_request r = {
            .policy = policies[dice_below(&dice, sizeof policies / sizeof *policies)],
            .key = keys[dice_below(&dice, sizeof keys / sizeof *keys)],
        };

        world.now += dice_below(&dice, 3) - (dice_below(&dice, 50) == 0 ? 5 : 0);
        assert_alike(alone, among, &r);
    }
    weir_close(alone);
    weir_close(among);
}

static void a_check_by_itself_without_memory_is_answered_as_its_policy_says(void **state)
{
    static const char text[] = POLICIES(
        "  open: {limit: 50 per 1m, by: user, precision: 1ms, on_error: allow}\n"
        "  shut: {limit: 50 per 1m, by: user, precision: 1ms, on_error: deny}\n"
        "  local: {limit: 50 per 1m, by: user, precision: 1ms}\n");
    static const char *const policies[] = { "open", "shut", "local" };
    struct world world = { .now = NOW };
    weir *alone = open_world(&world, text), *among = open_world(&world, text);
    int fell_back = 0;

    (void)state;
    for (int i = 0; i < 60; i++) { /* the fourth entry of a log needs a block */
        const weir_request r = { .policy = policies[i % 3], .key = "k" };
        weir_answer a;

        world.now++;
        world.is_poor = i >= 9 && i < 30;
        assert_alike(alone, among, &r);
        assert_int_equal(weir_check(alone, &r, &a, NULL), WEIR_OK);
        assert_int_equal(weir_check(among, &r, &a, NULL), WEIR_OK);
        if (a.source == WEIR_FROM_FALLBACK) {
            fell_back++;
            assert_int_equal(a.allowed, i % 3 == 0);
            assert_string_equal(a.policy, policies[i % 3]);
        }
    }
    assert_true(fell_back > 10);
    weir_close(alone);
    weir_close(among);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_by_itself_is_answered_as_one_of_many),
        cmocka_unit_test(a_check_by_itself_without_memory_is_answered_as_its_policy_says),
        cmocka_unit_test(a_request_may_bring_its_limit_for_every_algorithm),
        cmocka_unit_test(another_key_window_or_algorithm_is_another_count),
        cmocka_unit_test(a_charge_counts_whatever_the_limit_says),
        cmocka_unit_test(a_charge_begins_no_lockout_and_is_forgotten_with_one),
        cmocka_unit_test(a_debt_stops_where_it_would_not_be_exact),
        cmocka_unit_test(a_lockout_in_shadow_is_only_reported),
        cmocka_unit_test(a_lockout_is_rolled_out_with_its_rule),
        cmocka_unit_test(each_rule_counts_its_own_amount),
        cmocka_unit_test(plans_and_shadow_limits_count_their_rules_amount),
        cmocka_unit_test(what_several_policies_count_may_be_brought),
        cmocka_unit_test(changing_limit_burst_or_precision_keeps_what_is_counted),
        cmocka_unit_test(a_limit_of_0_may_come_with_a_request_too),
        cmocka_unit_test(a_key_may_be_any_text_up_to_4096_bytes),
        cmocka_unit_test(a_peek_says_what_a_check_would_and_changes_nothing),
        cmocka_unit_test(a_cost_of_nothing_changes_nothing_and_always_passes),
        cmocka_unit_test(a_cost_beyond_the_limit_never_passes),
        cmocka_unit_test(a_refund_applies_to_every_rule),
        cmocka_unit_test(after_a_refund_a_denied_request_is_allowed_at_once),
        cmocka_unit_test(a_reset_forgets_this_identity_and_no_other),
        cmocka_unit_test(a_clock_that_steps_back_mints_nothing),
        cmocka_unit_test(many_requests_are_judged_in_order),
        cmocka_unit_test(a_bad_request_among_many_is_reported_and_the_others_are_answered),
        cmocka_unit_test(many_at_once_are_answered_as_one_by_one),
    };

    return cmocka_run_group_tests_name("weir", tests, NULL, NULL);
}
