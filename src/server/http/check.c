/* check.c - check, peek, charge, refund and reset: what is asked for in a body or a query, and
 * answers.
 *
 * The body of a POST is a request object or {"checks": [...]}; without a body, the query of the
 * URL says what a GET's would. */
#include "proto/rate_headers.h"
#include "server/answer_json.h"
#include "server/http/check_query.h"
#include "server/http/routes.h"
#include "server/way.h"

/* ---- answers -------------------------------------------------------------------------------- */

static void encode_one(struct reply *reply, struct buf *out)
{
    const struct call *call = reply->first;
    struct response w;

    if (!call) /* there was no memory for it, and the connection is closed */
        return;
    if (call->answer.err) {
        problem_write(reply, out, problem_of(call->answer.err), call_problem(call), NULL);
        return;
    }
    w = response_begin(reply, out, 200, json_type);
    rate_headers_write_after(out, &call->answer, check_rules_known_by(&call->check),
                             answer_time(call),
                             &session_loop(reply->session)->rate_headers[call->answer.allowed]);
    response_body(&w);
    answer_json(out, call);
    buf_byte(out, '\n');
    response_end(&w);
}

static void encode_many(struct reply *reply, struct buf *out)
{
    struct response w = response_begin(reply, out, 200, json_type);

    response_body(&w);
    answer_json_many(out, reply);
    buf_byte(out, '\n');
    response_end(&w);
}

int64_t answer_time(const struct call *call)
{
    const int64_t asked = call->check.ask.now;

    return asked > 0 ? asked : session_loop(call->reply->session)->turn.now;
}

/* ---- questions ------------------------------------------------------------------------------ */

static void ask_one(const struct exchange *x, enum verb verb, const struct parsed_request *asked)
{
    struct reply *r = exchange_reply(x, encode_one);
    struct call *call;

    if (!r)
        return;
    call = reply_ask(r, verb, asked);
    if (call && asked->request.key)
        http_again_remember(x->session, call,
                            (struct span){ asked->request.key, asked->request.key_len });
    reply_end(r);
}

/* Names that are attributes in the queries of other routes: `tag=1` at a gate, which has no place
 * for it in its answer, and what is about reservations in a check. */
static bool take_own(void *ctx, struct parsed_request *out, struct span name, struct span value,
                     weir_err *err, weir_diag *diag)
{
    const struct way *way = ctx;

    if (span_is(name, "tag"))
        *err = check_query_bool("tag", value, &out->wants_tag, diag);
    else if (!verb_reserves(way->verb))
        return false;
    else if (span_is(name, "id"))
        out->request.id = value.at;
    else if (span_is(name, "reservation"))
        out->request.reservation = value.at;
    else if (span_is(name, "ttl_ms"))
        *err = check_query_int("ttl_ms", value, &out->request.ttl_ms, diag);
    else
        return false;
    return true;
}

static void serve_query(const struct exchange *x, const struct way *way)
{
    const struct query_own own = { take_own, (void *)way };
    struct parsed_request asked;
    weir_diag diag;
    weir_err err = check_query_read(x->request->query, &own, &asked, &diag);

    if (!err)
        err = way_set(way, &asked, &diag);
    if (err)
        exchange_problem(x, problem_of(err), diag.text, NULL);
    else
        ask_one(x, way->verb, &asked);
}

static void serve_many(const struct exchange *x, struct check_json *j, const struct way *way)
{
    struct reply *r = exchange_reply(x, encode_many);

    if (!r)
        return;
    way_ask_all(way, j, r);
    reply_end(r);
}

static void serve_one(const struct exchange *x, struct check_json *j, const struct way *way)
{
    struct parsed_request asked;
    weir_diag diag;
    weir_err err = way_read(way, j, &asked, &diag);

    if (err)
        exchange_problem(x, problem_of(err), diag.text, NULL);
    else
        ask_one(x, way->verb, &asked);
}

static void serve_body(const struct exchange *x, const struct way *way)
{
    const struct span body = x->request->body;
    struct check_json j;
    weir_diag diag;
    weir_err err;

    err = check_json_open(&j, (char *)body.at, body.len, &diag);
    if (err) {
        exchange_problem(x, problem_of(err), diag.text, NULL);
        return;
    }
    if (j.is_many)
        serve_many(x, &j, way);
    else
        serve_one(x, &j, way);
    check_json_close(&j);
}

static void serve(const struct exchange *x, const struct way *way)
{
    if (x->request->body.len == 0)
        serve_query(x, way);
    else if (x->request->query.len > 0)
        exchange_problem(x, PROBLEM_INVALID_REQUEST, "there is a body and a query: use one of them",
                         NULL);
    else
        serve_body(x, way);
}

void api_check(const struct exchange *x)
{
    serve(x, &way_check);
}

void api_check_query(const struct exchange *x)
{
    serve_query(x, &way_check);
}

void api_peek(const struct exchange *x)
{
    serve(x, &way_peek);
}

void api_refund(const struct exchange *x)
{
    serve(x, &way_refund);
}

void api_charge(const struct exchange *x)
{
    serve(x, &way_charge);
}

void api_reset(const struct exchange *x)
{
    serve(x, &way_reset);
}

void api_reserve(const struct exchange *x)
{
    serve(x, &way_reserve);
}

void api_commit(const struct exchange *x)
{
    serve(x, &way_commit);
}

void api_release(const struct exchange *x)
{
    serve(x, &way_release);
}

void api_grow(const struct exchange *x)
{
    serve(x, &way_grow);
}

void api_extend(const struct exchange *x)
{
    serve(x, &way_extend);
}
