/* test_handle.c - the library's handle: reloading, the environment, clocks, failing stores. */
#include "support/limiter.h"

#include <unistd.h>

/* ---- reloading -------------------------------------------------------------------------- */

struct policy_file {
    char path[32];
};

static void write_policies(const struct policy_file *f, const char *text)
{
    FILE *file = fopen(f->path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static weir *open_file(struct policy_file *f, const char *text)
{
    int fd;

    *f = (struct policy_file){ .path = "/tmp/weir-policies-XXXXXX" };
    fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    write_policies(f, text);
    return open_with(&(weir_options){
        .policy_file = f->path,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
    });
}

static void reload(weir *w)
{
    weir_diag diag;

    if (weir_reload(w, &diag))
        fail_msg("%s", diag.text);
}

static void close_file(struct policy_file *f, weir *w)
{
    unlink(f->path);
    weir_close(w);
}

static void a_reload_keeps_what_is_counted_unless_algorithm_window_or_amount_change(void **state)
{
    struct policy_file f;
    weir *w = open_file(&f, POLICIES("  p: {limit: 5 per 1m, by: user}\n"));

    (void)state;
    check(w, NOW, "p user=u cost=4");
    write_policies(&f, POLICIES("  # moved down\n  q: {limit: 1 per 1m}\n"
                                "  p: {limit: 10 per 1m, by: user, on_error: deny}\n"));
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 1); /* not before it is asked for */
    reload(w);
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 6);
    assert_int_equal(peek(w, NOW, "q").remaining, 1);

    write_policies(&f, POLICIES("  p: {limit: 10 per 2m, by: user}\n"));
    reload(w);
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 10);
    write_policies(&f, POLICIES("  p: {limit: 10 per 1m, by: user, algorithm: token_bucket}\n"));
    reload(w);
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 10);
    write_policies(&f, POLICIES("  p: {limit: 10 per 1m, by: user, counts: tokens}\n"));
    reload(w);
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 10);
    write_policies(&f, POLICIES("  p: {limit: 3 per 1m, by: user}\n"));
    reload(w); /* back to what it was, and lower: what was taken is still taken */
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 0);
    assert_false(check(w, NOW, "p user=u").allowed);
    close_file(&f, w);
}

static int64_t left_of(weir *w, const char *rule)
{
    const weir_answer a = peek(w, NOW, "p user=u");

    return rule_of(&a, rule)->remaining;
}

static void a_reload_that_moves_adds_or_removes_rules_keeps_what_the_others_count(void **state)
{
#define A "      a: {limit: 10 per 1m}\n"
#define B "      b: {limit: 20 per 1h, algorithm: token_bucket}\n"
#define C "      c: {limit: 30 per 1d, algorithm: fixed_window}\n"
#define RULES(rules) POLICIES("  p:\n    by: user\n    rules:\n" rules)
    struct policy_file f;
    weir *w = open_file(&f, RULES(A B C));

    (void)state;
    assert_true(check(w, NOW, "p user=u cost=3").allowed);
    write_policies(&f, RULES(C A B));
    reload(w);
    assert_int_equal(left_of(w, "a"), 7);
    assert_int_equal(left_of(w, "b"), 17);
    assert_int_equal(left_of(w, "c"), 27);
    write_policies(&f, RULES(B));
    reload(w);
    assert_int_equal(left_of(w, "b"), 17);
    assert_true(check(w, NOW, "p user=u cost=2").allowed);
    write_policies(&f, RULES("      d: {limit: 5 per 1m}\n" C B "      e: {limit: 9 per 1h}\n" A));
    reload(w);
    assert_int_equal(left_of(w, "a"), 7);
    assert_int_equal(left_of(w, "b"), 15);
    assert_int_equal(left_of(w, "c"), 27);
    assert_int_equal(left_of(w, "d"), 5);
    assert_int_equal(left_of(w, "e"), 9);
    close_file(&f, w);
#undef A
#undef B
#undef C
#undef RULES
}

