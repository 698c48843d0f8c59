/* gate.c - /v1/gate: a check for reverse proxies, which look at the status of the answer only.
 *
 * The query says what is asked for, as that of GET /v1/check does, and besides
 *   deny_status=403      the status of a refusal, 400 to 599; without it 429
 *   header.user=X-User   the attribute `user` is the value of the request's header X-User
 *   address_header=NAME  where trusted proxies say who the client is: X-Forwarded-For and Forwarded
 *                        are lists, any other has one address. Without it X-Forwarded-For is looked
 *                        at, and Forwarded if there is none
 * The client's address is the attribute `ip` unless the query gives one, or a key; and the key of a
 * limit that comes with the query and has none. Whatever the method is, and the body, is the
 * proxy's business. */
#include <stdio.h>
#include <strings.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/printable.h"
#include "proto/rate_headers.h"
#include "server/http/check_query.h"
#include "server/http/client_address.h"
#include "server/http/routes.h"

/* ---- answers -------------------------------------------------------------------------------- */

/* A rule by the name that RateLimit-Policy has for it. */
static void write_name(struct json *j, const weir_answer *a, const char *policy, const char *rule)
{
    char name[2 * WEIR_MAX_NAME + 2];

    if (rate_header_has_rule(a, policy)) {
        snprintf(name, sizeof name, "%s.%s", policy, rule);
        json_text(j, NULL, name);
    } else {
        json_text(j, NULL, policy ? policy : "default");
    }
}

/* What is the same in all of them is JSON already: denials come by the thousands. */
static void write_refusal(struct buf *out, const weir_answer *a, int status)
{
    struct json names = { .to = out };

    buf_text(out, "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                  "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\","
                  "\"status\":");
    buf_int(out, status);
    if (a->retry_after_ms == WEIR_NEVER)
        buf_text(out, ",\"detail\":\"waiting will not help\"");
    else
        buf_text(out, ",\"detail\":\"come back when Retry-After has passed\"");
    buf_text(out, ",\"code\":\"denied\",\"retry_after_ms\":");
    buf_int(out, a->retry_after_ms);
    buf_text(out, ",\"violated-policies\":[");
    if (a->rule_count == 0)
        write_name(&names, a, a->policy, a->rule);
    for (size_t i = 0; i < a->rule_count; i++)
        if (!a->rules[i].allowed && !a->rules[i].shadow)
            write_name(&names, a, a->rules[i].policy, a->rules[i].rule);
    buf_text(out, "]}\n");
}

static void encode_gate(struct reply *reply, struct buf *out)
{
    const struct call *call = reply->first;
    const weir_answer *a;
    struct response w;

    if (!call) /* there was no memory for it, and the connection is closed */
        return;
    a = &call->answer;
    if (a->err) {
        problem_write(reply, out, problem_of(a->err), call_problem(call), NULL);
        return;
    }
    w = response_begin(reply, out, a->allowed ? 200 : reply->deny_status,
                       a->allowed ? NULL : problem_type);
    rate_headers_write_after(out, a, check_rules_known_by(&call->check), answer_time(call),
                             &session_loop(reply->session)->rate_headers[a->allowed]);
    response_body(&w);
    if (!a->allowed)
        write_refusal(out, a, reply->deny_status);
    response_end(&w);
}

/* ---- questions ------------------------------------------------------------------------------ */

struct gate {
    const struct http_request *request;
    int64_t deny_status;
    const char *address_header;
};

/* The one header of this name; two would be a way to say something else than the proxy did. */
static weir_err find_header(const struct http_request *r, struct span name, struct span *value,
                            weir_diag *diag)
{
    *value = (struct span){ NULL, 0 };
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *h = &r->headers[i];

        if (h->name.len != name.len || strncasecmp(h->name.at, name.at, name.len) != 0)
            continue;
        if (value->at)
            return diag_fail(diag, WEIR_EATTRIBUTE,
                             "the header %s is given twice: let the proxy replace it",
                             printable(name).text);
        *value = h->value;
    }
    if (!value->at)
        return diag_fail(diag, WEIR_EATTRIBUTE,
                         "the header %s, from which an attribute is taken, is missing",
                         printable(name).text);
    return WEIR_OK;
}

