/* handshake.c - what clients send before and between their questions: who they are, which
 * version they speak, whether the server is there. */
#include <stdio.h>

#include "server/resp/commands.h"

static const char no_token[] = "ERR Client sent AUTH, but no token is configured: none is needed";
static const char wrong_token[] = "WRONGPASS invalid username-password pair or user is disabled.";

static void encode_pong(struct reply *r, struct buf *out)
{
    observer_request(session_loop(r->session)->observer, PROTOCOL_RESP, 0);
    resp_simple(out, "PONG");
}

static void reply_word(struct session *s, struct span word)
{
    struct reply *r = resp_reply_begin(s);

    if (!r)
        return;
    resp_bulk(&r->text, word);
    resp_reply_end(r);
}

void resp_serve_ping(struct session *s, struct resp_command *c)
{
    struct reply *r;

    if (c->count > 2) {
        resp_reply_wrong_count(s, "PING");
    } else if (c->count == 2) {
        reply_word(s, c->words[1]);
    } else {
        r = reply_begin(s, encode_pong);
        if (r)
            reply_end(r);
    }
}

void resp_serve_echo(struct session *s, struct resp_command *c)
{
    reply_word(s, c->words[1]);
}

void resp_serve_select(struct session *s, struct resp_command *c)
{
    int64_t index;

    if (!resp_word_number(c->words[1], &index))
        resp_reply_error(s, "ERR value is not an integer or out of range");
    else if (index != 0)
        resp_reply_error(s, "ERR DB index is out of range: there is only 0");
    else
        resp_reply_ok(s);
}

void resp_serve_quit(struct session *s, struct resp_command *c)
{
    (void)c;
    resp_reply_ok(s);
    session_end(s);
}

void resp_serve_reset(struct session *s, struct resp_command *c)
{
    struct reply *r;

    (void)c;
    s->scopes = 0;
    s->resp_version = 2;
    multi_end(s);
    s->client_name[0] = '\0';
    r = resp_reply_begin(s);
    if (!r)
        return;
    resp_simple(&r->text, "RESET");
    resp_reply_end(r);
}

/* ---- tokens ---------------------------------------------------------------------------- */

/* NULL: it is known; else the error. A wrong token takes nothing away. */
static const char *authenticate(struct session *s, struct span token)
{
    const struct tokens *tokens = resp_server(s)->tokens;
    const unsigned edition = tokens_edition(tokens), scopes = tokens_scopes(tokens, token);

    if (scopes == 0 && tokens_without(tokens))
        return no_token;
    if (scopes == 0) {
        session_note(s, INCIDENT_UNKNOWN_TOKEN);
        return wrong_token;
    }
    s->tokens_edition = edition;
    s->scopes = scopes;
    conn_raise(&s->conn, CONN_KNOWN);
    return NULL;
}

void resp_serve_auth(struct session *s, struct resp_command *c)
{
    const char *error;

    if (c->count > 3) {
        resp_reply_wrong_count(s, "AUTH");
        return;
    }
    error = authenticate(s, c->words[c->count - 1]);
    if (error)
        resp_reply_error(s, "%s", error);
    else
        resp_reply_ok(s);
}

/* NULL: taken; else the error. */
static const char *set_name(struct session *s, struct span name)
{
    size_t len = name.len < SESSION_CLIENT_NAME ? name.len : SESSION_CLIENT_NAME - 1;

    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] < '!' || name.at[i] > '~')
            return "ERR Client names cannot contain spaces, newlines or special characters.";
    memcpy(s->client_name, name.at, len);
    s->client_name[len] = '\0';
    return NULL;
}

static void put_pair(struct buf *out, const char *name, const char *value)
{
    resp_bulk(out, span_of(name));
    resp_bulk(out, span_of(value));
}

static void reply_hello(struct session *s)
{
    struct reply *r = resp_reply_begin(s);
    struct buf *out;

    if (!r)
        return;
    out = &r->text;
    resp_map(out, 7, s->resp_version);
    put_pair(out, "server", "weir");
    put_pair(out, "version", weir_version());
    resp_bulk(out, span_of("proto"));
    resp_int(out, s->resp_version);
    resp_bulk(out, span_of("id"));
    resp_int(out, (int64_t)s->id);
    put_pair(out, "mode", "standalone");
    put_pair(out, "role", "master");
    resp_bulk(out, span_of("modules"));
    resp_array(out, 0);
    resp_reply_end(r);
}

