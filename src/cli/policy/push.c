/* push.c - `weir policy push`: put the policies into a database, for those who ask it by SQL.
 *
 * A server that has the database for its store reads its own file: push the same one. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/policy/file.h"
#include "cli/terminal.h"
#include "store/postgres/policies.h"
#include "store/postgres/uri.h"

enum { CHECK, PRINT, OPTION_COUNT };

static const struct option options[OPTION_COUNT] = {
    [CHECK] = { "check", 0, NULL, "show what would change, and change nothing" },
    [PRINT] = { "print", 0, NULL, "print the SQL, and do not run it" },
};

static void print_changes(const struct postgres_rows *rows, size_t *changes)
{
    *changes = 0;
    for (size_t i = 0; i < postgres_rows_count(rows); i++) {
        const char *what = postgres_rows_value(rows, i, 1);
        const bool is_same = strcmp(what, "unchanged") == 0;

        printf("%s %s%s%s\n", postgres_rows_value(rows, i, 0), colour(is_same ? FAINT : GREEN),
               what, colour(PLAIN));
        *changes += !is_same;
    }
}

/* Others that push at the same time wait for the end of this. */
static weir_err push(struct postgres_session *s, const char *documents, bool is_check,
                     struct postgres_rows **changes, weir_diag *diag)
{
    const char *const parameters[] = { documents };
    struct postgres_rows *count = NULL;
    weir_err err = postgres_session_run(s, "BEGIN ISOLATION LEVEL SERIALIZABLE", -1, diag);

    *changes = NULL;
    if (!err)
        err = postgres_policies_compare(s, documents, changes, diag);
    if (!err && !is_check)
        err = postgres_session_ask(s, "SELECT weir.push_policies($1::jsonb)", parameters, 1, -1,
                                   &count, diag);
    postgres_rows_free(count);
    if (!err)
        err = postgres_session_run(s, "COMMIT", -1, diag);
    return err;
}

/* What Postgres says of a missing schema does not say what to do. */
static int explain(const struct postgres_session *s, const weir_diag *diag)
{
    static const char undefined_function[] = "42883", invalid_schema_name[] = "3F000";
    const char *state = postgres_session_state(s);

    if (strcmp(state, undefined_function) == 0 || strcmp(state, invalid_schema_name) == 0)
        return trouble("the database has no weir schema, or an older one: run 'weir migrate' with "
                       "its URI");
    return trouble("%s", diag->text);
}

static int push_to(const char *uri, const char *documents, bool is_check)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct postgres_uri u;
    struct postgres_session *s = NULL;
    struct postgres_rows *rows = NULL;
    weir_diag diag;
    size_t changes;
    int status = STATUS_YES;

    if (postgres_uri_read(&u, uri, &usual, &diag))
        return trouble("%s", diag.text);
    if (postgres_session_open(&s, u.conninfo, &diag)) {
        status = trouble("%s", diag.text);
    } else if (push(s, documents, is_check, &rows, &diag)) {
        status = explain(s, &diag);
    } else {
        print_changes(rows, &changes);
        status = is_check && changes > 0 ? STATUS_NO : STATUS_YES;
    }
    postgres_rows_free(rows);
    postgres_session_close(s);
    postgres_uri_done(&u);
    return status;
}

/* One statement, for psql or a folder of migrations. Quotes and backslashes are doubled, which an E
 * says whatever the session is set to. */
static void print_push(const char *documents)
{
    printf("-- weir %s: policies for checks by SQL. May be run again.\n"
           "SELECT weir.push_policies(E'",
           weir_version());
    for (const char *c = documents; *c; c++) {
        if (*c == '\'' || *c == '\\')
            putchar(*c);
        putchar(*c);
    }
    printf("'::jsonb);\n");
}

static int run(const struct arguments *a)
{
    const bool is_print = a->values[PRINT];
    struct buf documents;
    int status;

    if (is_print && (a->operand_count != 1 || a->values[CHECK]))
        return trouble("--print needs no database: name the file only");
    if (!is_print && a->operand_count != 2)
        return trouble("the file or the database is missing: FILE postgres://user@host/database");
    status = policy_file_documents(a->operands[0], &documents);
    if (status == STATUS_YES && is_print)
        print_push(documents.at);
    else if (status == STATUS_YES)
        status = push_to(a->operands[1], documents.at, a->values[CHECK]);
    buf_done(&documents);
    return status;
}

const struct command policy_push_command = {
    .name = "policy push",
    .summary = "Put policies into Postgres, for checks by SQL.",
    .stands_with_last = true,
    .usage = "[OPTION]... FILE postgres://USER@HOST/DATABASE\n--print FILE",
    .options = options,
    .option_count = OPTION_COUNT,
    .notes = "Replaces all policies in the database at once. FILE '-' is standard input. A\n"
             "server that has this database as its store reads its own file: push the same\n"
             "one. Its log says which policies differ.\n"
             "\n"
             "Exit status: 0 done, 1 --check found something to do, 2 error.\n",
    .run = run,
};
