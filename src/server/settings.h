/* settings.h - how a server is to run: from its flags, from the environment, and from `server:` in
 * the policy file.
 *
 * Paths in the file are relative to the directory that the file is in, so that it means the same
 * wherever the server is started; those of flags and variables are relative to the working
 * directory. */
#ifndef WEIR_SERVER_SETTINGS_H
#define WEIR_SERVER_SETTINGS_H

#include "base/arena.h"
#include "policy/ip.h"
#include "policy/problems.h"
#include "server/log/log_format.h"
#include "weir.h"

enum {
    SETTINGS_MOST_LISTENERS = 8,
    SETTINGS_MOST_TOKENS = 16,
    SETTINGS_MOST_TOKEN_NAME = 64, /* bytes */
    SETTINGS_MOST_PROXIES = 32,
    SETTINGS_MOST_ORIGINS = 16,
    SETTINGS_MOST_THREADS = 64,
    SETTINGS_MOST_CONNECTIONS = 1 << 20,
    SETTINGS_MOST_ATTRIBUTES = 32, /* of the resource that telemetry is about … */
    SETTINGS_MOST_ATTRIBUTE_NAME = 255,
    SETTINGS_MOST_ATTRIBUTE = 1024, /* … and bytes of each */
};

/* Who may do what. */
enum scope {
    SCOPE_CHECK = 1 << 0,   /* check, peek, refund, gate, RESP */
    SCOPE_ADMIN = 1 << 1,   /* reset, reload, policies, top, stats */
    SCOPE_METRICS = 1 << 2, /* /metrics, /v1/stats */
    SCOPE_RESET = 1 << 3,   /* reset: for a limiter that clears a client's counter */
    SCOPE_VIEW = 1 << 4,    /* all that admin may read, and nothing that changes */
    SCOPE_ALL = SCOPE_CHECK | SCOPE_ADMIN | SCOPE_METRICS | SCOPE_RESET | SCOPE_VIEW,
};

enum { SCOPE_COUNT = 5 };
extern const char *const scope_words[SCOPE_COUNT]; /* by their bits */

/* Which of them would do, for people: "admin or reset". */
const char *scopes_text(unsigned scopes);

/* Where a token is: in a file, or in a text of which the caller keeps the bytes. */
struct token_source {
    const char *path; /* NULL: it is the text */
    unsigned scopes;
    const char *text;
    const char *name; /* of whom it is, for the audit log; NULL: as its file is called */
};

/* What is sent to a receiver of OpenTelemetry, and of which checks. */
struct telemetry_settings {
    const char *endpoint;     /* of OTLP by HTTP, without /v1/…; NULL: nothing is sent */
    const char *headers_file; /* of more headers, such as an API key; NULL: none */
    const char *headers;      /* the same as name=value,… from the environment; NULL: none */
    const char *ca;           /* PEM file; NULL: whom the system trusts */
    int64_t interval_ms;      /* between two looks at the metrics */
    int64_t timeout_ms;       /* of a request */
    bool sends_metrics;
    bool follows_caller;         /* spans of checks whose caller records the trace … */
    int denied_share, all_share; /* … and of a share of others; of SHARE_ALL */
    bool logs_traces;            /* lines of the log have the ids of the caller's trace … */
    bool logs_is_given;          /* … by the file; else if there is an endpoint */
    const char *service_name;    /* NULL: weir */
    struct resource_attribute {
        const char *name, *value;
    } attributes[SETTINGS_MOST_ATTRIBUTES];
    size_t attribute_count;
    const char *warning; /* about the environment; NULL: none */
};

/* Envoy's rate limit service. */
struct envoy_settings {
    const char *config;          /* for envoyproxy/ratelimit: a file or a directory; NULL: none */
    bool counts_refused;         /* each descriptor is charged, whatever the others say */
    bool denies_unknown_domains; /* default: they are not limited */
    bool denies_at_limit;        /* what only looks is over the limit where nothing remains */
    bool is_shadow, is_quota;    /* all limits are */
    bool merges_domains;         /* several files may have the same */
    bool sends_metadata;
    bool sends_headers;
    const char *limit_header, *remaining_header, *reset_header; /* their names */
};

/* How connections are read from and sent to. auto: by io_uring if the kernel allows. */
enum io_way { IO_EPOLL, IO_URING, IO_AUTO, IO_WAYS };
extern const char *const io_way_names[IO_WAYS];

struct server_settings {
    const char *config;      /* the policy file; NULL: only limits that come with requests */
    bool config_is_found;    /* where it was looked for, as none was named */
    const char *store;       /* "file:DIR" … */
    const char *sync;        /* NULL: the store's default */
    const char *secret_file; /* NULL: the store's directory */
    int64_t max_keys;        /* 0: the default */
    bool trusts_client_clock;

