/* test_check_query.c - a check as the query of a URL says it. */
#include "support/unit.h"

#include "server/http/check_query.h"

static struct parsed_request asked;
static weir_diag diag;

static weir_err read_with(const char *query, const struct query_own *own)
{
    static char bytes[4096];

    snprintf(bytes, sizeof bytes, "%s", query);
    diag.text[0] = '\0';
    return check_query_read(span_of(bytes), own, &asked, &diag);
}

static void reads(const char *query)
{
    if (read_with(query, NULL))
        fail_msg("%s: %s", query, diag.text);
}

static void refuses(const char *query, weir_err err, const char *why)
{
    assert_int_equal(read_with(query, NULL), err);
    assert_string_equal(diag.text, why);
}

static void every_field_of_a_request_can_be_set(void **state)
{
    const weir_request *r = &asked.request;

    (void)state;
    reads("policy=api&tenant=a%26b&route=%2Fv1+x&plan=paid&cost=3&peek=true&exempt=1&now=17");
    assert_string_equal(r->policy, "api");
    assert_string_equal(r->plan, "paid");
    assert_int_equal(r->cost, 3);
    assert_int_equal(r->now, 17);
    assert_true(asked.peek && r->exempt);
    assert_int_equal(r->attribute_count, 2);
    assert_ptr_equal(r->attributes, asked.attributes);
    assert_string_equal(asked.attributes[0].name, "tenant");
    assert_string_equal(asked.attributes[0].value, "a&b");
    assert_string_equal(asked.attributes[1].value, "/v1 x");
    assert_int_equal(asked.attributes[1].value_len, 5);

    reads("key=k&limit=10&window_ms=1000&start=first&block_for_ms=900000");
    assert_int_equal(r->start, WEIR_START_FIRST);
    assert_int_equal(r->block_for_ms, 900000);

    reads("key=k&limit=10&window_ms=1000&algorithm=leaky_bucket&burst=20&precision_ms=5");
    assert_string_equal(r->key, "k");
    assert_int_equal(r->limit, 10);
    assert_int_equal(r->window_ms, 1000);
    assert_int_equal(r->algorithm, WEIR_LEAKY_BUCKET);
    assert_int_equal(r->burst, 20);
    assert_int_equal(r->precision_ms, 5);
    assert_null(r->policy);
    assert_int_equal(r->attribute_count, 0);
    assert_false(asked.peek || r->exempt);
}

static void a_limit_may_have_a_name_and_an_on_error(void **state)
{
    const weir_request *r = &asked.request;

    (void)state;
    reads("key=k&limit=10&window_ms=1000&name=login&on_error=deny");
    assert_string_equal(r->name, "login");
    assert_int_equal(r->on_error, WEIR_ON_ERROR_DENY);
    reads("on_error=allow");
    assert_int_equal(r->on_error, WEIR_ON_ERROR_ALLOW);
    reads("on_error=local");
    assert_int_equal(r->on_error, WEIR_ON_ERROR_LOCAL);
    refuses("on_error=no", WEIR_EREQUEST, "on_error must be local, allow or deny");
    refuses("name=a&name=b", WEIR_EREQUEST, "name is given twice");
}

static void several_policies_are_a_list(void **state)
{
    const weir_request *r = &asked.request;
    char many[16 * WEIR_MAX_RULES] = "policy=p";

    (void)state;
    reads("policy=login&ip=::1&policy=site");
    assert_null(r->policy);
    assert_int_equal(r->policy_count, 2);
    assert_string_equal(r->policies[0], "login");
    assert_string_equal(r->policies[1], "site");
    assert_int_equal(r->attribute_count, 1);
    for (int i = 1; i < WEIR_MAX_RULES; i++)
        strcat(many, "&policy=p");
    reads(many);
    assert_int_equal(r->policy_count, WEIR_MAX_RULES);
    strcat(many, "&policy=p");
    refuses(many, WEIR_EREQUEST, "there are more than 16 policies");
}

