/* session.c - one connection as the server sees it: its protocol, its rights, its pending
 * replies. */
#include "server/session.h"

#include <stdlib.h>

#include "base/clock.h"
#include "server/http2/http2.h"
#include "server/server.h"

enum {
    UNWELCOME_MOST = 64,    /* connections beyond the ceiling that still get a polite refusal … */
    UNWELCOME_FOR_MS = 1000 /* … if they ask within this time */
};

/* ---- requests ---------------------------------------------------------------------------- */

/* A client that sent `Expect: 100-continue` is told to send the body, behind all pending
 * replies. */
static void invite_body(struct session *s)
{
    static const struct span go_on = { "HTTP/1.1 100 Continue\r\n\r\n", 25 };

    if (!s->http.wants_continue || s->first || s->will_send)
        return;
    s->http.wants_continue = false;
    conn_write(&s->conn, go_on);
}

/* Its head is there, and not all of its body. What will be refused is refused now. */
static bool is_admitted(struct session *s, struct http_request *head)
{
    s->http.is_head_read = false;
    return http_admit(s, head, s->http.body_len, &s->http.most_body);
}

/* Bytes that one request takes; 0: there is none, and nothing is to be asked. */
static size_t decode_http(struct session *s, char *at, size_t len, struct request *out)
{
    size_t used = 0;

    out->like = http_again_find(s, at, len, &out->words.key, &used);
    if (out->like)
        return used;
    http_again_see(s, at, len);
    switch (http_parse(&s->http, at, len, &out->http, &used)) {
    case PARSE_DONE:
        http_again_seen(s, used);
        return used;
    case PARSE_BAD:
        http_refuse(s, s->http.status, s->http.why);
        return 0;
    case PARSE_MORE:
        if (!s->http.is_head_read || !out->http.has_long_body || is_admitted(s, &out->http))
            invite_body(s);
        return 0;
    }
    return 0;
}

static size_t decode_resp(struct session *s, char *at, size_t len, struct request *out)
{
    const char *why;
    size_t used = 0;

    out->again = NULL;
    switch (resp_parse(at, len, &out->resp, &used, &why)) {
    case PARSE_DONE:
        return used;
    case PARSE_BAD:
        resp_refuse(s, why);
        return 0;
    case PARSE_MORE:
        if (len > SESSION_MOST_UNKNOWN_COMMAND && !resp_may(s, SCOPE_ALL))
            resp_refuse(s, "the command is too long for a client without a token");
        return 0;
    }
    return 0;
}

static void refuse(struct session *s, int status, const char *why)
{
    if (s->protocol == PROTOCOL_HTTP)
        http_refuse(s, status, why);
    else if (s->protocol == PROTOCOL_HTTP2)
        http2_refuse(s, status, why);
    else
        resp_refuse(s, why);
}

static void meet_http2(struct session *s)
{
    s->protocol = PROTOCOL_HTTP2;
    s->http2 = http2_new(s);
    if (!s->http2)
        session_abort(s);
    else if (s->loop->is_draining)
        http2_drain(s);
}

/* The first byte tells the protocol, or the first three. */
static void meet(struct session *s, const char *first, size_t len)
{
    const enum parse http2 = http2_meet(first, len);

    if (http2 == PARSE_MORE)
        return;
    if (http2 == PARSE_DONE)
        meet_http2(s);
    else
        s->protocol = first[0] == '*' ? PROTOCOL_RESP : PROTOCOL_HTTP;
    if (s->conn.is_closing)
        return;
    if (s->is_unwelcome)
        refuse(s, 503, "there are too many connections: try again later");
    else if (!s->conn.tls && !s->conn.is_local && loop_requires_tls(s->loop))
        refuse(s, 400, "this port speaks TLS only");
}

/* How long a text will be that the thread pool is still making is not known; and a reply behind
 * static bytes would mean to copy those. */
static bool ends_in_a_long_one(const struct session *s)
{
    const struct reply *r = s->last;

    return r && !r->encode && (r->waiting > 0 || r->lasting.len > 0);
}

/* Never true of a session without pending replies: nothing would resume it. */
static bool is_owed_enough(const struct session *s)
{
    const size_t most = s->conn.standing == CONN_KNOWN ? SESSION_MOST_OWED
                                                       : SESSION_MOST_UNKNOWN_OWED;

    return s->reply_count >= SESSION_MOST_REPLIES || s->owed >= most || ends_in_a_long_one(s) ||
           (s->reply_count > 0 && s->loop->turn.in_flight >= LOOP_MOST_IN_FLIGHT);
}

