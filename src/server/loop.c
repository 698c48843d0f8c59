/* loop.c - one event loop: a thread, its connections, and the turn. */
#include "server/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "server/errand.h"
#include "server/server.h"

enum {
    MOST_ROUNDS = 4,           /* of a turn; then those who came meanwhile are read from, too */
    MOST_PAGES = 8,            /* sent by a turn: each is a call of the kernel that copies it, and
                                  checks of other connections wait for that */
    SENT_TOGETHER = 64 * 1024, /* bytes that are encoded before the first is sent */
    KEPT_OUT = 1024 * 1024,    /* a larger buffer of encoded replies is given back */
    DRAIN_LINGER_MS = 30,      /* before idle connections are ended */
    DRAIN_SILENT_MS = 1000,    /* for a connection that has not said anything yet */
};

/* ---- the turn ---------------------------------------------------------------------------- */

struct engine *loop_engine(const struct loop *loop)
{
    return &loop->server->weir->engine;
}

static struct pin *new_pin(struct loop *loop)
{
    struct pin *pin = loop->free_pins;

    if (pin)
        loop->free_pins = pin->next;
    else
        pin = malloc(sizeof *pin);
    if (!pin)
        return NULL;
    *pin = (struct pin){
        .visit = published_enter(&loop->server->weir->policies),
        .calls = 1, /* the turn itself */
        .began_ns = clock_monotonic_ns(),
    };
    return pin;
}

void loop_unpin(struct loop *loop, struct pin *pin)
{
    if (--pin->calls > 0)
        return;
    published_leave(&loop->server->weir->policies, pin->visit);
    pin->next = loop->free_pins;
    loop->free_pins = pin;
}

bool loop_begin_asking(struct loop *loop)
{
    const weir *w = loop->server->weir;

    if (loop->is_asking)
        return true;
    loop->pin = new_pin(loop);
    if (!loop->pin)
        return false;
    loop->is_asking = true;
    loop->now = w->clock(w->clock_ctx);
    return true;
}

static void ask_prepared(struct loop *loop)
{
    for (size_t i = 0; i < loop->prepared_count; i++)
        engine_prefetch(loop_engine(loop), &loop->prepared[i]->check, PREFETCH_PLACE);
    for (size_t i = 0; i < loop->prepared_count; i++)
        engine_ask(loop_engine(loop), &loop->pending, &loop->prepared[i]->check, loop->now);
    loop->asked += loop->prepared_count;
    loop->prepared_count = 0;
}

void loop_ask(struct loop *loop, struct call *call)
{
    engine_prefetch(loop_engine(loop), &call->check, PREFETCH_WAY);
    loop->prepared[loop->prepared_count++] = call;
    if (loop->prepared_count == LOOP_ASKED_TOGETHER)
        ask_prepared(loop);
}

static void note_times(struct loop *loop, const struct pin *pin, size_t answered)
{
    const uint64_t now = clock_monotonic_ns();

    observer_time(loop->observer, now - pin->began_ns, answered);
    if (pin->answered == pin->asked)
        observer_commit(loop->observer, now - pin->committed_ns, pin->asked);
}

/* Those that are answered within their turn are noted together, when it is committed. */
void loop_answered(struct loop *loop, struct pin *pin)
{
    pin->answered++;
    if (pin->committed_ns)
        note_times(loop, pin, 1);
}

static void commit(struct loop *loop)
{
    struct pin *pin = loop->pin;
    const uint64_t before = clock_monotonic_ns();

    pin->asked = loop->asked;
    loop->asked = 0;
    engine_commit(loop_engine(loop), &loop->pending);
    pin->committed_ns = before;
    note_times(loop, pin, pin->answered);
}

static void decide(struct loop *loop)
{
    if (!loop->is_asking)
        return;
    ask_prepared(loop);
    commit(loop);
    loop->is_asking = false;
    loop_unpin(loop, loop->pin);
}

