/* test_budget_rules.c - how the policy file says where windows begin. */
#include "support/loaded.h"

#define HERE "policy_text:"

static void a_window_can_begin_with_the_first_request(void **state)
{
    struct loaded l;
    const struct policy_rule *r;

    (void)state;
    load(&l, FILE_OF("  a: {limit: 5 per 1h, algorithm: fixed_window, start: first, by: ip,\n"
                     "      plans: {paid: 9 per 1h}, shadow_limit: 3 per 1h}\n"
                     "  b: {limit: 5 per 1h, algorithm: fixed_window, start: epoch}\n"));
    r = &find(&l, "a")->rules[0];
    assert_int_equal(r->counted.rule.start, START_FIRST);
    assert_int_equal(r->plans[0].counted.rule.start, START_FIRST);
    assert_memory_equal(&r->plans[0].counted.hash_key, &r->counted.hash_key,
                        sizeof r->counted.hash_key);
    assert_int_equal(r->shadow_limit->rule.start, START_FIRST);
    assert_int_equal(find(&l, "b")->rules[0].counted.rule.start, START_EPOCH);
    unload(&l);
}

static void a_start_is_for_fixed_windows_alone(void **state)
{
    (void)state;
    expect_problems(FILE_OF("  a: {limit: 5 per 1h, start: first}\n"
                            "  b: {limit: 5 per 1h, algorithm: fixed_window, start: now}\n"),
                    NULL,
                    HERE "3:24: sliding_window has no start: only fixed_window does\n" HERE
                         "4:56: start 'now' is unknown: it is one of epoch, first\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_can_begin_with_the_first_request),
        cmocka_unit_test(a_start_is_for_fixed_windows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
