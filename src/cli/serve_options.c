/* serve_options.c - the settings of a server, from its command line and from the environment. */
#include "cli/serve_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "cli/terminal.h"

const struct option serve_options[SERVE_OPTION_COUNT] = {
    [SERVE_CONFIG] = { "config", 'c', "FILE", NULL, .variable = "WEIR_CONFIG" },
    [SERVE_ENVOY_CONFIG] = { "envoy-config", 0, "PATH", "policies, settings; limits for Envoy",
                             .variable = "WEIR_ENVOY_CONFIG" },
    [SERVE_STORE] = { "store", 0, "URI", "where counters live; default: file:weir-data",
                      .words = OPTION_STORES, .variable = "WEIR_STORE" },
    [SERVE_SYNC] = { "sync", 0, "MODE", "of file:DIR; always, os or a time; default: 50ms",
                     .words = "always os 50ms", .variable = "WEIR_SYNC" },
    [SERVE_SECRET_FILE] = { "secret-file", 0, "FILE", "secret of the hashes; created if missing",
                            .variable = "WEIR_SECRET_FILE" },
    [SERVE_LISTEN] = { "listen", 0, "ADDR,...", "HOST:PORT, unix:PATH; default: 127.0.0.1:7878",
                       .only_once = true, .variable = "WEIR_LISTEN" },
    [SERVE_THREADS] = { "threads", 0, "N", NULL, .variable = "WEIR_THREADS" },
    [SERVE_IO] = { "io", 0, "WAY", "event loops, one per core; epoll, uring, auto",
                   .words = "epoll uring auto", .variable = "WEIR_IO" },
    [SERVE_TOKEN_FILE] = { "token-file", 0, "SCOPES:FILE", "SCOPES: check,admin,metrics,reset,view",
                           .only_once = true },
    [SERVE_TRUSTED_PROXIES] = { "trusted-proxies", 0, "NET,...",
                                "networks whose X-Forwarded-For is trusted", .only_once = true,
                                .variable = "WEIR_TRUSTED_PROXIES" },
    [SERVE_ALLOWED_ORIGINS] = { "allowed-origins", 0, "URL,...",
                                "origins whose web pages may send requests", .only_once = true,
                                .variable = "WEIR_ALLOWED_ORIGINS" },
    [SERVE_TLS_CERT] = { "tls-cert", 0, "FILE", NULL, .variable = "WEIR_TLS_CERT" },
    [SERVE_TLS_KEY] = { "tls-key", 0, "FILE", "PEM files: serve TLS", .variable = "WEIR_TLS_KEY" },
    [SERVE_TLS_CLIENT_CA] = { "tls-client-ca", 0, "FILE",
                              "require client certificates signed by these",
                              .variable = "WEIR_TLS_CLIENT_CA" },
    [SERVE_ALLOW_PLAIN] = { "allow-plain", 0, NULL, NULL, .variable = "WEIR_ALLOW_PLAIN" },
    [SERVE_TRUST_CLIENT_CLOCK] = { "trust-client-clock", 0, NULL,
                                   "plain beside TLS; requests set `now`",
                                   .variable = "WEIR_TRUST_CLIENT_CLOCK" },
    [SERVE_MAX_KEYS] = { "max-keys", 0, "N", NULL, .variable = "WEIR_MAX_KEYS" },
    [SERVE_MAX_CONNECTIONS] = { "max-connections", 0, "N", "default: 16777216, 16384",
                                .variable = "WEIR_MAX_CONNECTIONS" },
    [SERVE_IDLE_TIMEOUT] = { "idle-timeout", 0, "TIME", NULL, .variable = "WEIR_IDLE_TIMEOUT" },
    [SERVE_REQUEST_TIMEOUT] = { "request-timeout", 0, "TIME", "default: 5m, 10s",
                                .variable = "WEIR_REQUEST_TIMEOUT" },
    [SERVE_DRAIN_TIMEOUT] = { "drain-timeout", 0, "TIME", NULL, .variable = "WEIR_DRAIN_TIMEOUT" },
    [SERVE_MAX_CONNECTION_AGE] = { "max-connection-age", 0, "TIME", "default: 10s, 1d",
                                   .variable = "WEIR_MAX_CONNECTION_AGE" },
    [SERVE_LOG] = { "log", 0, "FILE", NULL, .variable = "WEIR_LOG" },
    [SERVE_LOG_LEVEL] = { "log-level", 0, "LEVEL", NULL, .words = "debug info warn error",
                          .variable = "WEIR_LOG_LEVEL" },
    [SERVE_LOG_FORMAT] = { "log-format", 0, "FORMAT", "stderr, info, auto",
                           .words = "auto json text", .variable = "WEIR_LOG_FORMAT" },
    [SERVE_CHECK] = { "check", 0, NULL, "do not serve; print mistakes, or the settings" },
};

