/* connector.h - makes connections for those who must not wait for them.
 *
 * Connecting waits: for names to be looked up, for a server that may not be there, for a password
 * to be hashed some thousand times. So those who serve others make a request, and are told by a ready_fd
 * when somebody who may wait has made the connection, or has failed to. */
#ifndef WEIR_STORE_REMOTE_CONNECTOR_H
#define WEIR_STORE_REMOTE_CONNECTOR_H

#include <pthread.h>
#include <stdbool.h>

#include "weir.h"

enum { CONNECTOR_WHY = 256 }; /* bytes of text */

struct connect_request;

struct connector {
    weir_err (*connect)(void *target, void **out, weir_diag *diag); /* waits */
    void (*hang_up)(void *made);                                    /* NULL is fine */
    weir_allocator allocator;
    void (*wake)(void *ctx); /* asks for connector_work() soon; may be NULL */
    void *wake_ctx;

    /* Its own. */
    pthread_mutex_t lock;
    struct connect_request *first, *last;
    void *spare, *spare_target; /* made ahead, for the first who requests for one */
};

/* What is above the line is set. */
void connector_init(struct connector *d);
void connector_done(struct connector *d); /* nobody requests for anything any more */

/* Make one ahead; waits. Errors as of connect(). */
WEIR_MUSTCHECK weir_err connector_try(struct connector *d, void *target, weir_diag *diag);

/* Make all that are wished for; waits. By one thread at a time. */
void connector_work(struct connector *d);

struct connect_request *connect_request_new(struct connector *d,
                                            void *target);     /* NULL: out of memory */
int connect_request_ready_fd(const struct connect_request *w); /* to be watched for reading */

/* When the ready_fd can be read from, this ends the request. NULL: `why` says why. */
void *connect_request_end(struct connect_request *w, char why[CONNECTOR_WHY]);
void connect_request_drop(struct connect_request *w); /* at any other time; NULL is fine */

#endif