static void a_failed_reload_keeps_the_old_policies_and_reports_all_problems(void **state)
{
    struct policy_file f;
    weir *w = open_file(&f, POLICIES("  p: {limit: 5 per 1m, by: user}\n"));
    weir_diag diag;
    char expected[512];

    (void)state;
    check(w, NOW, "p user=u");
    write_policies(&f, POLICIES("  p: {limit: 50 per 1m, by: user}\n"
                                "  q: {limt: 5 per 1m}\n"
                                "  r: {limit: 5 per 1x}\n"));
    assert_int_equal(weir_reload(w, &diag), WEIR_EPOLICY);
    snprintf(expected, sizeof expected,
             "%s:4:7: unknown key 'limt' in a policy: did you mean 'limit'?\n"
             "%s:5:14: ",
             f.path, f.path);
    assert_memory_equal(diag.text, expected, strlen(expected));
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 4);

    unlink(f.path);
    assert_int_equal(weir_reload(w, &diag), WEIR_EPOLICY);
    snprintf(expected, sizeof expected,
             "%s: cannot read it: No such file or directory: check the path", f.path);
    assert_string_equal(diag.text, expected);
    assert_int_equal(weir_reload(w, NULL), WEIR_EPOLICY);
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 4);
    write_policies(&f, POLICIES("  p: {limit: 50 per 1m, by: user}\n"));
    reload(w);
    assert_int_equal(peek(w, NOW, "p user=u").remaining, 49);
    close_file(&f, w);
}

static void names_in_answers_live_until_the_handle_is_closed(void **state)
{
    struct policy_file f;
    weir *w = open_file(&f,
                        POLICIES("  first:\n"
                                 "    rules: {one: {limit: 5 per 1m}, two: {limit: 3 per 1m}}\n"));
    weir_answer a = check(w, NOW, "first");

    (void)state;
    for (int i = 0; i < 100; i++) {
        char text[128];

        snprintf(text, sizeof text, POLICIES("  p%d: {rules: {r%d: {limit: 1 per 1m}}}\n"), i, i);
        write_policies(&f, text);
        reload(w);
    }
    assert_string_equal(a.policy, "first");
    assert_string_equal(a.rule, "two");
    assert_string_equal(a.rules[0].rule, "one");
    close_file(&f, w);
}

/* ---- the environment -------------------------------------------------------------------- */

static weir *open_in_environment(const char *text, unsigned flags)
{
    return open_with(&(weir_options){
        .policy_text = text,
        .flags = flags | WEIR_TRUST_NOW | WEIR_NO_THREAD,
    });
}

static int clear_environment(void **state)
{
    (void)state;
    unsetenv("WEIR_ENABLED");
    unsetenv("WEIR_ENABLED_POLICIES");
    unsetenv("WEIR_POLICY_P_LIMIT");
    return 0;
}

#define TWO_POLICIES POLICIES("  p: {limit: 2 per 1m}\n  q: {limit: 2 per 1m}\n")

static void weir_enabled_false_allows_all_and_counts_nothing(void **state)
{
    weir_request brought = { .key = "k", .limit = 1, .window_ms = 1000, .now = NOW };
    weir *w;

    (void)state;
    setenv("WEIR_ENABLED", "false", 1);
    for (int with_policies = 0; with_policies < 2; with_policies++) {
        w = open_in_environment(with_policies ? TWO_POLICIES : NULL, 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ask(weir_check, w, &brought).source, WEIR_FROM_OFF);
            assert_true(ask(weir_check, w, &brought).allowed);
            if (with_policies)
                assert_int_equal(check(w, NOW, "p").source, WEIR_FROM_OFF);
        }
        assert_int_equal(stats_of(w).keys, 0);
        weir_close(w);
    }
}

static void a_reload_reads_the_environment_again(void **state)
{
    weir *w = open_in_environment(TWO_POLICIES, 0);

    (void)state;
    assert_int_equal(check(w, NOW, "p").source, WEIR_FROM_STORE);
    setenv("WEIR_ENABLED", "false", 1);
    assert_int_equal(check(w, NOW, "p").source, WEIR_FROM_STORE);
    reload(w);
    assert_int_equal(check(w, NOW, "p").source, WEIR_FROM_OFF);
    setenv("WEIR_ENABLED", "true", 1);
    reload(w);
    assert_false(check(w, NOW, "p").allowed); /* the two from before still count */
    weir_close(w);
}

