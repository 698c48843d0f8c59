/* access.c - who may ask over HTTP: tokens and their scopes, and pages of other sites. */
#include "server/http/access.h"

#include <strings.h>

/* ---- tokens ------------------------------------------------------------------------------ */

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

bool http_token_name(const struct exchange *x, char out[SETTINGS_MOST_TOKEN_NAME + 1])
{
    const struct span token = bearer_token(x->request);

    return token.at && tokens_name(exchange_server(x)->tokens, token, out);
}

/* For clients that show or hide what they offer. */
void api_token(const struct exchange *x)
{
    const struct tokens *tokens = exchange_server(x)->tokens;
    const struct span token = bearer_token(x->request);
    const unsigned free = tokens_without(tokens);
    const unsigned scopes = x->session->scopes | free |
                            (token.at ? tokens_scopes(tokens, token) : 0);
    char name[SETTINGS_MOST_TOKEN_NAME + 1];
    struct json_reply r;

    if (!json_reply_begin(x, 200, &r))
        return;
    json_text(&r.json, "name", http_token_name(x, name) ? name : NULL);
    json_open(&r.json, "scopes", '[');
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        if (scopes & 1u << i)
            json_text(&r.json, NULL, scope_words[i]);
    json_close(&r.json, ']');
    json_bool(&r.json, "is_needed", free == 0);
    json_reply_end(&r);
}

static void refuse_scope(const struct exchange *x, unsigned scopes)
{
    char detail[96];

    snprintf(detail, sizeof detail, "this needs the scope %s, which the token does not have",
             scopes_text(scopes));
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
    session_note(x->session, shown || x->session->scopes ? INCIDENT_MISSING_SCOPE
                             : token.at                  ? INCIDENT_UNKNOWN_TOKEN
                                                         : INCIDENT_NO_TOKEN);
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

/* ---- pages ------------------------------------------------------------------------------- */

static bool begins_with(struct span text, const char *lower, size_t len)
{
    return text.len >= len && strncasecmp(text.at, lower, len) == 0;
}

/* Without the port that its scheme has anyway. */
static struct span without_port(struct span host, bool is_tls)
{
    const struct span port = is_tls ? span_of(":443") : span_of(":80");

    if (host.len > port.len && memcmp(host.at + host.len - port.len, port.at, port.len) == 0)
        host.len -= port.len;
    return host;
}

/* `https://host:port`, with the scheme that the connection has and the host that it was asked
 * by. */
static bool is_own_origin(const struct exchange *x, struct span origin)
{
    const bool is_tls = x->session->conn.tls != NULL;
    const struct span scheme = is_tls ? span_of("https://") : span_of("http://");
    const struct span host = without_port(http_header(x->request, "host"), is_tls);

    if (!begins_with(origin, scheme.at, scheme.len))
        return false;
    origin = without_port((struct span){ origin.at + scheme.len, origin.len - scheme.len }, is_tls);
    return host.len > 0 && host.len == origin.len && strncasecmp(host.at, origin.at, host.len) == 0;
}

static bool is_allowed_origin(const struct server_settings *settings, struct span origin)
{
    for (size_t i = 0; i < settings->origin_count; i++)
        if (strlen(settings->origins[i]) == origin.len &&
            strncasecmp(settings->origins[i], origin.at, origin.len) == 0)
            return true;
    return false;
}

/* A page of another site can have its reader's browser ask a server on the reader's machine, where
 * no token may be needed. It cannot read the answer, but what it asks for would happen. Browsers
 * tell whose page it is by Origin, and where they send none (a picture, a link) by Sec-Fetch-Site.
 * Gates are asked in the name of whatever it is. */
static bool is_from_another_site(const struct exchange *x, unsigned scopes, bool is_gate)
{
    const struct http_request *request = x->request;
    const bool changes = request->method != HTTP_GET && request->method != HTTP_HEAD;
    struct span origin, site;

    if (is_gate || (!changes && !(scopes & SCOPE_CHECK)))
        return false;
    origin = http_header(request, "origin");
    if (origin.at)
        return !is_own_origin(x, origin) &&
               !is_allowed_origin(&exchange_server(x)->settings, origin);
    site = http_header(request, "sec-fetch-site");
    return site.at && !span_is(site, "same-origin") && !span_is(site, "none");
}

/* DNS rebinding: a site can make its name point at this machine, and then the browser takes its
 * page for one of ours. So where no token is needed, only names that cannot be made so are
 * accepted. */
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
    if (is_from_another_site(x, scopes, is_gate)) {
        exchange_problem(
            x, PROBLEM_FORBIDDEN,
            "requests from pages of other sites are rejected; to allow this one, add its origin "
            "to allowed_origins",
            NULL);
        return false;
    }
    if (is_by_a_strange_name(x, scopes, is_gate)) {
        exchange_problem(x, PROBLEM_FORBIDDEN,
                         "use localhost or the address of this server, or configure a token", NULL);
        return false;
    }
    if (!is_let_in(x, scopes))
        return false;
    conn_raise(&x->session->conn, scopes ? CONN_KNOWN : CONN_GUEST);
    return true;
}
