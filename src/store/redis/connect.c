/* connect.c - a connection that the store can use. */
#include "store/redis/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/secret.h"
#include "store/redis/codec.h"

enum {
    SECRET_HEX = 2 * SECRET_BYTES,
    WHY = 512,
    START_PATIENCE_MS = 5000,
    OWNER_TRIES = 4, /* to find the node that has a key */
};

/* ---- what INFO says -------------------------------------------------------------------------- */

void redis_info_field(struct span info, const char *name, char out[REDIS_FIELD])
{
    const size_t len = strlen(name);
    const char *at = info.at, *end = info.at + info.len;

    out[0] = '\0';
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const size_t line = (size_t)((line_end ? line_end : end) - at);

        if (line > len && at[len] == ':' && memcmp(at, name, len) == 0) {
            snprintf(out, REDIS_FIELD, "%.*s", (int)(line - len - 1), at + len + 1);
            out[strcspn(out, "\r")] = '\0';
            return;
        }
        at += line + 1;
    }
}

static bool info_is(struct span info, const char *name, const char *value)
{
    char field[REDIS_FIELD];

    redis_info_field(info, name, field);
    return strcmp(field, value) == 0;
}

void redis_evicts_by(struct span info, char out[REDIS_FIELD])
{
    if (info_is(info, "maxmemory", "0") || info_is(info, "maxmemory_policy", "noeviction"))
        out[0] = '\0';
    else
        redis_info_field(info, "maxmemory_policy", out);
}

static weir_err check_kind(const struct redis_uri *uri, struct span info, weir_diag *diag)
{
    const char *scheme = uri->tls_context ? "rediss" : "redis";

    if (uri->kind == REDIS_CLUSTER && info_is(info, "cluster_enabled", "0"))
        return diag_fail(diag, WEIR_EOPTION,
                         "the server is not part of a cluster: use %s:// instead of %s+cluster://",
                         scheme, scheme);
    if (uri->kind != REDIS_CLUSTER && info_is(info, "cluster_enabled", "1"))
        return diag_fail(diag, WEIR_EOPTION,
                         "the server is part of a cluster: use %s+cluster:// instead of %s://",
                         scheme, scheme);
    if (uri->kind != REDIS_CLUSTER && info_is(info, "role", "slave"))
        return diag_fail(diag, WEIR_EIO, "the server is a replica; only a master can count");
    return WEIR_OK;
}

/* SET ... PXAT came with 6.2. */
static weir_err check_version(struct span info, weir_diag *diag)
{
    char version[REDIS_FIELD], *minor;
    const long major = (redis_info_field(info, "redis_version", version),
                        strtol(version, &minor, 10));

    if (version[0] && (major < 6 || (major == 6 && strncmp(minor, ".0", 2) == 0)))
        return diag_fail(diag, WEIR_EOPTION, "Redis %s is too old: weir needs 6.2 or newer",
                         version);
    return WEIR_OK;
}

/* A user that may not ask for INFO can still count: then what is wrong shows when it is used. */
static weir_err check_server(struct redis_session *s, const struct redis_uri *uri, weir_diag *diag)
{
    struct redis_reply *info;
    weir_err err = redis_session_request(s, &info, diag, "INFO", (char *)NULL);

    if (err || !info)
        return err;
    err = check_version(redis_reply_text(info), diag);
    if (!err)
        err = check_kind(uri, redis_reply_text(info), diag);
    redis_reply_free(info);
    return err;
}

/* ---- finding the way ------------------------------------------------------------------------- */

bool redis_read_redirection(struct span error, const struct redis_address *from,
                            struct redis_address *out)
{
    char text[REDIS_SHOWN], *place, *colon;
    long port;

    if (error.len >= sizeof text)
        return false;
    memcpy(text, error.at, error.len);
    text[error.len] = '\0';
    place = strrchr(text, ' ');
    colon = place ? strrchr(place, ':') : NULL;
    if (!colon || (strncmp(text, "MOVED ", 6) != 0 && strncmp(text, "ASK ", 4) != 0))
        return false;
    *colon = '\0';
    place++;
    port = strtol(colon + 1, NULL, 10);
    if (port < 1 || port > UINT16_MAX || strlen(place) >= sizeof out->host)
        return false;
    strcpy(out->host, *place ? place : from->host);
    out->port = (uint16_t)port;
    return true;
}

/* What one Sentinel knows. */
static weir_err ask_sentinel(const struct redis_uri *uri, const struct redis_address *sentinel,
                             struct redis_address *out, weir_diag *diag)
{
    struct redis_session *s;
    struct redis_reply *reply = NULL;
    weir_err err = redis_session_open(&s, uri, sentinel, &uri->sentinel_login, 0, diag);

