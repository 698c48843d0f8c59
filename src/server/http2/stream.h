/* stream.h - one request of HTTP/2 on its way, and its answer.
 *
 * Its texts are in one buffer, which first has the request and then, when that was asked, the
 * answer. Streams and their buffers are used again, by all connections of a loop. */
#ifndef WEIR_SERVER_HTTP2_STREAM_H
#define WEIR_SERVER_HTTP2_STREAM_H

#include "base/buf.h"
#include "proto/http.h"

struct http2;
struct loop;
struct reply;

/* A field of the head, in the buffer, each text with a NUL behind it. */
struct http2_field {
    uint32_t name, name_len, value, value_len;
};

struct http2_stream {
    struct http2 *http2;
    struct http2_stream *next;             /* free, or ready to be asked */
    struct http2_stream *previous, *later; /* of the same connection */
    struct reply *reply;                   /* that will answer it; NULL: none, or not any more */
    struct buf text;
    size_t held; /* of the buffer, as the connection counts it */

    struct http2_field fields[HTTP_MAX_HEADERS];
    size_t field_count;
    struct span_at {
        uint32_t at, len;
    } method, target;
    uint32_t question;     /* where the query begins, and a NUL is; 0: nowhere */
    size_t head_size;      /* as HPACK counts it */
    size_t body_at;        /* in the buffer; of an answer, what is left to send begins here */
    const char *grpc_code; /* of an error, beside its status; NULL: none */
    struct span lasting;   /* of an answer, behind what is in the buffer */
    uint64_t waits_since;  /* for the client, in ms; 0: it does not */
    int32_t id;
    int grpc_status; /* see grpc/grpc.h */
    bool has_host;
    bool is_too_large; /* its head */
    bool has_ended;    /* the client sends no more of it */
    bool is_ready;     /* in the list of those to be asked */
    bool is_asked;
    bool is_early;      /* it was answered before its end came */
    size_t most_body;   /* bytes that may come before it is looked at again */
    bool is_grpc;       /* by its Content-Type */
    bool is_answered;   /* all of its answer is with nghttp2 */
    int64_t timeout_ms; /* that the client gives a call of gRPC; 0: none … */
    uint64_t deadline;  /* … and when it has passed */

    /* Of a call that stays open: */
    bool is_open;
    bool has_head;      /* that of its answer is sent */
    bool is_finished;   /* nothing more is answered … */
    struct buf answers; /* … but these … */
    size_t answered;    /* … of which so much is sent */
    bool is_watch;      /* it is told how the server is … */
    bool was_serving;   /* … which was this, when it was last told */
    bool is_closed;     /* freed when it leaves the list */
};

/* NULL: out of memory. */
struct http2_stream *stream_new(struct loop *loop, struct http2 *of, int32_t id);
void stream_free(struct loop *loop, struct http2_stream *stream);
void streams_free(struct loop *loop); /* those that are kept */

/* A field of the head. False: it is too much of it, or there is no memory. */
bool stream_add_field(struct http2_stream *stream, struct span name, struct span value);
bool stream_add_body(struct http2_stream *stream, struct span bytes); /* false: out of memory */
size_t stream_body_len(const struct http2_stream *stream);
struct span stream_body(const struct http2_stream *stream);
struct span stream_target(const struct http2_stream *stream); /* with its query */

/* The request; its spans point into the buffer. False: what is wrong is in *status and *why. */
bool stream_request(struct http2_stream *stream, struct http_request *out, int *status,
                    const char **why);

#endif
