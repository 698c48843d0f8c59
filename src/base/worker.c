/* worker.c - a thread that works at intervals, or when it is woken. */
#include "base/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"

/* The lock is held. True: it was woken. */
static bool wait_until_due(struct worker *w, int64_t us)
{
    const struct timespec until = clock_monotonic_in(us == WORKER_UNTIL_WOKEN ? 0 : us);
    int why = us > 0 ? 0 : ETIMEDOUT;
    bool was_woken;

    while (!w->is_ending && !w->is_wanted && why == 0)
        why = us == WORKER_UNTIL_WOKEN ? pthread_cond_wait(&w->wake, &w->lock)
                                       : pthread_cond_timedwait(&w->wake, &w->lock, &until);
    was_woken = w->is_wanted && !w->is_ending;
    w->is_wanted = false;
    return was_woken;
}

static void *run(void *arg)
{
    struct worker *w = arg;
    int64_t pause = w->first_us > 0 ? w->first_us : w->work(w->ctx);

    pthread_mutex_lock(&w->lock);
    for (;;) {
        wait_until_due(w, pause);
        if (w->is_ending)
            break;
        pthread_mutex_unlock(&w->lock);
        pause = w->work(w->ctx);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void worker_init(struct worker *w)
{
    pthread_condattr_t monotonic;

    *w = (struct worker){ 0 };
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void worker_done(struct worker *w)
{
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
}

weir_err worker_start(struct worker *w, const char *name, int64_t first_us,
                      int64_t (*work)(void *ctx), void *ctx, weir_diag *diag)
{
    sigset_t all, before;
    int why;

    w->work = work;
    w->ctx = ctx;
    w->first_us = first_us;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    why = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (why)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot start the %s thread: %s", name, strerror(why));
    w->has_thread = true;
    return WEIR_OK;
}

void worker_stop(struct worker *w)
{
    if (!w->has_thread)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_ending = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    w->has_thread = false;
}

void worker_wake(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->is_wanted = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

bool worker_rest(struct worker *w, int64_t us)
{
    bool was_woken;

    pthread_mutex_lock(&w->lock);
    was_woken = wait_until_due(w, us);
    pthread_mutex_unlock(&w->lock);
    return was_woken;
}
