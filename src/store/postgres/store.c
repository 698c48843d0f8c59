/* store.c - the store in Postgres. */
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "store/history_store.h"
#include "store/postgres/connect.h"
#include "store/postgres/connection.h"
#include "store/postgres/feed.h"
#include "store/postgres/held.h"
#include "store/postgres/ledger.h"
#include "store/postgres/policies.h"
#include "store/postgres/upkeep.h"
#include "store/remote/server_lane.h"

struct postgres {
    struct store store; /* the first member */
    struct postgres_common common;
    struct remote remote;
    struct postgres_upkeep upkeep;
    struct postgres_ledger ledger;
    struct postgres_held held;
    struct change_feed *feed; /* NULL: not wanted */
    bool is_pooled;           /* and that has been logged */
};

static struct postgres *postgres_of(struct store *s)
{
    return (struct postgres *)s;
}

static void log_pooler(struct postgres *p)
{
    if (p->is_pooled || !atomic_load(&p->common.is_pooled))
        return;
    p->is_pooled = true;
    if (p->remote.log)
        p->remote.log(p->remote.log_ctx,
                      "a pooler is between this server and Postgres: settings are sent with each "
                      "batch, changes are asked for twice a second, and the deny cache is not "
                      "used. If it pools sessions, add pooler=session to the store's URI");
}

static void tick(struct store *s, int64_t now)
{
    struct postgres *p = postgres_of(s);

    (void)now; /* of a clock that may not be the database's */
    connector_work(&p->common.connector);
    log_pooler(p);
    if (p->feed)
        change_feed_tick(p->feed);
    postgres_upkeep_tick(&p->upkeep);
}

static void stats(struct store *s, weir_stats *out)
{
    remote_stats(&postgres_of(s)->remote, out);
}

static struct lane *attach(struct store *s, struct reactor *reactor)
{
    return server_lane_attach(&postgres_of(s)->remote, reactor);
}

/* ---- beside the states ----------------------------------------------------------------------- */

static weir_err append_entry(struct store *s, struct ledger_entry *e, weir_diag *diag)
{
    struct postgres *p = postgres_of(s);
    const weir_err err = postgres_common_ready(&p->common, diag);

    return err ? err : postgres_ledger_append(&p->ledger, e, diag);
}

static weir_err read_entries(struct store *s, uint64_t after, ledger_visit *visit, void *ctx,
                             weir_diag *diag)
{
    struct postgres *p = postgres_of(s);
    const weir_err err = postgres_common_ready(&p->common, diag);

    return err ? err : postgres_ledger_read(&p->ledger, after, visit, ctx, diag);
}

static weir_err visit_held(struct store *s, int64_t now, held_visit *visit, void *ctx,
                           weir_diag *diag)
{
    struct postgres *p = postgres_of(s);
    const weir_err err = postgres_common_ready(&p->common, diag);

    (void)now; /* the database knows which are too old */
    return err ? err : postgres_held_visit(&p->held, visit, ctx, diag);
}

static weir_err compare_policies(struct store *s, const char *documents,
                                 void (*each)(void *ctx, const char *name), void *ctx,
                                 weir_diag *diag)
{
    return postgres_policies_differ(postgres_of(s)->common.uri.conninfo, documents, each, ctx,
                                    diag);
}

static weir_err history_store(struct store *s, struct history_store **out,
                              const struct history_store_options *options, weir_diag *diag)
{
    return history_store_open_postgres(out, postgres_of(s)->common.uri.conninfo, options, diag);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void close_postgres(struct store *s)
{
    struct postgres *p = postgres_of(s);
    const weir_allocator allocator = p->common.allocator;

    change_feed_free(p->feed);
    postgres_ledger_done(&p->ledger);
    postgres_held_done(&p->held);
    postgres_upkeep_done(&p->upkeep);
    connector_done(&p->common.connector);
    postgres_uri_done(&p->common.uri);
    alloc_free(&allocator, p);
}

/* What is wrong with the database must be known when the store is opened. That it is away need not
 * be: it may be back before the first question. */
static weir_err try_connection(struct postgres *p, weir_diag *diag)
{
    char line[CONNECTOR_WHY + 64];
    const weir_err err = connector_try(&p->common.connector, &p->common, diag);

    if (err != WEIR_EIO)
        return err;
    snprintf(line, sizeof line, "Postgres cannot be reached, on_error decides until it can: %.*s",
             CONNECTOR_WHY, diag->text);
    if (p->remote.log)
        p->remote.log(p->remote.log_ctx, line);
    return WEIR_OK;
}

static void init_common(struct postgres_common *common, const struct store_options *options,
                        const struct postgres_uri *uri)
{
    common->uri = *uri;
    common->allocator = options->allocator;
    common->brings_now = options->callers_bring_now;
    memcpy(common->secret_id, options->secret_ids.apart, sizeof common->secret_id);
    atomic_init(&common->has_secret, !options->lacks_secret);
    atomic_init(&common->is_pooled, uri->pooler == POOLER_TRANSACTION);
    common->connector = (struct connector){
        .connect = postgres_common_connect,
        .close = postgres_common_close,
        .allocator = options->allocator,
        .wake = options->wake,
        .wake_ctx = options->wake_ctx,
    };
    connector_init(&common->connector);
}

static void init(struct postgres *p, const struct store_options *options,
                 const struct postgres_uri *uri)
{
    p->store.ops = &postgres_store_ops;
    init_common(&p->common, options, uri);
    p->remote = (struct remote){
        .ops = &postgres_connection_ops,
        .backend = &p->common,
        .name = "Postgres",
        .deadline = uri->deadline,
        .link_count = uri->pool,
        .after_errors = options->after_errors,
        .locked_keys = &p->upkeep.locked_keys,
        .allocator = options->allocator,
        .log = options->log,
        .log_ctx = options->log_ctx,
    };
    postgres_upkeep_init(&p->upkeep, &p->common, &p->remote);
    postgres_ledger_init(&p->ledger, p->common.uri.conninfo);
    postgres_held_init(&p->held, p->common.uri.conninfo);
}

static weir_err open_postgres(struct store **out, const struct store_options *options,
                              weir_diag *diag)
{
    struct postgres_uri uri;
    struct postgres *p;
    weir_diag ignored;
    weir_err err = postgres_uri_read(&uri, options->uri, &options->allocator, diag);

    if (err)
        return err;
    p = alloc_zeroed(&options->allocator, sizeof *p);
    if (!p) {
        postgres_uri_done(&uri);
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    init(p, options, &uri);
    if (!options->lacks_secret)
        err = try_connection(p, diag ? diag : &ignored);
    if (!err && options->heard)
        err = postgres_feed_new(&p->feed, &p->common, options, diag);
    if (err) {
        close_postgres(&p->store);
        return err;
    }
    *out = &p->store;
    return WEIR_OK;
}

static void take_secret(struct store *s, const struct secret *secret)
{
    struct postgres_common *common = &postgres_of(s)->common;

    hash_secret_id(secret, common->secret_id);
    atomic_store(&common->has_secret, true);
}

const struct store_ops postgres_store_ops = {
    .scheme = "postgres:",
    .is_shared = true,
    .reserves = true,
    .open = open_postgres,
    .secret = postgres_secret,
    .take_secret = take_secret,
    .attach = attach,
    .detach = remote_detach,
    .submit = remote_submit,
    .commit = remote_commit,
    .tick = tick,
    .append_entry = append_entry,
    .read_entries = read_entries,
    .compare_policies = compare_policies,
    .stats = stats,
    .visit_held = visit_held,
    .history_store = history_store,
    .close = close_postgres,
};
