/* otlp.c - metrics and spans in the JSON of OTLP. */
#include "server/telemetry/otlp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"

enum { CUMULATIVE = 2, SPAN_KIND_SERVER = 2 }; /* as the protocol numbers them */
enum { SAMPLED = 0x1, PARENT_IS_KNOWN_TO_BE_REMOTE_OR_NOT = 0x100, PARENT_IS_REMOTE = 0x200 };

/* ---- what both have -------------------------------------------------------------------- */

static void put_attribute(struct json *j, const char *name, const char *value)
{
    json_open(j, NULL, '{');
    json_text(j, "key", name);
    json_open(j, "value", '{');
    json_text(j, "stringValue", value);
    json_close(j, '}');
    json_close(j, '}');
}

static void put_unsigned(struct json *j, const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    json_text(j, name, text);
}

static void put_decimal(struct json *j, const char *name, uint64_t value, uint64_t unit)
{
    json_raw(j, name, span_of(metric_decimal_of(value, unit).text));
}

void otlp_resource(struct buf *out, const struct otlp_attribute *attributes, size_t n)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    json_open(&j, "attributes", '[');
    for (size_t i = 0; i < n; i++)
        put_attribute(&j, attributes[i].name, attributes[i].value);
    json_close(&j, ']');
    json_close(&j, '}');
}

/* {"resourceX":[{"resource":…,"scopeX":[{"scope":…,"x":[ */
static void open_request(struct json *j, const char *resource, const char *by_resource,
                         const char *by_scope, const char *items)
{
    json_open(j, NULL, '{');
    json_open(j, by_resource, '[');
    json_open(j, NULL, '{');
    json_raw(j, "resource", span_of(resource));
    json_open(j, by_scope, '[');
    json_open(j, NULL, '{');
    json_open(j, "scope", '{');
    json_text(j, "name", "weir");
    json_text(j, "version", weir_version());
    json_close(j, '}');
    json_open(j, items, '[');
}

static void close_request(struct json *j)
{
    json_close(j, ']');
    json_close(j, '}');
    json_close(j, ']');
    json_close(j, '}');
    json_close(j, ']');
    json_close(j, '}');
}

void otlp_bodies_init(struct otlp_bodies *b)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    *b = (struct otlp_bodies){ .count = 0 };
    for (size_t i = 0; i < OTLP_MOST_BODIES; i++)
        buf_init(&b->all[i], &usual);
}

void otlp_bodies_done(struct otlp_bodies *b)
{
    for (size_t i = 0; i < OTLP_MOST_BODIES; i++)
        buf_done(&b->all[i]);
    b->count = 0;
}

/* ---- metrics --------------------------------------------------------------------------- */

static struct otlp_metrics *metrics_of(struct metric_sink *m)
{
    return (struct otlp_metrics *)m; /* its first member */
}

static bool ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), n = strlen(end);

    return len >= n && strcmp(text + len - n, end) == 0;
}

/* By the rules of Prometheus, a name ends with its unit. */
static const char *unit_of(const char *name)
{
    if (ends_with(name, "_seconds") || ends_with(name, "_seconds_total"))
        return "s";
    return ends_with(name, "_bytes") ? "By" : NULL;
}

static void close_metric(struct otlp_metrics *m)
{
    if (!m->has_begun)
        return;
    json_close(&m->json, ']');
    json_close(&m->json, '}');
    json_close(&m->json, '}');
    m->has_begun = false;
}

static void close_body(struct otlp_metrics *m)
{
    close_metric(m);
    if (m->is_open)
        close_request(&m->json);
    m->is_open = false;
}

/* False: there have been too many. */
static bool open_body(struct otlp_metrics *m)
{
    if (m->is_open && m->sink.out->len < OTLP_MOST_BODY)
        return true;
    close_body(m);
    if (m->bodies->count == OTLP_MOST_BODIES)
        return false;
    m->sink.out = &m->bodies->all[m->bodies->count++];
    m->json = (struct json){ .to = m->sink.out };
    m->is_open = true;
    open_request(&m->json, m->resource, "resourceMetrics", "scopeMetrics", "metrics");
    return true;
}

/* A metric without a sample is not written at all. */
static void open_metric(struct otlp_metrics *m)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "sum",
        [METRIC_GAUGE] = "gauge",
        [METRIC_HISTOGRAM] = "histogram",
    };
    struct json *j = &m->json;
    const char *unit = unit_of(m->name);

    if (m->has_begun)
        return;
    m->has_begun = true;
    json_open(j, NULL, '{');
    json_text(j, "name", m->name);
    json_text(j, "description", m->help);
    if (unit)
        json_text(j, "unit", unit);
    json_open(j, kinds[m->type], '{');
    if (m->type != METRIC_GAUGE)
        json_int(j, "aggregationTemporality", CUMULATIVE);
    if (m->type == METRIC_COUNTER)
        json_bool(j, "isMonotonic", true);
    json_open(j, "dataPoints", '[');
}

static void begin(struct metric_sink *sink, enum metric_type type, const char *name,
                  const char *help)
{
    struct otlp_metrics *m = metrics_of(sink);

    close_metric(m);
    m->type = type;
    m->name = name;
    m->help = help;
}

static void begin_sample(struct metric_sink *sink)
{
    struct otlp_metrics *m = metrics_of(sink);

    m->is_skipped = !open_body(m);
    m->bodies->left_out += m->is_skipped;
    if (m->is_skipped)
        return;
    open_metric(m);
    json_open(&m->json, NULL, '{');
    m->has_labels = false;
}

