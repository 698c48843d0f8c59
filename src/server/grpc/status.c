/* status.c - how calls of gRPC end: their statuses, for what HTTP has other numbers. */
#include "server/grpc/grpc.h"

/* A server that is overloaded is not one that has no room: the former may be asked again at once. */
static enum grpc_status status_of(enum problem problem)
{
    switch (problem) {
    case PROBLEM_BAD_REQUEST:
    case PROBLEM_INVALID_REQUEST:
    case PROBLEM_INVALID_ATTRIBUTE:
    case PROBLEM_INVALID_COST:
    case PROBLEM_CLOCK_NOT_TRUSTED:
    case PROBLEM_INVALID_TTL:
    case PROBLEM_URI_TOO_LONG:
    case PROBLEM_UNSUPPORTED_MEDIA_TYPE:
    case PROBLEM_EXPECTATION_FAILED:
    case PROBLEM_INVALID_POLICY_FILE:
    case PROBLEM_RELOAD_FAILED:
    case PROBLEM_HEAD_TOO_LARGE:
        return GRPC_INVALID_ARGUMENT;
    case PROBLEM_UNAUTHORIZED:
        return GRPC_UNAUTHENTICATED;
    case PROBLEM_FORBIDDEN:
        return GRPC_PERMISSION_DENIED;
    case PROBLEM_NOT_FOUND:
    case PROBLEM_METHOD_NOT_ALLOWED:
    case PROBLEM_NOT_IMPLEMENTED:
    case PROBLEM_HTTP_VERSION:
        return GRPC_UNIMPLEMENTED;
    case PROBLEM_NO_SUCH_POLICY:
    case PROBLEM_NO_SUCH_RESERVATION:
        return GRPC_NOT_FOUND;
    case PROBLEM_REQUEST_TIMEOUT:
        return GRPC_DEADLINE_EXCEEDED;
    case PROBLEM_NEEDS_RESERVATION:
    case PROBLEM_ALREADY_SETTLED:
    case PROBLEM_RESERVATION_EXPIRED:
        return GRPC_FAILED_PRECONDITION;
    case PROBLEM_ID_REUSED:
        return GRPC_ALREADY_EXISTS;
    case PROBLEM_BODY_TOO_LARGE:
    case PROBLEM_TABLE_FULL:
    case PROBLEM_OUT_OF_MEMORY:
        return GRPC_RESOURCE_EXHAUSTED;
    case PROBLEM_UNAVAILABLE:
    case PROBLEM_STORE_FAILED:
        return GRPC_UNAVAILABLE;
    case PROBLEM_INTERNAL_ERROR:
    case PROBLEM_COUNT:
        break;
    }
    return GRPC_INTERNAL;
}

static void set_status(struct reply *r, enum grpc_status status, const char *code)
{
    r->grpc_status = (int)status;
    r->grpc_code = code;
}

void grpc_fail(struct reply *r, enum grpc_status status, const char *code, const char *text)
{
    set_status(r, status, code);
    r->encode = NULL;
    r->text.len = 0;
    buf_text(&r->text, text);
}

void grpc_problem(struct reply *r, enum problem problem, const char *text)
{
    grpc_fail(r, status_of(problem), problem_code(problem), text);
}

void grpc_write_problem(struct reply *r, struct buf *out, enum problem problem, const char *text)
{
    set_status(r, status_of(problem), problem_code(problem));
    buf_text(out, text);
}

void grpc_refuse(const struct exchange *x, enum grpc_status status, enum problem problem,
                 const char *text)
{
    struct reply *r = exchange_reply(x, NULL);

    if (!r)
        return;
    if (x->is_check)
        session_unanswered(x->session, problem, text);
    grpc_fail(r, status, problem_code(problem), text);
    reply_end(r);
}

void grpc_refuse_message(const struct exchange *x, enum protobuf_fault fault, const char *text)
{
    grpc_refuse(x, fault == PROTOBUF_MALFORMED ? GRPC_INTERNAL : GRPC_INVALID_ARGUMENT,
                PROBLEM_INVALID_REQUEST, text);
}
