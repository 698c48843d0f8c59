/* test_settings.c - the settings of a server: defaults, what a file says, and what is refused. */
#include "support/unit.h"

#include "server/settings.h"
#include "support/temp_dir.h"

/* A policy file with these lines under `server:`. */
struct config {
    struct temp_dir dir;
    char path[PATH_MAX];
};

static struct config config_of(const char *server)
{
    struct config c = { .dir = temp_dir_make() };
    FILE *f;

    snprintf(c.path, sizeof c.path, "%s/weir.yaml", c.dir.path);
    f = fopen(c.path, "w");
    assert_non_null(f);
    fprintf(f, "version: 1\npolicies: {login: {limit: 5 per 15m, by: ip}}\n%s", server);
    fclose(f);
    return c;
}

static struct server_settings load(const struct config *c)
{
    struct server_settings s;
    weir_diag diag;

    if (settings_load(&s, c->path, &diag))
        fail_msg("%s", diag.text);
    return s;
}

/* Is it the path of this file in the config's folder, after a prefix? */
static void assert_beside(const struct config *c, const char *path, const char *prefix,
                          const char *name)
{
    char expected[2 * PATH_MAX];

    snprintf(expected, sizeof expected, "%s%s/%s", prefix, c->dir.path, name);
    assert_string_equal(path, expected);
}

/* All problems, with the config's path before each. */
static void assert_refused(const char *server, const char *lines)
{
    struct config c = config_of(server);
    struct server_settings s;
    weir_diag diag;
    char *at = diag.text;

    assert_int_equal(settings_load(&s, c.path, &diag), WEIR_EPOLICY);
    for (const char *line = lines; *line; line += strcspn(line, "\n") + 1) {
        const size_t len = strcspn(line, "\n");

        assert_memory_equal(at, c.path, strlen(c.path));
        at += strlen(c.path) + 1;
        if (strncmp(at, line, len) != 0)
            fail_msg("%s\nis not\n%.*s", at, (int)len, line);
        at += len;
        at += *at == '\n';
        if (!line[len])
            break;
    }
    assert_string_equal(at, "");
    temp_dir_remove(&c.dir);
}

static void without_a_file_there_are_defaults(void **state)
{
    struct server_settings s;
    weir_diag diag;

    (void)state;
    assert_int_equal(settings_load(&s, NULL, &diag), WEIR_OK);
    assert_null(s.config);
    assert_string_equal(s.store, "file:weir-data");
    assert_null(s.sync);
    assert_int_equal(s.listen_count, 1);
    assert_string_equal(s.listen[0], "127.0.0.1:7878");
    assert_int_equal(s.threads, 0);
    assert_true(s.max_connections >= 10000);
    assert_int_equal(s.idle_timeout_ms, 300000);
    assert_int_equal(s.request_timeout_ms, 10000);
    assert_int_equal(s.drain_timeout_ms, 10000);
    assert_int_equal(s.max_connection_age_ms, 86400000);
    assert_false(s.trusts_client_clock);
    assert_int_equal(settings_check(&s, &diag), WEIR_OK);
    settings_done(&s);
}

static void a_file_without_a_server_section_leaves_the_defaults(void **state)
{
    struct config c = config_of("");
    struct server_settings s = load(&c);

    (void)state;
    assert_string_equal(s.config, c.path);
    assert_string_equal(s.store, "file:weir-data");
    assert_string_equal(s.listen[0], "127.0.0.1:7878");
    settings_done(&s);
    temp_dir_remove(&c.dir);
}

