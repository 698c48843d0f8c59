/* loop.h - one event loop: a thread, its listeners and connections. turn.h has what it does. */
#ifndef WEIR_SERVER_LOOP_H
#define WEIR_SERVER_LOOP_H

#include <uv.h>

#include "engine/leases.h"
#include "net/listener.h"
#include "proto/rate_headers.h"
#include "server/again.h"
#include "server/http2/memory.h"
#include "server/http_again.h"
#include "server/look_again.h"
#include "server/loop_reactor.h"
#include "server/metrics/observer.h"
#include "server/reply_run.h"
#include "server/session.h"
#include "server/telemetry/tracing.h"
#include "server/turn.h"

struct server;

enum {
    LOOP_MOST_IN_FLIGHT =
        16384, /* checks; beyond, connections that wait for some are not read from */
    LOOP_DECIDED_TOGETHER = 128,       /* checks that share a commit, if that waits for nothing */
    LOOP_MOST_ASKED = 1024,            /* checks without a commit; then the turn ends early */
    LOOP_MOST_ANSWERED = 2048,         /* checks that are answered, but not encoded: the same */
    LOOP_MOST_TEXTS = 4 * 1024 * 1024, /* bytes of replies of a turn; then it ends early */
    LOOP_MOST_UNSENT = 256 * 1024, /* bytes that a connection may leave unread before it is not read
                                      from any more … */
    LOOP_MOST_UNKNOWN_UNSENT = 64 * 1024, /* … if it has shown no token */
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
    bool has_waiting; /* a connection, for memory */
};

/* The numbers of a CL.THROTTLE or THROTTLE. Clients mostly send the same ones again. */
struct throttle {
    void (*encode)(struct reply *reply, struct buf *out);
    struct rule rule;
    int64_t quantity;
    size_t words; /* of the command; 0: nothing is remembered */
    size_t len;
    char text[96]; /* as they came */
    struct {
        int64_t numbers[2]; /* of the last answer: whether it was limited, and the limit */
        size_t len;         /* 0: there was none */
        char text[16 + 2 * RESP_INT_MOST];
    } begun; /* with these */
};

/* How RESP tells what was decided, by which limit and where from. The next answer mostly differs in
 * a few numbers between the two texts, and in what is behind them. */
struct last_answer {
    const char *rule; /* NULL: nothing is remembered */
    weir_source source;
    int64_t value, limit; /* the first two */
    size_t first_len, last_len;
    char first[64];
    char last[WEIR_MAX_NAME + 48];
};

/* Of checks, and of reservations. */
enum last_kind { LAST_DENIED, LAST_ALLOWED, LAST_HELD, LAST_SETTLED, LAST_KINDS };

struct known_script;

/* A script that came as a text, and which one it is: the next is mostly the same. */
struct last_script {
    const struct known_script *script; /* NULL: nothing is remembered */
    size_t len;
    char text[2048];
};

struct loop {
    struct server *server;
    struct engine *engine; /* the server's */
    size_t index;
    uv_loop_t uv;
    uv_thread_t thread;
    uv_check_t end_of_turn;
    struct look_again look_again;
    uv_async_t wake;     /* the server is draining, its leases are returned, or connections are to
                            be dropped … */
    atomic_long to_drop; /* … so many, for those that came to other loops */
    uv_timer_t drain_deadline;
    struct loop_listener *listeners;
    size_t listener_count;
    bool has_waiting; /* a listener has a connection that waits for memory */
    struct conn_pool conns;
    struct loop_reactor reactor; /* what a remote store waits with */
    struct lease_lane leases;
    uint64_t next_id;
    uint64_t drain_by; /* when it drains at the latest; 0: it need not yet */
    bool is_draining;
    bool has_more_to_do; /* the next turn does not wait */

    struct turn turn;
    struct errand *errands; /* for replies of this loop, in the thread pool */
    struct call *free_calls;
    struct call_block *call_blocks; /* where all calls are */
    struct reply_runs reply_runs;
    struct reply *free_replies;
    size_t free_reply_count;
    struct http2_memory http2_memory;
    struct http2 *timed;  /* connections with calls that a client gave a time … */
    uv_timer_t call_time; /* … and the end of the shortest */
    size_t watches;       /* calls that are told how the server is … */
    uv_timer_t watching;  /* … and when to look */
    struct http2_stream *free_streams;
    size_t free_stream_count;
    struct throttle throttle;                 /* the last one */
    struct last_script script;                /* the last one, too */
    struct http_agains http_agains;           /* the last requests of HTTP that may come again */
    struct agains agains;                     /* the last requests that may come again */
    struct known_keys known_keys;             /* of those in a shared store */
    struct rate_headers_last rate_headers[2]; /* the same for HTTP */
    struct last_answer answers[LAST_KINDS];   /* the last short ones of each kind */
    struct observer *observer;                /* of what is decided here */
    struct observer_runs runs;                /* … and is to be counted with the next commit */
    _Atomic(struct tracing *) tracing; /* which of it become spans; NULL: nothing is traced */
};

/* Ready to run, with the listeners that fall to it. */
WEIR_MUSTCHECK weir_err loop_init(struct loop *loop, struct server *server, size_t index,
                                  weir_diag *diag);
WEIR_MUSTCHECK weir_err loop_start(struct loop *loop, weir_diag *diag); /* in its own thread */
void loop_turn(struct loop *loop, bool may_wait); /* what start does again and again … */
void loop_run(struct loop *loop);                 /* … until the loop has drained */
void loop_wake(struct loop *loop); /* from any thread: the server's is_draining has changed */
void loop_join(struct loop *loop);
void loop_done(struct loop *loop);

static inline struct tracing *loop_tracing(const struct loop *loop)
{
    return atomic_load_explicit(&loop->tracing, memory_order_acquire);
}

static inline struct engine *loop_engine(const struct loop *loop)
{
    return loop->engine;
}

bool loop_requires_tls(const struct loop *loop);

/* There are too many connections: close one without a token, here or on another loop. False: there
 * is none. */
bool loop_make_room(struct loop *loop);
uint64_t loop_next_id(struct loop *loop);

void loop_lost_one(struct loop *loop); /* a connection is gone: was it the last? */

#endif
