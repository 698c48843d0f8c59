#!/usr/bin/env python3
"""test_concurrency.py - many callers at once: limits are exact, and there are no deadlocks.

    tests/sql/test_concurrency.py TREE
"""
import contextlib
import subprocess
import sys
import threading

sys.path.insert(0, "tests/support")
from sql_judge import NUMBERS  # noqa: E402
from postgres import Postgres, SqlError, programs  # noqa: E402
from weir_server import PATIENCE, run, test, wait_until  # noqa: E402

CLIENTS = 8
AGE = 1000000000000  # ms: a window that does not end during the test
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"

# Questions by plain lists: charges of (key, rule) in any order, several per question.
HELPERS = """
CREATE SCHEMA test;
CREATE UNLOGGED TABLE test.admitted (what text, count bigint);

-- n random numbers below most, each once, in no order.
CREATE FUNCTION test.some(n integer, most integer) RETURNS integer[] LANGUAGE sql VOLATILE AS $$
    SELECT array_agg(DISTINCT floor(random() * most)::integer) FROM generate_series(1, n)
$$;

CREATE FUNCTION test.key(what text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT md5(what)::uuid
$$;

-- A question for each element: one charge by each of the names that stand beside it.
CREATE FUNCTION test.judge(names text[], per integer, algorithm integer, max bigint, win bigint,
                           verbs integer[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    sorted uuid[];
    slots integer[];
    said record;
BEGIN
    SELECT array_agg(DISTINCT test.key(n) ORDER BY test.key(n)) INTO sorted FROM unnest(names) n;
    SELECT array_agg(array_position(sorted, test.key(u.n)) ORDER BY u.i) INTO slots
      FROM unnest(names) WITH ORDINALITY AS u (n, i);
    SELECT * INTO said FROM weir.judge(sorted, ARRAY[algorithm], ARRAY[max], ARRAY[win], ARRAY[max],
        ARRAY[1::bigint], slots, array_fill(1, ARRAY[cardinality(names)]),
        array_fill(per, ARRAY[cardinality(names) / per]), verbs);
    RETURN (SELECT count(*) FROM unnest(said.allowed) WITH ORDINALITY AS a (ok, i)
             WHERE i % per = 0 AND ok
               AND said.allowed[i - per + 1] AND said.allowed[i - per / 2]);
END $$;

-- One question for each name, by the short way; by the other, if that does not wait.
CREATE FUNCTION test.charge(names text[], algorithm integer, max bigint, win bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    sorted uuid[];
    counts integer[];
    amounts bigint[];
    said record;
BEGIN
    SELECT array_agg(k.key), array_agg(k.count::integer), array_agg(k.count)
      INTO sorted, counts, amounts
      FROM (SELECT test.key(n) AS key, count(*) AS count FROM unnest(names) n
             GROUP BY 1 ORDER BY 1) k;
    SELECT * INTO said FROM weir.charge_many(sorted, algorithm, ARRAY[algorithm], ARRAY[max],
        ARRAY[win], ARRAY[max], ARRAY[1::bigint], NULL, amounts, NULL, counts, NULL);
    RETURN coalesce((SELECT sum(counts[p]) FROM unnest(said.passed) p), 0)
         + (SELECT count(*) FROM unnest(said.allowed) a WHERE a);
EXCEPTION WHEN lock_not_available THEN
    INSERT INTO test.admitted VALUES ('judged after all', 1);
    RETURN test.judge(names, 1, algorithm, max, win);
END $$;
"""


def admitted(what):
    return int(db.value(f"SELECT coalesce(sum(count), 0) FROM test.admitted WHERE what = '{what}'"))


