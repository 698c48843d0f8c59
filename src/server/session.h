/* session.h - one connection as the server sees it: its protocol, its rights, its pending replies.
 *
 * Belongs to one loop for life. */
#ifndef WEIR_SERVER_SESSION_H
#define WEIR_SERVER_SESSION_H

#include "net/conn.h"
#include "proto/http.h"
#include "proto/resp.h"
#include "server/log/incidents.h"
#include "server/reply.h"

struct again;
struct http2;
struct http2_stream;
struct loop;
struct multi;

enum protocol { PROTOCOL_UNKNOWN, PROTOCOL_HTTP, PROTOCOL_RESP, PROTOCOL_HTTP2, PROTOCOL_GRPC };

enum {
    SESSION_MOST_REPLIES = 1024,              /* of one connection that may be on their way … */
    SESSION_MOST_OWED = 256 * 1024,           /* … and their bytes, about … */
    SESSION_MOST_UNKNOWN_OWED = 64 * 1024,    /* … to a client without a token */
    SESSION_MOST_UNKNOWN_COMMAND = 16 * 1024, /* bytes of a command of such a client */
    SESSION_CLIENT_NAME = 48,
};

struct resp_spec; /* see resp/commands.h */

struct session {
    struct conn conn; /* its bytes come and go here */
    struct loop *loop;
    enum protocol protocol;
    int resp_version;           /* 2 until HELLO 3 */
    unsigned tokens_edition;    /* when that was; see tokens.h */
    unsigned scopes;            /* what AUTH gave it; see tokens.h */
    struct reply *first, *last; /* in the order of the requests; HTTP/2: those that are ready */
    size_t reply_count;
    size_t owed;       /* about how many bytes they are */
    bool was_served;   /* at least one request came */
    bool is_grpc;      /* what is being served is a call of gRPC */
    bool is_unwelcome; /* there are too many connections: one refusal, then it ends */
    bool is_aged;      /* HTTP/1: it ends behind the next reply */
    bool is_ending;    /* no more requests are read; closed behind the last reply */
    bool is_gone;      /* the connection is closed; freed behind the last reply */
    bool will_send;    /* it is in the turn's list of those that may have replies to send */
    struct session *next_to_send;
    size_t encoded_from, encoded; /* bytes in the turn's buffer that are to be sent */
    struct http_parser http;
    struct http2 *http2;                   /* see http2/http2.h; NULL: it speaks another protocol */
    struct multi *multi;                   /* RESP: commands that wait for EXEC; NULL: no MULTI */
    uint64_t id;                           /* RESP: CLIENT ID */
    const struct resp_spec *command;       /* RESP: being served; NULL: none, or an unknown one */
    char client_name[SESSION_CLIENT_NAME]; /* RESP: CLIENT SETNAME; cut to what fits */
};

/* One whole request, as it was decoded; points into the bytes. */
struct request {
    struct again *again;        /* RESP: one like it came before; else NULL */
    struct reply_like *like;    /* HTTP: the same */
    struct pattern_words words; /* … but for these */
    union {
        struct http_request http;
        struct resp_command resp;
        struct http2_stream *stream;
    };
};

extern const struct conn_events session_events;

static inline struct session *session_of(struct conn *c)
{
    return (struct session *)c; /* its first member */
}

/* One connection is waiting at this listener. False: it still is, as there is no memory. */
bool session_accept(struct loop *loop, uv_stream_t *listener);

/* The steps of a turn. Decode the next request of `in`; false: there is none that may be asked now.
 * Ask it: begin a reply, ask the engine, end the reply. Encode all replies that are ready, in
 * order, and send them. Then go on with what was held up, or end; this may free the session. */
bool session_decode_next(struct session *s, struct conn_input *in, struct request *out);
static inline bool session_decode(struct session *s, struct conn_input *in, struct request *out)
{
    return in->used < in->len && session_decode_next(s, in, out);
}
void session_ask(struct session *s, struct request *request);
void session_encode(struct session *s, struct buf *out);
void session_send(struct session *s, const struct buf *out);
void session_resume(struct session *s);

/* Nothing more is read from it; it is closed when its last reply is sent. */
void session_end(struct session *s);
void session_note(struct session *s, enum incident incident); /* for operators */
void session_abort(struct session *s); /* at once: there is no memory to answer with */

static inline struct loop *session_loop(const struct session *s)
{
    return s->loop;
}

/* Serve one decoded request: begin a reply, ask, end it. In http/routes.c and resp/commands.c. */
void http_serve(struct session *s, struct http_request *request);

/* Before its body is there, of which so many bytes were promised or have come: how many may. False:
 * it was refused, and the session ends. */
bool http_admit(struct session *s, struct http_request *head, size_t body_len, size_t *most_body);
void http_refuse(struct session *s, int status, const char *why); /* and end the session */
void resp_serve(struct session *s, struct resp_command *command);
void resp_refuse(struct session *s, const char *why); /* and end the session */

enum { MULTI_MOST_COMMANDS = 1000, MULTI_MOST_BYTES = 1024 * 1024 }; /* between MULTI and EXEC */
void multi_free(struct multi *m);                                    /* NULL is fine */
bool resp_may(struct session *s, unsigned scopes); /* by what it has shown, or without */

#endif
