/* test_otlp.c - metrics and spans in the JSON of OTLP, and how much of it there can be. */
#include "support/unit.h"

#include <jansson.h>

#include "server/telemetry/otlp.h"

static const char resource[] = "{\"attributes\":[]}";

/* What is at this path, `/` between names and places in lists. */
static const json_t *at(const json_t *from, const char *path)
{
    while (*path && from) {
        const size_t len = strcspn(path, "/");
        char name[64];

        assert_true(len < sizeof name);
        memcpy(name, path, len);
        name[len] = '\0';
        from = json_is_array(from) ? json_array_get(from, (size_t)atoi(name))
                                   : json_object_get(from, name);
        path += len + (path[len] == '/');
    }
    return from;
}

static const char *text_at(const json_t *from, const char *path)
{
    const json_t *found = at(from, path);

    if (!json_is_string(found))
        fail_msg("no text at %s", path);
    return json_string_value(found);
}

static json_t *parse(const struct buf *body)
{
    json_error_t wrong;
    json_t *json;

    assert_false(body->failed);
    json = json_loadb(body->at, body->len, JSON_REJECT_DUPLICATES, &wrong);
    if (!json)
        fail_msg("%s at %d", wrong.text, wrong.position);
    return json;
}

static void counters_gauges_and_histograms_have_their_shapes(void **state)
{
    struct otlp_bodies bodies;
    struct otlp_metrics m;
    struct histogram h;
    const json_t *all;
    json_t *json;

    (void)state;
    otlp_bodies_init(&bodies);
    otlp_metrics_begin(&m, &bodies, resource, 1000, UINT64_C(18000000000000000001));
    metric_begin(&m.sink, METRIC_COUNTER, "weir_none_total", "Has no sample.");
    metric_begin(&m.sink, METRIC_COUNTER, "weir_a_total", "Help.");
    metric_sample(&m.sink);
    metric_label(&m.sink, "policy", "log\"in");
    metric_label(&m.sink, "outcome", "denied");
    metric_value(&m.sink, UINT64_C(9007199254740993));
    metric_sample(&m.sink);
    metric_value(&m.sink, 2);
    metric_alone(&m.sink, METRIC_GAUGE, "weir_b_bytes", "Bytes.", 7);
    metric_begin(&m.sink, METRIC_COUNTER, "cpu_seconds_total", "Time.");
    metric_sample(&m.sink);
    metric_fraction(&m.sink, 1500000, 1000000);
    histogram_init(&h, &histogram_times);
    histogram_add(&h, 1000, 3);
    histogram_add(&h, UINT64_C(5000000000), 1);
    metric_histogram(&m.sink, "weir_c_seconds", "Times.", &h, 1000000000);
    otlp_metrics_end(&m);
    assert_int_equal(bodies.count, 1);
    json = parse(&bodies.all[0]);
    assert_string_equal(text_at(json, "resourceMetrics/0/scopeMetrics/0/scope/name"), "weir");
    all = at(json, "resourceMetrics/0/scopeMetrics/0/metrics");
    assert_int_equal(json_array_size(all), 4);
    assert_string_equal(text_at(all, "0/name"), "weir_a_total");
    assert_int_equal(json_integer_value(at(all, "0/sum/aggregationTemporality")), 2);
    assert_true(json_is_true(at(all, "0/sum/isMonotonic")));
    assert_string_equal(text_at(all, "0/sum/dataPoints/0/attributes/0/value/stringValue"),
                        "log\"in");
    assert_string_equal(text_at(all, "0/sum/dataPoints/0/attributes/1/key"), "outcome");
    assert_string_equal(text_at(all, "0/sum/dataPoints/0/startTimeUnixNano"), "1000");
    assert_string_equal(text_at(all, "0/sum/dataPoints/0/timeUnixNano"), "18000000000000000001");
    assert_string_equal(text_at(all, "0/sum/dataPoints/0/asInt"), "9007199254740993");
    assert_null(at(all, "0/sum/dataPoints/1/attributes"));
    assert_string_equal(text_at(all, "1/gauge/dataPoints/0/asInt"), "7");
    assert_string_equal(text_at(all, "1/unit"), "By");
    assert_null(at(all, "1/gauge/dataPoints/0/startTimeUnixNano"));
    assert_string_equal(text_at(all, "2/unit"), "s");
    assert_true(json_real_value(at(all, "2/sum/dataPoints/0/asDouble")) == 1.5);
    assert_string_equal(text_at(all, "3/histogram/dataPoints/0/count"), "4");
    assert_true(json_real_value(at(all, "3/histogram/dataPoints/0/sum")) == 5.000003);
    assert_int_equal(json_array_size(at(all, "3/histogram/dataPoints/0/explicitBounds")) + 1,
                     json_array_size(at(all, "3/histogram/dataPoints/0/bucketCounts")));
    assert_string_equal(text_at(all, "3/histogram/dataPoints/0/bucketCounts/0"), "3");
    json_decref(json);
    otlp_bodies_done(&bodies);
}

