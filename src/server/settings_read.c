/* settings_read.c - the settings of a server, read from the tree of a policy file. */
#include "base/diag.h"
#include "policy/rate.h"
#include "server/settings_reading.h"
#include "store/store.h"

enum {
    STORE,
    SYNC,
    SECRET_FILE,
    MAX_KEYS,
    LISTEN,
    THREADS,
    IO,
    TRUST_CLIENT_CLOCK,
    MAX_CONNECTIONS,
    IDLE_TIMEOUT,
    REQUEST_TIMEOUT,
    DRAIN_TIMEOUT,
    MAX_CONNECTION_AGE,
    TOKENS,
    TRUSTED_PROXIES,
    ALLOWED_ORIGINS,
    TLS,
    LOG,
    LOG_LEVEL,
    LOG_FORMAT,
    TELEMETRY,
    ENVOY,
    KEY_COUNT
};

static const char *const words[KEY_COUNT] = {
    [STORE] = "store",
    [SYNC] = "sync",
    [SECRET_FILE] = "secret_file",
    [MAX_KEYS] = "max_keys",
    [LISTEN] = "listen",
    [THREADS] = "threads",
    [IO] = "io",
    [TRUST_CLIENT_CLOCK] = "trust_client_clock",
    [MAX_CONNECTIONS] = "max_connections",
    [IDLE_TIMEOUT] = "idle_timeout",
    [REQUEST_TIMEOUT] = "request_timeout",
    [DRAIN_TIMEOUT] = "drain_timeout",
    [MAX_CONNECTION_AGE] = "max_connection_age",
    [TOKENS] = "tokens",
    [TRUSTED_PROXIES] = "trusted_proxies",
    [ALLOWED_ORIGINS] = "allowed_origins",
    [TLS] = "tls",
    [LOG] = "log",
    [LOG_LEVEL] = "log_level",
    [LOG_FORMAT] = "log_format",
    [TELEMETRY] = "telemetry",
    [ENVOY] = "envoy",
};

/* `prefix`, the directory if `path` is relative, `path`. */
static const char *put_path(struct reading *r, const char *prefix, struct span path)
{
    struct span directory = path.len > 0 && path.at[0] == '/' ? (struct span){ "", 0 }
                                                              : r->directory;
    const char *copy = NULL;
    struct buf joined;

    buf_init(&joined, &r->s->texts.allocator);
    buf_text(&joined, prefix);
    buf_add(&joined, directory);
    buf_add(&joined, path);
    if (!joined.failed)
        copy = arena_text(&r->s->texts, buf_span(&joined));
    buf_done(&joined);
    r->reader.problems->lines.failed |= !copy;
    return copy;
}

const char *setting_put_text(struct reading *r, struct span text)
{
    const char *copy = arena_text(&r->s->texts, text);

    r->reader.problems->lines.failed |= !copy;
    return copy;
}

bool setting_is_text(struct reading *r, const struct yaml *node, const char *what,
                     const char *example)
{
    if (!wants(&r->reader, node, YAML_TEXT, what, example))
        return false;
    if (node->text.len > 0 && strlen(node->text.at) == node->text.len)
        return true;
    complain(&r->reader, node, "%s is %s: write it as in %s", what,
             node->text.len == 0 ? "empty" : "cut by a NUL", example);
    return false;
}

void setting_path(struct reading *r, const struct yaml *key, const char *what, const char *example,
                  const char **out)
{
    if (key && setting_is_text(r, key->value, what, example))
        *out = put_path(r, "", key->value->text);
}

static void read_store(struct reading *r, const struct yaml *node)
{
    const char *directory;

    if (!setting_is_text(r, node, "store", "file:weir-data"))
        return;
    directory = store_directory(node->text.at);
    if (directory)
        r->s->store = put_path(r, "file:", span_of(directory));
    else if (span_is(node->text, "memory")) /* YAML wants quotes around a colon at the end */
        r->s->store = "memory:";
    else
        r->s->store = setting_put_text(r, node->text);
}

static void read_sync(struct reading *r, const struct yaml *node)
{
    weir_diag diag;
    int64_t ms;

    if (!setting_is_text(r, node, "sync", "50ms"))
        return;
    if (!span_is(node->text, "always") && !span_is(node->text, "os") &&
        duration_read(node->text, &ms, &diag)) {
        complain(&r->reader, node, "sync is always, os, or a duration: %s", diag.text);
        return;
    }
    r->s->sync = setting_put_text(r, node->text);
}

void setting_bool(struct reading *r, const struct yaml *key, const char *what, bool *out)
{
    static const char *const values[] = { "false", "true" };
    size_t chosen;

    if (key && read_choice(&r->reader, key->value, what, values, 2, &chosen))
        *out = chosen == 1;
}

static void read_number(struct reading *r, const struct yaml *key, const char *what, int64_t most,
                        int64_t *out)
{
    if (key)
        read_whole(&r->reader, key->value, what, 1, most, out);
}

