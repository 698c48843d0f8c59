/* test_observer.c - what is counted of decisions, written out, and logged. */
#include "support/unit.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/handle.h"
#include "engine/named.h"
#include "server/metrics/metrics.h"
#include "server/metrics/observer_internal.h"
#include "server/metrics/prometheus.h"
#include "server/server.h"
#include "support/prometheus.h"
#include "support/temp_dir.h"

enum { LOOPS = 2 };

static const int64_t now = INT64_C(1700000000000);

static const char policies[] = "version: 1\n"
                               "policies:\n"
                               "  login: {limit: 2 per 15m, by: ip}\n"
                               "  multi:\n"
                               "    rules:\n"
                               "      all: {limit: 100 per 1m}\n"
                               "      ip: {limit: 1 per 1m, by: ip}\n"
                               "      try: {limit: 1 per 1m, by: ip, mode: shadow}\n"
                               "  beside: {limit: 5 per 1m, by: ip, shadow_limit: 1 per 1m}\n"
                               "  gone: {limit: 1 per 1s, mode: 'off'}\n"
                               "exempt: [{ip: 10.0.0.0/8}]\n";

/* A server as the observers see it, without its loops. */
struct fixture {
    struct temp_dir dir;
    char log_path[PATH_MAX];
    struct server server;
    struct observer *observers[LOOPS];
};

static struct fixture *fixture_of(const char *text)
{
    struct fixture *f = calloc(1, sizeof *f);
    const weir_options options = {
        .policy_text = text, .flags = WEIR_TRUST_NOW | WEIR_NO_THREAD | WEIR_IGNORE_ENVIRONMENT
    };
    weir_diag diag;