static size_t points_of(const struct buf *body)
{
    json_t *json = parse(body);
    const json_t *metrics = at(json, "resourceMetrics/0/scopeMetrics/0/metrics"), *metric;
    size_t i, n = 0;

    json_array_foreach(metrics, i, metric)
    {
        assert_string_equal(text_at(metric, "name"), "weir_many_total");
        n += json_array_size(at(metric, "sum/dataPoints"));
    }
    json_decref(json);
    return n;
}

static void requests_are_bounded_in_size_and_number(void **state)
{
    enum { SAMPLES = 120000, LABEL = 100 };
    char label[LABEL + 1];
    struct otlp_bodies bodies;
    struct otlp_metrics m;
    size_t points = 0;

    (void)state;
    memset(label, 'x', LABEL);
    label[LABEL] = '\0';
    otlp_bodies_init(&bodies);
    otlp_metrics_begin(&m, &bodies, resource, 1, 2);
    metric_begin(&m.sink, METRIC_COUNTER, "weir_many_total", "Many.");
    for (int i = 0; i < SAMPLES; i++) {
        metric_sample(&m.sink);
        metric_label(&m.sink, "name", label);
        metric_value(&m.sink, 1);
    }
    otlp_metrics_end(&m);
    assert_int_equal(bodies.count, OTLP_MOST_BODIES);
    for (size_t i = 0; i < bodies.count; i++) {
        assert_in_range(bodies.all[i].len, OTLP_MOST_BODY, OTLP_MOST_BODY + 1024);
        points += points_of(&bodies.all[i]);
    }
    assert_true(bodies.left_out > 0);
    assert_int_equal(points + bodies.left_out, SAMPLES);
    otlp_bodies_done(&bodies);
}

static void a_span_has_ids_in_hex_and_no_identity(void **state)
{
    const weir_allocator usual = heap();
    const struct trace_span spans[] = {
        { .trace_id = { 0xab, 1 },
          .span_id = { 0xcd, 2 },
          .parent_id = { 0xef, 3 },
          .has_parent = true,
          .began_ns = 5,
          .ended_ns = 6,
          .policy = "login",
          .rule = "ip",
          .outcome = OUTCOME_DENIED,
          .source = WEIR_FROM_STORE,
          .has_tag = true,
          .tag = { 1, 2 } },
        { .trace_id = { 1 }, .span_id = { 2 }, .rule = "default", .source = WEIR_FROM_EXEMPT },
    };
    const json_t *all;
    json_t *json;
    struct buf body;

    (void)state;
    buf_init(&body, &usual);
    otlp_spans(&body, resource, spans, 2);
    json = parse(&body);
    all = at(json, "resourceSpans/0/scopeSpans/0/spans");
    assert_int_equal(json_array_size(all), 2);
    assert_string_equal(text_at(all, "0/traceId"), "ab010000000000000000000000000000");
    assert_string_equal(text_at(all, "0/spanId"), "cd02000000000000");
    assert_string_equal(text_at(all, "0/parentSpanId"), "ef03000000000000");
    assert_int_equal(json_integer_value(at(all, "0/kind")), 2);
    assert_int_equal(json_integer_value(at(all, "0/flags")), 0x301);
    assert_string_equal(text_at(all, "0/startTimeUnixNano"), "5");
    assert_string_equal(text_at(all, "0/endTimeUnixNano"), "6");
    assert_int_equal(json_array_size(at(all, "0/attributes")), 5);
    assert_string_equal(text_at(all, "0/attributes/2/value/stringValue"), "denied");
    assert_string_equal(text_at(all, "0/attributes/4/key"), "weir.tag");
    assert_int_equal(strlen(text_at(all, "0/attributes/4/value/stringValue")), 32);
    assert_null(at(all, "1/parentSpanId"));
    assert_int_equal(json_integer_value(at(all, "1/flags")), 0x101);
    assert_int_equal(json_array_size(at(all, "1/attributes")), 4);
    assert_string_equal(text_at(all, "1/attributes/0/value/stringValue"), "(unnamed)");
    json_decref(json);
    buf_done(&body);
}

static uint64_t rejected(const char *body)
{
    return otlp_rejected(span_of(body));
}

static void what_the_receiver_rejected_is_read(void **state)
{
    (void)state;
    assert_int_equal(rejected(""), 0);
    assert_int_equal(rejected("{}"), 0);
    assert_int_equal(rejected("{\"partialSuccess\":{}}"), 0);
    assert_int_equal(rejected("{\"partialSuccess\":{\"rejectedSpans\":\"17\"}}"), 17);
    assert_int_equal(rejected("{\"partialSuccess\": {\"rejectedDataPoints\" : 3}}"), 3);
    assert_int_equal(rejected("{\"partialSuccess\":{\"rejectedSpans\":\"-5\"}}"), 0);
    assert_int_equal(rejected("{\"partialSuccess\":{\"rejectedSpans\":"), 0);
    assert_true(rejected("{\"rejectedSpans\":\"99999999999999999999999\"}") > UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_gauges_and_histograms_have_their_shapes),
        cmocka_unit_test(requests_are_bounded_in_size_and_number),
        cmocka_unit_test(a_span_has_ids_in_hex_and_no_identity),
        cmocka_unit_test(what_the_receiver_rejected_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
