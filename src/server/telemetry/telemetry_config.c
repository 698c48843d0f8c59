/* telemetry_config.c - all that the sender of telemetry needs to know.
 *
 * Headers come from a file of `Name: value` lines, and from OTEL_EXPORTER_OTLP_HEADERS, a list of
 * name=value. They often have an API key: no text about them has a value in it. */
#include "server/telemetry/telemetry_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/hex.h"
#include "base/url.h"
#include "server/telemetry/otlp.h"

/* ---- headers --------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    const char *at = name;

    for (; *at; at++)
        if (!(*at >= '0' && *at <= '9') && !(*at >= 'a' && *at <= 'z') &&
            !(*at >= 'A' && *at <= 'Z') && !strchr(others, *at))
            return false;
    return at > name;
}

static bool is_value(const char *value)
{
    for (; *value; value++)
        if ((*value < ' ' && *value != '\t') || *value == 0x7f)
            return false;
    return true;
}

/* What the client itself says. */
static bool is_own(const char *name)
{
    static const char *const own[] = { "connection",        "content-length",
                                       "content-type",      "host",
                                       "transfer-encoding", "expect",
                                       "content-encoding" };

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcasecmp(name, own[i]) == 0)
            return true;
    return false;
}

static const char *put_header(void *ctx, const char *name, const char *value)
{
    struct buf *lines = ctx;

    if (!is_name(name) || !is_value(value))
        return "a header has a name, and a value of one line";
    if (is_own(name))
        return "headers about the message itself cannot be set";
    buf_printf(lines, "%s: %s\r\n", name, value);
    return NULL;
}

/* Lines `Name: value`; empty ones, and those that begin with '#', are passed over. */
static const char *put_lines(struct buf *lines, char *text)
{
    const char *wrong = NULL;

    for (char *line = text, *next; line && !wrong; line = next) {
        char *end = strchr(line, '\n'), *colon;

        next = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        line += strspn(line, " \t\r");
        for (end = line + strlen(line); end > line && strchr(" \t\r", end[-1]);)
            *--end = '\0';
        if (*line == '\0' || *line == '#')
            continue;
        colon = strchr(line, ':');
        if (!colon)
            return "each line must be `Name: value`";
        *colon = '\0';
        wrong = put_header(lines, line, colon + 1 + strspn(colon + 1, " \t"));
    }
    return wrong;
}

static weir_err read_headers_file(const char *path, char text[TELEMETRY_MAX_HEADERS + 1],
                                  bool *is_open_to_others, weir_diag *diag)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    ssize_t n = -1;

    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        close(fd);
        return diag_fail(diag, WEIR_EOPTION, "telemetry: %s is not a regular file", path);
    }
    if (fd >= 0)
        n = read(fd, text, TELEMETRY_MAX_HEADERS + 1);
    if (n < 0)
        diag_set(diag, "telemetry: cannot read the headers file %s: %s", path, strerror(errno));
    else if (n > TELEMETRY_MAX_HEADERS)
        diag_set(diag, "telemetry: the headers file %s has more than %d bytes", path,
                 TELEMETRY_MAX_HEADERS);
    else
        text[n] = '\0';
    if (fd >= 0)
        close(fd);
    *is_open_to_others = n >= 0 && (st.st_mode & S_IRWXO) != 0;
    return n < 0 || n > TELEMETRY_MAX_HEADERS ? WEIR_EOPTION : WEIR_OK;
}

static weir_err put_headers(const struct telemetry_settings *s, struct buf *lines,
                            weir_diag *warning, weir_diag *diag)
{
    char text[TELEMETRY_MAX_HEADERS + 1];
    bool is_open_to_others = false;
    const char *wrong = NULL, *where = "OTEL_EXPORTER_OTLP_HEADERS";
    weir_err err = WEIR_OK;

    if (s->headers && strlen(s->headers) > TELEMETRY_MAX_HEADERS)
        return diag_fail(diag, WEIR_EOPTION, "telemetry: %s is too long", where);
    if (s->headers_file) {
        err = read_headers_file(s->headers_file, text, &is_open_to_others, diag);
        if (!err)
            wrong = put_lines(lines, text);
        if (wrong)
            where = s->headers_file;
    }
    if (!err && !wrong && s->headers) {
        strcpy(text, s->headers);
        wrong = settings_each_pair(text, put_header, lines);
    }
    explicit_bzero(text, sizeof text);
    if (wrong)
        return diag_fail(diag, WEIR_EOPTION, "telemetry: %s: %s", where, wrong);
    if (is_open_to_others)
        diag_set(warning, "every user of this machine can read %s: run chmod o= on it",
                 s->headers_file);
    return err;
}

