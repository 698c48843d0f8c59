/* listener.h - sockets that connections come from.
 *
 * An address is "HOST:PORT", "[IPV6]:PORT", "*:PORT" or ":PORT" (everything, of both families),
 * "localhost:PORT" (loopback, of both families) or "unix:PATH". Port 0 lets the system choose. */
#ifndef WEIR_NET_LISTENER_H
#define WEIR_NET_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "weir.h"

enum {
    LISTENER_BACKLOG = 4096,   /* connections that may wait to be accepted */
    LISTENER_UNIX_MODE = 0660, /* of a Unix socket: this user and group */
};

/* What LISTEN_FDNAMES calls a socket that a predecessor opened for an address of its settings. */
#define LISTENER_OWN_NAME "weir-own"

struct listener {
    int fd;      /* bound, listening, non-blocking, closed on exec */
    size_t loop; /* whose it is, unless is_shared */
    bool
        is_shared; /* by all loops: a Unix socket, or fewer were handed over than there are loops */
    bool is_unix;  /* else TCP */
    bool is_loopback; /* or a Unix socket: other machines cannot reach it */
    bool is_own;    /* opened for an address, by this process or the one it replaces; else given */
    char name[128]; /* "127.0.0.1:7878": with the port that was chosen, if 0 was asked for */
    char path[108]; /* of a Unix socket of our own: to be removed in the end; else "" */
    ino_t file;     /* what it was when it was opened */
};

struct listeners {
    struct listener *all;
    size_t count;
};

/* Open every address with one socket a loop (SO_REUSEPORT; a Unix socket has one for all).
 *
 * Sockets in LISTEN_FDS are taken over, and the variables removed from the environment, so this
 * comes before the first thread. If systemd gave them, they are all there is: `addresses` does not
 * matter. If they come from the process that this one replaces, those for an address that is
 * still asked for are used, the others closed, and only what is missing is opened.
 *
 * A Unix socket that no process listens on is removed. */
WEIR_MUSTCHECK weir_err listeners_open(struct listeners *l, const char *const *addresses, size_t n,
                                       size_t loops, weir_diag *diag);

/* Connections that wait in a socket's queue are reset when the last process that has it closes it:
 * before that, it is handed over or drained. removes_paths: no other process serves the Unix
 * sockets. */
void listeners_close(struct listeners *l, bool removes_paths);

static inline bool listener_is_for(const struct listener *l, size_t loop)
{
    return l->is_shared || l->loop == loop;
}

/* Is this an address that only this machine can reach? Also says whether it is one at all. */
WEIR_MUSTCHECK weir_err listener_check(const char *address, bool *is_loopback, weir_diag *diag);

#endif
