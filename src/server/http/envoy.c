/* envoy.c - Envoy's rate limit service for clients that speak JSON, at the paths and with the answers
 * of envoyproxy/ratelimit. */
#include "proto/rls_json.h"
#include "server/envoy/ruling.h"
#include "server/http/routes.h"

static const char text_type[] = "text/plain; charset=utf-8";

static void write_text(const struct reply *reply, struct buf *out, int status, const char *text)
{
    struct response w = response_begin(reply, out, status, text_type);

    response_body(&w);
    buf_text(out, text);
    response_end(&w);
}

/* Whatever it is. */
static void refuse(const struct exchange *x, enum problem problem, const char *detail)
{
    struct reply *r = exchange_reply(x, NULL);

    session_unanswered(x->session, problem, detail);
    if (!r)
        return;
    write_text(r, &r->text, 400, "Bad Request\n");
    reply_end(r);
}

static void encode(struct reply *reply, struct buf *out)
{
    struct rls_answer answer;
    const char *problem;
    struct response w;

    if (!reply->ruling) /* there was no memory for it, and the connection is closed */
        return;
    if (ruling_answer(reply, &answer, &problem)) {
        write_text(reply, out, 400, "Bad Request\n");
        return;
    }
    w = response_begin(reply, out, answer.code == RLS_OVER_LIMIT ? 429 : 200, json_type);
    response_body(&w);
    rls_json_answer(out, &answer);
    response_end(&w);
}

void api_envoy_json(const struct exchange *x)
{
    struct rls_json j;
    struct reply *r;
    weir_diag diag;
    enum ruling_fault fault;

    if (rls_json_open(&j, x->request->body, &diag)) {
        refuse(x, PROBLEM_INVALID_REQUEST, diag.text);
        rls_json_close(&j);
        return;
    }
    r = exchange_reply(x, encode);
    if (r) {
        fault = ruling_ask(r, &j.request, &diag);
        if (fault == RULING_INVALID || fault == RULING_NOT_LOADED) {
            session_unanswered(
                x->session, fault == RULING_INVALID ? PROBLEM_INVALID_REQUEST : PROBLEM_UNAVAILABLE,
                diag.text);
            r->encode = NULL;
            write_text(r, &r->text, 400, "Bad Request\n");
        }
        reply_end(r);
    }
    rls_json_close(&j);
}

void api_envoy_health(const struct exchange *x)
{
    struct reply *r = exchange_reply(x, NULL);
    const bool is_fine = !atomic_load(&exchange_server(x)->is_draining);

    if (!r)
        return;
    write_text(r, &r->text, is_fine ? 200 : 500, is_fine ? "OK" : "");
    reply_end(r);
}
