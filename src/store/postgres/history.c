/* history.c - the history of decisions in Postgres, added to by all processes that share it.
 *
 * One session serves the thread that adds and those that read, in turn. After a failure it is
 * closed, and the next call opens another. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/json.h"
#include "store/history_store.h"
#include "store/postgres/session.h"

enum { PATIENCE_MS = 5000 };

struct postgres_history {
    struct history_store history_store;
    weir_allocator allocator;
    const char *conninfo;

    pthread_mutex_t lock; /* of what follows */
    struct postgres_session *session;
};

/* A report with one list: `put` writes an entry of it, each `size` bytes long. */
static weir_err report(struct history_store *a, const char *list, const void *entries, size_t size,
                       size_t n, void (*put)(struct json *j, const void *entry), weir_diag *diag)
{
    struct postgres_history *r = (struct postgres_history *)a;
    struct postgres_rows *rows = NULL;
    struct buf text;
    struct json j = { .to = &text };
    weir_err err = WEIR_ENOMEM;

    buf_init(&text, &r->allocator);
    json_open(&j, NULL, '{');
    json_open(&j, list, '[');
    for (size_t i = 0; i < n; i++)
        put(&j, (const char *)entries + i * size);
    json_close(&j, ']');
    json_close(&j, '}');
    if (text.failed) {
        diag_set(diag, "%s", weir_err_text(err));
    } else {
        pthread_mutex_lock(&r->lock);
        err = postgres_ask(&r->session, r->conninfo, "SELECT weir.report($1::jsonb)",
                           (const char *[]){ text.at }, 1, PATIENCE_MS, &rows, diag);
        pthread_mutex_unlock(&r->lock);
    }
    postgres_rows_free(rows);
    buf_done(&text);
    return err;
}

static void put_decided(struct json *j, const void *entry)
{
    const struct history_entry *e = entry;

    json_open(j, NULL, '{');
    json_int(j, "minute_ms", e->at);
    json_text(j, "policy", e->policy);
    json_text(j, "rule", e->rule);
    json_int(j, "allowed", (int64_t)e->counts[HISTORY_ALLOWED]);
    json_int(j, "denied", (int64_t)e->counts[HISTORY_DENIED]);
    json_int(j, "shadow_denied", (int64_t)e->counts[HISTORY_SHADOW_DENIED]);
    json_int(j, "fallback", (int64_t)e->counts[HISTORY_FALLBACK]);
    json_int(j, "charges", (int64_t)e->counts[HISTORY_CHARGES]);
    json_close(j, '}');
}

static weir_err add(struct history_store *a, const struct history_entry *entries, size_t n,
                    weir_diag *diag)
{
    return report(a, "decisions", entries, sizeof *entries, n, put_decided, diag);
}

static void put_limited(struct json *j, const void *entry)
{
    const struct denied_minutes_entry *e = entry;

    json_open(j, NULL, '{');
    json_int(j, "minute_ms", e->at);
    json_text(j, "policy", e->policy);
    json_text(j, "rule", e->rule);
    json_text(j, "tag", e->tag);
    json_int(j, "denied", (int64_t)e->denied);
    json_close(j, '}');
}

static weir_err add_limited(struct history_store *a, const struct denied_minutes_entry *entries,
                            size_t n, weir_diag *diag)
{
    return report(a, "denials", entries, sizeof *entries, n, put_limited, diag);
}

static int64_t number_at(const struct postgres_rows *rows, size_t row, size_t column)
{
    const char *text = postgres_rows_value(rows, row, column);

    return text ? strtoll(text, NULL, 10) : 0;
}

static weir_err read_rows(struct history_store *a, const struct history_query *q,
                          history_each *each, void *ctx, weir_diag *diag)
{
    static const char statement[] =
        "SELECT policy, rule, at_ms, allowed, denied, shadow_denied, fallback, charges"
        " FROM weir.read_history($1, $2, $3::bigint, $4::bigint, $5::bigint)";
    struct postgres_history *r = (struct postgres_history *)a;
    struct postgres_rows *rows = NULL;
    char since[24], until[24], step[24];
    const char *parameters[] = { q->policy, q->rule, since, until, step };
    weir_err err;

    snprintf(since, sizeof since, "%" PRId64, q->since);
    snprintf(until, sizeof until, "%" PRId64, q->until);
    snprintf(step, sizeof step, "%" PRId64, q->step);
    pthread_mutex_lock(&r->lock);
    err = postgres_ask(&r->session, r->conninfo, statement, parameters, 5, PATIENCE_MS, &rows,
                       diag);
    pthread_mutex_unlock(&r->lock);
    if (err)
        return err;
    for (size_t i = 0; i < postgres_rows_count(rows); i++) {
        struct history_entry e = { .policy = postgres_rows_value(rows, i, 0),
                                   .rule = postgres_rows_value(rows, i, 1),
                                   .at = number_at(rows, i, 2) };

        for (size_t k = 0; k < HISTORY_COUNTS; k++)
            e.counts[k] = (uint64_t)number_at(rows, i, 3 + k);
        each(ctx, &e);
    }
    postgres_rows_free(rows);
    return WEIR_OK;
}

static void close_annals(struct history_store *a)
{
    struct postgres_history *r = (struct postgres_history *)a;
    const weir_allocator allocator = r->allocator;

    postgres_session_close(r->session);
    pthread_mutex_destroy(&r->lock);
    alloc_free(&allocator, r);
}

static const struct history_store_ops postgres_ops = {
    .add = add,
    .add_limited = add_limited,
    .read = read_rows,
    .close = close_annals,
};

weir_err history_store_open_postgres(struct history_store **out, const char *conninfo,
                                     const struct history_store_options *options, weir_diag *diag)
{
    struct postgres_history *r = alloc_zeroed(&options->allocator, sizeof *r);

    if (!r)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    r->history_store.ops = &postgres_ops;
    r->allocator = options->allocator;
    r->conninfo = conninfo;
    pthread_mutex_init(&r->lock, NULL);
    *out = &r->history_store;
    return WEIR_OK;
}
