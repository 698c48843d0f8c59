/* test_mapping.c - which policy a request of a log is for, and with which attributes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "replay/judge.h"
#include "replay/mapping.h"
#include "replay/pattern.h"

static void patterns_match_paths_by_segments(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool in_path, elsewhere;
    } cases[] = {
        { "/a", "/a", true, true },
        { "/a", "/ab", false, false },
        { "/*", "/ab", true, true },
        { "/*", "/a/b", false, true },
        { "/**", "/a/b", true, true },
        { "/*/c", "/a/c", true, true },
        { "/*/c", "/a/b/c", false, true },
        { "/**/c", "/a/b/c", true, true },
        { "/**/*.js", "/a/b.js", true, true },
        { "/**/x/*.js", "/a/x/b/x/c.js", true, true },
        { "/**/x/*.js", "/a/x/b/c.js", false, true },
        { "*", "", true, true },
        { "", "", true, true },
        { "a*b*c", "aXbYbZc", true, true },
        { "a*b*c", "aXbYbZ", false, false },
        { "**", "/", true, true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct span pattern = span_of(cases[i].pattern), text = span_of(cases[i].text);

        if (pattern_matches(pattern, text, true) != cases[i].in_path ||
            pattern_matches(pattern, text, false) != cases[i].elsewhere)
            fail_msg("%s, %s", cases[i].pattern, cases[i].text);
    }
}

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  login: {limit: 5 per 1m, by: ip}\n"
                               "  api: {limit: 9 per 1m, by: [tenant, user]}\n"
                               "  all: {limit: 9 per 1m}\n";

static struct judge *judge;
static struct mapping *mapping;
static struct mapped mapped;
static struct record record;

static void begin(const char *text, const char *const *lines)
{
    static const struct secret secret;
    weir_diag diag;

    assert_int_equal(judge_open(&judge,
                                &(struct judge_options){ .policy_text = text, .secret = &secret },
                                &diag),
                     WEIR_OK);
    mapping = mapping_new();
    for (; *lines; lines++)
        if (mapping_add(mapping, span_of(*lines), &diag))
            fail_msg("%s: %s", *lines, diag.text);
    if (mapping_complete(mapping, judge->policies, &diag))
        fail_msg("%s", diag.text);
}

static void end(void)
{
    mapping_free(mapping);
    judge_close(judge);
}

static void set(const char *field, const char *value)
{
    const int at = field_list_find(&mapping->fields, span_of(field));

    assert_true(at >= 0);
    record.fields[at] = span_of(value);
}

static void request(const char *method, const char *path, const char *status)
{
    record = (struct record){ .time = 1 };
    set("method", method);
    set("path", path);
    set("status", status);
}

static void is_for(const char *policy)
{
    const enum mapped_as as = mapping_apply(mapping, &record, &mapped);

    if (!policy) {
        assert_int_equal(as, MAPPED_TO_NONE);
        return;
    }
    assert_int_equal(as, MAPPED);
    assert_string_equal(mapped.request.policy, policy);
}

static void has(size_t i, const char *name, const char *value)
{
    assert_true(i < mapped.request.attribute_count);
    assert_string_equal(mapped.attributes[i].name, name);
    assert_true(span_is((struct span){ mapped.attributes[i].value, mapped.attributes[i].value_len },
                        value));
}

static void the_first_line_whose_conditions_hold_is_taken(void **state)
{
    static const char *const lines[] = {
        "POST,PUT /login status<500 => login",
        "agent=\"*bot *\" => all",
        "/api/** status!=404 host=a.example,b.example => api tenant=header.x-tenant user='const'",
        NULL,
    };

    (void)state;
    begin(policies, lines);
    request("POST", "/login", "499");
    set("ip", "192.0.2.1");
    is_for("login");
    has(0, "ip", "192.0.2.1");
    assert_int_equal(mapped.request.cost, 0); /* that is 1 */
    request("POST", "/login", "500");
    is_for(NULL);
    request("GET", "/login", "200");
    is_for(NULL);
    request("GET", "/api/x/y", "200");
    is_for(NULL);
    set("host", "b.example");
    set("header.x-tenant", "acme");
    is_for("api");
    has(0, "tenant", "acme");
    has(1, "user", "const");
    set("agent", "a bot 2");
    is_for("all");
    request("GET", "/api/x/y", "404");
    set("host", "a.example");
    is_for(NULL);
    end();
}

static void a_cost_comes_from_a_field_and_is_rounded_up(void **state)
{
    static const char *const lines[] = { "* => all cost=bytes/1024", NULL };

    (void)state;
    begin(policies, lines);
    mapping->skip_status = 400;
    field_list_want(&mapping->fields, "status");
    record = (struct record){ .time = 1 };
    set("bytes", "1025");
    is_for("all");
    assert_int_equal(mapped.request.cost, 2);
    set("bytes", "0");
    is_for("all");
    assert_true(mapped.request.cost == WEIR_COST_ZERO);
    set("bytes", "1024.5");
    is_for("all");
    assert_int_equal(mapped.request.cost, 2);
    set("bytes", "many");
    assert_int_equal(mapping_apply(mapping, &record, &mapped), MAPPED_BADLY);
    set("bytes", "99999999999999999999");
    assert_int_equal(mapping_apply(mapping, &record, &mapped), MAPPED_BADLY);
    set("status", "404");
    assert_int_equal(mapping_apply(mapping, &record, &mapped), MAPPED_SKIPPED);
    end();
}

