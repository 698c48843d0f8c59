/* test_several.c - several policies in one request: judged as one that has all of their rules. */
#include "support/limiter.h"

#include <pthread.h>

#include "engine/handle.h"
#include "engine/override_request.h"

#define LOGIN "  login: {limit: 3 per 1m, by: ip}\n"
#define SITE "  site: {limit: 5 per 1s, by: ip}\n"

struct worded_policies {
    struct worded worded;
    const char *names[WEIR_MAX_RULES + 1];
};

/* "login+site ip=1.2.3.4": as in limiter.h, but for the policies. */
static void read_policies(struct worded_policies *to, int64_t now, const char *words)
{
    weir_request *r = &to->worded.request;
    char *rest, *name;

    read_words(&to->worded, now, words);
    for (name = strtok_r((char *)r->policy, "+", &rest); name; name = strtok_r(NULL, "+", &rest))
        to->names[r->policy_count++] = name;
    r->policies = to->names;
    r->policy = NULL;
}

static weir_answer ask_policies(ask_fn *how, weir *w, int64_t now, const char *words)
{
    struct worded_policies asked;

    read_policies(&asked, now, words);
    return ask(how, w, &asked.worded.request);
}

static weir_answer check_policies(weir *w, int64_t now, const char *words)
{
    return ask_policies(weir_check, w, now, words);
}

static void assert_refused(weir *w, const char *words, weir_err err, const char *text)
{
    struct worded_policies asked;
    weir_answer a;
    weir_diag diag;

    read_policies(&asked, NOW, words);
    assert_int_equal(weir_check(w, &asked.worded.request, &a, &diag), err);
    assert_string_equal(diag.text, text);
}

/* ---- judging ---------------------------------------------------------------------------------- */

static void all_are_charged_or_none(void **state)
{
    weir *w = open_text(POLICIES(LOGIN SITE));
    weir_answer a;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(check_policies(w, NOW, "login+site ip=10.0.0.1").allowed);
    a = check_policies(w, NOW, "login+site ip=10.0.0.1");
    assert_false(a.allowed);
    assert_string_equal(a.policy, "login");
    assert_string_equal(a.rule, "default");
    assert_int_equal(a.rule_count, 2);
    assert_string_equal(a.rules[0].policy, "login");
    assert_string_equal(a.rules[1].policy, "site");
    assert_true(a.rules[1].allowed);
    assert_int_equal(peek(w, NOW, "site ip=10.0.0.1").remaining, 2); /* was not charged */
    assert_true(check(w, NOW, "site ip=10.0.0.1").allowed);
    assert_true(check(w, NOW, "site ip=10.0.0.1").allowed);
    a = check_policies(w, NOW, "site+login ip=10.0.0.1"); /* both refuse: login for longer */
    assert_string_equal(a.policy, "login");
    assert_string_equal(a.rules[0].policy, "site");
    assert_int_equal(a.retry_after_ms, 60000);
    weir_close(w);
}

static void peeks_refunds_and_resets_are_of_all(void **state)
{
    weir *w = open_text(POLICIES(LOGIN SITE));

    (void)state;
    check_policies(w, NOW, "login+site ip=10.0.0.1 cost=2");
    ask_policies(weir_peek, w, NOW, "login+site ip=10.0.0.1");
    assert_int_equal(peek(w, NOW, "login ip=10.0.0.1").remaining, 1);
    assert_int_equal(peek(w, NOW, "site ip=10.0.0.1").remaining, 3);
    ask_policies(weir_refund, w, NOW, "login+site ip=10.0.0.1");
    assert_int_equal(peek(w, NOW, "login ip=10.0.0.1").remaining, 2);
    assert_int_equal(peek(w, NOW, "site ip=10.0.0.1").remaining, 4);
    ask_policies(weir_reset, w, NOW, "login+site ip=10.0.0.1");
    assert_int_equal(peek(w, NOW, "login ip=10.0.0.1").remaining, 3);
    assert_int_equal(peek(w, NOW, "site ip=10.0.0.1").remaining, 5);
    weir_close(w);
}

