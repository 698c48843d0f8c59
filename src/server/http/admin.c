/* admin.c - for operators: the policies in force, reload, statistics, metrics, health. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "engine/override_index.h"
#include "policy/policies_json.h"
#include "server/http/check_query.h"
#include "server/http/routes.h"
#include "server/metrics/metrics.h"
#include "server/metrics/shadow_stats.h"
#include "server/reloader.h"

enum { TOP_DEFAULT = 20, TOP_MOST = 1000 };

static const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";

/* A reply that is known at once, up to its body. NULL: out of memory. */
static struct reply *begin(const struct exchange *x, int status, const char *type,
                           struct response *w)
{
    struct reply *r = exchange_reply(x, NULL);

    if (!r)
        return NULL;
    *w = response_begin(r, &r->text, status, type);
    if (status == 503)
        buf_text(&r->text, "Retry-After: 1\r\n");
    response_body(w);
    return r;
}

static void end(struct reply *r, struct response *w)
{
    response_end(w);
    reply_end(r);
}

/* ---- policies --------------------------------------------------------------------------------- */

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

/* Of a store that keeps policies for those who ask it by SQL. */
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
    struct response w;
    struct reply *r = begin(x, 200, json_type, &w);
    const struct policies *set;
    struct json j;

    if (!r)
        return;
    visit = published_enter(&s->weir->policies);
    set = visit.current;
    j = (struct json){ .to = &r->text };
    json_open(&j, NULL, '{');
    json_text(&j, "file", s->settings.config);
    json_bool(&j, "enabled", !set || policies_enabled(set));
    json_open(&j, "policies", '[');
    for (size_t i = 0; set && i < policies_count(set); i++)
        policy_json(&j, policies_at(set, i), write_live_mode, s->weir);
    json_close(&j, ']');
    published_leave(&s->weir->policies, visit);
    write_differences(&j, s->weir->pushed);
    write_reload(&j, s);
    json_close(&j, '}');
    buf_byte(&r->text, '\n');
    end(r, &w);
}

/* ---- reload ------------------------------------------------------------------------------------ */

