/* http_response.h - responses of the HTTP API as they are written: their heads, and problems. */
#ifndef WEIR_SERVER_HTTP_RESPONSE_H
#define WEIR_SERVER_HTTP_RESPONSE_H

#include "server/call.h"

/* One that is being written. Between begin and body more lines of the head may be added to `out`;
 * after that, the body. */
struct response {
    struct buf *out;
    const struct reply *reply;
    int status;
    size_t length_at; /* where the digits of Content-Length go; 0: it has none */
    size_t body_at;
};

/* `type` NULL: it has no body, and is ended by response_end() like any other. */
struct response response_begin(const struct reply *reply, struct buf *out, int status,
                               const char *type);
void response_body(struct response *w);
void response_end(struct response *w); /* HEAD: drops the body, but not its length */

/* The same for a body that lives as long as the program: it is sent without a copy. */
void response_end_lasting(struct response *w, struct reply *reply, struct span body);

extern const char json_type[], problem_type[];

/* ---- what can be wrong ------------------------------------------------------------------- */

/* X(name, status, code). Codes are for programs and never change. */
#define HTTP_PROBLEMS(X)                                                                           \
    X(BAD_REQUEST, 400, "bad_request")                                                             \
    X(INVALID_REQUEST, 400, "invalid_request")                                                     \
    X(INVALID_ATTRIBUTE, 400, "invalid_attribute")                                                 \
    X(INVALID_COST, 400, "invalid_cost")                                                           \
    X(CLOCK_NOT_TRUSTED, 400, "clock_not_trusted")                                                 \
    X(UNAUTHORIZED, 401, "unauthorized")                                                           \
    X(FORBIDDEN, 403, "forbidden")                                                                 \
    X(NOT_FOUND, 404, "not_found")                                                                 \
    X(NO_SUCH_POLICY, 404, "no_such_policy")                                                       \
    X(METHOD_NOT_ALLOWED, 405, "method_not_allowed")                                               \
    X(REQUEST_TIMEOUT, 408, "request_timeout")                                                     \
    X(BODY_TOO_LARGE, 413, "body_too_large")                                                       \
    X(URI_TOO_LONG, 414, "uri_too_long")                                                           \
    X(UNSUPPORTED_MEDIA_TYPE, 415, "unsupported_media_type")                                       \
    X(EXPECTATION_FAILED, 417, "expectation_failed")                                               \
    X(INVALID_POLICY_FILE, 422, "invalid_policy_file")                                             \
    X(RELOAD_FAILED, 422, "reload_failed")                                                         \
    X(HEAD_TOO_LARGE, 431, "head_too_large")                                                       \
    X(INTERNAL_ERROR, 500, "internal_error")                                                       \
    X(NOT_IMPLEMENTED, 501, "not_implemented")                                                     \
    X(UNAVAILABLE, 503, "unavailable")                                                             \
    X(STORE_FAILED, 503, "store_failed")                                                           \
    X(TABLE_FULL, 503, "table_full")                                                               \
    X(OUT_OF_MEMORY, 503, "out_of_memory")                                                         \
    X(HTTP_VERSION, 505, "http_version_not_supported")

enum problem {
#define WEIR_X(name, status, code) PROBLEM_##name,
    HTTP_PROBLEMS(WEIR_X)
#undef WEIR_X
        PROBLEM_COUNT
};

enum problem problem_of(weir_err err);
enum problem problem_of_status(int status); /* the first that has it */
const char *problem_code(enum problem problem);

/* A whole response. `head` is more lines for its head, each with its end; or NULL. */
void problem_write(const struct reply *reply, struct buf *out, enum problem problem,
                   const char *detail, const char *head);

/* … into the reply's text: nothing is done for it any more. */
void problem_unavailable(struct reply *reply);

#endif
