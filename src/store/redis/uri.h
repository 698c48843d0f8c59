/* uri.h - what a Redis store's URI says: the servers, the login, and how long to wait. */
#ifndef WEIR_STORE_REDIS_URI_H
#define WEIR_STORE_REDIS_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis/tls.h"
#include "weir.h"

enum { REDIS_HOST = 256, REDIS_NAME = 128, REDIS_PASSWORD = 512, REDIS_ADDRESSES = 16 };

struct redis_address {
    char host[REDIS_HOST]; /* or the path of a Unix socket */
    uint16_t port;         /* 0: of a Unix socket */
};

enum redis_kind { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER };

struct redis_login {
    char user[REDIS_NAME]; /* "": the default one */
    char password[REDIS_PASSWORD];
};

struct redis_uri {
    enum redis_kind kind;
    struct redis_address addresses[REDIS_ADDRESSES]; /* of the server, of Sentinels, or of nodes */
    size_t address_count;
    struct redis_login login, sentinel_login;
    char service[REDIS_NAME]; /* what Sentinel calls the master */
    int db;
    int64_t patience;      /* ms that a thread that may block waits for a server */
    int64_t deadline;      /* ms that a question may wait */
    size_t pool;           /* connections of a thread to one server */
    int64_t wait_replicas; /* that must have a change before it is answered */
    struct redis_tls_options tls;
    struct redis_tls_context *tls_context; /* NULL: plain text */
};

/* With rediss:// the files of its certificates are read. On failure there is nothing to be done
 * with it. No diag has the password. */
WEIR_MUSTCHECK weir_err redis_uri_read(struct redis_uri *out, const char *uri, weir_diag *diag);
void redis_uri_done(struct redis_uri *u);

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b);

enum { REDIS_SHOWN = REDIS_HOST + 16 };
void redis_address_show(const struct redis_address *a, char out[REDIS_SHOWN]);

#endif