static void put_label(struct metric_sink *sink, const char *name, const char *value)
{
    struct otlp_metrics *m = metrics_of(sink);

    if (m->is_skipped)
        return;
    if (!m->has_labels)
        json_open(&m->json, "attributes", '[');
    m->has_labels = true;
    put_attribute(&m->json, name, value);
}

static void put_times(struct otlp_metrics *m)
{
    if (m->has_labels)
        json_close(&m->json, ']');
    if (m->type != METRIC_GAUGE)
        put_unsigned(&m->json, "startTimeUnixNano", m->started_ns);
    put_unsigned(&m->json, "timeUnixNano", m->now_ns);
}

static void put_value(struct metric_sink *sink, uint64_t value, uint64_t unit)
{
    struct otlp_metrics *m = metrics_of(sink);

    if (m->is_skipped)
        return;
    put_times(m);
    if (unit == 1)
        put_unsigned(&m->json, "asInt", value);
    else
        put_decimal(&m->json, "asDouble", value, unit);
    json_close(&m->json, '}');
}

static void put_histogram(struct metric_sink *sink, const struct histogram *h, uint64_t unit)
{
    struct otlp_metrics *m = metrics_of(sink);
    struct json *j = &m->json;
    uint64_t counts[HISTOGRAM_MOST], total = 0;

    begin_sample(sink);
    if (m->is_skipped)
        return;
    for (size_t i = 0; i <= h->scale->count; i++) { /* once, as loops go on counting */
        counts[i] = count_of(&h->counts[i]);
        total += counts[i];
    }
    put_times(m);
    put_unsigned(j, "count", total);
    put_decimal(j, "sum", count_of(&h->sum), unit);
    json_open(j, "bucketCounts", '[');
    for (size_t i = 0; i <= h->scale->count; i++)
        put_unsigned(j, NULL, counts[i]);
    json_close(j, ']');
    json_open(j, "explicitBounds", '[');
    for (size_t i = 0; i < h->scale->count; i++)
        put_decimal(j, NULL, h->scale->ends[i], unit);
    json_close(j, ']');
    json_close(j, '}');
}

static const struct metric_format otlp_format = {
    .begin = begin,
    .sample = begin_sample,
    .label = put_label,
    .value = put_value,
    .histogram = put_histogram,
};

void otlp_metrics_begin(struct otlp_metrics *m, struct otlp_bodies *bodies, const char *resource,
                        uint64_t started_ns, uint64_t now_ns)
{
    *m = (struct otlp_metrics){
        .sink = { &otlp_format, &bodies->all[0] },
        .bodies = bodies,
        .resource = resource,
        .started_ns = started_ns,
        .now_ns = now_ns,
    };
}

void otlp_metrics_end(struct otlp_metrics *m)
{
    close_body(m);
}

/* ---- spans ----------------------------------------------------------------------------- */

static void put_id(struct json *j, const char *name, const unsigned char *id, size_t len)
{
    char text[2 * TRACE_ID + 1];

    *hex_write(text, id, len) = '\0';
    json_text(j, name, text);
}

static void put_span_attributes(struct json *j, const struct trace_span *s)
{
    char tag[TAG_HEX + 1];

    json_open(j, "attributes", '[');
    put_attribute(j, "weir.policy", s->policy ? s->policy : DECISION_COUNTS_UNNAMED);
    put_attribute(j, "weir.rule", s->rule);
    put_attribute(j, "weir.outcome", outcome_names[s->outcome]);
    put_attribute(j, "weir.source", weir_source_name(s->source));
    if (s->has_tag) {
        tag_write(s->tag, tag);
        put_attribute(j, "weir.tag", tag);
    }
    json_close(j, ']');
}

static void put_span(struct json *j, const struct trace_span *s)
{
    json_open(j, NULL, '{');
    put_id(j, "traceId", s->trace_id, TRACE_ID);
    put_id(j, "spanId", s->span_id, SPAN_ID);
    if (s->has_parent)
        put_id(j, "parentSpanId", s->parent_id, SPAN_ID);
    json_int(j, "flags",
             SAMPLED | PARENT_IS_KNOWN_TO_BE_REMOTE_OR_NOT |
                 (s->has_parent ? PARENT_IS_REMOTE : 0));
    json_text(j, "name", "weir.check");
    json_int(j, "kind", SPAN_KIND_SERVER);
    put_unsigned(j, "startTimeUnixNano", s->began_ns);
    put_unsigned(j, "endTimeUnixNano", s->ended_ns);
    put_span_attributes(j, s);
    json_close(j, '}');
}

void otlp_spans(struct buf *out, const char *resource, const struct trace_span *spans, size_t n)
{
    struct json j = { .to = out };

    open_request(&j, resource, "resourceSpans", "scopeSpans", "spans");
    for (size_t i = 0; i < n; i++)
        put_span(&j, &spans[i]);
    close_request(&j);
}

/* ---- answers --------------------------------------------------------------------------- */

uint64_t otlp_rejected(struct span body)
{
    static const char *const names[] = { "\"rejectedSpans\"", "\"rejectedDataPoints\"" };

    for (size_t i = 0; i < 2; i++) {
        const size_t len = strlen(names[i]);
        const char *at = memmem(body.at, body.len, names[i], len), *end = body.at + body.len;
        uint64_t n = 0;

        if (!at)
            continue;
        for (at += len; at < end && strchr(" :\t\r\n\"", *at); at++)
            ;
        for (; at < end && *at >= '0' && *at <= '9' && n < UINT32_MAX; at++)
            n = n * 10 + (uint64_t)(*at - '0');
        return n;
    }
    return 0;
}
