/* settings.c - how a server is to run: defaults, the file, and whether it all goes together. */
#include "server/settings.h"

#include "base/diag.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "net/listener.h"
#include "policy/reader.h"
#include "server/settings_reading.h"
#include "store/store.h"

const char *const scope_words[SCOPE_COUNT] = { "check", "admin", "metrics", "reset", "view" };
const char *const io_way_names[IO_WAYS] = { "epoll", "uring", "auto" };

/* ---- the lists ------------------------------------------------------------------------ */

weir_err scope_read(struct span word, unsigned *scopes, weir_diag *diag)
{
    const char *near;

    for (size_t i = 0; i < SCOPE_COUNT; i++)
        if (span_is(word, scope_words[i])) {
            *scopes |= 1u << i;
            return WEIR_OK;
        }
    near = suggest(word, scope_words, SCOPE_COUNT);
    return diag_fail(diag, WEIR_EOPTION, "there is no scope '%s': %s%s%s", printable(word).text,
                     near ? "did you mean '" : "it is one of ",
                     near ? near : "check, admin, metrics, reset, view", near ? "'?" : "");
}

const char *scopes_text(unsigned scopes)
{
    if (scopes & SCOPE_CHECK)
        return "check";
    if (scopes & SCOPE_RESET)
        return "admin or reset";
    if (scopes & SCOPE_ADMIN) {
        if (scopes & SCOPE_VIEW)
            return scopes & SCOPE_METRICS ? "admin, metrics or view" : "admin or view";
        return "admin";
    }
    return "metrics";
}

weir_err settings_add_listener(struct server_settings *s, struct span address, weir_diag *diag)
{
    bool is_loopback;
    char *copy;
    weir_err err;

    if (s->listen_count == SETTINGS_MOST_LISTENERS)
        return diag_fail(diag, WEIR_EOPTION, "there are more than %d addresses to listen on",
                         SETTINGS_MOST_LISTENERS);
    copy = arena_text(&s->texts, address);
    if (!copy)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    err = listener_check(copy, &is_loopback, diag);
    if (!err)
        s->listen[s->listen_count++] = copy;
    return err;
}

static weir_err add_token(struct server_settings *s, struct token_source token, weir_diag *diag)
{
    if (s->token_count == SETTINGS_MOST_TOKENS)
        return diag_fail(diag, WEIR_EOPTION, "there are more than %d tokens", SETTINGS_MOST_TOKENS);
    s->tokens[s->token_count++] = token;
    return WEIR_OK;
}

weir_err settings_add_token(struct server_settings *s, struct span path, unsigned scopes,
                            struct span name, weir_diag *diag)
{
    char *copy, *name_copy;

    if (path.len == 0)
        return diag_fail(diag, WEIR_EOPTION, "a token needs a file");
    if (name.len > SETTINGS_MOST_TOKEN_NAME)
        return diag_fail(diag, WEIR_EOPTION, "the name of a token has at most %d bytes",
                         SETTINGS_MOST_TOKEN_NAME);
    copy = arena_text(&s->texts, path);
    name_copy = arena_text(&s->texts, name);
    if (!copy || !name_copy)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    return add_token(s,
                     (struct token_source){
                         .path = copy, .scopes = scopes, .name = name.len > 0 ? name_copy : NULL },
                     diag);
}

weir_err settings_add_token_text(struct server_settings *s, const char *text, unsigned scopes,
                                 weir_diag *diag)
{
    return add_token(s, (struct token_source){ .text = text, .scopes = scopes }, diag);
}

weir_err settings_add_proxy(struct server_settings *s, struct span network, weir_diag *diag)
{
    weir_err err;

    if (s->trusted_proxy_count == SETTINGS_MOST_PROXIES)
        return diag_fail(diag, WEIR_EOPTION,
                         "there are more than %d trusted proxies: join networks",
                         SETTINGS_MOST_PROXIES);
    err = cidr_read(network, &s->trusted_proxies[s->trusted_proxy_count], diag);
    if (!err)
        s->trusted_proxy_count++;
    return err;
}

/* As browsers send it: a scheme and a host, and a port if it is not the scheme's. */
static bool is_origin(struct span text)
{
    static const struct span schemes[] = { { "https://", 8 }, { "http://", 7 } };

    for (size_t i = 0; i < 2; i++) {
        const size_t len = schemes[i].len;

        if (text.len <= len || memcmp(text.at, schemes[i].at, len) != 0)
            continue;
        for (size_t k = len; k < text.len; k++)
            if (text.at[k] <= ' ' || text.at[k] >= 0x7f || strchr("/*?#@\\", text.at[k]))
                return false;
        return true;
    }
    return false;
}

weir_err settings_add_origin(struct server_settings *s, struct span origin, weir_diag *diag)
{
    char *copy;

    if (s->origin_count == SETTINGS_MOST_ORIGINS)
        return diag_fail(diag, WEIR_EOPTION, "there are more than %d allowed origins",
                         SETTINGS_MOST_ORIGINS);
    if (!is_origin(origin))
        return diag_fail(diag, WEIR_EOPTION,
                         "'%s' is not an origin: write https://weir.example, without a path",
                         printable(origin).text);
    copy = arena_text(&s->texts, origin);
    if (!copy)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    s->origins[s->origin_count++] = copy;
    return WEIR_OK;
}

