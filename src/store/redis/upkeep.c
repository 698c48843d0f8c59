/* upkeep.c - what the thread of tick() does for a Redis store: see how full the servers are, and
 * whether they may drop counts. */
#include "store/redis/upkeep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { LOOK_MS = 1000 }; /* between two looks */

void redis_upkeep_init(struct redis_upkeep *u, const struct redis_common *common,
                       const struct redis_slots *slots, const struct store_options *options)
{
    *u = (struct redis_upkeep){
        .common = common,
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

/* Add what one server says. */
static weir_err look_at_server(struct redis_upkeep *u, struct redis_session *s, int64_t *keys,
                               int64_t *memory, weir_diag *diag)
{
    struct redis_reply *info;
    const weir_err err = redis_session_demand(s, &info, diag, "INFO", (char *)NULL);

    if (err)
        return err;
    *keys += info_keys(redis_reply_text(info), u->common->uri.db);
    *memory += info_number(redis_reply_text(info), "used_memory");
    look_at_eviction(u, redis_reply_text(info));
    redis_reply_free(info);
    return WEIR_OK;
}

static weir_err look_at_address(struct redis_upkeep *u, const struct redis_address *address,
                                int64_t *keys, int64_t *memory, weir_diag *diag)
{
    const struct redis_uri *uri = &u->common->uri;
    struct redis_session *s = NULL;
    weir_err err = redis_session_open(&s, uri, address, &uri->login, uri->db, diag);

    if (!err)
        err = look_at_server(u, s, keys, memory, diag);
    /* If the server has lost everything, the next process must find the secret in use. */
    if (!err && !redis_is_cluster(u->common))
        err = redis_keep_secret(&s, uri, &u->common->secret, diag);
    redis_session_close(s);
    return err;
}

static weir_err look_at_all(struct redis_upkeep *u, weir_diag *diag)
{
    int64_t keys = 0, memory = 0;
    struct redis_address master;
    weir_err err = WEIR_OK;

    if (redis_is_cluster(u->common)) {
        for (size_t i = 0; i < u->slots->node_count && !err; i++)
            if (redis_slots_has(u->slots, u->slots->nodes[i]))
                err = look_at_address(u, &u->slots->nodes[i]->address, &keys, &memory, diag);
    } else {
        err = redis_find_master(&u->common->uri, &master, diag);
        if (!err)
            err = look_at_address(u, &master, &keys, &memory, diag);
    }
    if (err)
        return err;
    u->keys = keys;
    u->memory = memory;
    return WEIR_OK;
}

void redis_upkeep_look(struct redis_upkeep *u)
{
    weir_diag diag;
    const weir_err err = look_at_all(u, &diag);

    if (err && !u->has_failed)
        log_line(u, "cannot read statistics of Redis: ", diag.text);
    u->has_failed = err;
    u->look_at = clock_steady_ms() + LOOK_MS;
}

void redis_upkeep_tick(struct redis_upkeep *u)
{
    if (clock_steady_ms() >= u->look_at)
        redis_upkeep_look(u);
}
