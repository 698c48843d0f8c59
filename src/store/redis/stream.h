/* stream.h - bytes to and from a Redis server. */
#ifndef WEIR_STORE_REDIS_STREAM_H
#define WEIR_STORE_REDIS_STREAM_H

#include <sys/types.h>

#include "base/span.h"
#include "store/redis/uri.h"

struct redis_stream {
    int fd; /* -1: none */
};

/* Blocks: for name lookups, and no longer than `patience` ms for the server. */
WEIR_MUSTCHECK weir_err redis_stream_open(struct redis_stream *out,
                                          const struct redis_address *address, int64_t patience,
                                          weir_diag *diag);
void redis_stream_close(struct redis_stream *s);

/* Without waiting: how many bytes; 0: none now; below 0: the connection is lost, see errno (0: the
 * server has closed it). */
ssize_t redis_stream_read(struct redis_stream *s, char *into, size_t room);
ssize_t redis_stream_write(struct redis_stream *s, struct span bytes);

#endif
