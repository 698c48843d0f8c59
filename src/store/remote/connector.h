/* connector.h - makes connections for loops.
 *
 * Loops must not block in connect(): they queue a request and watch an eventfd, the ready fd.
 * Connecting waits for a name lookup, for a server that may be away, and for a password to be
 * hashed some thousand times. A thread that may block, that of tick(), makes the connection. */
#ifndef WEIR_STORE_REMOTE_CONNECTOR_H
#define WEIR_STORE_REMOTE_CONNECTOR_H

#include <pthread.h>
#include <stdbool.h>

#include "base/reactor.h"
#include "weir.h"

enum { CONNECTOR_WHY = 256 }; /* bytes of text */

struct connect_request;

struct connector {
    weir_err (*connect)(void *target, void **out, weir_diag *diag); /* blocks */
    void (*close)(void *session);                                   /* NULL is fine */
    weir_allocator allocator;
    void (*wake)(void *ctx); /* asks for connector_work() soon; may be NULL */
    void *wake_ctx;

    /* Its own. */
    pthread_mutex_t mutex;
    struct connect_request *first, *last;
    void *spare, *spare_target; /* made ahead, for the first request with this target */
};

/* Set what is above "Its own" before. */
void connector_init(struct connector *c);
void connector_done(struct connector *c); /* when there are no more requests */

/* Make one ahead; blocks. Errors as of connect(). */
WEIR_MUSTCHECK weir_err connector_try(struct connector *c, void *target, weir_diag *diag);

/* Make all that are requested; blocks. By one thread at a time. */
void connector_work(struct connector *c);

/* On the reactor's thread, when there is a session to take over, or a reason why not (then it is
 * NULL). The request is freed by then. */
typedef void connect_done(void *ctx, void *session, const char *why);

/* NULL: out of memory. */
struct connect_request *connect_request_new(struct connector *c, void *target,
                                            struct reactor *reactor, connect_done *done, void *ctx);

/* Before done(), on the reactor's thread; NULL is fine. */
void connect_request_drop(struct connect_request *r);

#endif
