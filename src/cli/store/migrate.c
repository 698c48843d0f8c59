/* migrate.c - `weir migrate`: bring a database's schema to what this program needs.
 *
 * Each migration is a transaction. In it weir.migrations is locked, so that of several that migrate
 * at once one does it and the others find it done: an advisory lock would be for all who may
 * connect, and one of them could keep it. What was applied is in weir.migrations, with a checksum:
 * a file that has changed since is applied again, which its author has seen to. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/command.h"
#include "cli/store/migrations.h"
#include "cli/terminal.h"
#include "store/postgres/session.h"
#include "store/postgres/uri.h"

enum { CHECK, ROLLBACK, PRINT, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [CHECK] = { "check", 0, NULL, "show what would be done, and do nothing" },
    [ROLLBACK] = { "rollback", 0, "N", "undo all migrations after N; 0: everything" },
    [PRINT] = { "print", 0, NULL, "print all migrations as one SQL file" },
};

#define CHECKSUMS "ALTER TABLE weir.migrations ADD COLUMN IF NOT EXISTS checksum text"

enum { TRIES = 20 }; /* to make the table that others are making */

/* How the database stands to one of our migrations. */
enum standing { MISSING, CHANGED, APPLIED };

static int fail(const struct migration *m, const weir_diag *diag)
{
    return trouble("%s: %s", m->name, diag->text);
}

/* ---- looking -------------------------------------------------------------------------------- */

/* The table itself came with the first migration, its checksums come with this program. */
static weir_err look(struct postgres_session *s, const struct migration *m, enum standing *out,
                     weir_diag *diag)
{
    static const char statement[] =
        "SELECT to_jsonb(m) ->> 'checksum' FROM weir.migrations m WHERE number = $1::int";
    static const char undefined_table[] = "42P01";
    char number[24];
    struct postgres_rows *rows;
    const char *checksum;
    weir_err err = postgres_session_ask(s, "SELECT to_regclass('weir.migrations')", NULL, 0, -1,
                                        &rows, diag);

    *out = MISSING;
    if (err)
        return err;
    checksum = postgres_rows_value(rows, 0, 0);
    if (!checksum) {
        postgres_rows_free(rows);
        return WEIR_OK;
    }
    postgres_rows_free(rows);
    snprintf(number, sizeof number, "%d", m->number);
    err = postgres_session_ask(s, statement, (const char *[]){ number }, 1, -1, &rows, diag);
    if (err)
        return strcmp(postgres_session_state(s), undefined_table) == 0 ? WEIR_OK : err;
    if (postgres_rows_count(rows) > 0) {
        checksum = postgres_rows_value(rows, 0, 0);
        *out = checksum && strcmp(checksum, m->checksum) == 0 ? APPLIED : CHANGED;
    }
    postgres_rows_free(rows);
    return WEIR_OK;
}

static int check(struct postgres_session *s)
{
    static const char *const texts[] = { "is missing",
                                         "is of another version, or was applied by hand",
                                         "is applied" };
    int status = STATUS_YES;
    weir_diag diag;

    for (size_t i = 0; i < migration_count; i++) {
        enum standing standing;

        if (look(s, &migrations[i], &standing, &diag))
            return fail(&migrations[i], &diag);
        printf("%s %s%s%s\n", migrations[i].name, colour(standing == APPLIED ? GREEN : YELLOW),
               texts[standing], colour(PLAIN));
        if (standing != APPLIED)
            status = STATUS_NO;
    }
    return status;
}

/* ---- applying ------------------------------------------------------------------------------- */

/* Ends the transaction, one way or the other. */
static weir_err end(struct postgres_session *s, weir_err err, weir_diag *diag)
{
    weir_diag ignored;

    if (!err)
        return postgres_session_run(s, "COMMIT", -1, diag);
    if (postgres_session_run(s, "ROLLBACK", -1, &ignored))
        return err; /* it is gone with the connection */
    return err;
}

/* Two that make the same at once: one of them fails, and will find it made. */
static bool has_met_another(const struct postgres_session *s)
{
    static const char *const states[] = { "23505", "42P06", "42P07", "XX000", "40P01" };

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(postgres_session_state(s), states[i]) == 0)
            return true;
    return false;
}

static weir_err begin(struct postgres_session *s, weir_diag *diag)
{
    /* As the first migration makes them. */
    static const char statements[] =
        "BEGIN; SET LOCAL client_min_messages = warning;"
        "CREATE SCHEMA IF NOT EXISTS weir;"
        "CREATE TABLE IF NOT EXISTS weir.migrations (number integer PRIMARY KEY,"
        " name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now());"
        "LOCK TABLE weir.migrations IN EXCLUSIVE MODE";
    weir_err err = WEIR_OK;

    for (int i = 0; i < TRIES; i++) {
        weir_diag unheard;

        err = postgres_session_run(s, statements, -1, diag);
        if (!err || !has_met_another(s) || postgres_session_run(s, "ROLLBACK", -1, &unheard))
            break;
    }
    return err;
}