static bool is_read_from(const struct session *s)
{
    return !s->is_ending && !s->conn.is_closing && !s->conn.is_paused;
}

/* One that is parsed. */
__attribute__((noinline)) static bool decode_other(struct session *s, struct conn_input *in,
                                                   struct request *out)
{
    char *at = in->at + in->used;
    const size_t left = in->len - in->used;
    size_t used = 0;

    if (s->protocol == PROTOCOL_UNKNOWN) {
        meet(s, at, left);
        if (s->protocol == PROTOCOL_UNKNOWN)
            return false;
    }
    if (s->protocol == PROTOCOL_HTTP2 && !s->is_ending && !s->conn.is_closing)
        return !s->conn.is_paused && http2_decode(s, in, &out->stream);
    if (is_read_from(s))
        used = s->protocol == PROTOCOL_RESP ? decode_resp(s, at, left, out)
                                            : decode_http(s, at, left, out);
    in->used = s->is_ending ? in->len : in->used + used;
    return used > 0;
}

bool session_decode_next(struct session *s, struct conn_input *in, struct request *out)
{
    size_t used;

    if (s->protocol == PROTOCOL_RESP && is_read_from(s)) {
        out->again = again_find(s, in->at + in->used, in->len - in->used, &out->words, &used);
        if (out->again) {
            in->used += used;
            return true;
        }
    }
    return decode_other(s, in, out);
}

void session_ask(struct session *s, struct request *request)
{
    if (s->protocol == PROTOCOL_RESP && request->again)
        again_serve(s, request->again, &request->words);
    else if (s->protocol == PROTOCOL_RESP)
        resp_serve(s, &request->resp);
    else if (s->protocol == PROTOCOL_HTTP2)
        http2_ask(s, request->stream);
    else if (request->like)
        reply_serve_like(s, request->like, &request->words);
    else
        http_serve(s, &request->http);
    if (is_owed_enough(s))
        conn_pause(&s->conn);
}

/* ---- replies ----------------------------------------------------------------------------- */

static void encode_first(struct session *s, struct buf *out)
{
    struct reply *r = s->first;

    if (r->encode) {
        r->encode(r, out);
    } else {
        buf_add(out, buf_span(&r->text));
        out->failed = out->failed || r->text.failed;
    }
    if (r->waiting > 0) /* it has asked again */
        return;
    if (!r->keep_alive)
        s->is_ending = true;
    reply_drop_first(s);
}

static bool is_ready(const struct session *s)
{
    return s->first && s->first->waiting == 0;
}

/* A page that the turn has no room for is sent by the next one. */
static bool may_encode(const struct session *s)
{
    return is_ready(s) && !s->is_gone &&
           (s->first->lasting.len == 0 || s->loop->turn.pages_left > 0);
}

static struct span encoded_bytes(const struct session *s, const struct buf *out)
{
    return (struct span){ out->at + s->encoded_from, out->len - s->encoded_from };
}

/* What is not copied into `out` is sent at once, and what was encoded before it. */
void session_encode(struct session *s, struct buf *out)
{
    s->encoded_from = out->len;
    if (s->http2 && !s->is_gone)
        http2_encode(s, out);
    while (may_encode(s)) {
        const struct span lasting = s->first->lasting;

        encode_first(s, out);
        if (lasting.len > 0 && !out->failed) {
            conn_write_lasting(&s->conn, encoded_bytes(s, out), lasting);
            s->encoded_from = out->len;
            s->loop->turn.pages_left--;
        }
    }
    s->encoded = out->len - s->encoded_from;
    if (!out->failed)
        return;
    out->failed = false; /* the others' are still there */
    out->len = s->encoded_from;
    s->encoded = 0;
    session_abort(s);
}

void session_send(struct session *s, const struct buf *out)
{
    if (s->encoded > 0)
        conn_write(&s->conn, (struct span){ out->at + s->encoded_from, s->encoded });
    s->encoded = 0;
}

static void forget(struct session *s)
{
    while (s->first && s->first->waiting == 0)
        reply_drop_first(s);
    if (s->reply_count > 0)
        return;
    multi_free(s->multi);
    free(s);
}