/* ---- loading -------------------------------------------------------------------------- */

static void set_defaults(struct server_settings *s)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });

    *s = (struct server_settings){
        .store = "file:weir-data",
        .log_level = LOG_INFO,
        .listen = { "127.0.0.1:7878" },
        .listen_count = 1,
        .max_connections = 16384,
        .idle_timeout_ms = 5 * 60 * 1000,
        .request_timeout_ms = 10 * 1000,
        .drain_timeout_ms = 10 * 1000,
        .max_connection_age_ms = 24 * 60 * 60 * 1000,
        .telemetry = { .interval_ms = 60 * 1000,
                       .timeout_ms = 10 * 1000,
                       .sends_metrics = true,
                       .follows_caller = true },
        .envoy = { .limit_header = "RateLimit-Limit",
                   .remaining_header = "RateLimit-Remaining",
                   .reset_header = "RateLimit-Reset" },
    };
    arena_init(&s->texts, &usual);
}

static struct span directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return (struct span){ path, slash ? (size_t)(slash - path) + 1 : 0 };
}

/* The tree, or NULL; `problems` says why. */
static const struct yaml *read_tree(struct reader *r, struct span text, struct arena *arena)
{
    struct yaml *root = NULL;

    if (reader_check_size(r, text.len) || yaml_read(r->file, text, arena, r->problems, &root))
        return NULL;
    return root;
}

static weir_err read_config(struct server_settings *s, struct problems *problems)
{
    struct reader r = { s->config, problems };
    struct arena arena;
    struct buf bytes;
    const struct yaml *root = NULL;

    arena_init(&arena, &s->texts.allocator);
    buf_init(&bytes, &s->texts.allocator);
    if (!reader_read_file(&r, s->config, &bytes))
        root = read_tree(&r, buf_span(&bytes), &arena);
    if (root)
        settings_read(s, root, directory_of(s->config), true, s->config, problems);
    buf_done(&bytes);
    arena_done(&arena);
    if (problems->lines.failed || (!root && problems->count == 0))
        return WEIR_ENOMEM;
    problems_order(problems, 0);
    return problems->count > 0 ? WEIR_EPOLICY : WEIR_OK;
}

static weir_err read_environment(struct server_settings *s, weir_diag *diag)
{
    const weir_err err = settings_telemetry_environment(s, diag);

    if (err)
        settings_done(s);
    return err;
}

weir_err settings_load(struct server_settings *s, const char *config, weir_diag *diag)
{
    struct problems problems;
    weir_err err;

    set_defaults(s);
    if (!config)
        return read_environment(s, diag);
    problems_init(&problems, &s->texts.allocator);
    s->config = arena_text(&s->texts, span_of(config));
    err = s->config ? read_config(s, &problems) : WEIR_ENOMEM;
    if (err == WEIR_ENOMEM)
        diag_set(diag, "%s", weir_err_text(err));
    else if (err)
        problems_to_diag(&problems, diag);
    problems_done(&problems);
    if (err)
        settings_done(s);
    return err ? err : read_environment(s, diag);
}

void settings_done(struct server_settings *s)
{
    arena_done(&s->texts);
}

void settings_lint(const char *file, struct span text, struct problems *problems)
{
    struct server_settings s;
    struct problems of_yaml;
    struct reader r = { file, &of_yaml };
    struct arena arena;
    const struct yaml *root;

    set_defaults(&s);
    arena_init(&arena, &s.texts.allocator);
    problems_init(&of_yaml, &s.texts.allocator);
    root = read_tree(&r, text, &arena);
    if (root)
        settings_read(&s, root, (struct span){ "", 0 }, false, file, problems);
    problems_done(&of_yaml);
    arena_done(&arena);
    settings_done(&s);
}

/* ---- do they go together? ------------------------------------------------------------- */

bool settings_keep_strangers_out(const struct server_settings *s)
{
    return s->token_count > 0 || (s->tls_client_ca && !s->allows_plain);
}

const char *settings_open_listener(const struct server_settings *s)
{
    bool is_loopback;

    for (size_t i = 0; i < s->listen_count && !settings_keep_strangers_out(s); i++)
        if (!listener_check(s->listen[i], &is_loopback, NULL) && !is_loopback)
            return s->listen[i];
    return NULL;
}

/* Clients of other machines must need a token or a certificate. */
static weir_err check_strangers(const struct server_settings *s, weir_diag *diag)
{
    for (size_t i = 0; i < s->listen_count; i++) {
        bool is_loopback = false;
        weir_err err = listener_check(s->listen[i], &is_loopback, diag);

        if (err)
            return err;
        if (!is_loopback && !settings_keep_strangers_out(s))
            return diag_fail(
                diag, WEIR_EOPTION,
                "other machines can reach %s without a token: add one (--token-file check:FILE, "
                "WEIR_TOKEN_FILE=FILE, or `tokens` in the file), require client certificates "
                "(--tls-client-ca), or listen on 127.0.0.1",
                s->listen[i]);
    }
    return WEIR_OK;
}

