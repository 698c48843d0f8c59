/* test_overrides.c - what operators change, and what checks then make of it. */
#include "support/limiter.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/handle.h"
#include "engine/override_request.h"
#include "engine/pattern.h"

static int64_t now;

static int64_t test_clock(void *ctx)
{
    (void)ctx;
    return now;
}

static weir *open_here(const char *policies)
{
    now = NOW;
    return open_with(&(weir_options){
        .policy_text = policies,
        .max_keys = 10000,
        .clock = test_clock,
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
}

/* A change made of words: "login ip=1.2.3.4 block for=1000". */
struct asked_change {
    struct worded worded;
    struct override_request change;
    char copy[512];
};

static void read_effect(struct override_request *c, char *word)
{
    char *value = word + strcspn(word, "=");

    if (*value)
        *value++ = '\0';
    if (strcmp(word, "rule") == 0)
        c->rule = value;
    else if (strcmp(word, "for") == 0)
        c->expires = now + strtoll(value, NULL, 10);
    else if (strcmp(word, "limit") == 0 || strcmp(word, "burst") == 0)
        *(word[0] == 'l' ? &c->limit : &c->burst) = strtoll(value, NULL, 10);
    else if (strcmp(word, "plan") == 0)
        c->plan = value;
    else
        c->mode = word;
}

static void read_change(struct asked_change *to, enum ledger_subject subject,
                        enum ledger_effect effect, const char *words, const char *more)
{
    char *rest, *word;

    read_words(&to->worded, 0, words);
    to->change = (struct override_request){
        .subject = subject,
        .effect = effect,
        .policy = to->worded.request.policy,
        .key = to->worded.request.key,
        .attributes = to->worded.attributes,
        .attribute_count = to->worded.request.attribute_count,
        .limit = LEDGER_UNCHANGED,
        .burst = LEDGER_UNCHANGED,
        .who = "ann",
        .reason = "a test",
    };
    if (strcmp(to->change.policy, "-") == 0)
        to->change.policy = NULL;
    strcpy(to->copy, more);
    for (word = strtok_r(to->copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        read_effect(&to->change, word);
}

static weir_err try_change(weir *w, const struct override_request *c, uint64_t *id, weir_diag *diag)
{
    struct published_visit visit = published_enter(&w->policies);
    struct override_request_room room;
    struct ledger_entry e;
    weir_err err = override_request_entry(&w->engine, visit.current, c, &room, &e, diag);

    if (!err)
        err = ledger_view_append(w->ledger_view, &e, diag);
    published_leave(&w->policies, visit);
    *id = e.seq;
    return err;
}

static uint64_t make(weir *w, enum ledger_subject subject, enum ledger_effect effect,
                     const char *words, const char *more)
{
    struct asked_change asked;
    weir_diag diag;
    uint64_t id;

    read_change(&asked, subject, effect, words, more);
    if (try_change(w, &asked.change, &id, &diag))
        fail_msg("%s", diag.text);
    return id;
}

static uint64_t set(weir *w, enum ledger_effect effect, const char *words, const char *more)
{
    return make(w, LEDGER_OVERRIDE, effect, words, more);
}

static void assert_refused(weir *w, enum ledger_subject subject, enum ledger_effect effect,
                           const char *words, const char *more, weir_err err, const char *text)
{
    struct asked_change asked;
    weir_diag diag = { "" };
    uint64_t id;

    read_change(&asked, subject, effect, words, more);
    assert_int_equal(try_change(w, &asked.change, &id, &diag), err);
    if (!strstr(diag.text, text))
        fail_msg("'%s' is not in '%s'", text, diag.text);
}

#define LOGIN "  login: {limit: 2 per 1m, by: ip}\n"
#define CLEANUP                                                                                    \
    "  cleanup:\n"                                                                                 \
    "    rules:\n"                                                                                 \
    "      all: {limit: 100 per 1m}\n"                                                             \
    "      ip:  {limit: 2 per 1m, by: ip}\n"                                                       \
    "      ip2: {limit: 3 per 1h, by: ip}\n"

/* ---- effects ------------------------------------------------------------------------------ */

static void an_exempt_identity_is_allowed_and_not_counted(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));
    weir_answer a;
    uint64_t id;

    (void)state;
    assert_true(check(w, 0, "login ip=1.1.1.1").allowed);
    id = set(w, LEDGER_EXEMPT, "login ip=1.1.1.1", "");
    for (int i = 0; i < 5; i++) {
        a = check(w, 0, "login ip=1.1.1.1");
        assert_true(a.allowed);
        assert_int_equal(a.source, WEIR_FROM_EXEMPT);
        assert_int_equal(a.override_id, id);
    }
    make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.1", "");
    a = check(w, 0, "login ip=1.1.1.1"); /* the second that counts */
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    assert_int_equal(a.override_id, 0);
    assert_int_equal(a.remaining, 0);
    assert_false(check(w, 0, "login ip=1.1.1.1").allowed);
    weir_close(w);
}

static void an_override_reaches_a_policy_that_was_asked_before(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(check(w, 0, "login key=1.1.1.1").allowed, i < 2);
    set(w, LEDGER_BLOCK, "login ip=1.1.1.2", "");
    assert_int_equal(check(w, 0, "login key=1.1.1.2").source, WEIR_FROM_BLOCKED);
    make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.2", "");
    assert_int_equal(check(w, 0, "login key=1.1.1.2").source, WEIR_FROM_STORE);
    weir_close(w);
}

static void an_override_reaches_reservations_of_a_policy_that_was_reserved_of_before(void **state)
{
    weir *w = open_here(POLICIES("  jobs: {limit: 5 per 1m, by: user, algorithm: token_bucket}\n"));
    weir_request r = { .policy = "jobs", .key = "ann", .ttl_ms = 1000 };

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(weir_reserve, w, &r).remaining, 4 - i);
    r.key = "bob";
    set(w, LEDGER_LIMIT, "jobs user=bob", "limit=9");
    assert_int_equal(ask(weir_reserve, w, &r).limit, 9);
    make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "jobs user=bob", "");
    set(w, LEDGER_BLOCK, "jobs user=ann", "");
    r.key = "ann";
    assert_int_equal(ask(weir_reserve, w, &r).source, WEIR_FROM_BLOCKED);
    make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "jobs user=ann", "");
    assert_int_equal(ask(weir_reserve, w, &r).remaining, 1);
    weir_close(w);
}

