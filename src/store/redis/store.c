/* store.c - the store in Redis or Valkey: a script that decides, called once for each batch.
 *
 * Connections are made in tick(), which may wait, and handed over to the lane that requests for one.
 * From then on they are the lane's, and nothing waits. A cluster has a lane to each of its nodes;
 * see redis_cluster.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "store/history_store.h"
#include "store/redis/cluster.h"
#include "store/redis/connect.h"
#include "store/redis/feed.h"
#include "store/redis/ledger.h"
#include "store/redis/node.h"
#include "store/redis/slots.h"

enum { LOOK_MS = 1000, WHY = 256 }; /* between two looks at how it stands; bytes of text */

struct redis {
    struct store store;
    struct redis_common common;
    struct redis_node node;   /* unless there is a cluster */
    struct redis_slots slots; /* of the cluster */
    struct redis_ledger ledger;
    struct change_feed *feed; /* NULL: nobody wants to hear, or it is a cluster */
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    _Atomic int64_t keys, memory; /* when it was last looked at */

    /* Of tick() alone. */
    int64_t look_at;
    bool is_unwatched;           /* and that has been told */
    char evicts_by[REDIS_FIELD]; /* the same */
};

static bool is_cluster(const struct redis *r)
{
    return r->common.uri.kind == REDIS_CLUSTER;
}

static void tell(const struct redis *r, const char *text, const char *what)
{
    char line[WHY + 160];

    if (!r->log)
        return;
    snprintf(line, sizeof line, "%s%.*s", text, WHY, what);
    r->log(r->log_ctx, line);
}

/* ---- looking after ----------------------------------------------------------------------------- */

static int64_t info_number(struct span info, const char *name)
{
    char field[REDIS_FIELD];

    redis_info_field(info, name, field);
    return strtoll(field, NULL, 10);
}

/* "keys=12,expires=3,..." */
static int64_t info_keys(struct span info, int db)
{
    char field[REDIS_FIELD], name[16];

    snprintf(name, sizeof name, "db%d", db);
    redis_info_field(info, name, field);
    return strncmp(field, "keys=", 5) == 0 ? strtoll(field + 5, NULL, 10) : 0;
}

static void look_at_eviction(struct redis *r, struct span info)
{
    char policy[REDIS_FIELD];

    redis_evicts_by(info, policy);
    if (policy[0] && strcmp(policy, r->evicts_by) != 0)
        tell(r,
             "Redis may throw counts away that are in force: set maxmemory-policy to noeviction; "
             "it is ",
             policy);
    memcpy(r->evicts_by, policy, sizeof policy);
}

/* Add what one server says. */
static weir_err look_at_server(struct redis *r, struct redis_session *s, int64_t *keys,
                               int64_t *memory, weir_diag *diag)
{
    struct redis_reply *info;
    const weir_err err = redis_session_demand(s, &info, diag, "INFO", (char *)NULL);

    if (err)
        return err;
    *keys += info_keys(redis_reply_text(info), r->common.uri.db);
    *memory += info_number(redis_reply_text(info), "used_memory");
    look_at_eviction(r, redis_reply_text(info));
    redis_reply_free(info);
    return WEIR_OK;
}

static weir_err look_at_address(struct redis *r, const struct redis_address *address, int64_t *keys,
                                int64_t *memory, weir_diag *diag)
{
    const struct redis_uri *uri = &r->common.uri;
    struct redis_session *s = NULL;
    weir_err err = redis_session_open(&s, uri, address, &uri->login, uri->db, diag);

    if (!err)
        err = look_at_server(r, s, keys, memory, diag);
    /* Whoever comes after everything was lost must find the secret of those who are there. */
    if (!err && !is_cluster(r))
        err = redis_keep_secret(&s, uri, &r->common.secret, diag);
    redis_session_close(s);
    return err;
}

static weir_err look_at_all(struct redis *r, weir_diag *diag)
{
    int64_t keys = 0, memory = 0;
    struct redis_address master;
    weir_err err = WEIR_OK;

    if (is_cluster(r)) {
        for (size_t i = 0; i < r->slots.node_count && !err; i++)
            if (redis_slots_has(&r->slots, r->slots.nodes[i]))
                err = look_at_address(r, &r->slots.nodes[i]->address, &keys, &memory, diag);
    } else {
        err = redis_find_master(&r->common.uri, &master, diag);
        if (!err)
            err = look_at_address(r, &master, &keys, &memory, diag);
    }
    if (err)
        return err;
    r->keys = keys;
    r->memory = memory;
    return WEIR_OK;
}

static void look(struct redis *r)
{
    weir_diag diag;
    const weir_err err = look_at_all(r, &diag);

    if (err && !r->is_unwatched)
        tell(r, "Redis cannot be looked after: ", diag.text);
    r->is_unwatched = err;
    r->look_at = clock_steady_ms() + LOOK_MS;
}

static bool has_failed(struct redis *r)
{
    if (!is_cluster(r))
        return r->node.remote.open_breakers > 0;
    for (size_t i = 0; i < r->slots.node_count; i++)
        if (r->slots.nodes[i]->remote.open_breakers > 0 &&
            redis_slots_has(&r->slots, r->slots.nodes[i]))
            return true;
    return false;
}

static void tick(struct store *s, int64_t now)
{
    struct redis *r = (struct redis *)s;
    const bool has_secret = atomic_load(&r->common.has_secret);

    (void)now; /* of a clock that may not be the server's */
    if (is_cluster(r) && has_secret)
        redis_slots_tick(&r->slots);
    connector_work(&r->common.connector);
    if (r->feed)
        change_feed_tick(r->feed);
    if (has_secret && clock_steady_ms() >= r->look_at && !has_failed(r))
        look(r);
}

