/* settings.h - how a server is to run: from its flags, its environment and `server:` in the file. */
#ifndef WEIR_SERVER_SETTINGS_H
#define WEIR_SERVER_SETTINGS_H

#include "policy/ip.h"
#include "weir.h"

enum {
    SETTINGS_MOST_LISTENERS = 8,
    SETTINGS_MOST_TOKENS = 16,
    SETTINGS_MOST_PROXIES = 32,
};

/* Who may do what. */
enum scope {
    SCOPE_CHECK = 1 << 0,   /* check, peek, refund, gate, RESP */
    SCOPE_ADMIN = 1 << 1,   /* reset, reload, policies, top, stats */
    SCOPE_METRICS = 1 << 2, /* /metrics, /v1/stats */
    SCOPE_ALL = SCOPE_CHECK | SCOPE_ADMIN | SCOPE_METRICS,
};

struct token_file {
    const char *path;
    unsigned scopes;
};

struct server_settings {
    const char *config;      /* the policy file; NULL: only limits that come with requests */
    const char *store;       /* "file:DIR" … */
    const char *sync;        /* NULL: the store's default */
    const char *secret_file; /* NULL: the store's directory */
    int64_t max_keys;        /* 0: the default */
    bool trusts_client_clock;

    const char *listen[SETTINGS_MOST_LISTENERS]; /* "127.0.0.1:7878", "[::]:7878", "unix:/path" */
    size_t listen_count;
    int threads;                /* 0: as many as there are cores */
    int64_t max_connections;    /* of the whole server */
    int64_t idle_timeout_ms;    /* between two requests */
    int64_t request_timeout_ms; /* from a request's first byte to its last */
    int64_t drain_timeout_ms;   /* SIGTERM: what is in flight has so long to end */

    struct token_file tokens[SETTINGS_MOST_TOKENS];
    size_t token_count;
    struct cidr trusted_proxies[SETTINGS_MOST_PROXIES];
    size_t trusted_proxy_count;

    const char *tls_cert, *tls_key; /* PEM files; NULL: no TLS */
    const char *tls_client_ca;      /* NULL: no client certificates are asked for */
    bool allows_plain;    /* beside TLS: plain connections too; default: refused off loopback */
    const char *log_file; /* NULL: stderr */
};

/* The defaults, then `server:` of the config file (if it has one), for a caller to lay its flags
 * over. Texts live until settings_done(). On failure the diag has file:line:column. */
WEIR_MUSTCHECK weir_err settings_load(struct server_settings *s, const char *config,
                                      weir_diag *diag);

/* After the flags: do they go together? A listener off loopback needs a token, for example. */
WEIR_MUSTCHECK weir_err settings_check(struct server_settings *s, weir_diag *diag);
void settings_done(struct server_settings *s);

#endif