    assert_non_null(f);
    f->dir = temp_dir_make();
    snprintf(f->log_path, sizeof f->log_path, "%s/log", f->dir.path);
    if (weir_open(&f->server.weir, &options, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(event_log_open(f->log_path, &f->server.log, &diag), WEIR_OK);
    event_log_style(f->server.log, LOG_DEBUG, LOG_JSON);
    f->server.observers = f->observers;
    f->server.loops = calloc(LOOPS, sizeof *f->server.loops);
    assert_non_null(f->server.loops);
    f->server.loop_count = LOOPS;
    f->server.started_ms = now;
    for (int i = 0; i < LOOPS; i++) {
        f->observers[i] = observer_new(&f->server.weir->engine, f->server.log);
        assert_non_null(f->observers[i]);
    }
    return f;
}

/* The lines of the log as a list, to be released. */
static json_t *fixture_end(struct fixture *f)
{
    json_t *lines = json_array(), *line;
    FILE *log;

    for (int i = 0; i < LOOPS; i++)
        observer_free(f->observers[i]);
    event_log_close(f->server.log);
    weir_close(f->server.weir);
    log = fopen(f->log_path, "r");
    assert_non_null(log);
    while ((line = json_loadf(log, JSON_DISABLE_EOF_CHECK, NULL)))
        json_array_append_new(lines, line);
    fclose(log);
    temp_dir_remove(&f->dir);
    free(f->server.loops);
    free(f);
    return lines;
}

static void fixture_free(struct fixture *f)
{
    json_decref(fixture_end(f));
}

/* Ask, and let the observer of this loop see the answer. */
static weir_answer ask(struct fixture *f, int loop, enum verb verb, bool peek,
                       const weir_request *request, int64_t at)
{
    weir *w = f->server.weir;
    struct published_visit visit = published_enter(&w->policies);
    struct pending pending = { 0 };
    weir_answer answer;
    struct check_room room;
    struct check check = { .request = request,
                           .verb = verb,
                           .peek = peek,
                           .answer = &answer,
                           .room = &room,
                           .policies = visit.current };
    weir_diag diag;

    if (!engine_prepare(&w->engine, &check, &diag)) {
        engine_ask(&w->engine, &pending, &check, at);
        engine_commit(&w->engine, &pending);
    }
    observer_answer(f->observers[loop], &check, NULL, at);
    published_leave(&w->policies, visit);
    return answer;
}

static bool check_by(struct fixture *f, int loop, const char *policy, const char *ip, int64_t at)
{
    const weir_attribute attribute = { "ip", ip, 0 };
    const weir_request request = { .policy = policy,
                                   .attributes = &attribute,
                                   .attribute_count = 1 };
    const weir_answer a = ask(f, loop, VERB_CHECK, false, &request, at);

    assert_int_equal(a.err, WEIR_OK);
    return a.allowed;
}

static struct prometheus metrics_of(struct fixture *f)
{
    const weir_allocator usual = heap();
    struct prometheus_sink sink;
    struct buf text;
    struct prometheus p;

    buf_init(&text, &usual);
    prometheus_sink_init(&sink, &text);
    metrics_write(&f->server, &sink.sink);
    assert_false(text.failed);
    p = prometheus_read(text.at);
    buf_done(&text);
    return p;
}

static double decisions(const struct prometheus *p, const char *policy, const char *rule,
                        const char *outcome, const char *source)
{
    char series[512];

    snprintf(series, sizeof series,
             "weir_decisions_total{policy=\"%s\",rule=\"%s\",outcome=\"%s\",source=\"%s\"}", policy,
             rule, outcome, source);
    return prometheus_value(p, series);
}

static double checks(const struct prometheus *p, const char *policy, const char *outcome,
                     const char *source)
{
    char series[512];

    snprintf(series, sizeof series, "weir_checks_total{policy=\"%s\",outcome=\"%s\",source=\"%s\"}",
             policy, outcome, source);
    return prometheus_value(p, series);
}

#define assert_value(value, expected) assert_int_equal((int64_t)(value), (int64_t)(expected))

/* ---- counting ------------------------------------------------------------------------------ */

static void each_rule_of_an_answer_is_counted_over_all_loops(void **state)
{
    struct fixture *f = fixture_of(policies);
    struct prometheus p;

    (void)state;
    for (int i = 0; i < 5; i++)
        check_by(f, i % LOOPS, "login", "192.0.2.1", now);
    for (int i = 0; i < 3; i++)
        check_by(f, i % LOOPS, "multi", "192.0.2.1", now);
    check_by(f, 1, "beside", "192.0.2.1", now);
    check_by(f, 1, "beside", "192.0.2.1", now);
    p = metrics_of(f);
    assert_value(decisions(&p, "login", "default", "allowed", "store"), 2);
    assert_value(decisions(&p, "login", "default", "denied", "store"), 3);
    assert_value(decisions(&p, "multi", "ip", "allowed", "store"), 1);
    assert_value(decisions(&p, "multi", "ip", "denied", "store"), 2);
    assert_value(decisions(&p, "beside", "default", "allowed", "store"), 1);
    assert_value(decisions(&p, "beside", "default", "shadow_denied", "store"), 1);
    prometheus_done(&p);
    fixture_free(f);
}

/* Rules that would have let a refused check pass have allowed nothing. */
static void a_check_denied_by_one_of_many_rules_is_one_denied_check(void **state)
{
    struct fixture *f = fixture_of(policies);
    struct prometheus p;

    (void)state;
    for (int i = 0; i < 10; i++) {
        char ip[32];

        snprintf(ip, sizeof ip, "192.0.2.%d", i % 3);
        assert_int_equal(check_by(f, i % LOOPS, "multi", ip, now), i < 3);
    }
    check_by(f, 1, "beside", "192.0.2.1", now);
    check_by(f, 1, "beside", "192.0.2.1", now);
    p = metrics_of(f);
    assert_value(checks(&p, "multi", "allowed", "store"), 3);
    assert_value(checks(&p, "multi", "denied", "store"), 7);
    assert_value(checks(&p, "multi", "shadow_denied", "store"), 0);
    assert_value(decisions(&p, "multi", "all", "allowed", "store"), 3);
    assert_value(decisions(&p, "multi", "all", "denied", "store"), 0);
    assert_value(decisions(&p, "multi", "ip", "allowed", "store"), 3);
    assert_value(decisions(&p, "multi", "ip", "denied", "store"), 7);
    assert_value(decisions(&p, "multi", "try", "allowed", "store"), 3);
    assert_value(decisions(&p, "multi", "try", "shadow_denied", "store"), 0);
    assert_value(checks(&p, "beside", "allowed", "store"), 1);
    assert_value(checks(&p, "beside", "shadow_denied", "store"), 1);
    prometheus_done(&p);
    fixture_free(f);
}

static void charges_and_what_was_used_are_counted(void **state)
{
    struct fixture *f = fixture_of("version: 1\n"
                                   "policies:\n"
                                   "  model:\n"
                                   "    by: ip\n"
                                   "    rules:\n"
                                   "      calls: {limit: 3 per 1h}\n"
                                   "      tokens: {limit: 100 per 1h, counts: tokens}\n"
                                   "      try: {limit: 1 per 1h, counts: tokens, mode: shadow}\n"
                                   "exempt: [{ip: 10.0.0.0/8}]\n");
    const weir_cost tokens = { "tokens", 40 };
    weir_attribute ip = { "ip", "192.0.2.1", 0 };
    const weir_request request = { .policy = "model",
                                   .attributes = &ip,
                                   .attribute_count = 1,
                                   .costs = &tokens,
                                   .cost_count = 1 };
    struct prometheus p;

    (void)state;
    p = metrics_of(f);
    assert_value(prometheus_value(&p, "weir_charges_total{policy=\"model\",source=\"store\"}"), 0);
    assert_value(
        prometheus_value(&p, "weir_used_total{policy=\"model\",rule=\"tokens\",counts=\"tokens\"}"),
        0);
    prometheus_done(&p);
    for (int i = 0; i < 3; i++) /* the third is denied */
        ask(f, i % LOOPS, VERB_CHECK, false, &request, now);
    ask(f, 0, VERB_CHARGE, false, &request, now);
    ask(f, 0, VERB_CHECK, true, &request, now);
    ask(f, 0, VERB_REFUND, false, &request, now);
    ip.value = "10.0.0.1";
    ask(f, 0, VERB_CHARGE, false, &request, now);
    p = metrics_of(f);
    assert_value(checks(&p, "model", "shadow_denied", "store"), 2);
    assert_value(prometheus_value(&p, "weir_charges_total{policy=\"model\",source=\"store\"}"), 1);
    assert_value(prometheus_value(&p, "weir_charges_total{policy=\"model\",source=\"exempt\"}"), 1);
    assert_value(
        prometheus_value(&p, "weir_used_total{policy=\"model\",rule=\"tokens\",counts=\"tokens\"}"),
        120);
    assert_value(prometheus_value(
                     &p, "weir_used_total{policy=\"model\",rule=\"calls\",counts=\"requests\"}"),
                 3);
    assert_value(
        prometheus_value(&p, "weir_used_total{policy=\"model\",rule=\"try\",counts=\"tokens\"}"),
        0);
    prometheus_done(&p);
    fixture_free(f);
}

static void a_check_of_several_policies_is_one_of_each(void **state)
{
    static const char *const names[] = { "login", "beside" };
    const weir_attribute attribute = { "ip", "192.0.2.1", 0 };
    const weir_request request = {
        .policies = names, .policy_count = 2, .attributes = &attribute, .attribute_count = 1
    };
    struct fixture *f = fixture_of(policies);
    struct prometheus p;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(f, 0, VERB_CHECK, false, &request, now).allowed, i < 2);
    p = metrics_of(f);
    for (int i = 0; i < 2; i++) {
        assert_value(checks(&p, names[i], "allowed", "store"), 1);
        assert_value(checks(&p, names[i], "shadow_denied", "store"), 1);
        assert_value(checks(&p, names[i], "denied", "store"), 1);
    }
    assert_value(decisions(&p, "login", "default", "denied", "store"), 1);
    assert_value(decisions(&p, "beside", "default", "denied", "store"), 0);
    prometheus_done(&p);
    fixture_free(f);
}

static void unused_policies_are_reported_with_zero(void **state)
{
    struct fixture *f = fixture_of(policies);
    struct prometheus p;
    size_t count = 0;

    (void)state;
    p = metrics_of(f);
    assert_value(checks(&p, "login", "allowed", "store"), 0);
    assert_value(checks(&p, "login", "denied", "blocked"), 0);
    assert_value(checks(&p, "multi", "shadow_denied", "fallback"), 0);
    assert_value(checks(&p, "(unnamed)", "denied", "store"), 0);
    assert_value(decisions(&p, "multi", "ip", "denied", "cache"), 0);
    assert_value(decisions(&p, "multi", "try", "shadow_denied", "store"), 0);
    assert_value(checks(&p, "(other)", "allowed", "store"), -1);
    for (size_t i = 0; i < p.series_count; i++)
        count += strstr(p.series[i], "weir_checks_total{") != NULL;
    assert_int_equal(count, (4 + 1) * 12);
    prometheus_done(&p);
    fixture_free(f);
}

static void decisions_without_a_rule_are_counted_by_source(void **state)
{
    struct fixture *f = fixture_of(policies);
    const weir_request unnamed = { .key = "k", .limit = 1, .window_ms = 1000 };
    const weir_request unknown = { .policy = "none", .key = "k" };
    struct prometheus p;

    (void)state;
    check_by(f, 0, "login", "10.1.2.3", now);
    check_by(f, 0, "gone", "192.0.2.1", now);
    assert_true(ask(f, 0, VERB_CHECK, false, &unnamed, now).allowed);
    assert_false(ask(f, 1, VERB_CHECK, false, &unnamed, now).allowed);
    assert_int_equal(ask(f, 1, VERB_CHECK, false, &unknown, now).err, WEIR_ENOPOLICY);
    p = metrics_of(f);
    assert_value(checks(&p, "login", "allowed", "exempt"), 1);
    assert_value(checks(&p, "gone", "allowed", "off"), 1);
    assert_value(decisions(&p, "login", "default", "allowed", "exempt"), -1);
    assert_value(decisions(&p, "gone", "default", "allowed", "off"), -1);
    assert_value(checks(&p, "(unnamed)", "allowed", "store"), 1);
    assert_value(checks(&p, "(unnamed)", "denied", "store"), 1);
    assert_value(decisions(&p, "(unnamed)", "default", "allowed", "store"), 1);
    assert_value(decisions(&p, "(unnamed)", "default", "denied", "store"), 1);
    assert_value(prometheus_value(&p,
                                  "weir_unanswered_checks_total{code=\"no_such_policy\",protocol="
                                  "\"http\"}"),
                 0);
    prometheus_done(&p);
    fixture_free(f);
}

static void peeks_refunds_and_resets_are_no_decisions(void **state)
{
    struct fixture *f = fixture_of(policies);
    const weir_request request = { .policy = "login", .key = "192.0.2.1" };
    struct prometheus p;

    (void)state;
    ask(f, 0, VERB_CHECK, true, &request, now);
    ask(f, 0, VERB_REFUND, false, &request, now);
    ask(f, 0, VERB_RESET, false, &request, now);
    p = metrics_of(f);
    for (size_t i = 0; i < p.series_count; i++)
        if (strstr(p.series[i], "weir_decisions_total{") ||
            strstr(p.series[i], "weir_checks_total{"))
            assert_value(p.values[i], 0);
    prometheus_done(&p);
    fixture_free(f);
}

static void a_reload_keeps_the_counts(void **state)
{
    struct fixture *f = fixture_of(policies);
    struct prometheus p;
    weir_diag diag;

    (void)state;
    check_by(f, 0, "login", "192.0.2.1", now);
    assert_int_equal(weir_reload(f->server.weir, &diag), WEIR_OK);
    check_by(f, 0, "login", "192.0.2.1", now);
    p = metrics_of(f);
    assert_value(decisions(&p, "login", "default", "allowed", "store"), 2);
    prometheus_done(&p);
    fixture_free(f);
}

static void ever_new_names_end_in_one_series_for_all_others(void **state)
{
    static char names[DECISION_COUNTS_MOST + 100][16];
    struct fixture *f = fixture_of(policies);
    weir_answer answer = { .allowed = true,
                           .rule_count = 1,
                           .rules = { { .rule = "default", .allowed = true } } };
    const struct check check = { .verb = VERB_CHECK, .answer = &answer };
    struct prometheus p;

    (void)state;
    for (int i = 0; i < DECISION_COUNTS_MOST + 100; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        answer.policy = answer.rules[0].policy = names[i];
        for (int loop = 0; loop < LOOPS; loop++)
            observer_answer(f->observers[loop], &check, NULL, now);
    }
    p = metrics_of(f);
    assert_value(decisions(&p, "p0", "default", "allowed", "store"), LOOPS);
    /* Those in force have their places. */
    assert_value(decisions(&p, "(other)", "(other)", "allowed", "store"), LOOPS * (102 + 6));
    assert_value(checks(&p, "(other)", "allowed", "store"), LOOPS * (102 + 4));
    prometheus_done(&p);
    fixture_free(f);
}

static void names_that_callers_make_up_leave_policies_their_series(void **state)
{
    static char names[NAMED_MOST][16];
    struct fixture *f = fixture_of(policies);
    weir_answer answer = { .allowed = true,
                           .rule_count = 1,
                           .rules = { { .rule = "default", .allowed = true } } };
    const struct check check = { .verb = VERB_CHECK, .answer = &answer };
    struct prometheus p;

    (void)state;
    for (int i = 0; i < NAMED_MOST; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        answer.policy = answer.rules[0].policy = names[i];
        observer_answer(f->observers[0], &check, NULL, now);
    }
    answer.policy = answer.rules[0].policy = "late";
    observer_answer(f->observers[0], &check, NULL, now);
    p = metrics_of(f);
    assert_value(decisions(&p, "late", "default", "allowed", "store"), 1);
    assert_value(checks(&p, "late", "allowed", "store"), 1);
    prometheus_done(&p);
    fixture_free(f);
}

static void times_and_sizes_go_into_their_buckets(void **state)
{
    struct fixture *f = fixture_of(policies);
    struct prometheus p;

    (void)state;
    observer_time(f->observers[0], 1000, 3);
    observer_time(f->observers[1], 1001, 2);
    observer_time(f->observers[1], UINT64_C(2000000000), 1);
    observer_commit(f->observers[0], 700000, 16);
    observer_commit(f->observers[1], 30, 17);
    p = metrics_of(f);
    assert_value(prometheus_value(&p, "weir_decision_seconds_bucket{le=\"0.000001\"}"), 3);
    assert_value(prometheus_value(&p, "weir_decision_seconds_bucket{le=\"0.0000025\"}"), 5);
    assert_value(prometheus_value(&p, "weir_decision_seconds_bucket{le=\"1\"}"), 5);
    assert_value(prometheus_value(&p, "weir_decision_seconds_bucket{le=\"+Inf\"}"), 6);
    assert_value(prometheus_value(&p, "weir_decision_seconds_sum") * 1e9 + 0.5, 2000005002);
    assert_value(prometheus_value(&p, "weir_store_batch_size_bucket{le=\"16\"}"), 1);
    assert_value(prometheus_value(&p, "weir_store_batch_size_sum"), 33);
    assert_value(prometheus_value(&p, "weir_journal_sync_seconds_bucket{le=\"0.0005\"}"), 1);
    assert_value(prometheus_value(&p, "weir_journal_sync_seconds_count"), 2);
    prometheus_done(&p);
    fixture_free(f);
}

static void the_numbers_of_the_server_are_there(void **state)
{
    struct fixture *f = fixture_of(policies);
    struct prometheus p;

    (void)state;
    check_by(f, 0, "login", "192.0.2.1", now);
    observer_request(f->observers[0], PROTOCOL_HTTP, 200);
    observer_request(f->observers[1], PROTOCOL_HTTP, 200);
    observer_request(f->observers[1], PROTOCOL_HTTP, 429);
    observer_request(f->observers[1], PROTOCOL_HTTP, 99999); /* is none */
    observer_request(f->observers[0], PROTOCOL_RESP, 0);
    observer_request(f->observers[0], PROTOCOL_RESP, 1);
    atomic_store(&f->server.connections, 7);
    atomic_store(&f->server.reload_failures, 3);
    p = metrics_of(f);
    assert_value(prometheus_value(&p, "weir_build_info{version=\"0.1.0\"}"), 1);
    assert_value(prometheus_value(&p, "weir_keys"), 1);
    assert_value(prometheus_value(&p, "weir_evicted_keys_total"), 0);
    assert_value(prometheus_value(&p, "weir_store_errors_total"), 0);
    assert_value(prometheus_value(&p, "weir_breaker_open"), 0);
    assert_value(prometheus_value(&p, "weir_connections"), 7);
    assert_value(prometheus_value(&p, "weir_policy_reload_failures_total"), 3);
    assert_value(prometheus_value(&p, "weir_log_dropped_total"), 0);
    assert_value(prometheus_value(&p, "weir_requests_total{protocol=\"http\",status=\"200\"}"), 2);
    assert_value(prometheus_value(&p, "weir_requests_total{protocol=\"http\",status=\"429\"}"), 1);
    assert_value(prometheus_value(&p, "weir_requests_total{protocol=\"resp\",status=\"ok\"}"), 1);
    assert_value(prometheus_value(&p, "weir_requests_total{protocol=\"resp\",status=\"error\"}"),
                 1);
    assert_value(prometheus_value(&p, "process_start_time_seconds"), now / 1000);
    assert_true(prometheus_value(&p, "process_cpu_seconds_total") > 0);
    assert_in_range(prometheus_value(&p, "process_open_fds"), 3, 100);
    assert_true(prometheus_value(&p, "process_max_fds") > 100);
    assert_true(prometheus_value(&p, "process_virtual_memory_bytes") >
                prometheus_value(&p, "process_resident_memory_bytes"));
    assert_true(prometheus_value(&p, "process_resident_memory_bytes") > 1 << 20);
    prometheus_done(&p);
    fixture_free(f);
}

static void labels_are_escaped(void **state)
{
    const weir_allocator usual = heap();
    struct prometheus_sink p;
    struct buf text;

    (void)state;
    buf_init(&text, &usual);
    prometheus_sink_init(&p, &text);
    metric_begin(&p.sink, METRIC_GAUGE, "m", "Help.");
    metric_sample(&p.sink);
    metric_label(&p.sink, "a", "\\ \" \n.");
    metric_label(&p.sink, "b", "");
    metric_value(&p.sink, UINT64_MAX);
    assert_string_equal(text.at, "# HELP m Help.\n# TYPE m gauge\n"
                                 "m{a=\"\\\\ \\\" \\n.\",b=\"\"} 18446744073709551615\n");
    buf_done(&text);
}

static void assert_counts(const json_t *stats, const char *member, const char *policy, int allowed,
                          int denied, int shadow_denied)
{
    const json_t *one = NULL;
    size_t i;

    json_array_foreach(json_object_get(stats, member), i,
                       one) if (strcmp(json_string_value(json_object_get(one, "policy")), policy) ==
                                0) break;
    assert_non_null(one);
    assert_int_equal(json_integer_value(json_object_get(one, "allowed")), allowed);
    assert_int_equal(json_integer_value(json_object_get(one, "denied")), denied);
    assert_int_equal(json_integer_value(json_object_get(one, "shadow_denied")), shadow_denied);
}

static void stats_are_one_object(void **state)
{
    const weir_allocator usual = heap();
    struct fixture *f = fixture_of(policies);
    struct buf text;
    json_t *stats;

    (void)state;
    for (int i = 0; i < 3; i++)
        check_by(f, i % LOOPS, "login", "192.0.2.1", now);
    for (int i = 0; i < 2; i++)
        check_by(f, 0, "beside", "192.0.2.1", now);
    observer_time(f->observers[0], 3000, 3);
    buf_init(&text, &usual);
    stats_write(&f->server, &text);
    stats = json_loads(text.at, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(stats);
    assert_int_equal(json_array_size(json_object_get(stats, "checks")), 4);
    assert_int_equal(json_array_size(json_object_get(stats, "rules")), 6);
    assert_counts(stats, "checks", "login", 2, 1, 0);
    assert_counts(stats, "rules", "login", 2, 1, 0);
    assert_counts(stats, "checks", "beside", 2, 0, 1);
    assert_counts(stats, "checks", "gone", 0, 0, 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(stats, "store"), "keys")),
                     3);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(stats, "decision_ns"), "p99")), 5000);
    json_decref(stats);
    buf_done(&text);
    fixture_free(f);
}

