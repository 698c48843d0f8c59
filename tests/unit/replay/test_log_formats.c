/* test_log_formats.c - lines of access logs become records, and what is no line of the format does
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "replay/access_format.h"

static struct log_parser parser;
static struct record record;

/* The fields that all formats have, and two more. */
static const struct field_list *all_fields(void)
{
    static struct field_list list;

    for (int i = 0; i < RECORD_FIELD_COUNT; i++)
        field_list_want(&list, record_field_names[i]);
    field_list_want(&list, "header.x-tenant");
    field_list_want(&list, "capture.2");
    return &list;
}

static void begin(enum access_format format)
{
    assert_true(log_parser_init(&parser, format, all_fields(), NULL, NULL, 0));
}

static void parse(const char *line)
{
    assert_int_equal(log_parse(&parser, span_of(line), &record), LINE_RECORD);
}

static void is_broken(const char *line)
{
    if (log_parse(&parser, span_of(line), &record) != LINE_BROKEN)
        fail_msg("not broken: %s", line);
}

static void has(enum record_field field, const char *value)
{
    if (!span_is(record.fields[field], value))
        fail_msg("%s is '%.*s', not '%s'", record_field_names[field], (int)record.fields[field].len,
                 record.fields[field].at, value);
}

static void extra_has(const char *name, const char *value)
{
    const int field = field_list_find(parser.fields, span_of(name));

    assert_true(field >= 0);
    assert_true(span_is(record.fields[field], value));
}

static void a_combined_line_has_all_its_fields(void **state)
{
    (void)state;
    begin(ACCESS_COMBINED);
    parse("203.0.113.7 - bob [17/May/2015:10:05:03 +0200] \"GET /a/b?c=d HTTP/1.1\" 200 1234 "
          "\"https://ref/\" \"curl \\\"8\\\"\" \"198.51.100.9\"\r");
    assert_int_equal(record.time, 1431849903000);
    has(RECORD_IP, "203.0.113.7");
    has(RECORD_USER, "bob");
    has(RECORD_METHOD, "GET");
    has(RECORD_PATH, "/a/b");
    has(RECORD_QUERY, "c=d");
    has(RECORD_STATUS, "200");
    has(RECORD_BYTES, "1234");
    has(RECORD_REFERER, "https://ref/");
    has(RECORD_AGENT, "curl \\\"8\\\"");
    has(RECORD_FORWARDED, "198.51.100.9");
}

static void a_common_line_has_no_texts(void **state)
{
    (void)state;
    begin(ACCESS_COMBINED);
    parse("::1 - - [01/Jan/2024:00:00:00 +0000] \"POST /login HTTP/2.0\" 401 -");
    assert_int_equal(record.time, 1704067200000);
    has(RECORD_IP, "::1");
    has(RECORD_USER, "");
    has(RECORD_METHOD, "POST");
    has(RECORD_BYTES, "");
    has(RECORD_AGENT, "");
    parse("::1 - two words [01/Jan/2024:00:00:01 +0000] \"\\x16\\x03\" 400 0");
    has(RECORD_USER, "two words");
    has(RECORD_METHOD, "");
}

static void what_is_not_combined_is_broken(void **state)
{
    (void)state;
    begin(ACCESS_COMBINED);
    is_broken("x");
    is_broken("1.2.3.4 - -");
    is_broken("1.2.3.4 - - [32/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1");
    is_broken("1.2.3.4 - - [17/Mai/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1");
    is_broken("1.2.3.4 - - [17/May/1969:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1");
    is_broken("1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1");
    is_broken("1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /\" OK 1");
    is_broken("1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 1 \"open");
    assert_int_equal(log_parse(&parser, span_of(""), &record), LINE_NONE);
    assert_int_equal(log_parse(&parser, span_of("# Fields: a b"), &record), LINE_NONE);
}