static bool has_more(const struct session *s)
{
    return s->http2 && http2_has_more(s);
}

void session_resume(struct session *s)
{
    s->will_send = false;
    if (s->is_gone) {
        forget(s);
        return;
    }
    if (is_ready(s) || has_more(s)) /* a page that was too many for this turn */
        turn_send_later(s->loop, s);
    if (s->http2 ? http2_is_drained(s) : s->loop->is_draining)
        s->is_ending = true;
    if (s->is_ending && s->reply_count == 0 && !has_more(s))
        conn_close_when_sent(&s->conn);
    else if (s->conn.is_paused && !is_owed_enough(s))
        conn_resume(&s->conn);
    else if (!s->is_ending)
        invite_body(s);
}

void session_end(struct session *s)
{
    s->is_ending = true;
    turn_send_later(s->loop, s);
}

void session_note(struct session *s, enum incident incident)
{
    struct server *server = s->loop->server;

    incident_note(&server->incidents, incident,
                  &(struct incident_peer){ .address = s->conn.peer,
                                           .is_local = s->conn.is_local,
                                           .is_resp = s->protocol == PROTOCOL_RESP },
                  engine_secret(loop_engine(s->loop)), server->log, (uint64_t)clock_monotonic_ms());
}

void session_abort(struct session *s)
{
    s->is_ending = true;
    conn_close(&s->conn);
}

/* ---- the connection's life ----------------------------------------------------------------- */

/* The client may still read the answers to what it has asked. */
static void ended(struct conn *c)
{
    session_end(session_of(c));
}

static bool expired(struct conn *c)
{
    struct session *s = session_of(c);

    if (s->http2)
        return http2_expired(s);
    if (s->protocol != PROTOCOL_HTTP || c->rest.len == 0 || s->first || s->is_ending)
        return false;
    http_refuse(s, 408, "the request took too long to arrive");
    turn_finish(s->loop);
    return false;
}

/* There is room for more of what waits to be sent. */
static void emptied(struct conn *c)
{
    struct session *s = session_of(c);

    if (s->http2)
        turn_send_later(s->loop, s);
}

/* So that clients behind a balancer of connections find servers that came later. RESP has no way to say
 * so, and its clients would lose what they have sent meanwhile. */
static void aged(struct conn *c)
{
    struct session *s = session_of(c);

    s->is_aged = true;
    if (!s->http2 || s->is_ending)
        return;
    http2_drain(s);
    turn_finish(s->loop);
}

static void closed(struct conn *c)
{
    struct session *s = session_of(c);
    struct loop *loop = s->loop;

    atomic_fetch_sub(&loop->server->connections, 1);
    if (s->is_unwelcome)
        atomic_fetch_sub(&loop->server->unwelcome, 1);
    s->is_gone = true;
    http2_free(s->http2);
    s->http2 = NULL;
    if (!s->will_send)
        forget(s);
    loop_lost_one(loop);
}

const struct conn_events session_events = { turn_gathered, emptied, ended, expired, aged, closed };

/* It must not be dropped as if it had a place that another could have. */
static void be_unwelcome(struct session *s, uv_stream_t *listener)
{
    struct server *server = s->loop->server;
    const long others = atomic_fetch_add(&server->unwelcome, 1);

    if (!conn_accept(&s->conn, &s->loop->conns, listener))
        return;
    atomic_fetch_add(&server->refused_connections, 1);
    conn_raise(&s->conn, CONN_KNOWN);
    conn_expire_in(&s->conn, UNWELCOME_FOR_MS);
    if (others >= UNWELCOME_MOST)
        conn_close(&s->conn);
}

bool session_accept(struct loop *loop, uv_stream_t *listener)
{
    struct server *server = loop->server;
    struct session *s = calloc(1, sizeof *s);
    const long others = atomic_fetch_add(&server->connections, 1);

    if (!s) {
        atomic_fetch_sub(&server->connections, 1);
        return false;
    }
    s->loop = loop;
    s->resp_version = 2;
    s->id = loop_next_id(loop);
    s->is_unwelcome = others >= server->most_connections && !loop_make_room(loop);
    if (s->is_unwelcome)
        be_unwelcome(s, listener);
    else
        conn_accept(&s->conn, &loop->conns, listener);
    return true;
}
