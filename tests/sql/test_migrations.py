#!/usr/bin/env python3
"""test_migrations.py - on an empty database, again, from half-way, rolled back, and without superuser.

    tests/sql/test_migrations.py TREE
"""
import re
import sys

sys.path.insert(0, "tests/support")
from postgres import SQL, Postgres, SqlError  # noqa: E402
from weir_server import run, test  # noqa: E402

FILES = sorted(SQL.glob("[0-9]*.sql"))
BACK = sorted((SQL / "rollback").glob("[0-9]*.sql"))


def everything(database):
    """All that is in the schema, as text that changes if anything does."""
    return db.psql("""
        SELECT 'table', c.relname, c.relkind, c.reloptions, c.relacl, c.relrowsecurity,
               (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', '
                                  ORDER BY a.attnum)
                  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)
          FROM pg_class c WHERE c.relnamespace = 'weir'::regnamespace ORDER BY 2;
        SELECT 'function', p.oid::regprocedure::text, p.proacl, p.proconfig, p.prosecdef, md5(p.prosrc)
          FROM pg_proc p WHERE p.pronamespace = 'weir'::regnamespace ORDER BY 2;
        SELECT number, name FROM weir.migrations ORDER BY 1;
        SELECT encode(bytes, 'hex') FROM weir.secret;""", database=database)


def fresh(name, owner="postgres"):
    db.psql(f"CREATE DATABASE {name} OWNER {owner}")
    return name


@test
def every_migration_has_a_number_a_transaction_and_a_way_back():
    assert [f.name for f in FILES] == [f.name for f in BACK]
    for number, file in enumerate(FILES, 1):
        assert file.name.startswith(f"{number:04d}_"), file.name
        name = re.match(r"\d+_(\w+)\.sql", file.name)[1]
        assert f"VALUES ({number}, '{name}')" in file.read_text(), file.name
        for text in (file.read_text(), (SQL / "rollback" / file.name).read_text()):
            assert text.startswith(f"-- {file.name} - "), file.name
            assert text.count("\nBEGIN;\n") == 1 and text.endswith("\nCOMMIT;\n"), file.name


@test
def migrating_again_changes_nothing():
    base = fresh("again")
    db.migrate(database=base)
    db.psql("SELECT weir.limit('k', 5, 60000)", database=base)
    before = everything(base)
    states = db.psql("SELECT * FROM weir.states", database=base)
    db.migrate(database=base)
    assert everything(base) == before
    assert db.psql("SELECT * FROM weir.states", database=base) == states


@test
def migrating_again_keeps_what_others_have_put_on_it():
    base = fresh("kept")
    db.migrate(database=base)
    views = [name for name, in db.rows("SELECT relname FROM pg_class WHERE relkind = 'v' AND "
                                       "relnamespace = 'weir'::regnamespace", database=base)]
    assert "deny_rate" in views
    for view in views:
        db.psql(f"GRANT SELECT ON weir.{view} TO stranger; "
                f"CREATE VIEW public.my_{view} AS SELECT * FROM weir.{view}", database=base)
    before = everything(base)
    db.migrate(database=base)
    assert everything(base) == before


@test
def after_a_rollback_the_migration_can_be_applied_again():
    base = fresh("back")
    db.migrate(database=base)
    secret = db.value("SELECT bytes FROM weir.secret", database=base)
    whole = everything(base)
    for i in range(len(BACK), 1, -1):  # each step back and forth alone
        for file in reversed(BACK[i - 1:]):
            db.psql(file.read_bytes(), database=base)
        assert db.value("SELECT max(number) FROM weir.migrations", database=base) == str(i - 1)
        db.migrate(database=base)
        assert everything(base) == whole, BACK[i - 1].name
    assert db.value("SELECT bytes FROM weir.secret", database=base) == secret


@test
def a_rollback_leaves_nothing_and_can_be_run_again():
    base = fresh("gone")
    db.migrate(database=base)
    db.psql("SELECT weir.expose('public')", database=base)
    for _ in range(2):
        db.rollback(database=base)
        assert db.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'weir'",
                        database=base) == "0"
        assert db.value("SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
                        database=base) == "0"
    db.migrate(database=base)


