/* uri.c - what a Postgres store's URI says: for libpq, and for weir.
 *
 * postgres://user:password@host1,host2/database?sslmode=verify-full&deadline=50ms
 *
 * weir's own parameters are taken out of the query: libpq refuses those that it does not know. */
#include "store/postgres/uri.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/printable.h"
#include "store/remote/remote.h"

enum { DEADLINE_MS = 100, DEADLINE_MOST_MS = 60000 };

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool postgres_is_uri(const char *uri)
{
    return begins(uri, "postgres://") || begins(uri, "postgresql://");
}

static weir_err read_deadline(struct postgres_uri *u, const char *value, weir_diag *diag)
{
    char *end;
    const long n = strtol(value, &end, 10);
    const bool is_seconds = strcmp(end, "s") == 0;

    u->deadline = is_seconds && n <= DEADLINE_MOST_MS ? n * 1000 : n;
    if (end == value || !(is_seconds || strcmp(end, "ms") == 0) || u->deadline < 1 ||
        u->deadline > DEADLINE_MOST_MS)
        return diag_fail(diag, WEIR_EOPTION,
                         "deadline in the store's URI must be a time from 1ms to 60s, not '%s'",
                         printable(span_of(value)).text);
    return WEIR_OK;
}

static weir_err read_pool(struct postgres_uri *u, const char *value, weir_diag *diag)
{
    char *end;
    const long n = strtol(value, &end, 10);

    if (end == value || *end || n < 1 || n > LINKS_MOST)
        return diag_fail(diag, WEIR_EOPTION,
                         "pool in the store's URI must be from 1 to %d connections, not '%s'",
                         LINKS_MOST, printable(span_of(value)).text);
    u->pool = (size_t)n;
    return WEIR_OK;
}

static weir_err read_synchronous_commit(struct postgres_uri *u, const char *value, weir_diag *diag)
{
    static const char *const known[] = { "on", "off", "local", "remote_write", "remote_apply" };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(value, known[i]) == 0) {
            strcpy(u->synchronous_commit, value);
            return WEIR_OK;
        }
    return diag_fail(diag, WEIR_EOPTION,
                     "synchronous_commit in the store's URI must be on, off, local, remote_write "
                     "or remote_apply, not '%s'",
                     printable(span_of(value)).text);
}

static weir_err read_pooler(struct postgres_uri *u, const char *value, weir_diag *diag)
{
    static const char *const known[] = {
        [POOLER_AUTO] = "auto", [POOLER_SESSION] = "session", [POOLER_TRANSACTION] = "transaction"
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(value, known[i]) == 0) {
            u->pooler = (enum postgres_pooler)i;
            return WEIR_OK;
        }
    return diag_fail(diag, WEIR_EOPTION,
                     "pooler in the store's URI must be auto, session or transaction, not '%s'",
                     printable(span_of(value)).text);
}

static const struct parameter {
    const char *name;
    weir_err (*read)(struct postgres_uri *u, const char *value, weir_diag *diag);
} parameters[] = {
    { "deadline=", read_deadline },
    { "pool=", read_pool },
    { "pooler=", read_pooler },
    { "synchronous_commit=", read_synchronous_commit },
};

static const struct parameter *find_parameter(const char *text)
{
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
        if (begins(text, parameters[i].name))
            return &parameters[i];
    return NULL;
}

/* Reads weir's parameters and joins the others again, in place. */
static weir_err read_query(struct postgres_uri *u, char *query, weir_diag *diag)
{
    char *to = query, *rest = query + 1, *text;
    weir_err err = WEIR_OK;

    while (!err && (text = strsep(&rest, "&"))) {
        const struct parameter *ours = find_parameter(text);
        const size_t len = strlen(text);

        if (ours) {
            err = ours->read(u, text + strlen(ours->name), diag);
        } else {
            const char joint = to == query ? '?' : '&';

            memmove(to + 1, text, len);
            *to = joint;
            to += 1 + len;
        }
    }
    *to = '\0';
    return err;
}

weir_err postgres_uri_read(struct postgres_uri *out, const char *uri,
                           const weir_allocator *allocator, weir_diag *diag)
{
    const size_t size = strlen(uri) + 1;
    char *query;
    weir_err err = WEIR_OK;

    *out = (struct postgres_uri){ .deadline = DEADLINE_MS, .pool = 1, .allocator = *allocator };
    if (!postgres_is_uri(uri))
        return diag_fail(diag, WEIR_EOPTION,
                         "name the database, as in postgres://user@host/database");
    out->conninfo = alloc_resize(allocator, NULL, size);
    if (!out->conninfo)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    memcpy(out->conninfo, uri, size);
    query = strchr(out->conninfo, '?');
    if (query)
        err = read_query(out, query, diag);
    if (err)
        postgres_uri_done(out);
    return err;
}

void postgres_uri_done(struct postgres_uri *u)
{
    alloc_free(&u->allocator, u->conninfo);
    u->conninfo = NULL;
}