/* The same requests to two policies, and to one that has the rules of both. */
static void they_are_judged_as_one_policy_that_has_all_of_the_rules(void **state)
{
    weir *w = open_text(
        POLICIES("  a: {rules: {x: {limit: 7 per 1s, by: ip}, y: {limit: 40 per 1m}}}\n"
                 "  b: {limit: 5 per 700ms, by: user, algorithm: token_bucket, burst: 9}\n"
                 "  c: {rules: {z: {limit: 9 per 2s, by: user, mode: shadow}, "
                 "v: {limit: 30 per 1m, by: ip, shadow_limit: 20 per 1m}}}\n"));
    weir *one = open_text(POLICIES(
        "  all:\n    rules:\n"
        "      x: {limit: 7 per 1s, by: ip}\n      y: {limit: 40 per 1m}\n"
        "      default: {limit: 5 per 700ms, by: user, algorithm: token_bucket, burst: 9}\n"
        "      z: {limit: 9 per 2s, by: user, mode: shadow}\n"
        "      v: {limit: 30 per 1m, by: ip, shadow_limit: 20 per 1m}\n"));
    struct dice dice = dice_new();
    int64_t now = NOW;
    char words[96], of_one[96];
    int refused = 0;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        const int ip = (int)dice_below(&dice, 3), user = (int)dice_below(&dice, 3);
        const int cost = 1 + (int)dice_below(&dice, 3);
        weir_answer a, b;

        snprintf(words, sizeof words, "a+b+c ip=10.0.0.%d user=u%d cost=%d", ip, user, cost);
        snprintf(of_one, sizeof of_one, "all ip=10.0.0.%d user=u%d cost=%d", ip, user, cost);
        a = check_policies(w, now, words);
        b = check(one, now, of_one);
        assert_same_answer(&a, &b);
        refused += !a.allowed;
        now += dice_below(&dice, 300);
    }
    assert_in_range(refused, 100, 1900);
    weir_close(w);
    weir_close(one);
}

/* ---- requests --------------------------------------------------------------------------------- */

static void meaningless_requests_are_rejected(void **state)
{
    weir *w = open_text(
        POLICIES(LOGIN SITE
                 "  user: {limit: 1 per 1s, by: user}\n  all: {limit: 9 per 1s}\n"
                 "  big: {rules: {a: {limit: 1 per 1s}, b: {limit: 1 per 1s}, c: {limit: 1 per "
                 "1s}, d: {limit: 1 per 1s}, e: {limit: 1 per 1s}, f: {limit: 1 per 1s}, g: "
                 "{limit: 1 per 1s}, h: {limit: 1 per 1s}, i: {limit: 1 per 1s}, j: {limit: 1 per "
                 "1s}, k: {limit: 1 per 1s}, l: {limit: 1 per 1s}, m: {limit: 1 per 1s}, n: "
                 "{limit: 1 per 1s}, o: {limit: 1 per 1s}}}\n"));
    const char *many[WEIR_MAX_RULES + 1];
    weir_answer a;
    weir_diag diag;

    (void)state;
    assert_refused(w, "login+sit ip=10.0.0.1", WEIR_ENOPOLICY,
                   "there is no policy 'sit': did you mean 'site'?");
    assert_refused(w, "login+login ip=10.0.0.1", WEIR_EREQUEST,
                   "policy 'login' is named twice: name each once");
    assert_refused(
        w, "login+user ip=10.0.0.1", WEIR_EATTRIBUTE,
        "policy 'user': the request has no attribute 'user', which rule 'default' counts "
        "by");
    assert_refused(w, "login+user key=x", WEIR_EREQUEST,
                   "the policies do not all count by the same one attribute: give attributes by "
                   "name instead of a key");
    assert_refused(w, "big+login+site ip=10.0.0.1", WEIR_EREQUEST,
                   "the policies have 17 rules together: at most 16 are asked at once");
    assert_int_equal(check_policies(w, NOW, "big+login ip=10.0.0.1").rule_count, 16);
    assert_true(check_policies(w, NOW, "login+site+all key=10.0.0.2").allowed);
    assert_int_equal(peek(w, NOW, "all").remaining, 8);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = "login";
    assert_int_equal(
        weir_check(w, &(weir_request){ .policies = many, .policy_count = WEIR_MAX_RULES + 1 }, &a,
                   &diag),
        WEIR_EREQUEST);
    assert_string_equal(diag.text, "17 policies are too many: at most 16");
    assert_int_equal(
        weir_check(w,
                   &(weir_request){
                       .policy = "login", .policies = many, .policy_count = 1, .key = "10.0.0.1" },
                   &a, &diag),
        WEIR_EREQUEST);
    assert_string_equal(diag.text, "give a policy or several policies, not both");
    weir_close(w);
}

