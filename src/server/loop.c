/* loop.c - one event loop: its life, its listeners, and how it drains. */
#include "server/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "net/poller.h"
#include "net/uring.h"
#include "server/errand.h"
#include "server/http2/http2.h"
#include "server/http2/stream.h"
#include "server/server.h"

enum {
    DRAIN_QUEUE_MS = 30,    /* at most, until those are accepted that have connected before */
    DRAIN_LINGER_MS = 30,   /* before idle connections are ended */
    DRAIN_SILENT_MS = 1000, /* for a connection that has sent nothing yet */
};

/* ---- listening --------------------------------------------------------------------------- */

bool loop_requires_tls(const struct loop *loop)
{
    return atomic_load(&loop->server->tls) && !loop->server->settings.allows_plain;
}

uint64_t loop_next_id(struct loop *loop)
{
    loop->next_id += loop->server->loop_count;
    return loop->next_id;
}

static struct tls_context *current_tls(struct conn_pool *pool)
{
    const struct loop *loop = pool->uv->data;

    return server_tls(loop->server);
}

/* One that there is no memory for waits, and those behind it, as libuv does not accept the next before
 * this one is taken. */
static void accept_ready(uv_stream_t *listener, int status)
{
    struct loop *loop = listener->data;

    if (status == 0 && !session_accept(loop, listener))
        ((struct loop_listener *)listener)->has_waiting = loop->has_waiting = true;
}

/* … until there is: the timer of the connections ends a turn soon enough. */
static void accept_waiting(struct loop *loop)
{
    loop->has_waiting = false;
    for (size_t i = 0; i < loop->listener_count && !loop->is_draining; i++) {
        struct loop_listener *l = &loop->listeners[i];

        if (!l->has_waiting)
            continue;
        l->has_waiting = false;
        accept_ready(&l->stream, 0);
    }
}

/* Connections inherit it. The kernel would take megabytes for a client that reads nothing. */
static void bound_kernel_queue(int fd)
{
    const int most = LOOP_MOST_UNKNOWN_UNSENT;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
}

static weir_err listen_on(struct loop *loop, const struct listener *from, weir_diag *diag)
{
    struct loop_listener *l = &loop->listeners[loop->listener_count++];
    int fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0), err = fd < 0 ? uv_translate_sys_error(errno) : 0;

    if (from->is_unix)
        uv_pipe_init(&loop->uv, &l->pipe, 0);
    else
        uv_tcp_init(&loop->uv, &l->tcp);
    l->handle.data = loop;
    if (!err && !from->is_unix)
        bound_kernel_queue(fd);
    if (!err) {
        err = from->is_unix ? uv_pipe_open(&l->pipe, fd) : uv_tcp_open(&l->tcp, fd);
        if (err)
            close(fd);
    }
    if (!err)
        err = uv_listen(&l->stream, LISTENER_BACKLOG, accept_ready);
    if (err)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot listen on %s: %s", from->name,
                         uv_strerror(err));
    return WEIR_OK;
}

static weir_err listen_on_all(struct loop *loop, weir_diag *diag)
{
    const struct listeners *all = &loop->server->listeners;
    weir_err err = WEIR_OK;

    loop->listeners = calloc(all->count, sizeof *loop->listeners);
    if (!loop->listeners)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    for (size_t i = 0; i < all->count && !err; i++)
        if (listener_is_for(&all->all[i], loop->index))
            err = listen_on(loop, &all->all[i], diag);
    return err;
}

/* ---- draining ---------------------------------------------------------------------------- */

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Timers run before sockets are waited for: what a timer has answered must not wait for those. */
static void after_timer(void *loop)
{
    turn_finish(loop);
}

static weir_err attach(struct loop *loop, weir_diag *diag)
{
    struct store *store = loop_engine(loop)->store;

    if (!store->ops->attach)
        return WEIR_OK;
    loop_reactor_init(&loop->reactor, &loop->uv, after_timer, loop);
    loop->turn.pending.lane = store->ops->attach(store, &loop->reactor.reactor);
    if (!loop->turn.pending.lane)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    lease_lane_begin(&loop->leases, loop_engine(loop), loop->turn.pending.lane,
                     &loop->reactor.reactor);
    loop->turn.pending.leases = loop->leases.lane ? &loop->leases : NULL;
    return WEIR_OK;
}

/* A lane may not be detached by what it calls: so the loop is woken. */
static void leases_ended(void *loop)
{
    loop_wake(loop);
}

/* Detaching answers all that is open; there is no connection left to send the replies to. */
static void detach(struct loop *loop)
{
    struct store *store = loop_engine(loop)->store;

    turn_finish(loop);
    lease_lane_done(&loop->leases);
    loop->turn.pending.leases = NULL;
    if (loop->turn.pending.lane)
        store->ops->detach(store, loop->turn.pending.lane);
    loop->turn.pending.lane = NULL;
    turn_finish(loop);
}

