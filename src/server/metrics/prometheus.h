/* prometheus.h - the text format of Prometheus, version 0.0.4. */
#ifndef WEIR_SERVER_METRICS_PROMETHEUS_H
#define WEIR_SERVER_METRICS_PROMETHEUS_H

#include "base/buf.h"
#include "server/metrics/histogram.h"

/* The two lines before the samples of a metric. `type` is "counter", "gauge" or "histogram". */
void metric_begin(struct buf *out, const char *name, const char *type, const char *help);

/* One sample: metric_name(), any number of metric_label(), metric_value(). */
struct sample {
    struct buf *out;
    bool has_labels;
};
struct sample metric_name(struct buf *out, const char *name);
void metric_label(struct sample *s, const char *name, const char *value);
void metric_value(struct sample *s, uint64_t value);

/* All of a metric that has one sample and no labels. */
void metric_alone(struct buf *out, const char *name, const char *type, const char *help,
                  uint64_t value);

/* `unit`: so many of the histogram's units are one of the metric's; a power of ten. */
void metric_histogram(struct buf *out, const char *name, const char *help,
                      const struct histogram *h, uint64_t unit);

#endif