static void a_file_may_say_everything(void **state)
{
    struct config c = config_of(
        "server:\n"
        "  store: memory\n"
        "  secret_file: keys/secret\n"
        "  max_keys: 1000\n"
        "  listen: ['127.0.0.1:1', '[::1]:2', 'unix:weir.sock']\n"
        "  threads: 3\n"
        "  trust_client_clock: true\n"
        "  max_connections: 77\n"
        "  idle_timeout: 2m\n"
        "  request_timeout: 3s\n"
        "  drain_timeout: 400ms\n"
        "  max_connection_age: 1h\n"
        "  tokens:\n"
        "    - {file: all.token, scope: [check, admin, metrics, reset, view]}\n"
        "    - {file: /etc/weir/m, scope: metrics}\n"
        "  trusted_proxies: [10.0.0.0/8, '2001:db8::/32', 192.0.2.1]\n"
        "  allowed_origins: ['https://weir.example', 'http://a:81']\n"
        "  tls: {cert: s.pem, key: s.key, client_ca: ca.pem,\n"
        "        allow_plain: true}\n"
        "  log: weir.log\n");
    struct server_settings s = load(&c);
    weir_diag diag;

    (void)state;
    assert_string_equal(s.store, "memory:");
    assert_beside(&c, s.secret_file, "", "keys/secret");
    assert_int_equal(s.max_keys, 1000);
    assert_int_equal(s.listen_count, 3);
    assert_string_equal(s.listen[0], "127.0.0.1:1");
    assert_string_equal(s.listen[1], "[::1]:2");
    assert_beside(&c, s.listen[2], "unix:", "weir.sock");
    assert_int_equal(s.threads, 3);
    assert_true(s.trusts_client_clock);
    assert_int_equal(s.max_connections, 77);
    assert_int_equal(s.idle_timeout_ms, 120000);
    assert_int_equal(s.request_timeout_ms, 3000);
    assert_int_equal(s.drain_timeout_ms, 400);
    assert_int_equal(s.max_connection_age_ms, 3600000);
    assert_int_equal(s.token_count, 2);
    assert_beside(&c, s.tokens[0].path, "", "all.token");
    assert_int_equal(s.tokens[0].scopes, SCOPE_ALL);
    assert_string_equal(s.tokens[1].path, "/etc/weir/m");
    assert_int_equal(s.tokens[1].scopes, SCOPE_METRICS);
    assert_int_equal(s.trusted_proxy_count, 3);
    assert_int_equal(s.trusted_proxies[0].bits, 8);
    assert_true(s.trusted_proxies[1].base.is_v6);
    assert_int_equal(s.trusted_proxies[2].bits, 32);
    assert_int_equal(s.origin_count, 2);
    assert_string_equal(s.origins[1], "http://a:81");
    assert_beside(&c, s.tls_cert, "", "s.pem");
    assert_beside(&c, s.tls_key, "", "s.key");
    assert_beside(&c, s.tls_client_ca, "", "ca.pem");
    assert_true(s.allows_plain);
    assert_beside(&c, s.log_file, "", "weir.log");
    assert_int_equal(settings_check(&s, &diag), WEIR_OK);
    settings_done(&s);
    temp_dir_remove(&c.dir);
}

static void a_store_in_the_file_is_beside_the_file(void **state)
{
    struct config c = config_of("server: {store: 'file:data', sync: always}\n");
    struct config absolute = config_of(
        "server: {store: 'file:/var/lib/weir', listen: '[::1]:0'}\n");
    struct server_settings s = load(&c);

    (void)state;
    assert_beside(&c, s.store, "file:", "data");
    assert_string_equal(s.sync, "always");
    settings_done(&s);
    s = load(&absolute);
    assert_string_equal(s.store, "file:/var/lib/weir");
    assert_int_equal(s.listen_count, 1);
    settings_done(&s);
    temp_dir_remove(&c.dir);
    temp_dir_remove(&absolute.dir);
}

static void problems_are_reported_with_their_places(void **state)
{
    (void)state;
    assert_refused("server: [a]\n",
                   "3:9: server must be a mapping, as in {threads: 4}; this is a list");
    assert_refused("server:\n"
                   "  thread: 2\n"
                   "  max_keys: many\n"
                   "  idle_timeout: 5 minutes\n"
                   "  drain_timeout: 2d\n"
                   "  trust_client_clock: maybe\n"
                   "  sync: never\n"
                   "  store: ''\n",
                   "4:3: unknown key 'thread' in server: did you mean 'threads'?\n"
                   "5:13: max_keys must be a whole number from 1 to 9007199254740992, not 'many'\n"
                   "6:17: '5 minutes' is not a duration: write 5m\n"
                   "7:18: drain_timeout must be from 10ms to 1d\n"
                   "8:23: trust_client_clock 'maybe' is unknown: it is one of false, true\n"
                   "9:9: sync is always, os, or a duration: 'never' is not a duration: write a "
                   "whole number and one of ms, s, m, h, d, w, as in 15m\n"
                   "10:10: store is empty: write it as in file:weir-data");
    assert_refused(
        "server:\n"
        "  tokens:\n"
        "    - {file: a, scope: [chek, root]}\n"
        "    - {scopes: [check]}\n"
        "    - {file: b, scope: []}\n"
        "  tls: {cert: x}\n"
        "  trusted_proxies: 10.0.0.1/8\n",
        "5:25: there is no scope 'chek': did you mean 'check'?\n"
        "5:31: there is no scope 'root': it is one of check, admin, metrics, reset, view\n"
        "6:7: a token needs a file\n"
        "6:8: unknown key 'scopes' in a token: did you mean 'scope'?\n"
        "7:24: a token without a scope allows nothing: write [check]\n"
        "8:8: tls has no key: it needs cert and key\n"
        "9:20: '10.0.0.1/8' has bits set beyond its prefix: write 10.0.0.0/8");
}

