#!/usr/bin/env python3
"""test_upkeep.py - what has expired goes, what is live stays, nothing is scanned, nothing bloats.

    tests/sql/test_upkeep.py TREE
"""
import json
import sys

sys.path.insert(0, "tests/support")
from postgres import Postgres  # noqa: E402
from weir_server import run, test, wait_until  # noqa: E402

NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


def fill(what, count, expires, due):
    db.psql(f"INSERT INTO weir.states SELECT md5('{what}' || i)::uuid, 1, 1, 0, 0, {NOW} + {expires}, "
            f"{NOW} + {due}, NULL FROM generate_series(1, {count}) i")


def left(what, count):
    return int(db.value("SELECT count(*) FROM weir.states WHERE key IN (SELECT "
                        f"md5('{what}' || i)::uuid FROM generate_series(1, {count}) i)"))


@test
def expired_rows_are_removed_and_live_rows_stay():
    fill("dead", 1200, -600000, -540000)
    fill("live", 300, 600000, -1)
    fill("just expired", 300, -1000, -1)
    fill("not due", 300, -600000, 600000)
    rounds = [int(db.value("SELECT weir.tidy(500)")) for _ in range(5)]
    assert rounds == [500, 500, 500, 300, 0], rounds
    assert left("dead", 1200) == 0
    assert left("live", 300) == left("just expired", 300) == left("not due", 300) == 300
    put_off = db.value(f"SELECT min(due) > {NOW} + 50000 FROM weir.states WHERE key IN (SELECT "
                       "md5('live' || i)::uuid FROM generate_series(1, 300) i)")
    assert put_off == "t"


@test
def all_that_is_due_goes_in_one_call_of_upkeep():
    fill("more", 1700, -600000, -540000)
    db.psql("CALL weir.upkeep()")
    assert left("more", 1700) == 0


@test
def upkeep_skips_locked_rows():
    fill("used", 10, -600000, -540000)
    locked = ("BEGIN; SELECT FROM weir.states WHERE key = md5('used1')::uuid FOR UPDATE; "
              f"\\! {tidy_elsewhere()}\n COMMIT;")
    db.psql(locked)
    assert left("used", 10) == 1
    db.psql("SELECT weir.tidy(500)")
    assert left("used", 10) == 0


def tidy_elsewhere(how="weir.tidy(500)"):
    return (f"psql -X -q -h {db.folder} -p {db.port} -U postgres -d postgres "
            f"-c \"SET statement_timeout = 10000\" -c \"SELECT {how}\" > /dev/null")


@test
def one_at_a_time_does_it():
    cleanup = "weir.cleanup_old_rate_limit_buckets()"
    fill("one", 10, -600000, -540000)
    for how in "weir.tidy(500)", cleanup:
        db.psql(f"BEGIN; SELECT weir.tidy(1); \\! {tidy_elsewhere(how)}\n COMMIT;")
    assert left("one", 10) == 8
    assert db.value(f"SELECT {cleanup}") == "8"


@test
def nothing_scans_the_table():
    db.psql("TRUNCATE weir.states; VACUUM ANALYZE weir.states")
    # Plans are made while the table is empty, and must do when it is not.
    before = int(db.value("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'states'"))
    ask = "SELECT weir.limit('scan ' || i, 5, 60000) FROM generate_series(1, 300) i;"
    db.psql(ask + "SELECT weir.tidy(100);" + ask + "ANALYZE weir.states;" + ask
            + "SELECT weir.tidy(100); SELECT weir.check_rate_limit('scan 1', 5, 60);")
    scans = wait_until(lambda: db.rows("SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE "
                                       "relname = 'states' AND idx_scan > 900"), "the statistics")
    assert int(scans[0][0]) == before, f"{int(scans[0][0]) - before} scans"


