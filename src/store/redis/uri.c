/* uri.c - what a Redis store's URI says: the servers, the login, and how long to wait.
 *
 *     redis://user:password@host:6379/0?deadline=50ms
 *     redis+unix://user:password@/run/redis/redis.sock?db=0
 *     redis+sentinel://user:password@host1:26379,host2:26379/service/0
 *     redis+cluster://user:password@host1:6379,host2:6379
 *
 * rediss://, rediss+sentinel:// and rediss+cluster:// are the same by TLS.
 * A user or password has what is special in a URI as %XX. */
#include "store/redis/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/printable.h"
#include "base/span.h"
#include "store/remote/remote.h"

enum {
    PATIENCE_MS = 1000,
    DEADLINE_MS = 100,
    DEADLINE_MOST_MS = 60000,
    PORT = 6379,
    SENTINEL_PORT = 26379,
    DB_MOST = 65535,
    REPLICAS_MOST = 64,
};

static const struct scheme {
    const char *name;
    enum redis_kind kind;
    bool is_unix, is_tls;
} schemes[] = {
    { "redis://", REDIS_SINGLE, false, false },
    { "redis+unix://", REDIS_SINGLE, true, false },
    { "redis+sentinel://", REDIS_SENTINEL, false, false },
    { "redis+cluster://", REDIS_CLUSTER, false, false },
    { "rediss://", REDIS_SINGLE, false, true },
    { "rediss+sentinel://", REDIS_SENTINEL, false, true },
    { "rediss+cluster://", REDIS_CLUSTER, false, true },
};

/* ---- small pieces ---------------------------------------------------------------------------- */

static struct span until(struct span *rest, char mark)
{
    const char *at = rest->len > 0 ? memchr(rest->at, mark, rest->len) : NULL;
    struct span first = *rest;