    if (err)
        return err;
    err = redis_session_demand(s, &reply, diag, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", uri->service,
                               (char *)NULL);
    if (!err && redis_reply_count(reply) != 2) {
        err = diag_fail(diag, WEIR_EIO, "Sentinel has no master '%s'", uri->service);
    } else if (!err) {
        const struct span host = redis_reply_text(redis_reply_at(reply, 0)),
                          port = redis_reply_text(redis_reply_at(reply, 1));

        snprintf(out->host, sizeof out->host, "%.*s", (int)host.len, host.at);
        out->port = (uint16_t)strtol(port.at, NULL, 10);
    }
    redis_reply_free(reply);
    redis_session_close(s);
    return err;
}

weir_err redis_find_master(const struct redis_uri *uri, struct redis_address *out, weir_diag *diag)
{
    weir_err err = WEIR_EIO;

    if (uri->kind != REDIS_SENTINEL) {
        *out = uri->addresses[0];
        return WEIR_OK;
    }
    for (size_t i = 0; i < uri->address_count && err; i++)
        err = ask_sentinel(uri, &uri->addresses[i], out, diag);
    return err;
}

/* For CLIENT LIST. SETINFO came with Redis 7.2, and a proxy may know neither. */
weir_err redis_introduce(struct redis_session *s, weir_diag *diag)
{
    const char *const facts[][3] = { { "SETNAME", "weir", NULL },
                                     { "SETINFO", "LIB-NAME", "weir" },
                                     { "SETINFO", "LIB-VER", weir_version() } };
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < sizeof facts / sizeof facts[0] && !err; i++) {
        struct redis_reply *reply;

        err = redis_session_ask(s, &reply, diag, "CLIENT", facts[i][0], facts[i][1], facts[i][2],
                                (char *)NULL);
        redis_reply_free(reply);
    }
    return err;
}

static weir_err open_any(struct redis_session **out, const struct redis_uri *uri, weir_diag *diag)
{
    struct redis_address master;
    weir_err err = redis_find_master(uri, &master, diag);

    if (err || uri->kind != REDIS_CLUSTER)
        return err ? err : redis_session_open(out, uri, &master, &uri->login, uri->db, diag);
    err = WEIR_EIO;
    for (size_t i = 0; i < uri->address_count && redis_may_differ(err); i++)
        err = redis_session_open(out, uri, &uri->addresses[i], &uri->login, 0, diag);
    return err;
}

weir_err redis_connect_any(struct redis_session **out, const struct redis_uri *uri, weir_diag *diag)
{
    weir_err err;

    *out = NULL;
    err = open_any(out, uri, diag);
    if (!err)
        err = redis_introduce(*out, diag);
    if (err) {
        redis_session_close(*out);
        *out = NULL;
    }
    return err;
}

/* ---- the secret ------------------------------------------------------------------------------ */