@test
def a_hot_row_and_its_table_stay_small():
    """200,000 updates of one row and of 500: they stay on their page, and no index grows."""
    db.psql("TRUNCATE weir.states")
    db.psql("SELECT pg_stat_reset()")
    hot = ("SELECT weir.judge(ARRAY[md5('hot')::uuid], '{4}', '{1000000}', '{60000}', '{1000000}', "
           "'{0}', array_fill(1, ARRAY[100]), array_fill(1, ARRAY[100]));")
    many = ("WITH k AS MATERIALIZED (SELECT array_agg(DISTINCT md5('k' || floor(random() * 500))::uuid)"
            " AS keys FROM generate_series(1, 100)) SELECT weir.judge(k.keys, '{4}', '{1000000}', "
            "'{60000}', '{1000000}', '{0}', (SELECT array_agg(i) FROM generate_series(1, "
            "cardinality(k.keys)) i), array_fill(1, ARRAY[cardinality(k.keys)])) FROM k;")
    sizes = []
    for _ in range(4):
        db.pgbench(hot, "-c", 2, "-t", 250, "-M", "prepared")
        db.pgbench(many, "-c", 2, "-t", 280, "-M", "prepared")
        sizes.append(int(db.value("SELECT pg_total_relation_size('weir.states')")))
    updates, hots = wait_until(lambda: [
        (int(a), int(b)) for a, b in db.rows("SELECT n_tup_upd, n_tup_hot_upd FROM "
                                             "pg_stat_user_tables WHERE relname = 'states'")
        if int(a) > 180000], "the statistics")[0]
    assert hots > 0.99 * updates, f"{hots} of {updates} updates are HOT"
    assert sizes[-1] <= 2 * sizes[0] and sizes[-1] < 4000000, sizes


@test
def the_server_reports_and_sql_callers_are_summed_up():
    db.psql("TRUNCATE weir.history, weir.denials, weir.tally")
    minute = int(db.value(f"SELECT {NOW}")) // 60000 * 60000 - 120000
    counts = {"minute_ms": minute, "policy": "login", "allowed": 90, "shadow_denied": 1}
    report = {"decisions": [{**counts, "rule": "(check)", "denied": 30},
                            {**counts, "rule": "ip", "denied": 10},
                            {**counts, "rule": "user", "denied": 20}],
              "denials": [{"minute_ms": minute, "policy": "login", "rule": "ip", "tag": "ab12",
                           "denied": 10}]}
    for _ in range(2):
        db.psql(f"SELECT weir.report('{json.dumps(report)}')")
    db.psql("SELECT weir.report('{}')")
    policy = {"api": {"rules": [{"name": "default", "algorithm": "fixed_window", "limit": 3,
                                 "window_ms": 1000000000000, "by": ["user"]}]}}
    db.psql(f"SELECT weir.push_policies('{json.dumps(policy)}')")
    db.psql("".join("SELECT weir.check('api', '{\"user\": \"u\"}');" for _ in range(5)))
    assert db.value("SELECT count(*) FROM weir.tally") == "5"
    db.psql("UPDATE weir.tally SET minute = minute - interval '1 minute'")
    wait_until(lambda: db.psql("SELECT weir.tidy()") and db.value("SELECT count(*) FROM weir.tally") == "0",
               "the sum: expired states come first")
    rates = db.rows("SELECT policy, checks, denied, deny_rate_percent, minutes, "
                    "denied_minutes FROM weir.deny_rate")
    assert rates == [["api", "5", "2", "40.00", "1", "1"], ["login", "240", "60", "25.00", "1", "1"]]
    limited = db.rows("SELECT policy, rule, denied FROM weir.most_denied")
    assert limited == [["login", "ip", "20"], ["api", "default", "2"]]
    assert len(db.value("SELECT tag FROM weir.most_denied WHERE policy = 'api'")) == 32
    assert db.value("SELECT count(*) FROM weir.denied_minutes") == "2"
    db.psql("SET weir.tally = off; SELECT weir.check('api', '{\"user\": \"u\"}')")
    assert db.value("SELECT count(*) FROM weir.tally") == "0"


