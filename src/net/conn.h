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
    void (*drained)(struct conn *c); /* all that was written has been sent */
    void (*closed)(struct conn *c);  /* the last thing: its memory may be freed */
};

/* What the connections of a loop share. */
struct conn_pool {
    uv_loop_t *uv;
    const struct conn_events *events;
    struct tls_context *(*tls)(
        struct conn_pool *pool); /* the current one, referenced; NULL: none */
    bool requires_tls;
    int64_t idle_timeout_ms, request_timeout_ms;
    size_t max_rest;    /* bytes of an unfinished request */
    size_t max_unsent;  /* bytes that wait to be sent before reading stops */
    struct conn *first; /* all of them */
    size_t count;
    uv_timer_t timer; /* looks for those that took too long */
    char *room;       /* what is read goes here first */
};

struct conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    struct conn_pool *pool;
    struct conn *next, *previous;
    struct tls *tls;
    struct buf rest; /* of an unfinished request */
    struct buf unsent;
    uv_write_t write;
    int64_t deadline; /* in ms of the loop's clock; 0: none */
    uint8_t peer[16]; /* its address: IPv4 as ::ffff:a.b.c.d; zero for a Unix socket */
    bool is_local;    /* a Unix socket */
    bool is_paused, is_reading, is_sending, has_ended, closes_when_sent, is_closing;
    bool has_sniffed;
};

int conn_pool_init(struct conn_pool *p, uv_loop_t *uv); /* the caller has set the rest */
void conn_pool_done(struct conn_pool *p);

/* Accept from a listener that has one waiting. The caller has allocated `c`, zeroed; on failure
 * closed() is called all the same. */
void conn_accept(struct conn *c, struct conn_pool *pool, uv_stream_t *listener);

void conn_write(struct conn *c, struct span bytes);
void conn_pause(struct conn *c);
void conn_resume(struct conn *c);
void conn_close_when_sent(struct conn *c);
void conn_close(struct conn *c);

/* A whole request was read (or the first byte of the next one came): which time limit holds. */
void conn_is_idle(struct conn *c);

#endif
