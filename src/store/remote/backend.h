/* backend.h - between a remote store and its lanes: what the store does for a link, and what it
 * tells the link.
 *
 * Postgres and Redis are backends: they know how to connect, how to send a batch and how to read an
 * answer. The lane knows when to do so, and when to stop waiting. */
#ifndef WEIR_STORE_REMOTE_BACKEND_H
#define WEIR_STORE_REMOTE_BACKEND_H

#include "store/store.h"

enum {
    BATCH_MOST = 512,    /* questions in one */
    BATCHES_ON_LINK = 4, /* under way at once, if they are full */
};

struct link; /* one connection, or the request for one */

/* Questions that travel together. Those before `first` are done already. */
struct batch {
    struct question *questions[BATCH_MOST];
    uint16_t charges[BATCH_MOST]; /* of each: a question that is done cannot be read any more */
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

/* ---- what a backend tells, of a connection that it opened ------------------------------------ */

void link_up(struct link *link);

/* From now on a batch is sent only when the one before it was answered. */
void link_take_turns(struct link *link);

/* It never came up, or is lost; it is closed in here. What was under way may have been decided. */
void link_down(struct link *link, const char *why);

/* The batch whose answer is next. Its questions from `first` on are there to be filled in. NULL:
 * none is under way. */
struct batch *link_next(struct link *link);
void link_answered(struct link *link); /* the next batch is decided */

enum refusal {
    REFUSAL_FINAL,    /* or what was done is not known */
    REFUSAL_UNDONE,   /* nothing was done: ask again */
    REFUSAL_ELSEWHERE /* nothing was done, nor ever will be over this link */
};
void link_refused(struct link *link, enum refusal refusal, const char *why);

#endif