/* The last override may be gone again before a check that it altered is kept for others. */
static void what_an_override_altered_is_no_pattern(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));
    struct published_visit visit = published_enter(&w->policies);
    const struct {
        const char *key;
        bool is_one;
    } asked[] = { { "1.1.1.1", false }, { "1.1.1.2", true } };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const weir_request r = { .policy = "login", .key = asked[i].key };
        weir_answer a;
        struct check_room room;
        struct check check = { .request = &r,
                               .verb = VERB_CHECK,
                               .answer = &a,
                               .room = &room,
                               .policies = visit.current };
        struct pattern pattern;

        set(w, LEDGER_LIMIT, "login ip=1.1.1.1", "limit=9");
        assert_int_equal(engine_prepare(&w->engine, &check, NULL), WEIR_OK);
        make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.1", "");
        assert_int_equal(pattern_of(&w->engine, &check, PATTERN_POLICY, &pattern), asked[i].is_one);
    }
    published_leave(&w->policies, visit);
    weir_close(w);
}

static void a_block_denies_until_it_expires_to_the_ms(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));
    weir_answer a;
    uint64_t id = set(w, LEDGER_BLOCK, "login ip=1.1.1.1", "for=1000");

    (void)state;
    a = check(w, 0, "login ip=1.1.1.1");
    assert_false(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_BLOCKED);
    assert_int_equal(a.override_id, id);
    assert_string_equal(a.rule, "default");
    assert_int_equal(a.retry_after_ms, 1000);
    assert_true(check(w, 0, "login ip=1.1.1.2").allowed);
    now += 999;
    assert_int_equal(check(w, 0, "login ip=1.1.1.1").retry_after_ms, 1);
    now += 1;
    a = check(w, 0, "login ip=1.1.1.1");
    assert_true(a.allowed);
    assert_int_equal(a.remaining, 1); /* nothing was counted meanwhile */
    weir_tick(w);
    assert_false(published_is_set(&w->engine.overrides)); /* there is nothing left to look at */
    set(w, LEDGER_BLOCK, "login ip=1.1.1.1", "");
    assert_int_equal(check(w, 0, "login ip=1.1.1.1").retry_after_ms, WEIR_NEVER);
    weir_close(w);
}