static weir_err record(struct postgres_session *s, const struct migration *m, weir_diag *diag)
{
    char number[24];
    struct postgres_rows *rows;
    weir_err err = postgres_session_run(s, CHECKSUMS, -1, diag);

    if (err)
        return err;
    snprintf(number, sizeof number, "%d", m->number);
    err = postgres_session_ask(s,
                               "UPDATE weir.migrations SET checksum = $2, applied_at = now()"
                               " WHERE number = $1::int",
                               (const char *[]){ number, m->checksum }, 2, -1, &rows, diag);
    if (!err)
        postgres_rows_free(rows);
    return err;
}

static weir_err apply_one(struct postgres_session *s, const struct migration *m,
                          enum standing *found, weir_diag *diag)
{
    weir_err err = begin(s, diag);

    if (!err)
        err = look(s, m, found, diag);
    if (!err && *found != APPLIED) {
        err = postgres_session_run(s, m->apply, -1, diag);
        if (!err)
            err = record(s, m, diag);
    }
    return end(s, err, diag);
}

static int apply(struct postgres_session *s)
{
    static const char *const texts[] = { "applied", "applied again", "is already applied" };
    weir_diag diag;

    for (size_t i = 0; i < migration_count; i++) {
        enum standing found;

        if (apply_one(s, &migrations[i], &found, &diag))
            return fail(&migrations[i], &diag);
        printf("%s %s%s%s\n", migrations[i].name, colour(found == APPLIED ? FAINT : GREEN),
               texts[found], colour(PLAIN));
    }
    return STATUS_YES;
}

/* ---- taking back ---------------------------------------------------------------------------- */

static weir_err take_back(struct postgres_session *s, const struct migration *m,
                          enum standing *found, weir_diag *diag)
{
    weir_err err = begin(s, diag);

    if (!err)
        err = look(s, m, found, diag);
    if (!err && *found == MISSING)
        return postgres_session_run(s, "ROLLBACK", -1, diag); /* nor is the schema made */
    if (!err)
        err = postgres_session_run(s, m->rollback, -1, diag);
    return end(s, err, diag);
}

static int rollback(struct postgres_session *s, int64_t last)
{
    weir_diag diag;

    for (size_t i = migration_count; i > 0; i--) {
        const struct migration *m = &migrations[i - 1];
        enum standing found;

        if (m->number <= last)
            break;
        if (take_back(s, m, &found, &diag))
            return fail(m, &diag);
        printf("%s %s\n", m->name, found == MISSING ? "is not applied" : "undone");
    }
    return STATUS_YES;
}

/* ---- printing ------------------------------------------------------------------------------- */

static int print(void)
{
    printf("-- weir %s: its schema, for Postgres 13 or newer. May be run again.\nBEGIN;\n",
           weir_version());
    for (size_t i = 0; i < migration_count; i++)
        printf("%s" CHECKSUMS ";\n"
               "UPDATE weir.migrations SET checksum = '%s' WHERE number = %d;\n",
               migrations[i].apply, migrations[i].checksum, migrations[i].number);
    printf("COMMIT;\n");
    return STATUS_YES;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int migrate(struct postgres_session *s, const struct arguments *a, int64_t last)
{
    if (a->values[CHECK])
        return check(s);
    return a->values[ROLLBACK] ? rollback(s, last) : apply(s);
}

static int run(const struct arguments *a)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    const char *database = options_operand(a, "WEIR_STORE");
    struct postgres_uri uri;
    struct postgres_session *s;
    weir_diag diag;
    int64_t last = 0;
    int status;

    if (a->values[PRINT])
        return a->operand_count > 0 ? trouble("--print needs no database: leave the URI out")
                                    : print();
    if (!database)
        return trouble("the database is missing, as in postgres://user@host/database");
    if (a->values[CHECK] && a->values[ROLLBACK])
        return trouble("give --check or --rollback, not both");
    if (!option_int(a, ROLLBACK, 0, &last))
        return STATUS_TROUBLE;
    if (postgres_uri_read(&uri, database, &usual, &diag))
        return trouble("%s", diag.text);
    if (postgres_session_open(&s, uri.conninfo, &diag) || postgres_session_check_version(s, &diag))
        status = trouble("%s", diag.text);
    else
        status = migrate(s, a, last);
    postgres_session_close(s);
    postgres_uri_done(&uri);
    return status;
}

const struct command migrate_command = {
    .name = "migrate",
    .summary = "Create or upgrade weir's schema in Postgres.",
    .usage = "[OPTION]... [postgres://USER@HOST/DATABASE]\n--print",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Creates the schema weir and changes nothing else. Each migration is a\n"
             "transaction; migrations that are already applied are skipped. The role must own\n"
             "the schema, or have the right to create it and some roles. --rollback loses all\n"
             "counts. The database is $WEIR_STORE by default.\n"
             "\n"
             "Exit status: 0 all is applied, 1 --check found something to do, 2 error.\n",
    .run = run,
};
