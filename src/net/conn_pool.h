/* conn_pool.h - the connections of a loop: what they share, how they stand, and how much they hold.
 *
 * How a connection stands is for the server to say. It decides how long the connection may be
 * silent, how much is read of it at once, and which goes first when there are too many, or too
 * much is held for all of them. */
#ifndef WEIR_NET_CONN_POOL_H
#define WEIR_NET_CONN_POOL_H

#include <stdatomic.h>
#include <uv.h>

#include "base/buf.h"
#include "net/tls.h"

struct conn;
struct conn_events;
struct poller;
struct uring;

enum conn_standing {
    CONN_STRANGER, /* has said nothing valid yet */
    CONN_GUEST,    /* has asked for what all may have */
    CONN_KNOWN,    /* may ask for more, and did */
    CONN_STANDINGS
};

struct conn_list {
    struct conn *newest, *oldest;
};

struct conn_queue {
    struct conn *first, *last;
};

/* The first part is set by the caller. */
struct conn_pool {
    const struct conn_events *events;
    struct tls_context *(*tls)(struct conn_pool *pool); /* the current one, counted; NULL: none */
    int64_t idle_timeout_ms, request_timeout_ms;
    int64_t most_age_ms; /* after which, or up to a tenth before, aged() is called */
    size_t max_unsent;   /* bytes of a connection that wait to be sent before reading stops … */
    size_t max_unknown_unsent; /* … of a stranger or a guest */
    size_t most_held;          /* bytes that all of them together may keep */

    uv_loop_t *uv;
    struct poller *poller; /* reads, and each is sent to by itself; else NULL … */
    struct uring *uring;   /* … and this reads and sends */
    struct conn_list lists[CONN_STANDINGS]; /* those that are not closing */
    size_t count;                           /* with those that are */
    atomic_long unknown;                    /* strangers and guests that are not closing */
    atomic_long dropped;                    /* closed before their time, for others */
    size_t held, most_seen;                 /* bytes; the most since memory was given back */
    uint64_t looked_at;                     /* when late ones were looked for; 0: look now */
    uint64_t trim_at;                       /* when memory may be given back again */
    uint64_t relief_at;                     /* when it may be looked for those that hold it again */
    uv_timer_t timer;                       /* looks for those that took too long */
    char *room;                             /* what is read goes here first … */
    size_t room_used;                       /* … behind what other connections have there */
    struct conn_queue arrived;              /* have bytes in the room */
    struct conn_queue resumed;              /* have a rest that is to be taken */
    struct buf plain, cipher;               /* for a moment, while TLS is undone or done */
    uint64_t random;                        /* of the ages; see conn_accept() */
    bool is_hurried;
};

WEIR_MUSTCHECK weir_err conn_pool_init(struct conn_pool *p, uv_loop_t *uv);
void conn_pool_hurry(struct conn_pool *p); /* do not wait long for others to close theirs */
void conn_pool_close(struct conn_pool *p); /* its handles, when all connections are closed */
void conn_pool_done(struct conn_pool *p);  /* its memory, when the loop has ended */

/* Are there bytes that conn_input_next() has not given out? */
static inline bool conn_pool_has_arrived(const struct conn_pool *p)
{
    return p->arrived.first;
}

static inline bool conn_pool_has_input(const struct conn_pool *p)
{
    return p->arrived.first || p->resumed.first;
}

/* All that are not closing: those that have been here for longest last, of each standing. */
struct conn *conn_pool_first(const struct conn_pool *p);
struct conn *conn_pool_next(const struct conn *c);

/* Close the stranger that has been silent for longest; without strangers, the guest. False: there
 * is none. */
bool conn_pool_drop_one(struct conn_pool *p);

void conn_pool_raise(struct conn *c, enum conn_standing standing); /* for conn_raise() */

/* ---- for conn.c -------------------------------------------------------------------------- */

enum {
    CONN_ROOM = 64 * 1024,          /* for what is read at once … */
    CONN_UNKNOWN_ROOM = 16 * 1024,  /* … of strangers and guests */
    CONN_READ_TOGETHER = 16 * 1024, /* bytes of several connections that may gather there */
    CONN_KEPT_SCRATCH = 256 * 1024, /* a larger buffer that is used for a moment is given back */
};

void conn_pool_enter(struct conn_pool *p, struct conn *c);
void conn_pool_part(struct conn *c);  /* it is closing: it is in no list any more */
void conn_pool_leave(struct conn *c); /* it is closed */

/* What it holds may have changed. May close this one or others, if all hold too much. */
void conn_pool_account(struct conn *c);

#endif
