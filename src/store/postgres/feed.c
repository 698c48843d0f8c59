/* feed.c - the change feed of a Postgres store: a connection that has said LISTEN weir.
 *
 * The server sends a notification no later than with its next answer on the connection, and only
 * after its transaction was committed. */
#include "store/postgres/feed.h"

#include <stdlib.h>

#include "base/diag.h"
#include "store/postgres/session.h"

enum { LISTEN_PATIENCE_MS = 2000 };

struct listener {
    struct change_feed *feed;
    struct postgres_session *session;
};

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
    err = postgres_session_open(&l->session, backend, diag);
    if (!err)
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

static weir_err listen_for(void *connection, int end_fd, int64_t ms, weir_diag *diag)
{
    struct listener *l = connection;

    return postgres_session_listen(l->session, end_fd, ms, pass_on, l, diag);
}

static weir_err ask_clock(void *connection, int64_t patience, int64_t *out, weir_diag *diag)
{
    static const char statement[] =
        "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    struct listener *l = connection;
    struct postgres_rows *rows;
    weir_err err = postgres_session_ask(l->session, statement, NULL, 0, patience, &rows, diag);

    if (err)
        return err;
    *out = strtoll(postgres_rows_value(rows, 0, 0), NULL, 10);
    postgres_rows_free(rows);
    return listen_for(l, -1, 0, diag); /* to hand over what came with it */
}

static const struct change_feed_ops listener_ops = {
    .open = open_listener,
    .listen = listen_for,
    .clock = ask_clock,
    .close = close_listener,
};

weir_err postgres_feed_new(struct change_feed **out, const char *conninfo,
                           const struct store_options *options, weir_diag *diag)
{
    return change_feed_of_store(out, &listener_ops, conninfo, "Postgres", options, diag);
}
