/* http_api.c - the HTTP API: which route a request is for, and whether it may go there. */
#include "server/http_api.h"

#include <strings.h>

#include "base/json.h"
#include "base/suggest.h"
#include "server/dashboard.h"

#define MODE_PATH "/v1/policies/{policy}/mode"

typedef void route_action(const struct exchange *x);

static void api_welcome(const struct exchange *x);

/* HEAD is served wherever GET is, OPTIONS everywhere. */
static const struct route {
    const char *path;
    route_action *get, *post, *put, *remove, *any;
    unsigned scopes; /* one of them is needed; 0: everybody may */
    const char *about;
} routes[] = {
    { .path = "/v1/check",
      .get = api_check_query,
      .post = api_check,
      .scopes = SCOPE_CHECK,
      .about = "may this pass? If so, count it" },
    { .path = "/v1/gate",
      .any = api_gate,
      .scopes = SCOPE_CHECK,
      .about = "the same for reverse proxies, which look at the status only" },
    { .path = "/v1/peek",
      .post = api_peek,
      .scopes = SCOPE_CHECK,
      .about = "what a check would say; counts nothing" },
    { .path = "/v1/refund",
      .post = api_refund,
      .scopes = SCOPE_CHECK,
      .about = "give back what was counted but did not happen" },
    { .path = "/v1/reset",
      .post = api_reset,
      .scopes = SCOPE_ADMIN,
      .about = "forget all that is counted for an identity" },
    { .path = "/v1/policies",
      .get = api_policies,
      .scopes = SCOPE_ADMIN,
      .about = "the policies in force, and how the last reload went" },
    { .path = MODE_PATH,
      .post = api_mode_set,
      .remove = api_mode_remove,
      .scopes = SCOPE_ADMIN,
      .about = "put a policy into another mode, for a while or for good" },
    { .path = "/v1/overrides",
      .get = api_overrides,
      .put = api_override_set,
      .remove = api_override_remove,
      .scopes = SCOPE_ADMIN,
      .about = "exempt or block somebody, or give them other numbers" },
    { .path = "/v1/plans",
      .get = api_plans,
      .put = api_plan_set,
      .remove = api_plan_remove,
      .scopes = SCOPE_ADMIN,
      .about = "who has which plan without saying so" },
    { .path = "/v1/audit",
      .get = api_audit,
      .scopes = SCOPE_ADMIN,
      .about = "what operators have changed, and when, who and why" },
    { .path = "/v1/reload",
      .post = api_reload,
      .scopes = SCOPE_ADMIN,
      .about = "read the policy file again" },
    { .path = "/v1/stats",
      .get = api_stats,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .about = "what has been decided, and how much is kept" },
    { .path = "/v1/top",
      .get = api_top,
      .scopes = SCOPE_ADMIN,
      .about = "who is refused most, by hashed identity" },
    { .path = "/v1/shadow",
      .get = api_shadow,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .about = "what limits on trial would have refused" },
    { .path = "/v1/history",
      .get = api_history,
      .scopes = SCOPE_ADMIN | SCOPE_METRICS,
      .about = "what was decided in the last 90 days, by policy and rule" },
    { .path = "/metrics", .get = api_metrics, .scopes = SCOPE_METRICS, .about = "for Prometheus" },
    { .path = "/healthz", .get = api_alive, .about = "is it alive?" },
    { .path = "/readyz", .get = api_ready, .about = "should it be sent requests?" },
    { .path = "/", .get = api_welcome, .about = "this list; for a browser, the dashboard" },
};

enum { ROUTES = sizeof routes / sizeof *routes };

/* ---- answers -------------------------------------------------------------------------------- */

struct reply *exchange_reply(const struct exchange *x, void (*encode)(struct reply *, struct buf *))
{
    struct reply *r = reply_begin(x->session, encode);

    if (r) {
        r->http_minor = x->request->minor;
        r->keep_alive = x->request->keep_alive;
        r->is_head_only = x->request->method == HTTP_HEAD;
    }
    return r;
}

