/* routes.c - the HTTP API: which route a request is for, and whether it may go there. */
#include "server/http/routes.h"

#include <strings.h>

#include "base/json.h"
#include "base/suggest.h"
#include "proto/rls.h"
#include "server/grpc/grpc.h"
#include "server/http/access.h"
#include "server/http/dashboard.h"

#define MODE_PATH "/v1/policies/{policy}/mode"

typedef void route_action(const struct exchange *x);

static void api_welcome(const struct exchange *x);

/* HEAD is served wherever GET is, OPTIONS everywhere. */
static const struct route {
    const char *path;
    route_action *get, *post, *put, *remove, *any;
    unsigned scopes;  /* one of them is needed; 0: none is needed */
    unsigned readers; /* … or one of these, to GET */
    size_t most_body; /* bytes; 0: HTTP_MAX_SHORT_BODY */
    const char *about;
} routes[] = {
    { .path = "/v1/check",
      .get = api_check_query,
      .post = api_check,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "check a request, and count it if it is allowed" },
    { .path = "/v1/gate",
      .any = api_gate,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "the same for reverse proxies, as an HTTP status" },
    { .path = "/v1/peek",
      .post = api_peek,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "the answer of a check, without counting" },
    { .path = "/v1/refund",
      .post = api_refund,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "give back what was counted for a request that did not happen" },
    { .path = "/v1/charge",
      .post = api_charge,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "count what has happened, whatever the limits say" },
    { .path = "/v1/reserve",
      .post = api_reserve,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "a check whose charges are held until it is known what was used" },
    { .path = "/v1/commit",
      .post = api_commit,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "say what was used of a reservation" },
    { .path = "/v1/release",
      .post = api_release,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "nothing was used of a reservation" },
    { .path = "/v1/grow",
      .post = api_grow,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "check more, onto a reservation" },
    { .path = "/v1/extend",
      .post = api_extend,
      .scopes = SCOPE_CHECK,
      .most_body = HTTP_MAX_BODY,
      .about = "let a reservation expire later" },
    { .path = "/v1/usage",
      .post = api_usage,
      .scopes = SCOPE_ADMIN,
      .about = "how an identity stands: used, held, left" },
    { .path = "/v1/lookup",
      .post = api_lookup,
      .scopes = SCOPE_ADMIN,
      .about = "whom a value stands for: its tags, and how it stands in every policy" },
    { .path = "/v1/reset",
      .post = api_reset,
      .scopes = SCOPE_ADMIN | SCOPE_RESET,
      .most_body = HTTP_MAX_BODY,
      .about = "clear what is counted for an identity" },
    { .path = "/v1/policies",
      .get = api_policies,
      .scopes = SCOPE_ADMIN,
      .readers = SCOPE_VIEW,
      .about = "the policies in force, and how the last reload went" },
    { .path = MODE_PATH,
      .post = api_mode_set,
      .remove = api_mode_remove,
      .scopes = SCOPE_ADMIN,
      .about = "change the mode of a policy" },
    { .path = "/v1/overrides",
      .get = api_overrides,
      .put = api_override_set,
      .remove = api_override_remove,
      .scopes = SCOPE_ADMIN,
      .readers = SCOPE_VIEW,
      .about = "exempt or block an identity, or change its limit" },
    { .path = "/v1/plans",
      .get = api_plans,
      .put = api_plan_set,
      .remove = api_plan_remove,
      .scopes = SCOPE_ADMIN,
      .readers = SCOPE_VIEW,
      .about = "assigned plans" },
    { .path = "/v1/corrections",
      .post = api_correction,
      .scopes = SCOPE_ADMIN,
      .about = "reset, refund or charge what is counted, with a reason" },
    { .path = "/v1/audit",
      .get = api_audit,
      .scopes = SCOPE_ADMIN,
      .readers = SCOPE_VIEW,
      .about = "changes by operators: when, who and why" },
    { .path = "/v1/undo",
      .post = api_undo,
      .scopes = SCOPE_ADMIN,
      .about = "take back a change of the audit log" },
    { .path = "/v1/reload",
      .get = api_reload_preview,
      .post = api_reload,
      .scopes = SCOPE_ADMIN,
      .readers = SCOPE_VIEW,
      .about = "read the policy file again; by GET, what that would change" },
    { .path = "/v1/stats",
      .get = api_stats,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .readers = SCOPE_VIEW,
      .about = "counters of decisions, store and server" },
    { .path = "/v1/vitals",
      .get = api_vitals,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .readers = SCOPE_VIEW,
      .about = "the last hour by the minute: time of decisions, keys, memory" },
    { .path = "/v1/top",
      .get = api_top,
      .scopes = SCOPE_ADMIN,
      .readers = SCOPE_VIEW,
      .about = "which identities are denied most, by hash" },
    { .path = "/v1/shadow",
      .get = api_shadow,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .readers = SCOPE_VIEW,
      .about = "what limits in shadow would have denied" },
    { .path = "/v1/history",
      .get = api_history,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .readers = SCOPE_VIEW,
      .about = "what was decided in the last 90 days, by policy and rule" },
    { .path = "/v1/alerts",
      .get = api_alerts,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .readers = SCOPE_VIEW,
      .about = "the alerts of the policy file and their states" },
    { .path = "/v1/token",
      .get = api_token,
      .scopes = SCOPE_ALL,
      .about = "the name and the scopes of the token that the request shows" },
    { .path = "/metrics", .get = api_metrics, .scopes = SCOPE_METRICS, .about = "for Prometheus" },
    { .path = "/json",
      .post = api_envoy_json,
      .scopes = SCOPE_CHECK,
      .most_body = RLS_MAX_BODY,
      .about = "Envoy's rate limit service, as JSON" },
    { .path = "/healthcheck",
      .get = api_envoy_health,
      .about = "the same as /healthz, for probes of envoyproxy/ratelimit" },
    { .path = "/healthz", .get = api_alive, .about = "is the server alive?" },
    { .path = "/readyz", .get = api_ready, .about = "is the server ready for requests?" },
    { .path = "/", .get = api_welcome, .about = "this list; for a browser, the console" },
};

