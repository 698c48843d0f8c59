#!/usr/bin/env python3
"""test_held_postgres.py - reservations of servers that share a Postgres: killed servers, slots, a
pooler, SQL callers, and what was really used.

    test_held_postgres.py TREE      from the root of the source
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, "tests/support")
import held  # noqa: E402
from pgbouncer import Pgbouncer  # noqa: E402
from postgres import SqlError  # noqa: E402
from postgres_fixture import PATIENT, Fixture, close_cluster  # noqa: E402
from weir_server import TREE, run, test, wait_until  # noqa: E402

# How many slots are held at the time of the decision, whenever one is taken or extended. The row of
# the key is locked meanwhile.
WATCH = """
CREATE SCHEMA test;
CREATE TABLE test.seen (held bigint, is_new boolean);
CREATE FUNCTION test.watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO test.seen
    SELECT count(*), TG_OP = 'INSERT' FROM weir.holds h
     WHERE h.key = NEW.key AND h.expires > (SELECT s.at FROM weir.states s WHERE s.key = NEW.key);
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE ON weir.holds FOR EACH ROW EXECUTE FUNCTION test.watch();
"""
JOBS = """
version: 1
policies:
  jobs:
    by: user
    rules:
      running: {limit: 2 at once}
      units: {limit: 100 per 1d, algorithm: token_bucket}
      month: {limit: 1000 per month, zone: Europe/Berlin}