static void an_invalid_address_is_reported_with_its_place(void **state)
{
    struct config c = config_of("server:\n  listen: [127.0.0.1:1, nonsense]\n");
    struct server_settings s;
    weir_diag diag;

    (void)state;
    assert_int_equal(settings_load(&s, c.path, &diag), WEIR_EPOLICY);
    assert_non_null(strstr(diag.text, "weir.yaml:4:25: "));
    temp_dir_remove(&c.dir);
}

static void a_missing_file_or_one_that_is_not_yaml_is_reported(void **state)
{
    struct config c = config_of("server: {threads: 2\n");
    struct server_settings s;
    weir_diag diag;

    (void)state;
    assert_int_equal(settings_load(&s, c.path, &diag), WEIR_EPOLICY);
    assert_non_null(strstr(diag.text, "weir.yaml:4:1: "));
    assert_int_equal(settings_load(&s, "/nonexistent/weir.yaml", &diag), WEIR_EPOLICY);
    assert_non_null(strstr(diag.text, "check the path"));
    temp_dir_remove(&c.dir);
}

static void lint_reports_server_problems_and_not_the_yaml_error_again(void **state)
{
    const weir_allocator usual = heap();
    struct problems problems;

    (void)state;
    problems_init(&problems, &usual);
    settings_lint("f", span_of("server: {threads: 99}\n"), &problems);
    assert_int_equal(problems.count, 1);
    assert_string_equal(problems.lines.at,
                        "f:1:19: threads must be a whole number from 1 to 64, not '99'\n");
    settings_lint("f", span_of("server: {threads: 99\n"), &problems);
    settings_lint("f", span_of("- a\n"), &problems);
    settings_lint("f", span_of("server: {listen: 'elsewhere.invalid:7878'}\n"), &problems);
    settings_lint("f", span_of(""), &problems);
    assert_int_equal(problems.count, 1);
    problems_done(&problems);
}

/* ---- settings_check --------------------------------------------------------------------- */

static struct server_settings listening_on(const char *address)
{
    struct server_settings s;
    weir_diag diag;

    assert_int_equal(settings_load(&s, NULL, &diag), WEIR_OK);
    s.listen_count = 0;
    assert_int_equal(settings_add_listener(&s, span_of(address), &diag), WEIR_OK);
    return s;
}

static void assert_check(struct server_settings *s, const char *part)
{
    weir_diag diag = { "" };
    const weir_err err = settings_check(s, &diag);

    if (!part) {
        assert_string_equal(err ? diag.text : "", "");
        return;
    }
    assert_int_equal(err, WEIR_EOPTION);
    if (!strstr(diag.text, part))
        fail_msg("'%s' is not in '%s'", part, diag.text);
}

static void public_addresses_need_a_token_or_a_certificate(void **state)
{
    static const char *const open[] = { "0.0.0.0:7878", "[::]:7878", "192.0.2.1:7878" };
    static const char *const closed[] = { "127.0.0.1:7878", "[::1]:7878", "unix:/tmp/w.sock" };
    weir_diag diag;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct server_settings s = listening_on(closed[i]);

        assert_check(&s, NULL);
        settings_done(&s);
        s = listening_on(open[i]);
        assert_check(&s, open[i]);
        assert_check(&s, "--token-file");
        s.tls_cert = s.tls_key = s.tls_client_ca = "x";
        assert_check(&s, NULL);
        s.allows_plain = true; /* which needs no certificate */
        assert_check(&s, "--token-file");
        assert_int_equal(settings_add_token(&s, span_of("t"), SCOPE_CHECK, span_of(""), &diag),
                         WEIR_OK);
        assert_check(&s, NULL);
        settings_done(&s);
    }
}

