/* test_budget_rules.c - how the policy file says where windows begin, and lockouts. */
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

static void a_lockout_is_a_duration_that_plans_have_too(void **state)
{
    struct loaded l;
    const struct policy_rule *r;

    (void)state;
    load(&l, FILE_OF("  a: {limit: 5 per 1h, block_for: 15m, by: ip, plans: {paid: 9 per 1h}}\n"
                     "  b: {limit: 5 per 1h, by: ip}\n"));
    r = &find(&l, "a")->rules[0];
    assert_int_equal(r->counted.rule.block_for, 900000);
    assert_int_equal(r->plans[0].counted.rule.block_for, 900000);
    assert_int_equal(find(&l, "b")->rules[0].counted.rule.block_for, 0);
    unload(&l);
    expect_problems(FILE_OF("  a: {limit: 5 per 1h, block_for: soon}\n"
                            "  b: {limit: 5 per 1h, block_for: 60000d}\n"),
                    NULL,
                    HERE "3:35: 'soon' is not a duration: write a whole number and one of ms, s, "
                         "m, h, d, w, as in 15m\n" HERE
                         "4:35: block_for must be from 1 ms to 4398046511104 ms, not "
                         "5184000000000\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_can_begin_with_the_first_request),
        cmocka_unit_test(a_start_is_for_fixed_windows_alone),
        cmocka_unit_test(a_lockout_is_a_duration_that_plans_have_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
