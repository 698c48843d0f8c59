/* ring.h - the sockets of a benchmark's worker by io_uring.
 *
 * One system call sends for all connections that have something to send, and takes what all of them
 * got. A generator that is cheaper than the servers it asks measures them, and not itself. */
#ifndef WEIR_CLI_BENCH_RING_H
#define WEIR_CLI_BENCH_RING_H

#include "cli/bench/conn.h"

/* NULL: there is none to be had here. */
struct bench_ring *bench_ring_open(void);
void bench_ring_close(struct bench_ring *ring);

/* bench_ring_turn() tells when it is connected, or that it cannot be. */
void bench_ring_connect(struct run *r, struct bench_conn *c);

/* From here on, what arrives is told. */
void bench_ring_receive(struct run *r, struct bench_conn *c);

/* All that waits in `c->out`, which stays as it is until it is answered. */
void bench_ring_send(struct run *r, struct bench_conn *c);

/* Before its socket is closed: nothing more is told of it. */
void bench_ring_forget(struct bench_conn *c);

struct bench_ring_events {
    void (*connected)(struct run *r, struct bench_conn *c);
    void (*received)(struct run *r, struct bench_conn *c, char *at, ssize_t n); /* or -errno */
};

/* Send what is to be sent, wait for what comes, and tell it. */
void bench_ring_turn(struct run *r, int most_ms, const struct bench_ring_events *events);

#endif
