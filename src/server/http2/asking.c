/* asking.c - requests of HTTP/2 on their way to the routes of HTTP. */
#include "server/http2/connection.h"
#include "server/server.h"

void http2_replied(struct reply *r)
{
    struct http2 *h = r->session->http2;

    r->stream = h->asking;
    if (h->asking)
        h->asking->reply = r;
}

/* ---- a long body --------------------------------------------------------------------------- */

static bool admit(struct http2_stream *stream, struct session *s)
{
    struct http_request head;
    const char *why;
    int status;

    if (!stream_request(stream, &head, &status, &why)) {
        http_refuse(s, status, why);
        return false;
    }
    return http_admit(s, &head, HTTP_MAX_SHORT_BODY + 1, &stream->most_body);
}

/* The second time it comes here, it is longer than its path takes. */
bool http2_admit(struct http2 *h, struct http2_stream *stream)
{
    const bool is_known = stream->most_body != HTTP_MAX_SHORT_BODY;
    bool is_admitted = false;

    h->asking = stream;
    if (is_known)
        http_refuse(h->session, 413, "the body is too large for this path");
    else
        is_admitted = admit(stream, h->session);
    h->asking = NULL;
    stream->is_asked = !is_admitted;
    if (!is_admitted)
        http2_waits(h, stream, false);
    return is_admitted;
}

/* ---- a whole request ----------------------------------------------------------------------- */

void http2_ask(struct session *s, struct http2_stream *stream)
{
    struct http2 *h = s->http2;
    struct http_request request;
    const char *why = "the head of the request is too large";
    int status = 431;

    stream->is_asked = true;
    if (http2_is_crowded(h)) { /* by answers that the client does not read */
        nghttp2_submit_rst_stream(h->frames, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_REFUSED_STREAM);
        turn_send_later(s->loop, s);
        return;
    }
    h->asking = stream;
    if (stream->is_too_large || !stream_request(stream, &request, &status, &why))
        http_refuse(s, status, why);
    else
        http_serve(s, &request);
    h->asking = NULL;
    guard_earn(&h->guard, http2_is_known(h) ? GUARD_MOST : GUARD_MOST_UNKNOWN);
}
