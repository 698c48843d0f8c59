/* report.c - what a benchmark has measured, for people, programs and spreadsheets. */
#include "cli/bench/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/terminal.h"

static const struct {
    const char *name;
    double fraction;
} quantiles[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99.9", 0.999 } };
enum { QUANTILES = sizeof quantiles / sizeof *quantiles };

static double per_second(const struct bench_result *r)
{
    return r->elapsed_ns > 0 ? (double)r->latency.count * 1e9 / (double)r->elapsed_ns : 0;
}

static double cpu_us(const struct bench_result *r)
{
    return r->latency.count > 0 ? (double)r->cpu_ns / 1e3 / (double)r->latency.count : 0;
}

static double mean_us(const struct bench_result *r)
{
    return r->latency.count > 0 ? (double)r->latency.sum_ns / 1e3 / (double)r->latency.count : 0;
}

/* ---- for people ---------------------------------------------------------------------------- */

struct time_text {
    char text[16];
};

/* Three digits and a unit. */
static struct time_text time_text(uint64_t ns)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    struct time_text t;
    double value = (double)ns;
    size_t unit = 0;

    while (value >= 999.5 && unit < 3) {
        value /= 1000;
        unit++;
    }
    snprintf(t.text, sizeof t.text, "%.*f %s",
             value < 9.995 && unit > 0   ? 2
             : value < 99.95 && unit > 0 ? 1
                                         : 0,
             value, units[unit]);
    return t;
}

/* Bars over the steps 1, 2, 5, 10 … */
static void print_histogram(const struct latency *l)
{
    static const uint64_t factors[] = { 2, 5, 10 };
    uint64_t power = 1, from = 0, counts[64] = { 0 }, ends[64], most = 1;
    size_t bars = 0, bucket = 0;

    for (size_t i = 0; bars < 64 && from < l->max_ns && power < UINT64_MAX / 100; i++) {
        const uint64_t end = power * factors[i % 3];

        for (; bucket < LATENCY_BUCKETS && latency_bucket_end(bucket) < end; bucket++)
            counts[bars] += l->counts[bucket];
        if (counts[bars] > most)
            most = counts[bars];
        ends[bars] = from = end;
        if (bars > 0 || counts[bars] > 0) /* leading ones that are empty are left out */
            bars++;
        if (i % 3 == 2)
            power *= 10;
    }
    for (size_t i = 0; i < bars; i++)
        printf("  < %-7s %6.2f %%  %.*s\n", time_text(ends[i]).text,
               (double)counts[i] * 100 / (double)l->count, (int)(counts[i] * 50 / most),
               "##################################################");
}

void bench_report_text(const struct bench_result *r)
{
    const struct bench_plan *p = r->plan;

    printf("%s%s%s%s to %s: %zu connection%s, pipeline %zu, %zu thread%s, %" PRIu64 " key%s, ",
           r->label ? r->label : "", r->label ? ": " : "", colour(BOLD), p->request->name,
           p->url->text, p->connections, p->connections == 1 ? "" : "s", p->pipeline, p->threads,
           p->threads == 1 ? "" : "s", p->keys, p->keys == 1 ? "" : "s");
    if (p->rate > 0)
        printf("%" PRId64 "/s%s\n", p->rate, colour(PLAIN));
    else
        printf("as fast as possible%s\n", colour(PLAIN));
    printf("  requests   %" PRIu64 " in %.1f s: %s%.0f/s%s\n", r->latency.count,
           (double)r->elapsed_ns / 1e9, colour(BOLD), per_second(r), colour(PLAIN));
    printf("  answers    ");
    if (p->request->judges == JUDGES_NOTHING)
        printf("%" PRIu64 " good", r->allowed);
    else
        printf("%" PRIu64 " allowed, %" PRIu64 " denied", r->allowed, r->denied);
    printf(", %s%" PRIu64 " errors%s", r->failed > 0 ? colour(RED) : "", r->failed,
           r->failed > 0 ? colour(PLAIN) : "");
    if (r->lost > 0)
        printf(", %s%" PRIu64 " lost%s", colour(RED), r->lost, colour(PLAIN));
    if (r->reconnects > 0)
        printf(", %" PRIu64 " reconnects", r->reconnects);
    printf("\n");
    if (*r->problem)
        printf("  error      %s\n", r->problem);
    printf("  latency    ");
    for (size_t i = 0; i < QUANTILES; i++)
        printf("%s %s, ", quantiles[i].name,
               time_text(latency_quantile(&r->latency, quantiles[i].fraction)).text);
    printf("max %s\n", time_text(r->latency.max_ns).text);
    printf("  own cost   %.2f us of CPU per request\n", cpu_us(r));
    if (r->latency.count > 0)
        print_histogram(&r->latency);
}

