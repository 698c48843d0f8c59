/* store.c - the store in Redis or Valkey: a script that decides, called once for each batch. A
 * cluster has a lane to each of its nodes; see cluster.h. */
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "store/history_store.h"
#include "store/redis/cluster.h"
#include "store/redis/connect.h"
#include "store/redis/feed.h"
#include "store/redis/held.h"
#include "store/redis/ledger.h"
#include "store/redis/split.h"
#include "store/redis/upkeep.h"
#include "store/remote/server_lane.h"

struct redis {
    struct store store; /* the first member */
    struct redis_common common;
    struct redis_node node;   /* unless there is a cluster */
    struct redis_slots slots; /* of the cluster */
    struct redis_upkeep upkeep;
    struct redis_ledger ledger;
    struct change_feed *feed; /* NULL: not wanted */
};

static struct redis *redis_of(struct store *s)
{
    return (struct redis *)s;
}

static bool has_failed(struct redis *r)
{
    if (!redis_is_cluster(&r->common))
        return r->node.remote.open_breakers > 0;
    for (size_t i = 0; i < r->slots.node_count; i++)
        if (r->slots.nodes[i]->remote.open_breakers > 0 &&
            redis_slots_has(&r->slots, r->slots.nodes[i]))
            return true;
    return false;
}

static void tick(struct store *s, int64_t now)
{
    struct redis *r = redis_of(s);
    const bool has_secret = atomic_load(&r->common.has_secret);

    (void)now; /* of a clock that may not be the server's */
    if (redis_is_cluster(&r->common) && has_secret)
        redis_slots_tick(&r->slots);
    connector_work(&r->common.connector);
    if (r->feed)
        change_feed_tick(r->feed);
    if (has_secret && !has_failed(r))
        redis_upkeep_tick(&r->upkeep);
}

static void stats(struct store *s, weir_stats *out)
{
    struct redis *r = redis_of(s);

    remote_stats(&r->node.remote, out);
    for (size_t i = 0; redis_is_cluster(&r->common) && i < r->slots.node_count; i++)
        out->store_failures += r->slots.nodes[i]->remote.failures;
    out->has_failed = has_failed(r);
    out->keys = r->upkeep.keys;
    out->memory_bytes = r->upkeep.memory;
}

/* ---- the ledger ------------------------------------------------------------------------------ */

static weir_err append_entry(struct store *s, struct ledger_entry *e, weir_diag *diag)
{
    struct redis *r = redis_of(s);
    const weir_err err = redis_common_ready(&r->common, diag);

    return err ? err : redis_ledger_append(&r->ledger, e, diag);
}

static weir_err read_entries(struct store *s, uint64_t after, ledger_visit *visit, void *ctx,
                             weir_diag *diag)
{
    struct redis *r = redis_of(s);
    const weir_err err = redis_common_ready(&r->common, diag);

    return err ? err : redis_ledger_read(&r->ledger, after, visit, ctx, diag);
}