struct reload_job {
    struct reload request; /* first */
    uv_async_t done;
    atomic_bool is_done; /* what is behind it in the request is there, too */
    struct reply *reply;
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

/* Replacing the policies waits for the loops, this one too: so another thread does it. */
void api_reload(const struct exchange *x)
{
    struct reload_job *job = calloc(1, sizeof *job);

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
    job->request = (struct reload){ .why = "POST /v1/reload", .done = tell_loop };
    reloader_ask(exchange_server(x)->reloader, &job->request);
}

/* ---- what has been decided ------------------------------------------------------------------- */

void api_stats(const struct exchange *x)
{
    struct response w;
    struct reply *r = begin(x, 200, json_type, &w);

    if (!r)
        return;
    stats_write(exchange_server(x), &r->text);
    buf_byte(&r->text, '\n');
    end(r, &w);
}

void api_metrics(const struct exchange *x)
{
    struct response w;
    struct reply *r = begin(x, 200, metrics_type, &w);

    if (!r)
        return;
    metrics_write(exchange_server(x), &r->text);
    end(r, &w);
}

struct top_query {
    int64_t n;
    const char *policy;
};

static weir_err read_top(struct span query, struct top_query *top, weir_diag *diag)
{
    struct span name, value;
    bool is_bad = false;
    weir_err err = WEIR_OK;

    *top = (struct top_query){ .n = TOP_DEFAULT };
    while (!err && http_query_next(&query, &name, &value, &is_bad)) {
        if (span_is(name, "policy"))
            top->policy = value.at;
        else if (span_is(name, "n"))
            err = check_query_int("n", value, &top->n, diag);
        else
            err = diag_fail(diag, WEIR_EREQUEST, "the query may have n and policy only");
    }
    if (!err && (is_bad || top->n < 1 || top->n > TOP_MOST))
        err = diag_fail(diag, WEIR_EREQUEST, "n must be from 1 to %d", TOP_MOST);
    return err;
}

void api_top(const struct exchange *x)
{
    const struct server *s = exchange_server(x);
    struct response w;
    struct reply *r;
    struct top_query top;
    weir_diag diag;
    weir_err err = read_top(x->request->query, &top, &diag);

    if (err) {
        exchange_problem(x, problem_of(err), diag.text, NULL);
        return;
    }
    r = begin(x, 200, json_type, &w);
    if (!r)
        return;
    buf_text(&r->text, "{\"top\":");
    observers_top(s->observers, s->loop_count, (size_t)top.n, top.policy, &r->text);
    buf_text(&r->text, "}\n");
    end(r, &w);
}

static weir_err read_shadow(struct span query, const char **policy, weir_diag *diag)
{
    struct span name, value;
    bool is_bad = false;

    *policy = NULL;
    while (http_query_next(&query, &name, &value, &is_bad)) {
        if (!span_is(name, "policy"))
            return diag_fail(diag, WEIR_EREQUEST, "the query may have policy only");
        *policy = value.at;
    }
    return is_bad ? diag_fail(diag, WEIR_EREQUEST, "the query cannot be read") : WEIR_OK;
}

void api_shadow(const struct exchange *x)
{
    struct server *s = exchange_server(x);
    struct published_visit visit, changed;
    struct shadow_stats_view view;
    struct response w;
    struct reply *r;
    const char *policy;
    weir_diag diag;
    weir_err err = read_shadow(x->request->query, &policy, &diag);
    struct json j;

    if (err) {
        exchange_problem(x, problem_of(err), diag.text, NULL);
        return;
    }
    r = begin(x, 200, json_type, &w);
    if (!r)
        return;
    j = (struct json){ .to = &r->text };
    json_open(&j, NULL, '{');
    view = (struct shadow_stats_view){ .now = s->weir->clock(s->weir->clock_ctx),
                                       .policy = policy };
    json_int(&j, "now_ms", view.now);
    visit = published_enter(&s->weir->policies);
    changed = published_enter(&s->weir->engine.overrides);
    view.set = visit.current;
    view.overrides = changed.current;
    observers_trials(s->observers, s->loop_count, &view, &j);
    published_leave(&s->weir->engine.overrides, changed);
    published_leave(&s->weir->policies, visit);
    json_close(&j, '}');
    buf_byte(&r->text, '\n');
    end(r, &w);
}

void api_alerts(const struct exchange *x)
{
    struct server *s = exchange_server(x);
    struct response w;
    struct reply *r = begin(x, 200, json_type, &w);
    struct json j;

    if (!r)
        return;
    j = (struct json){ .to = &r->text };
    json_open(&j, NULL, '{');
    json_int(&j, "now_ms", s->weir->clock(s->weir->clock_ctx));
    alarms_write(s->alarms, &j);
    json_close(&j, '}');
    buf_byte(&r->text, '\n');
    end(r, &w);
}

/* ---- health ----------------------------------------------------------------------------------- */

void api_alive(const struct exchange *x)
{
    struct response w;
    struct reply *r = begin(x, 200, json_type, &w);

    if (!r)
        return;
    buf_text(&r->text, "{\"alive\":true}\n");
    end(r, &w);
}

/* Each thread that asks a shared store has one of its own. */
static void put_breaker(struct json *j, const weir_stats *stats)
{
    if (stats->breakers == 0)
        return;
    json_open(j, "breaker", '{');
    json_text(j, "state",
              stats->breakers_open == 0                ? "closed"
              : stats->breakers_open < stats->breakers ? "partly_open"
                                                       : "open");
    json_int(j, "threads", stats->breakers);
    json_int(j, "open", stats->breakers_open);
    json_int(j, "failures", stats->store_failures);
    json_close(j, '}');
}

void api_ready(const struct exchange *x)
{
    struct server *s = exchange_server(x);
    const bool is_draining = atomic_load(&s->is_draining);
    struct response w;
    struct reply *r;
    weir_stats stats;
    struct json j;

    weir_get_stats(s->weir, &stats);
    r = begin(x, is_draining || stats.has_failed ? 503 : 200, json_type, &w);
    if (!r)
        return;
    j = (struct json){ .to = &r->text };
    json_open(&j, NULL, '{');
    json_bool(&j, "ready", !is_draining && !stats.has_failed);
    json_bool(&j, "draining", is_draining);
    json_text(&j, "store", stats.has_failed ? "failed" : "ok");
    put_breaker(&j, &stats);
    json_bool(&j, "enabled", server_enabled(s));
    json_bool(&j, "ledger_stale", ledger_view_counts(s->weir->ledger_view).is_stale);
    json_close(&j, '}');
    buf_byte(&r->text, '\n');
    end(r, &w);
}
