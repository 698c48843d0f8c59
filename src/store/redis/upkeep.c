/* upkeep.c - what the thread of tick() does for a Redis store: see how full the servers are, and
 * whether they may drop counts. */
#include "store/redis/upkeep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"

enum { LOOK_MS = 1000 }; /* between two looks */

void redis_upkeep_init(struct redis_upkeep *u, struct redis_node *node,
                       const struct redis_slots *slots, const struct store_options *options)
{
    *u = (struct redis_upkeep){
        .common = node->common,
        .node = node,
        .slots = slots,
        .log = options->log,
        .log_ctx = options->log_ctx,
        .keys = -1,
        .memory = -1,
    };
}

static void log_line(const struct redis_upkeep *u, const char *text, const char *what)
{
    char line[CONNECTOR_WHY + 160];

    if (!u->log)
        return;
    snprintf(line, sizeof line, "%s%.*s", text, CONNECTOR_WHY, what);
    u->log(u->log_ctx, line);
}

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

static void look_at_eviction(struct redis_upkeep *u, struct span info)
{
    char policy[REDIS_FIELD];

    redis_evicts_by(info, policy);
    if (policy[0] && strcmp(policy, u->evicts_by) != 0)
        log_line(u, "Redis may evict live counts: set maxmemory-policy to noeviction; it is ",
                 policy);
    memcpy(u->evicts_by, policy, sizeof policy);
}

/* What the servers say, added up. */
struct sums {
    int64_t keys, memory;
    bool is_unseen; /* one of them does not say it */
};

static weir_err look_at_server(struct redis_upkeep *u, struct redis_session *s, struct sums *sums,
                               weir_diag *diag)
{
    struct redis_reply *info;
    char role[REDIS_FIELD];
    weir_err err = redis_session_request(s, &info, diag, "INFO", (char *)NULL);

    if (err)
        return err;
    if (!info) {
        sums->is_unseen = true;
        return WEIR_OK;
    }
    sums->keys += info_keys(redis_reply_text(info), u->common->uri.db);
    sums->memory += info_number(redis_reply_text(info), "used_memory");
    look_at_eviction(u, redis_reply_text(info));
    redis_info_field(redis_reply_text(info), "role", role);
    if (strcmp(role, "slave") == 0 && !redis_is_cluster(u->common))
        err = diag_fail(diag, WEIR_EIO, "the server is a replica now; only a master can count");
    redis_reply_free(info);
    return err;
}

static weir_err open_session(struct redis_upkeep *u, struct redis_node *node, weir_diag *diag)
{
    const struct redis_uri *uri = &u->common->uri;
    struct redis_address address = node->address;
    weir_err err = WEIR_OK;

    if (!redis_is_cluster(u->common))
        err = redis_find_master(uri, &address, diag);
    if (!err)
        err = redis_session_open(&node->upkeep, uri, &address, &uri->login, uri->db, diag);
    return err ? err : redis_introduce(node->upkeep, diag);
}

static void leave(struct redis_node *node)
{
    redis_session_close(node->upkeep);
    node->upkeep = NULL;
}

static weir_err try_node(struct redis_upkeep *u, struct redis_node *node, struct sums *sums,
                         weir_diag *diag)
{
    weir_err err = node->upkeep ? WEIR_OK : open_session(u, node, diag);

    if (!err)
        err = look_at_server(u, node->upkeep, sums, diag);
    /* If the server has lost everything, the next process must find the secret in use. */
    if (!err && !redis_is_cluster(u->common))
        err = redis_keep_secret(&node->upkeep, &u->common->uri, &u->common->secret, diag);
    if (err)
        leave(node);
    return err;
}

/* The session stays open: by TLS a new one each second would cost the server more than it tells. So
 * it may have been closed meanwhile, which a second try finds out. */
static weir_err look_at_node(struct redis_upkeep *u, struct redis_node *node, struct sums *sums,
                             weir_diag *diag)
{
    const struct sums before = *sums;
    const bool was_open = node->upkeep;
    weir_err err = try_node(u, node, sums, diag);

    if (err == WEIR_EIO && was_open) {
        *sums = before;
        err = try_node(u, node, sums, diag);
    }
    return err;
}

static weir_err look_at_all(struct redis_upkeep *u, struct sums *sums, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (!redis_is_cluster(u->common))
        return look_at_node(u, u->node, sums, diag);
    for (size_t i = 0; i < u->slots->node_count && !err; i++) {
        struct redis_node *node = u->slots->nodes[i];

        if (redis_slots_has(u->slots, node))
            err = look_at_node(u, node, sums, diag);
        else
            leave(node);
    }
    return err;
}

void redis_upkeep_look(struct redis_upkeep *u)
{
    struct sums sums = { 0 };
    weir_diag diag;
    const weir_err err = look_at_all(u, &sums, &diag);

    if (err && !u->has_failed)
        log_line(u, "cannot read statistics of Redis: ", diag.text);
    if (sums.is_unseen && !u->is_unseen)
        log_line(u, "cannot read statistics of Redis: ", "the user may not use INFO");
    if (!err) {
        u->keys = sums.is_unseen ? -1 : sums.keys;
        u->memory = sums.is_unseen ? -1 : sums.memory;
    }
    u->has_failed = err;
    u->is_unseen = sums.is_unseen;
    u->look_at = clock_steady_ms() + LOOK_MS;
}

void redis_upkeep_tick(struct redis_upkeep *u)
{
    if (clock_steady_ms() >= u->look_at)
        redis_upkeep_look(u);
}
