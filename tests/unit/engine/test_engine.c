/* test_engine.c - what a policy makes of a request: its rules, modes, plans and exemptions. */
#include "engine/handle.h"
#include "support/limiter.h"

/* ---- several rules ---------------------------------------------------------------------- */

#define CLEANUP                                                                                    \
    "  cleanup:\n"                                                                                 \
    "    rules:\n"                                                                                 \
    "      global: {limit: 4 per 60s, algorithm: token_bucket}\n"                                  \
    "      ip:     {limit: 2 per 60s, by: ip}\n"                                                   \
    "      email:  {limit: 3 per 60m, by: email, algorithm: fixed_window}\n"

static void assert_remaining(weir *w, const char *words, int64_t global, int64_t ip, int64_t email)
{
    weir_answer a = peek(w, NOW, words);

    assert_int_equal(rule_of(&a, "global")->remaining, global);
    assert_int_equal(rule_of(&a, "ip")->remaining, ip);
    assert_int_equal(rule_of(&a, "email")->remaining, email);
}

static void all_rules_are_charged_or_none_is(void **state)
{
    weir *w = open_text(POLICIES(CLEANUP));
    weir_answer a;

    (void)state;
    assert_true(check(w, NOW, "cleanup ip=1.1.1.1 email=a").allowed);
    assert_true(check(w, NOW, "cleanup ip=1.1.1.1 email=a").allowed);
    assert_remaining(w, "cleanup ip=1.1.1.1 email=a", 2, 0, 1);

    a = check(w, NOW, "cleanup ip=1.1.1.1 email=a"); /* the ip has had its share */
    assert_false(a.allowed);
    assert_string_equal(a.rule, "ip");
    assert_true(rule_of(&a, "global")->allowed);
    assert_int_equal(rule_of(&a, "global")->remaining, 2); /* as it stands, not charged */
    assert_int_equal(rule_of(&a, "email")->remaining, 1);
    assert_false(rule_of(&a, "ip")->allowed);
    assert_remaining(w, "cleanup ip=1.1.1.1 email=a", 2, 0, 1);

    assert_false(check(w, NOW, "cleanup ip=2.2.2.2 email=a cost=2").allowed); /* the mailbox */
    assert_remaining(w, "cleanup ip=2.2.2.2 email=a", 2, 2, 1);
    assert_true(check(w, NOW, "cleanup ip=3.3.3.3 email=b cost=2").allowed);
    assert_false(check(w, NOW, "cleanup ip=4.4.4.4 email=c").allowed); /* all together */
    assert_remaining(w, "cleanup ip=4.4.4.4 email=c", 0, 2, 3);
    weir_close(w);
}

static void a_lockout_by_one_of_the_rules_is_over_when_it_ends(void **state)
{
    weir *w = open_text(POLICIES("  p:\n"
                                 "    rules:\n"
                                 "      minute: {limit: 2 per 1m, by: user, block_for: 5m}\n"
                                 "      hour:   {limit: 10 per 1h, by: user}\n"));

    (void)state;
    for (int i = 0; i < 2; i++) {
        const int64_t from = NOW + i * 300000;

        assert_true(check(w, from, "p key=u").allowed);
        assert_true(check(w, from + 1, "p key=u").allowed);
        assert_false(check(w, from, "p key=u").allowed);
        assert_int_equal(check(w, from + 299999, "p key=u").retry_after_ms, 1);
    }
    weir_close(w);
}