/* ---- the resource ---------------------------------------------------------------------- */

void telemetry_instance_id(char out[INSTANCE_ID + 1])
{
    unsigned char id[16] = { 0 };
    char digits[32];

    if (getrandom(id, sizeof id, 0) < 0)
        memcpy(id, &(pid_t){ getpid() }, sizeof(pid_t));
    id[6] = (unsigned char)((id[6] & 0x0f) | 0x40); /* version 4 */
    id[8] = (unsigned char)((id[8] & 0x3f) | 0x80);
    hex_write(digits, id, sizeof id);
    snprintf(out, INSTANCE_ID + 1, "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8, digits + 12,
             digits + 16, digits + 20);
}

static void put_resource(const struct telemetry_settings *s, const char *instance_id,
                         struct buf *out)
{
    struct otlp_attribute all[SETTINGS_MOST_ATTRIBUTES + 3] = {
        { "service.name", s->service_name ? s->service_name : "weir" },
        { "service.version", weir_version() },
        { "service.instance.id", instance_id },
    };
    size_t n = 3;

    for (size_t i = 0; i < s->attribute_count; i++) {
        const struct resource_attribute *a = &s->attributes[i];
        size_t at = 0;

        while (at < n && strcmp(all[at].name, a->name) != 0)
            at++;
        if (at > 0 || !s->service_name) /* the name has a setting of its own, which is stronger */
            all[at] = (struct otlp_attribute){ a->name, a->value };
        n += at == n;
    }
    otlp_resource(out, all, n);
}

/* ---- all of it ------------------------------------------------------------------------- */

/* What a buf has; NULL: out of memory. */
static char *text_of(const struct buf *b)
{
    return b->failed ? NULL : strdup(buf_span(b).at);
}

static weir_err fill(struct telemetry_config *c, const struct telemetry_settings *s,
                     const char *instance_id, weir_diag *warning, weir_diag *diag)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct buf headers, resource;
    weir_err err = WEIR_OK;

    buf_init(&headers, &usual);
    buf_init(&resource, &usual);
    put_resource(s, instance_id, &resource);
    if (s->endpoint)
        err = put_headers(s, &headers, warning, diag);
    if (!err && s->endpoint && strncmp(s->endpoint, "https:", 6) == 0)
        err = tls_client_context_new(s->ca, &c->tls, diag);
    c->endpoint = s->endpoint ? strdup(s->endpoint) : NULL;
    c->headers = text_of(&headers);
    c->resource = text_of(&resource);
    if (!err && (!c->headers || !c->resource || (s->endpoint && !c->endpoint)))
        err = diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (headers.at)
        explicit_bzero(headers.at, headers.len);
    buf_done(&headers);
    buf_done(&resource);
    return err;
}

static void cut_slash(char *endpoint)
{
    size_t len = strlen(endpoint);

    while (len > 0 && endpoint[len - 1] == '/')
        endpoint[--len] = '\0';
}

weir_err telemetry_config_new(const struct telemetry_settings *s, const char *instance_id,
                              struct telemetry_config **out, weir_diag *diag)
{
    struct telemetry_config *c = calloc(1, sizeof *c);
    weir_diag warning = { "" };
    weir_err err;

    *out = NULL;
    if (!c)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    if (s->warning)
        diag_set(&warning, "%s", s->warning);
    err = fill(c, s, instance_id, &warning, diag);
    if (err) {
        telemetry_config_free(c);
        return err;
    }
    if (c->endpoint)
        cut_slash(c->endpoint);
    c->interval_ms = s->interval_ms;
    c->timeout_ms = s->timeout_ms;
    c->sends_metrics = c->endpoint && s->sends_metrics;
    c->sends_traces = c->endpoint && (s->follows_caller || s->denied_share || s->all_share);
    c->traces.is_logged = s->logs_traces;
    if (c->sends_traces) {
        c->traces.follows_caller = s->follows_caller;
        c->traces.denied = s->denied_share;
        c->traces.all = s->all_share;
    }
    diag_set(diag, "%s", warning.text);
    *out = c;
    return WEIR_OK;
}

void telemetry_config_free(struct telemetry_config *c)
{
    if (!c)
        return;
    if (c->headers)
        explicit_bzero(c->headers, strlen(c->headers));
    free(c->endpoint);
    free(c->headers);
    free(c->resource);
    tls_context_unref(c->tls);
    free(c);
}