static void another_limit_keeps_what_is_counted(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));
    weir_answer a;

    (void)state;
    check(w, 0, "login ip=1.1.1.1");
    check(w, 0, "login ip=1.1.1.1");
    assert_false(check(w, 0, "login ip=1.1.1.1").allowed);
    set(w, LEDGER_LIMIT, "login ip=1.1.1.1", "limit=4");
    a = check(w, 0, "login ip=1.1.1.1");
    assert_true(a.allowed);
    assert_int_equal(a.limit, 4);
    assert_int_equal(a.remaining, 1);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    set(w, LEDGER_LIMIT, "login ip=1.1.1.1", "limit=3"); /* takes the place of the other */
    assert_false(check(w, 0, "login ip=1.1.1.1").allowed);
    assert_int_equal(check(w, 0, "login ip=2.2.2.2").limit, 2);
    weir_close(w);
}

static void a_lockout_outlasts_another_limit_and_spares_the_exempt(void **state)
{
    weir *w = open_here(POLICIES("  login: {limit: 1 per 1s, by: ip, block_for: 1m}\n"));
    weir_answer a;

    (void)state;
    set(w, LEDGER_LIMIT, "login ip=1.1.1.1", "limit=2");
    for (int i = 0; i < 3; i++)
        a = check(w, 0, "login ip=1.1.1.1");
    assert_int_equal(a.retry_after_ms, 60000); /* numbers of an operator lock, too */
    set(w, LEDGER_LIMIT, "login ip=1.1.1.1", "limit=9");
    now += 1000;
    assert_int_equal(check(w, 0, "login ip=1.1.1.1").retry_after_ms, 59000);
    set(w, LEDGER_EXEMPT, "login ip=1.1.1.1", "");
    assert_true(check(w, 0, "login ip=1.1.1.1").allowed);
    make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.1", "");
    assert_int_equal(check(w, 0, "login ip=1.1.1.1").retry_after_ms, 59000);
    set(w, LEDGER_BLOCK, "login ip=2.2.2.2", "for=1000");
    assert_int_equal(check(w, 0, "login ip=2.2.2.2").retry_after_ms, 1000);
    now += 1000;
    assert_true(check(w, 0, "login ip=2.2.2.2").allowed); /* a block begins no lockout */
    now = NOW + 60000;
    assert_true(check(w, 0, "login ip=1.1.1.1").allowed);
    weir_close(w);
}

static void what_has_happened_is_no_denial_where_an_override_allows_nothing(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));

    (void)state;
    set(w, LEDGER_LIMIT, "login ip=1.1.1.1", "limit=0");
    assert_false(check(w, 0, "login ip=1.1.1.1").allowed);
    assert_true(ask_words(weir_charge, w, 0, "login ip=1.1.1.1 cost=5").allowed);
    assert_int_equal(ask_words(weir_charge, w, 0, "login ip=2.2.2.2 cost=5").over, 3);
    weir_close(w);
}