static void without_lines_all_is_for_the_one_policy(void **state)
{
    static const char *const none[] = { NULL };

    (void)state;
    begin("version: 1\npolicies: {only: {limit: 1 per 1s, by: user}}\n", none);
    record = (struct record){ .time = 1 };
    set("user", "bob");
    is_for("only");
    has(0, "user", "bob");
    end();
}

static void several_policies_are_asked_together(void **state)
{
    static const char *const lines[] = { "=> login,all plan=free", NULL };

    (void)state;
    begin(policies, lines);
    record = (struct record){ .time = 1 };
    set("ip", "192.0.2.1");
    assert_int_equal(mapping_apply(mapping, &record, &mapped), MAPPED);
    assert_null(mapped.request.policy);
    assert_int_equal(mapped.request.policy_count, 2);
    assert_string_equal(mapped.request.plan, "free");
    assert_int_equal(judge_prepare(judge, 0, &mapped.request, NULL), WEIR_OK);
    end();
}

static void what_is_no_line_is_told(void **state)
{
    static const char *const cases[][2] = {
        { "POST /login login", "'login' is no method, path or comparison" },
        { "POST /login -> login", "write '=>' before the policy, not '->'" },
        { "POST /login =>", "the policy is missing" },
        { "", "the policy is missing" },
        { "status<many => all", "'many' is not a whole number" },
        { "status< => all", "a whole number of at least 0 is missing" },
        { "=1 => all", "the name of a field is missing" },
        { "=> all cost=bytes/0", "a whole number of at least 1 is missing" },
        { "=> all ip", "'ip' is not of the form attribute=field" },
        { "=> all ip=a ip=b", "attribute 'ip' is given twice" },
        { "=> a!l", "'a!l' is no name of a policy" },
        { "A A A A A A A A A => all", "more than 8 conditions" },
    };

    (void)state;
    mapping = mapping_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_diag diag = { "" };

        assert_int_equal(mapping_add(mapping, span_of(cases[i][0]), &diag), WEIR_EOPTION);
        if (!strstr(diag.text, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], diag.text);
    }
    assert_int_equal(mapping->count, 0);
    mapping_free(mapping);
}

static void refuses(const char *text, const char *why)
{
    weir_diag diag = { "" };

    assert_int_equal(mapping_add(mapping, span_of(text), &diag), WEIR_EOPTION);
    if (!strstr(diag.text, why))
        fail_msg("%s: %s", text, diag.text);
}

static void a_mapping_is_bounded(void **state)
{
    char text[MAPPING_MOST_TEXT + 2];
    weir_diag diag;

    (void)state;
    mapping = mapping_new();
    snprintf(text, sizeof text, "%*s", MAPPING_MOST_TEXT, "=> all");
    assert_int_equal(mapping_add(mapping, span_of(text), &diag), WEIR_OK);
    snprintf(text, sizeof text, "%*s", MAPPING_MOST_TEXT + 1, "=> all");
    refuses(text, "a line has more than 1024 bytes");
    assert_int_equal(
        mapping_add(mapping, span_of("=> all cost=bytes cost.a=a cost.b=b cost.c=c"), &diag),
        WEIR_OK);
    refuses("=> all cost=bytes cost.a=a cost.b=b cost.c=c cost.d=d", "more than 4 ");
    for (size_t i = mapping->fields.extra_count; i < RECORD_MOST_EXTRA; i++) {
        snprintf(text, sizeof text, "field%zu=1 => all", i);
        assert_int_equal(mapping_add(mapping, span_of(text), &diag), WEIR_OK);
    }
    refuses("another=1 => all", "too many fields: at most 20");
    while (mapping->count < MAPPING_MOST_LINES)
        assert_int_equal(mapping_add(mapping, span_of("=> all"), &diag), WEIR_OK);
    refuses("=> all", "there are more than 256 lines");
    mapping_free(mapping);
}

static void a_policy_that_there_is_not_is_told(void **state)
{
    static const struct secret secret;
    weir_diag diag;

    (void)state;
    assert_int_equal(
        judge_open(&judge, &(struct judge_options){ .policy_text = policies, .secret = &secret },
                   &diag),
        WEIR_OK);
    mapping = mapping_new();
    assert_int_equal(mapping_complete(mapping, judge->policies, &diag), WEIR_EOPTION);
    assert_non_null(strstr(diag.text, "there are 3 policies: say which requests are for which"));
    assert_int_equal(mapping_add(mapping, span_of("=> logn"), &diag), WEIR_OK);
    assert_int_equal(mapping_complete(mapping, judge->policies, &diag), WEIR_ENOPOLICY);
    assert_non_null(strstr(diag.text, "did you mean 'login'?"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_paths_by_segments),
        cmocka_unit_test(the_first_line_whose_conditions_hold_is_taken),
        cmocka_unit_test(a_cost_comes_from_a_field_and_is_rounded_up),
        cmocka_unit_test(without_lines_all_is_for_the_one_policy),
        cmocka_unit_test(several_policies_are_asked_together),
        cmocka_unit_test(what_is_no_line_is_told),
        cmocka_unit_test(a_mapping_is_bounded),
        cmocka_unit_test(a_policy_that_there_is_not_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
