/* prometheus.c - the text format of Prometheus, version 0.0.4. */
#include "server/metrics/prometheus.h"

#include <inttypes.h>
#include <string.h>

static const char *const type_names[] = {
    [METRIC_COUNTER] = "counter",
    [METRIC_GAUGE] = "gauge",
    [METRIC_HISTOGRAM] = "histogram",
};

static struct prometheus_sink *prometheus_of(struct metric_sink *m)
{
    return (struct prometheus_sink *)m; /* its first member */
}

static void begin(struct metric_sink *m, enum metric_type type, const char *name, const char *help)
{
    prometheus_of(m)->name = name;
    buf_printf(m->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type_names[type]);
}

static void begin_sample(struct metric_sink *m)
{
    buf_text(m->out, prometheus_of(m)->name);
    prometheus_of(m)->has_labels = false;
}

static void put_label(struct metric_sink *m, const char *name, const char *value)
{
    struct prometheus_sink *p = prometheus_of(m);

    buf_text(m->out, p->has_labels ? "," : "{");
    buf_text(m->out, name);
    buf_text(m->out, "=\"");
    while (*value) {
        const size_t plain = strcspn(value, "\\\"\n");

        buf_add(m->out, (struct span){ value, plain });
        value += plain;
        if (*value) {
            buf_text(m->out, *value == '\n' ? "\\n" : *value == '"' ? "\\\"" : "\\\\");
            value++;
        }
    }
    buf_text(m->out, "\"");
    p->has_labels = true;
}

static void put_value(struct metric_sink *m, uint64_t value, uint64_t unit)
{
    buf_text(m->out, prometheus_of(m)->has_labels ? "} " : " ");
    buf_text(m->out, metric_decimal_of(value, unit).text);
    buf_byte(m->out, '\n');
}

static void put_histogram(struct metric_sink *m, const struct histogram *h, uint64_t unit)
{
    const char *name = prometheus_of(m)->name;
    uint64_t below = 0;

    for (size_t i = 0; i <= h->scale->count; i++) {
        const bool is_last = i == h->scale->count;

        below += count_of(&h->counts[i]);
        buf_printf(m->out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
                   is_last ? "+Inf" : metric_decimal_of(h->scale->ends[i], unit).text, below);
    }
    buf_printf(m->out, "%s_sum %s\n%s_count %" PRIu64 "\n", name,
               metric_decimal_of(count_of(&h->sum), unit).text, name, below);
}

static const struct metric_format prometheus_format = {
    .begin = begin,
    .sample = begin_sample,
    .label = put_label,
    .value = put_value,
    .histogram = put_histogram,
};

void prometheus_sink_init(struct prometheus_sink *p, struct buf *out)
{
    *p = (struct prometheus_sink){ .sink = { &prometheus_format, out } };
}