static void operators_choose_policies_and_limits_by_the_environment(void **state)
{
    weir *w;
    weir_diag diag;

    (void)state;
    setenv("WEIR_ENABLED_POLICIES", "q", 1);
    setenv("WEIR_POLICY_P_LIMIT", "7 per 1h", 1);
    w = open_in_environment(TWO_POLICIES, 0);
    assert_int_equal(check(w, NOW, "p").source, WEIR_FROM_OFF);
    assert_int_equal(check(w, NOW, "q").source, WEIR_FROM_STORE);
    unsetenv("WEIR_ENABLED_POLICIES");
    reload(w);
    assert_int_equal(check(w, NOW, "p").limit, 7);
    assert_int_equal(check(w, NOW, "q").limit, 2);

    setenv("WEIR_POLICY_P_LIMIT", "seven", 1);
    assert_int_equal(weir_reload(w, &diag), WEIR_EPOLICY);
    assert_non_null(strstr(diag.text, "environment: WEIR_POLICY_P_LIMIT: "));
    assert_int_equal(check(w, NOW, "p").limit, 7);
    weir_close(w);
}

static void the_environment_can_be_ignored(void **state)
{
    weir *w;

    (void)state;
    setenv("WEIR_ENABLED", "false", 1);
    setenv("WEIR_ENABLED_POLICIES", "nonsense", 1);
    setenv("WEIR_POLICY_P_LIMIT", "nonsense", 1);
    w = open_in_environment(TWO_POLICIES, WEIR_IGNORE_ENVIRONMENT);
    assert_int_equal(check(w, NOW, "p").remaining, 1);
    assert_int_equal(check(w, NOW, "q").remaining, 1);
    weir_close(w);
}

/* ---- clocks ----------------------------------------------------------------------------- */

static int64_t read_clock(void *ctx)
{
    return *(int64_t *)ctx;
}

static void without_a_time_the_clock_of_the_handle_is_used(void **state)
{
    int64_t now = NOW;
    weir *w = open_with(&(weir_options){
        .policy_text = POLICIES("  p: {limit: 1 per 1m}\n"),
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
        .clock = read_clock,
        .clock_ctx = &now,
    });
    weir_request r = { .policy = "p" };
    weir_answer a;

    (void)state;
    assert_true(check(w, 0, "p").allowed);
    now += 59999;
    assert_int_equal(check(w, 0, "p").retry_after_ms, 1);
    assert_int_equal(weir_check_many(w, &r, &a, 1, NULL), WEIR_OK);
    assert_false(a.allowed);
    now++;
    assert_int_equal(weir_check_many(w, &r, &a, 1, NULL), WEIR_OK);
    assert_true(a.allowed);
    weir_close(w);
}

static void a_tick_drops_keys_that_are_back_to_untouched(void **state)
{
    int64_t now = NOW;
    weir *w = open_with(&(weir_options){
        .policy_text = POLICIES("  p: {limit: 1 per 1m, by: user}\n"),
        .max_keys = 10000,
        .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
        .clock = read_clock,
        .clock_ctx = &now,
    });

    (void)state;
    for (int i = 0; i < 1000; i++) {
        char words[32];

        snprintf(words, sizeof words, "p user=%d", i);
        check(w, 0, words);
    }
    assert_int_equal(stats_of(w).keys, 1000);
    assert_int_equal(stats_of(w).max_keys, 10000);
    assert_true(stats_of(w).memory_bytes >= 1000 * 64);
    for (int i = 0; i < 200; i++)
        weir_tick(w);
    assert_int_equal(stats_of(w).keys, 1000);
    now += 3600000;
    for (int i = 0; i < 200; i++)
        weir_tick(w);
    assert_int_equal(stats_of(w).keys, 0);
    assert_int_equal(stats_of(w).expired_keys, 1000);
    assert_int_equal(stats_of(w).evicted_keys, 0);
    weir_close(w);
}

static void a_full_table_evicts_the_least_consumed_and_counts_them(void **state)
{
    weir *w = open_with(&(weir_options){
        .policy_text = POLICIES("  p: {limit: 5 per 1h, by: user}\n"),
        .max_keys = 100,
        .flags = WEIR_NO_THREAD | WEIR_TRUST_NOW | WEIR_IGNORE_ENVIRONMENT,
    });

    (void)state;
    check(w, NOW, "p user=limited cost=5");
    for (int i = 0; i < 1000; i++) {
        char words[32];

        snprintf(words, sizeof words, "p user=%d", i);
        assert_true(check(w, NOW, words).allowed);
    }
    assert_false(check(w, NOW, "p user=limited").allowed);
    assert_int_equal(stats_of(w).keys, 100);
    assert_int_equal(stats_of(w).evicted_keys, 901);
    weir_close(w);
}

