/* settings_telemetry.c - `telemetry:` of the settings, and the variables of OpenTelemetry. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/diag.h"
#include "base/hex.h"
#include "base/printable.h"
#include "base/url.h"
#include "policy/rate.h"
#include "server/settings_reading.h"

/* ---- the file ------------------------------------------------------------------------------ */

/* Signals are appended to its path. */
static const char *wrong_endpoint(const char *url)
{
    struct url parts;
    const char *wrong = url_read(span_of(url), &parts);

    return wrong ? wrong : strchr(url, '?') || strchr(url, '#') ? "it cannot have a query" : NULL;
}

static void read_endpoint(struct reading *r, const struct yaml *key)
{
    static const char example[] = "http://localhost:4318";
    const char *wrong;

    if (!key || !setting_is_text(r, key->value, "endpoint", example))
        return;
    wrong = wrong_endpoint(key->value->text.at);
    if (wrong)
        complain(&r->reader, key->value, "the endpoint is no URL, such as %s: %s", example, wrong);
    else
        r->s->telemetry.endpoint = setting_put_text(r, key->value->text);
}

static void read_share(struct reading *r, const struct yaml *key, const char *what, int *out)
{
    weir_diag diag;

    if (key && wants(&r->reader, key->value, YAML_TEXT, what, "1%") &&
        share_read(key->value->text, out, &diag))
        complain(&r->reader, key->value, "%s", diag.text);
}

static void read_traces(struct reading *r, const struct yaml *node)
{
    enum { CALLER, DENIED, EVERY, TRACE_KEYS };
    static const char *const words[TRACE_KEYS] = { "caller", "denied", "all" };
    struct telemetry_settings *t = &r->s->telemetry;
    const struct yaml *keys[TRACE_KEYS];

    if (!wants(&r->reader, node, YAML_MAPPING, "traces", "{caller: true, denied: 1%}"))
        return;
    read_keys(&r->reader, node, "traces", words, TRACE_KEYS, ALL(TRACE_KEYS), keys);
    setting_bool(r, keys[CALLER], "caller", &t->follows_caller);
    read_share(r, keys[DENIED], "denied", &t->denied_share);
    read_share(r, keys[EVERY], "all", &t->all_share);
}

/* NULL, or what is wrong. The last of a name is the one that counts. */
static const char *add_attribute(struct telemetry_settings *t, const char *name, const char *value)
{
    size_t i = 0;

    if (*name == '\0' || strlen(name) > SETTINGS_MOST_ATTRIBUTE_NAME ||
        strlen(value) > SETTINGS_MOST_ATTRIBUTE)
        return "an attribute has a name and a value, of at most 255 and 1024 bytes";
    while (i < t->attribute_count && strcmp(t->attributes[i].name, name) != 0)
        i++;
    if (i == SETTINGS_MOST_ATTRIBUTES)
        return "there are more than 32 attributes";
    t->attributes[i] = (struct resource_attribute){ name, value };
    t->attribute_count += i == t->attribute_count;
    return NULL;
}

static void read_attributes(struct reading *r, const struct yaml *node)
{
    if (!wants(&r->reader, node, YAML_MAPPING, "attributes", "{deployment.environment.name: test}"))
        return;
    for (const struct yaml *key = node->first; key; key = key->next) {
        const char *name, *value, *wrong;

        if (!setting_is_text(r, key->value, "an attribute", "production"))
            continue;
        name = setting_put_text(r, key->text);
        value = setting_put_text(r, key->value->text);
        wrong = name && value ? add_attribute(&r->s->telemetry, name, value) : NULL;
        if (wrong)
            complain(&r->reader, key, "%s", wrong);
    }
}

void settings_read_telemetry(struct reading *r, const struct yaml *node)
{
    enum {
        ENDPOINT,
        HEADERS_FILE,
        CA,
        INTERVAL,
        TIMEOUT,
        METRICS,
        TRACES,
        LOG_TRACES,
        SERVICE_NAME,
        ATTRIBUTES,
        TELEMETRY_KEYS
    };
    static const char *const words[TELEMETRY_KEYS] = {
        "endpoint", "headers_file", "ca",         "interval",     "timeout",
        "metrics",  "traces",       "log_traces", "service_name", "attributes",
    };
    struct telemetry_settings *t = &r->s->telemetry;
    const struct yaml *keys[TELEMETRY_KEYS];

    if (yaml_is_null(node) ||
        !wants(&r->reader, node, YAML_MAPPING, "telemetry", "{endpoint: 'http://localhost:4318'}"))
        return;
    read_keys(&r->reader, node, "telemetry", words, TELEMETRY_KEYS, ALL(TELEMETRY_KEYS), keys);
    read_endpoint(r, keys[ENDPOINT]);
    setting_path(r, keys[HEADERS_FILE], "headers_file", "otlp.headers", &t->headers_file);
    setting_path(r, keys[CA], "ca", "ca.pem", &t->ca);
    setting_time(r, keys[INTERVAL], "interval", &t->interval_ms);
    setting_time(r, keys[TIMEOUT], "timeout", &t->timeout_ms);
    setting_bool(r, keys[METRICS], "metrics", &t->sends_metrics);
    if (keys[TRACES])
        read_traces(r, keys[TRACES]->value);
    setting_bool(r, keys[LOG_TRACES], "log_traces", &t->logs_traces);
    t->logs_is_given = keys[LOG_TRACES] != NULL;
    if (keys[SERVICE_NAME] && setting_is_text(r, keys[SERVICE_NAME]->value, "service_name", "weir"))
        t->service_name = setting_put_text(r, keys[SERVICE_NAME]->value->text);
    if (keys[ATTRIBUTES])
        read_attributes(r, keys[ATTRIBUTES]->value);
}

