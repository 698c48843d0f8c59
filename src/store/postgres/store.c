/* store.c - the store in Postgres: a statement for each batch, in a pipeline.
 *
 * Connections are made in tick(), which may wait, and handed over to the lane that requests for one.
 * From then on they are the lane's, and nothing waits.
 *
 * The server is told to give up a statement at the deadline, as its callers do: so one that waits
 * for a lock does not keep the connection for long, and is seldom counted after its caller was
 * told that the store failed. */
#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/hex.h"
#include "store/history_store.h"
#include "store/postgres/codec.h"
#include "store/postgres/connect.h"
#include "store/postgres/feed.h"
#include "store/postgres/ledger.h"
#include "store/postgres/policies.h"
#include "store/remote/connector.h"
#include "store/remote/remote.h"

enum {
    TIDY_MS = 1000,  /* between two looks at what has expired */
    TIDY_MOST = 500, /* rows that one statement looks at */
    TIDY_PATIENCE_MS = 5000,
    LOOK_PATIENCE_MS = 250, /* lost connections wait to be made again meanwhile */
};

/* A lane's connection, from when it is wished for. */
struct connection {
    struct postgres *store;
    struct link *link;
    struct reactor *reactor;
    struct connect_request *request; /* NULL: it has come true */
    struct watch *ready_fd;
    PGconn *pg;
    struct watch *watch;
    struct wire wire;
    bool is_reading, is_closed; /* closed while it was read from */
};

struct postgres {
    struct store store;
    struct remote remote;
    struct locked_keys held;
    struct connector connector;
    struct postgres_uri uri;
    unsigned char secret_id[16];
    atomic_bool has_secret;   /* until then nobody is let in */
    struct change_feed *feed; /* NULL: nobody wants to hear */
    struct postgres_ledger ledger;
    weir_allocator allocator;
    bool brings_now;

    /* Of tick() alone. */
    struct postgres_session *keeper;
    int64_t tidy_at, look_at;
    bool was_held;  /* and that has been told */
    bool is_untidy; /* and that has been told */
};

/* ---- looking after ------------------------------------------------------------------------------ */

static weir_err ask_keeper(struct postgres *p, const char *statement, const char *parameter,
                           int64_t patience, struct postgres_rows **rows, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (!p->keeper)
        err = postgres_session_open(&p->keeper, p->uri.conninfo, diag);
    if (!err)
        err = postgres_session_ask(p->keeper, statement, (const char *[]){ parameter }, 1, patience,
                                   rows, diag);
    if (err) {
        postgres_session_close(p->keeper);
        p->keeper = NULL;
    }
    return err;
}

/* How many rows were looked at: as many as asked for means that there are more. */
static weir_err ask_to_tidy(struct postgres *p, int *looked_at, weir_diag *diag)
{
    char most[16];
    struct postgres_rows *rows;
    const char *count;
    weir_err err;

    snprintf(most, sizeof most, "%d", TIDY_MOST);
    err = ask_keeper(p, "SELECT weir.tidy($1::int)", most, TIDY_PATIENCE_MS, &rows, diag);
    if (err)
        return err;
    count = postgres_rows_value(rows, 0, 0);
    *looked_at = count ? atoi(count) : 0;
    postgres_rows_free(rows);
    return WEIR_OK;
}

static void tidy(struct postgres *p)
{
    char line[CONNECTOR_WHY + 64];
    int looked_at = 0;
    weir_diag diag;
    const weir_err err = ask_to_tidy(p, &looked_at, &diag);

    if (err) {
        snprintf(line, sizeof line, "what has expired cannot be removed from Postgres: %.*s",
                 CONNECTOR_WHY, diag.text);
        if (!p->is_untidy && p->remote.log)
            p->remote.log(p->remote.log_ctx, line);
    }
    p->is_untidy = err;
    p->tidy_at = clock_monotonic_ms() + (looked_at < TIDY_MOST ? TIDY_MS : 0);
}

/* "{0123…,4567…}", as a parameter. */
static void write_keys(const struct key *keys, size_t n, char *to)
{
    for (size_t i = 0; i < n; i++) {
        *to++ = i == 0 ? '{' : ',';
        to = hex_write(to, &keys[i], sizeof keys[i]);
    }
    strcpy(to, "}");
}

static void tell_held(struct postgres *p, size_t count)
{
    if ((count > 0) == p->was_held || !p->remote.log)
        return;
    p->was_held = count > 0;
    p->remote.log(p->remote.log_ctx,
                  p->was_held ? "a transaction in Postgres holds keys and does not end: on_error "
                                "decides for what it holds"
                              : "no transaction in Postgres holds a key any more");
}

/* A database that does not answer at all is not to be waited for in here. */
static bool may_look(const struct postgres *p)
{
    return p->keeper || atomic_load(&p->remote.open_breakers) == 0;
}

