/* conn.h - the connections of a benchmark's worker: made, made again, and written to. */
#ifndef WEIR_CLI_BENCH_CONN_H
#define WEIR_CLI_BENCH_CONN_H

#include "cli/bench/worker.h"

enum { SECOND = 1000 * 1000 * 1000, MILLISECOND = 1000 * 1000 }; /* in ns */

struct bench_conn {
    int fd;           /* -1: not connected */
    uint32_t sockets; /* that it had, if a ring has to tell them apart */
    enum { CONN_DOWN, CONN_CONNECTING, CONN_READY } state;
    bool was_up;
    bool waits_to_write;     /* epoll tells when there is room */
    uint64_t retry_ns;       /* CONN_DOWN: not before */
    size_t greetings;        /* replies that belong to the greeting */
    size_t first, in_flight; /* of `since` */
    uint64_t *since;         /* a ring: when each was, or should have been, sent */
    char *out;               /* what could not be sent at once */
    size_t out_len, out_sent;
    char *rest; /* of an answer that is not all there */
    size_t rest_len;
};

/* A worker while it runs. */
struct run {
    struct bench_worker *w;
    const struct bench_plan *plan;
    struct bench_conn *conns;
    size_t conn_count, next; /* next: whose turn it is in an open loop */
    size_t room_in_flight;   /* requests that the connections could still take */
    size_t down;
    uint64_t quota, sent; /* requests to send; sent */
    uint64_t in_flight;
    uint64_t interval_ns, offset_ns; /* open loop */
    uint64_t random;
    uint64_t written; /* requests, from a number of this worker's own */
    uint64_t cpu_from;
    bool is_measuring;
    struct bench_ring *ring; /* NULL: by epoll */
    int epoll, timer;
    char *room;
};

/* Requests for random keys, behind what waits to be sent. */
void bench_conn_write(struct run *r, struct bench_conn *c, size_t n);
void bench_conn_send(struct run *r, struct bench_conn *c, uint64_t now);

/* Connect those that are down and may be tried. */
void bench_conn_bring_up(struct run *r, uint64_t now);

/* Or not. What it is greeted with waits in `out`. */
void bench_conn_connected(struct run *r, struct bench_conn *c, uint64_t now);

/* What is on its way stays so, and is sent again on the next connection. */
void bench_conn_take_down(struct run *r, struct bench_conn *c, uint64_t retry_ns);

/* It broke with requests on their way, which are lost. */
void bench_conn_lose(struct run *r, struct bench_conn *c, uint64_t now);

void bench_note_problem(struct bench_worker *w, const char *problem);
void bench_count_failures(struct bench_worker *w, uint64_t n);

#endif