void exchange_problem(const struct exchange *x, enum problem problem, const char *detail,
                      const char *head)
{
    struct reply *r = exchange_reply(x, NULL);

    if (!r)
        return;
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

static void api_welcome(const struct exchange *x)
{
    struct reply *r = exchange_reply(x, NULL);
    struct response w;
    struct json j;

    if (!r)
        return;
    w = response_begin(r, &r->text, 200, json_type);
    response_body(&w);
    j = (struct json){ .to = &r->text };
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
    buf_byte(&r->text, '\n');
    response_end(&w);
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
        snprintf(detail, sizeof detail, "there is no such path: GET / lists those that there are");
    exchange_problem(x, PROBLEM_NOT_FOUND, detail, NULL);
}

/* ---- who may -------------------------------------------------------------------------------- */

static struct span bearer_token(const struct http_request *request)
{
    struct span value = http_header(request, "authorization");

    if (!value.at || value.len < 7 || strncasecmp(value.at, "bearer ", 7) != 0)
        return (struct span){ NULL, 0 };
    value = (struct span){ value.at + 7, value.len - 7 };
    while (value.len > 0 && *value.at == ' ')
        value = (struct span){ value.at + 1, value.len - 1 };
    return value;
}

static const char *scope_names(unsigned scopes)
{
    if (scopes & SCOPE_ADMIN)
        return scopes & SCOPE_METRICS ? "admin or metrics" : "admin";
    return scopes & SCOPE_METRICS ? "metrics" : "check";
}

static void refuse_scope(const struct exchange *x, unsigned scopes)
{
    char detail[96];

    snprintf(detail, sizeof detail, "this needs the scope %s, which the token does not have",
             scope_names(scopes));
    exchange_problem(x, PROBLEM_FORBIDDEN, detail,
                     "WWW-Authenticate: Bearer realm=\"weir\", error=\"insufficient_scope\"\r\n");
}

static bool is_let_in(const struct exchange *x, unsigned scopes)
{
    const struct tokens *tokens = exchange_server(x)->tokens;
    unsigned shown = 0;
    struct span token;

    if (scopes == 0 || (scopes & (x->session->scopes | tokens_without(tokens))))
        return true;
    token = bearer_token(x->request);
    if (token.at)
        shown = tokens_scopes(tokens, token);
    if (scopes & shown)
        return true;
    if (shown || x->session->scopes)
        refuse_scope(x, scopes);
    else if (token.at)
        exchange_problem(x, PROBLEM_UNAUTHORIZED, "there is no such token",
                         "WWW-Authenticate: Bearer realm=\"weir\", error=\"invalid_token\"\r\n");
    else
        exchange_problem(x, PROBLEM_UNAUTHORIZED,
                         "show a token: send the header `Authorization: Bearer TOKEN`",
                         "WWW-Authenticate: Bearer realm=\"weir\"\r\n");
    return false;
}

/* A page of another site can have its reader's browser ask a server on the reader's machine, where
 * no token may be needed. It cannot read the answer, but what it asks for would happen. Browsers
 * tell; gates are asked in the name of whatever it is. */
static bool is_from_another_site(const struct route *route, const struct http_request *request)
{
    const bool changes = request->method != HTTP_GET && request->method != HTTP_HEAD;
    struct span site;

    if (route->any || (!changes && !(route->scopes & SCOPE_CHECK)))
        return false;
    site = http_header(request, "sec-fetch-site");
    return site.at && !span_is(site, "same-origin") && !span_is(site, "none");
}

/* A name that a page's owner makes point at this machine makes the page one of our own, for its
 * reader's browser. Where no token is needed, we have no names but those that nobody else gives. */
static bool is_by_a_strange_name(const struct exchange *x, const struct route *route)
{
    const struct span host = http_header(x->request, "host");
    const size_t len = sizeof "localhost" - 1;
    struct ip ip;

    if (route->any || route->scopes == 0 || x->session->conn.is_local || host.len == 0 ||
        tokens_without(exchange_server(x)->tokens) == 0)
        return false;
    return !ip_read(host, &ip) && (host.len < len || strncasecmp(host.at, "localhost", len) != 0 ||
                                   (host.len > len && host.at[len] != ':'));
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

/* The only place where a path is decoded. */
static void act(struct exchange *x, route_action *action)
{
    if (x->name.at && !http_name_decode(&x->name))
        exchange_problem(x, PROBLEM_INVALID_REQUEST,
                         "the name in the path is not well encoded: a % is followed by two digits "
                         "of 0 to f, and %00 is no character of a name",
                         NULL);
    else
        action(x);
}

static void serve(struct exchange *x)
{
    const struct route *route = find_route(x->request->path, &x->name);
    route_action *action;

    if (dashboard_serve(x))
        return;
    if (!route && x->request->method == HTTP_OPTIONS && span_is(x->request->path, "*")) {
        allow_methods(x, "GET, HEAD, POST, OPTIONS");
        return;
    }
    if (!route) {
        refuse_path(x);
        return;
    }
    action = action_of(route, x->request->method);
    if (action && is_from_another_site(route, x->request)) {
        exchange_problem(x, PROBLEM_FORBIDDEN, "pages of other sites may not ask", NULL);
    } else if (action && is_by_a_strange_name(x, route)) {
        exchange_problem(x, PROBLEM_FORBIDDEN,
                         "call this server localhost or by its address, or give it a token", NULL);
    } else if (action) {
        if (is_let_in(x, route->scopes))
            act(x, action);
    } else if (x->request->method == HTTP_OPTIONS) {
        allow_methods(x, methods_of(route));
    } else {
        refuse_method(x, route);
    }
}

void http_serve(struct session *s, struct http_request *request)
{
    if (atomic_load_explicit(&session_loop(s)->server->is_draining, memory_order_relaxed))
        request->keep_alive = false;
    serve(&(struct exchange){ .session = s, .request = request });
    if (!request->keep_alive)
        session_end(s);
}

void http_refuse(struct session *s, int status, const char *why)
{
    struct reply *r = reply_begin(s, NULL);

    if (!r)
        return;
    r->http_minor = 1;
    r->keep_alive = false;
    problem_write(r, &r->text, problem_of_status(status), why, NULL);
    reply_end(r);
    session_end(s);
}