/* ---- most denied identities ---------------------------------------------------------------- */

static json_t *top_of(struct fixture *f, size_t count, const char *policy, int64_t at)
{
    const weir_allocator usual = heap();
    struct buf text;
    json_t *top;

    buf_init(&text, &usual);
    observers_top_at(f->observers, LOOPS, count, policy, at, &text);
    top = json_loads(text.at, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(top);
    buf_done(&text);
    return top;
}

static void assert_top(const json_t *top, size_t i, const char *policy, const char *rule,
                       int denied)
{
    const json_t *e = json_array_get(top, i);

    assert_string_equal(json_string_value(json_object_get(e, "policy")), policy);
    assert_string_equal(json_string_value(json_object_get(e, "rule")), rule);
    assert_int_equal(json_integer_value(json_object_get(e, "denied")), denied);
    assert_int_equal(json_integer_value(json_object_get(e, "error")), 0);
    assert_int_equal(strlen(json_string_value(json_object_get(e, "tag"))), TAG_HEX);
}

static void the_top_is_over_all_loops_and_has_no_identities(void **state)
{
    struct fixture *f = fixture_of(policies);
    json_t *top;
    char *text;

    (void)state;
    for (int i = 0; i < 12; i++)
        check_by(f, i % LOOPS, "login", "192.0.2.1", now + i);
    for (int i = 0; i < 7; i++)
        check_by(f, 0, "login", "192.0.2.2", now);
    for (int i = 0; i < 4; i++)
        check_by(f, 1, "multi", "192.0.2.2", now);
    top = top_of(f, 10, NULL, now);
    assert_int_equal(json_array_size(top), 3);
    assert_top(top, 0, "login", "default", 10);
    assert_top(top, 1, "login", "default", 5);
    assert_top(top, 2, "multi", "ip", 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(top, 0), "last_ms")),
                     now + 11);
    text = json_dumps(top, 0);
    assert_null(strstr(text, "192.0.2"));
    free(text);
    json_decref(top);

    top = top_of(f, 1, NULL, now);
    assert_int_equal(json_array_size(top), 1);
    json_decref(top);
    top = top_of(f, 10, "multi", now);
    assert_int_equal(json_array_size(top), 1);
    assert_top(top, 0, "multi", "ip", 3);
    json_decref(top);
    top = top_of(f, 10, NULL, now + 100 * (int64_t)TOP_HALVED_MS); /* long over */
    assert_int_equal(json_array_size(top), 0);
    json_decref(top);
    fixture_free(f);
}

