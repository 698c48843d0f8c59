/* test_check_json.c - the body of a check: its meaning, invalid bodies, and that both parsers
 * agree. */
#include "support/unit.h"

#include <inttypes.h>

#include "base/buf.h"
#include "proto/check_json.h"
#include "proto/check_scan.h"

static void tell_text(struct buf *to, const char *name, const char *text, size_t len)
{
    if (!text)
        return;
    buf_printf(to, "%s=", name);
    buf_add(to, len ? (struct span){ text, len } : span_of(text));
    buf_byte(to, ' ');
}

static void tell_int(struct buf *to, const char *name, int64_t number)
{
    if (number)
        buf_printf(to, "%s=%" PRId64 " ", name, number);
}

static void tell(struct buf *to, const struct parsed_request *asked)
{
    const weir_request *r = &asked->request;

    tell_text(to, "policy", r->policy, 0);
    tell_text(to, "key", r->key, r->key_len);
    for (size_t i = 0; i < r->attribute_count; i++)
        tell_text(to, r->attributes[i].name, r->attributes[i].value, r->attributes[i].value_len);
    tell_text(to, "plan", r->plan, 0);
    if (r->cost == WEIR_COST_ZERO)
        buf_text(to, "cost=zero ");
    else
        tell_int(to, "cost", r->cost);
    for (size_t i = 0; i < r->cost_count; i++)
        buf_printf(to, "%s:%" PRId64 " ", r->costs[i].name, r->costs[i].amount);
    tell_int(to, "now", r->now);
    tell_int(to, "limit", r->limit);
    tell_int(to, "window", r->window_ms);
    tell_int(to, "burst", r->burst);
    tell_int(to, "precision", r->precision_ms);
    tell_int(to, "start", r->start);
    tell_int(to, "block_for", r->block_for_ms);
    if (r->algorithm)
        tell_text(to, "algorithm", weir_algorithm_name(r->algorithm), 0);
    if (r->exempt)
        buf_text(to, "exempt ");
    if (asked->peek)
        buf_text(to, "peek ");
}

/* All that a body asks for, or what is wrong with it; read from a block of exactly its size. */
static struct buf read_body(const char *body, size_t len)
{
    struct check_json j;
    struct parsed_request asked;
    weir_diag diag = { "" };
    weir_allocator a = heap();
    char *bytes = malloc(len + !len);
    struct buf said;

    memcpy(bytes, body, len);
    buf_init(&said, &a);
    buf_text(&said, "");
    if (check_json_open(&j, bytes, len, &diag)) {
        buf_text(&said, diag.text);
        free(bytes);
        return said;
    }
    if (j.is_many)
        buf_printf(&said, "%zu: ", j.count);
    for (size_t i = 0; i < j.count; i++) {
        if (i > 0)
            buf_text(&said, "| ");
        if (check_json_next(&j, &asked, &diag))
            buf_text(&said, diag.text);
        else
            tell(&said, &asked);
    }
    check_json_close(&j);
    free(bytes);
    return said;
}

/* The same JSON with every character of its texts escaped, so that the scanner cannot read it. */
static struct buf escaped(const char *body)
{
    weir_allocator a = heap();
    bool is_in_text = false;
    struct buf out;

    buf_init(&out, &a);
    for (; *body; body++) {
        if (*body == '"')
            is_in_text = !is_in_text;
        if (is_in_text && *body != '"' && (unsigned char)*body < 0x80)
            buf_printf(&out, "\\u%04x", *body);
        else
            buf_byte(&out, *body);
    }
    return out;
}

static void expect(const char *body, const char *expected)
{
    struct buf said = read_body(body, strlen(body));

    assert_string_equal(said.at, expected);
    buf_done(&said);
    if (!strchr(body, '\\') && !strstr(expected, "column")) {
        struct buf other = escaped(body);

        said = read_body(other.at, other.len);
        assert_string_equal(said.at, expected);
        buf_done(&said);
        buf_done(&other);
    }
}

