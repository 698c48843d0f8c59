/* serve_settings.c - the settings that a server would use, and where each comes from. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/serve_check.h"
#include "cli/serve_options.h"
#include "cli/terminal.h"
#include "policy/rate.h"

static void print_scopes(unsigned scopes)
{
    const char *between = "";

    for (size_t i = 0; i < SCOPE_COUNT; i++)
        if (scopes & 1u << i) {
            printf("%s%s", between, scope_words[i]);
            between = ",";
        }
}

/* Without a password, nor what is behind a '?', where one may be. */
static void print_store(const char *uri)
{
    const int len = (int)strcspn(uri, "?");
    const char *at = memchr(uri, '@', (size_t)len), *from = strstr(uri, "://");
    const char *colon = at && from && from < at ? memchr(from + 3, ':', (size_t)(at - from - 3))
                                                : NULL;

    if (colon)
        printf("%.*s:***%.*s", (int)(colon - uri), uri, (int)(uri + len - at), at);
    else
        printf("%.*s", len, uri);
}

static void print_name(const char *name)
{
    printf("%-20s", name);
}

/* Where it comes from, as the end of the line. `key` is its name in the file. */
static void print_origin(const struct server_settings *s, const struct arguments *a, int option,
                         const char *key)
{
    if (a->values[option])
        printf(" (%s)\n", option_label(a, option).text);
    else
        printf(" (%s)\n", settings_in_file(s, key) ? "file" : "default");
}

static bool is_set(const struct server_settings *s, const struct arguments *a, int option,
                   const char *key)
{
    return a->values[option] || settings_in_file(s, key);
}

static void print_listeners(const struct server_settings *s, const struct arguments *a)
{
    for (size_t i = 0; i < s->listen_count; i++) {
        print_name("listen");
        printf("%s", s->listen[i]);
        print_origin(s, a, SERVE_LISTEN, "listen");
    }
}

static void print_tokens(const struct server_settings *s, const struct arguments *a)
{
    const char *value, *variable = serve_token_variable(&value);

    for (size_t i = 0; i < s->token_count; i++) {
        const char *path = s->tokens[i].path;

        print_name("token");
        print_scopes(s->tokens[i].scopes);
        printf(":%s", path ? path : "***");
        if (s->token_variable)
            printf(" (%s)\n", s->token_variable);
        else
            print_origin(s, a, SERVE_TOKEN_FILE, "tokens");
    }
    if (s->token_count == 0)
        printf("%-20snone: every client that can connect may do everything\n", "token");
    else if (variable && !s->token_variable)
        printf("%-20s%s is not used, as there are other tokens\n", "", variable);
}

static void print_tls(const struct server_settings *s, const struct arguments *a)
{
    print_name("tls");
    if (!s->tls_cert) {
        printf("none\n");
        return;
    }
    printf("%s%s%s%s", s->tls_cert, s->tls_client_ca ? ", clients by " : "",
           s->tls_client_ca ? s->tls_client_ca : "",
           s->allows_plain ? ", plain connections too" : "");
    print_origin(s, a, SERVE_TLS_CERT, "tls");
}

/* Those that few change: only if they are set. */
static void print_others(const struct server_settings *s, const struct arguments *a)
{
    const struct {
        int option;
        const char *key;
        enum { TEXT, NUMBER, TIME } kind;
        const char *text;
        int64_t number;
    } all[] = {
        { SERVE_SYNC, "sync", TEXT, s->sync, 0 },
        { SERVE_SECRET_FILE, "secret_file", TEXT, s->secret_file, 0 },
        { SERVE_IO, "io", TEXT, io_way_names[s->io], 0 },
        { SERVE_MAX_KEYS, "max_keys", NUMBER, NULL, s->max_keys },
        { SERVE_MAX_CONNECTIONS, "max_connections", NUMBER, NULL, s->max_connections },
        { SERVE_IDLE_TIMEOUT, "idle_timeout", TIME, NULL, s->idle_timeout_ms },
        { SERVE_REQUEST_TIMEOUT, "request_timeout", TIME, NULL, s->request_timeout_ms },
        { SERVE_DRAIN_TIMEOUT, "drain_timeout", TIME, NULL, s->drain_timeout_ms },
        { SERVE_MAX_CONNECTION_AGE, "max_connection_age", TIME, NULL, s->max_connection_age_ms },
        { SERVE_TRUSTED_PROXIES, "trusted_proxies", NUMBER, NULL, (int64_t)s->trusted_proxy_count },
        { SERVE_ALLOWED_ORIGINS, "allowed_origins", NUMBER, NULL, (int64_t)s->origin_count },
        { SERVE_TRUST_CLIENT_CLOCK, "trust_client_clock", TEXT,
          s->trusts_client_clock ? "true" : "false", 0 },
        { SERVE_LOG_LEVEL, "log_level", TEXT, log_level_names[s->log_level], 0 },
        { SERVE_LOG_FORMAT, "log_format", TEXT, log_format_names[s->log_format], 0 },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!is_set(s, a, all[i].option, all[i].key))
            continue;
        print_name(all[i].key);
        if (all[i].kind == TEXT)
            printf("%s", all[i].text ? all[i].text : "none");
        else if (all[i].kind == NUMBER)
            printf("%" PRId64, all[i].number);
        else
            printf("%s", duration_text(all[i].number).text);
        print_origin(s, a, all[i].option, all[i].key);
    }
}

static void print_share(int share, const char *of)
{
    char text[16];

    if (share == 0)
        return;
    share_write(share, text);
    printf(", traces of %s of %s", text, of);
}

/* Only if it is on. */
static void print_telemetry(const struct server_settings *s)
{
    static const char variable[] = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const struct telemetry_settings *t = &s->telemetry;

    if (!t->endpoint && !t->logs_traces)
        return;
    print_name("telemetry");
    printf("%s", t->endpoint ? t->endpoint : "nothing is sent");
    if (t->endpoint && t->sends_metrics)
        printf(", metrics every %s", duration_text(t->interval_ms).text);
    if (t->endpoint && t->follows_caller)
        printf(", traces of callers");
    if (t->endpoint) {
        print_share(t->denied_share, "denied checks");
        print_share(t->all_share, "all checks");
    }
    printf("%s (%s)\n", t->logs_traces ? ", trace ids in the log" : "",
           t->endpoint && t->endpoint == getenv(variable) ? variable : "file");
}

void serve_print_settings(const struct server_settings *s, const struct arguments *a)
{
    print_name("config");
    if (!s->config)
        printf("none: only limits that come with requests\n");
    else if (s->config_is_found)
        printf("%s, found in the working directory\n", s->config);
    else
        printf("%s (%s)\n", s->config, option_label(a, SERVE_CONFIG).text);
    if (s->envoy.config) {
        print_name("envoy");
        printf("%s%s", s->envoy.config, s->envoy.counts_refused ? ", denied requests count" : "");
        print_origin(s, a, SERVE_ENVOY_CONFIG, "envoy");
    }
    print_name("store");
    print_store(s->store);
    print_origin(s, a, SERVE_STORE, "store");
    print_listeners(s, a);
    print_tokens(s, a);
    print_tls(s, a);
    print_name("threads");
    if (s->threads > 0)
        printf("%d", s->threads);
    else
        printf("one per core");
    print_origin(s, a, SERVE_THREADS, "threads");
    print_name("log");
    printf("%s", s->log_file ? s->log_file : "stderr");
    print_origin(s, a, SERVE_LOG, "log");
    print_others(s, a);
    print_telemetry(s);
    printf("%sok%s\n", colour(GREEN), colour(PLAIN));
}