    if (at) {
        first.len = (size_t)(at - rest->at);
        rest->len -= first.len + 1;
        rest->at = at + 1;
    } else {
        rest->at += rest->len;
        rest->len = 0;
    }
    return first;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* False: it is too long, or no valid %XX. */
static bool decode(struct span text, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '%') {
            const int high = i + 2 < text.len ? digit(text.at[i + 1]) : -1;
            const int low = i + 2 < text.len ? digit(text.at[i + 2]) : -1;

            if (high < 0 || low < 0 || high + low == 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

/* False: that is no number up to `most`. */
static bool read_number(struct span text, int64_t most, int64_t *out)
{
    int64_t n = 0;

    if (text.len == 0 || text.len > 12)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        n = n * 10 + (text.at[i] - '0');
    }
    *out = n;
    return n <= most;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static weir_err read_deadline(struct redis_uri *u, struct span value, weir_diag *diag)
{
    struct span number = value;
    int64_t unit = 1;

    if (value.len > 2 && memcmp(value.at + value.len - 2, "ms", 2) == 0) {
        number.len -= 2;
    } else if (value.len > 1 && value.at[value.len - 1] == 's') {
        number.len -= 1;
        unit = 1000;
    } else {
        number.len = 0;
    }
    if (!read_number(number, DEADLINE_MOST_MS / unit, &u->deadline) || u->deadline == 0)
        return diag_fail(diag, WEIR_EOPTION,
                         "deadline in the store's URI must be a time from 1ms to 60s, not '%s'",
                         printable(value).text);
    u->deadline *= unit;
    return WEIR_OK;
}

static weir_err read_pool(struct redis_uri *u, struct span value, weir_diag *diag)
{
    int64_t n;

    if (!read_number(value, LINKS_MOST, &n) || n == 0)
        return diag_fail(diag, WEIR_EOPTION,
                         "pool in the store's URI must be from 1 to %d connections, not '%s'",
                         LINKS_MOST, printable(value).text);
    u->pool = (size_t)n;
    return WEIR_OK;
}

static weir_err read_replicas(struct redis_uri *u, struct span value, weir_diag *diag)
{
    if (!read_number(value, REPLICAS_MOST, &u->wait_replicas))
        return diag_fail(diag, WEIR_EOPTION,
                         "wait_replicas in the store's URI must be from 0 to %d, not '%s'",
                         REPLICAS_MOST, printable(value).text);
    return WEIR_OK;
}

static weir_err read_db(struct redis_uri *u, struct span value, weir_diag *diag)
{
    int64_t n;

    if (!read_number(value, DB_MOST, &n))
        return diag_fail(diag, WEIR_EOPTION,
                         "the database in the store's URI must be a number, not '%s'",
                         printable(value).text);
    if (n > 0 && u->kind == REDIS_CLUSTER)
        return diag_fail(diag, WEIR_EOPTION,
                         "a Redis cluster has only database 0: leave it out of the store's URI");
    u->db = (int)n;
    return WEIR_OK;
}

static weir_err read_sentinel_user(struct redis_uri *u, struct span value, weir_diag *diag)
{
    if (!decode(value, u->sentinel_login.user, sizeof u->sentinel_login.user))
        return diag_fail(diag, WEIR_EOPTION, "sentinel_user in the store's URI cannot be read");
    return WEIR_OK;
}

static weir_err read_sentinel_password(struct redis_uri *u, struct span value, weir_diag *diag)
{
    if (!decode(value, u->sentinel_login.password, sizeof u->sentinel_login.password))
        return diag_fail(diag, WEIR_EOPTION, "sentinel_password in the store's URI cannot be read");
    return WEIR_OK;
}

static weir_err read_tls_text(struct span value, char *out, size_t size, const char *what,
                              weir_diag *diag)
{
    if (!decode(value, out, size) || out[0] == '\0')
        return diag_fail(diag, WEIR_EOPTION,
                         "%s in the store's URI must have 1 to %zu bytes, special characters as "
                         "%%XX",
                         what, size - 1);
    return WEIR_OK;
}

static weir_err read_tls_ca(struct redis_uri *u, struct span value, weir_diag *diag)
{
    return read_tls_text(value, u->tls.ca, sizeof u->tls.ca, "tls_ca", diag);
}

static weir_err read_tls_cert(struct redis_uri *u, struct span value, weir_diag *diag)
{
    return read_tls_text(value, u->tls.cert, sizeof u->tls.cert, "tls_cert", diag);
}

static weir_err read_tls_key(struct redis_uri *u, struct span value, weir_diag *diag)
{
    return read_tls_text(value, u->tls.key, sizeof u->tls.key, "tls_key", diag);
}

static weir_err read_tls_server_name(struct redis_uri *u, struct span value, weir_diag *diag)
{
    return read_tls_text(value, u->tls.server_name, sizeof u->tls.server_name, "tls_server_name",
                         diag);
}

static weir_err read_tls_verify(struct redis_uri *u, struct span value, weir_diag *diag)
{
    if (span_is(value, "full"))
        u->tls.verify = REDIS_VERIFY_FULL;
    else if (span_is(value, "ca"))
        u->tls.verify = REDIS_VERIFY_CA;
    else if (span_is(value, "none"))
        u->tls.verify = REDIS_VERIFY_NONE;
    else
        return diag_fail(diag, WEIR_EOPTION,
                         "tls_verify in the store's URI must be full, ca or none, not '%s'",
                         printable(value).text);
    return WEIR_OK;
}

static weir_err read_parameter(struct redis_uri *u, struct span text, weir_diag *diag)
{
    static const struct {
        const char *name;
        weir_err (*read)(struct redis_uri *u, struct span value, weir_diag *diag);
    } known[] = {
        { "deadline", read_deadline },
        { "pool", read_pool },
        { "wait_replicas", read_replicas },
        { "db", read_db },
        { "sentinel_user", read_sentinel_user },
        { "sentinel_password", read_sentinel_password },
        { "tls_ca", read_tls_ca },
        { "tls_cert", read_tls_cert },
        { "tls_key", read_tls_key },
        { "tls_server_name", read_tls_server_name },
        { "tls_verify", read_tls_verify },
    };
    struct span value = text, name = until(&value, '=');

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (span_is(name, known[i].name))
            return known[i].read(u, value, diag);
    return diag_fail(diag, WEIR_EOPTION,
                     "the store's URI has no parameter '%s': deadline, pool, wait_replicas, db, "
                     "sentinel_user, sentinel_password, tls_ca, tls_cert, tls_key, "
                     "tls_server_name and tls_verify are known",
                     printable(name).text);
}

/* What is there for TLS must be of use, and belong together. */
static weir_err check_tls(const struct redis_uri *u, bool is_tls, weir_diag *diag)
{
    const struct redis_tls_options *o = &u->tls;

    if (!is_tls && (o->ca[0] || o->cert[0] || o->key[0] || o->server_name[0] || o->verify))
        return diag_fail(diag, WEIR_EOPTION,
                         "the store's URI has parameters for TLS, but only rediss:// uses TLS");
    if (!o->cert[0] != !o->key[0])
        return diag_fail(diag, WEIR_EOPTION,
                         "tls_cert and tls_key in the store's URI belong together: give both");
    if (o->verify == REDIS_VERIFY_CA && !o->ca[0])
        return diag_fail(diag, WEIR_EOPTION,
                         "tls_verify=ca needs tls_ca: any host can have a certificate of a public "
                         "CA");
    return WEIR_OK;
}

/* ---- where it is ----------------------------------------------------------------------------- */

/* host, host:port or [address]:port */
static weir_err read_address(struct redis_uri *u, struct span text, weir_diag *diag)
{
    struct redis_address *a = &u->addresses[u->address_count];
    struct span host = text, port = { "", 0 };
    const char *colon;
    int64_t number = u->kind == REDIS_SENTINEL ? SENTINEL_PORT : PORT;

    if (text.len > 0 && text.at[0] == '[') {
        port = (struct span){ text.at + 1, text.len - 1 };
        host = until(&port, ']');
        if (port.len > 0 && port.at[0] == ':')
            port = (struct span){ port.at + 1, port.len - 1 };
    } else if ((colon = text.len > 0 ? memchr(text.at, ':', text.len) : NULL)) {
        host.len = (size_t)(colon - text.at);
        port = (struct span){ colon + 1, text.len - host.len - 1 };
    }
    if (u->address_count == REDIS_ADDRESSES)
        return diag_fail(diag, WEIR_EOPTION, "the store's URI names more than %d servers",
                         REDIS_ADDRESSES);
    if (host.len == 0)
        host = span_of("127.0.0.1");
    if (host.len >= sizeof a->host ||
        (port.len > 0 && (!read_number(port, UINT16_MAX, &number) || number == 0)))
        return diag_fail(diag, WEIR_EOPTION,
                         "the store's URI must have host:port of a server where it has '%s'",
                         printable(text).text);
    memcpy(a->host, host.at, host.len);
    a->host[host.len] = '\0';
    a->port = (uint16_t)number;
    u->address_count++;
    return WEIR_OK;
}

static weir_err read_addresses(struct redis_uri *u, struct span hosts, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (u->kind == REDIS_SINGLE && hosts.len > 0 && memchr(hosts.at, ',', hosts.len))
        return diag_fail(diag, WEIR_EOPTION,
                         "redis:// names one server: redis+cluster:// and redis+sentinel:// name "
                         "several");
    do
        err = read_address(u, until(&hosts, ','), diag);
    while (!err && hosts.len > 0);
    return err;
}

static weir_err read_path(struct redis_uri *u, struct span path, weir_diag *diag)
{
    if (u->kind == REDIS_SENTINEL) {
        const struct span service = until(&path, '/');

        if (service.len == 0 || !decode(service, u->service, sizeof u->service))
            return diag_fail(diag, WEIR_EOPTION,
                             "name the master as Sentinel does, as in "
                             "redis+sentinel://host:26379/mymaster");
    }
    return path.len > 0 ? read_db(u, path, diag) : WEIR_OK;
}

static weir_err read_socket(struct redis_uri *u, struct span path, weir_diag *diag)
{
    u->address_count = 1;
    if (path.len < 2 || !decode(path, u->addresses[0].host, sizeof u->addresses[0].host))
        return diag_fail(diag, WEIR_EOPTION,
                         "name the socket, as in redis+unix:///run/redis/redis.sock");
    return WEIR_OK;
}

/* user:password@, :password@ or user@ */
static weir_err read_login(struct redis_uri *u, struct span text, weir_diag *diag)
{
    const struct span user = until(&text, ':');

    if (!decode(user, u->login.user, sizeof u->login.user) ||
        !decode(text, u->login.password, sizeof u->login.password))
        return diag_fail(
            diag, WEIR_EOPTION,
            "the user or password in the store's URI cannot be parsed: write special characters "
            "as %%XX, at most %d bytes",
            REDIS_PASSWORD - 1);
    return WEIR_OK;
}

static const char *find_last(struct span text, char c)
{
    return text.len > 0 ? memrchr(text.at, c, text.len) : NULL;
}

static weir_err read_place(struct redis_uri *u, const struct scheme *s, struct span text,
                           weir_diag *diag)
{
    const char *slash = text.len > 0 ? memchr(text.at, '/', text.len) : NULL;
    struct span hosts = { text.at, slash ? (size_t)(slash - text.at) : text.len };
    struct span path = { text.at + hosts.len, text.len - hosts.len };
    const char *sign = find_last(hosts, '@');
    weir_err err = WEIR_OK;

    if (sign) {
        err = read_login(u, (struct span){ hosts.at, (size_t)(sign - hosts.at) }, diag);
        hosts = (struct span){ sign + 1, (size_t)(hosts.at + hosts.len - sign - 1) };
    }
    if (err)
        return err;
    if (s->is_unix)
        return hosts.len > 0 ? read_socket(u, (struct span){ "", 0 }, diag)
                             : read_socket(u, path, diag);
    err = read_addresses(u, hosts, diag);
    if (path.len > 0)
        path = (struct span){ path.at + 1, path.len - 1 };
    return err ? err : read_path(u, path, diag);
}

static const struct scheme *find_scheme(const char *uri)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(uri, schemes[i].name, strlen(schemes[i].name)) == 0)
            return &schemes[i];
    return NULL;
}

weir_err redis_uri_read(struct redis_uri *out, const char *uri, weir_diag *diag)
{
    const struct scheme *s = find_scheme(uri);
    struct span query, place;
    weir_err err;

    *out = (struct redis_uri){ .patience = PATIENCE_MS, .deadline = DEADLINE_MS, .pool = 1 };
    if (!s)
        return diag_fail(diag, WEIR_EOPTION, "name the server, as in redis://host:6379/0");
    out->kind = s->kind;
    query = span_of(uri + strlen(s->name));
    place = until(&query, '?');
    err = read_place(out, s, place, diag);
    while (!err && query.len > 0)
        err = read_parameter(out, until(&query, '&'), diag);
    if (!err)
        err = check_tls(out, s->is_tls, diag);
    if (!err && s->is_tls)
        err = redis_tls_context_new(&out->tls_context, &out->tls, diag);
    if (err)
        redis_uri_done(out);
    return err;
}

void redis_uri_done(struct redis_uri *u)
{
    explicit_bzero(u->login.password, sizeof u->login.password);
    explicit_bzero(u->sentinel_login.password, sizeof u->sentinel_login.password);
    redis_tls_context_free(u->tls_context);
    u->tls_context = NULL;
}

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

void redis_address_show(const struct redis_address *a, char out[REDIS_SHOWN])
{
    if (a->port)
        snprintf(out, REDIS_SHOWN, strchr(a->host, ':') ? "[%s]:%u" : "%s:%u", a->host, a->port);
    else
        snprintf(out, REDIS_SHOWN, "%s", a->host);
}