static void the_answer_lists_every_rule_in_file_order(void **state)
{
    weir *w = open_text(POLICIES(CLEANUP));
    weir_answer a = check(w, NOW, "cleanup ip=1.1.1.1 email=a");

    (void)state;
    assert_int_equal(a.err, WEIR_OK);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    assert_string_equal(a.policy, "cleanup");
    assert_int_equal(a.rule_count, 3);
    assert_string_equal(a.rules[0].rule, "global");
    assert_string_equal(a.rules[1].rule, "ip");
    assert_string_equal(a.rules[2].rule, "email");
    assert_int_equal(a.rules[0].limit, 4);
    assert_int_equal(a.rules[0].remaining, 3);
    assert_int_equal(a.rules[0].reset_after_ms, 15000);
    assert_int_equal(a.rules[1].reset_after_ms, 60000);
    assert_int_equal(a.rules[2].reset_after_ms, 2800000); /* to the end of its hour */
    for (size_t i = 0; i < 3; i++) {
        assert_true(a.rules[i].allowed);
        assert_false(a.rules[i].shadow);
        assert_false(a.rules[i].shadow_denied);
        assert_int_equal(a.rules[i].retry_after_ms, 0);
    }
    weir_close(w);
}

static void an_allowed_check_names_the_rule_with_least_remaining_the_first_on_a_tie(void **state)
{
    weir *w = open_text(POLICIES("  p:\n"
                                 "    rules:\n"
                                 "      wide:  {limit: 5 per 1m}\n"
                                 "      tight: {limit: 3 per 1m, by: user}\n"
                                 "      also:  {limit: 3 per 1h, by: user}\n"));
    weir_answer a = check(w, NOW, "p user=ann");

    (void)state;
    assert_string_equal(a.rule, "tight");
    assert_int_equal(a.limit, 3);
    assert_int_equal(a.remaining, 2);
    assert_int_equal(a.reset_after_ms, 60000);
    assert_int_equal(a.retry_after_ms, 0);
    check(w, NOW, "p user=bob");
    check(w, NOW, "p user=bob");
    a = check(w, NOW, "p user=eve"); /* wide: 1 left; hers: 2 */
    assert_string_equal(a.rule, "wide");
    assert_int_equal(a.remaining, 1);
    weir_close(w);
}

#define WAITS(name, retry, first, second)                                                          \
    "  " name ":\n"                                                                                \
    "    retry_after: " retry "\n"                                                                 \
    "    rules:\n"                                                                                 \
    "      a: {limit: " first "}\n"                                                                \
    "      b: {limit: " second "}\n"                                                               \
    "      c: {limit: 1000 per 1w}\n"

static void assert_decided(weir *w, const char *words, const char *rule, int64_t retry_after)
{
    weir_answer a = check(w, NOW, words);

    assert_false(a.allowed);
    assert_string_equal(a.rule, rule);
    assert_int_equal(a.retry_after_ms, retry_after);
    assert_int_equal(a.limit, rule_of(&a, rule)->limit);
    assert_int_equal(a.remaining, rule_of(&a, rule)->remaining);
    assert_int_equal(a.reset_after_ms, rule_of(&a, rule)->reset_after_ms);
}

static void a_denied_check_names_the_rule_with_the_longest_wait(void **state)
{
    weir *w = open_text(POLICIES( //
        WAITS("ascending", "longest", "1 per 1s", "1 per 10s")
            WAITS("descending", "longest", "1 per 10s", "1 per 1s")
                WAITS("tie", "longest", "1 per 10s", "1 per 10s")
                    WAITS("never", "longest", "5 per 10s", "2 per 1s")
                        WAITS("never-first", "longest", "2 per 1s", "5 per 10s")));

    (void)state;
    check(w, NOW, "ascending");
    assert_decided(w, "ascending", "b", 10000);
    check(w, NOW, "descending");
    assert_decided(w, "descending", "a", 10000);
    check(w, NOW, "tie");
    assert_decided(w, "tie", "a", 10000);
    check(w, NOW, "never cost=2"); /* now a cost of 4 waits for a, and never fits into b */
    assert_decided(w, "never cost=4", "b", WEIR_NEVER);
    check(w, NOW, "never-first cost=2");
    assert_decided(w, "never-first cost=4", "a", WEIR_NEVER);
    weir_close(w);
}

