/* session.c - a conversation with Postgres, for threads that may block. */
#include "store/postgres/session.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"

#define CONNECT_TIMEOUT "2" /* seconds; libpq takes no less */

enum { LEAST_VERSION = 13 }; /* gen_random_uuid() without an extension */

struct postgres_session {
    PGconn *connection;
    char state[6];
    struct postgres_keeps keeps;
};

static void ignore_notice(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

/* libpq ends its texts with a newline, and begins those of the server with the severity. */
static weir_err fail_with(weir_diag *diag, weir_err err, const char *text)
{
    static const char error[] = "ERROR:  ", fatal[] = "FATAL:  ";
    size_t len = strlen(text);

    while (len > 0 && text[len - 1] == '\n')
        len--;
    if (strncmp(text, error, sizeof error - 1) == 0 ||
        strncmp(text, fatal, sizeof fatal - 1) == 0) {
        text += sizeof error - 1;
        len -= sizeof error - 1;
    }
    return diag_fail(diag, err, "%.*s", (int)(len < 1024 ? len : 1024), text);
}

/* ---- coming and going ------------------------------------------------------------------------ */

/* libpq's own text about a bad URI has the URI in it, with the password. */
static weir_err check_conninfo(const char *conninfo, weir_diag *diag)
{
    char *text = NULL;
    PQconninfoOption *options = PQconninfoParse(conninfo, &text);
    weir_err err = WEIR_OK;

    if (!options)
        err = diag_fail(diag, WEIR_EOPTION,
                        text && strstr(text, "invalid URI query parameter")
                            ? "the database's URI has a parameter that libpq does not know"
                            : "the database's URI cannot be parsed: "
                              "postgres://user:password@host:port/database?parameter=value, with "
                              "special characters as %%XX");
    PQconninfoFree(options);
    PQfreemem(text);
    return err;
}

weir_err postgres_session_open(struct postgres_session **out, const char *conninfo, weir_diag *diag)
{
    /* What comes later counts more. */
    static const char *const names[] = { "connect_timeout", "fallback_application_name", "dbname",
                                         NULL };
    const char *const values[] = { CONNECT_TIMEOUT, "weir", conninfo, NULL };
    struct postgres_session *s;
    weir_err err = check_conninfo(conninfo, diag);

    *out = NULL;
    if (err)
        return err;
    s = calloc(1, sizeof *s);
    if (s)
        s->connection = PQconnectdbParams(names, values, 1);
    if (!s || !s->connection) {
        free(s);
        return diag_fail(diag, WEIR_ENOMEM, "%s", weir_err_text(WEIR_ENOMEM));
    }
    if (PQstatus(s->connection) != CONNECTION_OK) {
        err = fail_with(diag, WEIR_EIO, PQerrorMessage(s->connection));
        postgres_session_close(s);
        return err;
    }
    PQsetNoticeProcessor(s->connection, ignore_notice, NULL);
    s->keeps = (struct postgres_keeps){ true, true };
    *out = s;
    return WEIR_OK;
}

void postgres_session_keeps(struct postgres_session *s, struct postgres_keeps keeps)
{
    s->keeps = keeps;
}

struct postgres_keeps postgres_session_kept(const struct postgres_session *s)
{
    return s->keeps;
}

weir_err postgres_session_check_version(const struct postgres_session *s, weir_diag *diag)
{
    const char *version = PQparameterStatus(s->connection, "server_version");

    return PQserverVersion(s->connection) >= LEAST_VERSION * 10000
               ? WEIR_OK
               : diag_fail(diag, WEIR_EOPTION, "Postgres %.32s is too old: weir needs %d or newer",
                           version ? version : "of this server", LEAST_VERSION);
}

int postgres_session_pid(const struct postgres_session *s)
{
    return PQbackendPID(s->connection);
}

void *postgres_session_leave(struct postgres_session *s)
{
    void *connection = s->connection;

    free(s);
    return connection;
}

void postgres_session_close(struct postgres_session *s)
{
    if (s)
        PQfinish(postgres_session_leave(s));
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Until a result is there; of a lost connection it is what was said last. False: it takes too
 * long. */
static bool wait_for_result(PGconn *c, int64_t until)
{
    while (PQisBusy(c)) {
        struct pollfd fd = { .fd = PQsocket(c), .events = POLLIN };
        const int64_t rest = until < 0 ? 1000 : until - clock_monotonic_ms();

        if (rest <= 0)
            return false;
        if (poll(&fd, 1, (int)rest) < 0 && errno != EINTR)
            return false;
        if (fd.revents && !PQconsumeInput(c))
            break;
    }
    return true;
}

static bool is_success(const PGresult *r)
{
    const ExecStatusType status = PQresultStatus(r);

    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

static weir_err fail_by(struct postgres_session *s, const PGresult *r, weir_diag *diag)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    strncpy(s->state, state ? state : "", sizeof s->state - 1);
    return fail_with(diag, WEIR_EIO, PQresultErrorMessage(r));
}

/* The last of the results, if all are successes. */
static weir_err collect(struct postgres_session *s, int64_t until, PGresult **out, weir_diag *diag)
{
    weir_err err = WEIR_OK;
    PGresult *r;

    *out = NULL;
    for (;;) {
        if (!wait_for_result(s->connection, until)) {
            err = diag_fail(diag, WEIR_EIO, "no answer");
            break;
        }
        r = PQgetResult(s->connection);
        if (!r)
            break;
        if (!is_success(r) && !err)
            err = fail_by(s, r, diag);
        PQclear(*out);
        *out = r;
    }
    if (!err && !*out)
        err = fail_with(diag, WEIR_EIO, PQerrorMessage(s->connection));
    if (err) {
        PQclear(*out);
        *out = NULL;
    }
    return err;
}

/* `is_sent`: by libpq, which says why it is not. */
static weir_err finish_asking(struct postgres_session *s, int is_sent, int64_t patience,
                              PGresult **out, weir_diag *diag)
{
    const int64_t until = patience < 0 ? -1 : clock_monotonic_ms() + patience;

    s->state[0] = '\0';
    *out = NULL;
    return is_sent ? collect(s, until, out, diag)
                   : fail_with(diag, WEIR_EIO, PQerrorMessage(s->connection));
}

weir_err postgres_session_ask(struct postgres_session *s, const char *statement,
                              const char *const *parameters, size_t n, int64_t patience,
                              struct postgres_rows **out, weir_diag *diag)
{
    const int sent = PQsendQueryParams(s->connection, statement, (int)n, NULL, parameters, NULL,
                                       NULL, 0);
    PGresult *rows;
    const weir_err err = finish_asking(s, sent, patience, &rows, diag);

    *out = (struct postgres_rows *)rows;
    return err;
}

weir_err postgres_ask(struct postgres_session **s, const char *conninfo, const char *statement,
                      const char *const *parameters, size_t n, int64_t patience,
                      struct postgres_rows **out, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    if (!*s)
        err = postgres_session_open(s, conninfo, diag);
    if (*s && !err)
        err = postgres_session_ask(*s, statement, parameters, n, patience, out, diag);
    if (err) {
        postgres_session_close(*s);
        *s = NULL;
    }
    return err;
}

weir_err postgres_session_run(struct postgres_session *s, const char *statements, int64_t patience,
                              weir_diag *diag)
{
    const int sent = PQsendQuery(s->connection, statements);
    PGresult *rows;
    const weir_err err = finish_asking(s, sent, patience, &rows, diag);

    PQclear(rows);
    return err;
}

weir_err postgres_session_prepare(struct postgres_session *s, const char *name,
                                  const char *statement, const unsigned *types, size_t n,
                                  int64_t patience, weir_diag *diag)
{
    const int sent = PQsendPrepare(s->connection, name, statement, (int)n, types);
    PGresult *rows;
    const weir_err err = finish_asking(s, sent, patience, &rows, diag);

    PQclear(rows);
    return err;
}

/* ---- listening ------------------------------------------------------------------------------- */

static bool hand_over(PGconn *c, void (*heard)(void *ctx, const char *text), void *ctx)
{
    bool any = false;
    PGnotify *n;

    while ((n = PQnotifies(c))) {
        heard(ctx, n->extra);
        PQfreemem(n);
        any = true;
    }
    return any;
}

weir_err postgres_session_listen(struct postgres_session *s, int end_fd, int64_t ms,
                                 void (*heard)(void *ctx, const char *text), void *ctx,
                                 weir_diag *diag)
{
    struct pollfd fds[] = { { .fd = PQsocket(s->connection), .events = POLLIN },
                            { .fd = end_fd, .events = POLLIN } };

    if (hand_over(s->connection, heard, ctx))
        return WEIR_OK;
    if (poll(fds, 2, (int)ms) < 0)
        return errno == EINTR ? WEIR_OK : diag_fail(diag, WEIR_EIO, "%s", strerror(errno));
    if (fds[0].revents && !PQconsumeInput(s->connection))
        return fail_with(diag, WEIR_EIO, PQerrorMessage(s->connection));
    hand_over(s->connection, heard, ctx);
    return WEIR_OK;
}

const char *postgres_session_state(const struct postgres_session *s)
{
    return s->state;
}

/* ---- what was answered ----------------------------------------------------------------------- */

size_t postgres_rows_count(const struct postgres_rows *r)
{
    return (size_t)PQntuples((const PGresult *)r);
}

const char *postgres_rows_value(const struct postgres_rows *r, size_t row, size_t column)
{
    const PGresult *rows = (const PGresult *)r;

    return PQgetisnull(rows, (int)row, (int)column) ? NULL
                                                    : PQgetvalue(rows, (int)row, (int)column);
}

void postgres_rows_free(struct postgres_rows *r)
{
    PQclear((PGresult *)r);
}
