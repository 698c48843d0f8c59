/* postgres_dialler.h - makes connections for those who must not wait for them.
 *
 * Connecting waits: for names to be looked up, for a server that may not be there, for a password
 * to be hashed some thousand times. So those who serve others make a wish, and are told by a bell
 * when somebody who may wait has made the connection, or has failed to. */
#ifndef WEIR_STORE_POSTGRES_DIALLER_H
#define WEIR_STORE_POSTGRES_DIALLER_H

#include <pthread.h>

#include "store/postgres_session.h"
#include "store/postgres_uri.h"

enum { DIALLER_WHY = 256 }; /* bytes of text */

struct postgres_wish;

struct postgres_dialler {
    struct postgres_uri uri;
    unsigned char secret_id[16];
    weir_allocator allocator;
    void (*wake)(void *ctx); /* asks for dialler_work() soon; may be NULL */
    void *wake_ctx;

    /* Its own. */
    pthread_mutex_t lock;
    struct postgres_wish *first, *last;
    struct postgres_session *spare; /* made ahead, for the first who wishes for one */
};

/* What is above the line is set, and `uri` is the dialler's from now on. */
void postgres_dialler_init(struct postgres_dialler *d);
void postgres_dialler_done(struct postgres_dialler *d); /* nobody wishes for anything any more */

/* Make one ahead; waits. Errors as of postgres_connect(). */
WEIR_MUSTCHECK weir_err postgres_dialler_try(struct postgres_dialler *d, weir_diag *diag);

/* Make all that are wished for; waits. By one thread at a time. */
void postgres_dialler_work(struct postgres_dialler *d);

struct postgres_wish *postgres_wish_new(struct postgres_dialler *d); /* NULL: out of memory */
int postgres_wish_bell(const struct postgres_wish *w);               /* to be watched for reading */

/* When the bell can be read from, this ends the wish. NULL: `why` says why. */
struct postgres_session *postgres_wish_end(struct postgres_wish *w, char why[DIALLER_WHY]);
void postgres_wish_drop(struct postgres_wish *w); /* at any other time; NULL is fine */

#endif
