/* test_environment.c - what operators can override with variables. */
#include "support/loaded.h"

static const char policies[] = FILE_OF("  login: {limit: 5 per 15m, by: ip}\n"
                                       "  send-email: {limit: 5 per 1s, burst: 9, by: tenant,\n"
                                       "               algorithm: token_bucket}\n"
                                       "  cleanup:\n"
                                       "    rules:\n"
                                       "      global: {limit: 9 per 1s}\n"
                                       "      ip: {limit: 3 per 1s, by: ip}\n");

static void load_with(struct loaded *l, const char *const *environment)
{
    load_from(l, NULL, policies, environment, -1);
    if (l->err)
        fail_msg("%s", l->problems.lines.at);
}

static void a_limit_is_overridden_by_the_name_of_its_policy_and_rule(void **state)
{
    const char *environment[] = { "PATH=/bin",
                                  "WEIR_POLICY_LOGIN_LIMIT=100 per 1m",
                                  "WEIR_POLICY_SEND_EMAIL_LIMIT=2 per h",
                                  "WEIR_POLICY_CLEANUP_IP_LIMIT=0",
                                  "WEIR_POLICY_LOGIN_LIMIT=the first counts",
                                  NULL };
    const struct policy_rule *rule;
    struct loaded l;

    (void)state;
    load_with(&l, environment);
    rule = &find(&l, "login")->rules[0];
    assert_int_equal(rule->counted.rule.limit, 100);
    assert_int_equal(rule->counted.rule.window, 60000);
    assert_int_equal(rule->counted.rule.precision, 1000); /* derived from the new numbers */
    rule = &find(&l, "send-email")->rules[0];
    assert_int_equal(rule->counted.rule.limit, 2);
    assert_int_equal(rule->counted.rule.window, 3600000);
    assert_int_equal(rule->counted.rule.burst, 9); /* as the file says */
    assert_int_equal(find(&l, "cleanup")->rules[0].counted.rule.limit, 9);
    assert_int_equal(find(&l, "cleanup")->rules[1].counted.rule.limit, 0);
    unload(&l);
}

static void weir_enabled_turns_everything_off(void **state)
{
    static const struct {
        const char *set;
        bool enabled;
    } cases[] = {
        { "WEIR_ENABLED=false", false }, { "WEIR_ENABLED=0", false },
        { "WEIR_ENABLED=No", false },    { "WEIR_ENABLED=OFF", false },
        { "WEIR_ENABLED=true", true },   { "WEIR_ENABLED=1", true },
        { "WEIR_ENABLED=yes", true },    { "WEIR_ENABLED=on", true },
        { "WEIR_ENABLED=", true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *environment[] = { cases[i].set, NULL };
        struct loaded l;

        load_with(&l, environment);
        assert_int_equal(policies_enabled(l.set), cases[i].enabled);
        unload(&l);
    }
}

static void only_the_enabled_policies_are_on(void **state)
{
    const char *environment[] = { "WEIR_ENABLED_POLICIES= login ,send-email,", NULL };
    const char *empty[] = { "WEIR_ENABLED_POLICIES=", NULL };
    struct loaded l;

    (void)state;
    load_with(&l, environment);
    assert_int_equal(find(&l, "login")->mode, MODE_ENFORCE);
    assert_int_equal(find(&l, "send-email")->mode, MODE_ENFORCE);
    assert_int_equal(find(&l, "cleanup")->mode, MODE_OFF);
    assert_int_equal(find(&l, "cleanup")->rules[1].mode, MODE_OFF);
    unload(&l);
    load_with(&l, empty);
    assert_int_equal(find(&l, "cleanup")->mode, MODE_ENFORCE);
    unload(&l);
}

static void a_variable_that_has_no_effect_is_a_problem(void **state)
{
    const char *environment[] = { "WEIR_ENABLED=maybe",
                                  "WEIR_ENABLED_POLICIES=logn,nothing-like-it",
                                  "WEIR_POLICY_LOGEN_LIMIT=5 per 1s",
                                  "WEIR_POLICY_CLEANUP_LIMIT=5 per 1s",
                                  "WEIR_POLICY_QQQQQQ_LIMIT=5 per 1s",
                                  "WEIR_POLICY_LIMIT=5 per 1s",
                                  "WEIR_POLICY_SEND_EMAIL_LIMIT=5/s",
                                  "WEIR_POLICY_CLEANUP_IP_LIMIT=999999999 per 14892811w",
                                  "WEIR_POLICY_FILE=is not ours",
                                  NULL };

    (void)state;
    expect_problems(
        policies, environment,
        "environment: WEIR_POLICY_SEND_EMAIL_LIMIT: '5/s' is not a limit: write a whole number per "
        "duration, as in 5 per 15m, of what runs at once, as in 10 at once, or 0 to always deny\n"
        "environment: WEIR_POLICY_CLEANUP_IP_LIMIT: the window and its "
        "precision must be below 2^53 ms together, not 9007172092800000 and 150119534880000\n"
        "environment: WEIR_ENABLED: 'maybe' is neither true nor false (nor 1, 0, yes, no, on, "
        "off)\n"
        "environment: WEIR_ENABLED_POLICIES: there is no policy 'logn': did you mean 'login'?\n"
        "environment: WEIR_ENABLED_POLICIES: there is no policy 'nothing-like-it'\n"
        "environment: WEIR_POLICY_LOGEN_LIMIT: no policy has this name: did you mean "
        "WEIR_POLICY_LOGIN_LIMIT?\n"
        "environment: WEIR_POLICY_CLEANUP_LIMIT: policy 'cleanup' has rules: name one of them, as "
        "in WEIR_POLICY_CLEANUP_GLOBAL_LIMIT\n"
        "environment: WEIR_POLICY_QQQQQQ_LIMIT: no policy has this name: it would be "
        "WEIR_POLICY_<POLICY>_LIMIT, or WEIR_POLICY_<POLICY>_<RULE>_LIMIT for one with rules\n"
        "environment: WEIR_POLICY_LIMIT: no policy has this name: it would be "
        "WEIR_POLICY_<POLICY>_LIMIT, or WEIR_POLICY_<POLICY>_<RULE>_LIMIT for one with rules\n");
}

static void a_variable_that_could_mean_two_rules_is_a_problem(void **state)
{
    const char *environment[] = { "WEIR_POLICY_A_B_LIMIT=5 per 1s", NULL };

    (void)state;
    expect_problems(FILE_OF("  a-b: {limit: 1 per 1s}\n"
                            "  a: {rules: {b: {limit: 1 per 1s}}}\n"),
                    environment,
                    "environment: WEIR_POLICY_A_B_LIMIT: this could mean a-b or a's rule b: rename "
                    "one of them\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_overridden_by_the_name_of_its_policy_and_rule),
        cmocka_unit_test(weir_enabled_turns_everything_off),
        cmocka_unit_test(only_the_enabled_policies_are_on),
        cmocka_unit_test(a_variable_that_has_no_effect_is_a_problem),
        cmocka_unit_test(a_variable_that_could_mean_two_rules_is_a_problem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