static void a_request_object_says_what_is_asked(void **state)
{
    (void)state;
    expect("{\"policy\":\"login\",\"key\":\"1.2.3.4\"}", "policy=login key=1.2.3.4 ");
    expect(" {\n\t\"policy\" : \"login\" ,\r\n \"key\" : \"1.2.3.4\" } \n",
           "policy=login key=1.2.3.4 ");
    expect("{\"policy\":\"cleanup\",\"attributes\":{\"ip\":\"1.2.3.4\",\"email\":\"a@b.c\"},"
           "\"cost\":3,\"plan\":\"free\",\"peek\":true,\"exempt\":true,\"now\":1700000000000}",
           "policy=cleanup ip=1.2.3.4 email=a@b.c plan=free cost=3 now=1700000000000 exempt peek ");
    expect("{\"key\":\"user:1\",\"limit\":10,\"window_ms\":60000,\"algorithm\":\"token_bucket\","
           "\"burst\":20}",
           "key=user:1 limit=10 window=60000 burst=20 algorithm=token_bucket ");
    expect(
        "{\"precision_ms\":1000,\"algorithm\":\"sliding_window\",\"exempt\":false,\"peek\":false}",
        "precision=1000 algorithm=sliding_window ");
    expect("{\"start\":\"first\",\"block_for_ms\":900000}", "start=1 block_for=900000 ");
    expect("{\"start\":\"epoch\"}", "");
    expect("{\"start\":\"last\"}", "'start' must be epoch or first");
    expect("{\"block_for_ms\":0}", "'block_for_ms' must be at least 1, if it is given");
    expect("{}", "");
    expect(" { } ", "");
    expect("{\"attributes\":{}}", "");
    expect("{\"attributes\": { \"a\" : \"b\" , \"c\" : 7 } }", "a=b c=7 ");
    expect("{\"key\":\"\",\"policy\":\"\",\"attributes\":{\"\":\"\"}}", "policy= key= = ");
    expect("{\"key\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"}",
           "key=\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 ");
}

static void costs_are_amounts_by_name(void **state)
{
    (void)state;
    expect("{\"costs\":{\"tokens\":1200,\"requests\":0},\"key\":\"k\"}",
           "key=k tokens:1200 requests:0 ");
    expect("{\"costs\": { \"tokens\" : -1 , \"rows\" : null } }", "tokens:-1 ");
    expect("{\"costs\":{}}", "");
    expect("{\"costs\":null}", "");
    expect("{\"costs\":7}", "'costs' must be an object, as in {\"tokens\": 1200}");
    expect("{\"costs\":{\"tokens\":\"7\"}}", "the cost of tokens must be a whole number");
    expect("{\"costs\":{\"tokens\":1.5}}", "the cost of tokens must be a whole number");
    expect("{\"cost\":2,\"costs\":{\"tokens\":1}}", "cost=2 tokens:1 ");
}

static void a_cost_of_nothing_is_not_the_default(void **state)
{
    (void)state;
    expect("{\"cost\":0}", "cost=zero ");
    expect("{\"cost\":-0}", "cost=zero ");
    expect("{\"cost\":1}", "cost=1 ");
    expect("{\"cost\":-1}", "cost=-1 ");
    expect("{\"cost\":null}", "");
}

static void a_number_can_be_an_identity(void **state)
{
    (void)state;
    expect("{\"key\":42}", "key=42 ");
    expect("{\"key\":0 }", "key=0 ");
    expect("{\"key\":-5}", "key=-5 ");
    expect("{\"attributes\":{\"user\":9007199254740992,\"b\":1}}", "user=9007199254740992 b=1 ");
    expect("{\"attributes\":{\"user\":9007199254740993}}",
           "'user' is more than 2^53, above which JSON numbers are not exact");
    expect("{\"key\":1.5}", "'key' must be a string or a whole number");
    expect("{\"key\":1e3}", "'key' must be a string or a whole number");
    expect("{\"key\":true}", "'key' must be a string or a whole number");
    expect("{\"attributes\":{\"user\":[1]}}", "'user' must be a string or a whole number");
    expect("{\"attributes\":{\"user\":{}}}", "'user' must be a string or a whole number");
}

static void null_is_as_if_it_were_not_there(void **state)
{
    (void)state;
    expect("{\"policy\":\"a\",\"plan\":null,\"key\":null,\"attributes\":{\"a\":null,\"b\":\"c\"},"
           "\"peek\":null,\"burst\":null}",
           "policy=a b=c ");
}

static void escapes_mean_what_they_stand_for(void **state)
{
    (void)state;
    expect("{\"policy\":\"l\\u006fgin\",\"key\":\"a\\\"b\\\\c\\/\\n\\ud83d\\ude00\"}",
           "policy=login key=a\"b\\c/\n\xf0\x9f\x98\x80 ");
    expect("{\"\\u0063hecks\":[{\"key\":\"a\"}]}", "1: key=a ");
}