static void retry_after_soonest_answers_the_shortest_wait(void **state)
{
    weir *w = open_text(POLICIES( //
        WAITS("ascending", "soonest", "1 per 1s", "1 per 10s")
            WAITS("descending", "soonest", "1 per 10s", "1 per 1s")
                WAITS("tie", "soonest", "1 per 10s", "1 per 10s")
                    WAITS("never", "soonest", "2 per 1s", "5 per 10s")
                        WAITS("only-never", "soonest", "2 per 1s", "2 per 10s")));

    (void)state;
    check(w, NOW, "ascending");
    assert_decided(w, "ascending", "a", 1000);
    check(w, NOW, "descending");
    assert_decided(w, "descending", "b", 1000);
    check(w, NOW, "tie");
    assert_decided(w, "tie", "a", 10000);
    check(w, NOW, "never cost=2");
    assert_decided(w, "never cost=4", "b", 10000);
    assert_decided(w, "only-never cost=4", "a", WEIR_NEVER);
    weir_close(w);
}

/* Whatever came before: refused one ms earlier, admitted on the ms. */
static void waiting_for_retry_after_is_enough(void **state)
{
    weir *w = open_text(POLICIES(
        "  p:\n"
        "    rules:\n"
        "      global: {limit: 40 per 700ms, algorithm: sliding_counter}\n"
        "      user:   {limit: 7 per 300ms, by: user, algorithm: token_bucket, burst: 9}\n"
        "      route:  {limit: 11 per 450ms, by: route}\n"
        "      both:   {limit: 5 per 200ms, by: [user, route], algorithm: fixed_window}\n"));
    struct dice dice = dice_new();
    int64_t now = NOW;
    int denied = 0;

    (void)state;
    for (int i = 0; i < scaled(20000); i++) {
        char words[64];
        weir_answer a;

        snprintf(words, sizeof words, "p user=u%d route=r%d cost=%d", (int)dice_below(&dice, 3),
                 (int)dice_below(&dice, 3), 1 + (int)dice_below(&dice, 4));
        now += dice_below(&dice, 20);
        a = check(w, now, words);
        if (a.allowed)
            continue;
        denied++;
        assert_true(a.retry_after_ms > 0);
        assert_false(peek(w, now + a.retry_after_ms - 1, words).allowed);
        assert_true(peek(w, now + a.retry_after_ms, words).allowed);
    }
    assert_true(denied > scaled(20000) / 100);
    weir_close(w);
}

static void the_delay_is_the_longest_of_all_rules(void **state)
{
    weir *w = open_text(POLICIES("  call: {limit: 10 per 1s, burst: 3, algorithm: leaky_bucket}\n"
                                 "  calls:\n"
                                 "    algorithm: leaky_bucket\n"
                                 "    rules:\n"
                                 "      slow: {limit: 2 per 1s, burst: 9}\n"
                                 "      fast: {limit: 10 per 1s, burst: 3}\n"));

    (void)state;
    assert_int_equal(check(w, NOW, "call").delay_ms, 0);
    assert_int_equal(check(w, NOW, "call").delay_ms, 100);
    assert_int_equal(check(w, NOW, "call").delay_ms, 200);
    assert_false(check(w, NOW, "call").allowed);
    assert_int_equal(check(w, NOW, "call").delay_ms, 0);
    assert_int_equal(check(w, NOW, "calls").delay_ms, 0);
    assert_string_equal(check(w, NOW, "calls").rule, "fast"); /* has less remaining */
    assert_int_equal(check(w, NOW, "calls").delay_ms, 1000);
    weir_close(w);
}

/* ---- shadow and off --------------------------------------------------------------------- */

