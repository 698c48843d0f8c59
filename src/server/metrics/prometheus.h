/* prometheus.h - the text format of Prometheus, version 0.0.4. */
#ifndef WEIR_SERVER_METRICS_PROMETHEUS_H
#define WEIR_SERVER_METRICS_PROMETHEUS_H

#include "server/metrics/metric_sink.h"

struct prometheus_sink {
    struct metric_sink sink;
    const char *name;
    bool has_labels; /* of the sample that is being written */
};

/* What is written to its sink is appended to `out`. */
void prometheus_sink_init(struct prometheus_sink *p, struct buf *out);

#endif