static void a_limit_may_grow_by_far_and_its_burst_with_it(void **state)
{
    weir *w = open_here(POLICIES("  window: {limit: 5 per 15m, by: user}\n"
                                 "  bucket: {limit: 5 per 15m, by: user, algorithm: token_bucket}\n"
                                 "  burst:  {limit: 5 per 15m, by: user, algorithm: token_bucket, "
                                 "burst: 2}\n"));

    (void)state;
    set(w, LEDGER_LIMIT, "window user=u", "limit=1000000");
    assert_int_equal(check(w, 0, "window user=u cost=999999").remaining, 1);
    set(w, LEDGER_LIMIT, "bucket user=u", "limit=1000");
    assert_int_equal(check(w, 0, "bucket user=u").remaining, 999);
    set(w, LEDGER_LIMIT, "burst user=u", "limit=1000");
    assert_int_equal(check(w, 0, "burst user=u").remaining, 1);
    set(w, LEDGER_LIMIT, "burst user=u", "burst=9");
    assert_int_equal(check(w, 0, "burst user=v").remaining, 1);
    assert_int_equal(check(w, 0, "burst user=w").limit, 5);
    weir_close(w);
}

#define QUERY                                                                                      \
    "  query: {limit: 1 per 1d, by: tenant, plans: {paid: 5 per 1d, gold: 9 per 1h}}\n"            \
    "  mail:  {limit: 1 per 1d, by: user, plans: {paid: 7 per 1d}}\n"

static void an_override_can_be_another_plan(void **state)
{
    weir *w = open_here(POLICIES(QUERY));
    weir_answer a;

    (void)state;
    set(w, LEDGER_ON_PLAN, "query tenant=t", "plan=gold");
    a = check(w, 0, "query tenant=t plan=paid"); /* whatever the caller says */
    assert_int_equal(a.limit, 9);
    assert_int_equal(a.remaining, 8);
    reset(w, 0, "query tenant=t");
    assert_int_equal(check(w, 0, "query tenant=t").remaining, 8); /* of the same plan */
    weir_close(w);
}

static void a_plan_that_is_assigned_need_not_be_sent(void **state)
{
    weir *w = open_here(POLICIES(QUERY));

    (void)state;
    assert_int_equal(check(w, 0, "query tenant=t").limit, 1);
    make(w, LEDGER_PLAN, LEDGER_ON_PLAN, "- tenant=t", "plan=paid");
    assert_int_equal(check(w, 0, "query tenant=t").limit, 5);
    assert_int_equal(check(w, 0, "query key=t").limit, 5);
    assert_int_equal(check(w, 0, "query tenant=other").limit, 1);
    assert_int_equal(check(w, 0, "query tenant=t plan=gold").limit, 9); /* what is sent counts */
    assert_int_equal(check(w, 0, "mail user=u tenant=t").limit, 7);     /* of every policy */
    make(w, LEDGER_PLAN, LEDGER_ON_PLAN, "query tenant=t", "plan=gold");
    assert_int_equal(check(w, 0, "query tenant=t").limit, 9); /* that for this policy first */
    assert_int_equal(check(w, 0, "mail user=u tenant=t").limit, 7);
    make(w, LEDGER_PLAN, LEDGER_REMOVED, "query tenant=t", "");
    assert_int_equal(check(w, 0, "query tenant=t").limit, 5);
    make(w, LEDGER_PLAN, LEDGER_ON_PLAN, "- user=u", "plan=paid for=50");
    assert_int_equal(check(w, 0, "mail user=u").limit, 7);
    now += 50;
    assert_int_equal(check(w, 0, "mail user=u").limit, 1);
    weir_close(w);
}

/* ---- which rules -------------------------------------------------------------------------- */