/* ---- the log ---------------------------------------------------------------------------------- */

static size_t count_lines(const json_t *lines, const char *member)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(lines); i++)
        n += json_object_get(json_array_get(lines, i), member) != NULL;
    return n;
}

static int64_t sum_of_left_out(const json_t *lines)
{
    int64_t n = 0;

    for (size_t i = 0; i < json_array_size(lines); i++)
        n += json_integer_value(json_object_get(json_array_get(lines, i), "left_out"));
    return n;
}

static void the_first_hit_and_the_first_denial_of_a_window_are_logged(void **state)
{
    const int64_t window = 15 * 60 * 1000;
    struct fixture *f = fixture_of(policies);
    json_t *lines, *line;
    char *text;

    (void)state;
    for (int i = 0; i < 2; i++)
        check_by(f, 0, "login", "192.0.2.1", now);
    assert_false(check_by(f, 0, "login", "192.0.2.1", now));
    for (int i = 0; i < 2; i++) /* the next window: what was logged is past */
        check_by(f, 0, "login", "192.0.2.1", now + window);
    assert_false(check_by(f, 0, "login", "192.0.2.1", now + window));
    lines = fixture_end(f);
    assert_int_equal(json_array_size(lines), 4);
    assert_int_equal(count_lines(lines, "first"), 2);
    for (size_t i = 0; i < 4; i += 2) {
        line = json_array_get(lines, i);
        assert_string_equal(json_string_value(json_object_get(line, "event")), "first-hit");
        assert_string_equal(json_string_value(json_object_get(line, "level")), "debug");
        assert_string_equal(json_string_value(json_object_get(line, "scope")), "login");
        assert_string_equal(json_string_value(json_object_get(line, "user_hash")),
                            json_string_value(json_object_get(line, "tag")));
        assert_true(json_integer_value(json_object_get(line, "reset_at_ms")) >= now + window);
        assert_null(json_object_get(line, "rate_limit"));
        assert_int_equal(json_integer_value(json_object_get(line, "remaining")), 1);
    }
    line = json_array_get(lines, 1);
    assert_string_equal(json_string_value(json_object_get(line, "event")), "denied");
    assert_string_equal(json_string_value(json_object_get(line, "policy")), "login");
    assert_string_equal(json_string_value(json_object_get(line, "rule")), "default");
    assert_int_equal(json_integer_value(json_object_get(line, "limit")), 2);
    assert_int_equal(json_integer_value(json_object_get(line, "retry_after_ms")), window);
    assert_true(json_is_true(json_object_get(line, "rate_limit")));
    assert_string_equal(json_string_value(json_object_get(line, "scope")), "login");
    assert_string_equal(json_string_value(json_object_get(line, "user_hash")),
                        json_string_value(json_object_get(line, "tag")));
    assert_int_equal(json_integer_value(json_object_get(line, "remaining")), 0);
    assert_string_equal(json_string_value(json_object_get(line, "reset_at")),
                        "2023-11-14T22:28:20.000Z");
    assert_int_equal(json_integer_value(json_object_get(line, "reset_at_ms")), now + window);
    assert_int_equal(json_integer_value(json_object_get(line, "reset_after_ms")), window);
    assert_int_equal(strlen(json_string_value(json_object_get(line, "tag"))), TAG_HEX);
    assert_string_equal(json_string_value(json_object_get(line, "tag")),
                        json_string_value(json_object_get(json_array_get(lines, 2), "tag")));
    text = json_dumps(lines, 0);
    assert_null(strstr(text, "192.0.2"));
    free(text);
    json_decref(lines);
}

