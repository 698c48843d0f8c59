/* connector.c - makes connections for loops. */
#include "store/remote/connector.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"

enum stage { QUEUED, CONNECTING, ENDED };

struct connect_request {
    struct connector *connector;
    void *target;

    /* Of the reactor's thread. */
    struct reactor *reactor;
    int ready_fd; /* an eventfd */
    struct watch *watch;
    connect_done *done;
    void *ctx;

    /* Under the connector's mutex. */
    enum stage stage;
    bool is_dropped; /* while it is CONNECTING: the connecting thread frees it */
    void *session;   /* NULL: `why` */
    char why[CONNECTOR_WHY];
    struct connect_request *next;
};

void connector_init(struct connector *c)
{
    pthread_mutex_init(&c->mutex, NULL);
    c->first = c->last = NULL;
    c->spare = NULL;
}

void connector_done(struct connector *c)
{
    c->close(c->spare);
    pthread_mutex_destroy(&c->mutex);
}

/* ---- the thread that connects ---------------------------------------------------------------- */

weir_err connector_try(struct connector *c, void *target, weir_diag *diag)
{
    c->spare_target = target;
    return c->connect(target, &c->spare, diag);
}

static void free_request(struct connect_request *r)
{
    r->connector->close(r->session);
    if (r->ready_fd >= 0)
        close(r->ready_fd);
    alloc_free(&r->connector->allocator, r);
}

/* With the mutex. */
static void end_request(struct connect_request *r, void *session)
{
    const uint64_t one = 1;

    r->session = session;
    r->stage = ENDED;
    while (write(r->ready_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static struct connect_request *take_request(struct connector *c)
{
    struct connect_request *r;

    pthread_mutex_lock(&c->mutex);
    r = c->first;
    if (r) {
        c->first = r->next;
        if (!c->first)
            c->last = NULL;
        r->stage = CONNECTING;
    }
    pthread_mutex_unlock(&c->mutex);
    return r;
}

static void serve_request(struct connector *c, struct connect_request *r)
{
    void *session = NULL;
    weir_diag diag = { "" };
    const weir_err err = c->connect(r->target, &session, &diag);
    bool is_dropped;

    pthread_mutex_lock(&c->mutex);
    if (err)
        snprintf(r->why, sizeof r->why, "%.*s", CONNECTOR_WHY - 1, diag.text);
    end_request(r, session);
    is_dropped = r->is_dropped;
    pthread_mutex_unlock(&c->mutex);
    if (is_dropped)
        free_request(r);
}

void connector_work(struct connector *c)
{
    struct connect_request *r;

    while ((r = take_request(c)))
        serve_request(c, r);
}

/* ---- the threads that request ---------------------------------------------------------------- */

static void ready(void *ctx, unsigned events)
{
    struct connect_request *r = ctx;
    connect_done *const done = r->done;
    void *const done_ctx = r->ctx, *session;
    char why[CONNECTOR_WHY];

    (void)events;
    r->reactor->unwatch(r->watch);
    pthread_mutex_lock(&r->connector->mutex);
    session = r->session;
    r->session = NULL;
    snprintf(why, sizeof why, "%s", r->why);
    pthread_mutex_unlock(&r->connector->mutex);
    free_request(r);
    done(done_ctx, session, why);
}

/* True: it has the connection that was made ahead. */
static bool put_request(struct connector *c, struct connect_request *r)
{
    bool has_session;

    pthread_mutex_lock(&c->mutex);
    has_session = c->spare && c->spare_target == r->target;
    if (has_session) {
        end_request(r, c->spare);
        c->spare = NULL;
    } else {
        if (c->last)
            c->last->next = r;
        else
            c->first = r;
        c->last = r;
    }
    pthread_mutex_unlock(&c->mutex);
    return has_session;
}

struct connect_request *connect_request_new(struct connector *c, void *target,
                                            struct reactor *reactor, connect_done *done, void *ctx)
{
    struct connect_request *r = alloc_zeroed(&c->allocator, sizeof *r);

    if (!r)
        return NULL;
    r->connector = c;
    r->target = target;
    r->reactor = reactor;
    r->done = done;
    r->ctx = ctx;
    r->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->ready_fd >= 0)
        r->watch = reactor->watch(reactor, r->ready_fd, REACTOR_READ, ready, r);
    if (!r->watch) {
        free_request(r);
        return NULL;
    }
    if (!put_request(c, r) && c->wake)
        c->wake(c->wake_ctx);
    return r;
}

/* With the mutex. */
static void remove_request(struct connector *c, const struct connect_request *r)
{
    struct connect_request **at = &c->first;

    c->last = NULL;
    while (*at) {
        if (*at == r) {
            *at = r->next;
        } else {
            c->last = *at;
            at = &(*at)->next;
        }
    }
}

void connect_request_drop(struct connect_request *r)
{
    bool is_ours;

    if (!r)
        return;
    r->reactor->unwatch(r->watch);
    pthread_mutex_lock(&r->connector->mutex);
    is_ours = r->stage != CONNECTING;
    r->is_dropped = true;
    if (r->stage == QUEUED)
        remove_request(r->connector, r);
    pthread_mutex_unlock(&r->connector->mutex);
    if (is_ours)
        free_request(r);
}
