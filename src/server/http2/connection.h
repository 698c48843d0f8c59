/* connection.h - what the files of this folder share of a connection that speaks HTTP/2. */
#ifndef WEIR_SERVER_HTTP2_CONNECTION_H
#define WEIR_SERVER_HTTP2_CONNECTION_H

#include <nghttp2/nghttp2.h>

#include "server/http2/guard.h"
#include "server/http2/http2.h"
#include "server/http2/stream.h"
#include "server/loop.h"

struct http2 {
    struct session *session;
    nghttp2_session *frames;
    struct guard guard;
    int64_t unseen; /* bytes that nghttp2 had, less those of frames that it told of */
    size_t fed;     /* bytes of the input that nghttp2 has, and whose requests are not all asked */
    struct http2_stream *streams;                  /* all that are open */
    struct http2_stream *first_ready, *last_ready; /* those that are to be asked */
    struct http2_stream *heading;                  /* whose head is being read */
    struct http2_stream *recent;                   /* that a frame was for */
    struct http2_stream *asking;                   /* being asked */
    size_t held;                                   /* bytes of all streams */
    size_t waiting;       /* streams that wait for the client: for more of a request, or for room */
    uint64_t waits_since; /* the first of them, or one that has gone since; in ms */
    size_t early;         /* streams that were answered before their end came */
    uint64_t first_deadline; /* of its calls, or of one that has gone since; 0: it has none */
    struct http2 *previous_timed, *next_timed; /* of those that have one */
    size_t goaways;                            /* of a drain: 0 to 2 */
    bool has_failed; /* the client broke a rule: it is told, and that is all */
    bool has_more;   /* to send, when there is room */
    bool has_pinged; /* and waits for the answer */
};

static inline uint64_t http2_now(const struct http2 *h)
{
    return uv_now(&h->session->loop->uv);
}

static inline bool http2_is_known(const struct http2 *h)
{
    return h->session->conn.standing == CONN_KNOWN;
}

/* More than it may hold, or than all connections may. */
static inline bool http2_is_crowded(const struct http2 *h)
{
    return h->held > (http2_is_known(h) ? HTTP2_MOST_KEPT : HTTP2_MOST_UNKNOWN_KEPT) ||
           conn_is_crowded(&h->session->conn);
}

struct http2_stream *http2_stream_of(struct http2 *h, int32_t id); /* NULL: it has none */

/* What it holds has changed. */
void http2_account(struct http2 *h, struct http2_stream *stream);

/* It waits for the client, or not any more. */
void http2_waits(struct http2 *h, struct http2_stream *stream, bool waits);
void http2_set_due(struct http2 *h); /* when the client has taken too long */
void http2_reset_late(struct http2 *h);

/* Ready to be asked. */
void http2_push_ready(struct http2 *h, struct http2_stream *stream);

void http2_answer(struct http2 *h, struct reply *r); /* in answer.c: submit it */

/* In asking.c: what has come of a body that is not all there. False: it was refused. */
bool http2_admit(struct http2 *h, struct http2_stream *stream);

/* In open_call.c: its head is there, and more of it will come; a message of it may be; the server
 * stops. */
void http2_head_came(struct http2 *h, struct http2_stream *stream);
void http2_go_on(struct http2 *h, struct http2_stream *stream);
void http2_end_open_calls(struct http2 *h);
void http2_tell(struct http2 *h, struct http2_stream *stream); /* how the server is now */
void http2_watch(struct http2 *h,
                 struct http2_stream *stream); /* in watch.c: … and when that changes */

/* In open_call.c: the time of such a call has passed. */
void http2_expire_open_call(struct http2 *h, struct http2_stream *stream);

/* In deadline.c: the head of a call is there, and its time runs; the connection ends. */
void http2_set_deadline(struct http2 *h, struct http2_stream *stream);
void http2_forget_deadlines(struct http2 *h);

/* In answer.c: its time has passed. What it has asked is answered for no stream any more. */
void http2_expire_call(struct http2 *h, struct http2_stream *stream);

/* In answer.c: the head of an answer by gRPC, false if there is no memory, and its trailers. */
int http2_submit_head(struct http2 *h, const struct http2_stream *stream,
                      const nghttp2_data_provider *body);
void http2_submit_status(nghttp2_session *frames, int32_t id, int status);

bool http2_take(struct http2 *h, int64_t cost); /* of what the guard lets it do; false: too much */
bool http2_set_callbacks(nghttp2_session_callbacks *c); /* in receiving.c */

#endif
