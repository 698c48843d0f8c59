/* problem.h - what can be wrong with a request, by names that are the same wherever it is told: as
 * `code` of an answer by HTTP, before the text of an error by RESP, in metrics, in the log, and by
 * the command line. */
#ifndef WEIR_SERVER_HTTP_PROBLEM_H
#define WEIR_SERVER_HTTP_PROBLEM_H

#include "weir.h"

/* X(name, status, code). Codes are for programs and never change. */
#define PROBLEMS(X)                                                                                \
    X(BAD_REQUEST, 400, "bad_request")                                                             \
    X(INVALID_REQUEST, 400, "invalid_request")                                                     \
    X(INVALID_ATTRIBUTE, 400, "invalid_attribute")                                                 \
    X(INVALID_COST, 400, "invalid_cost")                                                           \
    X(CLOCK_NOT_TRUSTED, 400, "clock_not_trusted")                                                 \
    X(INVALID_TTL, 400, "invalid_ttl")                                                             \
    X(NEEDS_RESERVATION, 400, "needs_reservation")                                                 \
    X(UNAUTHORIZED, 401, "unauthorized")                                                           \
    X(FORBIDDEN, 403, "forbidden")                                                                 \
    X(NOT_FOUND, 404, "not_found")                                                                 \
    X(NO_SUCH_POLICY, 404, "no_such_policy")                                                       \
    X(NO_SUCH_RESERVATION, 404, "no_such_reservation")                                             \
    X(METHOD_NOT_ALLOWED, 405, "method_not_allowed")                                               \
    X(REQUEST_TIMEOUT, 408, "request_timeout")                                                     \
    X(ALREADY_SETTLED, 409, "already_settled")                                                     \
    X(RESERVATION_EXPIRED, 410, "reservation_expired")                                             \
    X(BODY_TOO_LARGE, 413, "body_too_large")                                                       \
    X(URI_TOO_LONG, 414, "uri_too_long")                                                           \
    X(UNSUPPORTED_MEDIA_TYPE, 415, "unsupported_media_type")                                       \
    X(EXPECTATION_FAILED, 417, "expectation_failed")                                               \
    X(INVALID_POLICY_FILE, 422, "invalid_policy_file")                                             \
    X(ID_REUSED, 422, "id_reused")                                                                 \
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
    PROBLEMS(WEIR_X)
#undef WEIR_X
        PROBLEM_COUNT
};

enum problem problem_of(weir_err err);
enum problem problem_of_status(int status); /* the first that has it */
int problem_status(enum problem problem);   /* of HTTP */
const char *problem_code(enum problem problem);

#endif