static void settings_that_do_not_go_together_are_rejected(void **state)
{
    struct server_settings s = listening_on("127.0.0.1:0");

    (void)state;
    s.tls_cert = "c";
    assert_check(&s, "--tls-key");
    s.tls_cert = NULL;
    s.tls_key = "k";
    assert_check(&s, "--tls-cert");
    s.tls_key = NULL;
    s.tls_client_ca = "ca";
    assert_check(&s, "client certificates need TLS");
    s.tls_client_ca = NULL;
    s.allows_plain = true;
    assert_check(&s, "allow_plain");
    s.allows_plain = false;
    s.store = "memory:";
    s.sync = "always";
    assert_check(&s, "sync is for a store on disk");
    s.sync = NULL;
    assert_check(&s, NULL);
    settings_done(&s);
}

static void an_origin_is_a_scheme_and_a_host(void **state)
{
    static const char *const wrong[] = { "",
                                         "*",
                                         "null",
                                         "weir.example",
                                         "https://",
                                         "https://*.example",
                                         "https://weir.example/",
                                         "ftp://weir.example",
                                         "https://a b",
                                         "https://user@weir.example" };
    struct server_settings s = listening_on("127.0.0.1:0");
    weir_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(settings_add_origin(&s, span_of(wrong[i]), &diag), WEIR_EOPTION);
    assert_int_equal(settings_add_origin(&s, span_of("https://weir.example/ui"), &diag),
                     WEIR_EOPTION);
    assert_string_equal(diag.text, "'https://weir.example/ui' is not an origin: write "
                                   "https://weir.example, without a path");
    settings_done(&s);
}

static void a_token_has_a_name(void **state)
{
    struct server_settings s = listening_on("127.0.0.1:0");
    char name[SETTINGS_MOST_TOKEN_NAME + 2];
    weir_diag diag;

    (void)state;
    memset(name, 'n', sizeof name);
    assert_int_equal(settings_add_token(&s, span_of("a"), SCOPE_VIEW,
                                        (struct span){ name, SETTINGS_MOST_TOKEN_NAME }, &diag),
                     WEIR_OK);
    assert_int_equal(strlen(s.tokens[0].name), SETTINGS_MOST_TOKEN_NAME);
    assert_int_equal(settings_add_token(&s, span_of("a"), SCOPE_VIEW,
                                        (struct span){ name, SETTINGS_MOST_TOKEN_NAME + 1 }, &diag),
                     WEIR_EOPTION);
    assert_string_equal(diag.text, "the name of a token has at most 64 bytes");
    assert_int_equal(s.token_count, 1);
    settings_done(&s);
}

static void lists_end(void **state)
{
    struct server_settings s = listening_on("127.0.0.1:0");
    weir_diag diag;

    (void)state;
    for (size_t i = 1; i < SETTINGS_MOST_LISTENERS; i++)
        assert_int_equal(settings_add_listener(&s, span_of("[::1]:0"), &diag), WEIR_OK);
    assert_int_equal(settings_add_listener(&s, span_of("[::1]:0"), &diag), WEIR_EOPTION);
    for (size_t i = 0; i < SETTINGS_MOST_TOKENS; i++)
        assert_int_equal(settings_add_token(&s, span_of("f"), SCOPE_CHECK, span_of(""), &diag),
                         WEIR_OK);
    assert_int_equal(settings_add_token(&s, span_of("f"), SCOPE_CHECK, span_of(""), &diag),
                     WEIR_EOPTION);
    for (size_t i = 0; i < SETTINGS_MOST_PROXIES; i++)
        assert_int_equal(settings_add_proxy(&s, span_of("10.0.0.1"), &diag), WEIR_OK);
    assert_int_equal(settings_add_proxy(&s, span_of("10.0.0.1"), &diag), WEIR_EOPTION);
    for (size_t i = 0; i < SETTINGS_MOST_ORIGINS; i++)
        assert_int_equal(settings_add_origin(&s, span_of("http://a"), &diag), WEIR_OK);
    assert_int_equal(settings_add_origin(&s, span_of("http://a"), &diag), WEIR_EOPTION);
    settings_done(&s);
}