static void stats(struct store *s, weir_stats *out)
{
    struct redis *r = (struct redis *)s;

    remote_stats(&r->node.remote, out);
    for (size_t i = 0; is_cluster(r) && i < r->slots.node_count; i++)
        out->store_failures += r->slots.nodes[i]->remote.failures;
    out->has_failed = has_failed(r);
    out->keys = r->keys;
    out->memory_bytes = r->memory;
}

/* ---- the ledger -------------------------------------------------------------------------------- */

static weir_err append_entry(struct store *s, struct ledger_entry *e, weir_diag *diag)
{
    struct redis *r = (struct redis *)s;
    const weir_err err = redis_common_ready(&r->common, diag);

    return err ? err : redis_ledger_append(&r->ledger, e, diag);
}

static weir_err read_entries(struct store *s, uint64_t after, ledger_visit *visit, void *ctx,
                             weir_diag *diag)
{
    struct redis *r = (struct redis *)s;
    const weir_err err = redis_common_ready(&r->common, diag);

    return err ? err : redis_ledger_read(&r->ledger, after, visit, ctx, diag);
}

/* ---- asking ------------------------------------------------------------------------------------ */

/* What callers know as a lane is a cluster's own kind, where there is one. */
static struct lane *attach(struct store *s, struct reactor *reactor)
{
    struct redis *r = (struct redis *)s;

    return is_cluster(r) ? (struct lane *)cluster_attach(&r->slots, reactor)
                         : remote_attach(&r->node.remote, reactor);
}

static void detach(struct store *s, struct lane *lane)
{
    if (is_cluster((struct redis *)s))
        cluster_detach((struct cluster_lane *)lane);
    else
        remote_detach(lane);
}

static void submit(struct store *s, struct pending *pending, struct question *q)
{
    (void)s;
    remote_submit(pending, q);
}

static void commit(struct store *s, struct pending *pending)
{
    if (is_cluster((struct redis *)s) && pending->lane)
        cluster_commit((struct cluster_lane *)pending->lane, pending);
    else
        remote_commit(pending);
}

/* ---- coming and going -------------------------------------------------------------------------- */

static void close_redis(struct store *s)
{
    struct redis *r = (struct redis *)s;
    const weir_allocator allocator = r->common.allocator;

    change_feed_free(r->feed);
    redis_ledger_done(&r->ledger);
    connector_done(&r->common.connector);
    redis_slots_done(&r->slots);
    redis_uri_done(&r->common.uri);
    explicit_bzero(&r->common.secret, sizeof r->common.secret);
    alloc_free(&allocator, r);
}

/* What is wrong with the server must be known when the store is opened. That it is away need not be:
 * it may be back before somebody asks. */
static weir_err try_server(struct redis *r, weir_diag *diag)
{
    const weir_err err = is_cluster(r) ? redis_slots_look_up(&r->slots, diag)
                                       : connector_try(&r->common.connector, &r->node, diag);

    if (!err)
        look(r);
    if (err != WEIR_EIO)
        return err;
    tell(r, "Redis cannot be reached, on_error decides until it can: ", diag->text);
    return WEIR_OK;
}

static void take_secret(struct store *s, const struct secret *secret)
{
    struct redis *r = (struct redis *)s;

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

    return cluster_aim(&r->slots, node, probe);
}

static void init(struct redis *r, const struct store_options *options, const struct redis_uri *uri)
{
    r->store.ops = &redis_store_ops;
    r->log = options->log;
    r->log_ctx = options->log_ctx;
    r->common = (struct redis_common){
        .uri = *uri,
        .allocator = options->allocator,
        .after_errors = options->after_errors,
        .brings_now = options->callers_bring_now,
        .ctx = r,
    };
    if (!options->lacks_secret)
        take_secret(&r->store, options->secret);
    if (is_cluster(r)) {
        r->common.refused = cluster_refused;
        r->common.lost = link_lost;
        r->common.aim = aim;
    }
    r->common.connector = (struct connector){
        .connect = redis_node_connect,
        .hang_up = redis_node_hang_up,
        .allocator = options->allocator,
        .wake = options->wake,
        .wake_ctx = options->wake_ctx,
    };
    connector_init(&r->common.connector);
    redis_node_init(&r->node, &r->common, &uri->addresses[0], options->log, options->log_ctx);
    redis_slots_init(&r->slots, &r->common, options->log, options->log_ctx);
    redis_ledger_init(&r->ledger, &r->common.uri);
}

static weir_err open_redis(struct store **out, const struct store_options *options, weir_diag *diag)
{
    struct redis_uri uri;
    struct redis *r;
    weir_diag unheard;
    weir_err err = redis_uri_read(&uri, options->uri, diag);

    if (err)
        return err;
    r = alloc_zeroed(&options->allocator, sizeof *r);
    if (!r) {
        redis_uri_done(&uri);
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    init(r, options, &uri);
    r->keys = r->memory = -1; /* until it was looked at */
    redis_uri_done(&uri);
    if (!options->lacks_secret)
        err = try_server(r, diag ? diag : &unheard);
    if (!err && options->heard && !is_cluster(r))
        err = redis_feed_new(&r->feed, &r->common.uri, options, diag);
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
    return history_store_open_redis(out, &((struct redis *)s)->common.uri, options, diag);
}

const struct store_ops redis_store_ops = {
    .scheme = "redis:",
    .is_shared = true,
    .open = open_redis,
    .history_store = history_store,
    .secret = redis_secret,
    .take_secret = take_secret,
    .attach = attach,
    .detach = detach,
    .submit = submit,
    .commit = commit,
    .tick = tick,
    .append_entry = append_entry,
    .read_entries = read_entries,
    .stats = stats,
    .close = close_redis,
};
