/* connection.c - a lane's connection to Postgres: a statement for each batch, in a pipeline.
 *
 * The server is told to give up a statement at the deadline, as its callers do. So a statement that
 * waits for a lock does not keep the connection for long, and is seldom counted after its caller
 * was told that the store failed.
 *
 * Through a pooler (pooler.h) a batch is two statements in one transaction: its settings, and the
 * question. Batches take turns, so that the pooler can hand the connection on after each. */
#include "store/postgres/connection.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "store/postgres/codec.h"
#include "store/postgres/connect.h"
#include "store/postgres/pooler.h"
#include "store/postgres/settings.h"

struct connection {
    struct postgres_common *common;
    struct link *link;
    struct reactor *reactor;
    struct connect_request *request; /* NULL: it has ended */
    PGconn *pg;
    struct watch *watch;
    struct wire wire;
    struct postgres_keeps keeps;
    struct settings settings;   /* that each batch brings, if they are not kept */
    size_t without_settings;    /* batches under way that were sent before that was known */
    bool is_set;                /* the next result is not that of settings */
    bool is_reading, is_closed; /* closed while it was read from */
};

static void free_connection(struct connection *c)
{
    const weir_allocator allocator = c->common->allocator;

    PQfinish(c->pg);
    wire_done(&c->wire);
    alloc_free(&allocator, c);
}

static void flush(struct connection *c)
{
    c->reactor->rewatch(c->watch, PQflush(c->pg) > 0 ? REACTOR_READ | REACTOR_WRITE : REACTOR_READ);
}

static enum refusal refusal_of(const char *state)
{
    static const char serialization_failure[] = "40001", deadlock_detected[] = "40P01",
                      lock_not_available[] = "55P03", read_only[] = "25006";

    if (strcmp(state, serialization_failure) == 0 || strcmp(state, deadlock_detected) == 0 ||
        strcmp(state, lock_not_available) == 0)
        return REFUSAL_UNDONE;
    return strcmp(state, read_only) == 0 ? REFUSAL_ELSEWHERE : REFUSAL_FINAL;
}

static void take_answer(struct connection *c, const PGresult *r)
{
    struct span columns[COLUMNS_MOST];
    struct batch *b = link_next(c->link);
    const int count = PQnfields(r);

    if (!b || PQntuples(r) != 1 || count > COLUMNS_MOST) {
        link_down(c->link, "an unexpected answer");
        return;
    }
    for (int i = 0; i < count; i++)
        columns[i] = (struct span){ PQgetvalue(r, 0, i), (size_t)PQgetlength(r, 0, i) };
    if (wire_read(&c->wire, columns, count, b))
        link_answered(c->link);
    else
        link_down(c->link, "the weir schema gave an unexpected answer");
}

static void meet_pooler(struct connection *c)
{
    atomic_store(&c->common->is_pooled, true);
    if (c->keeps.settings)
        c->without_settings = wire_under_way(&c->wire);
    c->keeps = (struct postgres_keeps){ false, false };
    link_take_turns(c->link);
}

static void take_refusal(struct connection *c, const char *state, const char *text)
{
    const bool is_pooler = postgres_pooler_shows(state);

    if (is_pooler && c->keeps.statements)
        meet_pooler(c);
    if (!link_next(c->link))
        return;
    wire_skip(&c->wire);
    link_refused(c->link, is_pooler ? REFUSAL_UNDONE : refusal_of(state), text ? text : state);
}

/* False: the connection is lost, and what became of the batch is not known. */
static bool take_result(struct connection *c, const PGresult *r)
{
    const char *state;

    switch ((int)PQresultStatus(r)) { /* libpq's list, which grows */
    case PGRES_TUPLES_OK:
        if (c->is_set)
            take_answer(c, r);
        c->is_set = true;
        return true;
    case PGRES_FATAL_ERROR:
        state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
        if (state)
            take_refusal(c, state, PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY));
        return state;
    case PGRES_PIPELINE_SYNC: /* the end of a batch */
        if (c->without_settings > 0)
            c->without_settings--;
        c->is_set = c->keeps.settings || c->without_settings > 0;
        return true;
    default:
        return true;
    }
}

/* All results that are here. libpq has NULL after those of a statement, and again if there are no
 * more. False: the connection is lost. */
static bool read_results(struct connection *c)
{
    int nothing = 0;
    bool is_there = true;

    while (is_there && !c->is_closed && nothing < 2 && !PQisBusy(c->pg)) {
        PGresult *r = PQgetResult(c->pg);

        nothing = r ? 0 : nothing + 1;
        if (r)
            is_there = take_result(c, r);
        PQclear(r);
    }
    return is_there;
}