static void an_attribute_that_spells_an_option_is_rejected_unless_it_is_one(void **state)
{
    weir *w = open_text("version: 1\nexempt: [{name: root}]\npolicies:\n" LOGIN SITE
                        "  shop: {limit: 2 per 1s, by: plan}\n");
    weir_attribute attributes[] = { { "ip", "10.0.0.1", 0 }, { "cost", "2", 0 } };
    weir_request r = { .policy = "login", .attributes = attributes, .attribute_count = 2 };
    const char *const two[] = { "login", "shop" };
    weir_answer a;
    weir_diag diag;

    (void)state;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EATTRIBUTE);
    assert_string_equal(diag.text,
                        "no rule counts by an attribute 'cost', which is the name of an option: "
                        "give options beside the attributes, as in `COST 2`, `\"cost\": 2` or "
                        "`--cost 2`");
    attributes[1].name = "costs";
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EATTRIBUTE);
    attributes[1].name = "price";
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_OK);
    attributes[1].name = "name"; /* an exemption looks at it */
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_OK);
    attributes[1].name = "plan";
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_EATTRIBUTE);
    r.policy = NULL;
    r.policies = two;
    r.policy_count = 2;
    assert_int_equal(weir_check(w, &r, &a, &diag), WEIR_OK);
    weir_close(w);
}

/* ---- what belongs to a policy ----------------------------------------------------------------- */

static void modes_plans_and_exemptions_are_each_policys_own(void **state)
{
    weir *w = open_text(POLICIES("  login: {limit: 1 per 1m, by: ip, plans: {paid: 4 per 1m}}\n"
                                 "  tried: {limit: 1 per 1m, by: ip, mode: shadow}\n"
                                 "  gone: {limit: 1 per 1m, by: ip, mode: off}\n"
                                 "  open: {limit: 1 per 1m, by: ip, exempt: [{ip: 10.0.0.9}]}\n"));
    weir_answer a;

    (void)state;
    a = check_policies(w, NOW, "login+tried+gone+open ip=10.0.0.1 plan=paid");
    assert_true(a.allowed);
    assert_int_equal(a.rule_count, 3);
    assert_string_equal(a.rules[1].policy, "tried");
    assert_true(a.rules[1].shadow);
    a = check_policies(w, NOW, "tried+login+gone ip=10.0.0.1 plan=paid");
    assert_true(a.allowed && a.shadow && a.rules[0].shadow_denied);
    assert_string_equal(a.policy, "login");
    assert_int_equal(a.limit, 4);
    a = check_policies(w, NOW, "open+login ip=10.0.0.9");
    assert_true(a.allowed);
    assert_int_equal(a.rule_count, 1);
    assert_string_equal(a.policy, "login");
    a = check_policies(w, NOW, "open+login ip=10.0.0.9");
    assert_false(a.allowed);
    a = check_policies(w, NOW, "gone+open ip=10.0.0.9");
    assert_int_equal(a.source, WEIR_FROM_EXEMPT);
    assert_int_equal(check_policies(w, NOW, "gone ip=10.0.0.9").source, WEIR_FROM_OFF);
    assert_int_equal(check_policies(w, NOW, "login+open ip=10.0.0.1 exempt").source,
                     WEIR_FROM_EXEMPT);
    weir_close(w);
}

