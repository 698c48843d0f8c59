/* postgres_dialler.c - makes connections for those who must not wait for them. */
#include "store/postgres_dialler.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/postgres_connect.h"

enum stage { WISHED, BEING_MADE, MADE };

struct postgres_wish {
    struct postgres_dialler *dialler;
    int bell; /* an eventfd */

    /* Under the dialler's lock. */
    enum stage stage;
    bool is_dropped;                  /* while it was being made: whoever makes it frees it */
    struct postgres_session *session; /* NULL: `why` */
    char why[DIALLER_WHY];
    struct postgres_wish *next;
};

void postgres_dialler_init(struct postgres_dialler *d)
{
    pthread_mutex_init(&d->lock, NULL);
    d->first = d->last = NULL;
    d->spare = NULL;
}

void postgres_dialler_done(struct postgres_dialler *d)
{
    postgres_session_close(d->spare);
    postgres_uri_done(&d->uri);
    pthread_mutex_destroy(&d->lock);
}

/* ---- making them -------------------------------------------------------------------------------- */

weir_err postgres_dialler_try(struct postgres_dialler *d, weir_diag *diag)
{
    return postgres_connect(&d->spare, &d->uri, d->secret_id, diag);
}

static void free_wish(struct postgres_wish *w)
{
    postgres_session_close(w->session);
    if (w->bell >= 0)
        close(w->bell);
    alloc_free(&w->dialler->allocator, w);
}

/* With the lock. */
static void finish_wish(struct postgres_wish *w, struct postgres_session *session)
{
    const uint64_t one = 1;

    w->session = session;
    w->stage = MADE;
    while (write(w->bell, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static struct postgres_wish *take_wish(struct postgres_dialler *d)
{
    struct postgres_wish *w;

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

static void grant_wish(struct postgres_dialler *d, struct postgres_wish *w)
{
    struct postgres_session *session = NULL;
    weir_diag diag = { "" };
    const weir_err err = postgres_connect(&session, &d->uri, d->secret_id, &diag);
    bool is_dropped;

    pthread_mutex_lock(&d->lock);
    if (err)
        snprintf(w->why, sizeof w->why, "%.*s", DIALLER_WHY - 1, diag.text);
    finish_wish(w, session);
    is_dropped = w->is_dropped;
    pthread_mutex_unlock(&d->lock);
    if (is_dropped)
        free_wish(w);
}

void postgres_dialler_work(struct postgres_dialler *d)
{
    struct postgres_wish *w;

    while ((w = take_wish(d)))
        grant_wish(d, w);
}

/* ---- wishing for them --------------------------------------------------------------------------- */

/* True: it is granted at once. */
static bool put_wish(struct postgres_dialler *d, struct postgres_wish *w)
{
    bool is_granted;

    pthread_mutex_lock(&d->lock);
    is_granted = d->spare;
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

struct postgres_wish *postgres_wish_new(struct postgres_dialler *d)
{
    struct postgres_wish *w = alloc_zeroed(&d->allocator, sizeof *w);

    if (!w)
        return NULL;
    w->dialler = d;
    w->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->bell < 0) {
        free_wish(w);
        return NULL;
    }
    if (!put_wish(d, w) && d->wake)
        d->wake(d->wake_ctx);
    return w;
}

int postgres_wish_bell(const struct postgres_wish *w)
{
    return w->bell;
}

struct postgres_session *postgres_wish_end(struct postgres_wish *w, char why[DIALLER_WHY])
{
    struct postgres_session *session;

    pthread_mutex_lock(&w->dialler->lock);
    session = w->session;
    w->session = NULL;
    memcpy(why, w->why, sizeof w->why);
    pthread_mutex_unlock(&w->dialler->lock);
    free_wish(w);
    return session;
}

/* With the lock. */
static void take_back(struct postgres_dialler *d, const struct postgres_wish *w)
{
    struct postgres_wish **at = &d->first;

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

void postgres_wish_drop(struct postgres_wish *w)
{
    bool is_ours;

    if (!w)
        return;
    pthread_mutex_lock(&w->dialler->lock);
    is_ours = w->stage != BEING_MADE;
    w->is_dropped = true;
    if (w->stage == WISHED)
        take_back(w->dialler, w);
    pthread_mutex_unlock(&w->dialler->lock);
    if (is_ours)
        free_wish(w);
}
