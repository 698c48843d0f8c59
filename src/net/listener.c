/* listener.c - sockets that connections come from: opened, given or handed over. */
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "net/address.h"
#include "net/bind.h"

enum {
    FIRST_GIVEN_FD = 3,
    MOST_GIVEN = 4096,
    PORT_ATTEMPTS = 16, /* at a port that is free in both families */
};

/* The number of the file with this name; 0: there is none. */
static ino_t file_at(const char *path)
{
    struct stat found;

    return lstat(path, &found) == 0 ? found.st_ino : 0;
}

/* Takes over the fd: on failure it is closed. */
static bool add(struct listeners *l, int fd, bool is_own)
{
    struct listener *all = realloc(l->all, (l->count + 1) * sizeof *all), *new;
    struct address a;

    if (all)
        l->all = all;
    if (!all || !address_of(fd, &a)) {
        close(fd);
        return false;
    }
    new = &all[l->count++];
    *new = (struct listener){ .fd = fd, .is_own = is_own };
    new->is_unix = a.any.sa_family == AF_UNIX;
    new->is_loopback = address_is_loopback(&a);
    address_name(&a, new->name);
    if (new->is_unix && is_own) {
        memcpy(new->path, a.local.sun_path, sizeof new->path);
        new->file = file_at(new->path);
    }
    return true;
}

/* Another server may have the name since: then that is its own. */
static void remove_path(const struct listener *l)
{
    if (l->path[0] && file_at(l->path) == l->file)
        unlink(l->path);
}

/* Close all but the first `keep`. */
static void cut(struct listeners *l, size_t keep, bool removes_paths)
{
    while (l->count > keep) {
        const struct listener *last = &l->all[--l->count];

        if (last->fd < 0)
            continue;
        if (removes_paths)
            remove_path(last);
        close(last->fd);
    }
}

void listeners_close(struct listeners *l, bool removes_paths)
{
    cut(l, 0, removes_paths);
    free(l->all);
    *l = (struct listeners){ 0 };
}

/* One socket a loop; of a Unix socket one for all. If the port is 0, it is set to the one that the
 * system chose. Returns 0 or an errno. */
static int open_sockets(struct listeners *l, struct address *a, size_t loops)
{
    size_t n = a->any.sa_family == AF_UNIX ? 1 : loops;
    int why = address_port(a) != 0 ? bind_probe(a) : 0;

    for (size_t i = 0; i < n && why == 0; i++) {
        struct address bound;
        int fd = -1;

        why = bind_listen(a, &fd);
        if (why == 0 && address_port(a) == 0 && address_of(fd, &bound))
            address_set_port(a, address_port(&bound));
        if (why == 0 && !add(l, fd, true))
            why = ENOMEM;
    }
    return why;
}

/* ---- sockets that are there already ---------------------------------------------------- */

static int get_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

static weir_err adopt(struct listeners *l, int fd, bool is_own, weir_diag *diag)
{
    int domain = get_option(fd, SO_DOMAIN), flags = fcntl(fd, F_GETFL);

    if ((domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX) ||
        get_option(fd, SO_TYPE) != SOCK_STREAM || get_option(fd, SO_ACCEPTCONN) != 1)
        return diag_fail(diag, WEIR_EOPTION,
                         "LISTEN_FDS: descriptor %d is not a listening stream socket; in a systemd "
                         "socket unit, use ListenStream= and Accept=no",
                         fd);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return diag_fail(diag, WEIR_ESYSTEM, "LISTEN_FDS: descriptor %d: %s", fd, strerror(errno));
    if (!add(l, fd, is_own))
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    return WEIR_OK;
}

/* All in LISTEN_FDS, if they are meant for this process. */
static weir_err adopt_all(struct listeners *l, weir_diag *diag)
{
    const char *fds = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
    const char *names = getenv("LISTEN_FDNAMES");
    long n = fds ? strtol(fds, NULL, 10) : 0;
    weir_err err = WEIR_OK;

    if (n <= 0 || !pid || strtol(pid, NULL, 10) != (long)getpid())
        return WEIR_OK;
    if (n > MOST_GIVEN)
        return diag_fail(diag, WEIR_EOPTION, "LISTEN_FDS: at most %d, not %ld", MOST_GIVEN, n);
    for (int i = 0; i < (int)n && !err; i++) {
        size_t len = names ? strcspn(names, ":") : 0;
        bool is_own = len == strlen(LISTENER_OWN_NAME) &&
                      strncmp(names, LISTENER_OWN_NAME, len) == 0;

        err = adopt(l, FIRST_GIVEN_FD + i, is_own, diag);
        if (names)
            names = names[len] ? names + len + 1 : NULL;
    }
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    return err;
}

