/* socket.h - sockets that do not block, and waiting for them. */
#ifndef WEIR_STORE_REDIS_SOCKET_H
#define WEIR_STORE_REDIS_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"

/* How many bytes; 0: none now; below 0: the connection is lost, see errno (0: the other side has
 * closed it). */
ssize_t socket_read(int fd, char *into, size_t room);
ssize_t socket_write(int fd, struct span bytes); /* raises no SIGPIPE */

/* Block until one of these events of poll(), or until this time of clock_steady_ms(): false. */
bool socket_wait(int fd, short events, int64_t end);

#endif