static void haproxy_has_captures_and_local_time(void **state)
{
    static struct zone berlin;

    (void)state;
    begin(ACCESS_HAPROXY);
    parse("Feb  6 12:14:14 lb haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in "
          "static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {one|acme|} {} \"GET "
          "/index.html?x HTTP/1.1\"");
    assert_int_equal(record.time, 1233922454655);
    has(RECORD_IP, "10.0.1.2");
    has(RECORD_STATUS, "200");
    has(RECORD_BYTES, "2750");
    has(RECORD_PATH, "/index.html");
    extra_has("capture.2", "acme");
    parse("2001:db8::1:443 [06/Feb/2009:12:14:15.001] f b/s 0/0/0/0/0 503 0 - - ---- 1/1/1/1/0 0/0 "
          "\"GET / HTTP/1.1\"");
    has(RECORD_IP, "2001:db8::1");
    parse("::ffff:10.0.1.2:3 [06/Feb/2009:12:14:16.655] f f/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- "
          "1/1/1/1/0 0/0 \"<BADREQ>\"");
    has(RECORD_IP, "::ffff:10.0.1.2");
    has(RECORD_STATUS, "400");
    has(RECORD_METHOD, "");
    is_broken("10.0.1.2:33317 [06/Feb/2009:12:14:14.655] f b/s 1/1/1/1/1 200 12 - -");
    is_broken("10.0.1.2:33317 [06/Feb/2009:12:14:14.655] f b/s 1/1/1/1/1 200 12 - - ---- 1/1/1/1/0 "
              "0/0 \"GET /cut");
    assert_int_equal(zone_load("Europe/Berlin", &berlin, NULL), WEIR_OK);
    assert_true(log_parser_init(&parser, ACCESS_HAPROXY, all_fields(), &berlin, NULL, 0));
    parse(
        "1.2.3.4:1 [06/Jul/2009:12:00:00.000] f b/s 0/0/0/0/0 200 0 - - ---- 1/1/1/1/0 0/0 \"GET / "
        "HTTP/1.1\"");
    assert_int_equal(record.time, 1246874400000); /* 10:00 UTC */
}

static void haproxy_by_tls_has_more_behind_the_request(void **state)
{
    (void)state;
    begin(ACCESS_HAPROXY);
    parse("<134>Jan  2 03:04:05 haproxy[9]: 192.0.2.8:61234 [02/Jan/2024:03:04:05.006] tls~ "
          "app/s1 0/0/1/2/3 302 77 - - --NI 2/2/0/0/0 0/0 {acme} \"GET /a?b=%22 HTTP/2.0\" "
          "0/0000000000000000/0/0/0 shop.example/TLSv1.3/TLS_AES_256_GCM_SHA384");
    assert_int_equal(record.time, 1704164645006);
    has(RECORD_IP, "192.0.2.8");
    has(RECORD_STATUS, "302");
    has(RECORD_PATH, "/a");
    has(RECORD_QUERY, "b=%22");
}

static void alb_has_the_path_of_a_url(void **state)
{
    (void)state;
    begin(ACCESS_ALB);
    parse("h2 2018-07-02T22:23:00.186641Z app/lb/50dc6c 192.0.2.39:2817 10.0.0.1:80 0.000 0.001 "
          "0.000 200 200 34 366 \"GET https://www.example.com:443/a/b?c HTTP/2.0\" \"curl/7\" - - "
          "arn:x \"Root=1\" \"www.example.com\" \"-\" 0 2018-07-02T22:22:48.364000Z \"forward\"");
    assert_int_equal(record.time, 1530570180186);
    has(RECORD_IP, "192.0.2.39");
    has(RECORD_METHOD, "GET");
    has(RECORD_PATH, "/a/b");
    has(RECORD_QUERY, "c");
    has(RECORD_BYTES, "366");
    has(RECORD_AGENT, "curl/7");
    has(RECORD_HOST, "www.example.com");
    parse("https 2024-03-04T05:06:07.5Z app/lb/1 [2001:db8::7]:443 - -1 -1 -1 460 - 0 0 \"- "
          "https://[2001:db8::1]:443- -\" \"-\" - - - \"-\" \"-\" \"-\" - 2024-03-04T05:06:07Z "
          "\"-\"");
    assert_int_equal(record.time, 1709528767500);
    has(RECORD_IP, "[2001:db8::7]");
    has(RECORD_STATUS, "460");
    has(RECORD_METHOD, "");
    has(RECORD_PATH, "");
    has(RECORD_AGENT, "");
    is_broken("h2 2018-07-02T22:23:00.186641Z app/lb/50dc6c 192.0.2.39:2817");
}

