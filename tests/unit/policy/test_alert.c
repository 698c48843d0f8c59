/* test_alert.c - alerts in a policy file: what they mean, and what is wrong with some. */
#include "support/loaded.h"

#include "base/buf.h"
#include "base/url.h"

#define ALERTS(body) FILE_OF("  login: {limit: 5 per 15m, by: ip}\n") "alerts:\n" body

static void alerts_are_read_with_their_numbers(void **state)
{
    static const struct alert expected[] = {
        { "a", ALERT_DENY_RATE, "login", 2000, 300000, 50, "http://h/x", WEBHOOK_JSON, NULL, 7 },
        { "b", ALERT_DENY_RATE, NULL, 55, 60000, 20, "http://h/x", WEBHOOK_JSON, NULL, 8 },
        { "c", ALERT_IDENTITY_DENIALS, NULL, 100, 3600000, 20, "https://[::1]:8443/?a=b",
          WEBHOOK_JSON, NULL, 9 },
        { "d", ALERT_BREAKER_OPEN, NULL, 0, 10000, 20, "http://h/x", WEBHOOK_JSON, NULL, 10 },
        { "e", ALERT_FALLBACK, "login", 0, 60000, 20, "http://h/x", WEBHOOK_JSON, NULL, 11 },
    };
    struct loaded l;
    const struct alert *alerts;
    size_t count;

    (void)state;
    load(&l, ALERTS("  webhook: http://h/x\n"
                    "  rules:\n"
                    "    a: {deny_rate: 20% per 5m, policy: login, least: 50}\n"
                    "    b: {deny_rate: 0.55% per 1m}\n"
                    "    c: {identity_denials: 100 per 1h, webhook: 'https://[::1]:8443/?a=b'}\n"
                    "    d: {breaker_open: 10s}\n"
                    "    e: {fallback: 0 per 1m, policy: login}\n"));
    alerts = policies_alerts(l.set, &count);
    assert_int_equal(count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(alerts[i].name, expected[i].name);
        assert_int_equal(alerts[i].kind, expected[i].kind);
        assert_int_equal(alerts[i].over, expected[i].over);
        assert_int_equal(alerts[i].window, expected[i].window);
        assert_int_equal(alerts[i].least, expected[i].least);
        assert_string_equal(alerts[i].webhook, expected[i].webhook);
        assert_int_equal(alerts[i].line, expected[i].line);
        assert_int_equal(!alerts[i].policy, !expected[i].policy);
    }
    unload(&l);
}

static void without_alerts_there_are_none(void **state)
{
    struct loaded l;
    size_t count;

    (void)state;
    load(&l, FILE_OF("  login: {limit: 5 per 15m, by: ip}\n"));
    policies_alerts(l.set, &count);
    assert_int_equal(count, 0);
    unload(&l);
}

static void each_mistake_is_reported_with_its_place(void **state)
{
    (void)state;
    expect_problems(
        ALERTS("  webhook: ftp://x\n"
               "  rules:\n"
               "    a: {deny_rate: 20% per 5m, policy: logn}\n"
               "    b: {identity_denials: 100 per 1h, least: 3}\n"
               "    c: {breaker_open: 10s, policy: login}\n"
               "    d: {fallback: 0 per 10s}\n"
               "    e: {deny_rate: 101% per 5m}\n"
               "    f: {policy: login}\n"
               "    g: {breaker_open: 1s, fallback: 0}\n"
               "    h: {webhook: 'https://u:p@h/', fallback: 3 per 1m}\n"
               "    i: {breaker_open: 2d}\n"
               "    j: {deny_rates: 20% per 5m}\n"),
        NULL,
        "policy_text:5:12: this is not the URL of a webhook: it must begin with http:// or "
        "https://\n"
        "policy_text:7:40: there is no policy 'logn': did you mean 'login'?\n"
        "policy_text:8:39: 'least' belongs to deny_rate\n"
        "policy_text:9:28: 'policy' cannot be combined with breaker_open: all policies share the "
        "store\n"
        "policy_text:10:19: the time of fallback must be from 1m to 1d\n"
        "policy_text:11:20: deny_rate '101% per 5m' is not a share of requests: write 20% per "
        "5m\n"
        "policy_text:12:5: alert 'f' has no condition: add deny_rate, identity_denials, "
        "breaker_open, fallback or unanswered\n"
        "policy_text:13:27: alert 'g' has two conditions: make it two alerts\n"
        "policy_text:13:37: fallback '0' is not a number per time: write 0 per 1m\n"
        "policy_text:14:18: this is not the URL of a webhook: it cannot have a user or a "
        "password\n"
        "policy_text:15:23: the time of breaker_open must be from 1s to 1d\n"
        "policy_text:16:9: unknown key 'deny_rates' in an alert: did you mean 'deny_rate'?\n");
    expect_problems(ALERTS("  webhook: http://h/\n"), NULL,
                    "policy_text:5:3: alerts has no rules: add 'rules:'\n");
}

static void there_are_at_most_sixteen(void **state)
{
    (void)state;
    expect_problems(ALERTS("  rules:\n"
                           "    {a: {fallback: 0 per 1m}, b: {fallback: 0 per 1m},\n"
                           "     c: {fallback: 0 per 1m}, d: {fallback: 0 per 1m},\n"
                           "     e: {fallback: 0 per 1m}, f: {fallback: 0 per 1m},\n"
                           "     g: {fallback: 0 per 1m}, h: {fallback: 0 per 1m},\n"
                           "     i: {fallback: 0 per 1m}, j: {fallback: 0 per 1m},\n"
                           "     k: {fallback: 0 per 1m}, l: {fallback: 0 per 1m},\n"
                           "     m: {fallback: 0 per 1m}, n: {fallback: 0 per 1m},\n"
                           "     o: {fallback: 0 per 1m}, p: {fallback: 0 per 1m},\n"
                           "     q: {fallback: 0 per 1m}}\n"),
                    NULL, "policy_text:6:5: there are 17 alerts: at most 16\n");
}

