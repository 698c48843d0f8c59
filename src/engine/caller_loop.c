/* caller_loop.c - where the callers of the library wait for a store that is elsewhere.
 *
 * One lock is around everything but the wait itself: the lane, its watches and its questions. While
 * one thread waits in poll(2) without the lock, others come in, ask and commit; what they ask may
 * need another socket watched, so they interrupt the wait. */
#include "engine/caller_loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/leases.h"

enum { MOST_SOCKETS = 64 };

struct watch {
    struct caller_loop *room;
    struct watch *next;
    int fd; /* -1: a timer */
    unsigned events;
    int64_t due; /* of a timer; below 0: not set */
    void (*ready)(void *ctx, unsigned events);
    void (*expired)(void *ctx);
    void *ctx;
    bool is_dropped;
};

struct caller_loop {
    struct reactor reactor; /* the first member */
    struct engine *engine;
    weir_allocator allocator;
    struct lane *lane;
    struct lease_lane leases;
    pthread_mutex_t lock; /* of all below, and of the lane */
    pthread_cond_t changed;
    struct watch *first;
    bool is_turned; /* by some thread */
    int interrupt;  /* an eventfd: look again at what is to be watched */
};

static int64_t monotonic_ms(const struct reactor *r)
{
    (void)r;
    return clock_monotonic_ms();
}

/* ---- the reactor --------------------------------------------------------------------------- */

static void interrupt(const struct caller_loop *room)
{
    const uint64_t one = 1;

    if (room->is_turned && write(room->interrupt, &one, sizeof one) < 0)
        return; /* it is set already */
}

static struct watch *add(struct reactor *r)
{
    struct caller_loop *room = (struct caller_loop *)r;
    struct watch *w = alloc_zeroed(&room->allocator, sizeof *w);

    if (!w)
        return NULL;
    w->room = room;
    w->next = room->first;
    room->first = w;
    w->fd = -1;
    w->due = -1;
    return w;
}

static struct watch *watch_socket(struct reactor *r, int fd, unsigned events,
                                  void (*ready)(void *ctx, unsigned events), void *ctx)
{
    struct watch *w = add(r);

    if (!w)
        return NULL;
    w->fd = fd;
    w->events = events;
    w->ready = ready;
    w->ctx = ctx;
    interrupt(w->room);
    return w;
}

static void rewatch(struct watch *w, unsigned events)
{
    if (w->events == events)
        return;
    w->events = events;
    interrupt(w->room);
}

static struct watch *watch_time(struct reactor *r, void (*due)(void *ctx), void *ctx)
{
    struct watch *w = add(r);

    if (!w)
        return NULL;
    w->expired = due;
    w->ctx = ctx;
    return w;
}

static void set_timer(struct watch *w, int64_t ms)
{
    w->due = ms < 0 ? -1 : monotonic_ms(NULL) + ms;
    interrupt(w->room);
}

static void unwatch(struct watch *w)
{
    if (!w)
        return;
    w->is_dropped = true; /* freed when no thread looks through the list */
    interrupt(w->room);
}

static void free_dropped(struct caller_loop *room)
{
    for (struct watch **at = &room->first; *at;) {
        struct watch *w = *at;

        if (w->is_dropped) {
            *at = w->next;
            alloc_free(&room->allocator, w);
        } else {
            at = &w->next;
        }
    }
}

/* ---- turning it ------------------------------------------------------------------------------ */

static size_t list_sockets(const struct caller_loop *room, struct pollfd *fds,
                           struct watch **watches)
{
    size_t n = 1;

    fds[0] = (struct pollfd){ .fd = room->interrupt, .events = POLLIN };
    for (struct watch *w = room->first; w && n < MOST_SOCKETS; w = w->next)
        if (!w->is_dropped && w->fd >= 0 && w->events) {
            watches[n] = w;
            fds[n].fd = w->fd;
            fds[n].events = (short)((w->events & REACTOR_READ ? POLLIN : 0) |
                                    (w->events & REACTOR_WRITE ? POLLOUT : 0));
            fds[n++].revents = 0;
        }
    return n;
}

static int next_due(const struct caller_loop *room)
{
    const int64_t now = monotonic_ms(NULL);
    int64_t soonest = 1000;

    for (const struct watch *w = room->first; w; w = w->next)
        if (!w->is_dropped && w->due >= 0 && w->due - now < soonest)
            soonest = w->due > now ? w->due - now : 0;
    return (int)soonest;
}

