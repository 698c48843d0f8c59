/* worker.h - one thread of a benchmark: its connections, what it sends, when, and what it saw.
 *
 * Closed loop: a connection sends `pipeline` requests, waits for all of their answers, and sends
 * the next. Open loop: requests have their times, whatever the server does. A time that finds all
 * connections full waits for one that is not, and its latency counts from when it should have been
 * sent: a server that stalls is seen to delay all who would have come meanwhile. */
#ifndef WEIR_CLI_BENCH_WORKER_H
#define WEIR_CLI_BENCH_WORKER_H

#include <stdatomic.h>

#include "cli/bench/latency.h"
#include "cli/bench/request.h"
#include "server/settings.h"

enum {
    BENCH_MOST_KEYS = 1000 * 1000 * 1000,
    BENCH_MOST_RATE = 100 * 1000 * 1000,
    BENCH_RETRY_MS = 100,      /* a connection that was refused is tried again after this */
    BENCH_DRAIN_MS = 5000,     /* open loop: the last answers have so long to come */
    BENCH_TICK_NS = 20 * 1000, /* open loop: wakes no more often */
};

/* What all workers share; does not change while they run, but for `stop`. */
struct bench_plan {
    const struct server_url *url;
    const struct bench_request *request;
    size_t connections, pipeline, threads;
    int64_t rate;                          /* a second, of all threads; 0: as fast as possible */
    uint64_t keys;                         /* at most BENCH_MOST_KEYS */
    uint64_t requests;                     /* of all threads; 0: no end */
    uint64_t start_ns, measure_ns, end_ns; /* points in time */
    enum io_way io;                        /* with a rate, always by epoll */
    atomic_bool stop;
};

struct bench_worker {
    const struct bench_plan *plan;
    size_t index;

    /* What it saw since plan->measure_ns. */
    uint64_t allowed, denied, failed;
    uint64_t lost;       /* no answer came: the connection broke, or time was up */
    uint64_t reconnects; /* after the first connection */
    uint64_t last_ns;    /* when the last answer came */
    uint64_t cpu_ns;
    struct latency latency;
    char problem[128];    /* the first that the server told; "": none */
    const char *trouble;  /* why it could not run; NULL: it did */
    atomic_ulong answers; /* of all time, for others to watch */
    atomic_ulong failures;
    atomic_bool has_ended;
};

uint64_t bench_clock(void); /* ns */

void *bench_worker_run(void *worker); /* a thread */

#endif