static weir_err take_header(struct gate *g, struct parsed_request *out, const char *attribute,
                            struct span header, weir_diag *diag)
{
    struct span value;
    weir_err err = find_header(g->request, header, &value, diag);

    return err ? err : check_query_attribute(out, attribute, value, diag);
}

static weir_err take_deny_status(struct gate *g, struct span value, weir_diag *diag)
{
    weir_err err = check_query_int("deny_status", value, &g->deny_status, diag);

    if (!err && (g->deny_status < 400 || g->deny_status > 599))
        err = diag_fail(diag, WEIR_EREQUEST, "deny_status must be from 400 to 599");
    return err;
}

static bool take_own(void *ctx, struct parsed_request *out, struct span name, struct span value,
                     weir_err *err, weir_diag *diag)
{
    static const char header[] = "header.";
    struct gate *g = ctx;

    if (span_is(name, "deny_status")) {
        *err = take_deny_status(g, value, diag);
    } else if (span_is(name, "address_header")) {
        g->address_header = value.at;
    } else if (name.len >= sizeof header && memcmp(name.at, header, sizeof header - 1) == 0) {
        *err = take_header(g, out, name.at + sizeof header - 1, value, diag);
    } else {
        return false;
    }
    return true;
}

static bool has_ip(const struct parsed_request *asked)
{
    for (size_t i = 0; i < asked->request.attribute_count; i++)
        if (strcmp(asked->attributes[i].name, "ip") == 0)
            return true;
    return false;
}

/* `text` is where the address is written: it must live as long as `asked`. */
static weir_err add_address(const struct exchange *x, const struct gate *g,
                            struct parsed_request *asked, char text[IP_TEXT + 1], weir_diag *diag)
{
    const struct server_settings *settings = &exchange_server(x)->settings;
    const struct address_source source = {
        .request = x->request,
        .peer = x->session->conn.peer,
        .is_local = x->session->conn.is_local,
        .trusted = settings->trusted_proxies,
        .trusted_count = settings->trusted_proxy_count,
        .header = g->address_header,
    };
    struct span address = { text, 0 };
    struct ip ip;

    if (asked->request.key || has_ip(asked))
        return WEIR_OK;
    if (client_address_is_ignored(&source))
        session_note(x->session, INCIDENT_FORWARDED);
    if (!client_address(&source, &ip))
        return WEIR_OK;
    address.len = client_address_write(&ip, text);
    text[address.len] = '\0';
    if (asked->request.policy || asked->request.policy_count > 0)
        return check_query_attribute(asked, "ip", address, diag);
    asked->request.key = address.at;
    asked->request.key_len = address.len;
    return WEIR_OK;
}

void api_gate(const struct exchange *x)
{
    struct gate g = { .request = x->request, .deny_status = 429 };
    const struct query_own own = { take_own, &g };
    char address[IP_TEXT + 1];
    struct parsed_request asked;
    struct call *call;
    struct reply *r;
    weir_diag diag;
    weir_err err = check_query_read(x->request->query, &own, &asked, &diag);

    if (!err)
        err = add_address(x, &g, &asked, address, &diag);
    if (err) {
        exchange_problem(x, problem_of(err), diag.text, NULL);
        return;
    }
    r = exchange_reply(x, encode_gate);
    if (!r)
        return;
    r->deny_status = (int)g.deny_status;
    call = reply_ask(r, VERB_CHECK, &asked);
    if (call && asked.request.key && asked.request.key != address)
        http_again_remember(x->session, call,
                            (struct span){ asked.request.key, asked.request.key_len });
    reply_end(r);
}
