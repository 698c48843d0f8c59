#!/usr/bin/env python3
"""test_reservations.py - reservations and slots in Postgres: the model's numbers, and many at once.

    tests/sql/test_reservations.py TREE
"""
import json
import os
import random
import sys
import threading
from pathlib import Path

sys.path.insert(0, "tests/support")
from budget_model import Model  # noqa: E402
from budget_steps import Steps, random_rules  # noqa: E402
from postgres import Postgres, SqlError  # noqa: E402
from sql_budget import play, play_all  # noqa: E402
from sql_judge import key_of  # noqa: E402
from weir_server import PATIENCE, run, test  # noqa: E402

SEED = int(os.environ.get("WEIR_TEST_SEED", 1))
SCALE = int(os.environ.get("WEIR_TEST_SCALE", 100))
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
CLOCK = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

HELPERS = """
CREATE SCHEMA test;
CREATE UNLOGGED TABLE test.slots (id uuid PRIMARY KEY, at bigint, until bigint);
CREATE UNLOGGED TABLE test.answers (id uuid, allowed boolean, repeated boolean);

CREATE FUNCTION test.key(what text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT md5(what)::uuid
$$;

-- A reserve of these names, one charge each, with a cost of 1.
CREATE FUNCTION test.reserve(id uuid, names text[], algorithm integer, max bigint, win bigint,
                             ttl bigint, OUT error integer, OUT allowed boolean,
                             OUT repeated boolean, OUT clock bigint)
LANGUAGE plpgsql AS $$
DECLARE
    n CONSTANT integer := cardinality(names);
    said record;
BEGIN
    SELECT * INTO said FROM weir.judge_reservations('{6}', ARRAY[id], '{1}', ARRAY[ttl], '{60000}',
        '{f}', NULL, '{0}', NULL, NULL, ARRAY[n],
        ARRAY(SELECT test.key(name) FROM unnest(names) AS name), array_fill(algorithm, ARRAY[n]),
        array_fill(max, ARRAY[n]), array_fill(win, ARRAY[n]), array_fill(max, ARRAY[n]),
        array_fill(1::bigint, ARRAY[n]), array_fill(0::bigint, ARRAY[n]),
        array_fill(0::bigint, ARRAY[5 * n]), array_fill(NULL::text, ARRAY[n]),
        array_fill(1::bigint, ARRAY[n]), array_fill('p'::text, ARRAY[n]), names,
        array_fill('requests'::text, ARRAY[n]), array_fill(false, ARRAY[n]));
    error := said.errors[1];
    allowed := true = ALL (said.allowed);
    repeated := said.repeated[1];
    clock := said.clock;
END $$;

CREATE FUNCTION test.settle(id uuid, used bigint, OUT error integer, OUT expired boolean,
                            OUT clock bigint)
LANGUAGE plpgsql AS $$
DECLARE
    said record;
BEGIN
    SELECT * INTO said FROM weir.judge_reservations('{7}', ARRAY[id], '{0}', '{0}', '{0}', '{f}',
        NULL, '{1}', '{requests}', ARRAY[used], '{0}', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    error := said.errors[1];
    expired := said.expired[1];
    clock := said.clock;
END $$;

-- Take slots and free some of them; others expire. What a slot was held for is written down in the
-- same transaction.
CREATE PROCEDURE test.work(n integer, most bigint) LANGUAGE plpgsql AS $$
DECLARE
    mine uuid;
    ttl bigint;
    said record;
BEGIN
    FOR i IN 1..n LOOP
        mine := gen_random_uuid();
        ttl := 20 + floor(random() * 200)::bigint;
        said := test.reserve(mine, '{slots}', 6, most, 0, ttl);
        IF said.allowed THEN
            INSERT INTO test.slots VALUES (mine, said.clock, said.clock + ttl);
        END IF;
        COMMIT;
        IF said.allowed AND random() < 0.4 THEN
            said := test.settle(mine, 0);
            UPDATE test.slots s SET until = least(s.until, said.clock) WHERE s.id = mine;
            COMMIT;
        END IF;
    END LOOP;
END $$;

-- The same ids from all who call it, in one order.
CREATE PROCEDURE test.same(what text, n integer, algorithm integer, max bigint, win bigint)
LANGUAGE plpgsql AS $$
DECLARE
    said record;
BEGIN
    FOR i IN 1..n LOOP
        said := test.reserve(test.key(what || i), ARRAY[what], algorithm, max, win, 60000);
        INSERT INTO test.answers VALUES (test.key(what || i), said.allowed, said.repeated);
        COMMIT;
    END LOOP;
END $$;

-- Reservations of several keys in any order, some of them settled; and checks of several keys.
CREATE PROCEDURE test.mix(n integer) LANGUAGE plpgsql AS $$
DECLARE
    id uuid;
    last uuid;
    names text[];
BEGIN
    FOR i IN 1..n LOOP
        id := test.key('mix ' || floor(random() * 40));
        names := ARRAY(SELECT 'mix ' || k FROM generate_series(1, 12) AS k ORDER BY random() LIMIT 4);
        PERFORM test.reserve(id, names, 4, 1000000, 1000, 1 + floor(random() * 20)::bigint);
        COMMIT;
        PERFORM test.settle(CASE WHEN random() < 0.5 THEN id ELSE coalesce(last, id) END, 0);
        COMMIT;
        PERFORM weir.judge(k.keys, '{4}', '{1000000}', '{1000}', '{1000000}', '{0}', '{1,2,3,4}',
                           '{1,1,1,1}', '{1,1,1,1}', ARRAY[0, 3 * (random() < 0.1)::integer, 0, 5])
           FROM (SELECT array_agg(test.key(u.n) ORDER BY test.key(u.n)) AS keys
                   FROM unnest(names) AS u (n)) AS k;
        COMMIT;
        PERFORM weir.tidy(5);
        COMMIT;
        last := id;
    END LOOP;
END $$;
"""


