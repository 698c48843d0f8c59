/* policies.c - policies in Postgres, for checks by SQL. */
#include "store/postgres/policies.h"

#include <string.h>

enum { PATIENCE_MS = 5000 };

weir_err postgres_policies_compare(struct postgres_session *s, const char *documents,
                                   struct postgres_rows **out, weir_diag *diag)
{
    return postgres_session_ask(s,
                                "SELECT name, change FROM weir.compare_policies($1::jsonb)"
                                " ORDER BY name",
                                (const char *[]){ documents }, 1, PATIENCE_MS, out, diag);
}

static bool has_any(const struct postgres_rows *rows)
{
    for (size_t i = 0; i < postgres_rows_count(rows); i++)
        if (strcmp(postgres_rows_value(rows, i, 1), "added") != 0)
            return true;
    return false;
}

weir_err postgres_policies_differ(const char *conninfo, const char *documents,
                                  void (*each)(void *ctx, const char *name), void *ctx,
                                  weir_diag *diag)
{
    struct postgres_session *s = NULL;
    struct postgres_rows *rows = NULL;
    weir_err err = postgres_session_open(&s, conninfo, diag);

    if (!err)
        err = postgres_policies_compare(s, documents, &rows, diag);
    for (size_t i = 0; !err && has_any(rows) && i < postgres_rows_count(rows); i++)
        if (strcmp(postgres_rows_value(rows, i, 1), "unchanged") != 0)
            each(ctx, postgres_rows_value(rows, i, 0));
    postgres_rows_free(rows);
    postgres_session_close(s);
    return err;
}
