/* conn.c - the connections of a benchmark's worker: made, made again, and written to. */
#include "cli/bench/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cli/bench/ring.h"

/* Uniform enough, and a few instructions: xorshift64*, of which the upper bits are scaled. */
static uint64_t random_key(struct run *r)
{
    if (r->plan->keys == 1)
        return 0;
    r->random ^= r->random >> 12;
    r->random ^= r->random << 25;
    r->random ^= r->random >> 27;
    return ((r->random * 0x2545f4914f6cdd1d) >> 32) * r->plan->keys >> 32;
}

void bench_note_problem(struct bench_worker *w, const char *problem)
{
    if (w->problem[0] == '\0')
        snprintf(w->problem, sizeof w->problem, "%s", problem);
}

void bench_count_failures(struct bench_worker *w, uint64_t n)
{
    atomic_store_explicit(&w->failures, w->failures + n, memory_order_relaxed);
}

static void watch(struct run *r, struct bench_conn *c, int operation, bool writes)
{
    struct epoll_event e = { .events = EPOLLIN | (writes ? (uint32_t)EPOLLOUT : 0), .data.ptr = c };

    c->waits_to_write = writes;
    epoll_ctl(r->epoll, operation, c->fd, &e);
}

void bench_conn_take_down(struct run *r, struct bench_conn *c, uint64_t retry_ns)
{
    if (c->state == CONN_READY)
        r->room_in_flight -= r->plan->pipeline - c->in_flight;
    if (c->fd >= 0 && r->ring)
        bench_ring_forget(c);
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->state = CONN_DOWN;
    c->retry_ns = retry_ns;
    c->rest_len = c->out_len = c->out_sent = 0;
    r->down++;
}

void bench_conn_lose(struct run *r, struct bench_conn *c, uint64_t now)
{
    for (size_t i = 0; i < c->in_flight; i++)
        if (c->since[(c->first + i) % r->plan->pipeline] >= r->plan->measure_ns)
            r->w->lost++;
    bench_count_failures(r->w, c->in_flight > 0 ? c->in_flight : 1);
    bench_conn_take_down(r, c, now + (uint64_t)BENCH_RETRY_MS * MILLISECOND);
    r->in_flight -= c->in_flight;
    c->in_flight = 0;
}

void bench_conn_send(struct run *r, struct bench_conn *c, uint64_t now)
{
    ssize_t n;

    if (r->ring) {
        bench_ring_send(r, c);
        return;
    }
    n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        bench_conn_lose(r, c, now);
        return;
    }
    if (n > 0)
        c->out_sent += (size_t)n;
    if (c->out_sent == c->out_len)
        c->out_len = c->out_sent = 0;
    if (c->waits_to_write != (c->out_len > 0))
        watch(r, c, EPOLL_CTL_MOD, c->out_len > 0);
}

void bench_conn_write(struct run *r, struct bench_conn *c, size_t n)
{
    const struct bench_request *request = r->plan->request;

    if (c->out_sent > 0) {
        c->out_len -= c->out_sent;
        memmove(c->out, c->out + c->out_sent, c->out_len);
        c->out_sent = 0;
    }
    for (size_t i = 0; i < n; i++, c->out_len += request->bytes.len)
        bench_request_write(request, random_key(r), r->written++, c->out + c->out_len);
}

/* Requests that the server did not take on the last connection go out again, when the caller sends. */
static void greet(struct run *r, struct bench_conn *c, uint64_t now)
{
    const struct buf *greeting = &r->plan->request->greeting;

    c->state = CONN_READY;
    c->greetings = r->plan->request->greeting_replies;
    r->room_in_flight += r->plan->pipeline - c->in_flight;
    r->w->reconnects += c->was_up && now >= r->plan->measure_ns;
    c->was_up = true;
    if (greeting->len > 0)
        memcpy(c->out, greeting->at, greeting->len);
    c->out_len = greeting->len;
    bench_conn_write(r, c, c->in_flight);
    if (r->ring)
        bench_ring_receive(r, c);
    else
        watch(r, c, EPOLL_CTL_MOD, false);
}

static void bring_up(struct run *r, struct bench_conn *c, uint64_t now)
{
    const struct server_address *to = &r->plan->url->addresses[0];
    const int on = 1;

    c->fd = socket(to->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    r->down--;
    c->state = CONN_CONNECTING;
    if (c->fd < 0) {
        bench_conn_lose(r, c, now);
        return;
    }
    if (to->socket.ss_family != AF_UNIX)
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, (const struct sockaddr *)&to->socket, to->len) != 0 && errno != EINPROGRESS)
        bench_conn_lose(r, c, now);
    else if (r->ring)
        bench_ring_connect(r, c);
    else
        watch(r, c, EPOLL_CTL_ADD, true);
}

void bench_conn_bring_up(struct run *r, uint64_t now)
{
    for (size_t i = 0; i < r->conn_count && r->down > 0; i++)
        if (r->conns[i].state == CONN_DOWN && now >= r->conns[i].retry_ns)
            bring_up(r, &r->conns[i], now);
}

void bench_conn_connected(struct run *r, struct bench_conn *c, uint64_t now)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0) {
        greet(r, c, now);
        return;
    }
    bench_note_problem(r->w, strerror(error));
    bench_conn_lose(r, c, now);
}
