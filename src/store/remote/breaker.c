/* breaker.c - keeps a lane from waiting for a store that does not answer. */
#include "store/remote/breaker.h"

#include <stdio.h>

static unsigned failures_to_open(const struct remote *r)
{
    const unsigned set = r->after_errors ? atomic_load(r->after_errors) : 0;

    return set > 0 ? set : BREAKER_FAILURES;
}

void breaker_count_failure(struct breaker *b, int64_t now, const char *why)
{
    struct remote *r = b->remote;

    atomic_fetch_add(&r->failures, 1);
    if (++b->failures < failures_to_open(r) || b->is_open)
        return;
    b->is_open = b->has_just_opened = true;
    b->probe_at = now + PROBE_MS;
    if (atomic_fetch_add(&r->open_breakers, 1) == 0)
        remote_log(r, "has failed, on_error decides until it is back", why);
}

/* One line each FAILURE_LOG_MS is for all failures of all lanes. */
static void log_unanswered(struct remote *r, int64_t now, const char *why)
{
    int64_t logged_at = atomic_load(&r->logged_at);
    char what[64];

    atomic_fetch_add(&r->unlogged, 1);
    if ((logged_at > 0 && now - logged_at < FAILURE_LOG_MS) ||
        !atomic_compare_exchange_strong(&r->logged_at, &logged_at, now > 0 ? now : 1))
        return;
    snprintf(what, sizeof what, "did not answer %lld times, and on_error decided",
             (long long)atomic_exchange(&r->unlogged, 0));
    remote_log(r, what, why);
}

void breaker_count_unanswered(struct breaker *b, int64_t now, const char *why)
{
    breaker_count_failure(b, now, why);
    if (!b->is_open)
        log_unanswered(b->remote, now, why);
}

void breaker_count_success(struct breaker *b)
{
    b->failures = 0;
    b->has_timeout = false;
    if (!b->is_open)
        return;
    b->is_open = false;
    if (atomic_fetch_sub(&b->remote->open_breakers, 1) == 1)
        remote_log(b->remote, "is back", NULL);
}

void breaker_done(struct breaker *b)
{
    if (b->is_open)
        atomic_fetch_sub(&b->remote->open_breakers, 1);
}
