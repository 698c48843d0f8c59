/* loop.h - one event loop: a thread, its connections, and the turn.
 *
 * A turn: read what arrived, decode it, decide all of it, commit once, then encode and send the
 * answers. Where a commit waits for nothing, all but the sending is done portion by portion. */
#ifndef WEIR_SERVER_LOOP_H
#define WEIR_SERVER_LOOP_H

#include <uv.h>

#include "base/published.h"
#include "net/listener.h"
#include "server/loop_reactor.h"
#include "server/session.h"

struct server;

enum {
    LOOP_ASKED_TOGETHER = 8, /* checks whose places in memory are fetched at the same time */
    LOOP_MOST_IN_FLIGHT =
        16384, /* calls; beyond, connections that wait for some are not read from */
    LOOP_DECIDED_TOGETHER = 128,       /* checks that share a commit, if that waits for nothing */
    LOOP_MOST_ASKED = 1024,            /* checks without a commit; then the turn ends early */
    LOOP_MOST_ANSWERED = 2048,         /* checks that are answered, but not encoded: the same */
    LOOP_MOST_TEXTS = 4 * 1024 * 1024, /* bytes of replies of a turn; then it ends early */
    LOOP_MOST_UNSENT = 256 * 1024, /* bytes that a connection may leave unread before it is not read
                                      from any more … */
    LOOP_MOST_UNKNOWN_UNSENT = 64 * 1024, /* … if it has not shown that it may ask */
    LOOP_MOST_HELD = 128 * 1024 * 1024,   /* bytes of unfinished requests and unread answers of all
                                             connections of a server */
};

/* One that this loop accepts from. */
struct loop_listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
};

/* A set of policies that calls of one turn are judged by. They point into it until they have their
 * answers, which may be turns later; so it also knows when the turn was. */
struct pin {
    struct published_visit visit;
    size_t calls;
    uint64_t began_ns;      /* when the first was asked */
    uint64_t committed_ns;  /* when no more were; 0: not yet */
    size_t asked, answered; /* checks */
    struct pin *next;       /* free */
};

/* The numbers of a CL.THROTTLE or THROTTLE. Who limits by them mostly sends the same ones again. */
struct throttle {
    void (*encode)(struct reply *reply, struct buf *out);
    struct rule rule;
    int64_t quantity;
    size_t words; /* of the command; 0: nothing is remembered */
    size_t len;
    char text[96]; /* as they came */
};

struct loop {
    struct server *server;
    size_t index;
    uv_loop_t uv;
    uv_thread_t thread;
    uv_check_t end_of_turn;
    uv_async_t wake;     /* the server is draining, or connections are to be dropped … */
    atomic_long to_drop; /* … so many, for those that came to other loops */
    uv_timer_t drain_deadline;
    struct loop_listener *listeners;
    size_t listener_count;
    struct conn_pool conns;
    struct loop_reactor reactor; /* what a remote store waits with */
    uint64_t next_id;
    bool is_draining;

    /* The turn. */
    struct pending pending;
    struct pin *pin; /* of the policies, while is_asking */
    bool is_asking;
    int64_t now; /* ms, read with the first check after a commit */
    struct call *prepared[LOOP_ASKED_TOGETHER];
    size_t prepared_count;
    size_t asked;      /* since the last commit */
    size_t texts;      /* bytes of replies since the last flush */
    size_t pages_left; /* that this turn may send still */
    size_t in_flight;  /* calls that have no reply yet, of this turn and others */
    struct session *flush_first, *flush_last;
    struct session *unencoded; /* of these: the first that is to be encoded still */
    struct buf out;            /* what is encoded, but not sent */

    struct errand *errands; /* for replies of this loop, in other threads */
    struct call *free_calls;
    struct call_block *call_blocks; /* where all calls are */
    struct reply *free_replies;
    size_t free_reply_count;
    struct pin *free_pins;
    struct throttle throttle;  /* the last one */
    struct observer *observer; /* of what is decided here */
};

/* Ready to run, with the listeners that fall to it. */
WEIR_MUSTCHECK weir_err loop_init(struct loop *loop, struct server *server, size_t index,
                                  weir_diag *diag);
WEIR_MUSTCHECK weir_err loop_start(struct loop *loop, weir_diag *diag); /* in its own thread */
void loop_wake(struct loop *loop); /* from any thread: the server's is_draining has changed */
void loop_join(struct loop *loop);
void loop_done(struct loop *loop);

struct engine *loop_engine(const struct loop *loop);
bool loop_requires_tls(const struct loop *loop);

/* There are too many connections: close one that has not shown that it may ask, here or on another
 * loop. False: there is none. */
bool loop_make_room(struct loop *loop);
uint64_t loop_next_id(struct loop *loop);

/* A turn begins to ask, if it has not: now the policies and the time stand still. False: out of
 * memory. */
bool loop_begin_asking(struct loop *loop);
void loop_unpin(struct loop *loop, struct pin *pin); /* one call less */
void loop_ask(struct loop *loop, struct call *call); /* one that is prepared */
void loop_answered(struct loop *loop, struct pin *pin);

void loop_asked_enough(struct loop *loop); /* end the turn early if it grows too large */
void loop_took_all(struct loop *loop);     /* that has arrived from one connection */
void loop_lost_one(struct loop *loop);     /* a connection is gone: was it the last? */

/* This session may have replies to send when the turn ends. */
void loop_flush_later(struct loop *loop, struct session *s);
void loop_end_turn(struct loop *loop); /* now */

#endif
