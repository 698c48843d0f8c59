/* open_call.c - calls of gRPC that stay open: health that is watched, and reflection. What they are told
 * is known at once, so they need no reply: their messages go from one buffer to another. */
#include "server/grpc/grpc.h"
#include "server/http2/connection.h"

/* Longer than one message that is not all there, and nothing is done for it. */
enum { MOST_UNREAD = GRPC_PREFIX + GRPC_MAX_SHORT_MESSAGE, MOST_UNSENT = 256 * 1024 };

void http2_head_came(struct http2 *h, struct http2_stream *stream)
{
    if (!stream->is_grpc || !grpc_is_stream(stream_target(stream)))
        return;
    stream->is_open = true;
    http2_waits(h, stream, false);
}

static ssize_t read_answers(nghttp2_session *frames, int32_t id, uint8_t *into, size_t room,
                            uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct http2_stream *stream = source->ptr;
    const size_t left = stream->answers.len - stream->answered;
    const size_t n = left < room ? left : room;

    if (n > 0)
        memcpy(into, stream->answers.at + stream->answered, n);
    stream->answered += n;
    http2_waits(ctx, stream, n < left);
    if (n == left) {
        stream->answers.len = stream->answered = 0;
        if (stream->is_finished) {
            *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
            http2_submit_status(frames, id, stream->grpc_status);
        } else if (n == 0) {
            return NGHTTP2_ERR_DEFERRED;
        }
    }
    return (ssize_t)n;
}

static void send_answers(struct http2 *h, struct http2_stream *stream)
{
    nghttp2_data_provider body = { .source.ptr = stream, .read_callback = read_answers };

    if (stream->has_head)
        (void)nghttp2_session_resume_data(h->frames, stream->id);
    else if (http2_submit_head(h, stream, &body))
        session_abort(h->session);
    stream->has_head = true;
    if (stream->is_finished && !stream->has_ended && !stream->is_early) {
        stream->is_early = true;
        h->early++;
    }
    http2_account(h, stream);
    turn_send_later(h->session->loop, h->session);
}

static void finish(struct http2_stream *stream, enum grpc_status status)
{
    stream->is_finished = true;
    stream->grpc_status = (int)status;
}

void http2_go_on(struct http2 *h, struct http2_stream *stream)
{
    const struct span path = stream_target(stream);
    const size_t begin = stream->body_at;
    struct span message;
    size_t used;

    while (!stream->is_finished && grpc_next_message(stream_body(stream), &message, &used)) {
        enum grpc_status status = GRPC_UNIMPLEMENTED;

        if (message.at[-GRPC_PREFIX] == 0 && message.len <= GRPC_MAX_SHORT_MESSAGE)
            status = grpc_stream(h->session->loop->server, path, message, &stream->answers);
        if (status == GRPC_OK && grpc_is_watch(path) && grpc_knows_service(message))
            http2_watch(h, stream);
        if (status != GRPC_OK || stream->answers.len > MOST_UNSENT || stream->answers.failed)
            finish(stream, status != GRPC_OK ? status : GRPC_RESOURCE_EXHAUSTED);
        stream->body_at += used;
    }
    memmove(stream->text.at + begin, stream->text.at + stream->body_at, stream_body(stream).len);
    stream->text.len -= stream->body_at - begin;
    stream->body_at = begin;
    if (!stream->is_finished && stream_body(stream).len > MOST_UNREAD)
        finish(stream, GRPC_RESOURCE_EXHAUSTED);
    if (!stream->is_finished && stream->has_ended && !grpc_is_watch(path))
        finish(stream, GRPC_OK);
    send_answers(h, stream);
}

/* What it has not read yet is old: it is told when it has. */
void http2_tell(struct http2 *h, struct http2_stream *stream)
{
    if (stream->is_finished || stream->answers.len > stream->answered)
        return;
    stream->was_serving = grpc_is_serving(h->session->loop->server);
    grpc_write_health(h->session->loop->server, &stream->answers);
    send_answers(h, stream);
}

/* If the client has not read what it was told before, there is no place for a status. */
void http2_expire_open_call(struct http2 *h, struct http2_stream *stream)
{
    if (stream->is_finished || stream->answers.len > stream->answered) {
        nghttp2_submit_rst_stream(h->frames, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
        return;
    }
    finish(stream, GRPC_DEADLINE_EXCEEDED);
    send_answers(h, stream);
}

/* They would keep a server that stops from it. Where else to ask is for the client to know. */
void http2_end_open_calls(struct http2 *h)
{
    for (struct http2_stream *stream = h->streams; stream; stream = stream->later) {
        if (!stream->is_open || stream->is_finished)
            continue;
        if (grpc_is_watch(stream_target(stream)))
            grpc_write_health(h->session->loop->server, &stream->answers);
        finish(stream, GRPC_UNAVAILABLE);
        send_answers(h, stream);
    }
}