static void json_is_known_by_its_names(void **state)
{
    (void)state;
    begin(ACCESS_CADDY);
    parse("{\"level\":\"info\",\"ts\":1646861401.5241024,\"request\":{\"remote_ip\":\"192.0.2.1\","
          "\"client_ip\":\"192.0.2.2\",\"method\":\"GET\",\"uri\":\"/x?y=1\",\"headers\":{\"X-"
          "Tenant\":[\"acme\",\"other\"],\"User-Agent\":[\"c\\u00e9\\ud83d\\ude00\"]},\"tls\":{"
          "\"x\":[1,{}]}},\"size\":12,\"status\":200}");
    assert_int_equal(record.time, 1646861401524);
    has(RECORD_IP, "192.0.2.2"); /* of several names the first that is known */
    has(RECORD_PATH, "/x");
    has(RECORD_QUERY, "y=1");
    has(RECORD_AGENT, "c\xc3\xa9\xf0\x9f\x98\x80");
    extra_has("header.x-tenant", "acme");
    begin(ACCESS_NGINX_JSON);
    parse(
        "{\"time_iso8601\":\"2024-01-01T00:00:00+00:00\",\"remote_addr\":\"192.0.2.3\",\"request\""
        ":\"GET /a HTTP/1.1\",\"status\":\"200\",\"http_x_tenant\":\"t\",\"remote_user\":\"-\"}");
    assert_int_equal(record.time, 1704067200000);
    has(RECORD_PATH, "/a");
    has(RECORD_USER, "");
    extra_has("header.x-tenant", "t");
    parse("{\"msec\":\"1704067200.250\",\"remote_addr\":\"2001:db8::3\",\"request\":\"GET "
          "/\\u0061\\\"b?\\\\ HTTP/1.1\",\"status\":404,\"body_bytes_sent\":12}");
    assert_int_equal(record.time, 1704067200250);
    has(RECORD_IP, "2001:db8::3");
    has(RECORD_PATH, "/a\"b");
    has(RECORD_QUERY, "\\");
    has(RECORD_BYTES, "12");
    begin(ACCESS_ENVOY);
    parse("{\"start_time\":\"2024-01-01T05:30:00.001+05:30\",\"downstream_remote_address\":\"[2001:"
          "db8::4]:99\",\"method\":\"GET\",\"path\":\"/\",\"x_forwarded_for\":\"-\"}");
    assert_int_equal(record.time, 1704067200001);
    has(RECORD_IP, "[2001:db8::4]:99");
    has(RECORD_FORWARDED, "");
    parse("{\"start_time\":\"2024-01-01T00:00:00.250Z\",\"downstream_remote_address\":\"192.0.2.4:"
          "99\",\"method\":\"PUT\",\"path\":\"/b\",\"response_code\":204,\"bytes_sent\":null}");
    assert_int_equal(record.time, 1704067200250);
    has(RECORD_IP, "192.0.2.4:99");
    has(RECORD_STATUS, "204");
    has(RECORD_BYTES, "");
}

static void broken_json_is_broken(void **state)
{
    static char deep[200];

    (void)state;
    begin(ACCESS_JSON);
    parse(" { \"time\" : 1 , \"ip\" : \"a\" } ");
    parse("{\"time\":\t1\t,\t\"ip\":\t\"a\"\t}");
    is_broken("{\"ip\":\"a\"}"); /* there is no time */
    is_broken("{\"time\":1");
    is_broken("{\"time\":1}}");
    is_broken("{\"time\":}");
    is_broken("{\"time\":\"soon\"}");
    is_broken("{\"time\":1,\"ip\":\"\\ud800\"}");
    is_broken("{\"time\":1,\"ip\":\"\\x\"}");
    is_broken("[1]");
    memset(deep, '[', sizeof deep - 1);
    is_broken(deep);
}

/* `count` times `text` behind what is there. */
static void repeat(char *to, size_t room, const char *text, size_t count)
{
    size_t len = strlen(to);

    while (count-- > 0) {
        assert_true(len + strlen(text) < room);
        memcpy(to + len, text, strlen(text) + 1);
        len += strlen(text);
    }
}