void setting_time(struct reading *r, const struct yaml *key, const char *what, int64_t *out)
{
    weir_diag diag;
    int64_t ms;

    if (!key || !wants(&r->reader, key->value, YAML_TEXT, what, "10s"))
        return;
    if (duration_read(key->value->text, &ms, &diag))
        complain(&r->reader, key->value, "%s", diag.text);
    else if (ms < SETTINGS_LEAST_TIMEOUT || ms > SETTINGS_MOST_TIMEOUT)
        complain(&r->reader, key->value, "%s must be from %dms to 1d", what,
                 SETTINGS_LEAST_TIMEOUT);
    else
        *out = ms;
}

/* One text, or a list of them. */
static void read_each(struct reading *r, const struct yaml *node, const char *what,
                      const char *example, void (*read)(struct reading *r, const struct yaml *item))
{
    const bool is_list = node->kind == YAML_LIST;

    for (const struct yaml *item = is_list ? node->first : node; item;
         item = is_list ? item->next : NULL)
        if (setting_is_text(r, item, what, example))
            read(r, item);
}

static const char unix_prefix[] = "unix:";

/* "host.example:7878", which is for the name service to know. */
static bool names_a_host(const char *address)
{
    const size_t numeric = strspn(address, "0123456789.");

    return !strchr("[*:", address[numeric]) && strchr(address, ':') &&
           strncmp(address, "localhost:", 10) != 0 &&
           strncmp(address, unix_prefix, strlen(unix_prefix)) != 0;
}

static void read_listener(struct reading *r, const struct yaml *node)
{
    struct span address = node->text;
    weir_diag diag;

    if (!r->is_for_this_machine && names_a_host(address.at))
        return;
    if (strncmp(address.at, unix_prefix, strlen(unix_prefix)) == 0) {
        const char *path = put_path(r, unix_prefix, span_of(address.at + strlen(unix_prefix)));

        address = span_of(path ? path : "unix:/");
    }
    if (settings_add_listener(r->s, address, &diag))
        complain(&r->reader, node, "%s", diag.text);
}

static void read_proxy(struct reading *r, const struct yaml *node)
{
    weir_diag diag;

    if (settings_add_proxy(r->s, node->text, &diag))
        complain(&r->reader, node, "%s", diag.text);
}

static void read_origin(struct reading *r, const struct yaml *node)
{
    weir_diag diag;

    if (settings_add_origin(r->s, node->text, &diag))
        complain(&r->reader, node, "%s", diag.text);
}

static unsigned read_scopes(struct reading *r, const struct yaml *node)
{
    const bool is_list = node->kind == YAML_LIST;
    unsigned scopes = 0;
    weir_diag diag;

    for (const struct yaml *item = is_list ? node->first : node; item;
         item = is_list ? item->next : NULL)
        if (wants(&r->reader, item, YAML_TEXT, "a scope", "check") &&
            scope_read(item->text, &scopes, &diag))
            complain(&r->reader, item, "%s", diag.text);
    if (is_list && node->count == 0)
        complain(&r->reader, node, "a token without a scope allows nothing: write [check]");
    return scopes;
}

static void read_token(struct reading *r, const struct yaml *entry)
{
    enum { FILE_, SCOPE, NAME, TOKEN_KEYS };
    static const char *const token_words[TOKEN_KEYS] = { "file", "scope", "name" };
    struct span name = { "", 0 };
    const struct yaml *keys[TOKEN_KEYS];
    const char *path = NULL;
    unsigned scopes = 0;
    weir_diag diag;

    if (!wants(&r->reader, entry, YAML_MAPPING, "a token", "{file: token, scope: [check]}"))
        return;
    read_keys(&r->reader, entry, "a token", token_words, TOKEN_KEYS, ALL(TOKEN_KEYS), keys);
    if (!keys[FILE_])
        complain(&r->reader, entry, "a token needs a file");
    if (keys[SCOPE])
        scopes = read_scopes(r, keys[SCOPE]->value);
    else
        complain(&r->reader, entry, "a token needs a scope: scope: [check]");
    if (keys[NAME] && wants(&r->reader, keys[NAME]->value, YAML_TEXT, "name", "ann"))
        name = keys[NAME]->value->text;
    setting_path(r, keys[FILE_], "file", "check.token", &path);
    if (path && settings_add_token(r->s, span_of(path), scopes, name, &diag))
        complain(&r->reader, entry, "%s", diag.text);
}

static void read_tokens(struct reading *r, const struct yaml *node)
{
    if (yaml_is_null(node) ||
        !wants(&r->reader, node, YAML_LIST, "tokens", "[{file: check.token, scope: [check]}]"))
        return;
    for (const struct yaml *entry = node->first; entry; entry = entry->next)
        read_token(r, entry);
}