/* While there is anybody to be suspected. */
static void look_for_holders(struct postgres *p)
{
    static const char statement[] = "SELECT encode(uuid_send(key), 'hex'), holder"
                                    " FROM weir.held($1::uuid[])";
    struct key keys[LOCKED_KEYS_MOST + LOCKED_KEYS_CANDIDATES];
    char parameter[(LOCKED_KEYS_MOST + LOCKED_KEYS_CANDIDATES) * (2 * sizeof(struct key) + 1) + 2];
    struct holding found[LOCKED_KEYS_MOST];
    const size_t n = locked_keys_to_look_at(&p->held, keys);
    struct postgres_rows *rows = NULL;
    size_t count = 0;
    weir_diag unheard;

    p->look_at = clock_monotonic_ms() + p->uri.deadline;
    if (n > 0 && may_look(p)) {
        write_keys(keys, n, parameter);
        if (ask_keeper(p, statement, parameter, LOOK_PATIENCE_MS, &rows, &unheard))
            return; /* nothing is known but what was */
        for (size_t i = 0; i < postgres_rows_count(rows) && count < LOCKED_KEYS_MOST; i++) {
            snprintf(found[count].holder, LOCKED_KEYS_HOLDER, "%s",
                     postgres_rows_value(rows, i, 1));
            count += hex_read(postgres_rows_value(rows, i, 0), &found[count].key,
                              sizeof(struct key));
        }
        postgres_rows_free(rows);
    }
    tell_held(p, locked_keys_found(&p->held, found, count));
}

static void tick(struct store *s, int64_t now)
{
    struct postgres *p = (struct postgres *)s;

    (void)now; /* of a clock that may not be the database's */
    connector_work(&p->connector);
    if (p->feed)
        change_feed_tick(p->feed);
    if (clock_monotonic_ms() >= p->look_at)
        look_for_holders(p);
    /* Nothing is dropped by the database's clock where others count. */
    if (!p->brings_now && clock_monotonic_ms() >= p->tidy_at &&
        atomic_load(&p->remote.open_breakers) == 0)
        tidy(p);
}

/* ---- a lane's connection ------------------------------------------------------------------------ */

static void free_connection(struct connection *c)
{
    const weir_allocator allocator = c->store->allocator;

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
        link_down(c->link, "an answer to nothing");
        return;
    }
    for (int i = 0; i < count; i++)
        columns[i] = (struct span){ PQgetvalue(r, 0, i), (size_t)PQgetlength(r, 0, i) };
    if (wire_read(&c->wire, columns, count, b))
        link_answered(c->link);
    else
        link_down(c->link, "the weir schema answered something else");
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

static void connection_is_ready(void *ctx, unsigned events)
{
    struct connection *c = ctx;
    struct postgres_session *session;
    char why[CONNECTOR_WHY];

    (void)events;
    c->reactor->unwatch(c->ready_fd);
    c->ready_fd = NULL;
    session = connect_request_end(c->request, why);
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

    c->reactor->unwatch(c->ready_fd);
    c->reactor->unwatch(c->watch);
    c->ready_fd = c->watch = NULL;
    connect_request_drop(c->request);
    c->request = NULL;
    if (c->is_reading)
        c->is_closed = true;
    else
        free_connection(c);
}

static void *open_connection(void *backend, struct link *link, struct reactor *reactor)
{
    struct postgres *p = backend;
    struct connection *c = alloc_zeroed(&p->allocator, sizeof *c);

    if (!c)
        return NULL;
    c->store = p;
    c->link = link;
    c->reactor = reactor;
    wire_init(&c->wire, p->brings_now, &p->allocator);
    c->request = connect_request_new(&p->connector, p);
    if (c->request)
        c->ready_fd = reactor->watch(reactor, connect_request_ready_fd(c->request), REACTOR_READ,
                                     connection_is_ready, c);
    if (!c->ready_fd) {
        close_connection(c);
        return NULL;
    }
    return c;
}

static const struct backend_ops backend = {
    .open = open_connection,
    .send = send_batch,
    .read = read_connection,
    .close = close_connection,
};

/* ---- the store ---------------------------------------------------------------------------------- */

static void close_postgres(struct store *s)
{
    struct postgres *p = (struct postgres *)s;
    const weir_allocator allocator = p->allocator;

    change_feed_free(p->feed);
    postgres_ledger_done(&p->ledger);
    postgres_session_close(p->keeper);
    connector_done(&p->connector);
    postgres_uri_done(&p->uri);
    locked_keys_done(&p->held);
    alloc_free(&allocator, p);
}

/* What is wrong with the database must be known when the store is opened. That it is away need not
 * be: it may be back before somebody asks. */
static weir_err try_connection(struct postgres *p, weir_diag *diag)
{
    char line[CONNECTOR_WHY + 64];
    const weir_err err = connector_try(&p->connector, p, diag);

    if (err != WEIR_EIO)
        return err;
    snprintf(line, sizeof line, "Postgres cannot be reached, on_error decides until it can: %.*s",
             CONNECTOR_WHY, diag->text);
    if (p->remote.log)
        p->remote.log(p->remote.log_ctx, line);
    return WEIR_OK;
}