static void read_connection(void *connection)
{
    struct connection *c = connection;
    bool is_lost;

    if (c->is_reading)
        return;
    c->is_reading = true;
    is_lost = !PQconsumeInput(c->pg);
    is_lost = !read_results(c) || is_lost;
    if (!c->is_closed && (is_lost || PQstatus(c->pg) == CONNECTION_BAD)) {
        char why[CONNECTOR_WHY];

        snprintf(why, sizeof why, "%.*s", (int)strcspn(PQerrorMessage(c->pg), "\n"),
                 PQerrorMessage(c->pg));
        link_down(c->link, why);
    }
    c->is_reading = false;
    if (c->is_closed)
        free_connection(c);
    else
        flush(c);
}

static void socket_ready(void *ctx, unsigned events)
{
    (void)events;
    read_connection(ctx);
}

/* `formats` NULL: the parameters are text. */
static bool send_statement(struct connection *c, const struct statement *s,
                           const char *const *values, const int *lengths, const int *formats)
{
    return c->keeps.statements ? PQsendQueryPrepared(c->pg, s->name, s->parameter_count, values,
                                                     lengths, formats, 1)
                               : PQsendQueryParams(c->pg, s->text, s->parameter_count, s->types,
                                                   values, lengths, formats, 1);
}

static bool send_batch(void *connection, const struct batch *batch)
{
    static const int binary[PARAMETERS_MOST] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    struct connection *c = connection;
    const struct parameters *p = &c->wire.parameters;

    if (!wire_write(&c->wire, batch) ||
        (!c->keeps.settings &&
         !send_statement(c, &settings_statement, c->settings.values, NULL, NULL)) ||
        !send_statement(c, p->statement, p->values, p->lengths, binary) || !PQpipelineSync(c->pg))
        return false;
    flush(c);
    return true;
}

static bool begin_pipeline(struct connection *c)
{
    if (PQsetnonblocking(c->pg, 1) != 0 || !PQenterPipelineMode(c->pg))
        return false;
    c->watch = c->reactor->watch(c->reactor, PQsocket(c->pg), REACTOR_READ, socket_ready, c);
    return c->watch;
}

static void connected(void *ctx, void *session, const char *why)
{
    struct connection *c = ctx;

    c->request = NULL;
    if (session) {
        c->keeps = postgres_session_kept(session);
        c->is_set = c->keeps.settings;
        c->pg = postgres_session_leave(session);
    }
    if (session && !c->keeps.settings)
        link_take_turns(c->link);
    if (session && begin_pipeline(c))
        link_up(c->link);
    else
        link_down(c->link, session ? "the connection cannot be used" : why);
}

static void close_connection(void *connection)
{
    struct connection *c = connection;

    c->reactor->unwatch(c->watch);
    c->watch = NULL;
    connect_request_drop(c->request);
    c->request = NULL;
    if (c->is_reading)
        c->is_closed = true;
    else
        free_connection(c);
}

static void *open_connection(void *backend, struct link *link, struct reactor *reactor)
{
    struct postgres_common *common = backend;
    struct connection *c = alloc_zeroed(&common->allocator, sizeof *c);

    if (!c)
        return NULL;
    c->common = common;
    c->link = link;
    c->reactor = reactor;
    wire_init(&c->wire, common->brings_now, &common->allocator);
    settings_init(&c->settings, &common->uri, true);
    c->request = connect_request_new(&common->connector, common, reactor, connected, c);
    if (!c->request) {
        free_connection(c);
        return NULL;
    }
    return c;
}

const struct backend_ops postgres_connection_ops = {
    .open = open_connection,
    .send = send_batch,
    .read = read_connection,
    .close = close_connection,
};

/* ---- making connections ---------------------------------------------------------------------- */

weir_err postgres_common_ready(const struct postgres_common *common, weir_diag *diag)
{
    return atomic_load(&common->has_secret)
               ? WEIR_OK
               : diag_fail(diag, WEIR_EIO, "the secret is in the database, and not known yet");
}

enum postgres_pooler postgres_common_pooler(const struct postgres_common *common)
{
    return atomic_load(&common->is_pooled) ? POOLER_TRANSACTION : common->uri.pooler;
}

weir_err postgres_common_connect(void *target, void **out, weir_diag *diag)
{
    struct postgres_common *common = target;
    struct postgres_session *session = NULL;
    weir_err err = postgres_common_ready(common, diag);

    if (!err)
        err = postgres_connect(&session, &common->uri, postgres_common_pooler(common),
                               common->secret_id, diag);
    if (session && !postgres_session_kept(session).settings)
        atomic_store(&common->is_pooled, true);
    *out = session;
    return err;
}

void postgres_common_close(void *session)
{
    postgres_session_close(session);
}