"""


def watch(fixture):
    fixture.sql(WATCH)

    def end():
        return [int(n) for n in fixture.db.rows(
            "SELECT count(*) FILTER (WHERE is_new), max(held) FROM test.seen",
            database=fixture.name)[0]]
    return end


@test
def every_trace_of_budgets_holds_in_postgres():
    with Fixture() as fixture:
        done = subprocess.run([TREE / "tests/conform_budgets"], capture_output=True, text=True,
                              check=False, env={**os.environ, "WEIR_TEST_STORE": fixture.url})
        assert done.returncode == 0, done.stdout + done.stderr


@test
def a_lost_answer_is_charged_once():
    with Fixture() as fixture:
        held.a_lost_answer_is_charged_once(fixture)


@test
def what_expires_is_given_back():
    with Fixture() as fixture:
        held.given_back_when_it_expires(fixture)


@test
def gauges_tell_what_is_held():
    with Fixture() as fixture:
        held.gauges_tell_what_is_held(fixture, lambda: fixture.sql(
            "ALTER FUNCTION weir.held_charges(integer) RENAME TO gone"))


@test
def never_more_than_seven_at_once():
    with Fixture() as fixture:
        held.never_more_than_seven_at_once(fixture, lambda: watch(fixture))


@test
def what_was_used_would_have_been_admitted():
    with Fixture() as fixture:
        held.what_was_used_would_have_been_admitted(fixture)


def ask(server, verb, **body):
    status, _, answer = server.http("POST", f"/v1/{verb}", body)
    assert status == 200, (verb, body, answer)
    return answer


def rests(answer):
    return [rule["remaining"] for rule in answer.get("rules", [answer])]


@test
def servers_and_sql_callers_settle_what_the_others_have_reserved():
    with Fixture() as fixture:
        fixture.config.write_text(JOBS)
        one, other = fixture.serve(), fixture.serve()
        made = ask(one, "reserve", policy="jobs", key="ann", cost=2, ttl_ms=60_000)
        assert rests(made) == [0, 98, 998], made
        assert rests(ask(other, "commit", reservation=made["reservation"], cost=1)) == [2, 99, 999]
        made = ask(one, "reserve", policy="jobs", key="ann", cost=1, ttl_ms=60_000)
        said = json.loads(fixture.value(
            f"SELECT row_to_json(a) FROM weir.release('{made['reservation']}') AS a"))
        assert rests(said) == [2, 99, 999], said
        again = ask(other, "release", reservation=made["reservation"])
        assert again["repeated"] and rests(again) == [2, 99, 999]
        fixture.sql("SELECT weir.push_policies('" + json.dumps({"jobs": {"rules": [
            {"name": "running", "algorithm": "concurrency", "limit": 2, "window_ms": 0,
             "by": ["user"]}]}}) + "')")
        by_sql = fixture.value("SELECT reservation FROM weir.reserve('jobs', '{\"user\": \"ann\"}', "
                               "NULL, 60000)")
        assert rests(ask(one, "peek", policy="jobs", key="ann"))[0] == 1
        assert rests(ask(one, "extend", reservation=by_sql, ttl_ms=70_000)) == [1]
        assert rests(ask(one, "release", reservation=by_sql)) == [2]
        # The same question by the other way is another one: it is not repeated, and charges nothing.
        question = {"policy": "jobs", "key": "ann", "cost": 1, "ttl_ms": 60_000, "id": "mine"}
        assert ask(other, "reserve", **question)["allowed"]
        try:
            fixture.sql("SELECT weir.reserve('jobs', p_key => 'ann', p_cost => 1, p_ttl_ms => 60000, "
                        "p_id => 'mine')")
            raise AssertionError("it was taken for the same question")
        except SqlError as error:
            assert error.code == "WR422", error
        assert ask(one, "reserve", **question)["repeated"]
        assert rests(ask(one, "peek", policy="jobs", key="ann"))[0] == 1


@test
def what_is_given_back_is_no_longer_denied_by_others_from_memory():
    with Fixture() as fixture:
        fixture.config.write_text("version: 1\npolicies: {few: {limit: 5 per 1d, by: user}}\n")
        one, other = fixture.serve(), fixture.serve()
        made = ask(one, "reserve", policy="few", key="ann", cost=5, ttl_ms=600_000)
        wait_until(lambda: ask(other, "check", policy="few", key="ann")["source"] == "cache",
                   "the denial to be remembered")
        ask(one, "commit", reservation=made["reservation"], cost=4)
        wait_until(lambda: ask(other, "check", policy="few", key="ann")["allowed"],
                   "the denial to be forgotten")


@test
def many_in_one_request_are_answered_in_order():
    with Fixture() as fixture:
        fixture.config.write_text(JOBS)
        server = fixture.serve()
        several = [{"policy": "jobs", "key": "ann", "cost": 1, "ttl_ms": 60_000, "id": f"i{i}"}
                   for i in range(4)]
        said = ask(server, "reserve", **{"checks": several})["answers"]
        assert [a["allowed"] for a in said] == [True, True, False, False], said


@test
def a_pooler_of_transactions_changes_nothing():
    with Fixture() as fixture, Pgbouncer(fixture.db, default_pool_size=2) as pooler:
        fixture.config.write_text(JOBS)
        url = f"{pooler.url_of(fixture.name, 'limiter')}?{PATIENT}"
        servers = [fixture.serve(store=url) for _ in range(2)]
        for i in range(20):
            made = ask(servers[i % 2], "reserve", policy="jobs", key="ann", cost=2, ttl_ms=60_000,
                       id=f"p{i}")
            assert made["source"] == "store" and made["allowed"], made
            again = ask(servers[1 - i % 2], "reserve", policy="jobs", key="ann", cost=2,
                        ttl_ms=60_000, id=f"p{i}")
            assert again["repeated"], again
            done = ask(servers[1 - i % 2], "commit", reservation=f"p{i}", cost=0)
            assert rests(done) == [2, 100, 1000], done


@test
def a_commit_while_the_database_is_away_waits_for_it():
    with Fixture() as fixture:
        fixture.config.write_text(JOBS)
        server = fixture.serve()
        made = ask(server, "reserve", policy="jobs", key="ann", cost=2, ttl_ms=600_000, id="one")
        assert made["source"] == "store", made
        fixture.db.stop()
        try:
            away = ask(server, "reserve", policy="jobs", key="ann", cost=1, ttl_ms=600_000)
            assert away["source"] == "fallback" and away["reservation"].startswith("local."), away
            assert ask(server, "release", reservation=away["reservation"])["source"] == "fallback"
            assert ask(server, "commit", reservation="one", cost=0)["source"] == "fallback"
        finally:
            fixture.db.start()
        wait_until(lambda: ask(server, "peek", policy="jobs", key="ann")["source"] == "store",
                   "the database")
        wait_until(lambda: rests(ask(server, "peek", policy="jobs", key="ann")) == [2, 100, 1000],
                   "the commit that waited")
        assert ask(server, "commit", reservation="one", cost=0)["repeated"]


try:
    run()
finally:
    close_cluster()
