/* bind.h - a listening socket for one socket address, or a helpful word about why there is none. */
#ifndef WEIR_NET_BIND_H
#define WEIR_NET_BIND_H

#include "net/address.h"
#include "weir.h"

/* Each returns 0 or an errno. */

/* Is the port free? SO_REUSEPORT gives every loop a queue of its own, so that a connection wakes
 * one thread. But it also lets two programs of one user share a port without noticing, each getting
 * half of the connections. So an address is first bound without it, which fails if a process
 * listens there. */
int bind_probe(const struct address *a);

/* Non-blocking, closed on exec; TCP with SO_REUSEPORT. A Unix socket that no process listens on is
 * replaced. */
int bind_listen(const struct address *a, int *out);

weir_err bind_fail(const struct address *a, int why, weir_diag *diag);

#endif
