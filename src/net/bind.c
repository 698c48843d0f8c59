/* bind.c - a listening socket for one socket address, or a helpful word about why there is none. */
#include "net/bind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "net/listener.h"
#include "net/port_owner.h"

enum { FIRST_FREE_PORT = 1024 };

static int set_on(int fd, int level, int option)
{
    const int on = 1;

    return setsockopt(fd, level, option, &on, sizeof on);
}

static int new_socket(const struct address *a)
{
    return socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static bool bind_tcp(int fd, const struct address *a, bool shares_port)
{
    return set_on(fd, SOL_SOCKET, SO_REUSEADDR) == 0 &&
           (!shares_port || set_on(fd, SOL_SOCKET, SO_REUSEPORT) == 0) &&
           (a->any.sa_family != AF_INET6 || set_on(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0) &&
           bind(fd, &a->any, a->len) == 0;
}

/* The mode is set before bind(), so that the socket is open to all at no moment; and behind it,
 * because the umask has been taken away from it. */
static bool bind_unix(int fd, const struct address *a)
{
    return fchmod(fd, LISTENER_UNIX_MODE) == 0 && bind(fd, &a->any, a->len) == 0 &&
           chmod(a->local.sun_path, LISTENER_UNIX_MODE) == 0;
}

int bind_probe(const struct address *a)
{
    int why = 0, fd = new_socket(a);

    if (fd < 0)
        return errno;
    if (!bind_tcp(fd, a, false))
        why = errno;
    close(fd);
    return why;
}

/* Remove a socket that no process listens on. */
static int remove_stale(const struct address *a)
{
    struct stat st;
    int fd, why = 0;

    if (lstat(a->local.sun_path, &st) != 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(st.st_mode))
        return EEXIST;
    fd = new_socket(a);
    if (fd < 0)
        return errno;
    if (connect(fd, &a->any, a->len) == 0 || errno == EAGAIN || errno == EPROTOTYPE)
        why = EADDRINUSE;
    else if (errno != ECONNREFUSED)
        why = errno;
    close(fd);
    if (why == 0 && unlink(a->local.sun_path) != 0)
        why = errno;
    return why;
}

int bind_listen(const struct address *a, int *out)
{
    bool is_unix = a->any.sa_family == AF_UNIX;
    int fd, why = is_unix ? remove_stale(a) : 0;

    if (why)
        return why;
    fd = new_socket(a);
    if (fd < 0)
        return errno;
    if ((is_unix ? bind_unix(fd, a) : bind_tcp(fd, a, true)) && listen(fd, LISTENER_BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    why = errno;
    close(fd);
    return why;
}

/* ---- what went wrong ------------------------------------------------------------------- */

static weir_err fail_unix(const char *path, int why, weir_diag *diag)
{
    switch (why) {
    case EADDRINUSE:
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on unix:%s: another program is listening there; stop it, "
                         "or choose another path",
                         path);
    case EEXIST:
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on unix:%s: this is a file, not a socket; remove it, or "
                         "choose another path",
                         path);
    case ENOENT:
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on unix:%s: its directory is missing; create it first",
                         path);
    case EACCES:
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on unix:%s: this user may not write to its directory",
                         path);
    default:
        return diag_fail(diag, WEIR_ESYSTEM, "cannot listen on unix:%s: %s", path, strerror(why));
    }
}

static weir_err fail_in_use(const char *name, int port, weir_diag *diag)
{
    char owner[128], self[32];

    if (!port_owner(port, owner, sizeof owner))
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on %s: the port is in use by another program; stop it, or "
                         "choose another port",
                         name);
    snprintf(self, sizeof self, "(process %ld)", (long)getpid());
    if (strstr(owner, self))
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on %s: another `listen` address has this port already",
                         name);
    return diag_fail(diag, WEIR_ESYSTEM,
                     "cannot listen on %s: the port is in use by %s; stop it, or choose another "
                     "port",
                     name, owner);
}

weir_err bind_fail(const struct address *a, int why, weir_diag *diag)
{
    char name[ADDRESS_NAME];
    int port = address_port(a);

    if (a->any.sa_family == AF_UNIX)
        return fail_unix(a->local.sun_path, why, diag);
    address_name(a, name);
    switch (why) {
    case EADDRINUSE:
        return fail_in_use(name, port, diag);
    case EACCES:
        if (port < FIRST_FREE_PORT)
            return diag_fail(diag, WEIR_ESYSTEM,
                             "cannot listen on %s: ports below %d are privileged; choose a higher "
                             "one, give weir CAP_NET_BIND_SERVICE, or let systemd open it",
                             name, FIRST_FREE_PORT);
        break;
    case EADDRNOTAVAIL:
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on %s: no interface of this machine has that address; `ip "
                         "address` lists them",
                         name);
    case EMFILE:
        return diag_fail(diag, WEIR_ESYSTEM,
                         "cannot listen on %s: too many open files; raise `ulimit -n`", name);
    default:
        break;
    }
    return diag_fail(diag, WEIR_ESYSTEM, "cannot listen on %s: %s", name, strerror(why));
}
