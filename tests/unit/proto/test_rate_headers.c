/* test_rate_headers.c - what clients are told about their limits. */
#include "support/unit.h"

#include "base/buf.h"
#include "proto/rate_headers.h"

/* After another answer, and after the same, which is known to be by the same rules or not. */
static void expect_after(const weir_answer *answer, int64_t now, const char *expected)
{
    static struct rate_headers_last last;
    static uint64_t kind;
    weir_allocator a = heap();
    struct buf out;

    kind++;
    for (int i = 0; i < 4; i++) {
        buf_init(&out, &a);
        rate_headers_write_after(&out, answer, i < 2 ? kind : 0, now, &last);
        assert_string_equal(buf_span(&out).at, expected);
        buf_done(&out);
    }
}

static void expect(const weir_answer *answer, const int64_t *windows, int64_t now,
                   const char *expected)
{
    weir_answer with_windows = *answer;
    weir_allocator a = heap();
    struct buf out;

    for (size_t i = 0; i < answer->rule_count; i++)
        with_windows.rules[i].window_ms = windows[i];
    buf_init(&out, &a);
    rate_headers_write(&out, &with_windows, now);
    assert_string_equal(buf_span(&out).at, expected);
    buf_done(&out);
    expect_after(&with_windows, now, expected);
}

static weir_answer one_rule(const char *policy)
{
    weir_answer a = { .allowed = true,
                      .policy = policy,
                      .rule = "default",
                      .limit = 5,
                      .remaining = 4,
                      .reset_after_ms = 60000,
                      .rule_count = 1 };

    a.rules[0] = (weir_rule_answer){ .policy = policy,
                                     .rule = "default",
                                     .limit = 5,
                                     .remaining = 4,
                                     .reset_after_ms = 60000,
                                     .allowed = true };
    return a;
}

static void one_rule_goes_by_the_name_of_its_policy(void **state)
{
    weir_answer a = one_rule("login");

    (void)state;
    expect(&a, (int64_t[]){ 900000 }, 1700000000000,
           "RateLimit-Policy: \"login\";q=5;w=900\r\n"
           "RateLimit: \"login\";r=4;t=60\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
           "X-RateLimit-Reset: 1700000060\r\n");
}

static void a_limit_without_a_policy_is_called_default(void **state)
{
    weir_answer a = one_rule(NULL);

    (void)state;
    expect(&a, (int64_t[]){ 60000 }, 0,
           "RateLimit-Policy: \"default\";q=5;w=60\r\n"
           "RateLimit: \"default\";r=4;t=60\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\nX-RateLimit-Reset: 60\r\n");
}

static void seconds_are_rounded_up(void **state)
{
    weir_answer a = one_rule("login");

    (void)state;
    a.reset_after_ms = 1;
    expect(&a, (int64_t[]){ 1 }, 1700000000999,
           "RateLimit-Policy: \"login\";q=5;w=1\r\n"
           "RateLimit: \"login\";r=4;t=1\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
           "X-RateLimit-Reset: 1700000001\r\n");
    a.reset_after_ms = 2000;
    expect(&a, (int64_t[]){ 1001 }, 1700000000001,
           "RateLimit-Policy: \"login\";q=5;w=2\r\n"
           "RateLimit: \"login\";r=4;t=2\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
           "X-RateLimit-Reset: 1700000003\r\n");
    a.reset_after_ms = 0;
    expect(&a, (int64_t[]){ 1000 }, 1700000000000,
           "RateLimit-Policy: \"login\";q=5;w=1\r\n"
           "RateLimit: \"login\";r=4;t=0\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
           "X-RateLimit-Reset: 1700000000\r\n");
}

static void a_denial_has_an_exact_retry_after(void **state)
{
    weir_answer a = one_rule("login");

    (void)state;
    a.allowed = a.rules[0].allowed = false;
    a.remaining = 0;
    a.retry_after_ms = 12001;
    expect(&a, (int64_t[]){ 60000 }, 1700000000000,
           "RateLimit-Policy: \"login\";q=5;w=60\r\n"
           "RateLimit: \"login\";r=0;t=13\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 0\r\n"
           "X-RateLimit-Reset: 1700000060\r\nRetry-After: 13\r\n");
}

static void waiting_that_never_helps_is_not_promised(void **state)
{
    weir_answer a = one_rule("login");

    (void)state;
    a.allowed = a.rules[0].allowed = false;
    a.retry_after_ms = WEIR_NEVER;
    expect(&a, (int64_t[]){ 60000 }, 1700000000000,
           "RateLimit-Policy: \"login\";q=5;w=60\r\n"
           "RateLimit: \"login\";r=4;t=60\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
           "X-RateLimit-Reset: 1700000060\r\n");
    a.limit = a.rules[0].limit = a.remaining = a.reset_after_ms = 0; /* limit: 0 */
    expect(&a, (int64_t[]){ 0 }, 1700000000000,
           "RateLimit-Policy: \"login\";q=0\r\n"
           "RateLimit: \"login\";r=0;t=0\r\n"
           "X-RateLimit-Limit: 0\r\nX-RateLimit-Remaining: 0\r\n"
           "X-RateLimit-Reset: 1700000000\r\n");
}