/* All of it is right, or nothing is changed but the rights. */
void resp_serve_hello(struct session *s, struct resp_command *c)
{
    const char *error = NULL;
    struct span name = { 0 };
    int64_t version = s->resp_version;

    if (c->count > 1 && (!resp_word_number(c->words[1], &version) || version < 2 || version > 3)) {
        resp_reply_error(s, "NOPROTO unsupported protocol version");
        return;
    }
    for (size_t at = 2; at < c->count && !error;) {
        const size_t left = c->count - at;

        if (resp_word_is(c->words[at], "AUTH") && left > 2) {
            error = authenticate(s, c->words[at + 2]);
            at += 3;
        } else if (resp_word_is(c->words[at], "SETNAME") && left > 1) {
            name = c->words[at + 1];
            at += 2;
        } else {
            error = "ERR Syntax error in HELLO: it is HELLO [protover [AUTH username token] "
                    "[SETNAME name]]";
        }
    }
    if (!error && !resp_may(s, SCOPE_ALL)) {
        session_note(s, INCIDENT_NO_TOKEN);
        error = "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
                "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client "
                "and select the RESP protocol version at the same time";
    }
    if (!error && name.at)
        error = set_name(s, name);
    if (error) {
        resp_reply_error(s, "%s", error);
        return;
    }
    s->resp_version = (int)version;
    reply_hello(s);
}

/* ---- CLIENT ------------------------------------------------------------------------------ */

static void reply_id(struct session *s)
{
    struct reply *r = resp_reply_begin(s);

    if (!r)
        return;
    resp_int(&r->text, (int64_t)s->id);
    resp_reply_end(r);
}

static void reply_name(struct session *s)
{
    struct reply *r = resp_reply_begin(s);

    if (!r)
        return;
    if (s->client_name[0])
        resp_bulk(&r->text, span_of(s->client_name));
    else
        resp_null(&r->text, s->resp_version);
    resp_reply_end(r);
}

/* Of this connection only, even if a list is asked for: the others are others'. What clients insist
 * on but does not exist here is 0. */
static void reply_about(struct session *s)
{
    char text[384];

    snprintf(text, sizeof text,
             "id=%llu addr= laddr= fd=0 name=%s age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 "
             "multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 obl=0 oll=0 omem=0 tot-mem=0 "
             "events=r cmd=client user=default redir=-1 resp=%d\n",
             (unsigned long long)s->id, s->client_name, s->resp_version);
    reply_word(s, span_of(text));
}

void resp_serve_client(struct session *s, struct resp_command *c)
{
    static const char *const known[] = { "ID",      "INFO",    "LIST",     "GETNAME",
                                         "SETNAME", "SETINFO", "NO-EVICT", "NO-TOUCH" };
    const struct span sub = c->words[1];
    const char *error;

    if (resp_word_is(sub, "ID")) {
        reply_id(s);
    } else if (resp_word_is(sub, "INFO") || resp_word_is(sub, "LIST")) {
        reply_about(s);
    } else if (resp_word_is(sub, "GETNAME")) {
        reply_name(s);
    } else if (resp_word_is(sub, "SETNAME") && c->count == 3) {
        error = set_name(s, c->words[2]);
        if (error)
            resp_reply_error(s, "%s", error);
        else
            resp_reply_ok(s);
    } else if ((resp_word_is(sub, "SETINFO") && c->count == 4) ||
               (resp_word_is(sub, "NO-EVICT") && c->count == 3) ||
               (resp_word_is(sub, "NO-TOUCH") && c->count == 3)) {
        resp_reply_ok(s); /* nothing here depends on it */
    } else {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (resp_word_is(sub, known[i])) {
                resp_reply_wrong_count(s, "CLIENT");
                return;
            }
        resp_reply_no_subcommand(s, "CLIENT", sub, known, sizeof known / sizeof *known);
    }
}
