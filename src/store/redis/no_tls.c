/* no_tls.c - for builds without OpenSSL: there is no TLS to Redis, and the text says so. */
#include "base/diag.h"
#include "store/redis/tls.h"

weir_err redis_tls_context_new(struct redis_tls_context **out,
                               const struct redis_tls_options *options, weir_diag *diag)
{
    (void)options;
    *out = NULL;
    return diag_fail(
        diag, WEIR_EOPTION,
        "this weir was built without OpenSSL and has no TLS to Redis, so no 'rediss:'");
}

/* Without a context none of these is called with anything but NULL. */

void redis_tls_context_free(struct redis_tls_context *t)
{
    (void)t;
}

const char *redis_tls_context_warning(const struct redis_tls_context *t)
{
    (void)t;
    return NULL;
}

weir_err redis_tls_open(struct redis_tls **out, struct redis_tls_context *context, int fd,
                        const char *host, int64_t patience, bool *is_silent, weir_diag *diag)
{
    (void)context;
    (void)fd;
    (void)host;
    (void)patience;
    *out = NULL;
    *is_silent = false;
    return diag_fail(diag, WEIR_EOPTION, "no TLS");
}

void redis_tls_close(struct redis_tls *t)
{
    (void)t;
}

ssize_t redis_tls_read(struct redis_tls *t, char *into, size_t room)
{
    (void)t;
    if (room > 0)
        into[0] = '\0';
    return -1;
}

ssize_t redis_tls_write(struct redis_tls *t, struct span bytes)
{
    (void)t;
    (void)bytes;
    return -1;
}

void redis_tls_facts(const struct redis_tls *t, struct redis_tls_facts *out)
{
    (void)t;
    *out = (struct redis_tls_facts){ 0 };
}

weir_err redis_tls_problem(const struct redis_tls *t, const char **why)
{
    (void)t;
    *why = "no TLS";
    return WEIR_EOPTION;
}
