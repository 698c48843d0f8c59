/* http_access.c - who may ask over HTTP: tokens and their scopes, and pages of other sites. */
#include "server/http_access.h"

#include <strings.h>

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
static bool is_from_another_site(const struct http_request *request, unsigned scopes, bool is_gate)
{
    const bool changes = request->method != HTTP_GET && request->method != HTTP_HEAD;
    struct span site;

    if (is_gate || (!changes && !(scopes & SCOPE_CHECK)))
        return false;
    site = http_header(request, "sec-fetch-site");
    return site.at && !span_is(site, "same-origin") && !span_is(site, "none");
}

/* A name that a page's owner makes point at this machine makes the page one of our own, for its
 * reader's browser. Where no token is needed, we have no names but those that nobody else gives. */
static bool is_by_a_strange_name(const struct exchange *x, unsigned scopes, bool is_gate)
{
    const struct span host = http_header(x->request, "host");
    const size_t len = sizeof "localhost" - 1;
    struct ip ip;

    if (is_gate || scopes == 0 || x->session->conn.is_local || host.len == 0 ||
        tokens_without(exchange_server(x)->tokens) == 0)
        return false;
    return !ip_read(host, &ip) && (host.len < len || strncasecmp(host.at, "localhost", len) != 0 ||
                                   (host.len > len && host.at[len] != ':'));
}

bool http_access(const struct exchange *x, unsigned scopes, bool is_gate)
{
    if (is_from_another_site(x->request, scopes, is_gate)) {
        exchange_problem(x, PROBLEM_FORBIDDEN, "pages of other sites may not ask", NULL);
        return false;
    }
    if (is_by_a_strange_name(x, scopes, is_gate)) {
        exchange_problem(x, PROBLEM_FORBIDDEN,
                         "call this server localhost or by its address, or give it a token", NULL);
        return false;
    }
    if (!is_let_in(x, scopes))
        return false;
    conn_raise(&x->session->conn, scopes ? CONN_KNOWN : CONN_GUEST);
    return true;
}
