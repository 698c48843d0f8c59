/* history.c - GET /v1/history: what was decided, over time.
 *
 * Reading may wait for a database, or for others who read, so another thread does it. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "policy/rate.h"
#include "server/errand.h"
#include "server/http/check_query.h"
#include "server/http/replay_hint.h"
#include "server/http/routes.h"

enum {
    POINTS_WANTED = 180, /* about so many, if the request does not say how many */
    MOST_POINTS = 5000,  /* of a series */
    MOST_BYTES = 16 << 20,
};

/* ---- what is asked -------------------------------------------------------------------------- */

struct history_job {
    struct errand errand; /* first */
    struct server *server;
    struct history_query query;
    char policy[WEIR_MAX_NAME + 1], rule[WEIR_MAX_NAME + 1];
    struct history_list {
        struct buf text;
        struct json json;
        struct history_entry last; /* whose names the open series has; .policy NULL: none is */
    } checks, rules;
    struct buf body;
    weir_err err;
    weir_diag diag;
};

static weir_err read_name(const char *what, struct span value, char out[WEIR_MAX_NAME + 1],
                          weir_diag *diag)
{
    if (value.len > WEIR_MAX_NAME)
        return diag_fail(diag, WEIR_EREQUEST, "%s is longer than any name", what);
    memcpy(out, value.at, value.len);
    out[value.len] = '\0';
    return WEIR_OK;
}

static bool is_number(struct span value)
{
    size_t i = 0;

    while (i < value.len && value.at[i] >= '0' && value.at[i] <= '9')
        i++;
    return value.len > 0 && i == value.len;
}

/* A time in ms since the epoch, or how long ago. */
static weir_err read_time(const char *what, struct span value, int64_t now, int64_t *out,
                          weir_diag *diag)
{
    int64_t ago;
    weir_err err;

    if (is_number(value))
        return check_query_int(what, value, out, diag);
    err = duration_read(value, &ago, diag);
    if (err)
        return diag_fail(diag, WEIR_EREQUEST, "%s must be how long ago, as in 7d, or ms since 1970",
                         what);
    *out = ago < now ? now - ago : 0;
    return WEIR_OK;
}

static weir_err read_step(struct span value, int64_t *out, weir_diag *diag)
{
    if (duration_read(value, out, diag) || *out < HISTORY_MINUTE || *out % HISTORY_MINUTE != 0)
        return diag_fail(diag, WEIR_EREQUEST, "step must be whole minutes, as in 5m or 1h");
    return WEIR_OK;
}

static int64_t usual_step(int64_t span)
{
    static const int64_t steps[] = { 1, 5, 15, 60, 180, 360, 720 };
    size_t i = 0;

    while (i < sizeof steps / sizeof *steps - 1 &&
           span / (steps[i] * HISTORY_MINUTE) > POINTS_WANTED)
        i++;
    return steps[i] * HISTORY_MINUTE;
}

static weir_err check_range(struct history_query *q, weir_diag *diag)
{
    if (q->until <= q->since)
        return diag_fail(diag, WEIR_EREQUEST, "since must be before until");
    if (q->step == 0)
        q->step = usual_step(q->until - q->since);
    q->since -= q->since % q->step;
    if ((q->until - q->since) / q->step > MOST_POINTS)
        return diag_fail(diag, WEIR_EREQUEST,
                         "this would be more than %d steps: ask for a longer step, or less time",
                         MOST_POINTS);
    return WEIR_OK;
}

static weir_err read_query(struct history_job *job, struct span query, int64_t now, weir_diag *diag)
{
    struct history_query *q = &job->query;
    struct span name, value;
    bool is_bad = false;
    weir_err err = WEIR_OK;

    *q = (struct history_query){ .since = now - HISTORY_DAY, .until = now };
    while (!err && http_query_next(&query, &name, &value, &is_bad)) {
        if (span_is(name, "policy")) {
            err = read_name("policy", value, job->policy, diag);
            q->policy = job->policy;
        } else if (span_is(name, "rule")) {
            err = read_name("rule", value, job->rule, diag);
            q->rule = job->rule;
        } else if (span_is(name, "since")) {
            err = read_time("since", value, now, &q->since, diag);
        } else if (span_is(name, "until")) {
            err = read_time("until", value, now, &q->until, diag);
        } else if (span_is(name, "step")) {
            err = read_step(value, &q->step, diag);
        } else {
            err = diag_fail(diag, WEIR_EREQUEST,
                            "the query may have policy, rule, since, until and step only");
        }
    }
    if (!err && is_bad)
        err = diag_fail(diag, WEIR_EREQUEST, "the query is not well encoded");
    return err ? err : check_range(q, diag);
}

