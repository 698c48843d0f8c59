/* connector.c - makes connections for those who must not wait for them. */
#include "store/remote/connector.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"

enum stage { WISHED, BEING_MADE, MADE };

struct connect_request {
    struct connector *connector;
    void *target;
    int ready_fd; /* an eventfd */

    /* Under the connector's lock. */
    enum stage stage;
    bool is_dropped; /* while it was being made: whoever makes it frees it */
    void *made;      /* NULL: `why` */
    char why[CONNECTOR_WHY];
    struct connect_request *next;
};

void connector_init(struct connector *d)
{
    pthread_mutex_init(&d->lock, NULL);
    d->first = d->last = NULL;
    d->spare = NULL;
}

void connector_done(struct connector *d)
{
    d->hang_up(d->spare);
    pthread_mutex_destroy(&d->lock);
}

/* ---- making them -------------------------------------------------------------------------------- */

weir_err connector_try(struct connector *d, void *target, weir_diag *diag)
{
    d->spare_target = target;
    return d->connect(target, &d->spare, diag);
}

static void free_wish(struct connect_request *w)
{
    w->connector->hang_up(w->made);
    if (w->ready_fd >= 0)
        close(w->ready_fd);
    alloc_free(&w->connector->allocator, w);
}

/* With the lock. */
static void finish_wish(struct connect_request *w, void *made)
{
    const uint64_t one = 1;

    w->made = made;
    w->stage = MADE;
    while (write(w->ready_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static struct connect_request *take_wish(struct connector *d)
{
    struct connect_request *w;

    pthread_mutex_lock(&d->lock);
    w = d->first;
    if (w) {
        d->first = w->next;
        if (!d->first)
            d->last = NULL;
        w->stage = BEING_MADE;
    }
    pthread_mutex_unlock(&d->lock);
    return w;
}

static void grant_wish(struct connector *d, struct connect_request *w)
{
    void *made = NULL;
    weir_diag diag = { "" };
    const weir_err err = d->connect(w->target, &made, &diag);
    bool is_dropped;

    pthread_mutex_lock(&d->lock);
    if (err)
        snprintf(w->why, sizeof w->why, "%.*s", CONNECTOR_WHY - 1, diag.text);
    finish_wish(w, made);
    is_dropped = w->is_dropped;
    pthread_mutex_unlock(&d->lock);
    if (is_dropped)
        free_wish(w);
}

void connector_work(struct connector *d)
{
    struct connect_request *w;

    while ((w = take_wish(d)))
        grant_wish(d, w);
}

/* ---- wishing for them --------------------------------------------------------------------------- */

/* True: it is granted at once. */
static bool put_wish(struct connector *d, struct connect_request *w)
{
    bool is_granted;

    pthread_mutex_lock(&d->lock);
    is_granted = d->spare && d->spare_target == w->target;
    if (is_granted) {
        finish_wish(w, d->spare);
        d->spare = NULL;
    } else {
        if (d->last)
            d->last->next = w;
        else
            d->first = w;
        d->last = w;
    }
    pthread_mutex_unlock(&d->lock);
    return is_granted;
}

struct connect_request *connect_request_new(struct connector *d, void *target)
{
    struct connect_request *w = alloc_zeroed(&d->allocator, sizeof *w);

    if (!w)
        return NULL;
    w->connector = d;
    w->target = target;
    w->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->ready_fd < 0) {
        free_wish(w);
        return NULL;
    }
    if (!put_wish(d, w) && d->wake)
        d->wake(d->wake_ctx);
    return w;
}

int connect_request_ready_fd(const struct connect_request *w)
{
    return w->ready_fd;
}

void *connect_request_end(struct connect_request *w, char why[CONNECTOR_WHY])
{
    void *made;

    pthread_mutex_lock(&w->connector->lock);
    made = w->made;
    w->made = NULL;
    memcpy(why, w->why, sizeof w->why);
    pthread_mutex_unlock(&w->connector->lock);
    free_wish(w);
    return made;
}

/* With the lock. */
static void take_back(struct connector *d, const struct connect_request *w)
{
    struct connect_request **at = &d->first;

    d->last = NULL;
    while (*at) {
        if (*at == w) {
            *at = w->next;
        } else {
            d->last = *at;
            at = &(*at)->next;
        }
    }
}

void connect_request_drop(struct connect_request *w)
{
    bool is_ours;

    if (!w)
        return;
    pthread_mutex_lock(&w->connector->lock);
    is_ours = w->stage != BEING_MADE;
    w->is_dropped = true;
    if (w->stage == WISHED)
        take_back(w->connector, w);
    pthread_mutex_unlock(&w->connector->lock);
    if (is_ours)
        free_wish(w);
}
