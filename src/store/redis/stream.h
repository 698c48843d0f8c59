/* stream.h - bytes to and from a Redis server. */
#ifndef WEIR_STORE_REDIS_STREAM_H
#define WEIR_STORE_REDIS_STREAM_H

#include <sys/types.h>

#include "base/span.h"
#include "store/redis/tls.h"
#include "store/redis/uri.h"

struct redis_stream {
    int fd;                /* -1: none */
    struct redis_tls *tls; /* NULL: plain text */
};

/* Blocks: for name lookups, and for the server no longer than `patience` ms to connect, and as long
 * again for TLS. NULL is for plain text. WEIR_EIO: the server cannot be reached, or not now; any
 * other error is there to stay. */
WEIR_MUSTCHECK weir_err redis_stream_open(struct redis_stream *out,
                                          const struct redis_address *address,
                                          struct redis_tls_context *tls, int64_t patience,
                                          weir_diag *diag);
void redis_stream_close(struct redis_stream *s);

/* Without waiting: how many bytes; 0: none now; below 0: the connection is lost. A read that gives
 * less than there is room for has given all that had come. */
ssize_t redis_stream_read(struct redis_stream *s, char *into, size_t room);
ssize_t redis_stream_write(struct redis_stream *s, struct span bytes);

/* After that, with errno as it was left: why. Errors as of redis_stream_open(). */
weir_err redis_stream_problem(const struct redis_stream *s, const char **why);

#endif