/* ---- for programs -------------------------------------------------------------------------- */

static void add_number(struct json *j, const char *name, double value, int digits)
{
    char text[48];
    const int len = snprintf(text, sizeof text, "%.*f", digits, value);

    json_raw(j, name, (struct span){ text, (size_t)len });
}

static void add_latency(struct json *j, const struct bench_result *r)
{
    const struct latency *l = &r->latency;

    json_open(j, "latency_us", '{');
    add_number(j, "min", (double)l->min_ns / 1e3, 3);
    add_number(j, "mean", mean_us(r), 3);
    for (size_t i = 0; i < QUANTILES; i++)
        add_number(j, quantiles[i].name, (double)latency_quantile(l, quantiles[i].fraction) / 1e3,
                   3);
    add_number(j, "max", (double)l->max_ns / 1e3, 3);
    json_close(j, '}');
    json_open(j, "histogram", '['); /* [at most so many us, how many] */
    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        if (l->counts[i] == 0)
            continue;
        json_open(j, NULL, '[');
        add_number(j, NULL, (double)latency_bucket_end(i) / 1e3, 3);
        json_int(j, NULL, (int64_t)l->counts[i]);
        json_close(j, ']');
    }
    json_close(j, ']');
}

void bench_report_json(const struct bench_result *r)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const struct bench_plan *p = r->plan;
    struct buf out;
    struct json j = { .to = &out };

    buf_init(&out, &usual);
    json_open(&j, NULL, '{');
    json_text(&j, "label", r->label);
    json_text(&j, "server", p->url->text);
    json_text(&j, "request", p->request->name);
    json_int(&j, "connections", (int64_t)p->connections);
    json_int(&j, "pipeline", (int64_t)p->pipeline);
    json_int(&j, "threads", (int64_t)p->threads);
    json_int(&j, "keys", (int64_t)p->keys);
    json_int(&j, "rate", p->rate);
    add_number(&j, "seconds", (double)r->elapsed_ns / 1e9, 3);
    json_int(&j, "requests", (int64_t)r->latency.count);
    add_number(&j, "per_second", per_second(r), 1);
    json_int(&j, "allowed", (int64_t)r->allowed);
    json_int(&j, "denied", (int64_t)r->denied);
    json_int(&j, "errors", (int64_t)r->failed);
    json_int(&j, "lost", (int64_t)r->lost);
    json_int(&j, "reconnects", (int64_t)r->reconnects);
    add_number(&j, "cpu_us_per_request", cpu_us(r), 3);
    add_latency(&j, r);
    json_close(&j, '}');
    terminal_line(&out);
}

void bench_report_csv(const struct bench_result *r)
{
    const struct bench_plan *p = r->plan;

    printf(
        "label,server,request,connections,pipeline,threads,keys,rate,seconds,requests,per_second,"
        "allowed,denied,errors,lost,reconnects,cpu_us_per_request,mean_us");
    for (size_t i = 0; i < QUANTILES; i++)
        printf(",%s_us", quantiles[i].name);
    printf(",max_us\n%s,%s,%s,%zu,%zu,%zu,%" PRIu64 ",%" PRId64 ",%.3f,%" PRIu64 ",%.1f,%" PRIu64
           ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f,%.3f",
           r->label ? r->label : "", p->url->text, p->request->name, p->connections, p->pipeline,
           p->threads, p->keys, p->rate, (double)r->elapsed_ns / 1e9, r->latency.count,
           per_second(r), r->allowed, r->denied, r->failed, r->lost, r->reconnects, cpu_us(r),
           mean_us(r));
    for (size_t i = 0; i < QUANTILES; i++)
        printf(",%.3f", (double)latency_quantile(&r->latency, quantiles[i].fraction) / 1e3);
    printf(",%.3f\n", (double)r->latency.max_ns / 1e3);
}
