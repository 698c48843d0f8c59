/* otlp.h - metrics and spans in the JSON of OTLP: ExportMetricsServiceRequest and
 * ExportTraceServiceRequest of OpenTelemetry, as proto3 JSON with its exceptions: ids are hex,
 * enums are numbers, integers of 64 bits are strings.
 *
 * A request has at most about OTLP_MOST_BODY bytes; what is more goes into further requests, and
 * what is beyond OTLP_MOST_BODIES of them is left out and counted. */
#ifndef WEIR_SERVER_TELEMETRY_OTLP_H
#define WEIR_SERVER_TELEMETRY_OTLP_H

#include "base/json.h"
#include "server/metrics/metric_sink.h"
#include "server/telemetry/tracing.h"

enum { OTLP_MOST_BODY = 1024 * 1024, OTLP_MOST_BODIES = 16 };

/* A resource, as one JSON object: {"attributes":[…]}. */
struct otlp_attribute {
    const char *name, *value;
};
void otlp_resource(struct buf *out, const struct otlp_attribute *attributes, size_t n);

struct otlp_bodies {
    struct buf all[OTLP_MOST_BODIES];
    size_t count;
    uint64_t left_out; /* samples */
};
void otlp_bodies_init(struct otlp_bodies *b);
void otlp_bodies_done(struct otlp_bodies *b); /* and there are none again */

/* Metrics: what is written to its sink between begin and end is in the bodies. */
struct otlp_metrics {
    struct metric_sink sink;
    struct otlp_bodies *bodies;
    const char *resource;
    uint64_t started_ns, now_ns; /* since 1970: what is counted, and this look at it */
    enum metric_type type;
    const char *name, *help;
    struct json json;
    bool is_open;   /* a request is */
    bool has_begun; /* the metric, in this request */
    bool is_skipped;
    bool has_labels;
};
void otlp_metrics_begin(struct otlp_metrics *m, struct otlp_bodies *bodies, const char *resource,
                        uint64_t started_ns, uint64_t now_ns);
void otlp_metrics_end(struct otlp_metrics *m);

/* Spans: one request. */
void otlp_spans(struct buf *out, const char *resource, const struct trace_span *spans, size_t n);

/* How many of what was sent the receiver has rejected, by the body of its answer: the number of
 * "rejectedSpans" or "rejectedDataPoints". */
uint64_t otlp_rejected(struct span body);

#endif