/* ---- secrets ---------------------------------------------------------------------------- */

static void a_handle_without_options_works(void **state)
{
    weir_request r = { .key = "k", .limit = 1, .window_ms = 3600000 };
    weir_diag diag = { "something old" };
    weir *w;

    (void)state;
    assert_int_equal(weir_open(&w, NULL, &diag), WEIR_OK);
    assert_string_equal(diag.text, "");
    assert_true(ask(weir_check, w, &r).allowed);
    assert_false(ask(weir_check, w, &r).allowed);
    assert_int_equal(stats_of(w).max_keys, 16777216);
    weir_close(w);
    weir_close(NULL);
}

static void a_secret_file_is_created_once_and_used_again(void **state)
{
    char dir[] = "/tmp/weir-secret-XXXXXX", path[64];
    weir *w;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/secret", dir);
    for (int i = 0; i < 2; i++) {
        w = open_with(&(weir_options){ .secret_file = path, .flags = WEIR_NO_THREAD });
        assert_int_equal(access(path, R_OK), 0);
        weir_close(w);
    }
    unlink(path);
    rmdir(dir);
}

/* ---- a store that fails ----------------------------------------------------------------- */

/* A sliding window that keeps more than three moments needs memory beside its cell. */
static weir *open_failing(const char *text, struct counted_memory *memory)
{
    return open_with(&(weir_options){
        .policy_text = text,
        .max_keys = 1000,
        .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
        .allocator = { counted_resize, memory },
    });
}

static void assert_fallback(const weir_answer *a, bool allowed)
{
    assert_int_equal(a->source, WEIR_FROM_FALLBACK);
    assert_int_equal(a->allowed, allowed);
    assert_string_equal(a->policy, "p");
    assert_int_equal(a->limit, 50);
    assert_int_equal(a->remaining, 0);
    assert_int_equal(a->retry_after_ms, allowed ? 0 : 1000);
}

static void when_the_store_fails_on_error_decides(void **state)
{
    static const struct {
        const char *text;
        bool allowed;
    } cases[] = {
        { POLICIES("  p: {limit: 50 per 1m, on_error: allow}\n"), true },
        { POLICIES("  p: {limit: 50 per 1m, on_error: deny}\n"), false },
        { POLICIES("  p: {limit: 50 per 1m, on_error: local}\n"), false },
        { POLICIES(
              "  p: {rules: {a: {limit: 50 per 1m}, b: {limit: 9 per 1m}}, on_error: allow}\n"),
          true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct counted_memory memory = { 0 };
        weir *w = open_failing(cases[i].text, &memory);
        weir_answer a;

        for (int n = 0; n < 3; n++)
            check(w, NOW + n, "p");
        memory.failures = 1000;
        for (int n = 0; n < 3; n++) {
            a = check(w, NOW + 3 + n, "p");
            assert_fallback(&a, cases[i].allowed);
        }
        memory.failures = 0;
        a = check(w, NOW + 10, "p"); /* nothing of that was counted */
        assert_int_equal(a.source, WEIR_FROM_STORE);
        assert_int_equal(a.rules[0].remaining, 46);
        weir_close(w);
        assert_int_equal(memory.blocks, 0);
    }
}

static void a_limit_given_in_a_request_is_denied_when_the_store_fails(void **state)
{
    struct counted_memory memory = { 0 };
    weir *w = open_failing(NULL, &memory);
    weir_request r = { .key = "k", .limit = 50, .window_ms = 60000, .now = NOW };
    weir_answer a;

    (void)state;
    for (int n = 0; n < 3; n++, r.now++)
        assert_true(ask(weir_check, w, &r).allowed);
    memory.failures = 1;
    a = ask(weir_check, w, &r);
    assert_int_equal(a.source, WEIR_FROM_FALLBACK);
    assert_false(a.allowed);
    assert_true(ask(weir_check, w, &r).allowed);
    weir_close(w);
}

static void a_shadow_that_cannot_be_counted_does_not_decide(void **state)
{
    struct counted_memory memory = { 0 };
    weir *w = open_failing(POLICIES("  p:\n"
                                    "    on_error: deny\n"
                                    "    rules:\n"
                                    "      live:  {limit: 50 per 1m, algorithm: fixed_window}\n"
                                    "      trial: {limit: 50 per 1m, mode: shadow}\n"),
                           &memory);
    weir_answer a;

    (void)state;
    for (int n = 0; n < 3; n++)
        check(w, NOW + n, "p");
    memory.failures = 1;
    a = check(w, NOW + 3, "p");
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_STORE);
    assert_string_equal(a.rule, "live");
    assert_int_equal(a.remaining, 46);
    assert_false(a.shadow);
    weir_close(w);

    memory = (struct counted_memory){ 0 };
    w = open_failing(POLICIES("  p: {limit: 50 per 1m, mode: shadow, on_error: deny}\n"), &memory);
    for (int n = 0; n < 3; n++)
        check(w, NOW + n, "p");
    memory.failures = 1;
    a = check(w, NOW + 3, "p");
    assert_true(a.allowed);
    assert_int_equal(a.source, WEIR_FROM_FALLBACK);
    assert_false(a.shadow);
    weir_close(w);
}

