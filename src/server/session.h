/* session.h - one connection as the server sees it: whose bytes, in which protocol, who asks.
 *
 * Belongs to one loop for life. */
#ifndef WEIR_SERVER_SESSION_H
#define WEIR_SERVER_SESSION_H

#include "net/conn.h"
#include "proto/http.h"
#include "proto/resp.h"
#include "server/call.h"

struct loop;

enum protocol { PROTOCOL_UNKNOWN, PROTOCOL_HTTP, PROTOCOL_RESP };

struct session {
    struct conn conn; /* its bytes come and go here */
    struct loop *loop;
    enum protocol protocol;
    struct http_parser http;
    int resp_version; /* 2 until HELLO 3 */
    unsigned scopes;  /* what it may do, by AUTH or by its client certificate; see tokens.h */
    struct reply *first, *last; /* in the order of the requests */
    size_t reply_count;
    bool is_ending;  /* no more requests are read; closed behind the last reply */
    bool will_flush; /* it is in the loop's list of those to be written to */
    struct session *next_flush;
    uint64_t id; /* RESP: CLIENT ID */
};

struct loop *session_loop(const struct session *s);

/* Serve one decoded request: begin a reply, ask, end it. In http_api.c and resp_commands.c. */
void http_serve(struct session *s, struct http_request *request);
void http_refuse(struct session *s, const struct http_parser *parser); /* and end the session */
void resp_serve(struct session *s, struct resp_command *command);
void resp_refuse(struct session *s, const char *why); /* and end the session */

/* Nothing more is read from it; it is closed when its last reply is sent. */
void session_end(struct session *s);

#endif