void loop_lost_one(struct loop *loop)
{
    if (!loop->is_draining || loop->conns.count > 0 ||
        !lease_lane_end(&loop->leases, leases_ended, loop))
        return;
    detach(loop);
    conn_pool_close(&loop->conns);
    close_handle(&loop->wake);
    close_handle(&loop->drain_deadline);
    close_handle(&loop->call_time);
    close_handle(&loop->watching);
    close_handle(&loop->end_of_turn);
}

static void give_up_waiting(uv_timer_t *timer)
{
    struct loop *loop = timer->data;

    errands_drop(loop);
    for (struct conn *c = conn_pool_first(&loop->conns), *next; c; c = next) {
        next = conn_pool_next(c);
        conn_close(c);
    }
}

/* Those that ask for nothing now. A new connection is served once: it may have waited in the queue,
 * or be shaking hands. */
static void end_idle_ones(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    const uint64_t now = uv_now(&loop->uv);

    for (struct conn *c = conn_pool_first(&loop->conns); c; c = conn_pool_next(c)) {
        struct session *s = session_of(c);

        if (c->rest.len > 0 || s->http2)
            continue;
        if (s->was_served || now - c->came >= DRAIN_SILENT_MS)
            session_end(s);
        else
            conn_expire_in(c, DRAIN_SILENT_MS - (int64_t)(now - c->came));
    }
    turn_finish(loop); /* the next one may be far */
    uv_timer_start(&loop->drain_deadline, give_up_waiting,
                   (uint64_t)loop->server->settings.drain_timeout_ms, 0);
}

bool loop_make_room(struct loop *loop)
{
    struct server *server = loop->server;

    if (conn_pool_drop_one(&loop->conns))
        return true;
    for (size_t i = 0; i < server->loop_count; i++) {
        struct loop *other = &server->loops[i];

        if (atomic_load(&other->conns.unknown) <= atomic_load(&other->to_drop))
            continue;
        atomic_fetch_add(&other->to_drop, 1);
        loop_wake(other);
        return true;
    }
    return false;
}

static void drop_wanted(struct loop *loop)
{
    for (long n = atomic_exchange(&loop->to_drop, 0); n > 0; n--)
        conn_pool_drop_one(&loop->conns);
}

/* Those that speak HTTP/2 are told at once, and answer. */
static void say_goaway(struct loop *loop)
{
    for (struct conn *c = conn_pool_first(&loop->conns); c; c = conn_pool_next(c))
        if (session_of(c)->http2)
            http2_drain(session_of(c));
}

/* Do clients wait to be accepted? They have connected, and a socket that is closed resets them. */
static bool has_queue(const struct loop *loop)
{
    struct pollfd p = { .events = POLLIN };

    for (size_t i = 0; i < loop->listener_count; i++)
        if (uv_fileno(&loop->listeners[i].handle, &p.fd) == 0 && poll(&p, 1, 0) > 0)
            return true;
    return false;
}

/* Stop accepting, end those that have nothing under way, and let the others finish. What is on its
 * way to us when we decide to go gets here first. */
static void drain(struct loop *loop)
{
    if (loop->is_draining || !atomic_load(&loop->server->is_draining))
        return;
    if (loop->drain_by == 0)
        loop->drain_by = uv_now(&loop->uv) + DRAIN_QUEUE_MS;
    if (uv_now(&loop->uv) < loop->drain_by && has_queue(loop)) {
        loop_wake(loop); /* they are accepted in the turns until then */
        return;
    }
    loop->is_draining = true;
    for (size_t i = 0; i < loop->listener_count; i++)
        close_handle(&loop->listeners[i]);
    conn_pool_hurry(&loop->conns); /* a successor may be waiting */
    say_goaway(loop);
    uv_timer_start(&loop->drain_deadline, end_idle_ones, DRAIN_LINGER_MS, 0);
    loop_lost_one(loop); /* there may be none to wait for */
}

static void woken(uv_async_t *wake)
{
    struct loop *loop = wake->data;

    drop_wanted(loop);
    if (loop->is_draining)
        loop_lost_one(loop);
    else
        drain(loop);
}

/* All sockets that were ready have been read from; if libuv was run as well, it calls this. */
static void end_turn(uv_check_t *check)
{
    struct loop *loop = check->data;
    const bool had_work = turn_has_work(loop), has_ended = turn_end(loop);

    if (loop->has_waiting)
        accept_waiting(loop);
    if (uv_is_closing((uv_handle_t *)&loop->wake)) /* it drains, and that was all */
        return;
    loop->has_more_to_do = !has_ended;
    look_again_after(&loop->look_again, had_work, &loop->turn.work);
    loop->turn.work = (struct turn_work){ 0 };
}