/* ---- what is told --------------------------------------------------------------------------- */

static void begin_list(struct history_list *l)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    buf_init(&l->text, &usual);
    l->json = (struct json){ .to = &l->text };
    json_open(&l->json, NULL, '[');
}

static void end_series(struct history_list *l)
{
    if (!l->last.policy)
        return;
    json_close(&l->json, ']');
    json_close(&l->json, '}');
}

static void begin_series(struct history_list *l, const struct history_entry *e, bool is_check)
{
    end_series(l);
    json_open(&l->json, NULL, '{');
    json_text(&l->json, "policy", e->policy);
    if (!is_check)
        json_text(&l->json, "rule", e->rule);
    json_open(&l->json, "points", '[');
    l->last = *e;
}

/* As a member of the body. */
static void put_list(struct history_list *l, const char *name, struct json *j)
{
    end_series(l);
    json_close(&l->json, ']');
    json_raw(j, name, buf_span(&l->text));
    j->to->failed = j->to->failed || l->text.failed;
    buf_done(&l->text);
}

static void put_point(void *ctx, const struct history_entry *e)
{
    struct history_job *job = ctx;
    const bool is_check = strcmp(e->rule, HISTORY_CHECKS) == 0;
    struct history_list *l = is_check ? &job->checks : &job->rules;

    if (job->checks.text.len + job->rules.text.len > MOST_BYTES)
        return;
    if (!l->last.policy || strcmp(l->last.policy, e->policy) != 0 ||
        strcmp(l->last.rule, e->rule) != 0)
        begin_series(l, e, is_check);
    json_open(&l->json, NULL, '[');
    json_int(&l->json, NULL, e->at);
    for (int i = 0; i < HISTORY_COUNTS; i++)
        json_int(&l->json, NULL, (int64_t)e->counts[i]);
    json_close(&l->json, ']');
}

static void write_body(struct history_job *job)
{
    struct json j = { .to = &job->body };
    struct history_store *history_store = job->server->history_store;

    begin_list(&job->checks);
    begin_list(&job->rules);
    json_open(&j, NULL, '{');
    json_int(&j, "since_ms", job->query.since);
    json_int(&j, "until_ms", job->query.until);
    json_int(&j, "step_ms", job->query.step);
    replay_hint(&j, job->query.policy);
    json_open(&j, "columns", '[');
    json_text(&j, NULL, "at_ms");
    for (int i = 0; i < HISTORY_COUNTS; i++)
        json_text(&j, NULL, history_count_names[i]);
    json_close(&j, ']');
    job->err = history_store->ops->read(history_store, &job->query, put_point, job, &job->diag);
    put_list(&job->checks, "checks", &j);
    put_list(&job->rules, "rules", &j);
    json_close(&j, '}');
    buf_byte(&job->body, '\n');
    if (job->body.failed)
        job->err = diag_fail(&job->diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    else if (job->body.len > MOST_BYTES)
        job->err = diag_fail(
            &job->diag, WEIR_EREQUEST,
            "the answer would be too large: ask for one policy, a longer step, or less time");
}

static void read_now(struct errand *errand)
{
    write_body((struct history_job *)errand);
}

static void has_read(struct errand *errand, bool is_dropped)
{
    struct history_job *job = (struct history_job *)errand;
    struct reply *r = errand->reply;

    if (is_dropped) {
        problem_unavailable(r);
    } else if (job->err) {
        problem_write(r, &r->text, problem_of(job->err), job->diag.text, NULL);
    } else {
        struct response w = response_begin(r, &r->text, 200, json_type);

        response_body(&w);
        buf_add(&r->text, buf_span(&job->body));
        response_end(&w);
    }
    buf_done(&job->body);
    free(job);
}

void api_history(const struct exchange *x)
{
    struct server *s = exchange_server(x);
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct history_job *job = calloc(1, sizeof *job);
    struct reply *r;
    weir_err err;

    if (!job) {
        exchange_problem(x, PROBLEM_OUT_OF_MEMORY, weir_err_text(WEIR_ENOMEM), NULL);
        return;
    }
    err = read_query(job, x->request->query, s->weir->clock(s->weir->clock_ctx), &job->diag);
    if (err)
        exchange_problem(x, problem_of(err), job->diag.text, NULL);
    r = err ? NULL : exchange_reply(x, NULL);
    if (!r) {
        free(job);
        return;
    }
    buf_init(&job->body, &usual);
    job->server = s;
    job->errand = (struct errand){ .run = read_now, .done = has_read };
    errand_send(&job->errand, r);
}
