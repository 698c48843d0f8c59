/* postgres_ear.c - an ear for a Postgres store: a connection that listens to the channel `weir`.
 *
 * A server sends a listener what was announced no later than the end of its next answer, and
 * announces nothing that is not committed. */
#include "store/postgres_ear.h"

#include <stdlib.h>

#include "base/diag.h"
#include "store/postgres_session.h"

enum { LISTEN_PATIENCE_MS = 2000 };

struct listener {
    struct ear *ear;
    struct postgres_session *session;
};

static void close_listener(void *connection)
{
    struct listener *l = connection;

    postgres_session_close(l->session);
    free(l);
}

static weir_err open_listener(void *backend, struct ear *ear, void **out, weir_diag *diag)
{
    struct listener *l = calloc(1, sizeof *l);
    weir_err err;

    if (!l)
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    l->ear = ear;
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

    ear_heard(l->ear, span_of(text));
}

static weir_err listen_for(void *connection, int bell, int64_t ms, weir_diag *diag)
{
    struct listener *l = connection;

    return postgres_session_listen(l->session, bell, ms, pass_on, l, diag);
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

static const struct ear_ops listener_ops = {
    .open = open_listener,
    .listen = listen_for,
    .clock = ask_clock,
    .close = close_listener,
};

weir_err postgres_ear_new(struct ear **out, const char *conninfo,
                          const struct store_options *options, weir_diag *diag)
{
    return ear_new(out,
                   &(struct ear_options){
                       .ops = &listener_ops,
                       .backend = (void *)conninfo,
                       .name = "Postgres",
                       .heard = options->heard,
                       .heard_ctx = options->heard_ctx,
                       .log = options->log,
                       .log_ctx = options->log_ctx,
                       .no_thread = options->no_thread,
                       .allocator = options->allocator,
                   },
                   diag);
}
