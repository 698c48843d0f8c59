/* worker.h - a thread that works at intervals, or when it is woken.
 *
 * work() is called by the thread alone, with no lock held, and returns how long the thread is to
 * wait before the next call. The thread takes no signals: those are for the threads of the
 * program that expect them. */
#ifndef WEIR_BASE_WORKER_H
#define WEIR_BASE_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

#define WORKER_UNTIL_WOKEN INT64_MAX

struct worker {
    int64_t (*work)(void *ctx); /* µs until the next call, or WORKER_UNTIL_WOKEN */
    void *ctx;
    int64_t first_us;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    bool is_wanted, is_ending;
};

void worker_init(struct worker *w);
void worker_done(struct worker *w); /* after worker_stop() */

/* The first call is after so many µs; with 0 it is made even if the worker is stopped at once.
 * `name` is for the diag: "the NAME thread". */
WEIR_MUSTCHECK weir_err worker_start(struct worker *w, const char *name, int64_t first_us,
                                     int64_t (*work)(void *ctx), void *ctx, weir_diag *diag);
void worker_stop(struct worker *w); /* work() is not called again; waits for a call under way */

void worker_wake(struct worker *w); /* do not wait: from any thread, from worker_init() on */

/* In work(): wait so long. True: it was woken before that. */
bool worker_rest(struct worker *w, int64_t us);

#endif