@test
def a_rollback_keeps_the_members_of_roles():
    base = fresh("members")
    db.migrate(database=base)
    db.psql("CREATE ROLE app; GRANT weir_caller TO app", database=base)
    db.rollback(database=base)
    db.migrate(database=base)
    assert db.value("SELECT pg_has_role('app', 'weir_caller', 'MEMBER')", database=base) == "t"
    db.psql("DROP ROLE app", database=base)


@test
def a_table_from_before_it_had_room_gets_it():
    base = fresh("older")
    shape = ("SELECT attname, pg_get_expr(adbin, adrelid), 'fillfactor=90' = ANY (reloptions) "
             "FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid "
             "JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum "
             "WHERE c.oid = 'weir.states'::regclass")
    db.migrate(database=base)
    whole = db.rows(shape, database=base)
    db.psql("ALTER TABLE weir.states DROP COLUMN room; ALTER TABLE weir.states SET (fillfactor = 60)",
            database=base)
    db.migrate(database=base)
    assert db.rows(shape, database=base) == whole and whole[0][0] == "room", whole


@test
def functions_that_returned_sets_are_replaced_where_they_are_exposed_too():
    base = fresh("rows")
    db.migrate(database=base)
    db.psql("SELECT weir.expose('public')", database=base)
    shape = ("SELECT p.oid::regprocedure, proretset, obj_description(p.oid, 'pg_proc') IS NOT NULL FROM "
             "pg_proc p WHERE proname IN ('upsert_rate_limit', 'increment_rate_limit') ORDER BY 1")
    whole = db.rows(shape, database=base)
    older = {"upsert_rate_limit(text, text, timestamptz, timestamptz": "requests_count integer",
             "increment_rate_limit(text, integer, date": "count integer, allowed boolean"}
    for schema in "weir", "public":
        db.psql(f"DROP FUNCTION {schema}.upsert_rate_limit, {schema}.increment_rate_limit; "
                + "".join(f"CREATE FUNCTION {schema}.{name}) RETURNS TABLE ({columns}) LANGUAGE sql AS "
                          f"'SELECT {', '.join(['NULL'] * (columns.count(',') + 1))}'; "
                          f"COMMENT ON FUNCTION {schema}.{name}) IS "
                          "'calls the function of the same name in schema weir';"
                          for name, columns in older.items()).replace(
                              "SELECT NULL'", "SELECT NULL::integer'").replace(
                              "SELECT NULL, NULL'", "SELECT NULL::integer, NULL::boolean'"),
                database=base)
    assert db.rows(shape, database=base) != whole
    db.migrate(database=base)
    assert db.rows(shape, database=base) == whole, db.rows(shape, database=base)


# What 0.1.0 was called while it was not released; the views and functions need only be there.
OLDER_NAMES = """
    DROP VIEW weir.deny_rate, weir.most_denied, weir.denied_minutes, weir.checks, weir.audit;
    DROP FUNCTION weir.apply_changes, weir.apply_change, weir.in_force_for, weir.append_change, weir.stats,
        weir.in_force, weir.read_history, weir.count_answer, weir.append_entry, weir.clear_of;
    ALTER TABLE weir.tally RENAME COLUMN shadow_denied TO would_deny;
    ALTER TABLE weir.history RENAME COLUMN shadow_denied TO would_deny;
    ALTER TABLE weir.history_hours RENAME COLUMN shadow_denied TO would_deny;
    ALTER TABLE weir.denials RENAME CONSTRAINT denials_pkey TO limited_pkey;
    ALTER TABLE weir.denials RENAME TO limited;
    ALTER TABLE weir.ledger RENAME CONSTRAINT ledger_kind_check TO ledger_subject_check;
    ALTER TABLE weir.ledger RENAME COLUMN kind TO subject;
    CREATE VIEW weir.checks AS SELECT minute, policy, would_deny FROM weir.history;
    CREATE VIEW weir.block_rate AS SELECT policy, sum(would_deny) AS blocked_requests FROM weir.checks GROUP BY 1;
    CREATE VIEW weir.most_limited AS SELECT tag FROM weir.limited;
    CREATE VIEW weir.windows_over_limit AS SELECT minute FROM weir.checks;
    CREATE VIEW weir.audit AS SELECT seq, subject FROM weir.ledger;
    CREATE FUNCTION weir.count_answer(answer weir.answer, tag uuid, would_deny boolean) RETURNS void
        LANGUAGE sql AS '';
    CREATE FUNCTION weir.refuse(text) RETURNS void LANGUAGE sql AS '';
    CREATE FUNCTION weir.rulings_of(p_subject text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
    CREATE FUNCTION weir.stats(p_policy text DEFAULT NULL, p_for interval DEFAULT '1 hour')
        RETURNS TABLE (policy text, requests bigint) LANGUAGE sql AS 'SELECT NULL::text, NULL::bigint';"""