static void telemetry_is_off_and_then_as_the_file_says(void **state)
{
    struct config c = config_of("server: {}\n");
    struct server_settings s = load(&c);

    (void)state;
    assert_null(s.telemetry.endpoint);
    assert_false(s.telemetry.logs_traces);
    settings_done(&s);
    temp_dir_remove(&c.dir);
    c = config_of("server:\n"
                  "  telemetry:\n"
                  "    endpoint: https://otlp.example:4318/base\n"
                  "    headers_file: keys\n"
                  "    ca: ca.pem\n"
                  "    interval: 10s\n"
                  "    timeout: 2s\n"
                  "    metrics: false\n"
                  "    traces: {caller: false, denied: 2.5%, all: 0.01%}\n"
                  "    service_name: gate\n"
                  "    attributes: {cloud.region: here, a: b}\n");
    s = load(&c);
    assert_string_equal(s.telemetry.endpoint, "https://otlp.example:4318/base");
    assert_beside(&c, s.telemetry.headers_file, "", "keys");
    assert_beside(&c, s.telemetry.ca, "", "ca.pem");
    assert_int_equal(s.telemetry.interval_ms, 10000);
    assert_int_equal(s.telemetry.timeout_ms, 2000);
    assert_false(s.telemetry.sends_metrics);
    assert_false(s.telemetry.follows_caller);
    assert_int_equal(s.telemetry.denied_share, 250);
    assert_int_equal(s.telemetry.all_share, 1);
    assert_true(s.telemetry.logs_traces); /* as there is an endpoint */
    assert_string_equal(s.telemetry.service_name, "gate");
    assert_int_equal(s.telemetry.attribute_count, 2);
    assert_string_equal(s.telemetry.attributes[0].name, "cloud.region");
    assert_string_equal(s.telemetry.attributes[0].value, "here");
    settings_done(&s);
    temp_dir_remove(&c.dir);
}

static void problems_of_telemetry_are_reported_with_their_places(void **state)
{
    (void)state;
    assert_refused("server:\n"
                   "  telemetry:\n"
                   "    endpoint: localhost:4318\n"
                   "    interval: 1ms\n"
                   "    traces: {denied: 101%, parent: true}\n"
                   "    metrics: perhaps\n"
                   "    attributes: [a]\n"
                   "    ratio: 1\n",
                   "5:15: the endpoint is no URL, such as http://localhost:4318: it must begin "
                   "with http:// or https://\n"
                   "6:15: interval must be from 10ms to 1d\n"
                   "7:22: '101%' is not a share: write 10%, or 0.5%\n"
                   "7:28: 'parent' is not allowed in traces, which may have caller, denied, all\n"
                   "8:14: metrics 'perhaps' is unknown: it is one of false, true\n"
                   "9:17: attributes must be a mapping, as in {deployment.environment.name: "
                   "test}; this is a list\n"
                   "10:5: 'ratio' is not allowed in telemetry, which may have endpoint, "
                   "headers_file, ca, interval, timeout, metrics, traces, log_traces, "
                   "service_name, attributes");
    assert_refused("server: {telemetry: {endpoint: 'http://a?b'}}\n",
                   "3:32: the endpoint is no URL, such as http://localhost:4318: it cannot have a "
                   "query");
}

static void attributes_of_telemetry_are_bounded(void **state)
{
    char text[8192] = "server: {telemetry: {attributes: {";
    const size_t begin = strlen(text);
    struct config c;
    struct server_settings s;
    weir_diag diag;

    (void)state;
    for (int i = 0; i < SETTINGS_MOST_ATTRIBUTES; i++)
        sprintf(text + strlen(text), "a%d: b, ", i);
    strcat(text, "}}}\n");
    c = config_of(text);
    s = load(&c);
    assert_int_equal(s.telemetry.attribute_count, SETTINGS_MOST_ATTRIBUTES);
    settings_done(&s);
    temp_dir_remove(&c.dir);
    strcpy(strrchr(text, ','), ", more: b}}}\n");
    c = config_of(text);
    assert_int_equal(settings_load(&s, c.path, &diag), WEIR_EPOLICY);
    assert_non_null(strstr(diag.text, "there are more than 32 attributes"));
    temp_dir_remove(&c.dir);
    for (int name = 0; name < 2; name++) {
        const int most = name ? SETTINGS_MOST_ATTRIBUTE_NAME : SETTINGS_MOST_ATTRIBUTE;

        for (int len = most; len <= most + 1; len++) {
            const char *before = name ? "" : "a: ", *after = name ? ": b" : "";

            sprintf(text + begin, "%s%0*d%s}}}\n", before, len, 0, after);
            c = config_of(text);
            assert_int_equal(settings_load(&s, c.path, &diag),
                             len == most ? WEIR_OK : WEIR_EPOLICY);
            if (len == most)
                settings_done(&s);
            temp_dir_remove(&c.dir);
        }
    }
}

static struct server_settings load_with(const struct config *c, const char *name, const char *value)
{
    struct server_settings s;

