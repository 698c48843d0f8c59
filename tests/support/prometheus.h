/* prometheus.h - a strict reader of the text format of Prometheus, for tests.
 *
 * Fails the test unless: each metric has one HELP and one TYPE before its samples, which stand
 * together; names, labels, escapes and values are well formed; no series is there twice; counters
 * end in _total; and a histogram has ascending bounds, counts that never fall, and a last bucket
 * that is its count. */
#ifndef WEIR_TESTS_PROMETHEUS_H
#define WEIR_TESTS_PROMETHEUS_H

#include <ctype.h>
#include <math.h>

#include "support/unit.h"

struct prometheus {
    char *text; /* a copy, one line after the other */
    char metric[128], type[16];
    char (*metrics)[128]; /* those that were there */
    size_t metric_count;
    char (*series)[512]; /* name and labels as written */
    double *values;
    size_t series_count;
    double bound, below; /* of the last bucket */
};

static inline size_t prometheus_name(const char *at, const char *extra)
{
    size_t len = 0;

    if (!isalpha((unsigned char)*at) && *at != '_')
        fail_msg("no name: %s", at);
    while (isalnum((unsigned char)at[len]) || at[len] == '_' || (at[len] && strchr(extra, at[len])))
        len++;
    return len;
}

/* Behind the closing brace. */
static inline const char *prometheus_labels(const char *at, const char *line)
{
    for (at++; *at != '}'; at += *at == ',') {
        at += prometheus_name(at, "");
        if (strncmp(at, "=\"", 2) != 0)
            fail_msg("a label without a value: %s", line);
        for (at += 2; *at != '"'; at++) {
            if (*at == '\0' || (*at == '\\' && !strchr("\\\"n", *++at)))
                fail_msg("a bad escape: %s", line);
        }
        at++;
        if (*at != ',' && *at != '}')
            fail_msg("labels are not separated: %s", line);
    }
    return at + 1;
}

static inline void prometheus_end_metric(struct prometheus *p)
{
    if (strcmp(p->type, "histogram") == 0)
        assert_true(isinf(p->bound));
    p->type[0] = '\0';
}

static inline void prometheus_comment(struct prometheus *p, const char *line)
{
    const char *name = line + strlen("# HELP ");
    const size_t len = prometheus_name(name, ":");

    if (strncmp(line, "# HELP ", 7) == 0) {
        prometheus_end_metric(p);
        snprintf(p->metric, sizeof p->metric, "%.*s", (int)len, name);
        for (size_t i = 0; i < p->metric_count; i++)
            if (strcmp(p->metrics[i], p->metric) == 0)
                fail_msg("%s is there twice", p->metric);
        strcpy(p->metrics[p->metric_count++], p->metric);
        assert_true(name[len] == ' ' && name[len + 1] != '\0');
        return;
    }
    if (strncmp(line, "# TYPE ", 7) != 0 || strncmp(name, p->metric, len) != 0 ||
        p->metric[len] != '\0' || p->type[0])
        fail_msg("not HELP and TYPE, or not of the same metric: %s", line);
    snprintf(p->type, sizeof p->type, "%s", name + len + 1);
    if (strcmp(p->type, "counter") == 0)
        assert_string_equal(p->metric + len - strlen("_total"), "_total");
    else if (strcmp(p->type, "gauge") != 0 && strcmp(p->type, "histogram") != 0)
        fail_msg("no type: %s", line);
    p->bound = -INFINITY;
    p->below = 0;
}

static inline void prometheus_bucket(struct prometheus *p, const char *line, const char *suffix,
                                     double value)
{
    if (strncmp(suffix, "_bucket{le=\"", 12) == 0) {
        const double bound = strtod(suffix + 12, NULL);

        assert_true(bound > p->bound && value >= p->below);
        p->bound = bound;
        p->below = value;
    } else if (strcmp(suffix, "_count") == 0) {
        assert_true(isinf(p->bound) && value == p->below);
    } else if (strcmp(suffix, "_sum") != 0) {
        fail_msg("not of a histogram: %s", line);
    }
}

static inline void prometheus_sample(struct prometheus *p, const char *line)
{
    const size_t len = strlen(p->metric);
    const char *at = line + prometheus_name(line, ":");
    char *series = p->series[p->series_count], *end;
    double value;

    if (!p->type[0] || strncmp(line, p->metric, len) != 0)
        fail_msg("a sample away from its metric: %s", line);
    if (*at == '{')
        at = prometheus_labels(at, line);
    assert_int_equal(*at, ' ');
    snprintf(series, sizeof *p->series, "%.*s", (int)(at - line), line);
    value = strtod(at + 1, &end);
    if (end == at + 1 || *end)
        fail_msg("no number: %s", line);
    for (size_t i = 0; i < p->series_count; i++)
        if (strcmp(p->series[i], series) == 0)
            fail_msg("there twice: %s", line);
    if (strcmp(p->type, "histogram") == 0)
        prometheus_bucket(p, line, series + len, value);
    else
        assert_true(series[len] == '\0' || series[len] == '{');
    p->values[p->series_count++] = value;
}

static inline struct prometheus prometheus_read(const char *text)
{
    struct prometheus p = { .text = strdup(text) };
    size_t lines = 1;

    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    p.metrics = calloc(lines, sizeof *p.metrics);
    p.series = calloc(lines, sizeof *p.series);
    p.values = calloc(lines, sizeof *p.values);
    assert_true(p.text && p.metrics && p.series && p.values);
    for (char *line = p.text; *line;) {
        char *end = strchr(line, '\n');

        assert_non_null(end);
        *end = '\0';
        if (*line == '#')
            prometheus_comment(&p, line);
        else
            prometheus_sample(&p, line);
        line = end + 1;
    }
    prometheus_end_metric(&p);
    return p;
}

static inline void prometheus_done(struct prometheus *p)
{
    free(p->text);
    free(p->metrics);
    free(p->series);
    free(p->values);
}

/* -1: there is no such series. */
static inline double prometheus_value(const struct prometheus *p, const char *series)
{
    for (size_t i = 0; i < p->series_count; i++)
        if (strcmp(p->series[i], series) == 0)
            return p->values[i];
    return -1;
}

#endif
