/* stats.c - for operators: what was decided: statistics, metrics, top lists, shadow limits,
 * alarms. */
#include "base/diag.h"
#include "base/json.h"
#include "server/http/check_query.h"
#include "server/http/replay_hint.h"
#include "server/http/routes.h"
#include "server/metrics/metrics.h"
#include "server/metrics/prometheus.h"
#include "server/metrics/shadow_stats.h"

enum { TOP_DEFAULT = 20, TOP_MOST = 1000 };

static const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";

void api_stats(const struct exchange *x)
{
    struct response w;
    struct reply *r = exchange_begin(x, 200, json_type, &w);

    if (!r)
        return;
    stats_write(exchange_server(x), &r->text);
    buf_byte(&r->text, '\n');
    exchange_end(r, &w);
}

void api_vitals(const struct exchange *x)
{
    struct response w;
    struct reply *r = exchange_begin(x, 200, json_type, &w);

    if (!r)
        return;
    vitals_write(exchange_server(x)->vitals, &r->text);
    buf_byte(&r->text, '\n');
    exchange_end(r, &w);
}

void api_metrics(const struct exchange *x)
{
    struct prometheus_sink p;
    struct response w;
    struct reply *r = exchange_begin(x, 200, metrics_type, &w);

    if (!r)
        return;
    prometheus_sink_init(&p, &r->text);
    metrics_write(exchange_server(x), &p.sink);
    exchange_end(r, &w);
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
    r = exchange_begin(x, 200, json_type, &w);
    if (!r)
        return;
    buf_text(&r->text, "{\"top\":");
    observers_top(s->observers, s->loop_count, (size_t)top.n, top.policy, &r->text);
    buf_text(&r->text, "}\n");
    exchange_end(r, &w);
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
    struct json_reply r;
    const char *policy;
    weir_diag diag;
    weir_err err = read_shadow(x->request->query, &policy, &diag);

    if (err) {
        exchange_problem(x, problem_of(err), diag.text, NULL);
        return;
    }
    if (!json_reply_begin(x, 200, &r))
        return;
    view = (struct shadow_stats_view){ .now = s->weir->clock(s->weir->clock_ctx),
                                       .policy = policy };
    json_int(&r.json, "now_ms", view.now);
    replay_hint(&r.json, policy);
    visit = published_enter(&s->weir->policies);
    changed = published_enter(&s->weir->engine.overrides);
    view.set = visit.current;
    view.overrides = changed.current;
    observers_shadow_stats(s->observers, s->loop_count, &view, &r.json);
    published_leave(&s->weir->engine.overrides, changed);
    published_leave(&s->weir->policies, visit);
    json_reply_end(&r);
}

void api_alerts(const struct exchange *x)
{
    struct server *s = exchange_server(x);
    struct json_reply r;

    if (!json_reply_begin(x, 200, &r))
        return;
    json_int(&r.json, "now_ms", s->weir->clock(s->weir->clock_ctx));
    alarms_write(s->alarms, &r.json);
    json_reply_end(&r);
}
