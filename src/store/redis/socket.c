/* socket.c - sockets that do not block, and waiting for them. */
#include "store/redis/socket.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"

static bool is_for_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

ssize_t socket_read(int fd, char *into, size_t room)
{
    ssize_t n;

    do
        n = recv(fd, into, room, 0);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = 0;
    if (n > 0)
        return n;
    return n < 0 && is_for_later() ? 0 : -1;
}

ssize_t socket_write(int fd, struct span bytes)
{
    ssize_t n;

    do
        n = send(fd, bytes.at, bytes.len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 && is_for_later() ? 0 : n;
}

bool socket_wait(int fd, short events, int64_t end)
{
    struct pollfd p = { .fd = fd, .events = events };
    int n;

    do {
        const int64_t left = end - clock_steady_ms();

        n = left > 0 ? poll(&p, 1, (int)left) : 0;
    } while (n < 0 && errno == EINTR);
    return n > 0;
}
