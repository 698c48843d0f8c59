/* feed.c - the change feed of a Postgres store: a connection that has said LISTEN weir, or that
 * asks where a pooler keeps no LISTEN.
 *
 * The server sends a notification no later than with its next answer on the connection, and only
 * after its transaction was committed. The one that asks looks at the policies alone: the ledger
 * is read every half second anyway. */
#include "store/postgres/feed.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "store/postgres/pooler.h"

enum { LISTEN_PATIENCE_MS = 2000 };

struct listener {
    struct change_feed *feed;
    struct postgres_common *common;
    struct postgres_session *session;
    char policies[33]; /* what was last seen of them, if this one asks */
    char pid[16];      /* of the process that listens, if this one is told */
};

static bool asks(const void *connection)
{
    const struct listener *l = connection;

    return !postgres_session_kept(l->session).settings;
}

static void close_listener(void *connection)
{
    struct listener *l = connection;

    postgres_session_close(l->session);
    free(l);
}

static weir_err open_listener(void *backend, struct change_feed *feed, void **out, weir_diag *diag)
{
    struct listener *l = calloc(1, sizeof *l);
    weir_err err;

    if (!l)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    l->feed = feed;
    l->common = backend;
    err = postgres_session_open(&l->session, l->common->uri.conninfo, diag);
    if (!err)
        err = postgres_pooler_find(l->session, postgres_common_pooler(l->common), diag);
    if (!err && !asks(l))
        err = postgres_session_run(l->session, "LISTEN weir", LISTEN_PATIENCE_MS, diag);
    if (err)
        close_listener(l);
    else
        *out = l;
    return err;
}

static void pass_on(void *ctx, const char *text)
{
    const struct listener *l = ctx;

    change_feed_heard(l->feed, span_of(text));
}

static weir_err wait_for_end(int end_fd, int64_t ms, weir_diag *diag)
{
    struct pollfd fd = { .fd = end_fd, .events = POLLIN };

    return poll(&fd, 1, (int)ms) >= 0 || errno == EINTR
               ? WEIR_OK
               : diag_fail(diag, WEIR_EIO, "%s", strerror(errno));
}

static weir_err listen_for(void *connection, int end_fd, int64_t ms, weir_diag *diag)
{
    struct listener *l = connection;

    return asks(l) ? wait_for_end(end_fd, ms, diag)
                   : postgres_session_listen(l->session, end_fd, ms, pass_on, l, diag);
}

/* Have they changed since the last time? */
static void compare(struct listener *l, const char *policies)
{
    const bool is_first = l->policies[0] == '\0';

    if (strcmp(l->policies, policies) == 0)
        return;
    snprintf(l->policies, sizeof l->policies, "%s", policies);
    if (!is_first)
        change_feed_heard(l->feed, span_of("policies"));
}

/* A session has one process for life: another one answers only through a pooler, whatever the URI
 * says. */
static weir_err check_process(struct listener *l, const char *pid, weir_diag *diag)
{
    if (l->pid[0] == '\0')
        snprintf(l->pid, sizeof l->pid, "%s", pid);
    if (strcmp(l->pid, pid) != 0)
        atomic_store(&l->common->is_pooled, true);
    return postgres_common_pooler(l->common) == POOLER_TRANSACTION
               ? diag_fail(diag, WEIR_EIO, "a pooler keeps no LISTEN")
               : WEIR_OK;
}

static weir_err ask_clock(void *connection, int64_t patience, int64_t *out, weir_diag *diag)
{
#define CLOCK "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, "
    static const char when_told[] = CLOCK "pg_backend_pid()";
    static const char when_asked[] = CLOCK "md5(weir.pushed_policies()::text)";
    struct listener *l = connection;
    struct postgres_rows *rows;
    weir_err err;

    err = postgres_session_ask(l->session, asks(l) ? when_asked : when_told, NULL, 0, patience,
                               &rows, diag);
    if (err)
        return err;
    *out = strtoll(postgres_rows_value(rows, 0, 0), NULL, 10);
    if (asks(l))
        compare(l, postgres_rows_value(rows, 0, 1));
    else
        err = check_process(l, postgres_rows_value(rows, 0, 1), diag);
    postgres_rows_free(rows);
    if (err)
        return err;
    return listen_for(l, -1, 0, diag); /* to hand over what came with it */
}

static const struct change_feed_ops listener_ops = {
    .open = open_listener,
    .listen = listen_for,
    .clock = ask_clock,
    .is_asked = asks,
    .close = close_listener,
};

weir_err postgres_feed_new(struct change_feed **out, struct postgres_common *common,
                           const struct store_options *options, weir_diag *diag)
{
    return change_feed_of_store(out, &listener_ops, common, "Postgres", options, diag);
}
