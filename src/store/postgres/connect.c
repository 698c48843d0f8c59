/* connect.c - a connection that the store can use. */
#include "store/postgres/connect.h"

#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/hex.h"
#include "store/postgres/codec.h"
#include "store/postgres/pooler.h"
#include "store/postgres/settings.h"

enum { PATIENCE_MS = 2000, WHY = 512 }; /* with each statement; bytes of text */

static bool is_state(const struct postgres_session *s, const char *state)
{
    return strcmp(postgres_session_state(s), state) == 0;
}

/* Errors of the database itself, rather than of the way to it. */
static weir_err explain(const struct postgres_session *s, weir_err err, weir_diag *diag)
{
    static const char undefined_function[] = "42883", invalid_schema_name[] = "3F000",
                      undefined_table[] = "42P01", insufficient_privilege[] = "42501";

    if (err != WEIR_EIO)
        return err;
    if (is_state(s, undefined_function) || is_state(s, invalid_schema_name) ||
        is_state(s, undefined_table))
        return diag_fail(diag, WEIR_EOPTION,
                         "the database has no weir schema, or an older one: run 'weir migrate' "
                         "with its URI");
    if (is_state(s, insufficient_privilege))
        return diag_fail(diag, WEIR_EOPTION,
                         "the role of the store's URI may not use the weir schema: as its owner, "
                         "GRANT weir_server TO that role");
    return err;
}

/* Ask for one value; "" if it is NULL. */
static weir_err ask_value(struct postgres_session *s, const char *statement, char *out, size_t size,
                          weir_diag *diag)
{
    struct postgres_rows *rows;
    weir_err err = postgres_session_ask(s, statement, NULL, 0, PATIENCE_MS, &rows, diag);
    const char *value;

    if (err)
        return explain(s, err, diag);
    value = postgres_rows_count(rows) > 0 ? postgres_rows_value(rows, 0, 0) : NULL;
    snprintf(out, size, "%s", value ? value : "");
    postgres_rows_free(rows);
    return WEIR_OK;
}

static weir_err ask_secret(struct postgres_session *s, struct secret *out, weir_diag *diag)
{
    char hex[80] = "";
    weir_err err = ask_value(s, "SELECT encode(weir.server_secret(), 'hex')", hex, sizeof hex,
                             diag);

    if (!err && !hex_read(hex, out->bytes, sizeof out->bytes))
        err = diag_fail(diag, WEIR_ESECRET, "the database has no secret of 32 bytes");
    explicit_bzero(hex, sizeof hex);
    return err;
}

static weir_err check_secret(struct postgres_session *s, const unsigned char secret_id[16],
                             weir_diag *diag)
{
    struct secret theirs;
    unsigned char id[16];
    weir_err err = ask_secret(s, &theirs, diag);

    if (err)
        return err;
    hash_secret_id(&theirs, id);
    explicit_bzero(&theirs, sizeof theirs);
    if (memcmp(id, secret_id, sizeof id) != 0)
        err = diag_fail(diag, WEIR_ESECRET,
                        "the database was used with another secret: leave the secret file out, or "
                        "give the one that it was used with");
    return err;
}

/* Make keys and charge them, one and two in a call, and roll back. A connection's first decisions
 * take a hundred times as long as later ones: functions are compiled and planned. Plans are made
 * with the settings that they will be used with. */
