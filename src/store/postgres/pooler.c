/* pooler.c - is a pooler between weir and the database, and what does it keep of a session? */
#include "store/postgres/pooler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"

enum { PATIENCE_MS = 2000, WHY = 512 };

bool postgres_pooler_shows(const char *state)
{
    static const char duplicate_statement[] = "42P05", no_such_statement[] = "26000";

    return strcmp(state, duplicate_statement) == 0 || strcmp(state, no_such_statement) == 0;
}

/* One value is asked for. */
static weir_err ask_value(struct postgres_session *s, const char *statement, char *out, size_t size,
                          weir_diag *diag)
{
    struct postgres_rows *rows;
    const weir_err err = postgres_session_ask(s, statement, NULL, 0, PATIENCE_MS, &rows, diag);

    if (err)
        return err;
    snprintf(out, size, "%s", postgres_rows_value(rows, 0, 0));
    postgres_rows_free(rows);
    return WEIR_OK;
}

static weir_err is_there(struct postgres_session *s, bool *out, weir_diag *diag)
{
    char pid[24];
    const weir_err err = ask_value(s, "SELECT pg_backend_pid()", pid, sizeof pid, diag);

    *out = !err && atoi(pid) != postgres_session_pid(s);
    return err;
}

/* A name that the database does not know, but that can be executed: the pooler translates it. The
 * name is not used again, as a pooler that does not translate may leave it behind. */
static weir_err look_for_names(struct postgres_session *s, bool *out, weir_diag *diag)
{
    char name[48], statement[128], known[24];
    weir_err err;

    snprintf(name, sizeof name, "weir_%x_%" PRIx64, (unsigned)postgres_session_pid(s),
             (uint64_t)clock_monotonic_ms());
    err = postgres_session_prepare(s, name, "SELECT 1", NULL, 0, PATIENCE_MS, diag);
    if (err)
        return err;
    snprintf(statement, sizeof statement,
             "SELECT count(*) FROM pg_prepared_statements WHERE name = '%s'", name);
    err = ask_value(s, statement, known, sizeof known, diag);
    if (err)
        return err;
    *out = strcmp(known, "0") == 0;
    if (*out)
        return WEIR_OK;
    snprintf(statement, sizeof statement, "DEALLOCATE %s", name);
    return postgres_session_run(s, statement, PATIENCE_MS, diag);
}

/* In a transaction, which no pooler but one in statement mode hands to several connections. */
static weir_err look_closer(struct postgres_session *s, bool *has_names, weir_diag *diag)
{
    static const char isolation[] = "SHOW default_transaction_isolation";
    char level[24];
    weir_diag why = { "" };
    weir_err err = postgres_session_run(s, "BEGIN", PATIENCE_MS, &why);

    if (err && strstr(why.text, "statement pooling"))
        return diag_fail(diag, WEIR_EOPTION,
                         "the pooler of the store's URI pools statements: a transaction cannot be "
                         "sent through it, and weir needs transactions. Set pool_mode=transaction "
                         "there, or name the database itself");
    if (err)
        return diag_fail(diag, err, "%.*s", WHY, why.text);
    err = ask_value(s, isolation, level, sizeof level, diag);
    if (!err)
        err = look_for_names(s, has_names, diag);
    if (!err)
        err = postgres_session_run(s, "COMMIT", PATIENCE_MS, diag);
    if (!err && strcmp(level, "read committed") != 0)
        err = diag_fail(diag, WEIR_EOPTION,
                        "through a pooler, default_transaction_isolation must be read committed: "
                        "set it for the role of the store's URI with ALTER ROLE, or name the "
                        "database itself");
    return err;
}

weir_err postgres_pooler_find(struct postgres_session *s, enum postgres_pooler setting,
                              weir_diag *diag)
{
    bool is_pooled = setting == POOLER_TRANSACTION, has_names = true;
    weir_err err = WEIR_OK;

    if (setting == POOLER_AUTO)
        err = is_there(s, &is_pooled, diag);
    if (!err && is_pooled)
        err = look_closer(s, &has_names, diag);
    if (!err)
        postgres_session_keeps(s, (struct postgres_keeps){ !is_pooled, has_names });
    return err;
}