static void write_secret(const struct secret *secret, char hex[SECRET_HEX + 1])
{
    for (size_t i = 0; i < SECRET_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", secret->bytes[i]);
}

static bool read_secret(struct span hex, struct secret *out)
{
    if (hex.len != SECRET_HEX || strspn(hex.at, "0123456789abcdef") < SECRET_HEX)
        return false;
    for (size_t i = 0; i < SECRET_BYTES; i++) {
        const char digits[3] = { hex.at[2 * i], hex.at[2 * i + 1], '\0' };

        out->bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return true;
}

weir_err redis_follow(struct redis_session **s, const struct redis_uri *uri,
                      const struct redis_reply *reply, bool *has_moved, weir_diag *diag)
{
    struct redis_address there;

    *has_moved = redis_reply_kind(reply) == REPLY_ERROR &&
                 redis_read_redirection(redis_reply_text(reply), &(*s)->address, &there);
    if (!*has_moved)
        return WEIR_OK;
    redis_session_close(*s);
    return redis_session_open(s, uri, &there, &uri->login, uri->db, diag);
}

static weir_err ask_once(struct redis_session **s, const struct redis_uri *uri,
                         struct redis_reply **out, bool *has_moved, weir_diag *diag, va_list words)
{
    weir_err err = WEIR_OK;

    *out = NULL;
    if (!*s)
        err = redis_connect_any(s, uri, diag);
    if (!err)
        err = redis_session_ask_words(*s, out, diag, words);
    if (!err)
        err = redis_follow(s, uri, *out, has_moved, diag);
    return err;
}

weir_err redis_ask_owner(struct redis_session **s, const struct redis_uri *uri,
                         struct redis_reply **out, weir_diag *diag, ...)
{
    weir_err err = WEIR_OK;
    bool has_moved = true;

    *out = NULL;
    for (int i = 0; i < OWNER_TRIES && !err && has_moved; i++) {
        va_list words;

        redis_reply_free(*out);
        va_start(words, diag);
        err = ask_once(s, uri, out, &has_moved, diag, words);
        va_end(words);
    }
    if (!err && redis_reply_kind(*out) == REPLY_ERROR)
        err = diag_fail(diag, WEIR_EIO, "Redis: %.*s", (int)redis_reply_text(*out).len,
                        redis_reply_text(*out).at);
    if (err) {
        redis_reply_free(*out);
        *out = NULL;
        redis_session_close(*s);
        *s = NULL;
    }
    return err;
}

/* The secret that is kept there; if there is none, `ours` is put there. */
static weir_err agree(struct redis_session **s, const struct redis_uri *uri,
                      const struct secret *ours, struct secret *theirs, weir_diag *diag)
{
    char hex[SECRET_HEX + 1];
    struct redis_reply *reply;
    bool has_moved = true;
    weir_err err = WEIR_OK;

    write_secret(ours, hex);
    for (int i = 0; i < 3 && !err && has_moved; i++) {
        err = redis_session_ask(*s, &reply, diag, "SET", REDIS_SECRET_KEY, hex, "NX", (char *)NULL);
        if (!err)
            err = redis_follow(s, uri, reply, &has_moved, diag);
        redis_reply_free(reply);
    }
    explicit_bzero(hex, sizeof hex);
    if (!err)
        err = redis_session_demand(*s, &reply, diag, "GET", REDIS_SECRET_KEY, (char *)NULL);
    if (err)
        return err;
    if (redis_reply_kind(reply) == REPLY_NIL)
        err = diag_fail(diag, WEIR_EIO, "the secret cannot be written: the server takes no writes");
    else if (!read_secret(redis_reply_text(reply), theirs))
        err = diag_fail(diag, WEIR_ESECRET, "the key " REDIS_SECRET_KEY " is not a secret of weir");
    redis_reply_free(reply);
    return err;
}

weir_err redis_keep_secret(struct redis_session **s, const struct redis_uri *uri,
                           const struct secret *secret, weir_diag *diag)
{
    struct secret theirs;
    weir_err err = agree(s, uri, secret, &theirs, diag);

    if (err)
        return err;
    if (memcmp(&theirs, secret, sizeof theirs) != 0)
        err = diag_fail(diag, WEIR_ESECRET,
                        "the server was used with another secret: leave the secret file out, or "
                        "give the one that it was used with");
    explicit_bzero(&theirs, sizeof theirs);
    return err;
}

weir_err redis_secret(const char *uri, const weir_allocator *allocator, struct secret *out,
                      weir_diag *diag)
{
    struct redis_uri u;
    struct redis_session *s = NULL;
    struct secret ours;
    weir_diag why = { "" };
    weir_err err = redis_uri_read(&u, uri, diag);

    (void)allocator;
    if (err)
        return err;
    u.patience = START_PATIENCE_MS; /* no loop waits yet */
    err = secret_random(&ours, &why);
    if (!err)
        err = redis_connect_any(&s, &u, &why);
    if (!err)
        err = agree(&s, &u, &ours, out, &why);
    if (err == WEIR_EIO)
        diag_set(
            diag,
            "the secret is in Redis, which cannot be reached (to start without it, give a copy "
            "as --secret-file): %.*s",
            WHY, why.text);
    else if (err)
        diag_set(diag, "%s", why.text);
    redis_session_close(s);
    explicit_bzero(&ours, sizeof ours);
    redis_uri_done(&u);
    return err;
}

/* ---- a connection ---------------------------------------------------------------------------- */

static weir_err load_script(struct redis_session *s, const struct script *script, weir_diag *diag)
{
    struct redis_reply *reply = NULL;
    weir_err err = redis_session_demand(s, &reply, diag, "SCRIPT", "LOAD", script->text,
                                        (char *)NULL);

    if (!err && !span_is(redis_reply_text(reply), script->sha))
        err = diag_fail(diag, WEIR_EOPTION, "the server has another name for the script");
    redis_reply_free(reply);
    return err;
}

static weir_err load_scripts(struct redis_session *s, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    for (size_t i = 0; i < SCRIPT_COUNT && !err; i++)
        err = load_script(s, &scripts[i], diag);
    return err;
}

weir_err redis_connect(struct redis_session **out, const struct redis_uri *uri,
                       const struct redis_address *address, const struct secret *secret,
                       weir_diag *diag)
{
    struct redis_address master = *address;
    weir_err err = uri->kind == REDIS_SENTINEL ? redis_find_master(uri, &master, diag) : WEIR_OK;

    if (!err)
        err = redis_session_open(out, uri, &master, &uri->login, uri->db, diag);
    if (err)
        return err;
    err = check_server(*out, uri, diag);
    if (!err && uri->kind != REDIS_CLUSTER)
        err = redis_keep_secret(out, uri, secret, diag);
    if (!err)
        err = load_scripts(*out, diag);
    if (!err)
        err = redis_introduce(*out, diag);
    if (err) {
        redis_session_close(*out);
        *out = NULL;
    }
    return err;
}