static void what_is_unescaped_is_bounded(void **state)
{
    static char line[2 * LOG_MOST_SCRATCH];

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        begin(ACCESS_JSON);
        snprintf(line, sizeof line, "{\"time\":1,\"user\":\"");
        repeat(line, sizeof line, "\\n", LOG_MOST_SCRATCH / 2 + more);
        repeat(line, sizeof line, "\"}", 1);
        assert_int_equal(log_parse(&parser, span_of(line), &record),
                         more ? LINE_BROKEN : LINE_RECORD);
        begin(ACCESS_CSV);
        assert_int_equal(log_parse(&parser, span_of("time,user"), &record), LINE_NONE);
        snprintf(line, sizeof line, "1,\"\"\"");
        repeat(line, sizeof line, "x", LOG_MOST_SCRATCH - 1 + more);
        repeat(line, sizeof line, "\"", 1);
        assert_int_equal(log_parse(&parser, span_of(line), &record),
                         more ? LINE_BROKEN : LINE_RECORD);
    }
}

/* Columns behind the last that there is room for are passed over. */
static void names_are_bounded(void **state)
{
    static char line[2 * LOG_MOST_NAMES * LOG_MOST_NAME];

    (void)state;
    begin(ACCESS_CSV);
    snprintf(line, sizeof line, "time");
    repeat(line, sizeof line, ",x", LOG_MOST_NAMES - 2);
    repeat(line, sizeof line, ",ip,user", 1);
    assert_int_equal(log_parse(&parser, span_of(line), &record), LINE_NONE);
    snprintf(line, sizeof line, "1");
    repeat(line, sizeof line, ",1", LOG_MOST_NAMES - 2);
    repeat(line, sizeof line, ",192.0.2.1,ann", 1);
    parse(line);
    has(RECORD_IP, "192.0.2.1");
    has(RECORD_USER, "");
    begin(ACCESS_JSON);
    snprintf(line, sizeof line, "{\"time\":1,\"");
    repeat(line, sizeof line, "n", LOG_MOST_NAME + 1);
    repeat(line, sizeof line, "\":{\"ip\":\"no\"},\"ip\":\"192.0.2.2\"}", 1);
    parse(line);
    has(RECORD_IP, "192.0.2.2");
}

static void the_user_may_name_fields(void **state)
{
    static const struct log_alias aliases[] = { { "time", "When" }, { "ip", "who.addr" } };

    (void)state;
    assert_true(log_parser_init(&parser, ACCESS_JSON, all_fields(), NULL, aliases, 2));
    parse("{\"when\":1704067200123,\"time\":5,\"who\":{\"addr\":\"192.0.2.5\"},\"ip\":\"no\"}");
    assert_int_equal(record.time, 1704067200123);
    has(RECORD_IP, "192.0.2.5");
}

static void csv_has_a_head_and_quotation_marks(void **state)
{
    (void)state;
    begin(ACCESS_CSV);
    assert_int_equal(log_parse(&parser, span_of("Time,IP,\"Path\",note,status"), &record),
                     LINE_NONE);
    parse("2024-01-01 00:00:00,192.0.2.6,\"/a,b?c\",\"say \"\"hi\"\"\",200");
    assert_int_equal(record.time, 1704067200000);
    has(RECORD_IP, "192.0.2.6");
    has(RECORD_PATH, "/a,b");
    has(RECORD_STATUS, "200");
    is_broken("2024-01-01 00:00:00,192.0.2.6,\"open");
    is_broken("yesterday,192.0.2.6,/,x,200");
    parse("1704067200,192.0.2.7"); /* the rest is missing */
    has(RECORD_STATUS, "");
}