/* ---- life -------------------------------------------------------------------------------- */

static weir_err choose_io(struct loop *loop, weir_diag *diag)
{
    const enum io_way way = loop->server->settings.io;
    weir_err err = WEIR_OK;

    if (way != IO_EPOLL)
        err = uring_open(&loop->conns.uring, &loop->conns, diag);
    if (err && way == IO_AUTO) {
        event_log_write(loop->server->log, "debug", "io", "%s", diag->text);
        err = WEIR_OK;
    }
    if (!err && !loop->conns.uring)
        err = poller_open(&loop->conns.poller, &loop->conns, diag);
    return err;
}

weir_err loop_init(struct loop *loop, struct server *server, size_t index, weir_diag *diag)
{
    int err;

    loop->server = server;
    loop->engine = &server->weir->engine;
    loop->index = index;
    loop->next_id = index + 1;
    turn_init(&loop->turn);
    err = uv_loop_init(&loop->uv);
    if (err)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot make an event loop: %s", uv_strerror(err));
    loop->uv.data = loop;
    uv_check_init(&loop->uv, &loop->end_of_turn);
    uv_timer_init(&loop->uv, &loop->drain_deadline);
    uv_timer_init(&loop->uv, &loop->call_time);
    uv_timer_init(&loop->uv, &loop->watching);
    uv_async_init(&loop->uv, &loop->wake, woken);
    look_again_init(&loop->look_again);
    loop->end_of_turn.data = loop->drain_deadline.data = loop->wake.data = loop;
    loop->call_time.data = loop->watching.data = loop;
    uv_check_start(&loop->end_of_turn, end_turn);
    loop->conns = (struct conn_pool){
        .events = &session_events,
        .tls = current_tls,
        .idle_timeout_ms = server->settings.idle_timeout_ms,
        .request_timeout_ms = server->settings.request_timeout_ms,
        .most_age_ms = server->settings.max_connection_age_ms,
        .max_unsent = LOOP_MOST_UNSENT,
        .max_unknown_unsent = LOOP_MOST_UNKNOWN_UNSENT,
        .most_held = LOOP_MOST_HELD / server->loop_count,
    };
    if (conn_pool_init(&loop->conns, &loop->uv))
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (attach(loop, diag))
        return WEIR_ENOMEM;
    if (choose_io(loop, diag))
        return WEIR_ESYSTEM;
    return listen_on_all(loop, diag);
}

/* False: libuv has nothing to do. */
static bool read_from_all(struct loop *loop, bool may_wait)
{
    struct poller *poller = loop->conns.poller;
    struct uring *u = loop->conns.uring;

    if (u)
        uring_turn(u, may_wait);
    else
        poller_turn(poller, may_wait);
    return u ? uring_is_uv_due(u) : poller_is_uv_due(poller);
}

/* The turn is not libuv's: that is run when it has something to do. */
void loop_turn(struct loop *loop, bool may_wait)
{
    const bool is_looking = loop->look_again.is_looking;

    may_wait = may_wait && !is_looking && !loop->has_more_to_do;
    if (is_looking) {
        if (loop->conns.uring)
            uring_submit(loop->conns.uring);
        look_again_wait(&loop->look_again);
    }
    if (read_from_all(loop, may_wait))
        uv_run(&loop->uv, UV_RUN_NOWAIT); /* and it ends the turn */
    else
        end_turn(&loop->end_of_turn);
}

void loop_run(struct loop *loop)
{
    while (uv_loop_alive(&loop->uv))
        loop_turn(loop, true);
}

static void run_loop(void *arg)
{
    loop_run(arg);
}

weir_err loop_start(struct loop *loop, weir_diag *diag)
{
    int err = uv_thread_create(&loop->thread, run_loop, loop);

    if (err)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot start a thread: %s", uv_strerror(err));
    return WEIR_OK;
}

void loop_wake(struct loop *loop)
{
    uv_async_send(&loop->wake);
}

void loop_join(struct loop *loop)
{
    uv_thread_join(&loop->thread);
}

static void close_any(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    close_handle(handle);
}

void loop_done(struct loop *loop)
{
    if (!loop->uv.data) /* it never came to be */
        return;
    detach(loop);
    uv_walk(&loop->uv, close_any, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    poller_close(loop->conns.poller);
    uring_close(loop->conns.uring);
    conn_pool_done(&loop->conns);
    reply_runs_free(loop);
    calls_free(loop);
    streams_free(loop);
    http2_memory_done(&loop->http2_memory);
    turn_done(&loop->turn);
    free(loop->listeners);
}