/* Many are encoded before the first is sent: what the kernel does for each drives our code and
 * data out of the processor's caches. */
static void send_encoded(struct loop *loop, struct session *first)
{
    struct session *from = first, *to;

    while (from) {
        for (to = from; to && loop->out.len < SENT_TOGETHER; to = to->next_flush)
            session_encode(to, &loop->out);
        for (; from != to; from = from->next_flush)
            session_send(from, &loop->out);
        loop->out.len = 0;
    }
}

/* What was encoded in the midst of the turn. */
static void send_early_ones(struct loop *loop)
{
    for (struct session *s = loop->flush_first; s != loop->unencoded; s = s->next_flush)
        session_send(s, &loop->out);
    loop->out.len = 0;
}

/* Early ones may have more to say since. */
static void flush(struct loop *loop)
{
    struct session *s, *next;

    send_early_ones(loop);
    s = loop->flush_first;
    loop->flush_first = loop->unencoded = NULL;
    loop->texts = 0;
    send_encoded(loop, s);
    if (loop->out.room > KEPT_OUT)
        buf_done(&loop->out);
    for (; s; s = next) {
        next = s->next_flush;
        session_go_on(s);
    }
}

/* The barrier between the last decision and the first byte of a reply. A connection that was held
 * back may be read from again by a flush, and then asks anew. True: all is done that there was. */
static bool end_turn(struct loop *loop, size_t rounds, size_t pages)
{
    loop->pages_left = pages;
    for (; rounds > 0 && (loop->is_asking || loop->flush_first); rounds--) {
        decide(loop);
        flush(loop);
    }
    return !loop->is_asking && !loop->flush_first;
}

void loop_end_turn(struct loop *loop)
{
    end_turn(loop, SIZE_MAX, SIZE_MAX);
}

/* While they are still in the processor's caches. The turn must not end in here: who is being read
 * from would not be gone on with. */
void loop_took_all(struct loop *loop)
{
    if (loop->asked + loop->prepared_count < LOOP_DECIDED_TOGETHER ||
        !loop_engine(loop)->store->commits_at_once)
        return;
    if (loop->out.len >= SENT_TOGETHER)
        send_early_ones(loop);
    decide(loop);
    for (; loop->unencoded; loop->unencoded = loop->unencoded->next_flush)
        session_encode(loop->unencoded, &loop->out);
}

void loop_flush_later(struct loop *loop, struct session *s)
{
    if (s->will_flush)
        return;
    s->will_flush = true;
    s->next_flush = NULL;
    if (loop->flush_first)
        loop->flush_last->next_flush = s;
    else
        loop->flush_first = s;
    loop->flush_last = s;
    if (!loop->unencoded)
        loop->unencoded = s;
}

void loop_asked_enough(struct loop *loop)
{
    const bool commits_at_once = loop_engine(loop)->store->commits_at_once;

    if (loop->asked >= LOOP_MOST_ASKED || loop->texts >= LOOP_MOST_TEXTS ||
        (commits_at_once && loop->in_flight >= LOOP_MOST_ANSWERED))
        loop_end_turn(loop);
}

static void end_turn_now(void *loop)
{
    loop_end_turn(loop);
}

static void turn_ends(uv_check_t *check)
{
    struct loop *loop = check->data;

    conn_pool_feed(&loop->conns);
    if (!end_turn(loop, MOST_ROUNDS, MOST_PAGES) && !uv_is_closing((uv_handle_t *)&loop->wake))
        uv_async_send(&loop->wake); /* so that the next one is at once */
}

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

