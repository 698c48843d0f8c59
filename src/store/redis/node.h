/* node.h - one Redis server that is asked: its links, and what is known of it. */
#ifndef WEIR_STORE_REDIS_NODE_H
#define WEIR_STORE_REDIS_NODE_H

#include <stdatomic.h>

#include "store/redis/uri.h"
#include "store/remote/connector.h"
#include "store/remote/remote.h"

struct redis_node;
struct redis_session;

/* What all nodes of a store have in common. */
struct redis_common {
    struct redis_uri uri;
    struct secret secret;
    atomic_bool has_secret; /* until then no connection is made */
    struct connector connector;
    weir_allocator allocator;
    bool brings_now;
    const _Atomic unsigned *after_errors;

    /* In a cluster: the server did not do what it was asked, and said why. The question is told
     * when its batch is. NULL: no cluster. */
    void (*refused)(struct redis_node *node, struct question *q, struct span error);
    void (*lost)(struct redis_node *node);           /* a link of it; may be NULL */
    bool (*aim)(void *node, struct question *probe); /* see remote.h; NULL: no cluster */
    void *ctx;
};

static inline bool redis_is_cluster(const struct redis_common *common)
{
    return common->uri.kind == REDIS_CLUSTER;
}

struct redis_node {
    struct remote remote;
    struct redis_common *common;
    struct redis_address address; /* of no use where Sentinel knows it */
    char name[REDIS_SHOWN + 16];  /* for people */
    size_t number;                /* in a cluster, among its nodes */
    struct redis_session *upkeep; /* of tick() alone, to look at it; NULL: none now */
};

/* WEIR_EIO: the secret is not known yet. */
WEIR_MUSTCHECK weir_err redis_common_ready(struct redis_common *common, weir_diag *diag);

void redis_node_init(struct redis_node *node, struct redis_common *common,
                     const struct redis_address *address, void (*log)(void *ctx, const char *line),
                     void *log_ctx);

void redis_node_done(struct redis_node *node);

/* For the connector, whose targets are nodes. */
weir_err redis_node_connect(void *target, void **out, weir_diag *diag);
void redis_node_close(void *session);

#endif