/* As redis-cell counts; what remains may be infinite there, and so may be the window of a limit of
 * 0 that comes with its request. */
static bool throttle(struct fixture *f, int64_t capacity, int64_t count, int64_t period,
                     int64_t quantity, int64_t at)
{
    weir *w = f->server.weir;
    struct published_visit visit = published_enter(&w->policies);
    struct pending pending = { 0 };
    weir_answer answer;
    struct check check = { .answer = &answer, .policies = visit.current };
    struct rule rule;
    weir_diag diag;

    assert_int_equal(cell_rule(capacity, count, period, &rule, &diag), WEIR_OK);
    assert_int_equal(engine_prepare_cell(&w->engine, &check, span_of("k"), &rule, quantity, &diag),
                     WEIR_OK);
    engine_ask(&w->engine, &pending, &check, at);
    engine_commit(&w->engine, &pending);
    observer_answer(f->observers[0], &check, NULL, at);
    published_leave(&w->policies, visit);
    return answer.allowed;
}

static void numbers_that_fill_all_bits_are_logged_like_others(void **state)
{
    const weir_request never = { .key = "k", .limit = 0, .window_ms = INT64_MAX };
    struct fixture *f = fixture_of(policies);
    json_t *lines;

    (void)state;
    assert_true(throttle(f, 101, 10000000, 1, 59, now));
    for (int i = 0; i < 2; i++)
        assert_false(ask(f, 0, VERB_CHECK, false, &never, now + 2000 * i).allowed);
    lines = fixture_end(f);
    assert_int_equal(count_lines(lines, "first"), 1);
    assert_int_equal(count_lines(lines, "retry_after_ms"), 2);
    json_decref(lines);
}

