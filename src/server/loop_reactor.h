/* loop_reactor.h - what a remote store waits with, on one of the server's event loops. */
#ifndef WEIR_SERVER_LOOP_REACTOR_H
#define WEIR_SERVER_LOOP_REACTOR_H

#include <uv.h>

#include "base/reactor.h"

struct loop_reactor {
    struct reactor reactor; /* the first member */
    uv_loop_t *uv;
    void (*after_moment)(void *ctx);
    void *ctx;
};

/* `after_moment` is called when a moment has come and was seen to. libuv looks at the clock before
 * it waits for sockets, and ends a turn after that: what is answered at a deadline would have to
 * wait. */
void loop_reactor_init(struct loop_reactor *r, uv_loop_t *uv, void (*after_moment)(void *ctx),
                       void *ctx);

#endif
