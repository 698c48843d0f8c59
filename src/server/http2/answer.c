/* answer.c - replies as streams of HTTP/2: heads, bodies and trailers, and the bytes of all of them.
 *
 * A route writes the head of its answer as lines, as HTTP/1.1 has them. Here they become fields.
 * Nothing is copied: the texts stay where they are until the stream is closed. */
#include <stdlib.h>

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
    size_t more = room - n < stream->lasting.len ? room - n : stream->lasting.len;

    if (n > 0)
        memcpy(into, stream->text.at + stream->body_at, n);
    stream->body_at += n;
    if (more > 0)
        memcpy(into + n, stream->lasting.at, more);
    stream->lasting = (struct span){ stream->lasting.at + (more > 0 ? more : 0),
                                     stream->lasting.len - more };
    (void)frames;
    (void)id;
    if (left_of(stream) == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    else
        http2_waits(ctx, stream, true); /* from now on */
    return (ssize_t)(n + more);
}

static void submit(struct http2 *h, struct http2_stream *stream)
{
    nghttp2_data_provider body = { .source.ptr = stream, .read_callback = read_body };
    nghttp2_nv fields[MOST_FIELDS];
    size_t n;

    if (stream->text.failed || stream->text.len == 0) {
        nghttp2_submit_rst_stream(h->frames, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    n = read_lines(&stream->text, fields, &stream->body_at);
    if (nghttp2_submit_response(h->frames, stream->id, fields, n,
                                left_of(stream) > 0 ? &body : NULL))
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

void http2_answer(struct http2 *h, struct reply *r)
{
    struct http2_stream *stream = r->stream;

    write_text(r, stream);
    if (r->waiting > 0) /* it has asked again */
        return;
    stream->lasting = r->lasting;
    stream->reply = NULL;
    r->stream = NULL;
    if (!stream->has_ended) {
        stream->is_early = true;
        h->early++;
    }
    http2_waits(h, stream, true);
    submit(h, stream);
    http2_account(h, stream);
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
