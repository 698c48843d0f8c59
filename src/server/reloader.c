/* reloader.c - the thread that reads policies, tokens and certificates again, and keeps the log of
 * it. */
#include "server/reloader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "server/reload_log.h"
#include "server/server.h"

enum { TRY_AGAIN_S = 10 };

struct reloader {
    struct server *server;
    struct reload_log *reload_log;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    struct reload *first, *last; /* requests for the next one, in the order they came */
    const char *why;             /* one without a waiting thread; NULL: none */
    bool is_ending;
};

/* Until there is something to do, or something that could not be written is to be tried again. */
static void wait_for_requests(struct reloader *r)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TRY_AGAIN_S;
    while (!r->first && !r->why && !r->is_ending)
        if (!reload_log_is_due(r->reload_log))
            pthread_cond_wait(&r->wake, &r->lock);
        else if (pthread_cond_timedwait(&r->wake, &r->lock, &until) == ETIMEDOUT)
            return;
}

/* All requests there are, or none; false: it is over. */
static bool take_requests(struct reloader *r, struct reload **first, const char **why)
{
    bool is_over;

    pthread_mutex_lock(&r->lock);
    wait_for_requests(r);
    *first = r->first;
    *why = r->why ? r->why : r->first ? r->first->why : NULL;
    is_over = r->is_ending && !r->first;
    r->first = r->last = NULL;
    r->why = NULL;
    pthread_mutex_unlock(&r->lock);
    return !is_over;
}

static void reload(struct reloader *r, struct reload *request, const char *why)
{
    struct reload *next;
    weir_diag diag;
    const weir_err err = server_reload(r->server, why, &diag);

    reload_log_note(r->reload_log, request && request->who ? request->who : why,
                    err ? diag.text : NULL);
    for (; request; request = next) {
        next = request->next;
        request->err = err;
        request->diag = diag;
        request->done(request); /* it may be gone now */
    }
}

static void *run(void *arg)
{
    struct reloader *r = arg;
    struct reload *request;
    const char *why;

    while (take_requests(r, &request, &why))
        if (why)
            reload(r, request, why);
        else
            reload_log_try(r->reload_log);
    return NULL;
}

void reloader_ask(struct reloader *r, struct reload *request)
{
    request->next = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->last)
        r->last->next = request;
    else
        r->first = request;
    r->last = request;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

void reloader_wake(struct reloader *r, const char *why)
{
    pthread_mutex_lock(&r->lock);
    r->why = why;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

static void free_reloader(struct reloader *r)
{
    reload_log_close(r->reload_log);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

weir_err reloader_start(struct reloader **out, struct server *s, weir_diag *diag)
{
    struct reloader *r = calloc(1, sizeof *r);
    pthread_condattr_t monotonic;
    weir_err err;
    int why;

    if (!r)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    r->server = s;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    err = reload_log_open(&r->reload_log, s, diag);
    if (err) {
        free_reloader(r);
        return err;
    }
    why = pthread_create(&r->thread, NULL, run, r);
    if (why) {
        free_reloader(r);
        return diag_fail(diag, WEIR_ESYSTEM, "cannot start a thread: %s", strerror(why));
    }
    *out = r;
    return WEIR_OK;
}

void reloader_stop(struct reloader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->is_ending = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    free_reloader(r);
}
