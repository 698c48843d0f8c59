/* connection.c - a session that speaks HTTP/2: its life, its bytes in, and what it waits for.
 *
 * RULES
 *   H1  Whatever a client sends, a connection holds at most HTTP2_MOST_STREAMS streams, HTTP2_MOST_KEPT
 *       bytes and one read more, and HTTP2_MOST_QUEUED frames and those that one read makes.
 *   H2  Reading never waits for a client's window: what would open it could not be read. What the
 *       socket does not take stays with nghttp2, and is sent when it does.
 *   H3  A client that lets a stream wait for longer than request_timeout loses it. */
#include "server/http2/connection.h"

#include <stdlib.h>

#include "server/server.h"

enum {
    WINDOW = 1024 * 1024,      /* of a connection: bytes of bodies that may be on their way */
    STREAM_WINDOW = 64 * 1024, /* of a stream */
    RESETS = 10 * HTTP2_MOST_STREAMS, /* by a client, in a row … */
    RESETS_A_SECOND = 1000, /* … and then: if a store hangs, each call of an Envoy ends in one */
    NGHTTP2_HOLDS = 24 * 1024, /* bytes, about, for a connection without streams */
    ANSWER_PING_MS = 1000,
    UNSEEN = 32, /* bytes that cost as much as a frame */
    PIECE = 16 * 1024,
};

static const char preface[] = "PRI";

enum parse http2_meet(const char *bytes, size_t len)
{
    const size_t known = len < HTTP2_PREFACE ? len : HTTP2_PREFACE;

    if (memcmp(bytes, preface, known) != 0)
        return PARSE_BAD;
    return known < HTTP2_PREFACE ? PARSE_MORE : PARSE_DONE;
}

/* ---- life ---------------------------------------------------------------------------------- */

static bool open_frames(struct http2 *h)
{
    const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_MOST_STREAMS },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_MAX_HEAD },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
    };
    nghttp2_mem memory = { &h->session->loop->http2_memory, http2_memory_calls.malloc,
                           http2_memory_calls.free, http2_memory_calls.calloc,
                           http2_memory_calls.realloc };
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    bool is_open = false;

    if (nghttp2_session_callbacks_new(&callbacks) || nghttp2_option_new(&option))
        goto out;
    http2_set_callbacks(callbacks);
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS, RESETS_A_SECOND);
    nghttp2_option_set_no_closed_streams(option, 1);
    if (nghttp2_session_server_new3(&h->frames, callbacks, h, option, &memory))
        goto out;
    is_open = !nghttp2_submit_settings(h->frames, NGHTTP2_FLAG_NONE, settings,
                                       sizeof settings / sizeof *settings) &&
              !nghttp2_session_set_local_window_size(h->frames, NGHTTP2_FLAG_NONE, 0, WINDOW);
out:
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return is_open;
}

struct http2 *http2_new(struct session *s)
{
    struct http2 *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->session = s;
    h->guard = guard_new(uv_now(&s->loop->uv));
    s->conn.kept = NGHTTP2_HOLDS;
    if (!open_frames(h)) {
        http2_free(h);
        return NULL;
    }
    return h;
}

void http2_free(struct http2 *h)
{
    struct loop *loop;

    if (!h)
        return;
    loop = h->session->loop;
    for (struct http2_stream *stream = h->first_ready, *next; stream; stream = next) {
        next = stream->next;
        stream->is_ready = false;
        if (stream->is_closed) /* in no other list */
            stream_free(loop, stream);
    }
    for (struct http2_stream *stream = h->streams, *later; stream; stream = later) {
        later = stream->later;
        if (stream->reply)
            stream->reply->stream = NULL;
        loop->watches -= stream->is_watch;
        stream_free(loop, stream);
    }
    http2_forget_deadlines(h);
    nghttp2_session_del(h->frames);
    free(h);
}

/* ---- what it holds, and waits for ---------------------------------------------------------- */

void http2_account(struct http2 *h, struct http2_stream *stream)
{
    const size_t holds = sizeof *stream + stream->text.room + stream->answers.room;

    h->held += holds - stream->held;
    stream->held = holds;
    h->session->conn.kept = NGHTTP2_HOLDS + h->held;
}

void http2_waits(struct http2 *h, struct http2_stream *stream, bool waits)
{
    const uint64_t now = http2_now(h);

    if (waits && h->waiting == 0)
        h->waits_since = now;
    h->waiting += waits;
    h->waiting -= stream->waits_since != 0;
    stream->waits_since = waits ? (now ? now : 1) : 0;
}

static uint64_t due(const struct http2 *h)
{
    return h->waits_since + (uint64_t)h->session->conn.pool->request_timeout_ms;
}

void http2_set_due(struct http2 *h)
{
    struct conn *c = &h->session->conn;

    c->due = h->waiting > 0 ? due(h) : 0;
    if (c->due > 0 && c->due < c->deadline)
        c->deadline = c->due;
}