/* Call add() for each of the words between commas. */
static bool for_each(const struct arguments *a, int option, struct server_settings *s,
                     weir_err (*add)(struct server_settings *s, struct span word, weir_diag *diag))
{
    weir_diag diag;

    for (const char *at = a->values[option];; at++) {
        const struct span word = { at, strcspn(at, ",") };

        if (add(s, word, &diag)) {
            trouble("%s: %s", option_label(a, option).text, diag.text);
            return false;
        }
        at += word.len;
        if (*at == '\0')
            return true;
    }
}

/* "check,admin:FILE" */
static bool read_token(const char *value, struct server_settings *s)
{
    const size_t scopes_len = strcspn(value, ":");
    unsigned scopes = 0;
    weir_diag diag;

    if (value[scopes_len] != ':') {
        trouble("--token-file takes SCOPES:FILE, as in check,metrics:/etc/weir/token");
        return false;
    }
    for (size_t i = 0; i <= scopes_len; i++) {
        const struct span word = { value + i, strcspn(value + i, ",:") };

        if (scope_read(word, &scopes, &diag)) {
            trouble("--token-file: %s", diag.text);
            return false;
        }
        i += word.len;
    }
    s->token_count = 0;
    if (settings_add_token(s, span_of(value + scopes_len + 1), scopes, span_of(""), &diag)) {
        trouble("--token-file: %s", diag.text);
        return false;
    }
    return true;
}

static bool read_lists(const struct arguments *a, struct server_settings *s)
{
    if (a->values[SERVE_LISTEN]) {
        s->listen_count = 0;
        if (!for_each(a, SERVE_LISTEN, s, settings_add_listener))
            return false;
    }
    if (a->values[SERVE_TRUSTED_PROXIES]) {
        s->trusted_proxy_count = 0;
        if (!for_each(a, SERVE_TRUSTED_PROXIES, s, settings_add_proxy))
            return false;
    }
    if (a->values[SERVE_ALLOWED_ORIGINS]) {
        s->origin_count = 0;
        if (!for_each(a, SERVE_ALLOWED_ORIGINS, s, settings_add_origin))
            return false;
    }
    return !a->values[SERVE_TOKEN_FILE] || read_token(a->values[SERVE_TOKEN_FILE], s);
}

static void read_text(const struct arguments *a, int option, const char **out)
{
    if (a->values[option])
        *out = a->values[option];
}

static bool read_time(const struct arguments *a, int option, int64_t *out)
{
    int64_t ms = *out;

    if (!option_time(a, option, &ms))
        return false;
    if (ms < SETTINGS_LEAST_TIMEOUT || ms > SETTINGS_MOST_TIMEOUT) {
        trouble("%s must be from %dms to 1d", option_label(a, option).text, SETTINGS_LEAST_TIMEOUT);
        return false;
    }
    *out = ms;
    return true;
}