static void several_rules_are_listed_and_shadows_are_not(void **state)
{
    weir_answer a = { .allowed = false,
                      .policy = "cleanup",
                      .rule = "ip",
                      .limit = 5,
                      .retry_after_ms = 59000,
                      .reset_after_ms = 60000,
                      .rule_count = 3 };

    (void)state;
    a.rules[0] = (weir_rule_answer){
        .policy = a.policy, .rule = "global", .limit = 1000, .allowed = true
    };
    a.rules[1] = (weir_rule_answer){
        .policy = a.policy, .rule = "trial", .limit = 1, .shadow = true
    };
    a.rules[2] = (weir_rule_answer){ .policy = a.policy, .rule = "ip", .limit = 5 };
    expect(&a, (int64_t[]){ 60000, 1000, 3600000 }, 1700000000000,
           "RateLimit-Policy: \"cleanup.global\";q=1000;w=60, \"cleanup.ip\";q=5;w=3600\r\n"
           "RateLimit: \"cleanup.ip\";r=0;t=59\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 0\r\n"
           "X-RateLimit-Reset: 1700000060\r\nRetry-After: 59\r\n");
}

/* Of answers that are known to be by the same rules. */
static void another_rule_may_decide_each_time(void **state)
{
    struct rate_headers_last last = { 0 };
    weir_answer answer = one_rule("api");
    weir_allocator a = heap();
    struct buf out;

    (void)state;
    answer.rules[1] = answer.rules[0];
    answer.rules[1].rule = "other";
    answer.rule_count = 2;
    for (int i = 0; i < 6; i++) {
        answer.rule = answer.rules[i / 2 % 2].rule;
        buf_init(&out, &a);
        rate_headers_write_after(&out, &answer, 7, 0, &last);
        assert_non_null(strstr(buf_span(&out).at, i / 2 % 2 ? "RateLimit: \"api.other\";"
                                                            : "RateLimit: \"api.default\";"));
        buf_done(&out);
    }
}

static void several_policies_are_listed_each_by_its_name(void **state)
{
    weir_answer a = one_rule("login");

    (void)state;
    a.rule_count = 2;
    a.rules[1] = (weir_rule_answer){
        .policy = "site", .rule = "default", .limit = 10, .remaining = 9, .allowed = true
    };
    expect(&a, (int64_t[]){ 900000, 1000 }, 1700000000000,
           "RateLimit-Policy: \"login\";q=5;w=900, \"site\";q=10;w=1\r\n"
           "RateLimit: \"login\";r=4;t=60\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
           "X-RateLimit-Reset: 1700000060\r\n");
    a.rule_count = 3;
    a.rules[2] = (weir_rule_answer){
        .policy = a.rules[1].policy, .rule = "ip", .limit = 20, .allowed = true
    };
    a.policy = a.rules[1].policy;
    expect(&a, (int64_t[]){ 900000, 1000, 2000 }, 1700000000000,
           "RateLimit-Policy: \"login\";q=5;w=900, \"site.default\";q=10;w=1, "
           "\"site.ip\";q=20;w=2\r\n"
           "RateLimit: \"site.default\";r=4;t=60\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
           "X-RateLimit-Reset: 1700000060\r\n");
}

static void checks_that_are_not_counted_are_not_reported(void **state)
{
    weir_answer a = { .allowed = true, .policy = "login", .rule = "default", .limit = 5 };

    (void)state;
    a.source = WEIR_FROM_EXEMPT;
    expect(&a, NULL, 1700000000000, "");
    a.source = WEIR_FROM_FALLBACK; /* on_error: deny */
    a.allowed = false;
    a.retry_after_ms = 1000;
    expect(&a, NULL, 1700000000000, "Retry-After: 1\r\n");

    a = one_rule("login");
    a.rules[0].shadow = true;
    expect(&a, (int64_t[]){ 60000 }, 1700000000000, "");
}

static void names_and_numbers_stay_within_structured_fields(void **state)
{
    weir_answer a = one_rule("a\"b\\c\r\n\xc3\xa4");

    (void)state;
    a.rules[0].limit = WEIR_MAX_AMOUNT;
    a.remaining = -1;
    expect(&a, (int64_t[]){ WEIR_MAX_AMOUNT }, 0,
           "RateLimit-Policy: \"a\\\"b\\\\c????\";q=999999999999999;w=9007199254741\r\n"
           "RateLimit: \"a\\\"b\\\\c????\";r=0;t=60\r\n"
           "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: -1\r\nX-RateLimit-Reset: 60\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rule_goes_by_the_name_of_its_policy),
        cmocka_unit_test(a_limit_without_a_policy_is_called_default),
        cmocka_unit_test(seconds_are_rounded_up),
        cmocka_unit_test(a_denial_has_an_exact_retry_after),
        cmocka_unit_test(waiting_that_never_helps_is_not_promised),
        cmocka_unit_test(several_rules_are_listed_and_shadows_are_not),
        cmocka_unit_test(another_rule_may_decide_each_time),
        cmocka_unit_test(several_policies_are_listed_each_by_its_name),
        cmocka_unit_test(checks_that_are_not_counted_are_not_reported),
        cmocka_unit_test(names_and_numbers_stay_within_structured_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
