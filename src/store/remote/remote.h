/* remote.h - what all stores have in common that are on another machine.
 *
 * A lane is one thread's way to the store. What is asked between two commits becomes a batch. A
 * batch goes over one of the lane's links. Several can be under way on a link, and are answered in
 * their order.
 *
 * RULES (test_remote.c has tests of each)
 *   R1  Every question is done once, and no later than its deadline, whatever a link does.
 *   R2  A question that is done belongs to its caller: a late answer is dropped.
 *   R3  Questions of one lane are sent in their order; what waits for room goes in one batch.
 *   R4  What was sent and may have been decided is never sent again. What a server says that it
 *       did not do is sent again, once, if there is time.
 *   R5  After so many failures in a row the breaker opens (breaker.h): questions fail at once,
 *       those that wait by then too. One question a second is asked nevertheless, as a probe; if
 *       there is none, the lane asks one of its own. An answer closes the breaker. A new link
 *       does, if no question has timed out.
 *   R6  A lost link comes back by itself, at first soon and then less often, at random moments.
 *   R7  A question for a key that an outside transaction has locked fails at once. That is no
 *       failure of the store. */
#ifndef WEIR_STORE_REMOTE_REMOTE_H
#define WEIR_STORE_REMOTE_REMOTE_H

#include <stdatomic.h>

#include "store/remote/backend.h"
#include "store/remote/locked_keys.h"

enum { LINKS_MOST = 16 }; /* of a lane */

/* One server, and what its lanes share. */
struct remote {
    const struct backend_ops *ops;
    void *backend;
    const char *name;                     /* for people: "Postgres" */
    int64_t deadline;                     /* ms */
    size_t link_count;                    /* of a lane */
    const _Atomic unsigned *after_errors; /* failures in a row that open a breaker; NULL, 0:
                                             BREAKER_FAILURES */
    struct locked_keys *locked_keys;      /* NULL: no key can be locked */
    size_t probe_size; /* of what a lane's own question is the beginning of; 0: it is a question */
    bool (*aim)(void *backend, struct question *probe); /* before it is sent; false: not now;
                                                           NULL: always */
    weir_allocator allocator;
    void (*log)(void *ctx, const char *line); /* may be NULL */
    void *log_ctx;

    /* Its own. */
    _Atomic int64_t failures;
    _Atomic int64_t lanes;
    _Atomic int64_t open_breakers;
    _Atomic int64_t logged_at; /* a failure; 0: never */
    _Atomic int64_t unlogged;  /* failures since */
};

void remote_log(const struct remote *r, const char *what, const char *why); /* `why` may be NULL */
void remote_stats(struct remote *r, weir_stats *stats);

/* For the ops of a store; see lane.h. */
void remote_submit(struct store *s, struct pending *pending, struct question *q);
void remote_commit(struct store *s, struct pending *pending);
void remote_detach(struct store *s, struct lane *lane);

#endif
