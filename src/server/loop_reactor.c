/* loop_reactor.c - what a remote store waits with, on one of the server's event loops. */
#include "server/loop_reactor.h"

#include <stdlib.h>

struct watch {
    union {
        uv_handle_t handle;
        uv_poll_t poll;
        uv_timer_t timer;
    };
    void (*ready)(void *ctx, unsigned events);
    void (*due)(void *ctx);
    void *ctx;
    unsigned events;
    const struct loop_reactor *reactor;
};

static uv_loop_t *uv_of(const struct reactor *r)
{
    return ((const struct loop_reactor *)r)->uv;
}

/* ---- sockets ------------------------------------------------------------------------------- */

/* On an error both events are reported: the next read or write then says what it is. */
static void poll_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *w = poll->data;

    if (status < 0)
        w->ready(w->ctx, w->events);
    else
        w->ready(w->ctx, (events & UV_READABLE ? REACTOR_READ : 0u) |
                             (events & UV_WRITABLE ? REACTOR_WRITE : 0u));
}

static void rewatch(struct watch *w, unsigned events)
{
    const int wanted = (events & REACTOR_READ ? UV_READABLE : 0) |
                       (events & REACTOR_WRITE ? UV_WRITABLE : 0);

    if (events == w->events)
        return;
    w->events = events;
    if (wanted)
        uv_poll_start(&w->poll, wanted, poll_ready);
    else
        uv_poll_stop(&w->poll);
}

static struct watch *watch_socket(struct reactor *r, int fd, unsigned events,
                                  void (*ready)(void *ctx, unsigned events), void *ctx)
{
    struct watch *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    if (uv_poll_init(uv_of(r), &w->poll, fd) != 0) {
        free(w);
        return NULL;
    }
    w->handle.data = w;
    w->ready = ready;
    w->ctx = ctx;
    rewatch(w, events);
    return w;
}

/* ---- moments -------------------------------------------------------------------------------- */

static void timer_due(uv_timer_t *timer)
{
    const struct watch *w = timer->data;
    const struct loop_reactor *r = w->reactor;

    w->due(w->ctx);
    r->after_moment(r->ctx);
}

static struct watch *watch_time(struct reactor *r, void (*due)(void *ctx), void *ctx)
{
    struct watch *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    uv_timer_init(uv_of(r), &w->timer);
    w->handle.data = w;
    w->due = due;
    w->ctx = ctx;
    w->reactor = (const struct loop_reactor *)r;
    return w;
}

static void set_timer(struct watch *w, int64_t ms)
{
    if (ms < 0)
        uv_timer_stop(&w->timer);
    else
        uv_timer_start(&w->timer, timer_due, (uint64_t)ms, 0);
}

/* ---- both ----------------------------------------------------------------------------------- */

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void unwatch(struct watch *w)
{
    if (w && !uv_is_closing(&w->handle))
        uv_close(&w->handle, closed);
}

static int64_t now(const struct reactor *r)
{
    uv_update_time(uv_of(r));
    return (int64_t)uv_now(uv_of(r));
}

void loop_reactor_init(struct loop_reactor *r, uv_loop_t *uv, void (*after_moment)(void *ctx),
                       void *ctx)
{
    *r = (struct loop_reactor){
        .reactor = { watch_socket, rewatch, watch_time, set_timer, unwatch, now },
        .uv = uv,
        .after_moment = after_moment,
        .ctx = ctx,
    };
}
