/* remote.h - what all stores have in common that are on another machine.
 *
 * A lane is one thread's way to the store. What is asked between two commits becomes a batch; a
 * batch goes over one of the lane's links, several on their way at once, and its answer comes in
 * its turn. A backend knows how to connect, how to send a batch and how to read an answer; what is
 * in here knows when to do so, and when to stop waiting.
 *
 * RULES (test_remote.c has tests of each)
 *   R1  Every question is done once, and no later than its deadline, whatever a link does.
 *   R2  A question that is done belongs to its caller: a late answer finds nobody to tell.
 *   R3  Questions of one lane are sent in their order; what waits for room goes in one batch.
 *   R4  What was sent and may have been decided is never sent again. What a server says that it
 *       did not do is, once, if there is time.
 *   R5  After so many failures in a row as it was told nobody waits: questions fail at once, those
 *       that wait by then too, and one a second is asked nevertheless, to find out; if there is none,
 *       the lane asks one of its own. An answer ends that, or a new link if nobody has waited in vain.
 *   R6  A lost link comes back by itself, at first soon and then less often, at random moments.
 *   R7  A question for a key that somebody holds fails at once, which is no failure of the store.
 *
 * All calls about a lane are on its reactor's thread, or under its lock. done() may submit and
 * commit, but not detach. */
#ifndef WEIR_STORE_REMOTE_REMOTE_H
#define WEIR_STORE_REMOTE_REMOTE_H

#include <stdatomic.h>

#include "store/remote/locked_keys.h"

enum {
    BATCH_MOST = 512,     /* questions in one */
    BATCHES_ON_LINK = 4,  /* under way at once, if they are full */
    LINKS_MOST = 16,      /* of a lane */
    BREAKER_FAILURES = 5, /* in a row that open it, unless somebody said otherwise */
    PROBE_MS = 1000,      /* from one that is asked nevertheless to the next */
    PROBE_ALONE_MS = 250, /* so much later the lane asks one of its own */
    BACKOFF_MS = 10,      /* before the first try to reconnect; then twice as long */
    BACKOFF_MOST_MS = 1000,
    TOLD_MS = 10000, /* between two lines about failures that open no breaker */
    STALE_MS = 1000, /* a link whose answer is so late is given up */
};

struct link; /* one connection, or the request for one */

/* Questions that travel together. Those before `first` are done already. */
struct batch {
    struct question *questions[BATCH_MOST];
    uint16_t charges[BATCH_MOST]; /* of each, as there may be no question left to tell */
    size_t first, count, charge_count;
    bool has_failed; /* counted as a failure */
    bool is_retried; /* the server has said of some of it that it did not do it */
    struct batch *next;
};

struct backend_ops {
    /* Begin to connect; link_up() or link_down() follows, later. NULL: out of memory. */
    void *(*open)(void *backend, struct link *link, struct reactor *reactor);

    /* Send it, without waiting. False: the connection is lost. */
    bool (*send)(void *connection, const struct batch *batch);

    /* Read what has come, without waiting. */
    void (*read)(void *connection);

    void (*close)(void *connection); /* whatever state it is in */
};

struct remote {
    const struct backend_ops *ops;
    void *backend;
    const char *name;  /* for people: "Postgres" */
    int64_t deadline;  /* ms */
    size_t link_count; /* of a lane */
    const _Atomic unsigned
        *after_errors;        /* failures in a row that open a breaker; NULL, 0: as above */
    struct locked_keys *held; /* keys that nobody waits for; NULL: there are none */
    size_t probe_size; /* of what a question of its own is the beginning of; 0: it is a question */
    bool (*aim)(void *backend,
                struct question *probe); /* before it is sent; false: not now; NULL: always */
    weir_allocator allocator;
    void (*log)(void *ctx, const char *line); /* may be NULL */
    void *log_ctx;

    /* Its own. */
    _Atomic int64_t failures;
    _Atomic int64_t lanes;
    _Atomic int64_t open_breakers; /* lanes that do not wait */
    _Atomic int64_t told_at;       /* of a failure; 0: never */
    _Atomic int64_t untold;        /* failures since */
};

/* ---- what a store's ops are made of ---------------------------------------------------------- */

struct lane *remote_attach(struct remote *r, struct reactor *reactor); /* NULL: out of memory */
void remote_detach(struct lane *lane);
void remote_submit(struct pending *pending, struct question *q);
bool remote_is_idle(const struct lane *lane);
void remote_commit(struct pending *pending);
void remote_stats(struct remote *r, weir_stats *stats);

/* ---- what a backend tells, of a connection that it opened ------------------------------------ */

void link_up(struct link *link);

/* It never came up, or is lost; it is closed in here. What was under way may have been decided. */
void link_down(struct link *link, const char *why);

/* Whose answer is next. Its questions from `first` on are there to be filled in. NULL: nobody's. */
struct batch *link_next(struct link *link);
void link_answered(struct link *link); /* the next one is decided */

enum refusal {
    REFUSAL_FINAL,    /* or nobody knows */
    REFUSAL_UNDONE,   /* nothing was done: ask again */
    REFUSAL_ELSEWHERE /* nothing was done, nor ever will be over this link */
};
void link_refused(struct link *link, enum refusal refusal, const char *why);

#endif