/* ---- policies that are prepared once ---------------------------------------------------- */

static const char prepared_policies[] = POLICIES(
    "  window: {limit: 3 per 1m, by: user}\n"
    "  fixed: {limit: 3 per 1m, by: user, algorithm: fixed_window}\n"
    "  token: {limit: 3 per 1m, burst: 2, by: user, algorithm: token_bucket}\n"
    "  leaky: {limit: 3 per 1m, burst: 2, by: user, algorithm: leaky_bucket}\n"
    "  locks: {limit: 2 per 1m, by: user, block_for: 5m}\n"
    "  none: {limit: 0 per 1m, by: user}\n"
    "  off: {limit: 3 per 1m, by: user, mode: 'off'}\n"
    "  shadow: {limit: 3 per 1m, by: user, mode: shadow}\n"
    "  exempt: {limit: 3 per 1m, by: user, exempt: [{user: ann}]}\n"
    "  address: {limit: 3 per 1m, by: ip}\n"
    "  two:\n"
    "    rules:\n"
    "      minute: {limit: 3 per 1m, by: user}\n"
    "      hour: {limit: 5 per 1h, by: user}\n");

/* Only what brings a bare key and nothing else is prepared once: a cost of 1 is something. */
static void a_bare_key_is_answered_as_one_with_a_cost_of_1(void **state)
{
    static const char *const policies[] = { "window", "fixed", "token",  "leaky",  "locks",  "none",
                                            "off",    "two",   "shadow", "exempt", "address" };
    static const char *const keys[] = {
        "ann", "10.0.0.1", "a key with spaces, as long as 47 bytes",
        "one that is a lot longer than what fits in a short place"
    };
    int64_t now = NOW;
    const weir_options options = { .policy_text = prepared_policies,
                                   .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT,
                                   .clock = read_clock,
                                   .clock_ctx = &now };
    weir *bare = open_with(&options), *whole = open_with(&options);

    (void)state;
    for (int i = 0; i < 600; i++, now += 1700) {
        const weir_request r = { .policy = policies[i % 11], .key = keys[i / 11 % 4] };
        weir_request costs = r;
        weir_answer a, b;
        weir_diag why = { "" }, why_not = { "" };
        weir_err err;

        costs.cost = 1;
        err = weir_check(bare, &r, &a, &why);
        assert_int_equal(err, weir_check(whole, &costs, &b, &why_not));
        assert_string_equal(why.text, why_not.text);
        if (err == WEIR_OK)
            assert_same_answer(&a, &b);
    }
    weir_close(bare);
    weir_close(whole);
}

static void a_key_that_cannot_be_counted_is_refused_every_time(void **state)
{
    static const char bytes[WEIR_MAX_IDENTITY + 1] = { 'a', '\xff' };
    static const struct {
        const char *key;
        size_t len;
    } bad[] = { { "", 0 }, { bytes, 2 }, { bytes, sizeof bytes } };
    weir *w = open_with(&(weir_options){ .policy_text = prepared_policies,
                                         .flags = WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT });

    (void)state;
    for (int i = 0; i < 9; i++) {
        const weir_request r = { .policy = "window",
                                 .key = bad[i % 3].key,
                                 .key_len = bad[i % 3].len };
        weir_answer a;

        assert_int_equal(weir_check(w, &r, &a, NULL), WEIR_EATTRIBUTE);
        assert_int_equal(a.err, WEIR_EATTRIBUTE);
        assert_false(a.allowed);
        assert_true(check(w, 0, "window key=ann").allowed == (i < 3));
    }
    weir_close(w);
}

