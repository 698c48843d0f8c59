/* check.c - check, peek, charge, refund and reset: what is asked for in a body or a query, and answers.
 *
 * The body of a POST is a request object or {"checks": [...]}; without a body, the query of the
 * URL says what a GET's would. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "proto/check_json.h"
#include "proto/rate_headers.h"
#include "server/http/check_query.h"
#include "server/http/routes.h"

#define LITERAL(text) ((struct span){ (text), sizeof(text) - 1 })

/* ---- answers -------------------------------------------------------------------------------- */

/* A `,"name":` and a number. Names of members and of rules need no escapes. */
static void add_int(struct buf *out, struct span member, int64_t number)
{
    buf_add(out, member);
    buf_int(out, number);
}

static void add_bool(struct buf *out, struct span member, bool value)
{
    buf_add(out, member);
    if (value)
        buf_text(out, "true");
    else
        buf_text(out, "false");
}

static void add_name(struct buf *out, struct span member, const char *name)
{
    buf_add(out, member);
    if (!name) {
        buf_text(out, "null");
        return;
    }
    buf_byte(out, '"');
    buf_text(out, name);
    buf_byte(out, '"');
}

static void add_tag(struct buf *out, const struct call *call, size_t i)
{
    char tag[TAG_HEX + 1];

    if (call_tag(call, i, tag))
        add_name(out, LITERAL(",\"tag\":"), tag);
}

/* Are its rules of more than one policy? */
static bool is_of_several(const weir_answer *a)
{
    for (size_t i = 1; i < a->rule_count; i++)
        if (a->rules[i].policy != a->rules[0].policy)
            return true;
    return false;
}

static void add_used(struct buf *out, int64_t used, int64_t over)
{
    add_int(out, LITERAL(",\"used\":"), used);
    add_int(out, LITERAL(",\"over\":"), over);
}

static void add_rule(struct buf *out, const struct call *call, size_t row, bool has_policy)
{
    const weir_rule_answer *r = &call->answer.rules[row];

    buf_byte(out, '{');
    if (has_policy) {
        add_name(out, LITERAL("\"policy\":"), r->policy);
        buf_byte(out, ',');
    }
    add_name(out, LITERAL("\"rule\":"), r->rule);
    add_bool(out, LITERAL(",\"allowed\":"), r->allowed);
    add_int(out, LITERAL(",\"limit\":"), r->limit);
    add_int(out, LITERAL(",\"remaining\":"), r->remaining);
    add_int(out, LITERAL(",\"retry_after_ms\":"), r->retry_after_ms);
    add_int(out, LITERAL(",\"reset_after_ms\":"), r->reset_after_ms);
    if (verb_forces(call->check.verb))
        add_used(out, r->used, r->over);
    if (r->shadow)
        buf_text(out, ",\"shadow\":true");
    if (r->shadow_denied)
        buf_text(out, ",\"shadow_denied\":true");
    add_tag(out, call, 1 + row);
    buf_byte(out, '}');
}

/* What only verbs about reservations answer. */
static void add_reservation(struct buf *out, const struct call *call)
{
    const weir_answer *a = &call->answer;

    if (!verb_reserves(call->check.verb))
        return;
    add_name(out, LITERAL(",\"reservation\":"), a->reservation[0] ? a->reservation : NULL);
    if (a->reservation[0] && !verb_settles(call->check.verb))
        add_int(out, LITERAL(",\"expires_in_ms\":"), a->expires_in_ms);
    add_bool(out, LITERAL(",\"repeated\":"), a->repeated);
    if (verb_settles(call->check.verb)) {
        add_bool(out, LITERAL(",\"expired\":"), a->expired);
        add_int(out, LITERAL(",\"over\":"), a->over);
    }
}

static void add_answer(struct buf *out, const struct call *call)
{
    const weir_answer *a = &call->answer;

    add_bool(out, LITERAL("{\"allowed\":"), a->allowed);
    add_name(out, LITERAL(",\"policy\":"), a->policy);
    add_name(out, LITERAL(",\"rule\":"), a->rule);
    add_int(out, LITERAL(",\"limit\":"), a->limit);
    add_int(out, LITERAL(",\"remaining\":"), a->remaining);
    add_int(out, LITERAL(",\"retry_after_ms\":"), a->retry_after_ms);
    add_int(out, LITERAL(",\"reset_after_ms\":"), a->reset_after_ms);
    add_int(out, LITERAL(",\"delay_ms\":"), a->delay_ms);
    if (verb_forces(call->check.verb))
        add_used(out, a->used, a->over);
    add_name(out, LITERAL(",\"source\":"), weir_source_name(a->source));
    add_bool(out, LITERAL(",\"shadow\":"), a->shadow);
    if (a->override_id > 0)
        add_int(out, LITERAL(",\"override\":"), a->override_id);
    add_tag(out, call, 0);
    add_reservation(out, call);
    if (a->rule_count > 1) {
        const bool is_several = is_of_several(a);

        buf_text(out, ",\"rules\":[");
        for (size_t i = 0; i < a->rule_count; i++) {
            if (i > 0)
                buf_byte(out, ',');
            add_rule(out, call, i, is_several);
        }
        buf_byte(out, ']');
    }
    buf_byte(out, '}');
}

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
    rate_headers_write(out, &call->answer, answer_time(call));
    response_body(&w);
    add_answer(out, call);
    buf_byte(out, '\n');
    response_end(&w);
}