def differs(want, have):
    return any(have.get(name) != value for name, value in want.items())


def compare(traces):
    """Of each its name, its rules, its steps and what they want."""
    said = iter(play_all(db, [trace[:3] for trace in traces]))
    for name, rules, steps, wanted in traces:
        for step, want in zip(steps, wanted):
            have = next(said)
            assert not differs(want, have), f"{name} {rules}\n{step}\nwant {want}\nhave {have}"


def together(count, text):
    """This script by so many sessions at once; the errors that they had."""
    errors = []

    def ask():
        try:
            db.psql(text)
        except SqlError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


# ---- numbers ----------------------------------------------------------------------------------------

@test
def all_traces_are_answered_number_for_number():
    lines = Path("tests/conformance/budgets.jsonl").read_text(encoding="ascii").splitlines()
    traces = [json.loads(line) for line in lines]
    compare([(f"trace {number}", trace["rules"], trace["steps"],
              [step["want"] for step in trace["steps"]]) for number, trace in enumerate(traces)])
    assert len(lines) == 110


@test
def random_steps_are_answered_as_the_model_answers():
    traces = []
    for seed in range(SEED, SEED + max(4, 20 * SCALE // 100)):
        dice = random.Random(seed)
        rules = random_rules(dice)
        steps, model = Steps(dice, rules), Model(rules)
        taken = [steps.next() for _ in range(80)]
        traces.append((f"seed {seed}", rules, taken, [model.step(step) for step in taken]))
    compare(traces)


def one(name, **more):
    return {"name": name, "algorithm": "fixed_window", "limit": 10, "window_ms": 3_600_000, **more}


def reserve(now, name, cost, ttl=60_000):
    return {"now": now, "op": "reserve", "key": "a", "id": name, "costs": {"requests": cost},
            "ttl_ms": ttl}


def settle(now, name, used):
    return {"now": now, "op": "commit", "id": name, "costs": {"requests": used}}


def peek(now):
    return {"now": now, "op": "peek", "key": "a", "costs": {"requests": 1}}


@test
def a_reset_in_between_leaves_nothing_to_give_back():
    # What was charged after it in the same window stays.
    for kind in ("fixed_window", "sliding_window", "sliding_counter", "token_bucket"):
        rules, now, trace = [one("r", algorithm=kind)], 1_700_000_000_000, f"reset {kind}"
        play(db, trace, rules, [reserve(now, "one", 6)])
        db.psql(f"SELECT weir.judge(ARRAY['{key_of(trace, 'r', None)}'::uuid], "
                f"'{{{ {'fixed_window': 1, 'sliding_window': 2, 'sliding_counter': 3}.get(kind, 4) }}}',"
                f" '{{10}}', '{{3600000}}', '{{10}}', '{{1}}', '{{1}}', '{{1}}', NULL, '{{3}}', NULL, "
                f"'{{{now + 1}}}')")
        *_, stands = play(db, trace, rules, [reserve(now + 2, "two", 4), settle(now + 3, "one", 0),
                                             peek(now + 4)])
        assert stands["rules"][0][1] == 6, (kind, stands)


@test
def a_record_is_known_for_10_minutes_to_the_ms():
    rules, now = [one("r")], 1_700_000_000_000
    end = now + 60_000 + 600_000
    said = play(db, "known", rules, [reserve(now, "one", 1), settle(end - 1, "one", 1),
                                     settle(end, "one", 1), reserve(end, "one", 2)])
    assert said[1]["expired"] and said[2] == {"error": "no_such_reservation"}
    assert said[3]["allowed"] and not said[3].get("repeated")


@test
def what_is_held_in_a_day_of_23_hours_comes_back_in_that_day_alone():
    # Berlin, 29 March 2026: the day has 23 hours. 2026-03-28T23:00Z to 2026-03-29T22:00Z.
    rules = [{"name": "r", "algorithm": "calendar", "limit": 10, "period": "day",
              "zone": "Europe/Berlin"}]
    begin, end = 1_774_738_800_000, 1_774_738_800_000 + 23 * 3_600_000
    said = play(db, "short day", rules, [
        reserve(end - 1000, "one", 6), reserve(end - 999, "two", 2), settle(end - 1, "two", 0),
        settle(end, "one", 0), peek(end)])
    assert said[0]["rules"] == [[True, 4, 0, 1000]] and begin < end
    assert said[2]["rules"] == [[4, 1]]
    assert said[3]["rules"] == [[10, 86_400_000]] and said[4]["rules"][0][1] == 10


# ---- many at once ------------------------------------------------------------------------------------

@test
def the_same_id_from_8_sessions_is_charged_once():
    for algorithm, limit in ((1, 1000), (2, 40), (4, 40), (6, 40)):
        what, count = f"same {algorithm} ", 60
        window = 0 if algorithm == 6 else 1_000_000_000_000 // 40
        errors = together(8, f"CALL test.same('{what}', {count}, {algorithm}, {limit}, {window});")
        assert not errors, errors[0]
        first = db.rows("SELECT count(*), count(DISTINCT id) FROM test.answers WHERE allowed AND NOT "
                        f"repeated AND id IN (SELECT test.key('{what}' || i) FROM "
                        f"generate_series(1, {count}) i)")[0]
        assert first == [str(min(count, limit))] * 2, (algorithm, first)
        held = db.value(f"SELECT sum(amount) FROM weir.holds WHERE key = test.key('{what}')")
        assert int(held) == min(count, limit)


def most_at_once():
    return int(db.value("""
        SELECT max(held) FROM (
            SELECT sum(step) OVER (ORDER BY ms, step) AS held FROM (
                SELECT at AS ms, 1 AS step FROM test.slots WHERE until > at
                 UNION ALL SELECT until, -1 FROM test.slots WHERE until > at) AS events) AS sums"""))


@test
def sessions_that_are_terminated_never_hold_more_slots_than_there_are():
    stop = threading.Event()

    def terminate():
        while not stop.wait(0.05):
            db.psql("SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE "
                    "query LIKE 'CALL test.work%' ORDER BY random() LIMIT 1) AS a")

    ending = threading.Thread(target=terminate)
    ending.start()
    try:
        terminated = 0
        for _ in range(max(1, 3 * SCALE // 100)):
            errors = together(64, "CALL test.work(20, 7);")
            wrong = [e for e in errors if "ERROR:" in str(e)]
            assert not wrong, wrong[0]
            terminated += len(errors)
    finally:
        stop.set()
        ending.join(PATIENCE)
    assert terminated > 0 and int(db.value("SELECT count(*) FROM test.slots")) > 50
    assert most_at_once() == 7, most_at_once()


@test
def reservations_checks_and_upkeep_never_wait_in_a_circle():
    before = db.value(DEADLOCKS)
    errors = together(6, f"CALL test.mix({max(20, 60 * SCALE // 100)});")
    assert not errors, errors[0]
    assert db.value(DEADLOCKS) == before


@test
def a_commit_waits_for_a_transaction_that_settles_the_same():
    db.psql("SELECT test.reserve(test.key('twice'), '{twice}', 1, 10, 3600000, 60000)")
    errors = together(8, "SELECT test.settle(test.key('twice'), 3);")
    assert not errors
    assert db.value("SELECT used FROM weir.states WHERE key = test.key('twice')") == "3"


# ---- upkeep ------------------------------------------------------------------------------------------

def age(what, ms):
    """As if this reservation had been made so long ago."""
    db.psql(f"UPDATE weir.holds SET expires = expires - {ms} WHERE reservation = test.key('{what}'); "
            f"UPDATE weir.reservations SET expires = expires - {ms}, due = due - {ms} "
            f"WHERE id = test.key('{what}'); "
            f"UPDATE weir.states SET at = at - {ms} WHERE key = test.key('{what}')")


@test
def upkeep_removes_records_that_are_not_known_and_their_holds():
    for algorithm, window in ((1, 3_600_000), (4, 36_000_000), (6, 0)):
        for what in ("gone", "kept"):
            db.psql(f"SELECT test.reserve(test.key('{what}'), '{{{what}}}', {algorithm}, 10, {window}, "
                    "60000)")
        age("gone", 60_000 + 600_000 + 60_000)
        age("kept", 60_000 + 600_000 + 50_000)
        db.psql("SELECT weir.tidy()")
        assert db.value("SELECT count(*) FROM weir.holds WHERE key = test.key('gone')") == "0"
        assert db.value("SELECT count(*) FROM weir.reservations WHERE id = test.key('gone')") == "0"
        assert db.value("SELECT count(*) FROM weir.holds WHERE key = test.key('kept')") == "1"
        if algorithm == 4:  # it knows of the hold that has expired
            known = db.rows("SELECT other, oldest, locked_until FROM weir.states "
                            "WHERE key = test.key('gone')")[0]
            assert known == [str(window), "0", "0"], known
        if algorithm == 6:
            assert db.value("SELECT used FROM weir.states WHERE key = test.key('gone')") == "0"
        db.psql("DELETE FROM weir.states; DELETE FROM weir.holds; DELETE FROM weir.reservations")


@test
def a_secret_that_is_replaced_takes_reservations_with_it():
    db.psql("SELECT test.reserve(test.key('old'), '{old}', 4, 10, 1000, 60000); "
            "SELECT weir.replace_secret(sha256('another'))")
    assert db.value("SELECT count(*) FROM weir.reservations") == "0"
    assert db.value("SELECT count(*) FROM weir.holds") == "0"


# ---- by SQL callers ----------------------------------------------------------------------------------

POLICIES = {"llm": {"rules": [
    {"name": "running", "algorithm": "concurrency", "limit": 2, "window_ms": 0, "by": ["user"]},
    {"name": "tokens", "algorithm": "token_bucket", "limit": 100, "window_ms": 86_400_000,
     "counts": "tokens", "by": ["user"]},
    {"name": "month", "algorithm": "fixed_window", "limit": 1000, "window_ms": 1, "period": "month",
     "zone": "Europe/Berlin", "counts": "tokens", "by": ["user"],
     "shadow_limit": {"limit": 10, "period": "month", "zone": "Europe/Berlin", "window_ms": 1}}]},
    "plain": {"rules": [{"name": "default", "algorithm": "fixed_window", "limit": 5,
                         "window_ms": 1_000_000_000_000, "by": ["user"]}],
              "exempt": [{"user": ["cron"]}]},
    "brief": {"rules": [{"name": "default", "algorithm": "fixed_window", "limit": 5,
                         "window_ms": 1_000_000_000_000, "by": ["user"]}],
              "reserve": {"ttl_ms": 200_000, "max_ttl_ms": 300_000}},
    **{name: {"rules": [{"name": "default", "algorithm": algorithm, "limit": 10,
                         "window_ms": 100_000_000, "by": ["user"]}],
              "reserve": {"on_expiry": "release"}}
       for name, algorithm in (("tokens", "token_bucket"), ("window", "sliding_window"))}}


def call(text, role="caller"):
    return json.loads(db.value(f"SELECT row_to_json(a) FROM weir.{text} AS a", role=role))


def refused(text, code, words, role="caller"):
    try:
        call(text, role)
    except SqlError as error:
        assert error.code == code and words in str(error), error
        return
    raise AssertionError(f"{text} was not refused")


def rests(answer):
    return [rule["remaining"] for rule in answer["rules"]]


@test
def a_caller_reserves_grows_extends_and_commits():
    made = call("""reserve('llm', '{"user": "ann"}', '{"tokens": 30}', 60000, 'a')""")
    assert made["allowed"] and made["reservation"] == "a" and made["expires_in_ms"] == 60_000
    assert rests(made) == [1, 70, 970] and made["rules"][2]["shadow_denied"]
    again = call("""reserve('llm', '{"user": "ann"}', '{"tokens": 30}', 60000, 'a')""")
    assert again["repeated"] and rests(again) == [1, 70, 970]
    assert rests(call("""grow('a', '{"tokens": 5}')""")) == [1, 65, 965]
    assert call("extend('a', 80000)")["expires_in_ms"] == 80_000
    done = call("""commit('a', '{"tokens": 12}')""")
    assert rests(done) == [2, 88, 988] and done["over"] == 0 and not done["expired"]
    assert call("""commit('a', '{"tokens": 12}')""")["repeated"]
    beyond = call("""reserve('llm', '{"user": "ann"}', '{"tokens": 80}', 60000)""")["reservation"]
    assert call(f"""commit('{beyond}', '{{"tokens": 100}}')""")["over"] == 12


@test
def a_slot_is_held_by_two_and_not_by_three():
    ids = [call("""reserve('llm', '{"user": "bo"}', NULL, 60000)""")["reservation"]
           for _ in range(3)]
    assert all(ids[:2]) and ids[2] is None
    denied = call("""reserve('llm', '{"user": "bo"}', NULL, 60000)""")
    assert not denied["allowed"] and denied["rule"] == "running"
    assert 50_000 < denied["retry_after_ms"] <= 60_000
    assert call(f"release('{ids[0]}')")["remaining"] == 1
    assert call("""reserve('llm', '{"user": "bo"}', NULL, 60000)""")["allowed"]


@test
def a_denial_for_want_of_a_slot_writes_nothing():
    for i in range(2):
        call(f"""reserve('llm', '{{"user": "cy"}}', NULL, 60000, 'cy-{i}')""")
    before = db.rows("SELECT key, xmin, xmax FROM weir.states ORDER BY 1")
    denied = "BEGIN READ ONLY; SELECT allowed FROM weir.reserve('llm', '{\"user\": \"cy\"}', NULL, " \
             "60000); COMMIT"
    assert db.value(denied, role="caller") == "f"
    assert db.rows("SELECT key, xmin, xmax FROM weir.states ORDER BY 1") == before
    again = call("""reserve('llm', '{"user": "cy"}', NULL, 60000, 'cy-0')""")
    assert again["repeated"] and again["allowed"]


@test
def a_check_with_an_id_is_counted_once():
    for _ in range(3):
        said = call("""check_once('q', 'plain', '{"user": "ann"}', p_cost => 2)""")
        assert said["allowed"] and said["remaining"] == 3
    assert said["repeated"] and call("""peek('plain', '{"user": "ann"}')""")["remaining"] == 3
    assert not call("""check_once('r', 'plain', '{"user": "ann"}', p_cost => 4)""")["allowed"]


@test
def what_is_exempt_holds_nothing_and_is_settled_all_the_same():
    said = call("""reserve('plain', '{"user": "cron"}', NULL, 1000)""")
    assert said["allowed"] and said["reservation"] is None and said["source"] == "exempt"
    assert call("commit(NULL)")["allowed"]


@test
def bad_input_is_refused_with_words():
    call("""reserve('plain', '{"user": "eve"}', NULL, 60000, 'used')""")
    call("""reserve('plain', '{"user": "eve"}', NULL, 60000, 'open')""")
    call("release('used')")
    refused("""reserve('plain', '{"user": "eve"}', '{"requests": 2}', 60000, 'used')""", "WR422",
            "another question")
    refused("commit('used', p_cost => 1)", "WR409", "settled already")
    refused("grow('used', p_cost => 1)", "WR409", "settled")
    refused("commit('unknown')", "WR404", "no such reservation")
    refused("""commit('open', '{"tokens": 1}')""", "22023", "does not count")
    refused("""commit('open', '{"requests": -1}')""", "22023", "from 0 to 2^53")
    refused("""commit('open', '[1]')""", "22023", "object")
    refused("commit('no spaces')", "22023", "1 to 64 of a-z")
    refused(f"commit('{'x' * 65}')", "22023", "1 to 64 of a-z")
    refused("""reserve('plain', '{"user": "eve"}')""", "22023", "p_ttl_ms")
    refused("""reserve('plain', '{"user": "eve"}', NULL, 0)""", "22023", "p_ttl_ms")
    refused("""reserve('plain', '{"user": "eve"}', NULL, 86400001)""", "22023", "p_ttl_ms")
    refused("""reserve('nothing', '{"user": "eve"}', NULL, 1000)""", "42704", "no policy")
    refused("""reserve('llm', '{"user": "eve"}', '{"rows": 1}', 1000)""", "22023", "tokens")
    refused("extend('open', NULL)", "22023", "p_ttl_ms")
    refused("""check_once(NULL, 'plain', '{"user": "eve"}')""", "22023", "p_id")
    for verb in ("check", "charge", "refund"):
        refused(f"""{verb}('llm', '{{"user": "eve"}}')""", "22023", "needs a reservation")
    assert call("""peek('llm', '{"user": "eve"}')""")["allowed"]


@test
def a_reservation_that_has_expired_cannot_grow_and_its_commit_says_so():
    call("""reserve('plain', '{"user": "old"}', '{"requests": 3}', 1, 'brief')""")
    while db.value(CLOCK) <= db.value("SELECT max(expires) FROM weir.reservations WHERE most_ttl > 0 "
                                      "AND id = weir.reservation_key('brief')"):
        pass
    refused("grow('brief')", "WR410", "expired")
    refused("extend('brief', 1000)", "WR410", "expired")
    late = call("release('brief')")
    assert late["expired"] and late["remaining"] == 2


@test
def a_policy_says_how_long_it_is_held():
    said = call("""reserve('brief', '{"user": "ann"}', NULL, NULL, 'held')""")
    assert said["allowed"] and said["expires_in_ms"] == 200_000
    refused("extend('held', 300001)", "22023", "longer than this reservation may have")
    assert call("extend('held', 300000)")["expires_in_ms"] > 200_000
    refused("""reserve('brief', '{"user": "ann"}', NULL, 300001)""", "22023", "from 1 to 300000 here")
    refused("""reserve('plain', '{"user": "ann"}')""", "22023", "policy 'plain' has no")
    assert call("""check_once('at-once', 'brief', '{"user": "ann"}')""")["allowed"]


@test
def what_expires_is_given_back_if_its_policy_says_so():
    for what in ("tokens", "window"):
        user = f'{{"user": "{what}"}}'
        call(f"reserve('{what}', '{user}', NULL, 1, '{what}-1', p_cost => 8)")
        call(f"reserve('{what}', '{user}', NULL, 60000, '{what}-2', p_cost => 1)")
        expires = db.value("SELECT expires FROM weir.reservations WHERE id = "
                           f"weir.reservation_key('{what}-1')")
        while db.value(CLOCK) <= expires:
            pass
        assert call(f"peek('{what}', '{user}')")["remaining"] == 1
        assert not call(f"check('{what}', '{user}', p_cost => 2)")["allowed"]
        db.psql("SELECT weir.tidy()", role="server")
        assert call(f"peek('{what}', '{user}')")["remaining"] == 9, what
        late = call(f"commit('{what}-1', p_cost => 3)")
        assert late["expired"] and late["remaining"] == 6, late
        assert call(f"release('{what}-2')")["remaining"] == 7
        # A settlement that comes before upkeep gives back what was not used, and no more.
        call(f"reserve('{what}', '{user}', NULL, 1, '{what}-3', p_cost => 4)")
        expires = db.value("SELECT expires FROM weir.reservations WHERE id = "
                           f"weir.reservation_key('{what}-3')")
        while db.value(CLOCK) <= expires:
            pass
        assert call(f"commit('{what}-3', p_cost => 1)")["remaining"] == 6
        db.psql("SELECT weir.tidy()", role="server")
        assert call(f"peek('{what}', '{user}')")["remaining"] == 6
    assert db.value("SELECT count(*) FROM weir.releases") == "0"


@test
def only_callers_reserve_and_only_servers_judge():
    refused("""reserve('plain', '{"user": "x"}', NULL, 1000)""", "42501", "permission", "stranger")
    nulls = ", ".join(["'{}'"] * 25)
    for role, may in (("caller", False), ("server", True)):
        try:
            db.psql(f"SELECT weir.judge_reservations({nulls})", role=role)
            assert may
        except SqlError as error:
            assert not may and error.code == "42501", error
    for table in ("reservations", "holds", "releases"):
        for role in ("caller", "server"):
            try:
                db.psql(f"SELECT * FROM weir.{table}", role=role)
                raise AssertionError(f"{role} may read {table}")
            except SqlError as error:
                assert error.code == "42501", error



with Postgres(fsync="off", max_connections=100) as db:
    db.migrate()
    db.psql(HELPERS)
    db.psql("CREATE ROLE stranger LOGIN; CREATE ROLE caller LOGIN; CREATE ROLE server LOGIN; "
            "GRANT weir_caller TO caller; GRANT weir_server TO server")
    db.psql(f"SELECT weir.push_policies('{json.dumps(POLICIES)}')")
    run()