void http2_reset_late(struct http2 *h)
{
    const uint64_t now = http2_now(h);
    const uint64_t patience = (uint64_t)h->session->conn.pool->request_timeout_ms;
    uint64_t first = now;

    if (h->waiting == 0 || now < due(h))
        return;
    for (struct http2_stream *stream = h->streams; stream; stream = stream->later) {
        if (stream->waits_since == 0)
            continue;
        if (stream->waits_since + patience <= now) {
            http2_waits(h, stream, false);
            stream->is_asked = true; /* nothing that still comes of it counts */
            nghttp2_submit_rst_stream(h->frames, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
        } else if (stream->waits_since < first) {
            first = stream->waits_since;
        }
    }
    h->waits_since = first;
    turn_send_later(h->session->loop, h->session);
}

/* ---- bytes in ------------------------------------------------------------------------------ */

/* The client is told why, if it still reads, and the connection ends. */
static void fail(struct http2 *h, uint32_t error)
{
    struct session *s = h->session;

    if (h->has_failed)
        return;
    h->has_failed = true;
    nghttp2_session_terminate_session(h->frames, error);
    session_end(s);
}

static uint32_t error_of(const struct http2 *h, ssize_t failure)
{
    if (h->guard.left < 0 || failure == NGHTTP2_ERR_FLOODED)
        return NGHTTP2_ENHANCE_YOUR_CALM;
    return failure == NGHTTP2_ERR_NOMEM ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_PROTOCOL_ERROR;
}

/* Frames of unknown types are passed over, as they must be, and nothing tells of them. */
static bool pay_for_unseen(struct http2 *h)
{
    const int64_t unseen = h->unseen;

    if (unseen < UNSEEN)
        return true;
    h->unseen = 0;
    return http2_take(h, unseen / UNSEEN);
}

/* What is asked in a piece pays for its frames before those of the next piece are paid for. */
static void feed(struct http2 *h, const char *at, size_t left)
{
    struct session *s = h->session;
    const size_t len = left < PIECE ? left : PIECE;
    const ssize_t n = nghttp2_session_mem_recv(h->frames, (const uint8_t *)at, len);

    h->fed += len;
    h->unseen += (int64_t)len;
    if (n < 0)
        fail(h, error_of(h, n));
    else if (!pay_for_unseen(h))
        fail(h, NGHTTP2_ENHANCE_YOUR_CALM);
    else if (nghttp2_session_get_outbound_queue_size(h->frames) > HTTP2_MOST_QUEUED)
        fail(h, NGHTTP2_ENHANCE_YOUR_CALM);
    http2_reset_late(h);
    if (nghttp2_session_want_write(h->frames))
        turn_send_later(s->loop, s);
}

void http2_push_ready(struct http2 *h, struct http2_stream *stream)
{
    if (stream->is_ready)
        return;
    stream->is_ready = true;
    stream->next = NULL;
    if (h->last_ready)
        h->last_ready->next = stream;
    else
        h->first_ready = stream;
    h->last_ready = stream;
}

static struct http2_stream *pop_ready(struct http2 *h)
{
    struct http2_stream *stream = h->first_ready;

    if (!stream)
        return NULL;
    h->first_ready = stream->next;
    if (!h->first_ready)
        h->last_ready = NULL;
    stream->is_ready = false;
    return stream;
}

/* Bytes count as used when the requests in them have been asked, so that they are not forgotten if
 * the turn goes on with others first. */
bool http2_decode(struct session *s, struct conn_input *in, struct http2_stream **out)
{
    struct http2 *h = s->http2;
    const size_t left = in->len - in->used;

    for (;;) {
        while (!s->is_ending && !s->conn.is_closing && (*out = pop_ready(h))) {
            if (!(*out)->is_closed)
                return true;
            stream_free(s->loop, *out);
        }
        if (h->fed >= left || h->has_failed)
            break;
        feed(h, in->at + in->used + h->fed, left - h->fed);
    }
    http2_set_due(h);
    in->used = in->len;
    h->fed = 0;
    return false;
}

/* ---- its end ------------------------------------------------------------------------------- */

void http2_refuse(struct session *s, int status, const char *why)
{
    const uint32_t error = status == 503 ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_INADEQUATE_SECURITY;

    nghttp2_submit_goaway(s->http2->frames, NGHTTP2_FLAG_NONE, 0, error, (const uint8_t *)why,
                          strlen(why));
    session_end(s);
}

static void ping(struct http2 *h)
{
    h->has_pinged = true;
    nghttp2_submit_ping(h->frames, NGHTTP2_FLAG_NONE, NULL);
    conn_expire_in(&h->session->conn, ANSWER_PING_MS);
    turn_send_later(h->session->loop, h->session);
}

void http2_drain(struct session *s)
{
    struct http2 *h = s->http2;

    if (h->goaways > 0)
        return;
    h->goaways = 1;
    nghttp2_submit_shutdown_notice(h->frames);
    http2_end_open_calls(h);
    ping(h);
}

bool http2_is_drained(const struct session *s)
{
    const struct http2 *h = s->http2;

    return h->goaways == 2 && !h->streams;
}

static void say_last_goaway(struct http2 *h)
{
    h->goaways = 2;
    nghttp2_submit_goaway(h->frames, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->frames), NGHTTP2_NO_ERROR,
                          NULL, 0);
    turn_send_later(h->session->loop, h->session);
}

/* Streams that wait too long are reset. A connection that has others is asked whether it is still
 * there. One that has none is told that it ends, so that no request is lost on its way. */
bool http2_expired(struct session *s)
{
    struct http2 *h = s->http2;
    const bool has_waited = h->waiting > 0 && http2_now(h) >= due(h);
    bool stays = has_waited;

    if (s->is_ending || h->has_failed)
        return false;
    conn_expire_in(&s->conn, s->conn.pool->request_timeout_ms);
    if (has_waited) {
        http2_reset_late(h);
    } else if (h->goaways == 1) {
        say_last_goaway(h); /* the answer to the ping has not come */
        stays = true;
    } else if (h->streams && !h->has_pinged) {
        ping(h);
        stays = true;
    } else if (h->goaways == 0) {
        say_last_goaway(h);
    }
    http2_set_due(h);
    turn_finish(s->loop);
    return stays;
}
