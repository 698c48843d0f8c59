/* connection.h - a lane's connection to Postgres: a statement for each batch, in a pipeline.
 *
 * The connector makes the connection, in tick(), which may block. From then on it belongs to the
 * lane, and no call blocks. */
#ifndef WEIR_STORE_POSTGRES_CONNECTION_H
#define WEIR_STORE_POSTGRES_CONNECTION_H

#include <stdatomic.h>

#include "store/postgres/uri.h"
#include "store/remote/connector.h"
#include "store/remote/remote.h"

/* What all connections of a store have in common. */
struct postgres_common {
    struct postgres_uri uri;
    unsigned char secret_id[16];
    atomic_bool has_secret; /* until then no connection is made */
    atomic_bool is_pooled;  /* a connection has met a pooler that pools transactions */
    struct connector connector;
    weir_allocator allocator;
    bool brings_now;
};

/* Its backend is a struct postgres_common. */
extern const struct backend_ops postgres_connection_ops;

/* WEIR_EIO: the secret is not known yet. */
WEIR_MUSTCHECK weir_err postgres_common_ready(const struct postgres_common *common,
                                              weir_diag *diag);

/* What is known of a pooler, or what the URI says. */
enum postgres_pooler postgres_common_pooler(const struct postgres_common *common);

/* For the connector, whose target is the struct postgres_common. */
weir_err postgres_common_connect(void *target, void **out, weir_diag *diag);
void postgres_common_close(void *session);

#endif
