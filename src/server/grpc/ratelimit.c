/* ratelimit.c - envoy.service.ratelimit.v3: what Envoy asks before it lets a request pass. */
#include "proto/rls_protobuf.h"
#include "server/envoy/ruling.h"
#include "server/grpc/grpc.h"

static void encode(struct reply *reply, struct buf *out)
{
    struct rls_answer answer;
    const char *problem;
    weir_err err;
    size_t at;

    if (!reply->ruling) /* there was no memory for it, and the connection is closed */
        return;
    err = ruling_answer(reply, &answer, &problem);
    if (err) {
        grpc_write_problem(reply, out, problem_of(err), problem);
        return;
    }
    at = grpc_open_message(out);
    rls_protobuf_answer(out, &answer);
    grpc_close_message(out, at);
}

void grpc_should_rate_limit(const struct exchange *x, struct span message)
{
    struct rls_protobuf m;
    weir_diag diag;
    const enum protobuf_fault read = rls_protobuf_read(&m, message, &diag);
    enum ruling_fault fault;
    enum problem problem;
    struct reply *r;

    if (read != PROTOBUF_FINE) {
        grpc_refuse_message(x, read, diag.text);
        return;
    }
    r = exchange_reply(x, encode);
    if (!r)
        return;
    fault = ruling_ask(r, &m.request, &diag);
    if (fault == RULING_INVALID || fault == RULING_NOT_LOADED) {
        problem = fault == RULING_INVALID ? PROBLEM_INVALID_REQUEST : PROBLEM_UNAVAILABLE;
        session_unanswered(x->session, problem, diag.text);
        grpc_problem(r, problem, diag.text);
    }
    reply_end(r);
}