static void a_nul_in_a_value_keeps_its_length(void **state)
{
    char body[] = "{\"key\":\"a\\u0000b\",\"attributes\":{\"x\":\"\\u0000\"}}";
    struct check_json j;
    struct parsed_request asked;

    (void)state;
    assert_int_equal(check_json_open(&j, body, strlen(body), NULL), WEIR_OK);
    assert_int_equal(check_json_next(&j, &asked, NULL), WEIR_OK);
    assert_int_equal(asked.request.key_len, 3);
    assert_memory_equal(asked.request.key, "a\0b", 4);
    assert_int_equal(asked.attributes[0].value_len, 1);
    assert_memory_equal(asked.attributes[0].value, "\0", 2);
    check_json_close(&j);
    expect("{\"policy\":\"a\\u0000b\"}", "'policy' contains a NUL, which names cannot have");
    expect("{\"plan\":\"\\u0000\"}", "'plan' contains a NUL, which names cannot have");
    expect("{\"algorithm\":\"token_bucket\\u0000\"}",
           "'algorithm' contains a NUL, which names cannot have");
    expect("{\"attributes\":{\"i\\u0000p\":\"b\"}}",
           "the body is not valid JSON: the name of a member contains a NUL (line 1, column 25)");
}

static void unknown_fields_are_named(void **state)
{
    (void)state;
    expect("{\"polcy\":\"a\"}", "there is no member 'polcy': did you mean 'policy'?");
    expect("{\"policy\":\"a\",\"seconds\":1}",
           "there is no member 'seconds' (what a policy counts by goes into 'attributes')");
    expect("{\"policy\":\"a\",\"ip\":\"1.2.3.4\"}",
           "there is no member 'ip' (what a policy counts by goes into 'attributes')");
    expect("{\"Policy\":\"a\"}", "there is no member 'Policy': did you mean 'policy'?");
    expect("{\"\":1}", "there is no member '' (what a policy counts by goes into 'attributes')");
    expect("{\"algorithm\":\"tokenbucket\"}",
           "there is no algorithm 'tokenbucket': did you mean 'token_bucket'?");
    expect("{\"algorithm\":\"gcra\"}",
           "there is no algorithm 'gcra': it is one of fixed_window, sliding_window, "
           "sliding_counter, token_bucket, leaky_bucket, concurrency");
    expect("{\"policy\":\"a\",\"checks\":[]}",
           "'checks' must be the only member: put the others into the checks");
    expect("{\"checks\":[],\"policy\":\"a\"}",
           "'checks' must be the only member: put the others into the checks");
}

static void the_wrong_type_is_reported_with_the_right_one(void **state)
{
    (void)state;
    expect("{\"policy\":1}", "'policy' must be a string");
    expect("{\"plan\":[]}", "'plan' must be a string");
    expect("{\"cost\":\"1\"}", "'cost' must be a whole number");
    expect("{\"cost\":1.0}", "'cost' must be a whole number");
    expect("{\"limit\":true}", "'limit' must be a whole number");
    expect("{\"peek\":1}", "'peek' must be true or false");
    expect("{\"exempt\":\"true\"}", "'exempt' must be true or false");
    expect("{\"attributes\":[]}", "'attributes' must be an object");
    expect("{\"attributes\":\"ip\"}", "'attributes' must be an object");
    expect("{\"limit\":9007199254740992}", "limit=9007199254740992 ");
    expect("{\"limit\":9007199254740993}",
           "'limit' is more than 2^53, above which JSON numbers are not exact");
    expect("{\"limit\":-9007199254740993}",
           "'limit' is more than 2^53, above which JSON numbers are not exact");
    expect("{\"burst\":0}", "'burst' must be at least 1, if it is given");
    expect("{\"now\":0}", "'now' must be at least 1, if it is given");
    expect("[]", "the body must be an object: {\"policy\": ...} or {\"checks\": [...]}");
    expect("{\"checks\":{}}", "'checks' must be a list of objects");
}

static void expect_bad(const char *body, const char *what)
{
    struct buf said = read_body(body, strlen(body));

    if (strncmp(said.at, "the body is not valid JSON: ", 28) != 0 || !strstr(said.at, what))
        fail_msg("%s\nis told: %s", body, said.at);
    assert_null(strstr(said.at, "secret"));
    buf_done(&said);
}

