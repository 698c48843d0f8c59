/* metric_sink.h - where metrics are written to: one walk over them serves every format.
 *
 *     metric_begin(m, METRIC_COUNTER, "weir_requests_total", "Requests answered.");
 *     metric_sample(m);
 *     metric_label(m, "protocol", "http");
 *     metric_value(m, 17);
 */
#ifndef WEIR_SERVER_METRICS_METRIC_SINK_H
#define WEIR_SERVER_METRICS_METRIC_SINK_H

#include "base/buf.h"
#include "server/metrics/histogram.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_sink {
    const struct metric_format *format;
    struct buf *out; /* if memory is short, it has failed */
};

struct metric_format {
    void (*begin)(struct metric_sink *m, enum metric_type type, const char *name, const char *help);
    void (*sample)(struct metric_sink *m);
    void (*label)(struct metric_sink *m, const char *name, const char *value);
    void (*value)(struct metric_sink *m, uint64_t value, uint64_t unit);
    void (*histogram)(struct metric_sink *m, const struct histogram *h, uint64_t unit);
};

/* A metric, then its samples. The texts are needed until the next metric begins. */
static inline void metric_begin(struct metric_sink *m, enum metric_type type, const char *name,
                                const char *help)
{
    m->format->begin(m, type, name, help);
}

/* One sample: metric_sample(), any number of metric_label(), metric_value(). */
static inline void metric_sample(struct metric_sink *m)
{
    m->format->sample(m);
}

static inline void metric_label(struct metric_sink *m, const char *name, const char *value)
{
    m->format->label(m, name, value);
}

static inline void metric_value(struct metric_sink *m, uint64_t value)
{
    m->format->value(m, value, 1);
}

/* `unit`: so many of what was counted are one of the metric's; a power of ten. */
static inline void metric_fraction(struct metric_sink *m, uint64_t value, uint64_t unit)
{
    m->format->value(m, value, unit);
}

/* All of a metric that has one sample and no labels. */
static inline void metric_alone(struct metric_sink *m, enum metric_type type, const char *name,
                                const char *help, uint64_t value)
{
    metric_begin(m, type, name, help);
    metric_sample(m);
    metric_value(m, value);
}

static inline void metric_histogram(struct metric_sink *m, const char *name, const char *help,
                                    const struct histogram *h, uint64_t unit)
{
    metric_begin(m, METRIC_HISTOGRAM, name, help);
    m->format->histogram(m, h, unit);
}

/* value / unit, exactly, in digits. */
struct metric_decimal {
    char text[48];
};
struct metric_decimal metric_decimal_of(uint64_t value, uint64_t unit);

#endif
