/* grpc.h - calls of gRPC, which come as requests of HTTP/2.
 *
 * A unary call is one message each way, behind a prefix of five bytes, and a status in the trailers.
 * Its request is a struct http_request like any other, and its reply a struct reply, whose encode()
 * writes the message with its prefix; or, with a status that is not GRPC_OK, the text of the error. */
#ifndef WEIR_SERVER_GRPC_GRPC_H
#define WEIR_SERVER_GRPC_GRPC_H

#include "proto/protobuf.h"
#include "server/grpc/statuses.h"
#include "server/http/routes.h"

struct way;

enum {
    GRPC_PREFIX = 5,
    GRPC_MAX_SHORT_MESSAGE = 4096
}; /* bytes; the latter of health and reflection */

/* Is it a call? False: it is for the routes of HTTP, which will find no such path. */
bool grpc_is_call(const struct http_request *request);

bool grpc_has_path(struct span path);
bool grpc_is_check(struct span path); /* one that decides */

/* What a client writes as grpc-timeout, in ms and rounded up: at least 1. 0: it sets no bound. */
int64_t grpc_timeout(struct span text);

/* Serve a whole one, that grpc_is_call(), in so many ms; 0: it sets no bound. */
void grpc_serve(struct session *s, struct http_request *request, int64_t timeout_ms);

/* Before all of its body is there: how long that may be. False: it was refused. */
bool grpc_admit(struct session *s, struct http_request *head, size_t *most_body);
void grpc_refuse_long(struct session *s, struct http_request *head);

/* ---- calls that stay open: messages in and out, as they come ----------------------------------- */

bool grpc_is_stream(struct span path);

/* The answer to one message of such a call, with its prefix. Returns the status that ends the call,
 * or GRPC_OK to go on. */
enum grpc_status grpc_stream(struct server *server, struct span path, struct span message,
                             struct buf *out);

/* Does it tell of changes? Then this is one, of how the server is. */
bool grpc_is_watch(struct span path);
void grpc_write_health(struct server *server, struct buf *out);
bool grpc_is_serving(struct server *server);
bool grpc_knows_service(struct span message); /* … that it asks about */

/* The message of a body that has one, whole, at its beginning; `used` is how long it is with its
 * prefix. False: it is not all there. */
bool grpc_next_message(struct span body, struct span *message, size_t *used);

/* ---- for the methods ------------------------------------------------------------------------- */

/* A message is written in between. */
size_t grpc_open_message(struct buf *out);
void grpc_close_message(struct buf *out, size_t at);

/* The reply is an error with this text. */
void grpc_fail(struct reply *r, enum grpc_status status, const char *code, const char *text);
void grpc_problem(struct reply *r, enum problem problem, const char *text); /* the same */

/* The same from encode(), into what it writes to. */
void grpc_write_problem(struct reply *r, struct buf *out, enum problem problem, const char *text);

/* The whole answer is an error. */
void grpc_refuse(const struct exchange *x, enum grpc_status status, enum problem problem,
                 const char *text);
void grpc_refuse_message(const struct exchange *x, enum protobuf_fault fault, const char *text);

/* ratelimit.c, health.c, limiter.c */
void grpc_should_rate_limit(const struct exchange *x, struct span message);
void grpc_health_check(const struct exchange *x, struct span message);
void grpc_ask_limiter(const struct exchange *x, struct span message, const struct way *way,
                      bool is_many);

#endif
