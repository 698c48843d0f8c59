/* loop.h - one event loop: a thread, its connections, and the turn.
 *
 * A turn: read what arrived, decode it, decide all of it, commit once, then encode and send the
 * answers. */
#ifndef WEIR_SERVER_LOOP_H
#define WEIR_SERVER_LOOP_H

#include <uv.h>

#include "server/session.h"

struct server;

enum { LOOP_ASKED_TOGETHER = 8 }; /* checks whose places in memory are fetched at the same time */

struct loop {
    struct server *server;
    uv_loop_t uv;
    uv_thread_t thread;
    uv_check_t end_of_turn;
    uv_async_t wake;
    struct conn_pool conns;

    /* The turn. */
    struct turn turn;
    struct published_visit visit; /* to the policies; while is_asking */
    bool is_asking;
    int64_t now; /* ms, read once a turn */
    struct call *prepared[LOOP_ASKED_TOGETHER];
    size_t prepared_count;
    size_t asked; /* this turn */
    struct session *flush_first, *flush_last;
    struct buf out; /* what is being encoded */

    struct call *free_calls;
    struct reply *free_replies;
    struct observer *observer; /* counts what is decided here; see observer.h */
};

#endif