static void out_of_memory_is_reported(void **state)
{
    struct loaded l;
    long n = 0;

    (void)state;
    do {
        load_from(&l, NULL, ALERTS("  webhook: http://h/\n  rules: {a: {fallback: 0 per 1m}}\n"),
                  NULL, n++);
        unload(&l);
    } while (l.err == WEIR_ENOMEM);
    assert_int_equal(l.err, WEIR_OK);
}

static void a_url_is_taken_apart(void **state)
{
    static const struct {
        const char *text, *host, *port, *path;
        bool is_tls;
    } good[] = {
        { "http://h", "h", "80", "", false },
        { "https://h", "h", "443", "", true },
        { "https://hooks.example:8443/a/b?c=d#e", "hooks.example", "8443", "/a/b?c=d", true },
        { "http://[2001:db8::1]:8080?x", "2001:db8::1", "8080", "?x", false },
        { "http://[::1]/", "::1", "80", "/", false },
    };
    static const char *const bad[] = {
        "",          "h",           "http://",        "http:///a",
        "http://h:", "http://h:0",  "http://h:65536", "http://h:1a",
        "http://[h", "http://[h]x", "http://a@h",     "http://h/\r\nX: y",
        "http://h/ä"
    };
    struct url url;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_null(url_read(span_of(good[i].text), &url));
        assert_string_equal(url.host, good[i].host);
        assert_string_equal(url.port, good[i].port);
        assert_true(span_is(url.path, good[i].path));
        assert_int_equal(url.is_tls, good[i].is_tls);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_non_null(url_read(span_of(bad[i]), &url));
}

static void a_uri_is_shown_without_its_passwords(void **state)
{
    static const struct {
        const char *uri, *shown;
    } all[] = {
        { "memory:", "memory:" },
        { "file:weir-data", "file:weir-data" },
        { "redis://h:6379/2", "redis://h:6379/2" },
        { "redis://:s3cr@t@h", "redis://:***@h" },
        { "rediss://weir:secret@a,b:1/0?deadline=1s", "rediss://weir:***@a,b:1/0?deadline=1s" },
        { "postgres://weir@h/db", "postgres://weir@h/db" },
        { "postgres://h/db?user=u&password=secret&deadline=1s",
          "postgres://h/db?user=u&password=***&deadline=1s" },
        { "redis+sentinel://h/m?sentinel_password=secret",
          "redis+sentinel://h/m?sentinel_password=***" },
    };
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf out;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_init(&out, &usual);
        uri_show(all[i].uri, &out);
        assert_string_equal(out.at, all[i].shown);
        buf_done(&out);
    }
}

#define FORTY "0123456789012345678901234567890123456789"
#define LONG_KEY FORTY FORTY FORTY "012345678" /* 129 */

static void a_webhook_has_a_format(void **state)
{
    struct loaded l;
    const struct alert *alerts;
    size_t count;

    (void)state;
    load(&l, ALERTS("  webhook: http://h/x\n"
                    "  format: slack\n"
                    "  rules:\n"
                    "    a: {breaker_open: 10s}\n"
                    "    b: {breaker_open: 10s, webhook: 'http://h/y'}\n"
                    "    c: {breaker_open: 10s, format: pagerduty, routing_key: R0}\n"
                    "    d: {breaker_open: 10s, webhook: 'http://h/z', format: discord}\n"));
    alerts = policies_alerts(l.set, &count);
    assert_int_equal(count, 4);
    assert_int_equal(alerts[0].format, WEBHOOK_SLACK);
    assert_int_equal(alerts[1].format, WEBHOOK_JSON);
    assert_int_equal(alerts[2].format, WEBHOOK_PAGERDUTY);
    assert_string_equal(alerts[2].routing_key, "R0");
    assert_string_equal(alerts[2].webhook, "http://h/x");
    assert_int_equal(alerts[3].format, WEBHOOK_DISCORD);
    unload(&l);
    expect_problems(
        ALERTS(
            "  rules:\n"
            "    a: {breaker_open: 10s, format: slack}\n"
            "    b: {breaker_open: 10s, webhook: 'http://h', format: pagerduty}\n"
            "    c: {breaker_open: 10s, webhook: 'http://h', routing_key: R0}\n"
            "    d: {breaker_open: 10s, webhook: 'http://h', format: slak}\n"
            "    e: {breaker_open: 10s, webhook: 'http://h', format: slack, routing_key: " LONG_KEY
            "}\n"),
        NULL,
        "policy_text:6:28: there is no webhook to send it to\n"
        "policy_text:7:49: PagerDuty needs a routing_key: that of the service\n"
        "policy_text:8:49: 'routing_key' belongs to 'format: pagerduty'\n"
        "policy_text:9:57: format 'slak' is unknown: did you mean 'slack'?\n"
        "policy_text:10:64: 'routing_key' belongs to 'format: pagerduty'\n"
        "policy_text:10:77: a routing_key has from 1 to 128 characters\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alerts_are_read_with_their_numbers),
        cmocka_unit_test(without_alerts_there_are_none),
        cmocka_unit_test(each_mistake_is_reported_with_its_place),
        cmocka_unit_test(there_are_at_most_sixteen),
        cmocka_unit_test(out_of_memory_is_reported),
        cmocka_unit_test(a_url_is_taken_apart),
        cmocka_unit_test(a_webhook_has_a_format),
        cmocka_unit_test(a_uri_is_shown_without_its_passwords),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
