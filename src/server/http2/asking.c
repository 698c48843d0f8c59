/* asking.c - requests of HTTP/2 on their way to the routes of HTTP. */
#include "server/grpc/grpc.h"
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

static bool admit(struct http2_stream *stream, struct session *s, struct http_request *head)
{
    if (s->is_grpc)
        return grpc_admit(s, head, &stream->most_body);
    return http_admit(s, head, HTTP_MAX_SHORT_BODY + 1, &stream->most_body);
}

static void refuse_long(struct session *s, struct http_request *head)
{
    if (s->is_grpc)
        grpc_refuse_long(s, head);
    else
        http_refuse(s, 413, "the body is too large for this path");
}

/* The second time it comes here, it is longer than its path takes. */
bool http2_admit(struct http2 *h, struct http2_stream *stream)
{
    const bool is_known = stream->most_body != HTTP_MAX_SHORT_BODY;
    struct session *s = h->session;
    bool is_admitted = false;
    struct http_request head;
    const char *why;
    int status;

    h->asking = stream;
    if (!stream_request(stream, &head, &status, &why)) {
        http_refuse(s, status, why);
    } else {
        s->is_grpc = stream->is_grpc && grpc_is_call(&head);
        if (is_known)
            refuse_long(s, &head);
        else
            is_admitted = admit(stream, s, &head);
        s->is_grpc = false;
    }
    h->asking = NULL;
    stream->is_asked = !is_admitted;
    if (!is_admitted)
        http2_waits(h, stream, false);
    return is_admitted;
}

/* ---- a whole request ----------------------------------------------------------------------- */

static void serve(struct session *s, struct http2_stream *stream, struct http_request *request)
{
    if (stream->is_grpc && grpc_is_call(request)) {
        s->is_grpc = true;
        grpc_serve(s, request, stream->timeout_ms);
        s->is_grpc = false;
    } else if (grpc_has_path(request->path)) {
        http_refuse(s, 415, "this is a method of gRPC: POST with Content-Type: application/grpc");
    } else {
        http_serve(s, request);
    }
}

void http2_ask(struct session *s, struct http2_stream *stream)
{
    struct http2 *h = s->http2;
    struct http_request request;
    const char *why = "the head of the request is too large";
    int status = 431;

    if (stream->is_answered) /* its time has passed */
        return;
    if (stream->is_open) {
        http2_go_on(h, stream);
        return;
    }
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
        serve(s, stream, &request);
    h->asking = NULL;
    guard_earn(&h->guard, http2_is_known(h));
}
