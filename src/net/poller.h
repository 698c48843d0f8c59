/* poller.h - connections by epoll: one system call a turn waits for what comes.
 *
 * It tells whose socket has bytes, and reads them. All else stays with libuv: listeners, timers,
 * what a slow client has not read. libuv's own descriptor is one of those that are waited for. */
#ifndef WEIR_NET_POLLER_H
#define WEIR_NET_POLLER_H

#include "net/conn.h"

struct poller;

/* For the connections of a pool, whose libuv loop is there. */
WEIR_MUSTCHECK weir_err poller_open(struct poller **out, struct conn_pool *pool, weir_diag *diag);
void poller_close(struct poller *p); /* NULL is fine; after all connections */

void poller_turn(struct poller *p, bool may_wait); /* wait, and read what arrived */
bool poller_is_uv_due(const struct poller *p);     /* libuv has something to do: run it without
                                                      waiting */

/* ---- for conn.c and conn_input.c --------------------------------------------------------- */

WEIR_MUSTCHECK bool poller_add(struct conn *c); /* one that was accepted */
void poller_remove(struct conn *c);             /* its descriptor is to be closed */
void poller_reconsider(struct conn *c);         /* it may want to be read from again */

#endif
