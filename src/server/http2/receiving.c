/* receiving.c - what nghttp2 finds in the bytes of a client: heads, bodies, the ends of streams. */
#include "server/http2/connection.h"

enum { FRAME_HEAD = 9 };

/* ---- streams ------------------------------------------------------------------------------- */

struct http2_stream *http2_stream_of(struct http2 *h, int32_t id)
{
    if (!h->recent || h->recent->id != id)
        h->recent = nghttp2_session_get_stream_user_data(h->frames, id);
    return h->recent;
}

static void open_stream(struct http2 *h, struct http2_stream *stream)
{
    stream->later = h->streams;
    if (h->streams)
        h->streams->previous = stream;
    h->streams = stream;
    h->heading = h->recent = stream;
    http2_account(h, stream);
    http2_waits(h, stream, true);
}

/* A reply that is under way has lost its stream, and will be dropped. */
static int close_stream(nghttp2_session *frames, int32_t id, uint32_t error, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *stream = http2_stream_of(h, id);

    (void)frames;
    (void)error;
    h->recent = NULL;
    if (!stream)
        return 0;
    if (h->heading == stream)
        h->heading = NULL;
    if (stream->reply)
        stream->reply->stream = NULL;
    h->early -= stream->is_early;
    h->session->loop->watches -= stream->is_watch;
    http2_waits(h, stream, false);
    h->held -= stream->held;
    if (stream->previous)
        stream->previous->later = stream->later;
    else
        h->streams = stream->later;
    if (stream->later)
        stream->later->previous = stream->previous;
    stream->is_closed = true;
    if (!stream->is_ready)
        stream_free(h->session->loop, stream);
    return 0;
}

/* ---- heads --------------------------------------------------------------------------------- */

bool http2_take(struct http2 *h, int64_t cost)
{
    return guard_take(&h->guard, cost, http2_now(h));
}

static int frame_begins(nghttp2_session *frames, const nghttp2_frame_hd *head, void *ctx)
{
    struct http2 *h = ctx;

    (void)frames;
    h->unseen -= FRAME_HEAD + (int64_t)head->length;
    return http2_take(h, 1) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int head_begins(nghttp2_session *frames, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *stream;

    h->heading = NULL; /* of a trailer */
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    if (http2_is_crowded(h)) {
        nghttp2_submit_rst_stream(frames, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_REFUSED_STREAM);
        return 0;
    }
    stream = stream_new(h->session->loop, h, frame->hd.stream_id);
    if (!stream || nghttp2_session_set_stream_user_data(frames, frame->hd.stream_id, stream)) {
        if (stream)
            stream_free(h->session->loop, stream);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    open_stream(h, stream);
    return 0;
}

/* The rest of a head that is too large is decoded, as nghttp2 must know it, and forgotten. */
static int field_came(nghttp2_session *frames, const nghttp2_frame *frame, const uint8_t *name,
                      size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                      void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *stream = h->heading;

    (void)frames;
    (void)frame;
    (void)flags;
    if (!stream || stream->is_too_large)
        return http2_take(h, 1) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    stream->is_too_large = !stream_add_field(stream, (struct span){ (const char *)name, name_len },
                                             (struct span){ (const char *)value, value_len });
    if (stream->is_too_large)
        stream->text.len = stream->body_at = stream->field_count = 0;
    http2_account(h, stream);
    return 0;
}

/* ---- bodies -------------------------------------------------------------------------------- */

static void reset(struct http2 *h, struct http2_stream *stream, uint32_t error)
{
    nghttp2_submit_rst_stream(h->frames, NGHTTP2_FLAG_NONE, stream->id, error);
}

/* What comes behind a refusal is dropped. */
static int body_came(nghttp2_session *frames, uint8_t flags, int32_t id, const uint8_t *bytes,
                     size_t len, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *stream = http2_stream_of(h, id);

    (void)frames;
    (void)flags;
    if (!stream || stream->is_asked || stream->is_too_large || stream->is_finished)
        return 0;
    if (stream->is_open)
        http2_push_ready(h, stream);
    if (stream_body_len(stream) + len > stream->most_body && !stream->is_open &&
        !http2_admit(h, stream))
        return 0;
    if (http2_is_crowded(h) || !stream_add_body(stream, (struct span){ (const char *)bytes, len }))
        reset(h, stream, NGHTTP2_REFUSED_STREAM);
    http2_account(h, stream);
    return 0;
}

static void end_request(struct http2 *h, struct http2_stream *stream)
{
    stream->has_ended = true;
    if (stream->is_asked || stream->is_finished)
        return;
    http2_waits(h, stream, false);
    http2_push_ready(h, stream);
}

/* ---- frames -------------------------------------------------------------------------------- */

/* The client has heard that it should open no more streams, and what it opened before is here. */
static void ping_answered(struct http2 *h)
{
    h->has_pinged = false;
    if (h->goaways != 1)
        return;
    h->goaways = 2;
    nghttp2_submit_goaway(h->frames, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->frames), NGHTTP2_NO_ERROR,
                          NULL, 0);
}

static int frame_came(nghttp2_session *frames, const nghttp2_frame *frame, void *ctx)
{
    const bool is_last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct http2 *h = ctx;
    struct http2_stream *stream;

    (void)frames;
    switch ((int)frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        stream = is_last || frame->hd.type == NGHTTP2_HEADERS
                     ? http2_stream_of(h, frame->hd.stream_id)
                     : NULL;
        if (stream && frame->hd.type == NGHTTP2_HEADERS &&
            frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
            http2_head_came(h, stream);
            http2_set_deadline(h, stream);
        }
        if (stream && is_last)
            end_request(h, stream);
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            ping_answered(h);
        break;
    default:
        break;
    }
    return 0;
}

static int frame_was_invalid(nghttp2_session *frames, const nghttp2_frame *frame, int error,
                             void *ctx)
{
    (void)frames;
    (void)frame;
    if (error == NGHTTP2_ERR_REFUSED_STREAM) /* its reset costs something when it is sent */
        return 0;
    return http2_take(ctx, GUARD_ERROR) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* A stream that was answered before its end came is ended for the client, too. */
static int frame_sent(nghttp2_session *frames, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *stream;

    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
        (void)http2_take(h, frame->rst_stream.error_code == NGHTTP2_REFUSED_STREAM ? GUARD_REFUSED
                                                                                   : GUARD_ERROR);
    if (h->early == 0 || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
        (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    stream = http2_stream_of(h, frame->hd.stream_id);
    if (stream && stream->is_early && !stream->has_ended)
        nghttp2_submit_rst_stream(frames, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

bool http2_set_callbacks(nghttp2_session_callbacks *c)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(c, frame_begins);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, head_begins);
    nghttp2_session_callbacks_set_on_header_callback(c, field_came);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, body_came);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, frame_came);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, frame_was_invalid);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, close_stream);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, frame_sent);
    return true;
}