static void it_is_for_all_rules_that_count_by_the_same_or_for_one(void **state)
{
    weir *w = open_here(POLICIES(CLEANUP));
    weir_answer a;

    (void)state;
    set(w, LEDGER_LIMIT, "cleanup ip=1.1.1.1", "limit=50");
    a = check(w, 0, "cleanup ip=1.1.1.1");
    assert_int_equal(rule_of(&a, "all")->limit, 100);
    assert_int_equal(rule_of(&a, "ip")->limit, 50);
    assert_int_equal(rule_of(&a, "ip2")->limit, 50);
    set(w, LEDGER_LIMIT, "cleanup ip=1.1.1.1", "rule=ip2 limit=60 for=100");
    a = check(w, 0, "cleanup ip=1.1.1.1");
    assert_int_equal(rule_of(&a, "ip")->limit, 50);
    assert_int_equal(rule_of(&a, "ip2")->limit, 60); /* the narrower one */
    now += 100;
    a = check(w, 0, "cleanup ip=1.1.1.1");
    assert_int_equal(rule_of(&a, "ip2")->limit, 50);
    set(w, LEDGER_LIMIT, "cleanup", "limit=7"); /* for all identities */
    a = check(w, 0, "cleanup ip=9.9.9.9");
    assert_int_equal(rule_of(&a, "all")->limit, 7);
    assert_int_equal(rule_of(&a, "ip")->limit, 2);
    weir_close(w);
}

static void rules_that_are_not_exempt_go_on_counting(void **state)
{
    weir *w = open_here(POLICIES(CLEANUP));
    uint64_t id = set(w, LEDGER_EXEMPT, "cleanup ip=1.1.1.1", "rule=ip");
    weir_answer a;

    (void)state;
    for (int i = 0; i < 3; i++) {
        a = check(w, 0, "cleanup ip=1.1.1.1");
        assert_true(a.allowed);
        assert_int_equal(a.source, WEIR_FROM_STORE);
        assert_int_equal(a.rule_count, 2);
        assert_int_equal(a.override_id, id);
    }
    assert_int_equal(rule_of(&a, "all")->remaining, 97);
    a = check(w, 0, "cleanup ip=1.1.1.1");
    assert_false(a.allowed);
    assert_string_equal(a.rule, "ip2");
    weir_close(w);
}

static void in_shadow_nothing_denies_not_even_a_block(void **state)
{
    weir *w = open_here(POLICIES("  login: {limit: 2 per 1m, by: ip, mode: shadow}\n"));
    weir_answer a;

    (void)state;
    set(w, LEDGER_BLOCK, "login ip=1.1.1.1", "");
    a = check(w, 0, "login ip=1.1.1.1");
    assert_true(a.allowed);
    assert_true(a.shadow);
    weir_close(w);
}

static void counts_can_be_reset_and_refunded_all_the_same(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));

    (void)state;
    check(w, 0, "login ip=1.1.1.1");
    check(w, 0, "login ip=1.1.1.1");
    set(w, LEDGER_BLOCK, "login ip=1.1.1.1", "");
    refund(w, 0, "login ip=1.1.1.1");
    set(w, LEDGER_EXEMPT, "login ip=1.1.1.1", "");
    make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.1", "");
    assert_int_equal(peek(w, 0, "login ip=1.1.1.1").remaining, 1);
    set(w, LEDGER_EXEMPT, "login ip=1.1.1.1", "");
    reset(w, 0, "login ip=1.1.1.1");
    make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.1", "");
    assert_int_equal(peek(w, 0, "login ip=1.1.1.1").remaining, 2);
    weir_close(w);
}

static void the_same_identity_is_known_however_it_is_written(void **state)
{
    weir *w = open_here(POLICIES("  a: {limit: 2 per 1m, by: ip}\n"
                                 "  b: {limit: 2 per 1m, by: [tenant, email]}\n"));

    (void)state;
    set(w, LEDGER_EXEMPT, "a ip=2001:db8::1", "");
    assert_int_equal(check(w, 0, "a ip=2001:DB8:0:0:ffff::9").source, WEIR_FROM_EXEMPT);
    set(w, LEDGER_EXEMPT, "b email=A@b.c tenant=t", "");
    assert_int_equal(check(w, 0, "b tenant=t email=a@B.c").source, WEIR_FROM_EXEMPT);
    assert_int_equal(check(w, 0, "b tenant=u email=a@B.c").source, WEIR_FROM_STORE);
    weir_close(w);
}

