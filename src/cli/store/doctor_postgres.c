/* doctor_postgres.c - what `weir doctor` looks at in Postgres. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/store/doctor.h"
#include "cli/store/migrations.h"
#include "store/postgres/policies.h"
#include "store/postgres/pooler.h"
#include "store/postgres/uri.h"

enum { PATIENCE_MS = 10000, VALUE = 96, ASKED = 20, SLOW_MS = 5, SPARE_CONNECTIONS = 10 };

/* One value, as text; "" for NULL and for what may not be asked. */
static void ask(struct postgres_session *s, const char *statement, char out[VALUE])
{
    struct postgres_rows *rows;
    weir_diag ignored;
    const char *value;

    out[0] = '\0';
    if (postgres_session_ask(s, statement, NULL, 0, PATIENCE_MS, &rows, &ignored))
        return;
    value = postgres_rows_count(rows) > 0 ? postgres_rows_value(rows, 0, 0) : NULL;
    snprintf(out, VALUE, "%s", value ? value : "");
    postgres_rows_free(rows);
}

static int64_t ask_number(struct postgres_session *s, const char *statement)
{
    char value[VALUE];

    ask(s, statement, value);
    return strtoll(value, NULL, 10);
}

static bool is(struct postgres_session *s, const char *statement, const char *expected)
{
    char value[VALUE];

    ask(s, statement, value);
    return strcmp(value, expected) == 0;
}

static void look_at_server(struct postgres_session *s, struct findings *f)
{
    char version[VALUE];
    weir_diag diag;

    ask(s, "SHOW server_version", version);
    if (postgres_session_check_version(s, &diag))
        find(f, FINDING_WRONG, "version", NULL, "%s", diag.text);
    else
        find(f, FINDING_FINE, "version", NULL, "Postgres %s", version);
    if (is(s, "SELECT pg_is_in_recovery()", "t"))
        find(f, FINDING_WRONG, "role",
             "Name the primary, or several hosts with target_session_attrs=read-write.",
             "the server is a standby; only a primary can count");
}

/* False: there is nothing that could be asked through it. */
static bool look_at_pooler(struct postgres_session *s, enum postgres_pooler setting,
                           struct findings *f)
{
    weir_diag diag = { "" };

    if (postgres_pooler_find(s, setting, &diag)) {
        find(f, FINDING_WRONG, "pooler", NULL, "%s", diag.text);
        return false;
    }
    if (!postgres_session_kept(s).settings)
        find(f, FINDING_FINE, "pooler",
             "Where you can, name Postgres itself; if the pooler pools sessions, add "
             "pooler=session to the URI.",
             "between weir and Postgres, keeps %s: a check takes longer, changes by operators "
             "are found within a second, and the deny cache is not used",
             postgres_session_kept(s).statements ? "prepared statements, but no settings"
                                                 : "no session");
    return true;
}

static void look_at_way(struct postgres_session *s, struct findings *f)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < ASKED; i++) {
        const int64_t begin = clock_steady_ms();

        ask_number(s, "SELECT 1");
        if (clock_steady_ms() - begin < least)
            least = clock_steady_ms() - begin;
    }
    if (least > SLOW_MS)
        find(f, FINDING_CHANGE, "way", "Each check waits for it: put weir and Postgres closer.",
             "an answer takes at least %" PRId64 " ms", least);
}

static void look_at_schema(struct postgres_session *s, struct findings *f)
{
    const int64_t applied = ask_number(s, "SELECT max(number) FROM weir.migrations");

    if (is(s, "SELECT to_regclass('weir.states') IS NULL", "t"))
        find(f, FINDING_WRONG, "schema", "Run 'weir migrate' with this URI, as its owner.",
             "the database has no weir schema");
    else if (applied > 0 && (size_t)applied < migration_count)
        find(f, FINDING_CHANGE, "schema", "Run 'weir migrate' with this URI, as its owner.",
             "%" PRId64 " of %zu migrations are applied", applied, migration_count);
    else
        find(f, FINDING_FINE, "schema", NULL, "present");
    if (is(s,
           "SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles"
           " WHERE rolname = 'weir_server'",
           "f"))
        find(f, FINDING_WRONG, "rights", "As the schema's owner, GRANT weir_server TO that role.",
             "the role of the URI may not use the weir schema");
}

