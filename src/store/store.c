/* store.c - finds the store that a URI names. */
#include "store/store.h"

#include <string.h>

#include "base/diag.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "store/history_store.h"

#ifdef WEIR_WITH_POSTGRES
#define POSTGRES &postgres_store_ops
#else
#define POSTGRES NULL
#endif
#ifdef WEIR_WITH_REDIS
#define REDIS &redis_store_ops
#else
#define REDIS NULL
#endif

static const struct {
    const char *scheme;
    const struct store_ops *ops; /* NULL: not in this build, for want of: */
    const char *library;
} stores[] = {
    /* clang-format off */
    { "file:", &file_store_ops, NULL },
    { "memory:", &memory_store_ops, NULL },
    { "postgres:", POSTGRES, "libpq" },
    { "postgresql:", POSTGRES, "libpq" },
    { "redis:", REDIS, "hiredis" },
    { "redis+unix:", REDIS, "hiredis" },
    { "redis+sentinel:", REDIS, "hiredis" },
    { "redis+cluster:", REDIS, "hiredis" },
    { "rediss:", REDIS, "hiredis" },
    { "rediss+sentinel:", REDIS, "hiredis" },
    { "rediss+cluster:", REDIS, "hiredis" },
    /* clang-format on */
};
enum { STORE_COUNT = sizeof stores / sizeof stores[0] };

/* How many there are: nowhere in the list. */
static size_t find_store(const char *uri)
{
    size_t i = 0;

    while (i < STORE_COUNT && strncmp(uri, stores[i].scheme, strlen(stores[i].scheme)) != 0)
        i++;
    return i;
}

static weir_err refuse(const char *uri, weir_diag *diag)
{
    const char *schemes[STORE_COUNT], *near;
    struct span scheme = { uri, strcspn(uri, ":") + 1 };

    for (size_t i = 0; i < STORE_COUNT; i++)
        schemes[i] = stores[i].scheme;
    if (uri[scheme.len - 1] != ':')
        scheme.len--;
    near = suggest(scheme, schemes, STORE_COUNT);
    return diag_fail(diag, WEIR_EOPTION, "there is no store '%s': %s%s%s", printable(scheme).text,
                     near ? "did you mean '" : "use ",
                     near ? near : "file:DIR, memory:, postgres://... or redis://...",
                     near ? "'?" : "");
}

weir_err store_check_uri(const char *uri, weir_diag *diag)
{
    const size_t i = find_store(uri);

    if (i == STORE_COUNT)
        return refuse(uri, diag);
    if (!stores[i].ops)
        return diag_fail(diag, WEIR_EOPTION, "this weir was built without %s and has no store '%s'",
                         stores[i].library, stores[i].scheme);
    return WEIR_OK;
}

weir_err store_open(struct store **out, const struct store_options *options, weir_diag *diag)
{
    const weir_err err = store_check_uri(options->uri, diag);

    return err ? err : stores[find_store(options->uri)].ops->open(out, options, diag);
}

bool store_is_shared(const char *uri)
{
    const size_t i = find_store(uri);

    return i < STORE_COUNT && stores[i].ops && stores[i].ops->is_shared;
}

bool store_keeps_secret(const char *uri)
{
    const size_t i = find_store(uri);

    return i < STORE_COUNT && stores[i].ops && stores[i].ops->secret;
}

bool store_opens_without_secret(const char *uri)
{
    return store_keeps_secret(uri) && stores[find_store(uri)].ops->take_secret;
}

weir_err store_secret(const char *uri, const weir_allocator *allocator, struct secret *out,
                      weir_diag *diag)
{
    return stores[find_store(uri)].ops->secret(uri, allocator, out, diag);
}

weir_err store_history(struct store *s, struct history_store **out,
                       const struct history_store_options *options, weir_diag *diag)
{
    return s->ops->history_store ? s->ops->history_store(s, out, options, diag)
                                 : history_store_open_local(out, NULL, options, diag);
}