static void read_tls(struct reading *r, const struct yaml *node)
{
    enum { CERT, KEY, CLIENT_CA, ALLOW_PLAIN, TLS_KEYS };
    static const char *const tls_words[TLS_KEYS] = { "cert", "key", "client_ca", "allow_plain" };
    const struct yaml *keys[TLS_KEYS];

    if (!wants(&r->reader, node, YAML_MAPPING, "tls", "{cert: server.pem, key: server.key}"))
        return;
    read_keys(&r->reader, node, "tls", tls_words, TLS_KEYS, ALL(TLS_KEYS), keys);
    setting_path(r, keys[CERT], "cert", "server.pem", &r->s->tls_cert);
    setting_path(r, keys[KEY], "key", "server.key", &r->s->tls_key);
    setting_path(r, keys[CLIENT_CA], "client_ca", "clients.pem", &r->s->tls_client_ca);
    setting_bool(r, keys[ALLOW_PLAIN], "allow_plain", &r->s->allows_plain);
    for (int i = CERT; i <= KEY; i++)
        if (!keys[i])
            complain(&r->reader, node, "tls has no %s: it needs cert and key", tls_words[i]);
}

static void read_server(struct reading *r, const struct yaml *node)
{
    struct server_settings *s = r->s;
    const struct yaml *keys[KEY_COUNT];
    int64_t threads = 0;
    size_t chosen;

    if (yaml_is_null(node) || !wants(&r->reader, node, YAML_MAPPING, "server", "{threads: 4}"))
        return;
    read_keys(&r->reader, node, "server", words, KEY_COUNT, ALL(KEY_COUNT), keys);
    for (size_t i = 0; i < KEY_COUNT; i++)
        s->in_file |= keys[i] ? UINT32_C(1) << i : 0;
    if (keys[STORE])
        read_store(r, keys[STORE]->value);
    if (keys[SYNC])
        read_sync(r, keys[SYNC]->value);
    setting_path(r, keys[SECRET_FILE], "secret_file", "weir.secret", &s->secret_file);
    read_number(r, keys[MAX_KEYS], "max_keys", WEIR_MAX_AMOUNT, &s->max_keys);
    read_number(r, keys[THREADS], "threads", SETTINGS_MOST_THREADS, &threads);
    s->threads = (int)threads;
    if (keys[IO] && read_choice(&r->reader, keys[IO]->value, "io", io_way_names, IO_WAYS, &chosen))
        s->io = (enum io_way)chosen;
    setting_bool(r, keys[TRUST_CLIENT_CLOCK], "trust_client_clock", &s->trusts_client_clock);
    read_number(r, keys[MAX_CONNECTIONS], "max_connections", SETTINGS_MOST_CONNECTIONS,
                &s->max_connections);
    setting_time(r, keys[IDLE_TIMEOUT], "idle_timeout", &s->idle_timeout_ms);
    setting_time(r, keys[REQUEST_TIMEOUT], "request_timeout", &s->request_timeout_ms);
    setting_time(r, keys[DRAIN_TIMEOUT], "drain_timeout", &s->drain_timeout_ms);
    setting_time(r, keys[MAX_CONNECTION_AGE], "max_connection_age", &s->max_connection_age_ms);
    if (keys[LISTEN]) {
        s->listen_count = 0;
        read_each(r, keys[LISTEN]->value, "listen", "127.0.0.1:7878", read_listener);
    }
    if (keys[TRUSTED_PROXIES])
        read_each(r, keys[TRUSTED_PROXIES]->value, "a trusted proxy", "10.0.0.0/8", read_proxy);
    if (keys[ALLOWED_ORIGINS])
        read_each(r, keys[ALLOWED_ORIGINS]->value, "an allowed origin", "https://weir.example",
                  read_origin);
    if (keys[TOKENS])
        read_tokens(r, keys[TOKENS]->value);
    if (keys[TLS])
        read_tls(r, keys[TLS]->value);
    setting_path(r, keys[LOG], "log", "weir.log", &s->log_file);
    if (keys[LOG_LEVEL] && read_choice(&r->reader, keys[LOG_LEVEL]->value, "log_level",
                                       log_level_names, LOG_LEVELS, &chosen))
        s->log_level = (enum log_level)chosen;
    if (keys[LOG_FORMAT] && read_choice(&r->reader, keys[LOG_FORMAT]->value, "log_format",
                                        log_format_names, LOG_FORMATS, &chosen))
        s->log_format = (enum log_format)chosen;
    if (keys[TELEMETRY])
        settings_read_telemetry(r, keys[TELEMETRY]->value);
    if (keys[ENVOY])
        settings_read_envoy(r, keys[ENVOY]->value);
}

void settings_read(struct server_settings *s, const struct yaml *root, struct span directory,
                   bool is_for_this_machine, const char *file, struct problems *problems)
{
    struct reading r = { { file, problems }, s, directory, is_for_this_machine };

    if (root->kind != YAML_MAPPING)
        return;
    for (const struct yaml *key = root->first; key; key = key->next)
        if (span_is(key->text, "server"))
            read_server(&r, key->value);
}

bool settings_in_file(const struct server_settings *s, const char *key)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(words[i], key) == 0)
            return s->in_file >> i & 1;
    return false;
}