static void invalid_json_is_reported_with_its_place_and_never_quoted(void **state)
{
    (void)state;
    expect_bad("", "it ends too early");
    expect_bad("{", "it ends too early");
    expect_bad("{\"key\":\"secret", "it ends too early");
    expect_bad("{\"key\":\"secret\"", "it ends too early");
    expect_bad("{\"key\":secret}", "syntax");
    expect_bad("{\"key\":'secret'}", "syntax");
    expect_bad("{\"key\":\"secret\\x\"}", "syntax");
    expect_bad("{\"key\":\"secret\n\"}", "syntax");
    expect_bad("{\"key\":\"secret\",}", "syntax");
    expect_bad("{\"key\":\"a\" secret}", "syntax");
    expect_bad("{\"key\":01}", "syntax");
    expect_bad("{\"key\":\"a\"}secret", "there is text after its end");
    expect_bad("{\"key\":\"secret\xff\"}", "not UTF-8");
    expect_bad("{\"key\":\"secret\xed\xa0\x80\"}", "not UTF-8");
    expect_bad("{\"key\":\"secret\",\"key\":\"secret\"}", "twice");
    expect_bad("{\"attributes\":{\"a\":\"secret\",\"a\":\"secret\"}}", "twice");
    expect_bad("{\"checks\":[],\"checks\":[]}", "twice");
    expect_bad("{\"cost\":99999999999999999999}", "too large");
    expect_bad("{\"costs\":{\"tokens\":1,\"tokens\":2}}", "a member is given twice");
    expect_bad("secret", "syntax");
    expect_bad("POST / HTTP/1.1", "syntax");
    expect("{\"key\":[[[[[[[[\"secret\"]]]]]]]]}", "the body is nested more than 8 deep");
    expect("{\"checks\":[{\"key\":\"[[[[[[[[[{{{{{{\"}]}", "1: key=[[[[[[[[[{{{{{{ ");
}

static void checks_are_many_and_each_fails_alone(void **state)
{
    (void)state;
    expect("{\"checks\":[]}", "0: ");
    expect(" { \"checks\" : [ { } , {\"key\":1} ] } ", "2: | key=1 ");
    expect("{\"checks\":[{\"policy\":\"a\",\"key\":\"b\"},{\"policy\":\"c\",\"attributes\":"
           "{\"d\":\"e\"}},{\"key\":\"f\"}]}",
           "3: policy=a key=b | policy=c d=e | key=f ");
    expect("{\"checks\":[{\"policy\":\"a\"},{\"polcy\":\"b\"},7,null,{\"policy\":\"c\"}]}",
           "5: policy=a | there is no member 'polcy': did you mean 'policy'?| a check must be an "
           "object| a check must be an object| policy=c ");
    expect_bad("{\"checks\":[{\"policy\":\"a\"},]}", "syntax");
    expect_bad("{\"checks\":[{\"policy\":\"a\"}", "it ends too early");
    expect_bad("{\"checks\":[{\"policy\":\"a\"}]", "it ends too early");
    expect_bad("{\"checks\":[{\"policy\":\"a\"}]}}", "there is text after its end");
}

static void every_count_has_a_bound(void **state)
{
    weir_allocator a = heap();
    struct buf body, said;

    (void)state;
    for (int more = 0; more < 2; more++) {
        buf_init(&body, &a);
        buf_text(&body, "{\"checks\":[{}");
        for (int i = 1; i < CHECK_JSON_MAX_CHECKS + more; i++)
            buf_text(&body, ",{}");
        buf_text(&body, "]}");
        said = read_body(body.at, body.len);
        assert_true(
            strncmp(said.at, more ? "there are too many checks: at most 1000" : "1000: |", 7) == 0);
        buf_done(&said);
        buf_done(&body);

        buf_init(&body, &a);
        buf_text(&body, "{\"attributes\":{\"a\":\"\"");
        for (int i = 1; i < WEIR_MAX_ATTRIBUTES + more; i++)
            buf_printf(&body, ",\"a%d\":\"\"", i);
        buf_text(&body, "}}");
        said = read_body(body.at, body.len);
        assert_int_equal(strcmp(said.at, "there are too many attributes: at most 16") == 0, more);
        buf_done(&said);
        buf_done(&body);

        buf_init(&body, &a);
        buf_text(&body, "{\"costs\":{\"a\":1");
        for (int i = 1; i < WEIR_MAX_COSTS + more; i++)
            buf_printf(&body, ",\"a%d\":1", i);
        buf_text(&body, "}}");
        said = read_body(body.at, body.len);
        assert_int_equal(strcmp(said.at, "there are too many costs: at most 16") == 0, more);
        buf_done(&said);
        buf_done(&body);
    }
}

