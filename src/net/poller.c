/* poller.c - connections by epoll.
 *
 * IN    A connection is in the set from when it is accepted until it is closed, and the kernel tells
 *       of it once each time something arrives (EPOLLET). From then on it has more, until a read
 *       finds less than there is room for. One that has more and wants it is in a list: each is read
 *       from once a turn, those first that have waited for longest. To pause one takes no system
 *       call.
 * LIBUV is run when its descriptor is readable, a timer is due, or it has handles to close.
 *
 * RULES
 *   E1  The thread does not sleep while a connection is in the list: no event may come for it.
 *   E2  A connection in the list is not closed: it is taken out first.
 *   E3  A read that finds less than there is room for has emptied a socket of TCP, unless the event
 *       told of more than bytes: their end, an error, or bytes that are out of band, before which a
 *       read ends. It may not have emptied a Unix socket, where a read also ends between messages of
 *       different senders. Then only a read that finds nothing is the last.
 *
 * WHY NOT libuv: it is told of each connection again until that is empty, so the kernel looks at
 * each socket twice, and it calls read(), which takes the kernel longer than recv(). */
#include "net/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/diag.h"
#include "net/uv_due.h"

enum { MOST_EVENTS = 1024 }; /* of a turn */

struct poller {
    struct conn_pool *pool;
    int fd;
    bool is_uv_ready;
    struct conn_queue to_read;
    struct epoll_event events[MOST_EVENTS];
};

/* ---- life -------------------------------------------------------------------------------- */

static int watch(const struct poller *p, int fd, uint32_t events, void *about)
{
    struct epoll_event event = { .events = events, .data.ptr = about };

    return epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &event);
}

weir_err poller_open(struct poller **out, struct conn_pool *pool, weir_diag *diag)
{
    struct poller *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    p->pool = pool;
    p->fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->fd < 0 || watch(p, uv_backend_fd(pool->uv), EPOLLIN, NULL) != 0) {
        const int err = errno;

        poller_close(p);
        return diag_fail(diag, WEIR_ESYSTEM, "cannot make an event loop: %s", strerror(err));
    }
    *out = p;
    return WEIR_OK;
}

void poller_close(struct poller *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

bool poller_add(struct conn *c)
{
    c->is_watched = watch(c->pool->poller, c->fd, EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET, c) ==
                    0;
    return c->is_watched;
}

/* A process that was forked at this moment may still have the socket, which then stays in the
 * set. */
void poller_remove(struct conn *c)
{
    if (c->is_watched)
        epoll_ctl(c->pool->poller->fd, EPOLL_CTL_DEL, c->fd, NULL);
    c->is_watched = false;
}

/* ---- reading ----------------------------------------------------------------------------- */

void poller_reconsider(struct conn *c)
{
    struct conn_queue *const q = &c->pool->poller->to_read;

    if (!c->has_more || c->is_listed || !conn_should_read(c))
        return;
    c->is_listed = true;
    c->next_listed = NULL;
    if (q->last)
        q->last->next_listed = c;
    else
        q->first = c;
    q->last = c;
}

static void note(struct poller *p, const struct epoll_event *event)
{
    struct conn *c = event->data.ptr;

    if (!c) {
        p->is_uv_ready = true;
        return;
    }
    c->has_more = true;
    c->reads_to_end = c->is_local || (event->events & ~(uint32_t)EPOLLIN);
    poller_reconsider(c);
}

/* Those that are in the list now. What is served meanwhile may put others there. */
static void read_all(struct poller *p)
{
    struct conn *c = p->to_read.first, *next;

    p->to_read = (struct conn_queue){ 0 };
    for (; c; c = next) {
        next = c->next_listed;
        c->is_listed = false;
        if (c->is_closing)
            conn_let_go(c);
        else if (conn_should_read(c))
            conn_read(c);
        poller_reconsider(c);
    }
}

bool poller_is_uv_due(const struct poller *p)
{
    return p->is_uv_ready || uv_is_due(p->pool->uv);
}

void poller_turn(struct poller *p, bool may_wait)
{
    const uv_loop_t *uv = p->pool->uv;
    const int ms = may_wait && !p->to_read.first && !uv_is_due(uv) ? uv_backend_timeout(uv) : 0;
    const int n = epoll_wait(p->fd, p->events, MOST_EVENTS, ms);

    p->is_uv_ready = false;
    uv_update_time(p->pool->uv);
    for (int i = 0; i < n; i++)
        note(p, &p->events[i]);
    read_all(p);
}