static void missing_fields_have_defaults(void **state)
{
    (void)state;
    reads("");
    assert_null(asked.request.policy);
    assert_int_equal(asked.request.cost, 0);
    reads("&&policy=x&");
    assert_string_equal(asked.request.policy, "x");
    reads("peek&exempt=false");
    assert_true(asked.peek);
    assert_false(asked.request.exempt);
}

static void a_cost_of_zero_is_not_the_default(void **state)
{
    (void)state;
    reads("policy=x&cost=0");
    assert_true(asked.request.cost == WEIR_COST_ZERO);
    refuses("policy=x&cost=-9223372036854775808", WEIR_ECOST, "cost must be from 0 to 2^53");
}

static void numbers_are_whole_and_fit(void **state)
{
    static const char *const bad[] = { "",    "-",    "1.5",  "1e3",
                                       " 1",  "0x10", "--1",  "9223372036854775808",
                                       "1\n", "+1",   "ten%", "-9223372036854775809" };
    int64_t n;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(check_query_int("limit", span_of(bad[i]), &n, &diag), WEIR_EREQUEST);
        assert_string_equal(diag.text, "limit must be a whole number");
    }
    assert_int_equal(check_query_int("n", span_of("9223372036854775807"), &n, &diag), WEIR_OK);
    assert_true(n == INT64_MAX);
    assert_int_equal(check_query_int("n", span_of("-9223372036854775808"), &n, &diag), WEIR_OK);
    assert_true(n == INT64_MIN);
    assert_int_equal(check_query_int("n", span_of("-007"), &n, &diag), WEIR_OK);
    assert_true(n == -7);
}

static void meaningless_requests_are_rejected(void **state)
{
    (void)state;
    refuses("plan=a&plan=b", WEIR_EREQUEST, "plan is given twice");
    refuses("=x", WEIR_EREQUEST, "the query has a value without a name");
    refuses("peek=yes", WEIR_EREQUEST, "peek must be true or false");
    refuses("algorithm=gcra", WEIR_EREQUEST,
            "there is no algorithm 'gcra': it is one of fixed_window, sliding_window, "
            "sliding_counter, token_bucket, leaky_bucket, concurrency");
    refuses("ip=%4", WEIR_EREQUEST, "the query has a % without two hex digits after it, or %00");
    refuses("ip=%00", WEIR_EREQUEST, "the query has a % without two hex digits after it, or %00");
    reads("a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1&l=1&m=1&n=1&o=1&p=1");
    refuses("a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1&l=1&m=1&n=1&o=1&p=1&q=1", WEIR_EREQUEST,
            "there are more than 16 attributes");
}

static bool take_colour(void *ctx, struct parsed_request *out, struct span name, struct span value,
                        weir_err *err, weir_diag *why)
{
    if (!span_is(name, "colour"))
        return false;
    *(struct span *)ctx = value;
    *err = span_is(value, "none") ? WEIR_EATTRIBUTE : WEIR_OK;
    (void)out;
    (void)why;
    return true;
}

static void a_route_may_have_names_of_its_own(void **state)
{
    struct span colour;
    const struct query_own own = { take_colour, &colour };

    (void)state;
    assert_int_equal(read_with("user=a&colour=light+blue&policy=x", &own), WEIR_OK);
    assert_true(span_is(colour, "light blue"));
    assert_int_equal(asked.request.attribute_count, 1);
    assert_string_equal(asked.request.policy, "x");
    assert_int_equal(read_with("colour=none&policy=x", &own), WEIR_EATTRIBUTE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_a_request_can_be_set),
        cmocka_unit_test(a_limit_may_have_a_name_and_an_on_error),
        cmocka_unit_test(several_policies_are_a_list),
        cmocka_unit_test(missing_fields_have_defaults),
        cmocka_unit_test(a_cost_of_zero_is_not_the_default),
        cmocka_unit_test(numbers_are_whole_and_fit),
        cmocka_unit_test(meaningless_requests_are_rejected),
        cmocka_unit_test(a_route_may_have_names_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
