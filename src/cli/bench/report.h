/* report.h - what a benchmark has measured, for people, programs and spreadsheets. */
#ifndef WEIR_CLI_BENCH_REPORT_H
#define WEIR_CLI_BENCH_REPORT_H

#include "cli/bench/worker.h"

struct bench_result {
    const struct bench_plan *plan;
    const char *label; /* NULL: none */
    uint64_t allowed, denied, failed, lost, reconnects;
    uint64_t elapsed_ns, cpu_ns;
    struct latency latency;
    const char *problem; /* the first that the server told; "": none */
};

void bench_report_text(const struct bench_result *r);
void bench_report_json(const struct bench_result *r); /* one object, with the whole histogram */
void bench_report_csv(const struct bench_result *r);  /* a line of names, and one of values */

#endif
