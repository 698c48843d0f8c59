/* limiter.c - weir.v1: the checks of /v1 as calls of gRPC. */
#include "proto/check_protobuf.h"
#include "server/answer_protobuf.h"
#include "server/grpc/grpc.h"
#include "server/way.h"

static void encode_one(struct reply *reply, struct buf *out)
{
    const struct call *call = reply->first;
    size_t at;

    if (!call) /* there was no memory for it, and the connection is closed */
        return;
    if (call->answer.err) {
        grpc_write_problem(reply, out, problem_of(call->answer.err), call_problem(call));
        return;
    }
    at = grpc_open_message(out);
    answer_protobuf(out, call);
    grpc_close_message(out, at);
}

static void encode_many(struct reply *reply, struct buf *out)
{
    const size_t at = grpc_open_message(out);

    answer_protobuf_many(out, reply);
    grpc_close_message(out, at);
}

static weir_err read_next(struct check_protobuf *m, const struct way *way,
                          struct parsed_request *asked, weir_diag *diag)
{
    const weir_err err = check_protobuf_next(m, asked, diag);

    return err ? err : way_set(way, asked, diag);
}

static void ask_one(const struct exchange *x, struct check_protobuf *m, const struct way *way)
{
    struct parsed_request asked;
    weir_diag diag;
    const weir_err err = read_next(m, way, &asked, &diag);
    struct reply *r;

    if (err && m->is_malformed) {
        grpc_refuse_message(x, PROTOBUF_MALFORMED, diag.text);
        return;
    }
    if (err) {
        exchange_problem(x, problem_of(err), diag.text, NULL);
        return;
    }
    r = exchange_reply(x, encode_one);
    if (!r)
        return;
    reply_ask(r, way->verb, &asked);
    reply_end(r);
}

static void ask_many(const struct exchange *x, struct check_protobuf *m, const struct way *way)
{
    struct reply *r = exchange_reply(x, encode_many);

    if (!r)
        return;
    for (size_t i = 0; i < m->count; i++) {
        struct parsed_request asked;
        weir_diag diag;
        const weir_err err = read_next(m, way, &asked, &diag);

        if (!(err ? reply_refuse(r, err, diag.text) : reply_ask(r, way->verb, &asked)))
            break;
    }
    reply_end(r);
}

void grpc_ask_limiter(const struct exchange *x, struct span message, const struct way *way,
                      bool is_many)
{
    struct check_protobuf m;
    weir_diag diag;
    const enum protobuf_fault fault = check_protobuf_open(&m, (char *)message.at, message.len,
                                                          is_many, &diag);

    if (fault != PROTOBUF_FINE)
        grpc_refuse_message(x, fault, diag.text);
    else if (is_many)
        ask_many(x, &m, way);
    else
        ask_one(x, &m, way);
}
