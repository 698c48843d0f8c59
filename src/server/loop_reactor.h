/* loop_reactor.h - what a remote store waits with, on one of the server's event loops. */
#ifndef WEIR_SERVER_LOOP_REACTOR_H
#define WEIR_SERVER_LOOP_REACTOR_H

#include <uv.h>

#include "base/reactor.h"

struct loop_reactor {
    struct reactor reactor; /* the first member */
    uv_loop_t *uv;
};

void loop_reactor_init(struct loop_reactor *r, uv_loop_t *uv);

#endif
