/* answer.c - replies as streams of HTTP/2: heads, bodies and trailers, and the bytes of all of them.
 *
 * A route writes the head of its answer as lines, as HTTP/1.1 has them. Here they become fields.
 * Nothing is copied: the texts stay where they are until the stream is closed. */
#include <stdlib.h>

#include "server/grpc/grpc.h"
#include "server/http2/connection.h"

enum {
    MOST_FIELDS = 32,
    STATUS_AT = 9, /* in "HTTP/1.1 200 OK" */
    SENT_AT_ONCE = 256 * 1024,
};

/* ---- heads --------------------------------------------------------------------------------- */

#define FIELD(name, value)                                                                         \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,                \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                           \
    }

static nghttp2_nv field(const char *name, size_t name_len, char *value, size_t value_len)
{
    return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, name_len, value_len,
                         NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE };
}

static void lower(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (char)(text[i] + 'a' - 'A');
}

/* The lines of a head. Returns how many fields they are; `body_at` is what is behind them. */
static size_t read_lines(struct buf *text, nghttp2_nv *fields, size_t *body_at)
{
    char *at = text->at, *end = strstr(at, "\r\n");
    size_t n = 0;

    fields[n++] = field(":status", 7, at + STATUS_AT, 3);
    for (at = end + 2; (end = strstr(at, "\r\n")) != at; at = end + 2) {
        char *colon = memchr(at, ':', (size_t)(end - at));
        const size_t len = (size_t)(colon - at);

        lower(at, len);
        if (n < MOST_FIELDS && !span_is((struct span){ at, len }, "connection"))
            fields[n++] = field(at, len, colon + 2, (size_t)(end - colon) - 2);
    }
    *body_at = (size_t)(at + 2 - text->at);
    return n;
}

/* ---- gRPC ------------------------------------------------------------------------------------ */

static const nghttp2_nv grpc_head[] = { FIELD(":status", "200"),
                                        FIELD("content-type", "application/grpc") };

