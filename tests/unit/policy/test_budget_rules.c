/* test_budget_rules.c - how the policy file says where windows begin and end, and lockouts. */
#include "support/loaded.h"

#include <stdlib.h>

#include "limit/calendar.h"

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
    assert_true(r->plans[0].counted.own_bits == r->counted.own_bits);
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

static void limits_of_the_calendar_are_fixed_windows(void **state)
{
    struct loaded l;
    const struct policy_rule *r;

    (void)state;
    load(&l, FILE_OF("  a: {limit: 1000000000000 per month, zone: Europe/Berlin, month_day: 15,\n"
                     "      by: ip, plans: {paid: 9 per day, other: 3 per 1h}}\n"));
    r = &find(&l, "a")->rules[0];
    assert_int_equal(r->counted.rule.algorithm, WEIR_FIXED_WINDOW);
    assert_int_equal(r->counted.rule.start, START_CALENDAR);
    assert_int_equal(r->counted.rule.limit, 1000000000000);
    assert_int_equal(r->counted.rule.calendar->period, PERIOD_MONTH);
    assert_int_equal(r->counted.rule.calendar->month_day, 15);
    assert_string_equal(r->counted.rule.calendar->zone_name, "Europe/Berlin");
    assert_int_equal(r->plans[0].counted.rule.calendar->period, PERIOD_DAY);
    assert_int_equal(r->plans[1].counted.rule.algorithm, WEIR_SLIDING_WINDOW);
    assert_int_equal(r->plans[1].counted.rule.start, START_EPOCH);
    unload(&l);
}

static void a_wrong_zone_or_day_is_rejected_with_its_place(void **state)
{
    (void)state;
    expect_problems(
        FILE_OF("  a: {limit: 5 per month, zone: Europe/Berlyn}\n"
                "  b: {limit: 5 per day, zone: ../etc/passwd}\n"
                "  c: {limit: 5 per month, month_day: 32}\n"
                "  d: {limit: 5 per day, month_day: 3}\n"
                "  e: {limit: 5 per 1d, zone: UTC}\n"
                "  f: {limit: 5 per day, algorithm: token_bucket}\n"),
        NULL,
        HERE "3:33: there is no time zone 'Europe/Berlyn': write one such as Europe/Berlin, or "
             "UTC\n" HERE
             "4:31: there is no time zone '../etc/passwd': write one such as Europe/Berlin, or "
             "UTC\n" HERE "5:38: month_day must be a whole number from 1 to 31, not '32'\n" HERE
             "6:25: month_day is for limits per month, quarter or year: leave it out\n" HERE
             "7:24: zone is for limits per day, week, month, quarter or year: leave it out\n" HERE
             "8:14: token_bucket has no windows of the calendar: only fixed_window does\n");
}

static void without_zone_data_utc_is_known_and_the_rest_says_what_to_install(void **state)
{
    struct loaded l;

    (void)state;
    setenv("TZDIR", "/nowhere", 1);
    load(&l, FILE_OF("  a: {limit: 5 per month}\n"));
    unload(&l);
    expect_problems(FILE_OF("  a: {limit: 5 per month, zone: Europe/Berlin}\n"), NULL,
                    HERE "3:33: there is no zone data in /nowhere, only UTC is known: install the "
                         "package tzdata\n");
    unsetenv("TZDIR");
}

static void the_environment_may_set_limits_of_the_calendar(void **state)
{
    const char *const environment[] = { "WEIR_POLICY_A_LIMIT=10 per month",
                                        "WEIR_POLICY_B_LIMIT=20 per week",
                                        "WEIR_POLICY_C_LIMIT=30 per 1h", NULL };
    const char *const wrong[] = { "WEIR_POLICY_A_LIMIT=10 per month", NULL };
    const struct rule *r;
    struct loaded l;

    (void)state;
    load_from(&l, NULL,
              FILE_OF("  a: {limit: 5 per 1h, by: ip, plans: {paid: 9 per 1h}}\n"
                      "  b: {limit: 5 per month, by: ip, zone: Europe/Berlin, month_day: 15}\n"
                      "  c: {limit: 5 per day, by: ip, zone: Europe/Berlin}\n"),
              environment, -1);
    assert_int_equal(l.err, WEIR_OK);
    r = &find(&l, "a")->rules[0].counted.rule;
    assert_true(r->limit == 10 && r->start == START_CALENDAR && r->algorithm == WEIR_FIXED_WINDOW &&
                r->calendar->period == PERIOD_MONTH);
    assert_string_equal(r->calendar->zone_name, "UTC");
    assert_int_equal(find(&l, "a")->rules[0].plans[0].counted.rule.start, START_EPOCH);
    r = &find(&l, "b")->rules[0].counted.rule;
    assert_true(r->limit == 20 && r->calendar->period == PERIOD_WEEK);
    assert_string_equal(r->calendar->zone_name, "Europe/Berlin");
    r = &find(&l, "c")->rules[0].counted.rule;
    assert_true(r->limit == 30 && r->start == START_EPOCH && r->window == 3600000 && !r->calendar);
    unload(&l);
    expect_problems(FILE_OF("  a: {limit: 5 per 1h, algorithm: token_bucket}\n"), wrong,
                    "environment: WEIR_POLICY_A_LIMIT: token_bucket has no windows of the "
                    "calendar: only fixed_window does\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_can_begin_with_the_first_request),
        cmocka_unit_test(a_start_is_for_fixed_windows_alone),
        cmocka_unit_test(a_lockout_is_a_duration_that_plans_have_too),
        cmocka_unit_test(limits_of_the_calendar_are_fixed_windows),
        cmocka_unit_test(a_wrong_zone_or_day_is_rejected_with_its_place),
        cmocka_unit_test(without_zone_data_utc_is_known_and_the_rest_says_what_to_install),
        cmocka_unit_test(the_environment_may_set_limits_of_the_calendar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
