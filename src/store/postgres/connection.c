/* connection.c - a lane's connection to Postgres: a statement for each batch, in a pipeline.
 *
 * The server is told to give up a statement at the deadline, as its callers do. So a statement that
 * waits for a lock does not keep the connection for long, and is seldom counted after its caller
 * was told that the store failed. */
#include "store/postgres/connection.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "store/postgres/codec.h"
#include "store/postgres/connect.h"

struct connection {
    struct postgres_common *common;
    struct link *link;
    struct reactor *reactor;
    struct connect_request *request; /* NULL: it has ended */
    PGconn *pg;
    struct watch *watch;
    struct wire wire;
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

/* False: the connection is lost, and what became of the batch is not known. */
static bool take_result(struct connection *c, const PGresult *r)
{
    const char *state, *text;

    switch ((int)PQresultStatus(r)) { /* libpq's list, which grows */
    case PGRES_TUPLES_OK:
        take_answer(c, r);
        return true;
    case PGRES_FATAL_ERROR:
        state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
        text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
        if (state && link_next(c->link)) {
            wire_skip(&c->wire);
            link_refused(c->link, refusal_of(state), text ? text : state);
        }
        return state;
    default:
        return true; /* the end of a batch */
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

static bool send_batch(void *connection, const struct batch *batch)
{
    static const int binary[PARAMETERS_MOST] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    struct connection *c = connection;
    const struct parameters *p = &c->wire.parameters;

    if (!wire_write(&c->wire, batch) ||
        !PQsendQueryPrepared(c->pg, p->statement->name, p->count, p->values, p->lengths, binary,
                             1) ||
        !PQpipelineSync(c->pg))
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
    if (session)
        c->pg = postgres_session_leave(session);
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

weir_err postgres_common_connect(void *target, void **out, weir_diag *diag)
{
    const struct postgres_common *common = target;
    struct postgres_session *session = NULL;
    weir_err err = postgres_common_ready(common, diag);

    if (!err)
        err = postgres_connect(&session, &common->uri, common->secret_id, diag);
    *out = session;
    return err;
}

void postgres_common_close(void *session)
{
    postgres_session_close(session);
}
