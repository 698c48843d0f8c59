/* health.c - for load balancers and orchestrators: is the server alive, and ready? */
#include "base/json.h"
#include "server/http/routes.h"

void api_alive(const struct exchange *x)
{
    struct json_reply r;

    if (!json_reply_begin(x, 200, &r))
        return;
    json_bool(&r.json, "alive", true);
    json_reply_end(&r);
}

/* Each thread that uses a shared store has a breaker of its own. */
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
    struct json_reply r;
    struct json *j = &r.json;
    weir_stats stats;

    weir_get_stats(s->weir, &stats);
    if (!json_reply_begin(x, is_draining || stats.has_failed ? 503 : 200, &r))
        return;
    json_bool(j, "ready", !is_draining && !stats.has_failed);
    json_bool(j, "draining", is_draining);
    json_text(j, "store", stats.has_failed ? "failed" : "ok");
    put_breaker(j, &stats);
    json_bool(j, "enabled", server_enabled(s));
    json_bool(j, "ledger_stale", ledger_view_counts(s->weir->ledger_view).is_stale);
    json_reply_end(&r);
}
