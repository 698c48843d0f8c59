/* worker.c - one thread of a benchmark. */
#include "cli/bench/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench/ring.h"

enum { ROOM = 256 * 1024, MOST_EVENTS = 256 };

uint64_t bench_clock(void)
{
    return clock_monotonic_ns();
}

/* ---- sending ------------------------------------------------------------------------------- */

static void put_in_flight(struct run *r, struct bench_conn *c, uint64_t since)
{
    c->since[(c->first + c->in_flight++) % r->plan->pipeline] = since;
    r->in_flight++;
    r->room_in_flight--;
    r->sent++;
    if (since < r->plan->measure_ns && r->plan->requests > 0)
        r->quota++; /* those that are asked for are measured */
}

/* Closed loop: a connection that waits for nothing. */
static void send_batch(struct run *r, struct bench_conn *c, uint64_t now)
{
    const uint64_t left = r->quota - r->sent;
    const size_t n = left < r->plan->pipeline ? (size_t)left : r->plan->pipeline;

    if (n == 0 || now >= r->plan->end_ns)
        return;
    for (size_t i = 0; i < n; i++)
        put_in_flight(r, c, now);
    bench_conn_write(r, c, n);
    bench_conn_send(r, c, now);
}

/* Open loop: when the n-th request is to be sent. */
static uint64_t time_of(const struct run *r, uint64_t n)
{
    return r->plan->start_ns + r->offset_ns + n * r->interval_ns;
}