enum { ROUTES = sizeof routes / sizeof *routes };

/* ---- answers -------------------------------------------------------------------------------- */

/* Two headers are as good as none: which of them is right? */
static void read_trace(const struct http_request *request, struct traceparent *out)
{
    static const char name[] = "traceparent";
    const size_t len = sizeof name - 1;
    size_t found = 0;

    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *h = &request->headers[i];

        if (h->name.len == len && strncasecmp(h->name.at, name, len) == 0 &&
            (found++ > 0 || !traceparent_read(h->value, out)))
            out->is_set = false;
    }
}

static void be_grpc(struct reply *r)
{
    r->is_grpc = true;
    r->grpc_status = GRPC_OK;
    r->grpc_code = NULL;
}

struct reply *exchange_reply(const struct exchange *x, void (*encode)(struct reply *, struct buf *))
{
    struct reply *r = reply_begin(x->session, encode);

    if (r) {
        r->http_minor = x->request->minor;
        r->keep_alive = x->request->keep_alive;
        r->is_head_only = x->request->method == HTTP_HEAD;
        r->most_ms = x->most_ms;
        if (x->is_grpc)
            be_grpc(r);
        if (loop_tracing(session_loop(x->session)) && x->is_check)
            read_trace(x->request, &r->trace);
    }
    return r;
}

