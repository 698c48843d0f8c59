/* dialler.h - makes connections for those who must not wait for them.
 *
 * Connecting waits: for names to be looked up, for a server that may not be there, for a password
 * to be hashed some thousand times. So those who serve others make a wish, and are told by a bell
 * when somebody who may wait has made the connection, or has failed to. */
#ifndef WEIR_STORE_DIALLER_H
#define WEIR_STORE_DIALLER_H

#include <pthread.h>
#include <stdbool.h>

#include "weir.h"

enum { DIALLER_WHY = 256 }; /* bytes of text */

struct wish;

struct dialler {
    weir_err (*connect)(void *target, void **out, weir_diag *diag); /* waits */
    void (*hang_up)(void *made);                                    /* NULL is fine */
    weir_allocator allocator;
    void (*wake)(void *ctx); /* asks for dialler_work() soon; may be NULL */
    void *wake_ctx;

    /* Its own. */
    pthread_mutex_t lock;
    struct wish *first, *last;
    void *spare, *spare_target; /* made ahead, for the first who wishes for one */
};

/* What is above the line is set. */
void dialler_init(struct dialler *d);
void dialler_done(struct dialler *d); /* nobody wishes for anything any more */

/* Make one ahead; waits. Errors as of connect(). */
WEIR_MUSTCHECK weir_err dialler_try(struct dialler *d, void *target, weir_diag *diag);

/* Make all that are wished for; waits. By one thread at a time. */
void dialler_work(struct dialler *d);

struct wish *wish_new(struct dialler *d, void *target); /* NULL: out of memory */
int wish_bell(const struct wish *w);                    /* to be watched for reading */

/* When the bell can be read from, this ends the wish. NULL: `why` says why. */
void *wish_end(struct wish *w, char why[DIALLER_WHY]);
void wish_drop(struct wish *w); /* at any other time; NULL is fine */

#endif
