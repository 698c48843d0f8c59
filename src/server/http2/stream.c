/* stream.c - one request of HTTP/2 on its way: its fields and its body, as a request of HTTP. */
#include "server/http2/stream.h"

#include <stdlib.h>
#include <string.h>

#include "proto/http_head.h"
#include "server/grpc/grpc.h"
#include "server/loop.h"

enum {
    KEPT_STREAMS = 1024, /* for reuse; more are given back */
    KEPT_TEXT = 2048,    /* a longer buffer is given back with its stream */
    FIELD_OVERHEAD = 32, /* of each field, as HPACK counts it */
};

/* ---- life ---------------------------------------------------------------------------------- */

struct http2_stream *stream_new(struct loop *loop, struct http2 *of, int32_t id)
{
    struct http2_stream *stream = loop->free_streams;
    weir_allocator usual;

    if (stream) {
        loop->free_streams = stream->next;
        loop->free_stream_count--;
    } else {
        stream = malloc(sizeof *stream);
        if (!stream)
            return NULL;
        usual = alloc_or_default((weir_allocator){ 0 });
        buf_init(&stream->text, &usual);
        buf_init(&stream->answers, &usual);
    }
    stream->http2 = of;
    stream->next = stream->previous = stream->later = NULL;
    stream->reply = NULL;
    stream->held = 0;
    stream->field_count = 0;
    stream->method = stream->target = (struct span_at){ 0 };
    stream->question = 0;
    stream->head_size = stream->body_at = 0;
    stream->lasting = (struct span){ 0 };
    stream->waits_since = 0;
    stream->id = id;
    stream->grpc_status = 0;
    stream->has_host = stream->is_too_large = stream->has_ended = stream->is_ready = false;
    stream->is_asked = stream->is_early = stream->is_grpc = stream->is_closed = false;
    stream->is_open = stream->has_head = stream->is_finished = stream->is_answered = false;
    stream->is_watch = false;
    stream->timeout_ms = 0;
    stream->deadline = 0;
    stream->answered = 0;
    stream->grpc_code = NULL;
    stream->most_body = HTTP_MAX_SHORT_BODY;
    return stream;
}

void stream_free(struct loop *loop, struct http2_stream *stream)
{
    if (stream->answers.room > 0)
        buf_done(&stream->answers);
    if (loop->free_stream_count >= KEPT_STREAMS) {
        buf_done(&stream->text);
        free(stream);
        return;
    }
    if (stream->text.room > KEPT_TEXT || stream->text.failed)
        buf_done(&stream->text);
    stream->text.len = 0;
    stream->next = loop->free_streams;
    loop->free_streams = stream;
    loop->free_stream_count++;
}

void streams_free(struct loop *loop)
{
    while (loop->free_streams) {
        struct http2_stream *stream = loop->free_streams;

        loop->free_streams = stream->next;
        buf_done(&stream->text);
        free(stream);
    }
}

/* ---- the head ------------------------------------------------------------------------------ */

static char *put_text(char *at, struct span text)
{
    memcpy(at, text.at, text.len);
    at[text.len] = '\0';
    return at + text.len + 1;
}

static uint32_t add_text(struct http2_stream *stream, struct span text)
{
    const size_t at = stream->text.len;
    char *to = buf_room(&stream->text, text.len + 1);

    if (to) {
        put_text(to, text);
        buf_wrote(&stream->text, text.len + 1);
    }
    return (uint32_t)at;
}

static bool begins_with(struct span text, const char *with, size_t len)
{
    return text.len >= len && memcmp(text.at, with, len) == 0;
}

static void add_field(struct http2_stream *stream, struct span name, struct span value)
{
    static const char grpc[] = "application/grpc";
    struct http2_field *f = &stream->fields[stream->field_count++];
    const size_t at = stream->text.len;
    char *to = buf_room(&stream->text, name.len + value.len + 2);

    if (span_is(name, "content-type"))
        stream->is_grpc = begins_with(value, grpc, sizeof grpc - 1);
    else if (span_is(name, "grpc-timeout"))
        stream->timeout_ms = grpc_timeout(value);
    *f = (struct http2_field){ (uint32_t)at, (uint32_t)name.len, (uint32_t)(at + name.len + 1),
                               (uint32_t)value.len };
    if (to) {
        put_text(put_text(to, name), value);
        buf_wrote(&stream->text, name.len + value.len + 2);
    }
}

/* Those of HTTP/2 itself. `:authority` is what HTTP/1.1 calls Host; a Host beside it says nothing
 * new. */
static void add_pseudo(struct http2_stream *stream, struct span name, struct span value)
{
    if (span_is(name, ":path"))
        stream->target = (struct span_at){ add_text(stream, value), (uint32_t)value.len };
    else if (span_is(name, ":method"))
        stream->method = (struct span_at){ add_text(stream, value), (uint32_t)value.len };
    else if (span_is(name, ":authority")) {
        stream->has_host = true;
        add_field(stream, span_of("host"), value);
    }
}

bool stream_add_field(struct http2_stream *stream, struct span name, struct span value)
{
    stream->head_size += name.len + value.len + FIELD_OVERHEAD;
    if (stream->head_size > HTTP_MAX_HEAD || stream->field_count == HTTP_MAX_HEADERS)
        return false;
    if (name.at[0] == ':')
        add_pseudo(stream, name, value);
    else if (!stream->has_host || !span_is(name, "host"))
        add_field(stream, name, value);
    stream->body_at = stream->text.len;
    return !stream->text.failed;
}

/* ---- the rest ------------------------------------------------------------------------------ */

bool stream_add_body(struct http2_stream *stream, struct span bytes)
{
    buf_add(&stream->text, bytes);
    return !stream->text.failed;
}

size_t stream_body_len(const struct http2_stream *stream)
{
    return stream->text.len - stream->body_at;
}

struct span stream_body(const struct http2_stream *stream)
{
    return (struct span){ stream->text.at + stream->body_at, stream_body_len(stream) };
}

struct span stream_target(const struct http2_stream *stream)
{
    return (struct span){ stream->text.at + stream->target.at, stream->target.len };
}

static struct span text_at(const struct http2_stream *stream, struct span_at at)
{
    return (struct span){ stream->text.at + at.at, at.len };
}

bool stream_request(struct http2_stream *stream, struct http_request *out, int *status,
                    const char **why)
{
    struct http_framing framing;
    const char *text = stream->text.at;

    out->header_count = stream->field_count;
    for (size_t i = 0; i < stream->field_count; i++) {
        const struct http2_field *f = &stream->fields[i];

        out->headers[i] = (struct http_header){ { text + f->name, f->name_len },
                                                { text + f->value, f->value_len } };
    }
    if (stream->question) /* it was looked at before all of its body had come */
        stream->text.at[stream->question] = '?';
    out->minor = 1;
    out->keep_alive = true;
    out->has_long_body = false;
    out->body = stream_body(stream);
    *status = 400;
    *why = "there is no path";
    if (stream->target.len == 0) /* CONNECT has none */
        return false;
    if (!http_request_line(text_at(stream, stream->method), stream_target(stream), out, &framing)) {
        *status = framing.status;
        *why = framing.why;
        return false;
    }
    if (out->query.at[-1] == '?') {
        stream->question = (uint32_t)(out->query.at - 1 - text);
        stream->text.at[stream->question] = '\0';
    }
    return true;
}