static void a_bare_key_is_asked_of_the_policies_in_force(void **state)
{
    struct policy_file f;
    weir *w = open_file(&f, POLICIES("  p: {limit: 5 per 1m, by: user}\n"));
    weir_answer a;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(check(w, 0, "p key=u").remaining, 4 - i);
    write_policies(&f, POLICIES("  p: {limit: 10 per 1m, by: user}\n"));
    reload(w);
    for (int i = 0; i < 2; i++)
        assert_int_equal(check(w, 0, "p key=u").remaining, 7 - i);
    write_policies(&f, POLICIES("  p: {limit: 10 per 1m, by: [user, ip]}\n"));
    reload(w);
    assert_int_equal(weir_check(w, &(weir_request){ .policy = "p", .key = "u" }, &a, NULL),
                     WEIR_EREQUEST);
    write_policies(&f, POLICIES("  q: {limit: 10 per 1m, by: user}\n"));
    reload(w);
    assert_int_equal(weir_check(w, &(weir_request){ .policy = "p", .key = "u" }, &a, NULL),
                     WEIR_ENOPOLICY);
    close_file(&f, w);
}

/* ---- names ------------------------------------------------------------------------------ */

static void everything_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(weir_version(), "0.1.0");
    assert_string_equal(weir_err_name(WEIR_ENOPOLICY), "WEIR_ENOPOLICY");
    assert_string_equal(weir_err_text(WEIR_OK), "success");
    assert_string_equal(weir_err_name((weir_err)99), "WEIR_UNKNOWN");
    assert_string_equal(weir_err_text((weir_err)99), "an unknown error");
    assert_string_equal(weir_source_name(WEIR_FROM_FALLBACK), "fallback");
    assert_string_equal(weir_source_name(WEIR_FROM_OFF), "off");
    assert_string_equal(weir_source_name((weir_source)99), "unknown");
    assert_string_equal(weir_algorithm_name(WEIR_DEFAULT_ALGORITHM), "sliding_window");
    assert_string_equal(weir_algorithm_name(WEIR_LEAKY_BUCKET), "leaky_bucket");
    assert_string_equal(weir_algorithm_name((weir_algorithm)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reload_keeps_what_is_counted_unless_algorithm_window_or_amount_change),
        cmocka_unit_test(a_reload_that_moves_adds_or_removes_rules_keeps_what_the_others_count),
        cmocka_unit_test(a_failed_reload_keeps_the_old_policies_and_reports_all_problems),
        cmocka_unit_test(names_in_answers_live_until_the_handle_is_closed),
        cmocka_unit_test_setup_teardown(weir_enabled_false_allows_all_and_counts_nothing,
                                        clear_environment, clear_environment),
        cmocka_unit_test_setup_teardown(a_reload_reads_the_environment_again, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(operators_choose_policies_and_limits_by_the_environment,
                                        clear_environment, clear_environment),
        cmocka_unit_test_setup_teardown(the_environment_can_be_ignored, clear_environment,
                                        clear_environment),
        cmocka_unit_test(without_a_time_the_clock_of_the_handle_is_used),
        cmocka_unit_test(a_tick_drops_keys_that_are_back_to_untouched),
        cmocka_unit_test(a_full_table_evicts_the_least_consumed_and_counts_them),
        cmocka_unit_test(a_handle_without_options_works),
        cmocka_unit_test(a_secret_file_is_created_once_and_used_again),
        cmocka_unit_test(when_the_store_fails_on_error_decides),
        cmocka_unit_test(a_limit_given_in_a_request_is_denied_when_the_store_fails),
        cmocka_unit_test(a_shadow_that_cannot_be_counted_does_not_decide),
        cmocka_unit_test(a_bare_key_is_answered_as_one_with_a_cost_of_1),
        cmocka_unit_test(a_key_that_cannot_be_counted_is_refused_every_time),
        cmocka_unit_test(a_bare_key_is_asked_of_the_policies_in_force),
        cmocka_unit_test(everything_has_a_name),
    };

    return cmocka_run_group_tests_name("handle", tests, NULL, NULL);
}