@test
def tables_with_old_names_are_renamed_and_keep_their_rows():
    base = fresh("renamed")
    db.migrate(database=base)
    whole = everything(base)
    db.psql(OLDER_NAMES + "INSERT INTO weir.limited VALUES (now(), 'login', 'ip', 'ab12', 3); "
            "INSERT INTO weir.history VALUES (now(), 'login', '(check)', 5, 3, 2)", database=base)
    assert everything(base) != whole
    db.migrate(database=base)
    assert everything(base) == whole
    assert db.rows("SELECT tag, denied FROM weir.most_denied", database=base) == [["ab12", "3"]]
    assert db.rows("SELECT checks, denied, shadow_denied FROM weir.deny_rate", database=base) == [
        ["8", "3", "2"]]


@test
def a_database_from_before_reservations_gets_them_and_keeps_its_counts():
    base = fresh("unreserved")
    db.migrate(database=base)
    whole = everything(base)
    for file in reversed(BACK[12:]):
        db.psql(file.read_bytes(), database=base)
    db.psql("DROP TABLE weir.holds, weir.reservations CASCADE; DROP FUNCTION weir.judge, "
            "weir.tidy_reservations, weir.bring_up, weir.taken; CREATE FUNCTION weir.judge(uuid[], "
            "integer[], bigint[], bigint[], bigint[], bigint[], integer[], integer[], integer[], "
            "integer[], bigint[], bigint[], bigint[], bigint[]) RETURNS integer LANGUAGE sql AS "
            "'SELECT 1'; INSERT INTO weir.states (key, at, used, other, oldest, expires, due) "
            "VALUES (md5('kept')::uuid, 5, 3, 0, 0, 9, 9)", database=base)
    db.migrate(database=base)
    assert everything(base) == whole
    assert db.value("SELECT used FROM weir.states", database=base) == "3"
    db.psql("SELECT weir.push_policies('" '{"p": {"rules": [{"name": "r", "algorithm": "token_bucket", '
            '"limit": 5, "window_ms": 1000}]}}' "')", database=base)
    assert db.value("SELECT remaining FROM weir.reserve('p', p_cost => 2, p_ttl_ms => 1000)",
                    database=base) == "3"


@test
def a_rollback_leaves_what_was_held_used():
    base = fresh("held")
    db.migrate(database=base)
    db.psql("SELECT weir.push_policies('" '{"p": {"rules": [{"name": "r", "algorithm": "token_bucket", '
            '"limit": 5, "window_ms": 1000000000}]}}' "')", database=base)
    db.psql("SELECT weir.reserve('p', p_cost => 2, p_ttl_ms => 60000)", database=base)
    for file in reversed(BACK[12:]):
        db.psql(file.read_bytes(), database=base)
    assert db.value("SELECT remaining FROM weir.check('p')", database=base) == "2"
    db.migrate(database=base)
    assert db.value("SELECT remaining FROM weir.check('p')", database=base) == "1"


@test
def a_migration_that_fails_changes_nothing():
    base = fresh("failing")
    for file in FILES:
        text = file.read_text().removesuffix("COMMIT;\n") + "SELECT 1 / 0;\nCOMMIT;\n"
        try:
            db.psql(text, database=base)
        except SqlError as error:
            assert error.code == "22012", error
        else:
            raise AssertionError("1 / 0 was something")
        number = int(file.name[:4])
        found = db.value("SELECT to_regclass('weir.migrations') IS NULL", database=base)
        if found == "f":
            assert db.value(f"SELECT count(*) FROM weir.migrations WHERE number = {number}",
                            database=base) == "0"
        db.psql(file.read_bytes(), database=base)