static weir_err fail_without_secret(weir_diag *diag)
{
    return diag_fail(diag, WEIR_EIO, "the secret is in the database, and not known yet");
}

static weir_err connect_to_database(void *target, void **out, weir_diag *diag)
{
    struct postgres *p = target;
    struct postgres_session *made = NULL;
    const weir_err err = atomic_load(&p->has_secret)
                             ? postgres_connect(&made, &p->uri, p->secret_id, diag)
                             : fail_without_secret(diag);

    *out = made;
    return err;
}

static void hang_up(void *made)
{
    postgres_session_close(made);
}

static void init(struct postgres *p, const struct store_options *options,
                 const struct postgres_uri *uri)
{
    p->store.ops = &postgres_store_ops;
    p->allocator = options->allocator;
    p->brings_now = options->callers_bring_now;
    locked_keys_init(&p->held);
    p->remote = (struct remote){
        .held = &p->held,
        .ops = &backend,
        .backend = p,
        .name = "Postgres",
        .deadline = uri->deadline,
        .link_count = uri->pool,
        .after_errors = options->after_errors,
        .allocator = options->allocator,
        .log = options->log,
        .log_ctx = options->log_ctx,
    };
    p->uri = *uri;
    postgres_ledger_init(&p->ledger, p->uri.conninfo);
    memcpy(p->secret_id, options->secret_id, sizeof p->secret_id);
    atomic_init(&p->has_secret, !options->lacks_secret);
    p->connector = (struct connector){
        .connect = connect_to_database,
        .hang_up = hang_up,
        .allocator = options->allocator,
        .wake = options->wake,
        .wake_ctx = options->wake_ctx,
    };
    connector_init(&p->connector);
}

static weir_err open_postgres(struct store **out, const struct store_options *options,
                              weir_diag *diag)
{
    struct postgres_uri uri;
    struct postgres *p;
    weir_diag unheard;
    weir_err err = postgres_uri_read(&uri, options->uri, &options->allocator, diag);

    if (err)
        return err;
    p = alloc_zeroed(&options->allocator, sizeof *p);
    if (!p) {
        postgres_uri_done(&uri);
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    init(p, options, &uri);
    if (!options->lacks_secret)
        err = try_connection(p, diag ? diag : &unheard);
    if (!err && options->heard)
        err = postgres_feed_new(&p->feed, p->uri.conninfo, options, diag);
    if (err) {
        close_postgres(&p->store);
        return err;
    }
    *out = &p->store;
    return WEIR_OK;
}

static void take_secret(struct store *s, const struct secret *secret)
{
    struct postgres *p = (struct postgres *)s;

    hash_secret_id(secret, p->secret_id);
    atomic_store(&p->has_secret, true);
}

static struct lane *attach(struct store *s, struct reactor *reactor)
{
    return remote_attach(&((struct postgres *)s)->remote, reactor);
}

static void detach(struct store *s, struct lane *lane)
{
    (void)s;
    remote_detach(lane);
}

static void submit(struct store *s, struct pending *pending, struct question *q)
{
    (void)s;
    remote_submit(pending, q);
}

static void commit(struct store *s, struct pending *pending)
{
    (void)s;
    remote_commit(pending);
}

static weir_err append_entry(struct store *s, struct ledger_entry *e, weir_diag *diag)
{
    struct postgres *p = (struct postgres *)s;

    return atomic_load(&p->has_secret) ? postgres_ledger_append(&p->ledger, e, diag)
                                       : fail_without_secret(diag);
}

static weir_err read_entries(struct store *s, uint64_t after, ledger_visit *visit, void *ctx,
                             weir_diag *diag)
{
    struct postgres *p = (struct postgres *)s;

    return atomic_load(&p->has_secret) ? postgres_ledger_read(&p->ledger, after, visit, ctx, diag)
                                       : fail_without_secret(diag);
}

static weir_err compare_policies(struct store *s, const char *documents,
                                 void (*each)(void *ctx, const char *name), void *ctx,
                                 weir_diag *diag)
{
    return postgres_policies_differ(((struct postgres *)s)->uri.conninfo, documents, each, ctx,
                                    diag);
}

static void stats(struct store *s, weir_stats *out)
{
    remote_stats(&((struct postgres *)s)->remote, out);
}

static weir_err history_store(struct store *s, struct history_store **out,
                              const struct history_store_options *options, weir_diag *diag)
{
    return history_store_open_postgres(out, ((struct postgres *)s)->uri.conninfo, options, diag);
}

const struct store_ops postgres_store_ops = {
    .scheme = "postgres:",
    .is_shared = true,
    .open = open_postgres,
    .secret = postgres_secret,
    .take_secret = take_secret,
    .attach = attach,
    .detach = detach,
    .submit = submit,
    .commit = commit,
    .tick = tick,
    .append_entry = append_entry,
    .read_entries = read_entries,
    .compare_policies = compare_policies,
    .stats = stats,
    .history_store = history_store,
    .close = close_postgres,
};
