/* policies.c - for operators: the policies in force, and reloading them. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "engine/override_index.h"
#include "policy/policies_json.h"
#include "server/errand.h"
#include "server/http/author.h"
#include "server/http/override_json.h"
#include "server/http/routes.h"
#include "server/reloader.h"

/* What an operator has set for the file's mode. */
static void write_live_mode(void *ctx, struct json *j, const char *policy)
{
    struct weir *w = ctx;
    struct published_visit visit;
    const struct overridden *o;

    if (!published_is_set(&w->engine.overrides))
        return;
    visit = published_enter(&w->engine.overrides);
    o = visit.current ? override_index_of(visit.current, policy) : NULL;
    if (o && o->has_mode && (o->mode_expires == 0 || w->clock(w->clock_ctx) < o->mode_expires)) {
        json_open(j, "live_mode", '{');
        json_text(j, "mode", mode_name(o->mode));
        json_int(j, "id", (int64_t)o->mode_id);
        if (o->mode_expires > 0)
            json_int(j, "expires_ms", o->mode_expires);
        json_close(j, '}');
    }
    published_leave(&w->engine.overrides, visit);
}

/* How the last one went, and how often it was tried. */
static void write_reload(struct json *j, struct server *s)
{
    json_open(j, "reload", '{');
    json_int(j, "succeeded", atomic_load(&s->reloads));
    json_int(j, "failed", atomic_load(&s->reload_failures));
    pthread_mutex_lock(&s->lock);
    json_int(j, "last_ms", s->reloaded_ms);
    json_text(j, "problem", s->reload_problem);
    pthread_mutex_unlock(&s->lock);
    json_close(j, '}');
}

static void write_name(void *ctx, const char *name)
{
    json_text(ctx, NULL, name);
}

/* Of a store that keeps policies for clients that check by SQL. */
static void write_differences(struct json *j, struct pushed *pushed)
{
    if (!pushed_is_known(pushed)) {
        json_text(j, "differs_in_database", NULL);
        return;
    }
    json_open(j, "differs_in_database", '[');
    pushed_each(pushed, write_name, j);
    json_close(j, ']');
}

void api_policies(const struct exchange *x)
{
    struct server *s = exchange_server(x);
    struct published_visit visit;
    const struct policies *set;
    struct json_reply r;
    struct json *j = &r.json;

    if (!json_reply_begin(x, 200, &r))
        return;
    visit = published_enter(&s->weir->policies);
    set = visit.current;
    json_text(j, "file", s->settings.config);
    json_bool(j, "enabled", !set || policies_enabled(set));
    json_open(j, "policies", '[');
    for (size_t i = 0; set && i < policies_count(set); i++)
        policy_json(j, policies_at(set, i), write_live_mode, s->weir);
    json_close(j, ']');
    published_leave(&s->weir->policies, visit);
    write_differences(j, s->weir->pushed);
    write_reload(j, s);
    json_reply_end(&r);
}

/* ---- reload --------------------------------------------------------------------------------- */

struct reload_job {
    struct reload request; /* first */
    uv_async_t done;
    atomic_bool is_done; /* what is behind it in the request is there, too */
    struct reply *reply;
    struct author who;
};

static void write_reloaded(struct reply *r, struct server *server, const char *changes)
{
    struct response w = response_begin(r, &r->text, 200, json_type);
    struct json j = { .to = &r->text };

    response_body(&w);
    json_open(&j, NULL, '{');
    json_bool(&j, "reloaded", true);
    json_text(&j, "changes", changes);
    write_reload(&j, server);
    json_close(&j, '}');
    buf_byte(&r->text, '\n');
    response_end(&w);
}

static void free_job(uv_handle_t *done)
{
    free(done->data);
}