static nghttp2_nv status_field(int status)
{
    static const char numbers[][3] = { "0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                       "9", "10", "11", "12", "13", "14", "15", "16" };

    return field("grpc-status", 11, (char *)numbers[status], strlen(numbers[status]));
}

int http2_submit_head(struct http2 *h, const struct http2_stream *stream,
                      const nghttp2_data_provider *body)
{
    return nghttp2_submit_response(h->frames, stream->id, grpc_head,
                                   sizeof grpc_head / sizeof *grpc_head, body);
}

void http2_submit_status(nghttp2_session *frames, int32_t id, int status)
{
    const nghttp2_nv fields[] = { status_field(status) };

    nghttp2_submit_trailer(frames, id, fields, 1);
}

/* All but what is plain text, and the sign for what is not. */
static void escape(struct buf *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.at[i];

        if (c >= 0x20 && c <= 0x7e && c != '%')
            buf_byte(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

/* An error is a head that is the end as well. */
static int submit_error(struct http2 *h, struct http2_stream *stream)
{
    static const nghttp2_nv accepts = FIELD("grpc-accept-encoding", "identity");
    nghttp2_nv fields[6] = { grpc_head[0], grpc_head[1], status_field(stream->grpc_status) };
    struct buf message;
    size_t n = 3;

    buf_init(&message, &stream->text.allocator);
    escape(&message, buf_span(&stream->text));
    buf_done(&stream->text);
    stream->text = message;
    if (message.failed)
        return -1;
    fields[n++] = field("grpc-message", 12, stream->text.at ? stream->text.at : (char *)"",
                        stream->text.len);
    if (stream->grpc_code)
        fields[n++] = field("weir-code", 9, (char *)stream->grpc_code, strlen(stream->grpc_code));
    if (stream->grpc_status == GRPC_UNIMPLEMENTED)
        fields[n++] = accepts;
    return nghttp2_submit_response(h->frames, stream->id, fields, n, NULL);
}

/* ---- bodies -------------------------------------------------------------------------------- */

static size_t left_of(const struct http2_stream *stream)
{
    return stream->text.len - stream->body_at + stream->lasting.len;
}

/* The next bytes of a body, as many as the client has room for. */
static ssize_t read_body(nghttp2_session *frames, int32_t id, uint8_t *into, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct http2_stream *stream = source->ptr;
    const size_t texts = stream->text.len - stream->body_at;
    const size_t n = texts < room ? texts : room;
    const size_t more = room - n < stream->lasting.len ? room - n : stream->lasting.len;

    if (n > 0)
        memcpy(into, stream->text.at + stream->body_at, n);
    stream->body_at += n;
    if (more > 0) { /* else there may be no pointer to add to */
        memcpy(into + n, stream->lasting.at, more);
        stream->lasting.at += more;
        stream->lasting.len -= more;
    }
    if (left_of(stream) > 0) {
        http2_waits(ctx, stream, true); /* from now on */
    } else if (stream->is_grpc) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        http2_submit_status(frames, id, GRPC_OK);
    } else {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)(n + more);
}

static void submit(struct http2 *h, struct http2_stream *stream)
{
    nghttp2_data_provider body = { .source.ptr = stream, .read_callback = read_body };
    nghttp2_nv fields[MOST_FIELDS];
    int failed;
    size_t n;

    if (stream->text.failed || (stream->text.len == 0 && stream->grpc_status == GRPC_OK)) {
        nghttp2_submit_rst_stream(h->frames, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (stream->is_grpc && stream->grpc_status != GRPC_OK) {
        failed = submit_error(h, stream);
    } else if (stream->is_grpc) {
        stream->body_at = 0;
        failed = http2_submit_head(h, stream, &body);
    } else {
        n = read_lines(&stream->text, fields, &stream->body_at);
        failed = nghttp2_submit_response(h->frames, stream->id, fields, n,
                                         left_of(stream) > 0 ? &body : NULL);
    }
    if (failed)
        session_abort(h->session);
}

/* A text that is there already changes its place. */
static void write_text(struct reply *r, struct http2_stream *stream)
{
    const struct buf was = stream->text;

    stream->text.len = 0;
    if (r->encode) {
        r->encode(r, &stream->text);
        return;
    }
    stream->text = r->text;
    r->text = was;
    r->text.len = 0;
}

static void submit_answer(struct http2 *h, struct http2_stream *stream)
{
    stream->is_answered = true;
    if (!stream->has_ended) {
        stream->is_early = true;
        h->early++;
    }
    http2_waits(h, stream, true);
    submit(h, stream);
    http2_account(h, stream);
}

void http2_answer(struct http2 *h, struct reply *r)
{
    struct http2_stream *stream = r->stream;

    write_text(r, stream);
    if (r->waiting > 0) /* it has asked again */
        return;
    stream->lasting = r->lasting;
    stream->is_grpc = r->is_grpc;
    if (r->is_grpc) {
        stream->grpc_status = r->grpc_status;
        stream->grpc_code = r->grpc_code;
        observer_request(h->session->loop->observer, PROTOCOL_GRPC, r->grpc_status);
    }
    stream->reply = NULL;
    r->stream = NULL;
    submit_answer(h, stream);
}

static void note_unanswered(struct session *s, const char *why)
{
    s->is_grpc = true;
    session_unanswered(s, PROBLEM_REQUEST_TIMEOUT, why);
    s->is_grpc = false;
}

/* An answer that the client did not take in time is no answer. */
void http2_expire_call(struct http2 *h, struct http2_stream *stream)
{
    static const char why[] = "the time that the client gave has passed";

    if (stream->is_answered) {
        nghttp2_submit_rst_stream(h->frames, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
        return;
    }
    if (grpc_is_check(stream_target(stream)))
        note_unanswered(h->session, why);
    if (stream->reply)
        stream->reply->stream = NULL;
    stream->reply = NULL;
    stream->is_asked = true;
    stream->text.len = 0;
    buf_text(&stream->text, why);
    stream->grpc_status = GRPC_DEADLINE_EXCEEDED;
    stream->grpc_code = problem_code(PROBLEM_REQUEST_TIMEOUT);
    observer_request(h->session->loop->observer, PROTOCOL_GRPC, GRPC_DEADLINE_EXCEEDED);
    submit_answer(h, stream);
}

/* ---- bytes out ----------------------------------------------------------------------------- */

static void answer_ready(struct session *s)
{
    struct http2 *h = s->http2;

    while (s->first) {
        struct reply *r = s->first;

        if (r->stream)
            http2_answer(h, r);
        if (r->waiting > 0)
            reply_take_first(s);
        else
            reply_drop_first(s);
    }
}

/* Not more than a connection may leave unread, and nothing while it has not read that: see H2 of
 * connection.c. */
void http2_encode(struct session *s, struct buf *out)
{
    struct http2 *h = s->http2;
    const size_t from = out->len;
    const uint8_t *bytes;
    ssize_t n = 1;

    answer_ready(s);
    h->has_more = false;
    if (s->conn.is_sending) {
        h->has_more = nghttp2_session_want_write(h->frames);
        return;
    }
    while (n > 0 && out->len - from < SENT_AT_ONCE && !out->failed) {
        n = nghttp2_session_mem_send(h->frames, &bytes);
        if (n > 0)
            buf_add(out, (struct span){ (const char *)bytes, (size_t)n });
    }
    if (n < 0)
        session_abort(s);
    h->has_more = n > 0;
    if (n == 0 && !nghttp2_session_want_read(h->frames))
        s->is_ending = true; /* the client was told why */
    http2_set_due(h);
}

bool http2_has_more(const struct session *s)
{
    return s->http2->has_more && !s->conn.is_sending;
}
