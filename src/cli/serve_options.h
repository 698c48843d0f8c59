/* serve_options.h - the settings of a server, from its command line and from the environment.
 *
 * `--max-keys` is WEIR_MAX_KEYS. The command line wins over the environment, and that over the
 * file. Tokens are the exception: those of the environment count only if there are no others, as
 * WEIR_TOKEN_FILE is also the token that the other commands show to a server. */
#ifndef WEIR_CLI_SERVE_OPTIONS_H
#define WEIR_CLI_SERVE_OPTIONS_H

#include "base/buf.h"
#include "cli/options.h"
#include "server/settings.h"

enum serve_option {
    SERVE_CONFIG,
    SERVE_ENVOY_CONFIG,
    SERVE_STORE,
    SERVE_SYNC,
    SERVE_SECRET_FILE,
    SERVE_LISTEN,
    SERVE_THREADS,
    SERVE_IO,
    SERVE_TOKEN_FILE,
    SERVE_TRUSTED_PROXIES,
    SERVE_ALLOWED_ORIGINS,
    SERVE_TLS_CERT,
    SERVE_TLS_KEY,
    SERVE_TLS_CLIENT_CA,
    SERVE_ALLOW_PLAIN,
    SERVE_TRUST_CLIENT_CLOCK,
    SERVE_MAX_KEYS,
    SERVE_MAX_CONNECTIONS,
    SERVE_IDLE_TIMEOUT,
    SERVE_REQUEST_TIMEOUT,
    SERVE_DRAIN_TIMEOUT,
    SERVE_MAX_CONNECTION_AGE,
    SERVE_LOG,
    SERVE_LOG_LEVEL,
    SERVE_LOG_FORMAT,
    SERVE_CHECK,
    SERVE_OPTION_COUNT
};

extern const struct option serve_options[SERVE_OPTION_COUNT];

/* Lay them over what the file says; options_add_variables() has added the environment's. False: it
 * was said on stderr what is wrong. */
bool serve_options_read(const struct arguments *a, struct server_settings *s);

/* The variable that a token would be taken from, and its value; NULL: there is none. */
const char *serve_token_variable(const char **value);

/* serve_environment.c: a line for each variable that looks like a setting, and is none. */
void serve_environment_warnings(struct buf *out);

#endif