static void the_longest_wait_is_reported_unless_all_want_the_soonest(void **state)
{
    weir *w = open_text(POLICIES("  a: {limit: 1 per 1m, by: ip, retry_after: soonest}\n"
                                 "  b: {limit: 1 per 1s, by: ip, retry_after: soonest}\n"
                                 "  c: {limit: 1 per 1h, by: ip}\n"));

    (void)state;
    check_policies(w, NOW, "a+b+c ip=10.0.0.1");
    assert_int_equal(check_policies(w, NOW, "a+b ip=10.0.0.1").retry_after_ms, 1000);
    assert_int_equal(check_policies(w, NOW, "a+b+c ip=10.0.0.1").retry_after_ms, 3600000);
    assert_int_equal(check_policies(w, NOW, "c+b ip=10.0.0.1").retry_after_ms, 3600000);
    weir_close(w);
}

static void change(weir *w, struct override_request c)
{
    struct published_visit visit = published_enter(&w->policies);
    struct override_request_room room;
    struct ledger_entry e;
    weir_diag diag;
    weir_err err;

    c.who = "ann";
    c.reason = "";
    err = override_request_entry(&w->engine, visit.current, &c, &room, &e, &diag);
    if (!err)
        err = ledger_view_append(w->ledger_view, &e, &diag);
    published_leave(&w->policies, visit);
    if (err)
        fail_msg("%s", diag.text);
}

static void overrides_are_of_the_policy_that_they_name(void **state)
{
    weir *w = open_text(POLICIES(LOGIN SITE));
    struct override_request c = { .subject = LEDGER_OVERRIDE,
                                  .effect = LEDGER_LIMIT,
                                  .policy = "site",
                                  .key = "10.0.0.1",
                                  .limit = 50,
                                  .burst = LEDGER_UNCHANGED };
    weir_answer a;

    (void)state;
    change(w, c);
    a = check_policies(w, NOW, "login+site ip=10.0.0.1");
    assert_int_equal(a.rules[0].limit, 3);
    assert_int_equal(a.rules[1].limit, 50);
    c.effect = LEDGER_EXEMPT;
    c.limit = LEDGER_UNCHANGED;
    change(w, c);
    a = check_policies(w, NOW, "login+site ip=10.0.0.1");
    assert_int_equal(a.rule_count, 1);
    assert_string_equal(a.policy, "login");
    c.effect = LEDGER_BLOCK;
    change(w, c);
    a = check_policies(w, NOW, "login+site ip=10.0.0.1");
    assert_false(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_BLOCKED);
    assert_string_equal(a.policy, "site");
    assert_int_equal(a.limit, 5);
    assert_int_equal(peek(w, NOW, "login ip=10.0.0.1").remaining, 1);
    c = (struct override_request){
        .subject = LEDGER_MODE, .effect = LEDGER_IN_MODE, .policy = "site", .mode = "off"
    };
    change(w, c);
    a = check_policies(w, NOW, "login+site ip=10.0.0.1");
    assert_true(a.allowed);
    assert_int_equal(a.rule_count, 1);
    weir_close(w);
}

/* ---- at once ---------------------------------------------------------------------------------- */

enum { THREADS = 4, TIMES = 2000 };

static void *hammer(void *ctx)
{
    for (int i = 0; i < TIMES; i++)
        check_policies(ctx, NOW, i % 2 ? "login+site ip=10.0.0.1" : "site+login ip=10.0.0.1");
    return NULL;
}

static void threads_never_leave_one_half_charged(void **state)
{
    weir *w = open_text(POLICIES("  login: {limit: 3000 per 1h, by: ip}\n"
                                 "  site: {limit: 2500 per 1h, by: ip}\n"));
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, w), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(peek(w, NOW, "site ip=10.0.0.1").remaining, 0);
    assert_int_equal(peek(w, NOW, "login ip=10.0.0.1").remaining, 500);
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_charged_or_none),
        cmocka_unit_test(peeks_refunds_and_resets_are_of_all),
        cmocka_unit_test(they_are_judged_as_one_policy_that_has_all_of_the_rules),
        cmocka_unit_test(meaningless_requests_are_rejected),
        cmocka_unit_test(an_attribute_that_spells_an_option_is_rejected_unless_it_is_one),
        cmocka_unit_test(modes_plans_and_exemptions_are_each_policys_own),
        cmocka_unit_test(the_longest_wait_is_reported_unless_all_want_the_soonest),
        cmocka_unit_test(overrides_are_of_the_policy_that_they_name),
        cmocka_unit_test(threads_never_leave_one_half_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
