/* address.h - the addresses that one can listen on, as people write them. */
#ifndef WEIR_NET_ADDRESS_H
#define WEIR_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "weir.h"

/* One socket address. */
struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    };
    socklen_t len;
    bool is_optional; /* the other family is enough, where this one is not to be had */
};

enum { ADDRESS_MOST = 8, ADDRESS_NAME = 128 }; /* addresses of one name; bytes of a text */

/* All socket addresses that `text` stands for. */
WEIR_MUSTCHECK weir_err address_parse(const char *text, struct address out[ADDRESS_MOST],
                                      size_t *count, weir_diag *diag);

/* Of a socket. */
bool address_of(int fd, struct address *out);

int address_port(const struct address *a); /* 0 for a Unix socket */
void address_set_port(struct address *a, int port);
bool address_is_loopback(const struct address *a);                    /* or a Unix socket */
void address_name(const struct address *a, char name[ADDRESS_NAME]);  /* "[::1]:7878" */
bool address_equal(const struct address *a, const struct address *b); /* the port counts */

#endif
