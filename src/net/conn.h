/* conn.h - a connection: bytes in, bytes out, time limits and back pressure. Never looks inside the
 * bytes, except to see whether they are TLS.
 *
 * Belongs to one loop for life. While nothing is under way it has no buffers: reading goes into one
 * that all connections of the loop share, and only what is left over is kept. */
#ifndef WEIR_NET_CONN_H
#define WEIR_NET_CONN_H

#include <uv.h>

#include "base/buf.h"
#include "net/tls.h"

struct conn;

struct conn_events {
    /* Bytes have arrived: take what makes sense, and say how many. What is left comes again with
     * more behind it. They may be changed. Not called while the connection is paused. */
    size_t (*bytes)(struct conn *c, char *at, size_t len);
    void (*ended)(struct conn *c);   /* the other side will send no more */
    void (*expired)(struct conn *c); /* it took too long, and is closed when this returns */
    void (*closed)(struct conn *c);  /* the last thing: its memory may be freed */
};

/* What the connections of a loop share. The first part is set by the caller. */
struct conn_pool {
    const struct conn_events *events;
    struct tls_context *(*tls)(struct conn_pool *pool); /* the current one, counted; NULL: none */
    int64_t idle_timeout_ms, request_timeout_ms;
    size_t max_unsent; /* bytes that wait to be sent before reading stops */

    uv_loop_t *uv;
    struct conn *first; /* all of them */
    size_t count;
    uv_timer_t timer; /* looks for those that took too long */
    char *room;       /* what is read goes here first … */
    size_t room_used; /* … behind what other connections have there */
    struct conn *first_arrived, *last_arrived;
    struct buf plain, cipher; /* for a moment, while TLS is undone or done */
    bool is_hurried;
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
    char *arrived;     /* in the pool's room, to be taken by conn_pool_feed() */
    size_t arrived_len;
    struct conn *next_arrived;
    uv_os_fd_t fd;
    bool is_local; /* a Unix socket */
    bool has_sniffed;
    bool is_paused;        /* by whoever takes the bytes */
    bool is_choked;        /* the other side does not read what it is sent */
    bool is_reading;       /* libuv reads */
    bool is_feeding;       /* bytes() is under way */
    bool is_sending;       /* libuv has `sending` */
    bool has_ended;        /* the other side will send no more */
    bool has_told_end;     /* … and ended() was called */
    bool closes_when_sent; /* nothing more is written */
    bool is_closing;
    struct buf rest;    /* of an unfinished request */
    struct buf sending; /* libuv has it */
    struct buf unsent;  /* waits for that */
    uint64_t came;
    struct conn *next, *previous;
    unsigned char peer[16]; /* its address: IPv4 as ::ffff:a.b.c.d; zero for a Unix socket */
};

WEIR_MUSTCHECK weir_err conn_pool_init(struct conn_pool *p, uv_loop_t *uv);
void conn_pool_feed(struct conn_pool *p);  /* all that has arrived; at the end of each turn */
void conn_pool_hurry(struct conn_pool *p); /* do not wait long for others to close theirs */
void conn_pool_close(struct conn_pool *p); /* its handles, when all connections are closed */
void conn_pool_done(struct conn_pool *p);  /* its memory, when the loop has ended */

/* Take one from a listener that has one waiting. `c` is zeroed. False: there was none after all;
 * closed() is called all the same. */
bool conn_accept(struct conn *c, struct conn_pool *pool, uv_stream_t *listener);

void conn_write(struct conn *c, struct span bytes);
void conn_pause(struct conn *c);
void conn_resume(struct conn *c); /* what is left over is fed again at once */
void conn_close_when_sent(struct conn *c);
void conn_close(struct conn *c);

/* Unless something comes sooner. */
void conn_expire_in(struct conn *c, int64_t ms);

#endif
