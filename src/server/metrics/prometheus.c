/* prometheus.c - the text format of Prometheus, version 0.0.4. */
#include "server/metrics/prometheus.h"

#include <inttypes.h>
#include <stdio.h>

void metric_begin(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

struct sample metric_name(struct buf *out, const char *name)
{
    buf_text(out, name);
    return (struct sample){ .out = out };
}

void metric_label(struct sample *s, const char *name, const char *value)
{
    buf_text(s->out, s->has_labels ? "," : "{");
    buf_text(s->out, name);
    buf_text(s->out, "=\"");
    while (*value) {
        const size_t plain = strcspn(value, "\\\"\n");

        buf_add(s->out, (struct span){ value, plain });
        value += plain;
        if (*value) {
            buf_text(s->out, *value == '\n' ? "\\n" : *value == '"' ? "\\\"" : "\\\\");
            value++;
        }
    }
    buf_text(s->out, "\"");
    s->has_labels = true;
}

static void end_name(struct sample *s)
{
    buf_text(s->out, s->has_labels ? "} " : " ");
}

void metric_value(struct sample *s, uint64_t value)
{
    end_name(s);
    buf_printf(s->out, "%" PRIu64 "\n", value);
}

void metric_alone(struct buf *out, const char *name, const char *type, const char *help,
                  uint64_t value)
{
    struct sample s;

    metric_begin(out, name, type, help);
    s = metric_name(out, name);
    metric_value(&s, value);
}

struct decimal {
    char text[48];
};

/* value / unit, exactly. */
static struct decimal decimal_of(uint64_t value, uint64_t unit)
{
    struct decimal d;
    uint64_t rest = value % unit;
    int len = snprintf(d.text, sizeof d.text, "%" PRIu64, value / unit);

    if (rest > 0)
        d.text[len++] = '.';
    while (rest > 0) {
        unit /= 10;
        d.text[len++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    d.text[len] = '\0';
    return d;
}

void metric_histogram(struct buf *out, const char *name, const char *help,
                      const struct histogram *h, uint64_t unit)
{
    uint64_t below = 0;

    metric_begin(out, name, "histogram", help);
    for (size_t i = 0; i <= h->scale->count; i++) {
        const bool is_last = i == h->scale->count;

        below += count_of(&h->counts[i]);
        buf_printf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
                   is_last ? "+Inf" : decimal_of(h->scale->ends[i], unit).text, below);
    }
    buf_printf(out, "%s_sum %s\n%s_count %" PRIu64 "\n", name,
               decimal_of(count_of(&h->sum), unit).text, name, below);
}