/* ---- modes -------------------------------------------------------------------------------- */

#define MODES                                                                                      \
    LOGIN "  quiet: {limit: 1 per 1m, by: ip, mode: shadow}\n"                                     \
          "  mixed:\n"                                                                             \
          "    rules:\n"                                                                           \
          "      a: {limit: 1 per 1m, by: ip}\n"                                                   \
          "      b: {limit: 1 per 1m, by: ip, mode: shadow}\n"

static void a_mode_takes_the_place_of_the_policys_own(void **state)
{
    weir *w = open_here(POLICIES(MODES));
    weir_answer a;

    (void)state;
    make(w, LEDGER_MODE, LEDGER_IN_MODE, "login", "off");
    assert_int_equal(check(w, 0, "login ip=1.1.1.1").source, WEIR_FROM_OFF);
    make(w, LEDGER_MODE, LEDGER_IN_MODE, "login", "shadow");
    check(w, 0, "login ip=1.1.1.1 cost=2");
    a = check(w, 0, "login ip=1.1.1.1");
    assert_true(a.allowed);
    assert_true(a.shadow);
    make(w, LEDGER_MODE, LEDGER_IN_MODE, "login", "off for=1000");
    assert_true(check(w, 0, "login ip=1.1.1.1").allowed);
    now += 1000;
    assert_false(check(w, 0, "login ip=1.1.1.1").allowed); /* as the file has it */

    make(w, LEDGER_MODE, LEDGER_IN_MODE, "quiet", "enforce");
    assert_true(check(w, 0, "quiet ip=1.1.1.1").allowed);
    assert_false(check(w, 0, "quiet ip=1.1.1.1").allowed);
    make(w, LEDGER_MODE, LEDGER_REMOVED, "quiet", "");
    assert_true(check(w, 0, "quiet ip=1.1.1.1").allowed);
    weir_close(w);
}

static void a_rule_that_is_in_shadow_by_itself_stays_there(void **state)
{
    weir *w = open_here(POLICIES(MODES));
    weir_answer a;

    (void)state;
    make(w, LEDGER_MODE, LEDGER_IN_MODE, "mixed", "enforce");
    check(w, 0, "mixed ip=1.1.1.1");
    a = check(w, 0, "mixed ip=1.1.1.1");
    assert_false(a.allowed);
    assert_true(rule_of(&a, "b")->shadow);
    make(w, LEDGER_MODE, LEDGER_IN_MODE, "mixed", "shadow");
    a = check(w, 0, "mixed ip=1.1.1.1");
    assert_true(a.allowed);
    assert_true(rule_of(&a, "a")->shadow_denied);
    weir_close(w);
}

/* ---- the ledger ---------------------------------------------------------------------------- */

static bool count_entry(void *ctx, const struct ledger_entry *e)
{
    (void)e;
    ++*(int *)ctx;
    return true;
}

static bool check_entry(void *ctx, const struct ledger_entry *e)
{
    struct ledger_entry *expected = ctx;

    assert_int_equal(e->seq, ++expected->seq);
    assert_int_equal(e->at, now);
    assert_string_equal(e->who, "ann");
    assert_string_equal(e->reason, "a test");
    assert_string_equal(e->policy, "login");
    assert_string_equal(e->by, "ip");
    assert_int_equal(e->effect, e->seq % 2 ? LEDGER_BLOCK : LEDGER_REMOVED);
    return true;
}

static void the_audit_log_has_all_changes_also_those_that_were_taken_back(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));
    struct ledger_entry expected = { 0 };
    weir_diag diag;
    int n = 0;

    (void)state;
    for (int i = 0; i < 10; i++) {
        set(w, LEDGER_BLOCK, "login ip=1.1.1.1", "");
        make(w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.1", "");
    }
    ledger_view_each(w->ledger_view, count_entry, &n);
    assert_int_equal(n, 0);
    assert_int_equal(ledger_view_audit(w->ledger_view, 0, check_entry, &expected, &diag), WEIR_OK);
    assert_int_equal(expected.seq, 20);
    assert_int_equal(ledger_view_audit(w->ledger_view, 15, count_entry, &n, &diag), WEIR_OK);
    assert_int_equal(n, 5);
    weir_close(w);
}