static weir_err check_tls(const struct server_settings *s, weir_diag *diag)
{
    if (!s->tls_cert != !s->tls_key)
        return diag_fail(diag, WEIR_EOPTION, "TLS needs a certificate and its key: %s is missing",
                         s->tls_cert ? "--tls-key (`tls: {key: FILE}`)"
                                     : "--tls-cert (`tls: {cert: FILE}`)");
    if (s->tls_client_ca && !s->tls_cert)
        return diag_fail(diag, WEIR_EOPTION,
                         "client certificates need TLS: add --tls-cert and --tls-key (`tls: {cert: "
                         "FILE, key: FILE}`)");
    if (s->allows_plain && !s->tls_cert)
        return diag_fail(
            diag, WEIR_EOPTION,
            "allow_plain is for a server with TLS: without, all connections are plain");
    return WEIR_OK;
}

weir_err settings_check(struct server_settings *s, weir_diag *diag)
{
    weir_err err;

    if (s->listen_count == 0)
        return diag_fail(diag, WEIR_EOPTION, "there is no address to listen on");
    if (s->sync && !store_directory(s->store))
        return diag_fail(diag, WEIR_EOPTION,
                         "sync is for a store on disk: use file:DIR, or leave it out");
    err = check_tls(s, diag);
    if (!err)
        err = check_strangers(s, diag);
    return err;
}

/* ---- what a reload leaves as it is ----------------------------------------------------- */

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool are_same_texts(const char *const *a, size_t a_count, const char *const *b,
                           size_t b_count)
{
    bool is_alike = a_count == b_count;

    for (size_t i = 0; i < a_count && is_alike; i++)
        is_alike = is_same_text(a[i], b[i]);
    return is_alike;
}

static bool trust_alike(const struct server_settings *a, const struct server_settings *b)
{
    bool is_alike = a->trusted_proxy_count == b->trusted_proxy_count;

    for (size_t i = 0; i < a->trusted_proxy_count && is_alike; i++) {
        const struct cidr *x = &a->trusted_proxies[i], *y = &b->trusted_proxies[i];

        is_alike = x->bits == y->bits && x->base.is_v6 == y->base.is_v6 &&
                   memcmp(x->base.bytes, y->base.bytes, sizeof x->base.bytes) == 0;
    }
    return is_alike;
}

static bool are_envoys_alike(const struct envoy_settings *a, const struct envoy_settings *b)
{
    return is_same_text(a->config, b->config) && a->counts_refused == b->counts_refused &&
           a->denies_unknown_domains == b->denies_unknown_domains &&
           a->denies_at_limit == b->denies_at_limit && a->is_shadow == b->is_shadow &&
           a->is_quota == b->is_quota && a->merges_domains == b->merges_domains &&
           a->sends_metadata == b->sends_metadata && a->sends_headers == b->sends_headers &&
           is_same_text(a->limit_header, b->limit_header) &&
           is_same_text(a->remaining_header, b->remaining_header) &&
           is_same_text(a->reset_header, b->reset_header);
}

const char *settings_fixed_difference(const struct server_settings *a,
                                      const struct server_settings *b)
{
    const struct {
        const char *name;
        bool is_same;
    } all[] = {
        { "store", is_same_text(a->store, b->store) },
        { "sync", is_same_text(a->sync, b->sync) },
        { "secret_file", is_same_text(a->secret_file, b->secret_file) },
        { "max_keys", a->max_keys == b->max_keys },
        { "listen", are_same_texts(a->listen, a->listen_count, b->listen, b->listen_count) },
        { "threads", a->threads == b->threads },
        { "io", a->io == b->io },
        { "max_connections", a->max_connections == b->max_connections },
        { "idle_timeout", a->idle_timeout_ms == b->idle_timeout_ms },
        { "request_timeout", a->request_timeout_ms == b->request_timeout_ms },
        { "drain_timeout", a->drain_timeout_ms == b->drain_timeout_ms },
        { "max_connection_age", a->max_connection_age_ms == b->max_connection_age_ms },
        { "trusted_proxies", trust_alike(a, b) },
        { "allowed_origins",
          are_same_texts(a->origins, a->origin_count, b->origins, b->origin_count) },
        { "trust_client_clock", a->trusts_client_clock == b->trusts_client_clock },
        { "tls", !a->tls_cert == !b->tls_cert },
        { "allow_plain", a->allows_plain == b->allows_plain },
        { "log", is_same_text(a->log_file, b->log_file) },
        { "log_level", a->log_level == b->log_level },
        { "log_format", a->log_format == b->log_format },
        { "envoy", are_envoys_alike(&a->envoy, &b->envoy) },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i].is_same)
            return all[i].name;
    return NULL;
}
