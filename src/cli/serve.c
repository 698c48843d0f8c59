/* serve.c - `weir serve`: the settings of the file, the flags over them, and then the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/serve_check.h"
#include "cli/terminal.h"
#include "policy/rate.h"
#include "server/server.h"
#include "server/settings.h"

enum {
    CONFIG,
    STORE,
    SYNC,
    SECRET_FILE,
    LISTEN,
    THREADS,
    TOKEN_FILE,
    TRUSTED_PROXIES,
    ALLOWED_ORIGINS,
    TLS_CERT,
    TLS_KEY,
    TLS_CLIENT_CA,
    ALLOW_PLAIN,
    MAX_KEYS,
    MAX_CONNECTIONS,
    IDLE_TIMEOUT,
    REQUEST_TIMEOUT,
    DRAIN_TIMEOUT,
    TRUST_CLIENT_CLOCK,
    LOG,
    LOG_LEVEL,
    LOG_FORMAT,
    CHECK,
    OPTION_COUNT
};

static const struct option options[OPTION_COUNT] = {
    [CONFIG] = { "config", 'c', "FILE", "policies and settings; default: $WEIR_CONFIG" },
    [STORE] = { "store", 0, "URI", "where counters live; default: file:weir-data",
                .words = OPTION_STORES },
    [SYNC] = { "sync", 0, "MODE", "of file:DIR; always, os or a time; default: 50ms",
               .words = "always os 50ms" },
    [SECRET_FILE] = { "secret-file", 0, "FILE", "secret of the hashes; created if missing" },
    [LISTEN] = { "listen", 0, "ADDR,...", "HOST:PORT, unix:PATH; default: 127.0.0.1:7878",
                 .only_once = true },
    [THREADS] = { "threads", 0, "N", "event loops; default: one per core" },
    [TOKEN_FILE] = { "token-file", 0, "SCOPES:FILE", "SCOPES: check,admin,metrics",
                     .only_once = true },
    [TRUSTED_PROXIES] = { "trusted-proxies", 0, "NET,...",
                          "networks whose X-Forwarded-For is trusted", .only_once = true },
    [ALLOWED_ORIGINS] = { "allowed-origins", 0, "URL,...",
                          "origins whose web pages may send requests", .only_once = true },
    [TLS_CERT] = { "tls-cert", 0, "FILE", NULL },
    [TLS_KEY] = { "tls-key", 0, "FILE", "PEM files: serve TLS" },
    [TLS_CLIENT_CA] = { "tls-client-ca", 0, "FILE", "require client certificates signed by these" },
    [ALLOW_PLAIN] = { "allow-plain", 0, NULL, "accept plain connections too" },
    [MAX_KEYS] = { "max-keys", 0, "N", NULL },
    [MAX_CONNECTIONS] = { "max-connections", 0, "N", "default: 16777216, 16384" },
    [IDLE_TIMEOUT] = { "idle-timeout", 0, "TIME", NULL },
    [REQUEST_TIMEOUT] = { "request-timeout", 0, "TIME", "default: 5m, 10s" },
    [DRAIN_TIMEOUT] = { "drain-timeout", 0, "TIME", "to finish requests at SIGTERM; default: 10s" },
    [TRUST_CLIENT_CLOCK] = { "trust-client-clock", 0, NULL, "requests may set `now`" },
    [LOG] = { "log", 0, "FILE", NULL },
    [LOG_LEVEL] = { "log-level", 0, "LEVEL", NULL, .words = "debug info warn error" },
    [LOG_FORMAT] = { "log-format", 0, "FORMAT", "stderr, info, auto", .words = "auto json text" },
    [CHECK] = { "check", 0, NULL, "do not serve; print mistakes, or the settings" },
};

/* Call add() for each of the words between commas. */
static bool for_each(const struct arguments *a, int option, struct server_settings *s,
                     weir_err (*add)(struct server_settings *s, struct span word, weir_diag *diag))
{
    weir_diag diag;

    for (const char *at = a->values[option];; at++) {
        const struct span word = { at, strcspn(at, ",") };

        if (add(s, word, &diag)) {
            trouble("--%s: %s", options[option].name, diag.text);
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
    if (settings_add_token(s, span_of(value + scopes_len + 1), scopes, &diag)) {
        trouble("--token-file: %s", diag.text);
        return false;
    }
    return true;
}

static bool read_lists(const struct arguments *a, struct server_settings *s)
{
    if (a->values[LISTEN]) {
        s->listen_count = 0;
        if (!for_each(a, LISTEN, s, settings_add_listener))
            return false;
    }
    if (a->values[TRUSTED_PROXIES]) {
        s->trusted_proxy_count = 0;
        if (!for_each(a, TRUSTED_PROXIES, s, settings_add_proxy))
            return false;
    }
    if (a->values[ALLOWED_ORIGINS]) {
        s->origin_count = 0;
        if (!for_each(a, ALLOWED_ORIGINS, s, settings_add_origin))
            return false;
    }
    return !a->values[TOKEN_FILE] || read_token(a->values[TOKEN_FILE], s);
}

static void read_text(const struct arguments *a, int option, const char **out)
{
    if (a->values[option])
        *out = a->values[option];
}

static bool read_time(const struct arguments *a, int option, int64_t *out)
{
    int64_t ms;
    weir_diag diag;

    if (!a->values[option])
        return true;
    if (duration_read(span_of(a->values[option]), &ms, &diag)) {
        trouble("--%s: %s", options[option].name, diag.text);
        return false;
    }
    if (ms < SETTINGS_LEAST_TIMEOUT || ms > SETTINGS_MOST_TIMEOUT) {
        trouble("--%s must be from %dms to 1d", options[option].name, SETTINGS_LEAST_TIMEOUT);
        return false;
    }
    *out = ms;
    return true;
}

static bool read_threads(const struct arguments *a, struct server_settings *s)
{
    int64_t threads = s->threads;

    if (!option_int(a, THREADS, 1, &threads))
        return false;
    if (threads > SETTINGS_MOST_THREADS) {
        trouble("--threads must be at most %d", SETTINGS_MOST_THREADS);
        return false;
    }
    s->threads = (int)threads;
    return true;
}

/* One of these words; `out` is its number, and stays as it is without the flag. */
static bool read_word(const struct arguments *a, int option, const char *const *words, int count,
                      int *out)
{
    char all[64] = "";

    if (!a->values[option])
        return true;
    for (int i = 0; i < count; i++)
        if (strcmp(a->values[option], words[i]) == 0) {
            *out = i;
            return true;
        }
    for (int i = 0; i < count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? ", " : "", words[i]);
    trouble("--%s: '%s' is not one of %s", options[option].name,
            printable(span_of(a->values[option])).text, all);
    return false;
}

static bool read_log(const struct arguments *a, struct server_settings *s)
{
    int level = (int)s->log_level, format = (int)s->log_format;

    if (!read_word(a, LOG_LEVEL, log_level_names, LOG_LEVELS, &level) ||
        !read_word(a, LOG_FORMAT, log_format_names, LOG_FORMATS, &format))
        return false;
    s->log_level = (enum log_level)level;
    s->log_format = (enum log_format)format;
    return true;
}

/* The flag wins over the file. */
static bool read_flags(const struct arguments *a, struct server_settings *s)
{
    read_text(a, STORE, &s->store);
    read_text(a, SYNC, &s->sync);
    read_text(a, SECRET_FILE, &s->secret_file);
    read_text(a, TLS_CERT, &s->tls_cert);
    read_text(a, TLS_KEY, &s->tls_key);
    read_text(a, TLS_CLIENT_CA, &s->tls_client_ca);
    read_text(a, LOG, &s->log_file);
    s->allows_plain |= a->values[ALLOW_PLAIN] != NULL;
    s->trusts_client_clock |= a->values[TRUST_CLIENT_CLOCK] != NULL;
    return option_int(a, MAX_KEYS, 1, &s->max_keys) &&
           option_int(a, MAX_CONNECTIONS, 1, &s->max_connections) && read_threads(a, s) &&
           read_time(a, IDLE_TIMEOUT, &s->idle_timeout_ms) &&
           read_time(a, REQUEST_TIMEOUT, &s->request_timeout_ms) &&
           read_time(a, DRAIN_TIMEOUT, &s->drain_timeout_ms) && read_log(a, s) && read_lists(a, s);
}

/* What to serve by: decided once, as a reload must not find another file. */
struct intention {
    const struct arguments *arguments;
    const char *config; /* NULL: there is none */
    bool is_found;      /* in the working directory: no option named it */
};

static struct intention intention_of(const struct arguments *a)
{
    static const char *const usual[] = { "weir.yaml", "policies.yaml" };
    const char *config = a->values[CONFIG] ? a->values[CONFIG] : getenv("WEIR_CONFIG");

    if (config && *config)
        return (struct intention){ a, config, false };
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (access(usual[i], F_OK) == 0)
            return (struct intention){ a, usual[i], true };
    return (struct intention){ a, NULL, false };
}

/* What is wrong with a flag is printed where it is found, and there is nothing in the diag. */
static weir_err read_settings(void *intention, struct server_settings *out, weir_diag *diag)
{
    const struct intention *i = intention;
    weir_err err = settings_load(out, i->config, diag);

    if (err)
        return err;
    out->config_is_found = i->is_found;
    if (read_flags(i->arguments, out))
        return WEIR_OK;
    settings_done(out);
    return diag_fail(diag, WEIR_EOPTION, "%s", "");
}

/* Two lines that make a token, for who was refused for want of one. */
static void offer_token(const struct server_settings *s)
{
    const char *listen = settings_open_listener(s);

    if (listen)
        trouble("make a token:  (umask 077; head -c 32 /dev/urandom | base64 >weir.token)\n"
                "and then:  weir serve --listen %s --token-file check,admin,metrics:weir.token",
                listen);
}

/* The file is linted apart: all that is wrong with it is told at once. */
static int check(struct intention *i)
{
    struct server_settings settings;
    int status = serve_check_file(i->config), worse;
    weir_diag diag;

    if (status == STATUS_TROUBLE) /* its settings are as wrong for who reads them again */
        i->config = NULL;
    if (read_settings(i, &settings, &diag)) {
        if (diag.text[0])
            trouble("%s", diag.text);
        return STATUS_TROUBLE;
    }
    worse = serve_check_settings(&settings);
    offer_token(&settings);
    if (status == STATUS_YES)
        status = worse;
    if (status == STATUS_YES)
        serve_print_settings(&settings);
    settings_done(&settings);
    return status;
}

static int run(const struct arguments *a)
{
    struct intention intention = intention_of(a);
    const struct settings_source source = { read_settings, &intention };
    struct server_settings settings;
    weir_diag diag;
    int status = STATUS_TROUBLE;

    if (a->operand_count > 0)
        return trouble("serve takes options only, not '%s': did you mean --config?",
                       printable(span_of(a->operands[0])).text);
    if (intention.config && strcmp(intention.config, "-") == 0)
        return trouble(
            "policies cannot come from standard input: the server must be able to read them again");
    if (a->values[CHECK])
        return check(&intention);
    if (read_settings(&intention, &settings, &diag))
        return diag.text[0] ? trouble("%s", diag.text) : STATUS_TROUBLE;
    if (settings_check(&settings, &diag)) {
        trouble("%s", diag.text);
        offer_token(&settings);
    } else {
        status = server_run(&settings, &source, a->argv);
    }
    settings_done(&settings);
    return status;
}

const struct command serve_command = {
    .name = "serve",
    .summary = "Serve HTTP and RESP on one port until SIGTERM.",
    .usage = "[OPTION]...",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Flags override the file, which is ./weir.yaml or ./policies.yaml by default.\n",
    .run = run,
};