static void many_are_found_each(void **state)
{
    weir *w = open_here(POLICIES(LOGIN));
    char words[64];

    (void)state;
    for (int i = 0; i < 300; i++) {
        snprintf(words, sizeof words, "login ip=10.0.%d.%d", i / 250, i % 250);
        set(w, i % 3 == 0 ? LEDGER_BLOCK : LEDGER_EXEMPT, words, "");
    }
    for (int i = 0; i < 300; i++) {
        snprintf(words, sizeof words, "login ip=10.0.%d.%d", i / 250, i % 250);
        assert_int_equal(check(w, 0, words).source,
                         i % 3 == 0 ? WEIR_FROM_BLOCKED : WEIR_FROM_EXEMPT);
    }
    assert_int_equal(check(w, 0, "login ip=10.1.0.0").source, WEIR_FROM_STORE);
    assert_int_equal(ledger_view_counts(w->ledger_view).in_force[LEDGER_OVERRIDE], 300);
    weir_close(w);
}

/* ---- threads ------------------------------------------------------------------------------- */

struct crowd {
    weir *w;
    atomic_bool is_over;
};

/* Whatever is being changed, each answer is one of those that there may be. */
static void *keep_asking(void *ctx)
{
    struct crowd *c = ctx;

    while (!atomic_load(&c->is_over)) {
        weir_answer a = check(c->w, 0, "login ip=1.1.1.1");

        if (a.source != WEIR_FROM_BLOCKED && a.source != WEIR_FROM_EXEMPT &&
            a.source != WEIR_FROM_STORE && a.source != WEIR_FROM_OFF)
            return "an answer from nowhere";
        if (a.source == WEIR_FROM_STORE && a.limit != 2 && a.limit != 7)
            return "numbers of no override and no rule";
        if (a.source == WEIR_FROM_BLOCKED && (a.allowed || a.retry_after_ms != WEIR_NEVER))
            return "a block that is none";
    }
    return NULL;
}