static void the_format_is_guessed(void **state)
{
    static const struct {
        enum access_format format;
        const char *lines;
    } cases[] = {
        { ACCESS_COMBINED,
          "junk\n1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n" },
        { ACCESS_HAPROXY, "1.2.3.4:1 [06/Jul/2009:12:00:00.000] f b/s 0/0/0/0/0 200 0 - - ---- "
                          "1/1/1/1/0 0/0 \"GET / HTTP/1.1\"\n" },
        { ACCESS_NGINX_JSON,
          "{\"time_local\":\"17/May/2015:10:05:03 +0000\",\"remote_addr\":\"1.2.3.4\","
          "\"request\":\"GET / HTTP/1.1\",\"status\":\"200\"}\n" },
        { ACCESS_CADDY, "{\"ts\":1.5,\"request\":{\"remote_ip\":\"::1\",\"method\":\"GET\",\"uri\":"
                        "\"/\"},\"status\":200}\n" },
        { ACCESS_ENVOY,
          "{\"start_time\":\"2024-01-01T00:00:00Z\",\"method\":\"GET\",\"path\":\"/\","
          "\"response_code\":200,\"downstream_remote_address\":\"::1\"}\n" },
        { ACCESS_JSON, "{\"time\":\"2024-01-01T00:00:00Z\",\"ip\":\"::1\",\"user\":\"u\"}\n" },
        { ACCESS_CSV, "time;ip;user\n2024-01-01T00:00:00Z;::1;u\n" },
    };
    enum access_format format;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(access_format_guess(span_of(cases[i].lines), all_fields(), NULL, NULL, 0,
                                        &parser, &format));
        assert_int_equal(format, cases[i].format);
    }
    assert_false(access_format_guess(span_of("hello\nworld\n"), all_fields(), NULL, NULL, 0,
                                     &parser, &format));
}

static void times_are_read_in_all_their_forms(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        { "1704067200", 1704067200000 },
        { "1704067200.5", 1704067200500 },
        { "1704067200123", 1704067200123 },
        { "1704067200123456", 1704067200123 },
        { "1704067200123456789", 1704067200123 },
        { "2024-02-29T23:59:59Z", 1709251199000 },
        { "2024-02-29T23:59:59.999999999Z", 1709251199999 },
        { "2024-02-29 23:59:59,5", 1709251199500 },
        { "2024-02-29T23:59:59+05:30", 1709231399000 },
        { "2024-02-29T23:59:59-0530", 1709270999000 },
        { "[29/Feb/2024:23:59:59 +0000]", 1709251199000 },
        { "2016-12-31T23:59:60Z", 1483228800000 }, /* a leap second */
        { "2023-02-29T00:00:00Z", 0 },
        { "1969-12-31T23:59:59Z", 0 },
        { "2024-13-01T00:00:00Z", 0 },
        { "2024-01-01T24:00:00Z", 0 },
        { "2024-01-01T00:00:00+99:00", 0 },
        { "2024-01-01T00:00:00.x", 0 },
        { "0", 0 },
        { "-5", 0 },
        { "99999999999999999999", 0 },
        { "", 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct log_clock clock = { 0 };
        int64_t ms = 0;
        const bool is_time = log_time_any(&clock, span_of(cases[i].text), &ms);

        if (is_time != (cases[i].ms != 0) || (is_time && ms != cases[i].ms))
            fail_msg("%s: %d %lld", cases[i].text, is_time, (long long)ms);
    }
}

/* What is kept of the last minute must not be taken for another. */
static void a_kept_minute_is_that_minute(void **state)
{
    static const char *const lines[] = { "01/Jan/2024:00:00:59 +0000", "01/Jan/2024:00:00:59 +0100",
                                         "01/Jan/2024:00:01:59 +0100", "01/Jan/2025:00:01:59 +0100",
                                         "01/Jan/2024:00:00:01 +0000" };
    struct log_clock kept = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct log_clock fresh = { 0 };
        int64_t a, b;

        assert_true(log_time_clf(&kept, lines[i], &a));
        assert_true(log_time_clf(&fresh, lines[i], &b));
        assert_int_equal(a, b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_combined_line_has_all_its_fields),
        cmocka_unit_test(a_common_line_has_no_texts),
        cmocka_unit_test(what_is_not_combined_is_broken),
        cmocka_unit_test(haproxy_has_captures_and_local_time),
        cmocka_unit_test(haproxy_by_tls_has_more_behind_the_request),
        cmocka_unit_test(alb_has_the_path_of_a_url),
        cmocka_unit_test(json_is_known_by_its_names),
        cmocka_unit_test(broken_json_is_broken),
        cmocka_unit_test(what_is_unescaped_is_bounded),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(the_user_may_name_fields),
        cmocka_unit_test(csv_has_a_head_and_quotation_marks),
        cmocka_unit_test(the_format_is_guessed),
        cmocka_unit_test(times_are_read_in_all_their_forms),
        cmocka_unit_test(a_kept_minute_is_that_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