/* Move the sockets of an address from `from` to `to`. Port 0: any, and it is set to that. */
static bool take(struct listeners *from, struct listeners *to, struct address *a)
{
    bool found = false;

    for (size_t i = 0; i < from->count; i++) {
        struct address its, wanted = *a;

        if (from->all[i].fd < 0 || !address_of(from->all[i].fd, &its))
            continue;
        if (address_port(a) == 0)
            address_set_port(&wanted, address_port(&its));
        if (!address_equal(&wanted, &its))
            continue;
        if (add(to, from->all[i].fd, from->all[i].is_own)) {
            *a = wanted;
            found = true;
        }
        from->all[i].fd = -1;
    }
    return found;
}

static bool has(const struct listeners *l, const struct address *a)
{
    char name[ADDRESS_NAME];

    address_name(a, name);
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->all[i].name, name) == 0)
            return true;
    return false;
}

/* ---- all of it ------------------------------------------------------------------------- */

static bool is_without(int why)
{
    return why == EAFNOSUPPORT || why == EADDRNOTAVAIL;
}

/* All socket addresses of one text, with the same port. Fails with *why at *failed. */
static bool open_together(struct listeners *l, struct listeners *handed, struct address *all,
                          size_t n, size_t loops, int *why, struct address *failed)
{
    int port = address_port(&all[0]);
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        struct address a = all[i];
        size_t before = l->count;

        address_set_port(&a, port);
        *why = 0;
        if ((port != 0 || a.any.sa_family == AF_UNIX) && has(l, &a)) {
            any = true;
            continue;
        }
        if (!take(handed, l, &a))
            *why = open_sockets(l, &a, loops);
        if (*why) {
            *failed = a;
            cut(l, before, false);
            if (all[i].is_optional && is_without(*why) && (any || i + 1 < n))
                continue;
            return false;
        }
        any = true;
        port = address_port(&a);
    }
    return any;
}

static weir_err open_address(struct listeners *l, struct listeners *handed, const char *text,
                             size_t loops, weir_diag *diag)
{
    struct address all[ADDRESS_MOST], failed = { 0 };
    size_t n, before = l->count;
    weir_err err;
    int why = 0;

    err = address_parse(text, all, &n, diag);
    if (err)
        return err;
    for (int attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
        if (open_together(l, handed, all, n, loops, &why, &failed))
            return WEIR_OK;
        cut(l, before, false);
        if (why != EADDRINUSE || address_port(&all[0]) != 0)
            break;
    }
    return bind_fail(&failed, why, diag);
}

/* A group is the sockets of one address. With fewer than loops, all serve all of it. */
static void share_out(struct listeners *l, size_t loops)
{
    for (size_t i = 0; i < l->count; i++) {
        struct listener *this = &l->all[i];
        size_t before = 0, group = 0;

        for (size_t k = 0; k < l->count; k++)
            if (strcmp(l->all[k].name, this->name) == 0) {
                before += k < i;
                group++;
            }
        this->is_shared = this->is_unix || group < loops;
        this->loop = this->is_shared ? 0 : before % loops;
    }
}

weir_err listeners_open(struct listeners *l, const char *const *addresses, size_t n, size_t loops,
                        weir_diag *diag)
{
    struct listeners handed = { 0 };
    bool are_given = false, is_first;
    weir_err err;

    *l = (struct listeners){ 0 };
    err = adopt_all(&handed, diag);
    is_first = handed.count == 0;
    for (size_t i = 0; i < handed.count; i++)
        are_given |= !handed.all[i].is_own;
    if (!err && are_given) {
        *l = handed;
        handed = (struct listeners){ 0 };
    }
    for (size_t i = 0; i < n && !err && !are_given; i++)
        err = open_address(l, &handed, addresses[i], loops, diag);
    share_out(l, loops);
    listeners_close(&handed, false);
    if (err)
        listeners_close(l, is_first); /* else they may be the predecessor's */
    return err;
}

weir_err listener_check(const char *address, bool *is_loopback, weir_diag *diag)
{
    struct address all[ADDRESS_MOST];
    size_t n;
    weir_err err = address_parse(address, all, &n, diag);

    if (err)
        return err;
    *is_loopback = true;
    for (size_t i = 0; i < n; i++)
        *is_loopback = *is_loopback && address_is_loopback(&all[i]);
    return WEIR_OK;
}
