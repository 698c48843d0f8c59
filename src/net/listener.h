/* listener.h - sockets that connections come from. */
#ifndef WEIR_NET_LISTENER_H
#define WEIR_NET_LISTENER_H

#include <stdbool.h>
#include <stddef.h>

#include "weir.h"

enum { LISTENER_MOST = 64 };

/* Bound and listening file descriptors: for each address one a loop (SO_REUSEPORT), for a Unix
 * socket and for one that was handed over, the same for all. */
struct listeners {
    struct {
        int fd;
        bool is_unix;
        bool is_loopback; /* or a Unix socket */
        bool is_shared;   /* by all loops */
        char name[128];   /* "127.0.0.1:7878": with the port that was chosen, if 0 was asked for */
        char path[108];   /* of a Unix socket we made: to be removed */
    } all[LISTENER_MOST];
    size_t count;
    bool was_handed_over;
};

/* Open all addresses for `loops` loops; or take over those of LISTEN_FDS (systemd, or the process
 * that this one replaces), whose LISTEN_FDNAMES do not matter. A stale Unix socket is removed, one
 * that somebody listens on is not. */
WEIR_MUSTCHECK weir_err listeners_open(struct listeners *l, const char *const *addresses, size_t n,
                                       size_t loops, weir_diag *diag);
void listeners_close(struct listeners *l, bool removes_paths);

/* Is this an address that only this machine can reach? Also says whether it is one at all. */
WEIR_MUSTCHECK weir_err listener_check(const char *address, bool *is_loopback, weir_diag *diag);

#endif