/* ---- the environment ----------------------------------------------------------------------- */

/* NULL: it is not set, or empty, which is the same. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static weir_err no_memory(weir_diag *diag)
{
    return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
}

/* Only the first is told. */
static weir_err warn_of(struct server_settings *s, const char *name, const char *wrong,
                        weir_diag *diag)
{
    struct telemetry_settings *t = &s->telemetry;
    char text[256];

    if (t->warning)
        return WEIR_OK;
    snprintf(text, sizeof text, "%s is ignored: %s", name, wrong);
    t->warning = arena_text(&s->texts, span_of(text));
    return t->warning ? WEIR_OK : no_memory(diag);
}

static weir_err take_ms(struct server_settings *s, const char *name, int64_t *out, weir_diag *diag)
{
    const char *value = variable(name);
    char *end;
    long long ms;

    if (!value)
        return WEIR_OK;
    ms = strtoll(value, &end, 10);
    if (*end || ms < SETTINGS_LEAST_TIMEOUT || ms > SETTINGS_MOST_TIMEOUT)
        return warn_of(s, name, "it must be a number of milliseconds, from 10 to a day", diag);
    *out = ms;
    return WEIR_OK;
}

/* %XX decoded in place. False: it is not valid, or has a NUL. */
static bool decode(char *text)
{
    char *to = text;

    for (; *text; text++, to++) {
        if (*text == '%') {
            const int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);

            if (low < 0 || (high == 0 && low == 0))
                return false;
            *to = (char)(high << 4 | low);
            text += 2;
        } else {
            *to = *text;
        }
    }
    *to = '\0';
    return true;
}

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    return text;
}

const char *settings_each_pair(char *list, settings_pair *each, void *ctx)
{
    const char *wrong = NULL;

    for (char *item = list, *next; item && !wrong; item = next) {
        char *comma = strchr(item, ','), *equals;

        next = comma ? comma + 1 : NULL;
        if (comma)
            *comma = '\0';
        item = trim(item);
        if (*item == '\0')
            continue;
        equals = strchr(item, '=');
        if (!equals)
            return "it must be a list of name=value, with commas";
        *equals = '\0';
        item = trim(item);
        equals = trim(equals + 1);
        wrong = decode(equals) ? each(ctx, item, equals) : "a % must be followed by two hex digits";
    }
    return wrong;
}

static const char *take_attribute(void *ctx, const char *name, const char *value)
{
    return add_attribute(ctx, name, value);
}

static weir_err take_attributes(struct server_settings *s, weir_diag *diag)
{
    static const char name[] = "OTEL_RESOURCE_ATTRIBUTES";
    const char *value = variable(name), *wrong;
    char *copy;

    if (!value)
        return WEIR_OK;
    copy = arena_text(&s->texts, span_of(value));
    if (!copy)
        return no_memory(diag);
    wrong = settings_each_pair(copy, take_attribute, &s->telemetry);
    return wrong ? warn_of(s, name, wrong, diag) : WEIR_OK;
}

static weir_err take_endpoint(struct server_settings *s, weir_diag *diag)
{
    static const char name[] = "OTEL_EXPORTER_OTLP_ENDPOINT", how[] = "OTEL_EXPORTER_OTLP_PROTOCOL";
    const char *endpoint = variable(name), *protocol = variable(how);
    const char *wrong = endpoint ? wrong_endpoint(endpoint) : NULL;

    if (wrong)
        return warn_of(s, name, wrong, diag);
    if (endpoint)
        s->telemetry.endpoint = endpoint;
    if (protocol && s->telemetry.endpoint && strcmp(protocol, "http/json") != 0)
        return warn_of(s, how, "telemetry is sent as http/json", diag);
    return WEIR_OK;
}

static bool is_none(const char *name)
{
    const char *value = variable(name);

    return value && strcmp(value, "none") == 0;
}

static void take_switches(struct telemetry_settings *t)
{
    const char *disabled = variable("OTEL_SDK_DISABLED");

    if (disabled && strcasecmp(disabled, "true") == 0)
        t->endpoint = NULL;
    if (is_none("OTEL_METRICS_EXPORTER"))
        t->sends_metrics = false;
    if (is_none("OTEL_TRACES_EXPORTER")) {
        t->follows_caller = false;
        t->denied_share = t->all_share = 0;
    }
}

static void take_text(const char *name, const char **out)
{
    const char *value = variable(name);

    if (value)
        *out = value;
}

weir_err settings_telemetry_environment(struct server_settings *s, weir_diag *diag)
{
    struct telemetry_settings *t = &s->telemetry;
    weir_err err = take_endpoint(s, diag);

    if (!err)
        err = take_ms(s, "OTEL_METRIC_EXPORT_INTERVAL", &t->interval_ms, diag);
    if (!err)
        err = take_ms(s, "OTEL_EXPORTER_OTLP_TIMEOUT", &t->timeout_ms, diag);
    if (!err)
        err = take_attributes(s, diag);
    take_text("OTEL_EXPORTER_OTLP_HEADERS", &t->headers);
    take_text("OTEL_EXPORTER_OTLP_CERTIFICATE", &t->ca);
    take_text("OTEL_SERVICE_NAME", &t->service_name);
    take_switches(t);
    if (!t->logs_is_given)
        t->logs_traces = t->endpoint != NULL;
    return err;
}