static weir_err visit_held(struct store *s, int64_t now, held_visit *visit, void *ctx,
                           weir_diag *diag)
{
    struct redis *r = redis_of(s);
    const weir_err err = redis_common_ready(&r->common, diag);

    return err ? err : redis_held_visit(&r->common, &r->slots, now, visit, ctx, diag);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static struct lane *attach(struct store *s, struct reactor *reactor)
{
    struct redis *r = redis_of(s);

    return redis_is_cluster(&r->common) ? cluster_attach(&r->slots, reactor)
                                        : server_lane_attach(&r->node.remote, reactor);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void close_redis(struct store *s)
{
    struct redis *r = redis_of(s);
    const weir_allocator allocator = r->common.allocator;

    change_feed_free(r->feed);
    redis_ledger_done(&r->ledger);
    connector_done(&r->common.connector);
    redis_slots_done(&r->slots);
    redis_node_done(&r->node);
    redis_uri_done(&r->common.uri);
    explicit_bzero(&r->common.secret, sizeof r->common.secret);
    alloc_free(&allocator, r);
}

/* What is wrong with the server must be known when the store is opened. That it is away need not
 * be: it may be back before the first question. */
static weir_err try_server(struct redis *r, weir_diag *diag)
{
    char line[CONNECTOR_WHY + 64];
    const weir_err err = redis_is_cluster(&r->common)
                             ? redis_slots_look_up(&r->slots, diag)
                             : connector_try(&r->common.connector, &r->node, diag);

    if (!err)
        redis_upkeep_look(&r->upkeep);
    if (err != WEIR_EIO)
        return err;
    snprintf(line, sizeof line, "Redis cannot be reached, on_error decides until it can: %.*s",
             CONNECTOR_WHY, diag->text);
    if (r->upkeep.log)
        r->upkeep.log(r->upkeep.log_ctx, line);
    return WEIR_OK;
}

static void take_secret(struct store *s, const struct secret *secret)
{
    struct redis *r = redis_of(s);

    r->common.secret = *secret;
    atomic_store(&r->common.has_secret, true);
}

static void link_lost(struct redis_node *node)
{
    redis_slots_doubt(&((struct redis *)node->common->ctx)->slots);
}

static bool aim(void *node, struct question *probe)
{
    struct redis *r = ((const struct redis_node *)node)->common->ctx;

    return split_aim(&r->slots, node, probe);
}

/* The URI is the store's from here on. */
static void init(struct redis *r, const struct store_options *options, struct redis_uri *uri)
{
    r->store.ops = &redis_store_ops;
    r->common = (struct redis_common){
        .uri = *uri,
        .allocator = options->allocator,
        .after_errors = options->after_errors,
        .brings_now = options->callers_bring_now,
        .ctx = r,
    };
    if (!options->lacks_secret)
        take_secret(&r->store, options->secret);
    if (redis_is_cluster(&r->common)) {
        r->common.refused = cluster_refused;
        r->common.lost = link_lost;
        r->common.aim = aim;
    }
    r->common.connector = (struct connector){
        .connect = redis_node_connect,
        .close = redis_node_close,
        .allocator = options->allocator,
        .wake = options->wake,
        .wake_ctx = options->wake_ctx,
    };
    connector_init(&r->common.connector);
    redis_node_init(&r->node, &r->common, &uri->addresses[0], options->log, options->log_ctx);
    redis_slots_init(&r->slots, &r->common, options->log, options->log_ctx);
    redis_upkeep_init(&r->upkeep, &r->node, &r->slots, options);
    redis_ledger_init(&r->ledger, &r->common.uri);
    explicit_bzero(uri, sizeof *uri);
}

static void warn_of_tls(const struct redis *r)
{
    const char *warning = redis_tls_context_warning(r->common.uri.tls_context);
    char line[CONNECTOR_WHY + 160];

    if (!warning || !r->upkeep.log)
        return;
    snprintf(line, sizeof line, "TLS to Redis: %s", warning);
    r->upkeep.log(r->upkeep.log_ctx, line);
}

static weir_err open_redis(struct store **out, const struct store_options *options, weir_diag *diag)
{
    struct redis_uri uri;
    struct redis *r;
    weir_diag ignored;
    weir_err err = redis_uri_read(&uri, options->uri, diag);

    if (err)
        return err;
    r = alloc_zeroed(&options->allocator, sizeof *r);
    if (!r) {
        redis_uri_done(&uri);
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    init(r, options, &uri);
    warn_of_tls(r);
    if (!options->lacks_secret)
        err = try_server(r, diag ? diag : &ignored);
    if (!err && options->heard)
        err = redis_is_cluster(&r->common)
                  ? redis_cluster_feed_new(&r->feed, &r->slots, options, diag)
                  : redis_feed_new(&r->feed, &r->common.uri, options, diag);
    if (err) {
        close_redis(&r->store);
        return err;
    }
    *out = &r->store;
    return WEIR_OK;
}

static weir_err history_store(struct store *s, struct history_store **out,
                              const struct history_store_options *options, weir_diag *diag)
{
    return history_store_open_redis(out, &redis_of(s)->common.uri, options, diag);
}

const struct store_ops redis_store_ops = {
    .scheme = "redis:",
    .is_shared = true,
    .reserves = true,
    .open = open_redis,
    .history_store = history_store,
    .secret = redis_secret,
    .take_secret = take_secret,
    .attach = attach,
    .detach = remote_detach,
    .submit = remote_submit,
    .commit = remote_commit,
    .tick = tick,
    .append_entry = append_entry,
    .read_entries = read_entries,
    .stats = stats,
    .visit_held = visit_held,
    .close = close_redis,
};
