/* stream.c - bytes to and from a Redis server. */
#include "store/redis/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "store/redis/socket.h"

enum { PLAIN_PATIENCE_MS = 250 };

/* 0, or why not. */
static int wait_until_connected(int fd, int64_t patience)
{
    int err = 0;
    socklen_t size = sizeof err;

    if (!socket_wait(fd, POLLOUT, clock_steady_ms() + patience))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) == 0 ? err : errno;
}

/* 0 and the socket, or why not. */
static int connect_to(const struct sockaddr *address, socklen_t size, int64_t patience, int *out)
{
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    int why = 0;

    if (fd < 0)
        return errno;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (connect(fd, address, size) != 0)
        why = errno == EINPROGRESS ? wait_until_connected(fd, patience) : errno;
    if (why)
        close(fd);
    else
        *out = fd;
    return why;
}

static weir_err connect_socket(int *out, const char *path, int64_t patience, weir_diag *diag)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int why = ENAMETOOLONG;

    if (strlen(path) < sizeof address.sun_path) {
        strcpy(address.sun_path, path);
        why = connect_to((const struct sockaddr *)&address, sizeof address, patience, out);
    }
    return why ? diag_fail(diag, WEIR_EIO, "%s: %s", path, strerror(why)) : WEIR_OK;
}

static weir_err connect_host(int *out, const struct redis_address *a, int64_t patience,
                             weir_diag *diag)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    char port[8], shown[REDIS_SHOWN];
    int why;

    redis_address_show(a, shown);
    snprintf(port, sizeof port, "%u", a->port);
    why = getaddrinfo(a->host, port, &hints, &found);
    if (why)
        return diag_fail(diag, WEIR_EIO, "%s: %s", shown, gai_strerror(why));
    why = ECONNREFUSED;
    for (const struct addrinfo *i = found; i && why; i = i->ai_next)
        why = connect_to(i->ai_addr, i->ai_addrlen, patience, out);
    freeaddrinfo(found);
    return why ? diag_fail(diag, WEIR_EIO, "%s: %s", shown, strerror(why)) : WEIR_OK;
}

/* Redis without TLS takes a handshake for the beginning of a command, and waits for the rest. So
 * ask it for something that is no secret, on a connection of its own. */
static bool answers_plain_text(const struct redis_address *address)
{
    char first = '\0';
    int fd = -1;

    if (connect_host(&fd, address, PLAIN_PATIENCE_MS, NULL))
        return false;
    if (socket_write(fd, span_of("PING\r\n")) > 0 &&
        socket_wait(fd, POLLIN, clock_steady_ms() + PLAIN_PATIENCE_MS))
        (void)socket_read(fd, &first, 1);
    close(fd);
    return first == '+' || first == '-';
}

static weir_err secure(struct redis_stream *s, const struct redis_address *address,
                       struct redis_tls_context *tls, int64_t patience, weir_diag *diag)
{
    char shown[REDIS_SHOWN];
    weir_diag why;
    bool is_silent;
    const weir_err err = redis_tls_open(&s->tls, tls, s->fd, address->host, patience, &is_silent,
                                        &why);

    redis_address_show(address, shown);
    if (is_silent && answers_plain_text(address))
        return diag_fail(diag, WEIR_EOPTION, "%s: " REDIS_TLS_NOT_SPOKEN, shown);
    return err ? diag_fail(diag, err, "%s: %.300s", shown, why.text) : WEIR_OK;
}

weir_err redis_stream_open(struct redis_stream *out, const struct redis_address *address,
                           struct redis_tls_context *tls, int64_t patience, weir_diag *diag)
{
    weir_err err;

    *out = (struct redis_stream){ .fd = -1 };
    if (!address->port)
        return connect_socket(&out->fd, address->host, patience, diag);
    err = connect_host(&out->fd, address, patience, diag);
    if (!err && tls)
        err = secure(out, address, tls, patience, diag);
    if (err)
        redis_stream_close(out);
    return err;
}

void redis_stream_close(struct redis_stream *s)
{
    redis_tls_close(s->tls);
    s->tls = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

ssize_t redis_stream_read(struct redis_stream *s, char *into, size_t room)
{
    return s->tls ? redis_tls_read(s->tls, into, room) : socket_read(s->fd, into, room);
}

ssize_t redis_stream_write(struct redis_stream *s, struct span bytes)
{
    return s->tls ? redis_tls_write(s->tls, bytes) : socket_write(s->fd, bytes);
}

weir_err redis_stream_problem(const struct redis_stream *s, const char **why)
{
    const weir_err err = s->tls ? redis_tls_problem(s->tls, why) : WEIR_OK;

    if (err)
        return err;
    *why = errno ? strerror(errno) : "the server has closed the connection";
    return WEIR_EIO;
}