    const char *listen[SETTINGS_MOST_LISTENERS]; /* "127.0.0.1:7878", "[::]:7878", "unix:/path" */
    size_t listen_count;
    enum io_way io;
    int threads;                   /* 0: as many as there are cores */
    int64_t max_connections;       /* of the whole server */
    int64_t idle_timeout_ms;       /* between two requests */
    int64_t request_timeout_ms;    /* from a request's first byte to its last */
    int64_t drain_timeout_ms;      /* SIGTERM: what is in flight has so long to end */
    int64_t max_connection_age_ms; /* of HTTP: then its client is asked to connect again */

    struct token_source tokens[SETTINGS_MOST_TOKENS];
    size_t token_count;
    const char *token_variable; /* of the environment, which they come from; NULL: from elsewhere */
    struct cidr trusted_proxies[SETTINGS_MOST_PROXIES];
    size_t trusted_proxy_count;

    const char *origins[SETTINGS_MOST_ORIGINS]; /* whose pages may change something, too */
    size_t origin_count;

    const char *tls_cert, *tls_key; /* PEM files; NULL: no TLS */
    const char *tls_client_ca;      /* NULL: no client certificates are asked for */
    bool allows_plain;    /* beside TLS: plain connections too; default: refused off loopback */
    const char *log_file; /* NULL: stderr */
    enum log_level log_level;
    enum log_format log_format;

    struct telemetry_settings telemetry;
    struct envoy_settings envoy;

    uint32_t in_file;     /* a bit for each key that `server:` has */
    const char *warnings; /* lines about the environment, for the log; NULL: there are none */
    struct arena texts;   /* what of all this had to be copied */
};

/* Reads them anew, as they are by now: the file, and the flags over it. */
struct settings_source {
    weir_err (*read)(void *ctx, struct server_settings *out, weir_diag *diag);
    void *ctx;
};

/* The defaults, then `server:` of the config file (if it has one), for a caller to lay its flags
 * over. Texts live until settings_done(). On failure the diag has file:line:column. */
WEIR_MUSTCHECK weir_err settings_load(struct server_settings *s, const char *config,
                                      weir_diag *diag);

/* After the flags: do they go together? A listener off loopback needs a token, for example. */
WEIR_MUSTCHECK weir_err settings_check(struct server_settings *s, weir_diag *diag);

/* What cannot be changed by a reload, and is another in `b`: its name in the file; NULL:
 * nothing. */
const char *settings_fixed_difference(const struct server_settings *a,
                                      const struct server_settings *b);

/* Must every client show a token or a certificate? */
bool settings_keep_strangers_out(const struct server_settings *s);

/* The first address that others can reach, with nothing to keep them out; NULL: there is none. */
const char *settings_open_listener(const struct server_settings *s);
void settings_done(struct server_settings *s);

/* Append to one of the lists. The diag says what would be right. */
WEIR_MUSTCHECK weir_err settings_add_listener(struct server_settings *s, struct span address,
                                              weir_diag *diag);
WEIR_MUSTCHECK weir_err settings_add_token(struct server_settings *s, struct span path,
                                           unsigned scopes, struct span name, weir_diag *diag);

/* The token itself, for a server that can be given no file; `text` must outlive the settings. */
WEIR_MUSTCHECK weir_err settings_add_token_text(struct server_settings *s, const char *text,
                                                unsigned scopes, weir_diag *diag);
WEIR_MUSTCHECK weir_err settings_add_proxy(struct server_settings *s, struct span network,
                                           weir_diag *diag);
WEIR_MUSTCHECK weir_err settings_add_origin(struct server_settings *s, struct span origin,
                                            weir_diag *diag);
WEIR_MUSTCHECK weir_err scope_read(struct span word, unsigned *scopes, weir_diag *diag); /* ORs */

/* Complain of what is wrong under `server:`. What is wrong with the YAML is for others to tell. */
void settings_lint(const char *file, struct span text, struct problems *problems);

/* Is this key, such as "max_keys", under `server:` of the file? */
bool settings_in_file(const struct server_settings *s, const char *key);

/* Each of `name=value,name=value`, with %XX in values decoded; the text is changed. NULL, or what
 * is wrong, by the text itself or by each(). */
typedef const char *settings_pair(void *ctx, const char *name, const char *value);
const char *settings_each_pair(char *list, settings_pair *each, void *ctx);

/* ---- for settings.c and settings_read.c ---- */

enum { SETTINGS_LEAST_TIMEOUT = 10, SETTINGS_MOST_TIMEOUT = 24 * 3600 * 1000 };

/* Read the tree of a policy file. Paths in it are below `directory`, which ends in '/' or is
 * empty. Whether there is a host of some name is only asked if it is for this machine. */
struct yaml;
void settings_read(struct server_settings *s, const struct yaml *root, struct span directory,
                   bool is_for_this_machine, const char *file, struct problems *problems);

#endif