static void look_at_durability(struct postgres_session *s, struct findings *f)
{
    char commit[VALUE];

    ask(s, "SHOW synchronous_commit", commit);
    if (is(s, "SHOW fsync", "off"))
        find(f, FINDING_CHANGE, "durability", "Set fsync = on in postgresql.conf.",
             "fsync is off: a power cut may damage the whole database");
    else if (is(s, "SHOW full_page_writes", "off"))
        find(f, FINDING_CHANGE, "durability", "Set full_page_writes = on in postgresql.conf.",
             "full_page_writes is off: a power cut may damage the database");
    else if (strcmp(commit, "off") == 0)
        find(
            f, FINDING_FINE, "durability", NULL,
            "synchronous_commit is off: a crash loses less than a second of checks by SQL; a server waits for the disk, unless its URI says otherwise");
    else
        find(f, FINDING_FINE, "durability", NULL, "fsync on, synchronous_commit %s", commit);
}

static void look_at_upkeep(struct postgres_session *s, struct findings *f)
{
    const int64_t left = ask_number(s,
                                    "SELECT current_setting('max_connections')::int - count(*)"
                                    " FROM pg_stat_activity WHERE backend_type = 'client backend'");
    const int64_t rows = ask_number(
        s, "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = "
           "to_regclass('weir.states')");
    const int64_t bytes = ask_number(s,
                                     "SELECT pg_total_relation_size(to_regclass('weir.states'))");

    if (is(s, "SHOW autovacuum", "off"))
        find(f, FINDING_CHANGE, "upkeep", "Set autovacuum = on in postgresql.conf.",
             "autovacuum is off: every change of a count leaves a dead row");
    if (left < SPARE_CONNECTIONS)
        find(f, FINDING_CHANGE, "connections",
             "Raise max_connections: weir has one for each of its threads, and two more.",
             "%" PRId64 " are left", left);
    else
        find(f, FINDING_FINE, "connections", NULL, "%" PRId64 " are left", left);
    find(f, FINDING_FINE, "size", NULL, "about %" PRId64 " keys in %" PRId64 " bytes", rows, bytes);
}

/* Those who ask by SQL have the policies that were pushed, and a server those of its file. */
static void look_at_policies(struct postgres_session *s, const char *documents, struct findings *f)
{
    struct postgres_rows *rows;
    weir_diag diag;
    size_t changes = 0, last = 0;

    if (postgres_policies_compare(s, documents, &rows, &diag)) {
        find(f, FINDING_WRONG, "policies", "Run 'weir migrate', and GRANT weir_server TO the role.",
             "they cannot be compared");
        return;
    }
    for (size_t i = 0; i < postgres_rows_count(rows); i++)
        if (strcmp(postgres_rows_value(rows, i, 1), "unchanged") != 0) {
            last = i;
            changes++;
        }
    if (changes > 0)
        find(f, FINDING_CHANGE, "policies", "Run 'weir policy push' with the file.",
             "%zu differ from the file, such as '%s': after a push it is %s", changes,
             postgres_rows_value(rows, last, 0), postgres_rows_value(rows, last, 1));
    else
        find(f, FINDING_FINE, "policies", NULL, "all %zu are as in the file",
             postgres_rows_count(rows));
    postgres_rows_free(rows);
}

weir_err doctor_postgres(const char *uri, const char *documents, struct findings *f,
                         weir_diag *diag)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct postgres_uri u;
    struct postgres_session *s = NULL;
    weir_err err = postgres_uri_read(&u, uri, &usual, diag);

    if (err)
        return err;
    err = postgres_session_open(&s, u.conninfo, diag);
    if (!err && look_at_pooler(s, u.pooler, f)) {
        look_at_server(s, f);
        look_at_schema(s, f);
        look_at_durability(s, f);
        look_at_upkeep(s, f);
        look_at_way(s, f);
        if (documents)
            look_at_policies(s, documents, f);
    }
    postgres_session_close(s);
    postgres_uri_done(&u);
    return err;
}