/* One a minute with room for ten: its window is ten minutes, and not one unit's interval in ns. */
static void the_window_of_a_cell_is_what_fills_it(void **state)
{
    struct fixture *f = fixture_of(policies);
    const int64_t minute = 60 * 1000;
    json_t *lines;

    (void)state;
    assert_true(throttle(f, 10, 1, 60, 10, now));
    assert_false(throttle(f, 10, 1, 60, 10, now + 1));
    assert_false(throttle(f, 10, 1, 60, 10, now + 9 * minute));
    assert_true(throttle(f, 10, 1, 60, 10, now + 10 * minute));
    assert_false(throttle(f, 10, 1, 60, 10, now + 11 * minute));
    lines = fixture_end(f);
    assert_int_equal(count_lines(lines, "first"), 2);
    assert_int_equal(count_lines(lines, "retry_after_ms"), 3);
    json_decref(lines);
}

static void a_flood_of_one_identity_is_sampled_and_counted(void **state)
{
    struct fixture *f = fixture_of(policies);
    json_t *lines;

    (void)state;
    for (int i = 0; i < 1002; i++)
        check_by(f, 0, "login", "192.0.2.1", now);
    for (int i = 0; i < 1000; i++)
        check_by(f, 0, "login", "192.0.2.1", now + 1000);
    lines = fixture_end(f);
    assert_int_equal(count_lines(lines, "first"), 1);
    assert_int_equal(count_lines(lines, "retry_after_ms"),
                     1 + 2 * decision_log_a_second[LINE_DENIAL]);
    assert_int_equal(sum_of_left_out(lines) + (int64_t)count_lines(lines, "retry_after_ms"), 2000);
    json_decref(lines);
}