def admits_exactly(algorithm, most, way):
    """8 clients ask twice as often as may pass, in batches of few and of many."""
    what = f"exactly {algorithm} {most} {way}"
    rule = f"{NUMBERS[algorithm]}, 1000, {AGE}"
    script = (f"\\set n random(1, {most})\n"
              f"INSERT INTO test.admitted SELECT '{what}', test." +
              way.format(names=f"array_fill('{what}'::text, ARRAY[:n])", rule=rule) + ";")
    db.pgbench(script, "-c", CLIENTS, "-j", 2, "-t", 512 // most)
    assert admitted(what) == 1000, f"{admitted(what)} of 1000 were admitted"


@test
def a_limit_of_1000_admits_1000_from_8_clients():
    for algorithm in ("fixed_window", "sliding_window", "sliding_counter", "token_bucket"):
        for most in (3, 40):
            admits_exactly(algorithm, most, "judge({names}, 1, {rule})")
            admits_exactly(algorithm, most, "charge({names}, {rule})")


@test
def both_ways_at_once_share_a_limit():
    # By ones, by batches of few keys and of many; half as much again as may pass.
    script = ("\\set n random(1, 20)\n\\set key random(0, 9)\n"
              "INSERT INTO test.admitted SELECT 'mixed', test.charge((SELECT array_agg('mixed ' || "
              f"(:key + i) % 10) FROM generate_series(1, :n) i), 1, 100, {AGE});\n"
              "INSERT INTO test.admitted SELECT 'mixed', test.judge((SELECT array_agg('mixed ' || "
              f"(:key + i) % 10) FROM generate_series(1, :n) i), 1, 1, 100, {AGE});\n"
              "INSERT INTO test.admitted SELECT 'mixed', 1 FROM weir.charge_one(test.key('mixed ' || "
              f":key), 1, 100, {AGE}, 100, 1, 1, NULL) AS a WHERE cardinality(a) = 4 OR a[1] = 1;")
    db.pgbench(script, "-c", CLIENTS, "-j", 2, "-t", 20)
    used = int(db.value("SELECT sum(used) FROM weir.states WHERE key IN "
                        "(SELECT test.key('mixed ' || i) FROM generate_series(0, 9) i)"))
    assert admitted("mixed") == used == 1000, f"{admitted('mixed')} were admitted, {used} charged"


@test
def a_limit_of_5_admits_5_from_100_clients_that_come_at_once():
    for i in range(3):
        script = (f"INSERT INTO test.admitted SELECT 'seed {i}', 1 FROM "
                  f"weir.check_rate_limit('crowd {i}', 5, 3600) WHERE allowed;")
        db.pgbench(script, "-c", 100, "-j", 2, "-t", 1)
        assert admitted(f"seed {i}") == 5


@test
def an_upsert_counts_each_caller_once():
    script = ("INSERT INTO test.admitted SELECT 'upsert ' || requests_count, 1 FROM "
              "weir.upsert_rate_limit('me', '/login', '2026-01-01', '2027-01-01');")
    db.pgbench(script, "-c", CLIENTS, "-j", 2, "-t", 50)
    seen = db.rows("SELECT what, count(*) FROM test.admitted WHERE what LIKE 'upsert %' GROUP BY 1")
    assert sorted(seen) == sorted([f"upsert {i}", "1"] for i in range(1, CLIENTS * 50 + 1))


@test
def a_conditional_upsert_stops_at_its_limit():
    script = ("INSERT INTO test.admitted SELECT 'conditional', 1 FROM "
              "weir.increment_rate_limit('me', 100, '2026-01-01') WHERE allowed;")
    db.pgbench(script, "-c", CLIENTS, "-j", 2, "-t", 30)
    assert admitted("conditional") == 100


@test
def three_rules_are_charged_together_or_not_at_all():
    # One name of each kind in each question: 1 global, 5 ips, 40 emails, all with a limit of 200.
    question = "ARRAY['global', 'ip ' || :ip%d, 'email ' || :email%d]"
    sets = "".join(f"\\set ip{i} random(1, 5)\n\\set email{i} random(1, 40)\n" for i in range(4))
    names = " || ".join(question % (i, i) for i in range(4))
    script = (f"{sets}INSERT INTO test.admitted SELECT 'three', "
              f"test.judge({names}, 3, 1, 200, {AGE});")
    db.pgbench(script, "-c", CLIENTS, "-j", 2, "-t", 20)
    total = admitted("three")
    assert total == 200, f"{total} of 200 were admitted"
    for kind, count in (("global", 1), ("ip", 5), ("email", 40)):
        name = "'global'" if count == 1 else f"'{kind} ' || i"
        used = db.value(f"SELECT sum(used) FROM weir.states WHERE key IN "
                        f"(SELECT test.key({name}) FROM generate_series(1, {count}) i)")
        assert int(used) == total, f"{kind}: {used} charged, {total} admitted"


@test
def random_batches_in_any_order_never_wait_in_a_circle():
    # Old keys and new ones, checks, peeks, refunds and resets, by both ways, with limits that few
    # reach and with some out of reach, so that rows are locked; an error ends pgbench's client.
    script = ("\\set n random(2, 30)\n\\set fresh random(1, 1000000000)\n"
              "SELECT test.judge((SELECT array_agg('any ' || i) FROM unnest(test.some(:n, 80)) i)"
              f" || ARRAY['any fresh ' || :fresh, 'any new ' || :fresh / 1000000], 1, 2, 50, {AGE},"
              " NULL);\n"
              "SELECT test.judge((SELECT array_agg('any ' || i) FROM unnest(test.some(4, 80)) i)"
              f", 1, 2, 50, {AGE}, ARRAY[2, 0, 1, 3]);\n"
              "SELECT test.judge((SELECT array_agg('wide ' || i) FROM unnest(test.some(:n, 80)) i)"
              f", 1, 4, 1000000000, 1000);\n"
              "SELECT test.charge((SELECT array_agg('wide ' || i) FROM unnest(test.some(:n, 80)) i)"
              " || ARRAY['wide fresh ' || :fresh, 'wide new ' || :fresh / 1000000], 4, 1000000000,"
              " 1000);\n"
              "SELECT test.charge((SELECT array_agg('any ' || i) FROM unnest(test.some(:n, 80)) i)"
              f" || ARRAY['any new ' || :fresh / 1000000 + 1], 2, 50, {AGE});")
    report = db.pgbench(script, "-c", 4, "-j", 2, "-T", 6)
    assert "number of transactions actually processed" in report, report
    assert db.value(DEADLOCKS) == "0"


@test
def many_checks_in_any_order_never_wait_in_a_circle():
    script = ("\\set a random(1, 9)\n\\set b random(1, 9)\n\\set c random(1, 9)\n"
              "SELECT weir.check_many(jsonb_build_array("
              + ", ".join(f"jsonb_build_object('key', 'circle ' || :{name}, 'limit', 1000000, "
                          "'window_ms', 60000, 'algorithm', 'token_bucket')" for name in "abc")
              + "));")
    before = db.value(DEADLOCKS)
    db.pgbench(script, "-c", CLIENTS, "-j", 2, "-t", 60)
    assert db.value(DEADLOCKS) == before


@contextlib.contextmanager
def tidying(most):
    """Remove what has expired, over and over, this many rows in a transaction."""
    stop = threading.Event()

    def tidy():
        while not stop.is_set():
            db.psql(f"SELECT weir.tidy({most});" * 50)

    thread = threading.Thread(target=tidy)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@test
def rows_can_be_used_while_upkeep_removes_them():
    # Rows that expired ten minutes ago are removed and asked for at once. Each may be admitted
    # once: if a row were removed after it was charged, or made twice, some would be again.
    db.psql("INSERT INTO weir.states SELECT test.key('old ' || i), 1, 0, 0, 0, e.ms, e.ms, NULL "
            "FROM generate_series(0, 7999) i, LATERAL (SELECT "
            "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 600000 AS ms) e")
    script = ("INSERT INTO test.admitted SELECT 'old', test.judge((SELECT array_agg('old ' || i) "
              f"FROM unnest(test.some(40, 8000)) i), 1, 1, 1, {AGE});")
    with tidying(50):
        db.pgbench(script, "-c", 4, "-j", 2, "-t", 100)
    used = db.value("SELECT count(*) FROM weir.states WHERE used = 1 AND key IN "
                    "(SELECT test.key('old ' || i) FROM generate_series(0, 7999) i)")
    assert admitted("old") == int(used) > 1000
    left = int(db.value("SELECT count(*) FROM weir.states WHERE used = 0 AND expires < 1e15"))
    assert left < 8000 - int(used), "nothing was removed"


@test
def rows_that_go_while_several_are_asked_for_are_made_again_in_order():
    # What is counted at a time long ago has expired at once: rows go as fast as they are made.
    ask = ("SELECT weir.judge(k.keys, '{{1}}', '{{1000000}}', '{{1000}}', '{{1000000}}', '{{0}}', "
           "'{{1,2,3}}', '{{1,1,1}}', {counts}, NULL, NULL, {nows}) FROM (SELECT array_agg(key) AS "
           "keys FROM (SELECT test.key('brief ' || i) AS key FROM unnest(ARRAY[:a, 12 + :b, 24 + :c])"
           " i ORDER BY 1) k) k;\n")
    script = ("".join(f"\\set {name} random(0, 11)\n" for name in "abc")
              + ask.format(counts="'{3}'", nows="'{1000000}'")
              + ask.format(counts="NULL", nows="'{1000000,1000000,1000000}'"))
    before = db.value(DEADLOCKS)
    with tidying(5):
        db.pgbench(script, "-c", 6, "-j", 2, "-T", 5)
    assert db.value(DEADLOCKS) == before
    assert int(db.value("SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'states'")) > 1000


class Holder:
    """A transaction that is open until it is told to end."""

    def __init__(self, text):
        self.process = subprocess.Popen(
            [programs() / "psql", "-X", "-q", "-A", "-t", "-h", db.folder, "-p", str(db.port), "-U",
             "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(f"BEGIN;\n{text};\n\\echo held\n")
        self.process.stdin.flush()
        while self.process.stdout.readline() != "held\n":
            assert self.process.poll() is None, "the transaction has ended"

    def end(self, text=""):
        self.process.communicate(f"{text};\nCOMMIT;\n", timeout=PATIENCE)


def waiting(text, count):
    """Send this, which becomes the count-th that waits; returns what to call for its SQLSTATE."""
    said = []

    def ask():
        try:
            db.psql(text)
            said.append("00000")
        except SqlError as error:
            said.append(error.code)

    def answer():
        thread.join(PATIENCE)
        return said[0]

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: int(db.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = "
                                    "'Lock'")) == count, f"{count} to wait")
    return answer


def pair(name):
    """Two keys, the first of which sorts first."""
    keys = sorted(db.value(f"SELECT test.key('{name} {i}')") for i in (1, 2))
    return keys, "'{" + ",".join(keys) + "}'"


@test
def a_batch_that_waited_for_a_row_in_vain_waits_for_no_guard():
    # It has locked the row although that is used up by now, and another who holds the guard of
    # the key that it has to make wants this row.
    for i in range(4):
        (old, _), keys = pair(f"in vain {i}")
        use = f"SELECT weir.charge_one('{old}', 1, 2, {AGE}, 2, 0, 1, NULL)"
        db.psql(use)
        holder = Holder(use)
        batch = waiting(f"SELECT weir.charge_many({keys}, 1, '{{1}}', '{{2}}', '{{{AGE}}}', '{{2}}', "
                        "'{0}', NULL, NULL, NULL, NULL, NULL)", 1)
        check = waiting(f"SELECT weir.judge({keys}, '{{1}}', '{{9}}', '{{{AGE}}}', '{{9}}', '{{0}}', "
                        "'{1,2}', '{1,1}', '{2}')", 2)
        holder.end()
        assert batch() in ("55P03", "00000"), "it waited in a circle"  # 00000: the other got the row
        assert check() == "00000"


@test
def a_call_whose_row_was_removed_while_it_waited_makes_it_again():
    (first, second), keys = pair("removed")
    check = (f"SELECT weir.judge({keys}, '{{1}}', '{{9}}', '{{{AGE}}}', '{{9}}', '{{0}}', '{{1,2}}', "
             "'{1,1}', '{2}')")
    for _ in range(3):
        db.psql(check)
    holder = Holder(f"SELECT FROM weir.states WHERE key = '{first}' FOR UPDATE")
    asked = waiting(check, 1)
    holder.end(f"DELETE FROM weir.states WHERE key = '{second}'")
    assert asked() == "00000"
    assert db.rows(f"SELECT key, used FROM weir.states WHERE key = ANY ({keys}) ORDER BY 1") == [
        [first, "4"], [second, "1"]]


@test
def rows_inserted_for_a_discarded_decision_are_unused_again():
    # The first key is used up while the call waits for it: the second, which is new, is not charged.
    (old, new), keys = pair("untouched")
    use = f"SELECT weir.charge_one('{old}', 1, 2, {AGE}, 2, 0, 1, NULL)"
    db.psql(use)
    holder = Holder(use)
    asked = waiting(f"SELECT weir.judge({keys}, '{{1}}', '{{2}}', '{{{AGE}}}', '{{2}}', '{{0}}', "
                    "'{1,2}', '{1,1}', '{2}')", 1)
    holder.end()
    assert asked() == "00000"
    found = dict(db.rows(f"SELECT key, used FROM weir.states WHERE key = ANY ({keys})"))
    assert found == {old: "2", new: "0"}, found
    assert db.value(f"SELECT expires = 0 AND due < extract(epoch FROM now()) * 1000 + 120000 "
                    f"FROM weir.states WHERE key = '{new}'") == "t"


@test
def of_keys_that_a_transaction_makes_and_does_not_end_each_is_found_locked():
    keys = sorted(db.value(f"SELECT test.key('made {i}')") for i in range(5))
    all_of_them = "'{" + ",".join(keys) + "}'"
    holder = Holder("".join(f"SELECT weir.charge_one('{key}', 1, 2, {AGE}, 2, 0, 1, NULL);"
                            for key in (keys[1], keys[3])))
    assert db.rows(f"SELECT key FROM weir.locked_keys({all_of_them})") == [[keys[1]], [keys[3]]]
    assert db.rows(f"SELECT key FROM weir.locked_keys({all_of_them}, 1)") == [[keys[1]]]
    holder.end()
    assert db.rows(f"SELECT key FROM weir.locked_keys({all_of_them})") == []
    assert db.value(f"SELECT count(*) FROM weir.states WHERE key = ANY ({all_of_them})") == "2"


with Postgres(fsync="off", synchronous_commit="off", log_min_messages="error") as db:
    db.migrate()
    db.psql(HELPERS)
    run()