static void somebody_came(uv_stream_t *listener, int status)
{
    if (status == 0)
        session_accept(listener->data, listener);
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
        err = uv_listen(&l->stream, LISTENER_BACKLOG, somebody_came);
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

static weir_err attach(struct loop *loop, weir_diag *diag)
{
    struct store *store = loop_engine(loop)->store;

    if (!store->ops->attach)
        return WEIR_OK;
    loop_reactor_init(&loop->reactor, &loop->uv, end_turn_now, loop);
    loop->pending.lane = store->ops->attach(store, &loop->reactor.reactor);
    if (!loop->pending.lane)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    return WEIR_OK;
}

/* What is open is answered by that, and has nobody left to be sent to. */
static void detach(struct loop *loop)
{
    struct store *store = loop_engine(loop)->store;

    loop_end_turn(loop);
    if (loop->pending.lane)
        store->ops->detach(store, loop->pending.lane);
    loop->pending.lane = NULL;
    loop_end_turn(loop);
}

void loop_lost_one(struct loop *loop)
{
    if (!loop->is_draining || loop->conns.count > 0)
        return;
    detach(loop);
    conn_pool_close(&loop->conns);
    close_handle(&loop->wake);
    close_handle(&loop->drain_deadline);
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
        struct session *s = (struct session *)c;

        if (c->rest.len > 0)
            continue;
        if (s->was_served || now - c->came >= DRAIN_SILENT_MS)
            session_end(s);
        else
            conn_expire_in(c, DRAIN_SILENT_MS - (int64_t)(now - c->came));
    }
    loop_end_turn(loop); /* the next one may be far */
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

/* Stop accepting, end those that have nothing under way, and let the others finish. What is on its
 * way to us when we decide to go gets here first. */
static void drain(struct loop *loop)
{
    if (loop->is_draining || !atomic_load(&loop->server->is_draining))
        return;
    loop->is_draining = true;
    for (size_t i = 0; i < loop->listener_count; i++)
        close_handle(&loop->listeners[i]);
    conn_pool_hurry(&loop->conns); /* a successor may be waiting */
    uv_timer_start(&loop->drain_deadline, end_idle_ones, DRAIN_LINGER_MS, 0);
    loop_lost_one(loop); /* there may be none to wait for */
}

static void woken(uv_async_t *wake)
{
    drop_wanted(wake->data);
    drain(wake->data);
}

/* ---- life -------------------------------------------------------------------------------- */

weir_err loop_init(struct loop *loop, struct server *server, size_t index, weir_diag *diag)
{
    const weir_allocator allocator = alloc_or_default((weir_allocator){ 0 });
    int err;

    loop->server = server;
    loop->index = index;
    loop->next_id = index + 1;
    buf_init(&loop->out, &allocator);
    err = uv_loop_init(&loop->uv);
    if (err)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot make an event loop: %s", uv_strerror(err));
    loop->uv.data = loop;
    uv_check_init(&loop->uv, &loop->end_of_turn);
    uv_timer_init(&loop->uv, &loop->drain_deadline);
    uv_async_init(&loop->uv, &loop->wake, woken);
    loop->end_of_turn.data = loop->drain_deadline.data = loop->wake.data = loop;
    uv_check_start(&loop->end_of_turn, turn_ends);
    loop->conns = (struct conn_pool){
        .events = &session_events,
        .tls = current_tls,
        .idle_timeout_ms = server->settings.idle_timeout_ms,
        .request_timeout_ms = server->settings.request_timeout_ms,
        .max_unsent = LOOP_MOST_UNSENT,
        .max_unknown_unsent = LOOP_MOST_UNKNOWN_UNSENT,
        .most_held = LOOP_MOST_HELD / server->loop_count,
    };
    if (conn_pool_init(&loop->conns, &loop->uv))
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (attach(loop, diag))
        return WEIR_ENOMEM;
    return listen_on_all(loop, diag);
}

static void run(void *arg)
{
    struct loop *loop = arg;

    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

weir_err loop_start(struct loop *loop, weir_diag *diag)
{
    int err = uv_thread_create(&loop->thread, run, loop);

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
    conn_pool_done(&loop->conns);
    calls_free(loop);
    while (loop->free_pins) {
        struct pin *pin = loop->free_pins;

        loop->free_pins = pin->next;
        free(pin);
    }
    free(loop->listeners);
    buf_done(&loop->out);
}
