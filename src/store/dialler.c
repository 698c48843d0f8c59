/* dialler.c - makes connections for those who must not wait for them. */
#include "store/dialler.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"

enum stage { WISHED, BEING_MADE, MADE };

struct wish {
    struct dialler *dialler;
    void *target;
    int bell; /* an eventfd */

    /* Under the dialler's lock. */
    enum stage stage;
    bool is_dropped; /* while it was being made: whoever makes it frees it */
    void *made;      /* NULL: `why` */
    char why[DIALLER_WHY];
    struct wish *next;
};

void dialler_init(struct dialler *d)
{
    pthread_mutex_init(&d->lock, NULL);
    d->first = d->last = NULL;
    d->spare = NULL;
}

void dialler_done(struct dialler *d)
{
    d->hang_up(d->spare);
    pthread_mutex_destroy(&d->lock);
}

/* ---- making them -------------------------------------------------------------------------------- */

weir_err dialler_try(struct dialler *d, void *target, weir_diag *diag)
{
    d->spare_target = target;
    return d->connect(target, &d->spare, diag);
}

static void free_wish(struct wish *w)
{
    w->dialler->hang_up(w->made);
    if (w->bell >= 0)
        close(w->bell);
    alloc_free(&w->dialler->allocator, w);
}

/* With the lock. */
static void finish_wish(struct wish *w, void *made)
{
    const uint64_t one = 1;

    w->made = made;
    w->stage = MADE;
    while (write(w->bell, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static struct wish *take_wish(struct dialler *d)
{
    struct wish *w;

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

static void grant_wish(struct dialler *d, struct wish *w)
{
    void *made = NULL;
    weir_diag diag = { "" };
    const weir_err err = d->connect(w->target, &made, &diag);
    bool is_dropped;

    pthread_mutex_lock(&d->lock);
    if (err)
        snprintf(w->why, sizeof w->why, "%.*s", DIALLER_WHY - 1, diag.text);
    finish_wish(w, made);
    is_dropped = w->is_dropped;
    pthread_mutex_unlock(&d->lock);
    if (is_dropped)
        free_wish(w);
}

void dialler_work(struct dialler *d)
{
    struct wish *w;

    while ((w = take_wish(d)))
        grant_wish(d, w);
}

/* ---- wishing for them --------------------------------------------------------------------------- */

/* True: it is granted at once. */
static bool put_wish(struct dialler *d, struct wish *w)
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

struct wish *wish_new(struct dialler *d, void *target)
{
    struct wish *w = alloc_zeroed(&d->allocator, sizeof *w);

    if (!w)
        return NULL;
    w->dialler = d;
    w->target = target;
    w->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->bell < 0) {
        free_wish(w);
        return NULL;
    }
    if (!put_wish(d, w) && d->wake)
        d->wake(d->wake_ctx);
    return w;
}

int wish_bell(const struct wish *w)
{
    return w->bell;
}

void *wish_end(struct wish *w, char why[DIALLER_WHY])
{
    void *made;

    pthread_mutex_lock(&w->dialler->lock);
    made = w->made;
    w->made = NULL;
    memcpy(why, w->why, sizeof w->why);
    pthread_mutex_unlock(&w->dialler->lock);
    free_wish(w);
    return made;
}

/* With the lock. */
static void take_back(struct dialler *d, const struct wish *w)
{
    struct wish **at = &d->first;

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

void wish_drop(struct wish *w)
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
