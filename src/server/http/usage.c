/* usage.c - for operators: how one identity stands, with what is used and what is held told
 * apart. */
#include "server/http/routes.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "engine/usage.h"
#include "proto/check_json.h"
#include "server/errand.h"

struct usage_job {
    struct errand errand; /* first */
    weir *weir;
    struct usage usage;
    weir_err err;
    weir_diag diag;
    size_t len;
    char body[]; /* what was asked; it is read in the other thread */
};

static void look(struct errand *errand)
{
    struct usage_job *job = (struct usage_job *)errand;
    struct parsed_request asked;
    struct check_json j;

    job->err = check_json_open(&j, job->body, job->len, &job->diag);
    if (job->err)
        return;
    if (j.is_many)
        job->err = diag_fail(&job->diag, WEIR_EREQUEST, "ask for one identity at a time");
    else
        job->err = check_json_next(&j, &asked, &job->diag);
    if (!job->err)
        job->err = usage_read(job->weir, &asked.request, &job->usage, &job->diag);
    check_json_close(&j);
}

static void put_rule(struct json *j, const struct usage *u, const struct usage_rule *r)
{
    json_open(j, NULL, '{');
    json_text(j, "policy", r->policy);
    json_text(j, "rule", r->rule);
    json_text(j, "counts", r->counts);
    json_int(j, "limit", r->limit);
    json_int(j, "used", r->counted > r->held ? r->counted - r->held : 0);
    if (u->is_held_known)
        json_int(j, "held", r->held);
    else
        json_text(j, "held", NULL);
    json_int(j, "left", r->left);
    json_int(j, "reset_after_ms", r->reset_after_ms);
    if (r->is_shadow)
        json_bool(j, "shadow", true);
    json_close(j, '}');
}

static void write_usage(struct buf *out, const struct usage *u)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    if (u->is_held_known)
        json_int(&j, "reservations", u->reservations);
    else
        json_text(&j, "reservations", NULL);
    json_open(&j, "rules", '[');
    for (size_t i = 0; i < u->count; i++)
        put_rule(&j, u, &u->rules[i]);
    json_close(&j, ']');
    json_close(&j, '}');
}

static void has_looked(struct errand *errand, bool is_dropped)
{
    struct usage_job *job = (struct usage_job *)errand;
    struct reply *r = errand->reply;

    if (is_dropped) {
        problem_unavailable(r);
    } else if (job->err) {
        problem_write(r, &r->text, problem_of(job->err), job->diag.text, NULL);
    } else {
        struct response w = response_begin(r, &r->text, 200, json_type);

        response_body(&w);
        write_usage(&r->text, &job->usage);
        buf_byte(&r->text, '\n');
        response_end(&w);
    }
    free(job);
}

void api_usage(const struct exchange *x)
{
    const struct span body = x->request->body;
    struct usage_job *job = calloc(1, sizeof *job + body.len + 1);
    struct reply *r;

    if (!job) {
        exchange_problem(x, PROBLEM_OUT_OF_MEMORY, weir_err_text(WEIR_ENOMEM), NULL);
        return;
    }
    r = exchange_reply(x, NULL);
    if (!r) {
        free(job);
        return;
    }
    job->weir = exchange_server(x)->weir;
    job->len = body.len;
    memcpy(job->body, body.at, body.len);
    job->errand = (struct errand){ .run = look, .done = has_looked };
    errand_send(&job->errand, r);
}
