/* connection.h - a lane's connection to a Redis server.
 *
 * The connector makes the connection, in tick(), which may block. From then on it belongs to the
 * lane, and no call blocks. */
#ifndef WEIR_STORE_REDIS_CONNECTION_H
#define WEIR_STORE_REDIS_CONNECTION_H

#include "store/remote/backend.h"

/* Its backend is a struct redis_node. */
extern const struct backend_ops redis_connection_ops;

#endif