struct reply *exchange_begin(const struct exchange *x, int status, const char *type,
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

void exchange_end(struct reply *r, struct response *w)
{
    response_end(w);
    reply_end(r);
}

bool json_reply_begin(const struct exchange *x, int status, struct json_reply *out)
{
    out->reply = exchange_begin(x, status, json_type, &out->response);
    if (!out->reply)
        return false;
    out->json = (struct json){ .to = &out->reply->text };
    json_open(&out->json, NULL, '{');
    return true;
}

void json_reply_end(struct json_reply *r)
{
    json_close(&r->json, '}');
    buf_byte(&r->reply->text, '\n');
    exchange_end(r->reply, &r->response);
}

void exchange_problem(const struct exchange *x, enum problem problem, const char *detail,
                      const char *head)
{
    struct reply *r = exchange_reply(x, NULL);

    if (!r)
        return;
    if (x->is_check)
        session_unanswered(x->session, problem, detail);
    if (x->is_grpc)
        grpc_problem(r, problem, detail);
    else
        problem_write(r, &r->text, problem, detail, head);
    reply_end(r);
}

static const char *methods_of(const struct route *route)
{
    if (route->any)
        return "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    if (route->put)
        return "GET, HEAD, PUT, DELETE, OPTIONS";
    if (route->remove)
        return "POST, DELETE, OPTIONS";
    if (route->get && route->post)
        return "GET, HEAD, POST, OPTIONS";
    return route->get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

static void write_methods(struct json *j, const char *methods)
{
    json_open(j, "methods", '[');
    while (*methods) {
        size_t len = strcspn(methods, ",");

        json_span(j, NULL, (struct span){ methods, len });
        methods += len + strspn(methods + len, ", ");
    }
    json_close(j, ']');
}

void http_write_welcome(struct buf *out)
{
    struct json j = { .to = out };

    json_open(&j, NULL, '{');
    json_text(&j, "name", "weir");
    json_text(&j, "version", weir_version());
    json_open(&j, "routes", '[');
    for (size_t i = 0; i < ROUTES; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "path", routes[i].path);
        write_methods(&j, methods_of(&routes[i]));
        json_text(&j, "about", routes[i].about);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    buf_byte(out, '\n');
}

static void api_welcome(const struct exchange *x)
{
    struct reply *r = exchange_reply(x, NULL);
    struct response w;

    if (!r)
        return;
    w = response_begin(r, &r->text, 200, json_type);
    response_end_lasting(&w, r, buf_span(&exchange_server(x)->welcome));
    reply_end(r);
}

static void allow_methods(const struct exchange *x, const char *methods)
{
    struct reply *r = exchange_reply(x, NULL);
    struct response w;

    if (!r)
        return;
    w = response_begin(r, &r->text, 204, NULL);
    buf_printf(&r->text, "Allow: %s\r\n", methods);
    response_end(&w);
    reply_end(r);
}

static void refuse_method(const struct exchange *x, const struct route *route)
{
    char allow[80], detail[128];

    snprintf(allow, sizeof allow, "Allow: %s\r\n", methods_of(route));
    snprintf(detail, sizeof detail, "%s takes %s", route->path, methods_of(route));
    exchange_problem(x, PROBLEM_METHOD_NOT_ALLOWED, detail, allow);
}

static void refuse_path(const struct exchange *x)
{
    const char *paths[ROUTES], *near;
    char detail[128];

    for (size_t i = 0; i < ROUTES; i++)
        paths[i] = routes[i].path;
    near = suggest(x->request->path, paths, ROUTES);
    if (near)
        snprintf(detail, sizeof detail, "there is no such path: did you mean %s?", near);
    else
        snprintf(detail, sizeof detail, "there is no such path: GET / lists all paths");
    exchange_problem(x, PROBLEM_NOT_FOUND, detail, NULL);
}

/* ---- the way in ------------------------------------------------------------------------------ */

/* Of "/v1/policies/login/mode" the name, still encoded: a slash in it is %2F. */
static struct span name_in_mode_path(struct span path)
{
    static const char before[] = "/v1/policies/", behind[] = "/mode";
    const size_t head = sizeof before - 1, tail = sizeof behind - 1;

    if (path.len <= head + tail || memcmp(path.at, before, head) != 0 ||
        memcmp(path.at + path.len - tail, behind, tail) != 0 ||
        memchr(path.at + head, '/', path.len - head - tail))
        return (struct span){ NULL, 0 };
    return (struct span){ path.at + head, path.len - head - tail };
}

static const struct route *find_route(struct span path, struct span *name)
{
    *name = name_in_mode_path(path);
    for (size_t i = 0; i < ROUTES; i++)
        if (name->at ? strcmp(routes[i].path, MODE_PATH) == 0 : span_is(path, routes[i].path))
            return &routes[i];
    return NULL;
}

static route_action *action_of(const struct route *route, enum http_method method)
{
    if (route->any)
        return route->any;
    if (method == HTTP_POST)
        return route->post;
    if (method == HTTP_PUT)
        return route->put;
    if (method == HTTP_DELETE)
        return route->remove;
    return method == HTTP_GET || method == HTTP_HEAD ? route->get : NULL;
}

static void api_options(const struct exchange *x)
{
    struct span name;
    const struct route *route = find_route(x->request->path, &name);

    allow_methods(x, route ? methods_of(route) : "GET, HEAD, POST, OPTIONS");
}

/* The only place where a path is decoded. */
static void act(struct exchange *x, route_action *action)
{
    if (action != api_options && x->name.at && !http_name_decode(&x->name))
        exchange_problem(
            x, PROBLEM_INVALID_REQUEST,
            "the name in the path is not well encoded: a % must be followed by two hex digits, "
            "and %00 is not allowed",
            NULL);
    else
        action(x);
}

static const struct route dashboard = { .get = dashboard_serve };
static const struct route everything = { .path = "*" };

static const struct route *route_of(const struct http_request *request, struct span *name)
{
    if (dashboard_has(request))
        return &dashboard;
    if (request->method == HTTP_OPTIONS && span_is(request->path, "*"))
        return &everything;
    return find_route(request->path, name);
}

/* What its Content-Type calls it does not matter: what is no JSON is told so where it is read. */
static bool is_compressed(const struct http_request *request, size_t body_len)
{
    const struct span coding = http_header(request, "content-encoding");

    return coding.len > 0 && (body_len > 0 || request->has_long_body) &&
           !(coding.len == 8 && strncasecmp(coding.at, "identity", 8) == 0);
}

static unsigned scopes_for(const struct route *route, enum http_method method)
{
    const bool reads = method == HTTP_GET || method == HTTP_HEAD;

    return route->scopes | (reads ? route->readers : 0);
}

/* What is to be done, and how long a body it takes. NULL: it was refused. If it has a long body,
 * the connection ends then, whether that has come or not. */
static route_action *admit(struct exchange *x, size_t body_len, size_t *most_body)
{
    const struct http_request *request = x->request;
    const struct route *route = route_of(request, &x->name);
    route_action *action = route ? action_of(route, request->method) : NULL;

    if (!action && route && request->method == HTTP_OPTIONS)
        action = api_options;
    x->is_check = action == api_check || action == api_check_query || action == api_gate ||
                  action == api_reserve || action == api_envoy_json;
    *most_body = route && route->most_body ? route->most_body : HTTP_MAX_SHORT_BODY;
    if (!route)
        refuse_path(x);
    else if (!action)
        refuse_method(x, route);
    else if (action != api_options &&
             !http_access(x, scopes_for(route, request->method), route->any != NULL))
        return NULL;
    else if (route->any == NULL && is_compressed(request, body_len))
        exchange_problem(x, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                         "the body is compressed (Content-Encoding): send it uncompressed", NULL);
    else if (body_len > *most_body)
        exchange_problem(x, PROBLEM_BODY_TOO_LARGE, "the body is too large for this path", NULL);
    else
        return action;
    return NULL;
}

static bool is_leaving(const struct session *s)
{
    return s->is_aged ||
           atomic_load_explicit(&session_loop(s)->server->is_draining, memory_order_relaxed);
}

/* The requests of HTTP/2 are independent of each other: none of them ends the connection. */
static bool is_stream(const struct session *s)
{
    return s->protocol == PROTOCOL_HTTP2;
}

static void end_session(struct session *s)
{
    if (!is_stream(s))
        session_end(s);
}

void http_serve(struct session *s, struct http_request *request)
{
    struct exchange x = { .session = s, .request = request };
    const bool keeps_alive = is_stream(s) || (request->keep_alive && !is_leaving(s));
    route_action *action;
    size_t most_body;

    request->keep_alive = keeps_alive && !request->has_long_body;
    action = admit(&x, request->body.len, &most_body);
    if (action) {
        request->keep_alive = keeps_alive;
        act(&x, action);
    }
    if (!request->keep_alive)
        end_session(s);
}

bool http_admit(struct session *s, struct http_request *head, size_t body_len, size_t *most_body)
{
    struct exchange x = { .session = s, .request = head };

    head->keep_alive = is_stream(s);
    if (admit(&x, body_len, most_body))
        return true;
    end_session(s);
    return false;
}

void http_refuse(struct session *s, int status, const char *why)
{
    struct reply *r = reply_begin(s, NULL);

    if (!r)
        return;
    r->http_minor = 1;
    r->keep_alive = is_stream(s);
    problem_write(r, &r->text, problem_of_status(status), why, NULL);
    reply_end(r);
    end_session(s);
}