    assert_int_equal(setenv(name, value, 1), 0);
    s = load(c);
    unsetenv(name);
    return s;
}

static void variables_of_opentelemetry_go_over_the_file(void **state)
{
    struct config c = config_of("server: {telemetry: {endpoint: 'http://a:1', traces: {all: 1%}, "
                                "attributes: {x: file, y: file}}}\n");
    struct server_settings s = load_with(&c, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:2");

    (void)state;
    assert_string_equal(s.telemetry.endpoint, "http://b:2");
    settings_done(&s);
    s = load_with(&c, "OTEL_EXPORTER_OTLP_ENDPOINT", ""); /* as if it were not set */
    assert_string_equal(s.telemetry.endpoint, "http://a:1");
    settings_done(&s);
    s = load_with(&c, "OTEL_RESOURCE_ATTRIBUTES", "x=a%2Cb, z = 1");
    assert_int_equal(s.telemetry.attribute_count, 3);
    assert_string_equal(s.telemetry.attributes[0].value, "a,b");
    assert_string_equal(s.telemetry.attributes[2].name, "z");
    settings_done(&s);
    s = load_with(&c, "OTEL_EXPORTER_OTLP_TIMEOUT", "250");
    assert_int_equal(s.telemetry.timeout_ms, 250);
    settings_done(&s);
    s = load_with(&c, "OTEL_TRACES_EXPORTER", "none");
    assert_false(s.telemetry.follows_caller || s.telemetry.all_share);
    assert_true(s.telemetry.sends_metrics);
    settings_done(&s);
    s = load_with(&c, "OTEL_METRICS_EXPORTER", "none");
    assert_false(s.telemetry.sends_metrics);
    settings_done(&s);
    s = load_with(&c, "OTEL_SDK_DISABLED", "True");
    assert_null(s.telemetry.endpoint);
    assert_false(s.telemetry.logs_traces);
    settings_done(&s);
    temp_dir_remove(&c.dir);
}

static void a_variable_that_is_wrong_is_told_and_ignored(void **state)
{
    static const struct {
        const char *name, *value, *why;
    } bad[] = {
        { "OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://b", "it must begin with http:// or https://" },
        { "OTEL_METRIC_EXPORT_INTERVAL", "10s", "a number of milliseconds" },
        { "OTEL_EXPORTER_OTLP_TIMEOUT", "9", "a number of milliseconds" },
        { "OTEL_RESOURCE_ATTRIBUTES", "x", "a list of name=value" },
        { "OTEL_RESOURCE_ATTRIBUTES", "x=%1", "two hex digits" },
        { "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/json" },
    };
    struct config c = config_of("server: {telemetry: {endpoint: 'http://a:1'}}\n");

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct server_settings s = load_with(&c, bad[i].name, bad[i].value);

        assert_non_null(s.telemetry.warning);
        assert_non_null(strstr(s.telemetry.warning, bad[i].name));
        assert_non_null(strstr(s.telemetry.warning, bad[i].why));
        assert_string_equal(s.telemetry.endpoint, "http://a:1");
        assert_int_equal(s.telemetry.interval_ms, 60000);
        settings_done(&s);
    }
    temp_dir_remove(&c.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_there_are_defaults),
        cmocka_unit_test(a_file_without_a_server_section_leaves_the_defaults),
        cmocka_unit_test(a_file_may_say_everything),
        cmocka_unit_test(a_store_in_the_file_is_beside_the_file),
        cmocka_unit_test(problems_are_reported_with_their_places),
        cmocka_unit_test(an_invalid_address_is_reported_with_its_place),
        cmocka_unit_test(a_missing_file_or_one_that_is_not_yaml_is_reported),
        cmocka_unit_test(lint_reports_server_problems_and_not_the_yaml_error_again),
        cmocka_unit_test(public_addresses_need_a_token_or_a_certificate),
        cmocka_unit_test(settings_that_do_not_go_together_are_rejected),
        cmocka_unit_test(an_origin_is_a_scheme_and_a_host),
        cmocka_unit_test(a_token_has_a_name),
        cmocka_unit_test(lists_end),
        cmocka_unit_test(telemetry_is_off_and_then_as_the_file_says),
        cmocka_unit_test(problems_of_telemetry_are_reported_with_their_places),
        cmocka_unit_test(attributes_of_telemetry_are_bounded),
        cmocka_unit_test(variables_of_opentelemetry_go_over_the_file),
        cmocka_unit_test(a_variable_that_is_wrong_is_told_and_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