@test
def all_sql_callers_are_in_the_views_at_once_and_stay_there():
    db.psql("TRUNCATE weir.history, weir.history_hours, weir.denials, weir.tally")
    window = "now() - interval '1 hour', now() + interval '1 hour'"
    starts = [f"date_trunc('hour', now()) - interval '{n} hours'" for n in range(2)]
    db.psql("SELECT weir.limit('k', 1, 60000) FROM generate_series(1, 2);"
            "SELECT weir.check_rate_limit('c', 1, 60) FROM generate_series(1, 3);"
            "SELECT weir.increment_rate_limit('k', 1) FROM generate_series(1, 4);"
            f"SELECT weir.upsert_rate_limit('k', '/a', {window});"
            + "".join(f"SELECT weir.upsert_rate_limit('k', '/b', {start}, {start} + interval '1 hour', "
                      "2) FROM generate_series(1, 5);" for start in starts))
    rates = [["increment_rate_limit", "4", "3"], ["check_rate_limit", "3", "2"],
             ["upsert_rate_limit", "11", "6"], ["(unnamed)", "2", "1"]]
    limited = [["upsert_rate_limit", "6"], ["increment_rate_limit", "3"], ["check_rate_limit", "2"],
               ["(unnamed)", "1"]]
    for age in range(3):
        found = db.rows("SELECT policy, checks, denied FROM weir.deny_rate")
        assert found == rates, found
        assert db.rows("SELECT policy, denied FROM weir.most_denied") == limited
        over = db.rows("SELECT policy, sum(denied) FROM weir.denied_minutes GROUP BY 1 ORDER BY 2 "
                       "DESC")
        assert over == limited, over
        if age == 0:  # then some of a minute is summed up, and some of it not
            db.psql("UPDATE weir.tally SET minute = minute - interval '1 minute'")
        db.psql("SELECT weir.sum_up(11)" if age == 0 else "SELECT weir.tidy()")
    assert in_tally() == 0


def fill_tally(count, minutes_ago):
    """Every third is refused, and of those every second is the same one's."""
    db.psql("INSERT INTO weir.tally SELECT date_trunc('minute', now()) - interval "
            f"'{minutes_ago} minutes', 'long', 'default', i % 3 > 0, i % 3 = 1, CASE WHEN i % 3 = 0 "
            f"THEN CASE WHEN i % 6 = 0 THEN 'same' ELSE md5(i::text) END END "
            f"FROM generate_series(1, {count}) i")


def in_tally():
    return int(db.value("SELECT count(*) FROM weir.tally"))


@test
def a_long_tally_is_summed_up_in_rounds():
    db.psql("TRUNCATE weir.history, weir.history_hours, weir.denials, weir.tally")
    for minutes_ago in 2, 1:
        fill_tally(9000, minutes_ago)
    rounds = [(int(db.value("SELECT weir.tidy(500)")), in_tally()) for _ in range(3)]
    assert rounds == [(500, 8000), (400, 0), (0, 0)], rounds
    for table in "history", "history_hours":
        sums = db.rows("SELECT rule, sum(allowed), sum(denied), sum(shadow_denied) "
                       f"FROM weir.{table} GROUP BY 1 ORDER BY 1")
        assert sums == [[rule, "12000", "6000", "6000"] for rule in ("(check)", "default")], sums
    assert db.rows("SELECT denied, count(*) FROM weir.denials GROUP BY 1 ORDER BY 1") == [
        ["1", "3000"], ["1500", "2"]]


@test
def a_tally_of_any_length_is_worked_off():
    fill_tally(25000, 1)
    db.psql("CALL weir.upkeep()")
    assert in_tally() == 0
    fill_tally(110000, 1)
    left_over = []
    for _ in range(2):
        db.psql("SELECT weir.cleanup_old_rate_limit_buckets()")
        left_over.append(in_tally())
    assert left_over == [10000, 0], left_over


@test
def nothing_scans_the_tally():
    fill_tally(1000, 0)
    fill_tally(1000, 1)
    seen = "SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'tally'"
    used = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'tally_minute'"
    before, uses = db.rows(seen), int(db.value(used))
    db.psql("SELECT weir.tidy(100); SELECT weir.tidy(100)")
    wait_until(lambda: int(db.value(used)) >= uses + 2, "the statistics")
    assert db.rows(seen) == before, (before, db.rows(seen))
    db.psql("TRUNCATE weir.tally")


@test
def old_history_goes():
    db.psql("INSERT INTO weir.history VALUES (now() - interval '40 days', 'p', 'r', 1, 1, 0); "
            "INSERT INTO weir.denials VALUES (now() - interval '8 days', 'p', 'r', 't', 1); "
            "SELECT weir.tidy()")
    assert db.value("SELECT count(*) FROM weir.history WHERE policy = 'p'") == "0"
    assert db.value("SELECT count(*) FROM weir.denials WHERE policy = 'p'") == "0"


with Postgres(fsync="off", synchronous_commit="off") as db:
    db.migrate()
    run()