static void a_rule_in_shadow_is_charged_alone_and_never_decides(void **state)
{
    weir *w = open_text(POLICIES("  p:\n"
                                 "    rules:\n"
                                 "      trial: {limit: 4 per 1h, by: user, mode: shadow}\n"
                                 "      live:  {limit: 2 per 1m, by: user}\n"));
    weir_answer a;

    (void)state;
    a = check(w, NOW, "p user=ann");
    assert_int_equal(a.rule_count, 2);
    assert_true(rule_of(&a, "trial")->shadow);
    assert_false(rule_of(&a, "live")->shadow);
    assert_string_equal(a.rule, "live");
    check(w, NOW, "p user=ann");

    a = check(w, NOW, "p user=ann"); /* refused by the live rule, counted by the other */
    assert_false(a.allowed);
    assert_false(a.shadow);
    assert_int_equal(rule_of(&a, "trial")->remaining, 1);
    assert_true(rule_of(&a, "trial")->allowed);
    check(w, NOW, "p user=ann");

    a = check(w, NOW + 60000, "p user=ann"); /* the live rule lets it in, the other would not */
    assert_true(a.allowed);
    assert_true(a.shadow);
    assert_string_equal(a.rule, "live");
    assert_int_equal(a.retry_after_ms, 0);
    assert_false(rule_of(&a, "trial")->allowed);
    assert_true(rule_of(&a, "trial")->shadow_denied);
    assert_int_equal(rule_of(&a, "trial")->retry_after_ms, 3600000 - 60000);
    assert_false(rule_of(&a, "live")->shadow_denied);
    assert_int_equal(rule_of(&a, "live")->remaining, 1);
    weir_close(w);
}

static void a_policy_in_shadow_allows_everything_and_reports_what_it_would_deny(void **state)
{
    weir *w = open_text(POLICIES("  p: {limit: 2 per 1m, by: user, mode: shadow}\n"));
    weir_answer a;

    (void)state;
    assert_false(check(w, NOW, "p user=ann").shadow);
    a = check(w, NOW, "p user=ann");
    assert_true(a.allowed);
    assert_int_equal(a.remaining, 0);
    for (int i = 0; i < 3; i++) {
        a = check(w, NOW + 10, "p user=ann");
        assert_true(a.allowed);
        assert_true(a.shadow);
        assert_int_equal(a.source, WEIR_FROM_STORE);
        assert_int_equal(a.retry_after_ms, 0);
        assert_int_equal(a.delay_ms, 0);
        assert_true(a.rules[0].shadow_denied);
        assert_false(a.rules[0].allowed);
        assert_int_equal(a.rules[0].retry_after_ms, 60000 - 10); /* as if it were enforced */
    }
    assert_false(check(w, NOW + 60000, "p user=ann").shadow);
    weir_close(w);
}

static void a_shadow_limit_is_counted_beside_the_live_one(void **state)
{
    weir *w = open_text(POLICIES("  tight: {limit: 4 per 1m, by: user, shadow_limit: 2 per 1m}\n"
                                 "  loose: {limit: 1 per 1m, by: user, shadow_limit: 3 per 1m}\n"));
    weir_answer a;

    (void)state;
    for (int i = 0; i < 4; i++) {
        a = check(w, NOW, "tight user=ann");
        assert_true(a.allowed);
        assert_int_equal(a.rule_count, 1); /* it is no rule of its own */
        assert_int_equal(a.limit, 4);
        assert_int_equal(a.remaining, 3 - i);
        assert_false(a.rules[0].shadow);
        assert_int_equal(a.rules[0].shadow_denied, i >= 2);
        assert_int_equal(a.shadow, i >= 2);
    }
    assert_false(check(w, NOW, "tight user=ann").allowed);

    for (int i = 0; i < 5; i++) { /* also what the live one refuses */
        a = check(w, NOW, "loose user=ann");
        assert_int_equal(a.allowed, i < 1);
        assert_int_equal(a.rules[0].shadow_denied, i >= 3);
    }
    weir_close(w);
}

/* Who of a thousand is refused at the second request, under a limit of one. */
static int reached(const char *rollout, bool *out)
{
    char text[128], words[32];
    weir *w;
    int n = 0;

    snprintf(text, sizeof text, POLICIES("  p: {limit: 1 per 1h, by: user, rollout: %s}\n"),
             rollout);
    w = open_text(text);
    engine_take_secret(&w->engine, &(struct secret){ { 1 } }); /* the same each time */
    assert_int_equal(weir_reload(w, NULL), WEIR_OK);
    for (int i = 0; i < 1000; i++) {
        weir_answer a;

        snprintf(words, sizeof words, "p user=%d", i);
        a = check(w, NOW, words);
        assert_true(a.allowed);
        a = check(w, NOW, words);
        assert_int_equal(a.rules[0].shadow_denied, a.allowed);
        assert_int_equal(a.rules[0].shadow, a.allowed);
        assert_int_equal(a.shadow, a.allowed);
        out[i] = !a.allowed;
        n += out[i];
    }
    weir_close(w);
    return n;
}

