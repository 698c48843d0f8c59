/* reloader.c - the thread that reads policies, tokens and certificates again. */
#include "server/reloader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "server/server.h"

struct reloader {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    struct reload *first, *last; /* requests for the next one, in the order they came */
    const char *why;             /* one without a waiting thread; NULL: none */
    bool is_ending;
};

/* All requests there are; false: it is over. */
static bool take_requests(struct reloader *r, struct reload **first, const char **why)
{
    bool is_over;

    pthread_mutex_lock(&r->lock);
    while (!r->first && !r->why && !r->is_ending)
        pthread_cond_wait(&r->wake, &r->lock);
    *first = r->first;
    *why = r->why ? r->why : r->first ? r->first->why : NULL;
    is_over = r->is_ending && !r->first;
    r->first = r->last = NULL;
    r->why = NULL;
    pthread_mutex_unlock(&r->lock);
    return !is_over;
}

static void *run(void *arg)
{
    struct reloader *r = arg;
    struct reload *request, *next;
    const char *why;

    while (take_requests(r, &request, &why)) {
        weir_diag diag;
        const weir_err err = server_reload(r->server, why, &diag);

        for (; request; request = next) {
            next = request->next;
            request->err = err;
            request->diag = diag;
            request->done(request); /* it may be gone now */
        }
    }
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
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

weir_err reloader_start(struct reloader **out, struct server *s, weir_diag *diag)
{
    struct reloader *r = calloc(1, sizeof *r);
    int why;

    if (!r)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    r->server = s;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
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
