/* http2.h - a session that speaks HTTP/2: many requests on one connection at the same time, each
 * answered as soon as it can be.
 *
 * nghttp2 knows frames, windows and header compression. What it does not bound is bounded here; see
 * docs/security.md. All bytes that a connection has received are handed to it at once. Requests that
 * are whole then wait to be asked, one by one, as the turn goes; one that is reset before has asked
 * nothing. */
#ifndef WEIR_SERVER_HTTP2_HTTP2_H
#define WEIR_SERVER_HTTP2_HTTP2_H

#include "server/session.h"

struct buf;
struct http2_stream;

enum {
    HTTP2_MOST_STREAMS = 256,              /* requests of a connection at the same time */
    HTTP2_MOST_KEPT = 8 * 1024 * 1024,     /* bytes of its requests and answers … */
    HTTP2_MOST_UNKNOWN_KEPT = 1024 * 1024, /* … of a client without a token */
    HTTP2_MOST_QUEUED = 1000,              /* frames that wait to be sent */
    HTTP2_PREFACE = 3, /* bytes that tell it from HTTP/1.1: no method begins with "PRI" */
};

/* Do these bytes begin HTTP/2? PARSE_MORE: they may. */
enum parse http2_meet(const char *bytes, size_t len);

/* NULL: out of memory. */
struct http2 *http2_new(struct session *s);
void http2_free(
    struct http2 *h); /* NULL is fine; replies that are under way are for no stream any more */

/* The steps of a turn, as in session.h. */
bool http2_decode(struct session *s, struct conn_input *in, struct http2_stream **out);
void http2_ask(struct session *s, struct http2_stream *stream);
void http2_encode(struct session *s, struct buf *out);
bool http2_has_more(const struct session *s); /* to be sent, and the connection takes it */

/* The reply answers the stream that is being asked; it is in the session's queue only when it is
 * ready. */
void http2_replied(struct reply *r);

void http2_refuse(struct session *s, int status, const char *why); /* … all of it */

/* Tell the client to open no more streams, and let those that are on their way come. */
void http2_drain(struct session *s);
bool http2_is_drained(const struct session *s);

/* The connection has waited too long for something. False: it is to be closed. */
bool http2_expired(struct session *s);

#endif