@test
def an_owner_who_is_no_superuser_can_migrate():
    db.psql("CREATE ROLE owner LOGIN CREATEROLE; GRANT weir_caller, weir_server, weir_viewer, weir_operator TO owner")
    base = fresh("owned", "owner")
    for file in FILES:
        db.psql(file.read_bytes(), role="owner", database=base)
    db.psql("CREATE ROLE edge LOGIN IN ROLE weir_caller")
    assert db.value("SELECT allowed FROM weir.limit('k', 5, 60000)", role="edge",
                    database=base) == "t"
    for file in reversed(BACK):
        db.psql(file.read_bytes(), role="owner", database=base)


@test
def public_may_nothing_and_every_table_has_row_security():
    base = fresh("closed")
    db.migrate(database=base)
    assert db.rows("SELECT relname FROM pg_class WHERE relnamespace = 'weir'::regnamespace AND relkind "
                   "= 'r' AND NOT relrowsecurity", database=base) == []
    assert db.rows("SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = "
                   "'weir'::regnamespace AND has_function_privilege('stranger', p.oid, 'EXECUTE')",
                   database=base) == []
    assert db.rows("SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'weir'::regnamespace AND "
                   "c.relkind IN ('r', 'v') AND has_table_privilege('stranger', c.oid, "
                   "'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')", database=base) == []
    assert db.value("SELECT has_schema_privilege('stranger', 'weir', 'USAGE')",
                    database=base) == "f"
    for role in ("weir_caller", "weir_server"):
        assert db.rows("SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'weir'::regnamespace "
                       f"AND has_table_privilege('{role}', c.oid, "
                       "'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')", database=base) == []


@test
def functions_with_the_owners_rights_have_a_fixed_search_path():
    base = "closed"
    assert db.rows("SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = "
                   "'weir'::regnamespace AND p.prosecdef AND NOT coalesce(array_to_string(p.proconfig, "
                   "' ') LIKE '%search_path=pg_catalog, pg_temp%', false)", database=base) == []


@test
def everything_has_a_comment():
    missing = db.rows("""
        SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'weir'::regnamespace
           AND obj_description(p.oid, 'pg_proc') IS NULL
         UNION ALL
        SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'weir'::regnamespace
           AND c.relkind IN ('r', 'v') AND obj_description(c.oid, 'pg_class') IS NULL
         UNION ALL
        SELECT t.typname FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
         WHERE t.typnamespace = 'weir'::regnamespace AND obj_description(t.oid, 'pg_type') IS NULL
        """, database="closed")
    assert missing == [], missing


def functions_in(text):
    return {name for name in re.findall(r"`([a-z_]+)`", text) if not name.startswith("weir_")}


@test
def each_role_may_call_what_the_documentation_says_and_nothing_else():
    page = (SQL.parent / "docs" / "sql.md").read_text()
    told = {}
    for role, may in re.findall(r"^\| `(weir_\w+)` \| ([^|]*) \|", page, re.M):
        told[role] = functions_in(may)
    found = {role: {name for name, in db.rows(
        "SELECT DISTINCT p.proname FROM pg_proc p WHERE p.pronamespace = 'weir'::regnamespace AND "
        f"has_function_privilege('{role}', p.oid, 'EXECUTE') UNION ALL SELECT c.relname FROM pg_class "
        "c WHERE c.relnamespace = 'weir'::regnamespace AND c.relkind IN ('r', 'v') AND "
        f"has_table_privilege('{role}', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        database="closed")} for role in told}
    told["weir_server"] |= told["weir_caller"]
    told["weir_operator"] |= told["weir_viewer"]
    assert set(told) == {"weir_caller", "weir_server", "weir_viewer", "weir_operator"}, told
    for role, names in told.items():
        assert names == found[role], (role, names ^ found[role])


@test
def secrets_differ():
    db.migrate(database=fresh("one"))
    db.migrate(database=fresh("two"))
    secrets = {db.value("SELECT bytes FROM weir.secret", database=name) for name in ("one", "two")}
    assert len(secrets) == 2


with Postgres(fsync="off", synchronous_commit="off") as db:
    db.psql("CREATE ROLE stranger LOGIN")
    run()