static void a_rollout_reaches_a_stable_and_growing_share(void **state)
{
    bool some[1000], same[1000], more[1000];
    const int tenth = reached("10%", some);

    (void)state;
    assert_in_range(tenth, 60, 140);
    assert_int_equal(reached("10%", same), tenth);
    assert_memory_equal(some, same, sizeof some);
    assert_in_range(reached("50%", more), 420, 580);
    for (int i = 0; i < 1000; i++)
        assert_true(!some[i] || more[i]);
    assert_int_equal(reached("0%", same), 0);
    assert_int_equal(reached("100%", same), 1000);
}

static void a_policy_that_is_off_allows_and_counts_nothing(void **state)
{
    weir *w = open_text(POLICIES("  p: {limit: 2 per 1m, by: user, mode: off}\n"
                                 "  q:\n"
                                 "    rules:\n"
                                 "      a: {limit: 0, mode: off}\n"
                                 "      b: {limit: 0, mode: off}\n"));
    weir_answer a;

    (void)state;
    for (int i = 0; i < 5; i++) {
        a = check(w, NOW, i % 2 ? "p user=ann" : "p"); /* not even the attribute matters */
        assert_true(a.allowed);
        assert_int_equal(a.source, WEIR_FROM_OFF);
        assert_string_equal(a.policy, "p");
        assert_string_equal(a.rule, "default");
        assert_int_equal(a.rule_count, 0);
        assert_int_equal(a.limit, 2);
        assert_int_equal(a.remaining, 2);
    }
    a = check(w, NOW, "q");
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_OFF);
    assert_int_equal(stats_of(w).keys, 0);
    weir_close(w);
}

static void a_rule_that_is_off_is_not_there(void **state)
{
    weir *w = open_text(POLICIES("  p:\n"
                                 "    rules:\n"
                                 "      gone: {limit: 0, by: missing-attribute, mode: off}\n"
                                 "      live: {limit: 2 per 1m, by: user}\n"));
    weir_answer a = check(w, NOW, "p user=ann");

    (void)state;
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    assert_int_equal(a.rule_count, 1);
    assert_string_equal(a.rule, "live");
    assert_int_equal(stats_of(w).keys, 1);
    weir_close(w);
}

/* ---- exemptions and plans --------------------------------------------------------------- */

static void assert_exempt(weir *w, const char *words)
{
    weir_answer a = check(w, NOW, words);

    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_EXEMPT);
    assert_int_equal(a.rule_count, 0);
    assert_int_equal(a.retry_after_ms, 0);
    assert_int_equal(stats_of(w).keys, 0);
}

static void an_exempt_identity_is_allowed_and_not_counted(void **state)
{
    weir *w = open_text(POLICIES(
        "  login: {limit: 0, by: ip}\n"
        "  own: {limit: 0, by: ip, exempt: [{ip: 203.0.113.7}]}\n") "exempt:\n"
                                                                    "  - {ip: [10.0.0.0/8, \"2001:db8::/32\"]}\n"
                                                                    "  - {user: cron, route: /health}\n");

    (void)state;
    assert_exempt(w, "login ip=198.51.100.1 exempt");
    assert_exempt(w, "login ip=10.1.2.3");
    assert_exempt(w, "login key=10.1.2.3");
    assert_exempt(w, "login ip=::ffff:10.1.2.3");
    assert_exempt(w, "login ip=2001:db8:1::1");
    assert_exempt(w, "login ip=198.51.100.1 user=cron route=/health");
    assert_exempt(w, "own ip=203.0.113.7");
    assert_exempt(w, "own ip=10.1.2.3");

    assert_false(check(w, NOW, "login ip=11.1.2.3").allowed);
    assert_false(check(w, NOW, "login ip=2001:db9::1").allowed);
    assert_false(check(w, NOW, "login ip=198.51.100.1 user=cron").allowed); /* only one of two */
    assert_false(check(w, NOW, "login ip=203.0.113.7").allowed);            /* another policy's */
    weir_close(w);
}