static void reloaded(uv_async_t *done)
{
    struct reload_job *job = done->data;
    const struct reload *request = &job->request;
    struct reply *r = job->reply;

    if (!atomic_load(&job->is_done))
        return;
    if (request->err)
        problem_write(r, &r->text,
                      request->err == WEIR_EPOLICY ? PROBLEM_INVALID_POLICY_FILE
                                                   : PROBLEM_RELOAD_FAILED,
                      request->diag.text, NULL);
    else
        write_reloaded(r, session_loop(r->session)->server, request->diag.text);
    reply_end(r);
    uv_close((uv_handle_t *)done, free_job);
}

static void tell_loop(struct reload *request)
{
    struct reload_job *job = (struct reload_job *)request;

    atomic_store(&job->is_done, true);
    uv_async_send(&job->done);
}

static weir_err read_author(const struct exchange *x, struct author *out, weir_diag *diag)
{
    struct override_request request = { .subject = LEDGER_RELOAD, .who = "" };
    struct override_json json;
    weir_err err = override_json_open(&json, x->request->body, 0, &request, diag);

    if (!err && strlen(request.who) > LEDGER_MAX_WHO)
        err = diag_fail(diag, WEIR_EREQUEST, "'who' may have at most %d bytes", LEDGER_MAX_WHO);
    if (!err)
        *out = author_of(x, request.who);
    override_json_close(&json);
    return err;
}

/* Replacing the policies waits for the loops, this one too: so the reloader's thread does it. */
void api_reload(const struct exchange *x)
{
    struct reload_job *job;
    struct author who;
    weir_diag diag;
    weir_err err = read_author(x, &who, &diag);

    if (err) {
        exchange_problem(x, problem_of(err), diag.text, NULL);
        return;
    }
    job = calloc(1, sizeof *job);
    if (!job) {
        exchange_problem(x, PROBLEM_OUT_OF_MEMORY, weir_err_text(WEIR_ENOMEM), NULL);
        return;
    }
    job->reply = exchange_reply(x, NULL);
    if (!job->reply || uv_async_init(&session_loop(x->session)->uv, &job->done, reloaded)) {
        if (job->reply) {
            problem_unavailable(job->reply);
            reply_end(job->reply);
        }
        free(job);
        return;
    }
    job->done.data = job;
    job->who = who;
    job->request = (struct reload){ .why = "POST /v1/reload",
                                    .who = job->who.text,
                                    .done = tell_loop };
    reloader_ask(exchange_server(x)->reloader, &job->request);
}

/* ---- what one would change -------------------------------------------------------------------- */

struct preview_job {
    struct errand errand; /* first */
    struct server *server;
    struct buf sentence, list;
    weir_err err;
    weir_diag diag;
};

static void preview(struct errand *errand)
{
    struct preview_job *job = (struct preview_job *)errand;

    job->err = server_preview(job->server, &job->sentence, &job->list, &job->diag);
}

static void write_preview(struct reply *r, const struct preview_job *job)
{
    struct response w = response_begin(r, &r->text, 200, json_type);
    struct json j = { .to = &r->text };

    response_body(&w);
    json_open(&j, NULL, '{');
    json_span(&j, "changes", buf_span(&job->sentence));
    json_raw(&j, "diff", buf_span(&job->list));
    json_close(&j, '}');
    buf_byte(&r->text, '\n');
    response_end(&w);
}

static void previewed(struct errand *errand, bool is_dropped)
{
    struct preview_job *job = (struct preview_job *)errand;
    struct reply *r = errand->reply;

    if (is_dropped)
        problem_unavailable(r);
    else if (job->err)
        problem_write(r, &r->text, problem_of(job->err), job->diag.text, NULL);
    else
        write_preview(r, job);
    buf_done(&job->sentence);
    buf_done(&job->list);
    free(job);
}

void api_reload_preview(const struct exchange *x)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct preview_job *job = calloc(1, sizeof *job);
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
    buf_init(&job->sentence, &usual);
    buf_init(&job->list, &usual);
    job->server = exchange_server(x);
    job->errand = (struct errand){ .run = preview, .done = previewed };
    errand_send(&job->errand, r);
}