static void send_due(struct run *r, uint64_t now)
{
    while (r->sent < r->quota && r->room_in_flight > 0) {
        const uint64_t due = time_of(r, r->sent);
        struct bench_conn *c;

        if (due > now || due >= r->plan->end_ns)
            return;
        do {
            c = &r->conns[r->next];
            r->next = (r->next + 1) % r->conn_count;
        } while (c->state != CONN_READY || c->in_flight == r->plan->pipeline);
        put_in_flight(r, c, due);
        bench_conn_write(r, c, 1);
        if (!c->waits_to_write)
            bench_conn_send(r, c, now);
    }
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void finish(struct run *r, struct bench_conn *c, enum bench_outcome outcome,
                   const struct bench_reply *reply, uint64_t now)
{
    struct bench_worker *w = r->w;
    const uint64_t since = c->since[c->first];

    if (++c->first == r->plan->pipeline)
        c->first = 0;
    c->in_flight--;
    r->in_flight--;
    r->room_in_flight++;
    atomic_store_explicit(&w->answers, w->answers + 1, memory_order_relaxed);
    if (outcome == OUTCOME_FAILED) {
        bench_note_problem(w, bench_reply_problem(reply).text);
        bench_count_failures(r->w, 1);
    }
    /* In a closed loop, what is answered after the end would be measured under less load. */
    if (since < r->plan->measure_ns || (r->interval_ns == 0 && now > r->plan->end_ns))
        return;
    w->allowed += outcome == OUTCOME_ALLOWED;
    w->denied += outcome == OUTCOME_DENIED;
    w->failed += outcome == OUTCOME_FAILED;
    w->last_ns = now;
    latency_add(&w->latency, now > since ? now - since : 0);
}

/* Take answers out of the bytes; what is left over is kept. False: the connection is down. */
static bool take_answers(struct run *r, struct bench_conn *c, char *at, size_t len, uint64_t now)
{
    struct bench_reply reply;

    while (c->in_flight > 0 || c->greetings > 0) {
        const enum bench_outcome outcome = c->greetings > 0 ? bench_greeting_judge(r->plan->request,
                                                                                   at, len, &reply)
                                                            : bench_request_judge(r->plan->request,
                                                                                  at, len, &reply);

        if (outcome == OUTCOME_INCOMPLETE)
            break;
        if (outcome == OUTCOME_BROKEN) {
            bench_note_problem(r->w, bench_reply_problem(&reply).text);
            bench_conn_lose(r, c, now);
            return false;
        }
        at += reply.consumed;
        len -= reply.consumed;
        if (c->greetings > 0) {
            c->greetings--;
            if (outcome == OUTCOME_FAILED)
                bench_note_problem(r->w, bench_reply_problem(&reply).text);
            continue;
        }
        finish(r, c, outcome, &reply, now);
        if (reply.closes) {
            bench_conn_take_down(r, c, now);
            return false;
        }
    }
    if (len == 0) {
        c->rest_len = 0;
        return true;
    }
    if (at != c->rest) {
        char *kept = len < ROOM ? realloc(c->rest, len) : NULL;

        if (!kept) {
            bench_conn_lose(r, c, now);
            return false;
        }
        memcpy(kept, at, len);
        c->rest = kept;
    }
    c->rest_len = len;
    return true;
}

/* An answer without a length is whole when the connection ends. */
static void end_of_connection(struct run *r, struct bench_conn *c, uint64_t now)
{
    struct bench_reply reply;

    if (c->rest_len > 0 && c->in_flight > 0 &&
        bench_request_judge(r->plan->request, c->rest, c->rest_len, &reply) == OUTCOME_INCOMPLETE &&
        reply.ends_at_close)
        finish(r, c, OUTCOME_ALLOWED, &reply, now);
    if (c->in_flight > 0)
        bench_conn_lose(r, c, now);
    else
        bench_conn_take_down(r, c, now);
}

/* So many bytes behind those that were kept, or the end, or -errno. */
static void received(struct run *r, struct bench_conn *c, char *at, ssize_t n)
{
    const uint64_t now = bench_clock();

    if (n == 0)
        end_of_connection(r, c, now);
    else if (n < 0)
        bench_conn_lose(r, c, now);
    else if (take_answers(r, c, at, c->rest_len + (size_t)n, now) && r->interval_ns == 0 &&
             c->in_flight == 0)
        send_batch(r, c, now);
}

static void receive(struct run *r, struct bench_conn *c)
{
    ssize_t n;

    if (c->rest_len > 0)
        memcpy(r->room, c->rest, c->rest_len);
    n = recv(c->fd, r->room + c->rest_len, ROOM - c->rest_len, 0);
    if (n >= 0 || (errno != EAGAIN && errno != EINTR))
        received(r, c, r->room, n < 0 ? -errno : n);
}

static void received_by_ring(struct run *r, struct bench_conn *c, char *at, ssize_t n)
{
    if (n > 0 && c->rest_len > 0) {
        if ((size_t)n > ROOM - c->rest_len) /* no answer is that long */
            n = -EMSGSIZE;
        memcpy(r->room, c->rest, c->rest_len);
        if (n > 0)
            memcpy(r->room + c->rest_len, at, (size_t)n);
        at = r->room;
    }
    received(r, c, at, n);
}

static void connected(struct run *r, struct bench_conn *c)
{
    const uint64_t now = bench_clock();

    bench_conn_connected(r, c, now);
    if (c->state == CONN_READY && r->interval_ns == 0 && c->in_flight == 0)
        send_batch(r, c, now); /* behind the greeting */
    if (c->state == CONN_READY && c->out_len > 0 && !c->waits_to_write)
        bench_conn_send(r, c, now);
}

static void handle(struct run *r, struct bench_conn *c, uint32_t events)
{
    if (c->state == CONN_CONNECTING) {
        connected(r, c);
        return;
    }
    if (c->state == CONN_READY && (events & EPOLLOUT) && c->out_len > 0)
        bench_conn_send(r, c, bench_clock());
    if (c->state == CONN_READY && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        receive(r, c);
}

/* ---- the run ------------------------------------------------------------------------------- */

static bool start_timer(struct run *r)
{
    const uint64_t tick = r->interval_ns < BENCH_TICK_NS ? BENCH_TICK_NS : r->interval_ns;
    const uint64_t first = time_of(r, 0);
    const struct itimerspec times = {
        .it_value = { (time_t)(first / SECOND), (long)(first % SECOND) },
        .it_interval = { (time_t)(tick / SECOND), (long)(tick % SECOND) },
    };
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };

    r->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return r->timer >= 0 && timerfd_settime(r->timer, TFD_TIMER_ABSTIME, &times, NULL) == 0 &&
           epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->timer, &e) == 0;
}

static size_t share_of(size_t total, size_t parts, size_t index)
{
    return total / parts + (index < total % parts);
}

