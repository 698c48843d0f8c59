/* uring.h - connections by io_uring: one system call a turn sends all replies and waits for what
 * comes.
 *
 * It reads from connections and sends to them. All else stays with libuv: listeners, timers, what a
 * slow client has not read. libuv's own descriptor is one of those that are waited for. */
#ifndef WEIR_NET_URING_H
#define WEIR_NET_URING_H

#include "net/conn.h"

struct uring;

/* For the connections of a pool, whose libuv loop is there. WEIR_ESYSTEM: the kernel has or allows
 * none, or this program was built without; the diag says which. */
WEIR_MUSTCHECK weir_err uring_open(struct uring **out, struct conn_pool *pool, weir_diag *diag);
void uring_close(struct uring *u); /* NULL is fine; after all connections */

/* These belong to one thread: the first that calls one. */
void uring_submit(struct uring *u);              /* what there is to send */
void uring_turn(struct uring *u, bool may_wait); /* submit, wait, and take what arrived */
bool uring_is_uv_due(const struct uring *u); /* libuv has something to do: run it without waiting */

/* ---- for conn.c and conn_input.c --------------------------------------------------------- */

/* Whether it wants to be read from may have changed, or it is closing. */
void uring_reconsider(struct conn *c);

void uring_remove(struct conn *c); /* its descriptor is to be closed */

/* The thread is not to sleep before conn_taken() was called for what is in the ring. */
void uring_settle_soon(struct uring *u);

/* With the next submit; the bytes are copied, and conn_taken() tells how many were sent. False:
 * there is no room. */
bool uring_send(struct conn *c, struct span bytes);

#endif
