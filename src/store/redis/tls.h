/* tls.h - TLS to Redis servers, over sockets that do not block.
 *
 * A context is shared by all threads of a store, a connection is used by one at a time. A build
 * without OpenSSL has no contexts: no_tls.c says so where one is asked for. */
#ifndef WEIR_STORE_REDIS_TLS_H
#define WEIR_STORE_REDIS_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"
#include "weir.h"

struct redis_tls_context; /* which servers to trust, and who we are */
struct redis_tls;         /* one connection's */

enum redis_tls_verify {
    REDIS_VERIFY_FULL, /* the certificate is valid, and for the server that was asked for */
    REDIS_VERIFY_CA,   /* it is valid: any server of that authority will do */
    REDIS_VERIFY_NONE, /* any certificate will do */
};

#define REDIS_TLS_NOT_SPOKEN                                                                       \
    "the server does not use TLS on this port: give the port that does, or use redis:// instead "  \
    "of rediss://"

enum { REDIS_TLS_PATH = 512, REDIS_TLS_NAME = 256 };

/* Files are PEM. */
struct redis_tls_options {
    enum redis_tls_verify verify;
    char ca[REDIS_TLS_PATH];                        /* "": whom the system trusts */
    char cert[REDIS_TLS_PATH], key[REDIS_TLS_PATH]; /* of the client; "": none */
    char server_name[REDIS_TLS_NAME];               /* that all servers have; "": by their host */
};

/* The files are read here; when one has changed, again before the next connection. */
WEIR_MUSTCHECK weir_err redis_tls_context_new(struct redis_tls_context **out,
                                              const struct redis_tls_options *options,
                                              weir_diag *diag);
void redis_tls_context_free(struct redis_tls_context *t); /* NULL is fine */

/* What works but should not stay so, or NULL: for the log. */
const char *redis_tls_context_warning(const struct redis_tls_context *t);

/* The handshake with a server of this name or address. Blocks, for `patience` ms at most. The
 * socket stays the caller's. WEIR_EOPTION: what is wrong is there to stay. `is_silent`: nothing
 * came in that time. */
WEIR_MUSTCHECK weir_err redis_tls_open(struct redis_tls **out, struct redis_tls_context *context,
                                       int fd, const char *host, int64_t patience, bool *is_silent,
                                       weir_diag *diag);
void redis_tls_close(struct redis_tls *t); /* NULL is fine */

/* Without waiting: how many bytes; 0: none now; below 0: the connection is lost. A read that gives
 * less than there is room for has given all that had come. */
ssize_t redis_tls_read(struct redis_tls *t, char *into, size_t room);
ssize_t redis_tls_write(struct redis_tls *t, struct span bytes);

/* After that: why. WEIR_OK: nothing has failed. */
weir_err redis_tls_problem(const struct redis_tls *t, const char **why);

struct redis_tls_facts {
    char version[16];   /* "TLSv1.3" */
    int64_t valid_days; /* of the server's certificate, from now on */
};
void redis_tls_facts(const struct redis_tls *t, struct redis_tls_facts *out);

#endif