static void checks_go_on_while_operators_change_things(void **state)
{
    struct crowd crowd = { .w = open_here(POLICIES(LOGIN)) };
    pthread_t threads[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_asking, &crowd), 0);
    for (int i = 0; i < 50; i++) {
        set(crowd.w, LEDGER_BLOCK, "login ip=1.1.1.1", "");
        set(crowd.w, LEDGER_EXEMPT, "login ip=1.1.1.1", "");
        set(crowd.w, LEDGER_LIMIT, "login ip=1.1.1.1", "limit=7");
        make(crowd.w, LEDGER_MODE, LEDGER_IN_MODE, "login", i % 2 ? "off" : "enforce");
        make(crowd.w, LEDGER_OVERRIDE, LEDGER_REMOVED, "login ip=1.1.1.1", "");
        weir_tick(crowd.w);
    }
    atomic_store(&crowd.is_over, true);
    for (int i = 0; i < 2; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        if (wrong)
            fail_msg("%s", (const char *)wrong);
    }
    weir_close(crowd.w);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void changes_without_effect_are_rejected(void **state)
{
    weir *w = open_here(POLICIES(CLEANUP QUERY "  odd:\n"
                                               "    rules:\n"
                                               "      a: {limit: 1 per 1m, by: [x, y]}\n"
                                               "      b: {limit: 1 per 1m, by: [y, x]}\n"));

    (void)state;
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_BLOCK, "clean ip=1.1.1.1", "", WEIR_ENOPOLICY,
                   "did you mean 'cleanup'?");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_BLOCK, "cleanup user=u", "", WEIR_EATTRIBUTE,
                   "counts by exactly these");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_BLOCK, "cleanup ip=1.1.1.1", "rule=ip3",
                   WEIR_EREQUEST, "did you mean 'ip'?");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_BLOCK, "cleanup ip=1.1.1.1", "rule=all",
                   WEIR_EATTRIBUTE, "rule 'all' counts by other attributes");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_BLOCK, "cleanup ip=nowhere", "", WEIR_EATTRIBUTE,
                   "is not an IP address");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_BLOCK, "odd x=1 y=2", "", WEIR_EREQUEST,
                   "rules 'a' and 'b' distinguish these identities");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_LIMIT, "cleanup ip=1.1.1.1", "", WEIR_EREQUEST,
                   "give a limit, a burst or both");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_LIMIT, "cleanup ip=1.1.1.1", "burst=5", WEIR_EREQUEST,
                   "rule 'ip': sliding_window has no burst");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_LIMIT, "cleanup ip=1.1.1.1", "limit=9007199254740992",
                   WEIR_EREQUEST, "must be below 2^53");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_BLOCK, "cleanup ip=1.1.1.1", "for=0", WEIR_EREQUEST,
                   "in the past");
    assert_refused(w, LEDGER_OVERRIDE, LEDGER_ON_PLAN, "query tenant=t", "plan=silver",
                   WEIR_EREQUEST, "has no plan 'silver'");
    assert_refused(w, LEDGER_PLAN, LEDGER_ON_PLAN, "- tenant=t", "plan=silver", WEIR_EREQUEST,
                   "no policy has a plan 'silver'");
    assert_refused(w, LEDGER_PLAN, LEDGER_ON_PLAN, "mail tenant=t", "plan=gold", WEIR_EREQUEST,
                   "no rule of policy 'mail' has a plan 'gold'");
    assert_refused(w, LEDGER_PLAN, LEDGER_ON_PLAN, "query", "plan=gold", WEIR_EREQUEST,
                   "assigned to one attribute");
    assert_refused(w, LEDGER_MODE, LEDGER_IN_MODE, "query", "loud", WEIR_EREQUEST,
                   "mode must be enforce, shadow or off");
    assert_false(published_is_set(&w->engine.overrides));
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exempt_identity_is_allowed_and_not_counted),
        cmocka_unit_test(an_override_reaches_a_policy_that_was_asked_before),
        cmocka_unit_test(an_override_reaches_reservations_of_a_policy_that_was_reserved_of_before),
        cmocka_unit_test(what_an_override_altered_is_no_pattern),
        cmocka_unit_test(a_block_denies_until_it_expires_to_the_ms),
        cmocka_unit_test(another_limit_keeps_what_is_counted),
        cmocka_unit_test(a_lockout_outlasts_another_limit_and_spares_the_exempt),
        cmocka_unit_test(what_has_happened_is_no_denial_where_an_override_allows_nothing),
        cmocka_unit_test(a_limit_may_grow_by_far_and_its_burst_with_it),
        cmocka_unit_test(an_override_can_be_another_plan),
        cmocka_unit_test(a_plan_that_is_assigned_need_not_be_sent),
        cmocka_unit_test(it_is_for_all_rules_that_count_by_the_same_or_for_one),
        cmocka_unit_test(rules_that_are_not_exempt_go_on_counting),
        cmocka_unit_test(in_shadow_nothing_denies_not_even_a_block),
        cmocka_unit_test(counts_can_be_reset_and_refunded_all_the_same),
        cmocka_unit_test(the_same_identity_is_known_however_it_is_written),
        cmocka_unit_test(a_mode_takes_the_place_of_the_policys_own),
        cmocka_unit_test(a_rule_that_is_in_shadow_by_itself_stays_there),
        cmocka_unit_test(the_audit_log_has_all_changes_also_those_that_were_taken_back),
        cmocka_unit_test(many_are_found_each),
        cmocka_unit_test(checks_go_on_while_operators_change_things),
        cmocka_unit_test(changes_without_effect_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