static void call_ready(const struct pollfd *fds, struct watch *const *watches, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const short found = fds[i].revents;
        unsigned events = (found & POLLIN ? REACTOR_READ : 0u) |
                          (found & POLLOUT ? REACTOR_WRITE : 0u);

        if (found & (POLLERR | POLLHUP))
            events |= watches[i]->events;
        if (events && !watches[i]->is_dropped)
            watches[i]->ready(watches[i]->ctx, events);
    }
}

static void call_due(const struct caller_loop *room)
{
    const int64_t now = monotonic_ms(NULL);

    for (struct watch *w = room->first; w; w = w->next)
        if (!w->is_dropped && w->due >= 0 && w->due <= now) {
            w->due = -1;
            w->expired(w->ctx);
        }
}

/* One turn, with the lock; it is let go while nothing is ready. */
static void turn(struct caller_loop *room)
{
    struct pollfd fds[MOST_SOCKETS];
    struct watch *watches[MOST_SOCKETS];
    const size_t n = list_sockets(room, fds, watches);
    const int patience = next_due(room);
    uint64_t ignored;

    room->is_turned = true;
    pthread_mutex_unlock(&room->lock);
    if (poll(fds, n, patience) < 0)
        for (size_t i = 0; i < n; i++)
            fds[i].revents = 0;
    pthread_mutex_lock(&room->lock);
    if (fds[0].revents && read(room->interrupt, &ignored, sizeof ignored) < 0)
        ignored = 0; /* another thread has read it */
    call_ready(fds, watches, n);
    call_due(room);
    free_dropped(room);
    room->is_turned = false;
    pthread_cond_broadcast(&room->changed);
}

/* ---- coming and going ------------------------------------------------------------------------ */

weir_err caller_loop_new(struct engine *e, const weir_allocator *allocator,
                         struct caller_loop **out)
{
    struct caller_loop *room = alloc_zeroed(allocator, sizeof *room);

    *out = room;
    if (!room)
        return WEIR_ENOMEM;
    room->reactor = (struct reactor){ watch_socket, rewatch, watch_time,
                                      set_timer,    unwatch, monotonic_ms };
    room->engine = e;
    room->allocator = *allocator;
    pthread_mutex_init(&room->lock, NULL);
    pthread_cond_init(&room->changed, NULL);
    room->interrupt = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return room->interrupt < 0 ? WEIR_ESYSTEM : WEIR_OK;
}

/* What was taken of limits is for others, if the store answers in time. */
static void end_leases(struct caller_loop *room)
{
    pthread_mutex_lock(&room->lock);
    while (!lease_lane_end(&room->leases, NULL, NULL))
        turn(room);
    lease_lane_done(&room->leases);
    pthread_mutex_unlock(&room->lock);
}

void caller_loop_free(struct caller_loop *room)
{
    const weir_allocator *allocator;

    if (!room)
        return;
    if (room->lane) {
        end_leases(room);
        room->engine->store->ops->detach(room->engine->store, room->lane);
    }
    allocator = &(weir_allocator){ room->allocator.resize, room->allocator.ctx };
    for (struct watch *w = room->first; w; w = w->next)
        w->is_dropped = true;
    free_dropped(room);
    if (room->interrupt >= 0)
        close(room->interrupt);
    pthread_cond_destroy(&room->changed);
    pthread_mutex_destroy(&room->lock);
    alloc_free(allocator, room);
}

/* A server asks on its own loops, and never comes in here: the first thread that does makes the
 * lane. */
struct pending caller_loop_enter(struct caller_loop *room)
{
    struct store *store = room->engine->store;

    pthread_mutex_lock(&room->lock);
    if (!room->lane) {
        room->lane = store->ops->attach(store, &room->reactor);
        if (room->lane)
            lease_lane_begin(&room->leases, room->engine, room->lane, &room->reactor);
    }
    return (struct pending){ .lane = room->lane,
                             .leases = room->leases.lane ? &room->leases : NULL };
}

static bool are_done(const struct check *checks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!checks[i].answer->err && checks[i].waiting > 0)
            return false;
    return true;
}

void caller_loop_leave(struct caller_loop *room, struct check *checks, size_t n)
{
    while (!are_done(checks, n)) {
        if (room->is_turned)
            pthread_cond_wait(&room->changed, &room->lock);
        else
            turn(room);
    }
    pthread_mutex_unlock(&room->lock);
}
