/* no_ring.c - instead of ring.c, where liburing is not installed. */
#include "cli/bench/ring.h"

struct bench_ring *bench_ring_open(void)
{
    return NULL;
}

void bench_ring_close(struct bench_ring *ring)
{
    (void)ring;
}

void bench_ring_connect(struct run *r, struct bench_conn *c)
{
    (void)r, (void)c;
}

void bench_ring_receive(struct run *r, struct bench_conn *c)
{
    (void)r, (void)c;
}

void bench_ring_send(struct run *r, struct bench_conn *c)
{
    (void)r, (void)c;
}

void bench_ring_forget(struct bench_conn *c)
{
    (void)c;
}

void bench_ring_turn(struct run *r, int most_ms, const struct bench_ring_events *events)
{
    (void)r, (void)most_ms, (void)events;
}