#define PLANS                                                                                      \
    "  query:\n"                                                                                   \
    "    rules:\n"                                                                                 \
    "      tenant: {limit: 2 per 1h, by: tenant, plans: {paid: 5 per 1h, night: 3 per 2h}}\n"      \
    "      global: {limit: 100 per 1h}\n"

static void a_plan_has_its_own_numbers_and_others_have_the_rules(void **state)
{
    weir *w = open_text(POLICIES(PLANS));
    weir_answer a;

    (void)state;
    a = check(w, NOW, "query tenant=a plan=paid");
    assert_int_equal(a.limit, 5);
    assert_int_equal(a.remaining, 4);
    assert_int_equal(rule_of(&a, "global")->limit, 100); /* has no such plan */
    a = check(w, NOW, "query tenant=b plan=unheard-of");
    assert_int_equal(a.limit, 2);
    assert_int_equal(a.remaining, 1);
    weir_close(w);
}

static void a_plan_of_the_same_window_shares_the_count_and_another_window_does_not(void **state)
{
    weir *w = open_text(POLICIES(PLANS));
    weir_answer a;

    (void)state;
    check(w, NOW, "query tenant=a");
    check(w, NOW, "query tenant=a");
    assert_false(check(w, NOW, "query tenant=a").allowed);
    a = check(w, NOW, "query tenant=a plan=paid"); /* an upgrade takes effect and forgets nothing */
    assert_true(a.allowed);
    assert_int_equal(a.remaining, 2);
    a = check(w, NOW, "query tenant=a"); /* and a downgrade owes what was used */
    assert_false(a.allowed);
    assert_int_equal(a.remaining, 0);
    a = check(w, NOW, "query tenant=a plan=night");
    assert_true(a.allowed);
    assert_int_equal(a.remaining, 2);
    weir_close(w);
}

static void a_limit_of_0_always_denies_and_counts_nothing(void **state)
{
    weir *w = open_text(POLICIES("  closed: {limit: 0, by: user, plans: {staff: 2 per 1m}}\n"));
    weir_answer a = check(w, NOW, "closed user=ann");

    (void)state;
    assert_false(a.allowed);
    assert_int_equal(a.retry_after_ms, WEIR_NEVER);
    assert_int_equal(a.limit, 0);
    assert_int_equal(a.remaining, 0);
    assert_true(check(w, NOW, "closed user=ann cost=none").allowed);
    assert_int_equal(stats_of(w).keys, 0);
    assert_true(check(w, NOW, "closed user=ann plan=staff").allowed);
    weir_close(w);
}

static void identities_that_mean_the_same_are_counted_together(void **state)
{
    weir *w = open_text(POLICIES("  p:\n"
                                 "    rules:\n"
                                 "      ip:    {limit: 100 per 1m, by: ip}\n"
                                 "      email: {limit: 100 per 1m, by: email}\n"
                                 "      pair:  {limit: 100 per 1m, by: [user, route]}\n"));
    weir_answer a;

    (void)state;
    check(w, NOW, "p ip=192.0.2.1 email=A@Example.com user=ab route=c");
    a = check(w, NOW, "p ip=::ffff:192.0.2.1 email=a@example.COM user=a route=bc");
    assert_int_equal(rule_of(&a, "ip")->remaining, 98);
    assert_int_equal(rule_of(&a, "email")->remaining, 98);
    assert_int_equal(rule_of(&a, "pair")->remaining, 99);
    check(w, NOW, "p ip=2001:db8::1 email=x user=x route=x");
    a = check(w, NOW, "p ip=2001:db8::ffff:1 email=y route=x user=x"); /* in any order */
    assert_int_equal(rule_of(&a, "ip")->remaining, 98);
    assert_int_equal(rule_of(&a, "pair")->remaining, 98);
    weir_close(w);
}