/* Usual bodies must be read without jansson. */
static void the_usual_bodies_are_read_by_the_scanner(void **state)
{
    static const char *const usual[] = {
        "{\"policy\":\"login\",\"key\":\"1.2.3.4\"}",
        "{\"policy\": \"cleanup\", \"attributes\": {\"ip\": \"1.2.3.4\", \"email\": \"a@b.c\"}, "
        "\"cost\": 1, \"plan\": \"free\", \"peek\": false, \"exempt\": false}",
        "{\"key\":\"user:1\",\"limit\":1000,\"window_ms\":60000,\"algorithm\":\"sliding_window\","
        "\"precision_ms\":1000,\"now\":1700000000000}",
        "{\"policy\":\"login\",\"key\":\"\xc3\xa4\"}",
        "{\"policy\":\"model\",\"key\":\"a\",\"costs\":{\"tokens\": 1200, \"requests\":1}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        char *body = strdup(usual[i]), *at = body;
        struct check_scan scan;
        struct parsed_request asked;

        assert_true(check_scan_object(&scan, &at, body + strlen(body), &asked));
        assert_string_equal(body, usual[i]);
        assert_ptr_equal(at, body + strlen(body));
        free(body);
    }
}

/* Random bodies out of likely pieces: what the scanner reads, jansson must read alike. */
static void both_parsers_read_the_same(void **state)
{
    static const char *const pieces[] = {
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        " ",
        "\"policy\"",
        "\"key\"",
        "\"attributes\"",
        "\"cost\"",
        "\"costs\"",
        "\"plan\"",
        "\"peek\"",
        "\"limit\"",
        "\"window_ms\"",
        "\"burst\"",
        "\"algorithm\"",
        "\"now\"",
        "\"checks\"",
        "\"a\"",
        "\"\"",
        "\"\xc3\xa4\"",
        "\"\xc3\"",
        "\"token_bucket\"",
        "true",
        "false",
        "null",
        "0",
        "1",
        "01",
        "-1",
        "9007199254740992",
        "9007199254740993",
        "1.0",
        "{\"checks\":[",
        "{\"policy\":\"a\"",
        "\"attributes\":{\"a\":\"b\"}",
        "\"key\":7",
        "\"cost\":0",
        "\"costs\":{\"a\":1,\"b\":0}",
        "\"x\":",
        "\n",
    };
    const size_t n = sizeof pieces / sizeof *pieces;
    struct dice dice = dice_new();
    weir_allocator a = heap();
    int read = 0;

    (void)state;
    for (int round = 0; round < scaled(200000); round++) {
        struct buf body, other, said, again;

        buf_init(&body, &a);
        buf_text(&body, dice_below(&dice, 4) ? "{" : "{\"checks\":[{");
        for (int64_t i = dice_below(&dice, 6); i >= 0; i--) {
            int64_t kind = dice_below(&dice, 5);

            if (kind < 4) /* name and value */
                buf_printf(&body, "%s:%s%s", pieces[7 + dice_below(&dice, 13)],
                           pieces[20 + dice_below(&dice, 15)], i ? "," : "");
            else
                buf_text(&body, pieces[dice_below(&dice, (int64_t)n)]);
        }
        buf_text(&body, body.at[2] == 'c' && dice_below(&dice, 8) ? "}]}" : "}");
        other = escaped(body.at);
        said = read_body(body.at, body.len);
        again = read_body(other.at, other.len);
        if (!strstr(said.at, "column")) {
            assert_string_equal(said.at, again.at);
            read++;
        } else {
            assert_non_null(strstr(again.at, "column"));
        }
        buf_done(&body);
        buf_done(&other);
        buf_done(&said);
        buf_done(&again);
    }
    assert_true(read > scaled(200000) / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_object_says_what_is_asked),
        cmocka_unit_test(costs_are_amounts_by_name),
        cmocka_unit_test(a_cost_of_nothing_is_not_the_default),
        cmocka_unit_test(a_number_can_be_an_identity),
        cmocka_unit_test(null_is_as_if_it_were_not_there),
        cmocka_unit_test(escapes_mean_what_they_stand_for),
        cmocka_unit_test(a_nul_in_a_value_keeps_its_length),
        cmocka_unit_test(unknown_fields_are_named),
        cmocka_unit_test(the_wrong_type_is_reported_with_the_right_one),
        cmocka_unit_test(invalid_json_is_reported_with_its_place_and_never_quoted),
        cmocka_unit_test(checks_are_many_and_each_fails_alone),
        cmocka_unit_test(every_count_has_a_bound),
        cmocka_unit_test(the_usual_bodies_are_read_by_the_scanner),
        cmocka_unit_test(both_parsers_read_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
