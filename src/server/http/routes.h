/* routes.h - what the routes of the HTTP API share. */
#ifndef WEIR_SERVER_HTTP_ROUTES_H
#define WEIR_SERVER_HTTP_ROUTES_H

#include "base/json.h"
#include "server/http/response.h"
#include "server/server.h"

/* A request that is being served. */
struct exchange {
    struct session *session;
    struct http_request *request;
    struct span name; /* that the path has, decoded; .at NULL: it has none */
    bool is_check;    /* one that should have an answer */
    bool is_grpc;     /* a call of gRPC */
    int32_t most_ms;  /* that a shared store may take for it; 0: as for any */
};

/* A reply that knows its request; NULL: out of memory, and there is nothing left to do. */
struct reply *exchange_reply(const struct exchange *x,
                             void (*encode)(struct reply *, struct buf *));

/* A reply whose body is written at once; NULL: as above. */
struct reply *exchange_begin(const struct exchange *x, int status, const char *type,
                             struct response *w);
void exchange_end(struct reply *r, struct response *w);

/* The same for a JSON object: write its members in between. False: out of memory. */
struct json_reply {
    struct reply *reply;
    struct response response;
    struct json json;
};
bool json_reply_begin(const struct exchange *x, int status, struct json_reply *out);
void json_reply_end(struct json_reply *r);

/* A whole answer, at once. */
void exchange_problem(const struct exchange *x, enum problem problem, const char *detail,
                      const char *head);

static inline struct server *exchange_server(const struct exchange *x)
{
    return session_loop(x->session)->server;
}

/* ---- routes: check.c, gate.c, envoy.c, policies.c, overrides.c, stats.c, history.c, health.c ---------- */

void api_check(const struct exchange *x);
void api_check_query(const struct exchange *x);
void api_peek(const struct exchange *x);
void api_refund(const struct exchange *x);
void api_charge(const struct exchange *x);
void api_reset(const struct exchange *x);
void api_reserve(const struct exchange *x);
void api_commit(const struct exchange *x);
void api_release(const struct exchange *x);
void api_grow(const struct exchange *x);
void api_extend(const struct exchange *x);

void api_usage(const struct exchange *x);
void api_lookup(const struct exchange *x);

void api_gate(const struct exchange *x);

void api_envoy_json(const struct exchange *x);
void api_envoy_health(const struct exchange *x);

void api_policies(const struct exchange *x);
void api_vitals(const struct exchange *x);
void api_overrides(const struct exchange *x);
void api_correction(const struct exchange *x);
void api_override_set(const struct exchange *x);
void api_override_remove(const struct exchange *x);
void api_plans(const struct exchange *x);
void api_plan_set(const struct exchange *x);
void api_plan_remove(const struct exchange *x);
void api_mode_set(const struct exchange *x);
void api_mode_remove(const struct exchange *x);
void api_undo(const struct exchange *x);
void api_audit(const struct exchange *x);
void api_reload(const struct exchange *x);
void api_reload_preview(const struct exchange *x);
void api_token(const struct exchange *x);
void api_stats(const struct exchange *x);
void api_top(const struct exchange *x);
void api_shadow(const struct exchange *x);
void api_history(const struct exchange *x);
void api_alerts(const struct exchange *x);
void api_metrics(const struct exchange *x);
void api_alive(const struct exchange *x);
void api_ready(const struct exchange *x);

/* What `GET /` says to programs. It is made once: every client may ask for it, as often as it
 * likes. */
void http_write_welcome(struct buf *out);

/* When it was given, by the clock that decided. */
int64_t answer_time(const struct call *call);

#endif