static void a_flood_of_many_identities_is_bounded_too(void **state)
{
    struct fixture *f = fixture_of("version: 1\npolicies: {closed: {limit: 0, by: user}}\n");
    json_t *lines;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        char user[16];
        const weir_request request = { .policy = "closed", .key = user };

        snprintf(user, sizeof user, "u%d", i);
        assert_false(ask(f, 0, VERB_CHECK, false, &request, now).allowed);
    }
    lines = fixture_end(f);
    assert_int_equal(count_lines(lines, "retry_after_ms"),
                     decision_log_a_second[LINE_FIRST_DENIAL]);
    assert_int_equal(sum_of_left_out(lines), 5000 - decision_log_a_second[LINE_FIRST_DENIAL]);
    json_decref(lines);
}

/* ---- read while it is written ----------------------------------------------------------------- */

struct reading {
    struct fixture *f;
    atomic_bool stop;
    atomic_long read;
};

static void *read_on(void *ctx)
{
    struct reading *r = ctx;
    double last = 0;

    while (!atomic_load(&r->stop)) {
        struct prometheus p = metrics_of(r->f);
        const double denied = decisions(&p, "login", "default", "denied", "store");

        assert_true(denied >= last || denied == -1);
        last = denied >= 0 ? denied : last;
        prometheus_done(&p);
        json_decref(top_of(r->f, 10, NULL, now));
        atomic_fetch_add(&r->read, 1);
    }
    return NULL;
}

