/* node.c - one Redis server that is asked: its links, and what is known of it. */
#include "store/redis/node.h"

#include <stdio.h>

#include "base/diag.h"
#include "store/redis/connect.h"
#include "store/redis/connection.h"
#include "store/redis/split.h"

void redis_node_init(struct redis_node *node, struct redis_common *common,
                     const struct redis_address *address, void (*log)(void *ctx, const char *line),
                     void *log_ctx)
{
    char shown[REDIS_SHOWN];

    redis_address_show(address, shown);
    snprintf(node->name, sizeof node->name, common->refused ? "Redis at %s" : "Redis", shown);
    node->common = common;
    node->address = *address;
    node->remote = (struct remote){
        .ops = &redis_connection_ops,
        .backend = node,
        .name = node->name,
        .deadline = common->uri.deadline,
        .link_count = common->uri.pool,
        .after_errors = common->after_errors,
        .probe_size = common->aim ? split_probe_size() : 0,
        .aim = common->aim,
        .allocator = common->allocator,
        .log = log,
        .log_ctx = log_ctx,
    };
}

void redis_node_done(struct redis_node *node)
{
    redis_session_close(node->upkeep);
}

weir_err redis_common_ready(struct redis_common *common, weir_diag *diag)
{
    return atomic_load(&common->has_secret)
               ? WEIR_OK
               : diag_fail(diag, WEIR_EIO, "the secret is in Redis, and not known yet");
}

weir_err redis_node_connect(void *target, void **out, weir_diag *diag)
{
    struct redis_node *node = target;
    struct redis_common *common = node->common;
    struct redis_session *session = NULL;
    weir_err err = redis_common_ready(common, diag);

    if (!err)
        err = redis_connect(&session, &common->uri, &node->address, &common->secret, diag);
    *out = session;
    return err;
}

void redis_node_close(void *session)
{
    redis_session_close(session);
}