/* Rules that count by the same share a hash; the others must not. */
static void rules_by_other_attributes_or_prefixes_count_each_their_own(void **state)
{
    weir *w = open_text(
        POLICIES("  p:\n"
                 "    rules:\n"
                 "      host: {limit: 90 per 1m, by: ip, ipv6_prefix: 128}\n"
                 "      again: {limit: 90 per 1h, by: ip, ipv6_prefix: 128}\n"
                 "      site: {limit: 90 per 1m, by: ip, ipv6_prefix: 48}\n"
                 "      user: {limit: 90 per 1m, by: user}\n"
                 "      both: {limit: 90 per 1m, by: [user, ip], ipv6_prefix: 128}\n"
                 "      all: {limit: 90 per 1m}\n"));
    static const struct {
        const char *words;
        int64_t host, site, user, both, all; /* what was counted of it before */
    } steps[] = {
        { "p ip=2001:db8:1::1 user=ann", 0, 0, 0, 0, 0 },
        { "p ip=2001:db8:1::2 user=ann", 0, 1, 1, 0, 1 },
        { "p ip=2001:db8:2::1 user=bob", 0, 0, 0, 0, 2 },
        { "p ip=2001:db8:1::1 user=bob", 1, 2, 1, 0, 3 },
        { "p ip=2001:db8:1::1 user=ann", 2, 3, 2, 1, 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const weir_answer a = check(w, NOW, steps[i].words);

        assert_int_equal(rule_of(&a, "host")->remaining, 89 - steps[i].host);
        assert_int_equal(rule_of(&a, "again")->remaining, 89 - steps[i].host);
        assert_int_equal(rule_of(&a, "site")->remaining, 89 - steps[i].site);
        assert_int_equal(rule_of(&a, "user")->remaining, 89 - steps[i].user);
        assert_int_equal(rule_of(&a, "both")->remaining, 89 - steps[i].both);
        assert_int_equal(rule_of(&a, "all")->remaining, 89 - steps[i].all);
    }
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_by_other_attributes_or_prefixes_count_each_their_own),
        cmocka_unit_test(all_rules_are_charged_or_none_is),
        cmocka_unit_test(a_lockout_by_one_of_the_rules_is_over_when_it_ends),
        cmocka_unit_test(the_answer_lists_every_rule_in_file_order),
        cmocka_unit_test(an_allowed_check_names_the_rule_with_least_remaining_the_first_on_a_tie),
        cmocka_unit_test(a_denied_check_names_the_rule_with_the_longest_wait),
        cmocka_unit_test(retry_after_soonest_answers_the_shortest_wait),
        cmocka_unit_test(waiting_for_retry_after_is_enough),
        cmocka_unit_test(the_delay_is_the_longest_of_all_rules),
        cmocka_unit_test(a_rule_in_shadow_is_charged_alone_and_never_decides),
        cmocka_unit_test(a_policy_in_shadow_allows_everything_and_reports_what_it_would_deny),
        cmocka_unit_test(a_shadow_limit_is_counted_beside_the_live_one),
        cmocka_unit_test(a_rollout_reaches_a_stable_and_growing_share),
        cmocka_unit_test(a_policy_that_is_off_allows_and_counts_nothing),
        cmocka_unit_test(a_rule_that_is_off_is_not_there),
        cmocka_unit_test(an_exempt_identity_is_allowed_and_not_counted),
        cmocka_unit_test(a_plan_has_its_own_numbers_and_others_have_the_rules),
        cmocka_unit_test(a_plan_of_the_same_window_shares_the_count_and_another_window_does_not),
        cmocka_unit_test(a_limit_of_0_always_denies_and_counts_nothing),
        cmocka_unit_test(identities_that_mean_the_same_are_counted_together),
    };

    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