static bool prepare(struct run *r)
{
    const struct bench_plan *plan = r->plan;
    const size_t out = plan->request->greeting.len + plan->pipeline * plan->request->bytes.len;

    r->conn_count = r->down = share_of(plan->connections, plan->threads, r->w->index);
    r->quota = plan->requests > 0 ? share_of(plan->requests, plan->threads, r->w->index)
                                  : UINT64_MAX;
    r->random = 0x9e3779b97f4a7c15 * (r->w->index + 1);
    r->written = (uint64_t)r->w->index << 40;
    if (plan->rate > 0) {
        r->interval_ns = (uint64_t)SECOND * plan->threads / (uint64_t)plan->rate;
        r->offset_ns = r->interval_ns * r->w->index / plan->threads;
    }
    r->conns = calloc(r->conn_count, sizeof *r->conns);
    r->room = malloc(ROOM);
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (plan->io != IO_EPOLL && plan->rate == 0)
        r->ring = bench_ring_open();
    if (plan->io == IO_URING && !r->ring) {
        errno = ENOSYS;
        return false;
    }
    if (!r->conns || !r->room || r->epoll < 0 || (r->interval_ns > 0 && !start_timer(r)))
        return false;
    for (size_t i = 0; i < r->conn_count; i++) {
        r->conns[i].fd = -1;
        r->conns[i].since = malloc(plan->pipeline * sizeof *r->conns[i].since);
        r->conns[i].out = malloc(out);
        if (!r->conns[i].since || !r->conns[i].out)
            return false;
    }
    return true;
}

static void clean_up(struct run *r)
{
    bench_ring_close(r->ring);
    for (size_t i = 0; r->conns && i < r->conn_count; i++) {
        if (r->conns[i].fd >= 0)
            close(r->conns[i].fd);
        free(r->conns[i].since);
        free(r->conns[i].out);
        free(r->conns[i].rest);
    }
    free(r->conns);
    free(r->room);
    if (r->timer >= 0)
        close(r->timer);
    if (r->epoll >= 0)
        close(r->epoll);
}

/* Nothing more is sent. In an open loop, answers are still waited for: to leave out the slowest
 * ones would flatter the server. */
static bool has_ended(const struct run *r, uint64_t now)
{
    if (atomic_load_explicit(&r->plan->stop, memory_order_relaxed))
        return true;
    if (r->sent == r->quota && r->in_flight == 0)
        return true;
    if (now < r->plan->end_ns)
        return false;
    if (r->interval_ns == 0)
        return true;
    if (now >= r->plan->end_ns + (uint64_t)BENCH_DRAIN_MS * MILLISECOND)
        return true;
    return r->in_flight == 0 && (r->sent == r->quota || time_of(r, r->sent) >= r->plan->end_ns);
}

static void wait_by_epoll(struct run *r, int most_ms)
{
    struct epoll_event events[MOST_EVENTS];
    const int n = epoll_wait(r->epoll, events, MOST_EVENTS, most_ms);
    uint64_t ticks;

    for (int i = 0; i < n; i++)
        if (events[i].data.ptr)
            handle(r, events[i].data.ptr, events[i].events);
        else if (read(r->timer, &ticks, sizeof ticks) < 0)
            continue; /* it has not ticked after all */
}

static void turn(struct run *r, uint64_t now)
{
    static const struct bench_ring_events events = { connected, received_by_ring };
    int most_ms;

    if (!r->is_measuring && now >= r->plan->measure_ns) {
        r->is_measuring = true;
        r->cpu_from = clock_thread_cpu_ns();
    }
    if (r->down > 0)
        bench_conn_bring_up(r, now);
    if (r->interval_ns > 0)
        send_due(r, now);
    most_ms = r->down > 0 ? 10 : 100;
    if (r->ring)
        bench_ring_turn(r, most_ms, &events);
    else
        wait_by_epoll(r, most_ms);
}

/* Open loop: all that should have been sent and was not answered. */
static void count_lost(struct run *r, uint64_t now)
{
    if (r->interval_ns == 0)
        return;
    r->w->lost += r->in_flight;
    for (uint64_t n = r->sent; n < r->quota; n++) {
        const uint64_t due = time_of(r, n);

        if (due >= r->plan->end_ns || due > now)
            break;
        r->w->lost += due >= r->plan->measure_ns;
    }
}

void *bench_worker_run(void *worker)
{
    struct bench_worker *w = worker;
    struct run r = { .w = w, .plan = w->plan, .epoll = -1, .timer = -1 };
    uint64_t now = bench_clock();

    if (prepare(&r)) {
        for (; !has_ended(&r, now); now = bench_clock())
            turn(&r, now);
        count_lost(&r, now);
        w->cpu_ns = r.is_measuring ? clock_thread_cpu_ns() - r.cpu_from : 0;
    } else {
        w->trouble = strerror(errno);
    }
    clean_up(&r);
    atomic_store_explicit(&w->has_ended, true, memory_order_release);
    return NULL;
}