static void others_may_read_while_a_loop_counts(void **state)
{
    struct reading r = { .f = fixture_of(policies) };
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    for (int i = scaled(20000); i > 0 || atomic_load(&r.read) < 3; i--) {
        char ip[32];

        snprintf(ip, sizeof ip, "192.0.2.%d", i & 127);
        check_by(r.f, 0, i % 3 ? "login" : "multi", ip, now);
        observer_time(r.f->observers[0], (uint64_t)i & 0xffff, 1);
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    fixture_free(r.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_of_an_answer_is_counted_over_all_loops),
        cmocka_unit_test(a_check_denied_by_one_of_many_rules_is_one_denied_check),
        cmocka_unit_test(charges_and_what_was_used_are_counted),
        cmocka_unit_test(a_check_of_several_policies_is_one_of_each),
        cmocka_unit_test(unused_policies_are_reported_with_zero),
        cmocka_unit_test(decisions_without_a_rule_are_counted_by_source),
        cmocka_unit_test(peeks_refunds_and_resets_are_no_decisions),
        cmocka_unit_test(a_reload_keeps_the_counts),
        cmocka_unit_test(ever_new_names_end_in_one_series_for_all_others),
        cmocka_unit_test(names_that_callers_make_up_leave_policies_their_series),
        cmocka_unit_test(times_and_sizes_go_into_their_buckets),
        cmocka_unit_test(the_numbers_of_the_server_are_there),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(stats_are_one_object),
        cmocka_unit_test(the_top_is_over_all_loops_and_has_no_identities),
        cmocka_unit_test(the_first_hit_and_the_first_denial_of_a_window_are_logged),
        cmocka_unit_test(numbers_that_fill_all_bits_are_logged_like_others),
        cmocka_unit_test(the_window_of_a_cell_is_what_fills_it),
        cmocka_unit_test(a_flood_of_one_identity_is_sampled_and_counted),
        cmocka_unit_test(a_flood_of_many_identities_is_bounded_too),
        cmocka_unit_test(others_may_read_while_a_loop_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