static void add_error(struct buf *out, const struct call *call)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    json_open(&j, "error", '{');
    json_text(&j, "code", problem_code(problem_of(call->answer.err)));
    json_text(&j, "detail", call_problem(call));
    json_close(&j, '}');
    json_close(&j, '}');
}

static void encode_many(struct reply *reply, struct buf *out)
{
    struct response w = response_begin(reply, out, 200, json_type);

    response_body(&w);
    buf_text(out, "{\"answers\":[");
    for (const struct call *call = reply->first; call; call = call->next) {
        if (call != reply->first)
            buf_byte(out, ',');
        if (call->answer.err)
            add_error(out, call);
        else
            add_answer(out, call);
    }
    buf_text(out, "]}\n");
    response_end(&w);
}

int64_t answer_time(const struct call *call)
{
    const int64_t asked = call->check.ask.now;

    return asked > 0 ? asked : session_loop(call->reply->session)->turn.now;
}

/* ---- questions ------------------------------------------------------------------------------ */

/* What a route asks for. */
struct way {
    enum verb verb;
    bool may_peek, peeks;
    bool is_of_reservation; /* that was made before */
    bool is_release;
};

static weir_err set_way(struct parsed_request *asked, struct way way, weir_diag *diag)
{
    if (asked->peek && !way.may_peek)
        return diag_fail(diag, WEIR_EREQUEST, "peek goes with a check only: leave it out");
    /* null says that there is none; to leave it out would look as if it were settled. */
    if (way.is_of_reservation && !asked->request.reservation)
        return diag_fail(diag, WEIR_EREQUEST,
                         "'reservation' is missing: give the one that was answered, or null");
    if (way.is_release && (asked->request.cost != 0 || asked->request.cost_count > 0))
        return diag_fail(diag, WEIR_EREQUEST,
                         "a release says that nothing was used: leave out the cost, or commit");
    asked->peek = asked->peek || way.peeks;
    asked->is_release = way.is_release;
    return WEIR_OK;
}

static void ask_one(const struct exchange *x, enum verb verb, const struct parsed_request *asked)
{
    struct reply *r = exchange_reply(x, encode_one);

    if (!r)
        return;
    reply_ask(r, verb, asked);
    reply_end(r);
}

/* Names that are attributes in the queries of other routes: `tag=1` at a gate, which has no place for
 * it in its answer, and what is about reservations in a check. */
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

static void serve_query(const struct exchange *x, struct way way)
{
    const struct query_own own = { take_own, &way };
    struct parsed_request asked;
    weir_diag diag;
    weir_err err = check_query_read(x->request->query, &own, &asked, &diag);

    if (!err)
        err = set_way(&asked, way, &diag);
    if (err)
        exchange_problem(x, problem_of(err), diag.text, NULL);
    else
        ask_one(x, way.verb, &asked);
}

static void serve_many(const struct exchange *x, struct check_json *j, struct way way)
{
    struct reply *r = exchange_reply(x, encode_many);
    struct parsed_request asked;
    weir_diag diag;

    if (!r)
        return;
    for (size_t i = 0; i < j->count && !x->session->is_ending; i++) {
        weir_err err = check_json_next(j, &asked, &diag);

        if (!err)
            err = set_way(&asked, way, &diag);
        if (err)
            reply_refuse(r, err, diag.text);
        else
            reply_ask(r, way.verb, &asked);
    }
    reply_end(r);
}

static void serve_one(const struct exchange *x, struct check_json *j, struct way way)
{
    struct parsed_request asked;
    weir_diag diag;
    weir_err err = check_json_next(j, &asked, &diag);

    if (!err)
        err = set_way(&asked, way, &diag);
    if (err)
        exchange_problem(x, problem_of(err), diag.text, NULL);
    else
        ask_one(x, way.verb, &asked);
}

static void serve_body(const struct exchange *x, struct way way)
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

static void serve(const struct exchange *x, struct way way)
{
    if (x->request->body.len == 0)
        serve_query(x, way);
    else if (x->request->query.len > 0)
        exchange_problem(x, PROBLEM_INVALID_REQUEST, "there is a body and a query: use one of them",
                         NULL);
    else
        serve_body(x, way);
}

static const struct way checks = { .verb = VERB_CHECK, .may_peek = true };

void api_check(const struct exchange *x)
{
    serve(x, checks);
}

void api_check_query(const struct exchange *x)
{
    serve_query(x, checks);
}

void api_peek(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_CHECK, .may_peek = true, .peeks = true });
}

void api_refund(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_REFUND });
}

void api_charge(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_CHARGE });
}

void api_reset(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_RESET });
}

void api_reserve(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_RESERVE });
}

void api_commit(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_SETTLE, .is_of_reservation = true });
}

void api_release(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_SETTLE, .is_of_reservation = true, .is_release = true });
}

void api_grow(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_GROW, .is_of_reservation = true });
}

void api_extend(const struct exchange *x)
{
    serve(x, (struct way){ .verb = VERB_EXTEND, .is_of_reservation = true });
}