static weir_err warm_up(struct postgres_session *s, weir_diag *diag)
{
    static const char decisions[] =
        "BEGIN;"
        "SET LOCAL plan_cache_mode = force_generic_plan;"
        "SET LOCAL jit = off;"
        "SET LOCAL enable_seqscan = off;"
        "SET LOCAL enable_bitmapscan = off;"
        "WITH fresh AS MATERIALIZED (SELECT array_agg(key ORDER BY key) AS keys"
        " FROM (SELECT gen_random_uuid() AS key FROM generate_series(1, 2)) AS two)"
        " SELECT weir.judge(keys, '{2}', '{9}', '{1000}', '{9}', '{1}', '{1,2}', '{1,1}')"
        " FROM fresh, generate_series(1, 2);"
        "WITH fresh AS MATERIALIZED (SELECT gen_random_uuid() AS key, n AS algorithm"
        " FROM unnest('{1,2,3,4,15}'::int[]) AS n)"
        " SELECT weir.charge_one(key, algorithm, 9, 1000, 9, 1, 1, NULL)"
        " FROM fresh, generate_series(1, 2);"
        "WITH fresh AS MATERIALIZED (SELECT ARRAY[gen_random_uuid()] AS keys, n AS algorithm"
        " FROM unnest('{1,2,3,4,15,NULL}'::int[]) AS n)"
        " SELECT weir.charge_many(keys, algorithm, ARRAY[coalesce(algorithm, 1)], '{9}', '{1000}',"
        " '{9}', '{1}', NULL, NULL, NULL, NULL, NULL) FROM fresh, generate_series(1, 2);"
        "ROLLBACK";

    return explain(s, postgres_session_run(s, decisions, PATIENCE_MS, diag), diag);
}

static weir_err prepare(struct postgres_session *s, const struct statement *w, weir_diag *diag)
{
    return postgres_session_prepare(s, w->name, w->text, w->types, (size_t)w->parameter_count,
                                    PATIENCE_MS, diag);
}

static weir_err prepare_all(struct postgres_session *s, weir_diag *diag)
{
    weir_err err = WEIR_OK;

    for (const struct statement *const *w = wire_statements; *w && !err; w++)
        err = prepare(s, *w, diag);
    if (!err && !postgres_session_kept(s).settings)
        err = prepare(s, &settings_statement, diag);
    return explain(s, err, diag);
}

static weir_err set_up(struct postgres_session *s, const struct postgres_uri *uri, weir_diag *diag)
{
    struct settings settings;
    struct postgres_rows *rows;
    weir_err err;

    settings_init(&settings, uri, false);
    err = postgres_session_ask(s, settings_statement.text, settings.values, SETTINGS_PARAMETERS,
                               PATIENCE_MS, &rows, diag);
    if (!err)
        postgres_rows_free(rows);
    return err;
}

/* A statement that another client has prepared shows that sessions are not kept apart, whatever
 * the URI says. */
static weir_err make_ready(struct postgres_session *s, const struct postgres_uri *uri,
                           weir_diag *diag)
{
    const struct postgres_keeps kept = postgres_session_kept(s);
    weir_err err = kept.settings ? set_up(s, uri, diag) : WEIR_OK;

    if (!err && kept.statements)
        err = prepare_all(s, diag);
    if (err && postgres_pooler_shows(postgres_session_state(s))) {
        postgres_session_keeps(s, (struct postgres_keeps){ false, false });
        err = WEIR_OK;
    }
    return err;
}

weir_err postgres_connect(struct postgres_session **out, const struct postgres_uri *uri,
                          enum postgres_pooler pooler, const unsigned char secret_id[16],
                          weir_diag *diag)
{
    weir_err err = postgres_session_open(out, uri->conninfo, diag);

    if (err)
        return err;
    err = postgres_session_check_version(*out, diag);
    if (!err)
        err = postgres_pooler_find(*out, pooler, diag);
    if (!err)
        err = check_secret(*out, secret_id, diag);
    if (!err)
        err = warm_up(*out, diag);
    if (!err)
        err = make_ready(*out, uri, diag);
    if (err) {
        postgres_session_close(*out);
        *out = NULL;
    }
    return err;
}

weir_err postgres_secret(const char *uri, const weir_allocator *allocator, struct secret *out,
                         weir_diag *diag)
{
    struct postgres_uri u;
    struct postgres_session *s = NULL;
    weir_diag why;
    weir_err err = postgres_uri_read(&u, uri, allocator, diag);

    if (err)
        return err;
    err = postgres_session_open(&s, u.conninfo, &why);
    if (err == WEIR_EIO)
        err = diag_fail(
            diag, err,
            "the secret is in the database, which cannot be reached (to start without it, give a "
            "copy as --secret-file): %.*s",
            WHY, why.text);
    else if (err)
        diag_set(diag, "%s", why.text);
    else
        err = postgres_session_check_version(s, diag);
    if (!err)
        err = ask_secret(s, out, diag);
    postgres_session_close(s);
    postgres_uri_done(&u);
    return err;
}
