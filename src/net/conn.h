/* conn.h - a connection: bytes in, bytes out, time limits and back pressure. Never looks inside the
 * bytes, except to see whether they are TLS.
 *
 * Belongs to one loop for life. While nothing is under way it has no buffers: reading goes into one
 * that all connections of the loop share, and only what is left over is kept. */
#ifndef WEIR_NET_CONN_H
#define WEIR_NET_CONN_H

#include "net/conn_pool.h"

struct conn_events {
    /* CONN_READ_TOGETHER bytes have arrived: the next ones need the room. Take all of them by
     * conn_input_next(). */
    void (*gathered)(struct conn_pool *pool);
    void (*emptied)(struct conn *c); /* what the socket did not take at once is sent */
    void (*ended)(struct conn *c);   /* the other side will send no more */
    bool (*expired)(struct conn *c); /* it took too long. False: it is closed. True: it stays, and
                                        has another deadline */
    void (*aged)(struct conn *c);    /* it has been here for long enough; told once */
    void (*closed)(struct conn *c);  /* the last event: its memory may be freed */
};

struct conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    struct conn_pool *pool;
    struct tls *tls;
    uint64_t deadline; /* in ms of the loop's clock */
    uint64_t due;      /* the session's own, which bytes that come do not put off; 0: none */
    char *arrived;     /* in the pool's room, to be taken by conn_input_next() */
    size_t arrived_len;
    struct conn *next_arrived, *next_resumed; /* in the pool's queues: it may be in both */
    uv_os_fd_t fd;
    bool is_local; /* a Unix socket */
    bool has_sniffed;
    bool is_paused;        /* by the session */
    bool is_choked;        /* the other side does not read what it is sent */
    bool is_resumed;       /* `rest` waits to be taken by conn_input_next() */
    bool is_watched;       /* by the poller … */
    bool has_more;         /* … and its socket may not be empty … */
    bool reads_to_end;     /* … until a read has found nothing */
    bool is_reading;       /* the ring reads … */
    bool is_stopping;      /* … and was asked not to */
    bool is_queued;        /* the ring has bytes to be sent */
    bool has_slot;         /* the ring need not look for `fd` */
    bool is_listed;        /* in the poller's list of those to read from, or the ring's of those
                              to look at */
    bool is_feeding;       /* between conn_input_next() and conn_input_done() */
    bool is_sending;       /* libuv has `sending` */
    bool has_ended;        /* the other side will send no more */
    bool has_told_end;     /* … and ended() was called */
    bool closes_when_sent; /* nothing more is written */
    bool is_closing;
    unsigned char standing;   /* enum conn_standing */
    unsigned char ring_sends; /* how many, while they are few */
    struct conn *next_listed;
    struct buf rest;            /* of an unfinished request */
    struct buf sending;         /* libuv has it */
    struct buf unsent;          /* waits for that … */
    struct span lasting;        /* … and these static bytes behind it */
    size_t kept;                /* bytes that the session keeps of what was taken */
    size_t held;                /* by all of those, as the pool counts it */
    uint64_t came, ages;        /* when it was accepted, and when aged() is called; 0: it was */
    struct conn *newer, *older; /* of the same standing */
    unsigned char peer[16];     /* its address: IPv4 as ::ffff:a.b.c.d; zero for a Unix socket */
};

/* Plain bytes of a connection, for its session. */
struct conn_input {
    struct conn *conn;
    char *at; /* may be changed */
    size_t len;
    size_t used;         /* set by the session: bytes of whole requests */
    bool is_rest;        /* `at` is conn->rest */
    enum tls_result tls; /* of what follows the bytes */
};

/* The next connection whose bytes have arrived, or that was resumed. False: there is none. */
bool conn_input_next(struct conn_pool *p, struct conn_input *in);

/* The session has used in->used bytes. What is left comes again with more behind it; `at_once`:
 * without waiting for more. */
void conn_input_done(struct conn_input *in, bool at_once);

/* Take one from a listener that has one waiting. `c` is zeroed. False: there was none after all;
 * closed() is called all the same. */
bool conn_accept(struct conn *c, struct conn_pool *pool, uv_stream_t *listener);

void conn_write(struct conn *c, struct span bytes);

/* The same, and `lasting` behind it: bytes that live as long as the program, and are not copied.
 * Nothing more is read until they are sent. */
void conn_write_lasting(struct conn *c, struct span bytes, struct span lasting);

static inline size_t conn_holds(const struct conn *c)
{
    return c->rest.room + c->sending.room + c->unsent.room + c->kept;
}

/* All of them hold so much that no session should keep more. */
static inline bool conn_is_crowded(const struct conn *c)
{
    return c->pool->held + conn_holds(c) - c->held > c->pool->most_held;
}

/* Bytes that may wait to be sent to it before it is not read from. */
static inline size_t conn_most_unsent(const struct conn *c)
{
    return c->standing == CONN_KNOWN ? c->pool->max_unsent : c->pool->max_unknown_unsent;
}

/* It has said something that is of this standing, or of a higher one than it has. */
static inline void conn_raise(struct conn *c, enum conn_standing standing)
{
    if (c->standing != CONN_KNOWN)
        conn_pool_raise(c, standing);
}
void conn_pause(struct conn *c);
void conn_resume(struct conn *c); /* what is left comes by conn_input_next() */
void conn_close_when_sent(struct conn *c);
void conn_close(struct conn *c);

/* Unless something comes sooner. */
void conn_expire_in(struct conn *c, int64_t ms);

/* ---- between conn.c and conn_input.c ----------------------------------------------------- */

void conn_write_raw(struct conn *c, struct span bytes, struct span lasting); /* as they are */
bool conn_should_read(const struct conn *c);
void conn_read_or_stop(struct conn *c); /* as it wants now */
void conn_input_resume(struct conn *c); /* it may want bytes again */
void conn_input_forget(struct conn *c); /* it is closed */

static inline bool conn_is_sending(const struct conn *c)
{
    return c->is_sending || c->is_queued;
}

/* ---- for poller.c ------------------------------------------------------------------------ */

void conn_read(struct conn *c); /* what its socket has, if there is room for it */

/* ---- for uring.c ------------------------------------------------------------------------- */

void conn_receive(struct conn *c, struct span bytes); /* they are copied */
void conn_receive_end(struct conn *c, bool is_well);

/* What the ring had to send is sent; or less of it, with what send() returned. */
void conn_taken(struct conn *c);
void conn_taken_in_part(struct conn *c, struct span bytes, int result);

/* Close it if it is closing, and neither the poller nor the ring has it. */
void conn_let_go(struct conn *c);

/* A large buffer that was needed for a moment is not kept for the next. */
static inline void conn_trim_scratch(struct buf *scratch)
{
    if (scratch->room > CONN_KEPT_SCRATCH)
        buf_done(scratch);
}

#endif