static bool read_up_to(const struct arguments *a, int option, int64_t most, int64_t *out)
{
    int64_t number = *out;

    if (!option_int(a, option, 1, &number))
        return false;
    if (number > most) {
        trouble("%s must be at most %" PRId64, option_label(a, option).text, most);
        return false;
    }
    *out = number;
    return true;
}

static bool read_threads(const struct arguments *a, struct server_settings *s)
{
    int64_t threads = s->threads;
    const bool is_read = read_up_to(a, SERVE_THREADS, SETTINGS_MOST_THREADS, &threads);

    s->threads = (int)threads;
    return is_read;
}

static bool read_log(const struct arguments *a, struct server_settings *s)
{
    int level = (int)s->log_level, format = (int)s->log_format;

    if (!option_word(a, SERVE_LOG_LEVEL, log_level_names, LOG_LEVELS, &level) ||
        !option_word(a, SERVE_LOG_FORMAT, log_format_names, LOG_FORMATS, &format))
        return false;
    s->log_level = (enum log_level)level;
    s->log_format = (enum log_format)format;
    return true;
}

static bool read_io(const struct arguments *a, struct server_settings *s)
{
    int way = (int)s->io;
    const bool is_read = option_word(a, SERVE_IO, io_way_names, IO_WAYS, &way);

    s->io = (enum io_way)way;
    return is_read;
}

const char *serve_token_variable(const char **value)
{
    static const char *const names[] = { "WEIR_TOKEN_FILE", "WEIR_TOKEN" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *value = getenv(names[i]);
        if (*value && **value)
            return names[i];
    }
    return NULL;
}

/* Only if there are no others: a variable that is there for the other commands must neither take
 * tokens away that the file gives, nor add one that may do more. */
static bool read_token_variable(struct server_settings *s)
{
    const char *value, *name = s->token_count == 0 ? serve_token_variable(&value) : NULL;
    weir_diag diag;
    weir_err err;

    if (!name)
        return true;
    s->token_variable = name;
    if (strcmp(name, "WEIR_TOKEN_FILE") == 0)
        err = settings_add_token(s, span_of(value), SCOPE_ALL, span_of(name), &diag);
    else
        err = settings_add_token_text(s, value, SCOPE_ALL, &diag);
    if (err)
        trouble("%s: %s", name, diag.text);
    return !err;
}

bool serve_options_read(const struct arguments *a, struct server_settings *s)
{
    read_text(a, SERVE_STORE, &s->store);
    read_text(a, SERVE_SYNC, &s->sync);
    read_text(a, SERVE_ENVOY_CONFIG, &s->envoy.config);
    read_text(a, SERVE_SECRET_FILE, &s->secret_file);
    read_text(a, SERVE_TLS_CERT, &s->tls_cert);
    read_text(a, SERVE_TLS_KEY, &s->tls_key);
    read_text(a, SERVE_TLS_CLIENT_CA, &s->tls_client_ca);
    read_text(a, SERVE_LOG, &s->log_file);
    return option_flag(a, SERVE_ALLOW_PLAIN, &s->allows_plain) &&
           option_flag(a, SERVE_TRUST_CLIENT_CLOCK, &s->trusts_client_clock) &&
           option_int(a, SERVE_MAX_KEYS, 1, &s->max_keys) &&
           read_up_to(a, SERVE_MAX_CONNECTIONS, SETTINGS_MOST_CONNECTIONS, &s->max_connections) &&
           read_threads(a, s) && read_io(a, s) &&
           read_time(a, SERVE_IDLE_TIMEOUT, &s->idle_timeout_ms) &&
           read_time(a, SERVE_REQUEST_TIMEOUT, &s->request_timeout_ms) &&
           read_time(a, SERVE_DRAIN_TIMEOUT, &s->drain_timeout_ms) &&
           read_time(a, SERVE_MAX_CONNECTION_AGE, &s->max_connection_age_ms) && read_log(a, s) &&
           read_lists(a, s) && read_token_variable(s);
}
