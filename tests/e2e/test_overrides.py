#!/usr/bin/env python3
"""test_overrides.py - what one instance is told holds on all that share its store, within a second.

    test_overrides.py TREE      from the root of the source
"""
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, "tests/support")
from postgres import Postgres, SqlError  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import WEIR, Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  login: {limit: 2 per 1h, by: ip}
  query: {limit: 1 per 1d, by: tenant, plans: {paid: 5 per 1d}}
"""
WITHIN = 1.0    # seconds, as is promised
database = None


def postgres_url():
    """A database with the schema in a cluster that all tests share."""
    global database
    if not database:
        database = Postgres(fsync="off", max_connections=60)
    name = f"overrides{time.monotonic_ns()}"
    database.psql(f"CREATE DATABASE {name}")
    url = database.url_of(name)
    subprocess.run([WEIR, "migrate", url], check=True, capture_output=True, timeout=60)
    return url


class Fixture:
    """Three instances that share a store."""

    def __init__(self, kind):
        self.redis = Redis() if kind == "redis" else None
        self.url = (f"{self.redis.url}?" if self.redis else f"{postgres_url()}?") + "deadline=20s"
        self.folder = Folder()
        self.config = self.folder.path / "policies.yaml"
        self.config.write_text(POLICIES)
        self.servers = [self.start() for _ in range(3)]

    def start(self):
        return Server(config=self.config, store=self.url, threads=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.__exit__()
        self.folder.__exit__()
        if self.redis:
            self.redis.__exit__()

    def call(self, number, method, path, body=None, status=200):
        found, _, answer = self.servers[number].http(method, path, body)
        assert found == status, (method, path, found, answer)
        return answer

    def changes(self, number):
        """The audit log, without the starts of the instances."""
        return [e for e in self.call(number, "GET", "/v1/audit?n=1000")["entries"] if e["kind"] != "reload"]

    def everywhere(self, since, what, condition):
        """It is so on all of them, soon after. Returns after how many seconds."""
        for server in self.servers:
            wait_until(lambda: condition(server), what)
        took = time.monotonic() - since
        assert took < WITHIN, f"{what} took {took:.3f} s"
        return took


KINDS = "postgres", "redis"


def names_that_requests_bring_are_overruled_as_policies_are(kind):
    def ask(server, name="sign-in", key="ann"):
        return server.http("POST", "/v1/check", {"name": name, "key": key, "limit": 2,
                                                 "window_ms": 3600_000})[2]

    with Fixture(kind) as h:
        assert [ask(server)["allowed"] for server in h.servers] == [True, True, False]
        assert ask(h.servers[0], "upload")["remaining"] == 1
        h.call(0, "PUT", "/v1/overrides", {"policy": "sign-in", "key": "ann", "limit": 50})
        h.everywhere(time.monotonic(), "another limit", lambda s: ask(s)["limit"] == 50)
        # the other server was not asked for it, and the name might be a policy's, mistyped
        h.call(1, "PUT", "/v1/overrides", {"policy": "sign-up", "key": "ann", "limit": 9}, 404)
        h.call(1, "PUT", "/v1/overrides",
               {"policy": "sign-up", "key": "ann", "limit": 9, "named": True})
        h.everywhere(time.monotonic(), "one set ahead", lambda s: ask(s, "sign-up")["limit"] == 9)
        h.call(2, "POST", "/v1/policies/upload/mode", {"mode": "shadow", "named": True})
        h.everywhere(time.monotonic(), "a mode",
                     lambda s: ask(s, "upload")["shadow"] or ask(s, "upload")["shadow"])
        h.call(1, "DELETE", "/v1/overrides", {"policy": "sign-in", "key": "ann"})
        h.everywhere(time.monotonic(), "its end", lambda s: ask(s)["limit"] == 2)


def changes_reach_three_instances(kind):
    took = []
    with Fixture(kind) as h:
        for number in range(3):
            key = f"203.0.113.{number}"
            who = {"who": f"operator {number}", "reason": "a test"}
            for server in h.servers:  # both of its two, and refusals that may be remembered
                server.check("login", key)
            assert [server.check("login", key)["allowed"] for server in h.servers] == [False] * 3
            began = time.monotonic()
            made = h.call(number, "PUT", "/v1/overrides",
                          {"policy": "login", "key": key, "limit": 50, **who})
            took.append(h.everywhere(began, "another limit",
                                     lambda s, k=key: s.check("login", k)["allowed"]))
            began = time.monotonic()
            h.call(number, "PUT", "/v1/overrides",
                   {"policy": "login", "key": key, "effect": "block", **who})
            took.append(h.everywhere(began, "a block",
                                     lambda s, k=key: s.check("login", k)["source"] == "blocked"))
            began = time.monotonic()
            h.call(number, "DELETE", "/v1/overrides", {"policy": "login", "key": key, **who})
            took.append(h.everywhere(began, "its end",
                                     lambda s, k=key: s.check("login", k)["source"] != "blocked"))
            began = time.monotonic()
            mode = h.call(number, "POST", "/v1/policies/login/mode", {"mode": "off", **who})
            took.append(h.everywhere(began, "a mode",
                                     lambda s, k=key: s.check("login", k)["source"] == "off"))
            began = time.monotonic()
            h.call((number + 1) % 3, "POST", "/v1/undo", {"id": mode["id"], **who})
            took.append(h.everywhere(began, "an undo",
                                     lambda s, k=key: s.check("login", k)["source"] != "off"))
            began = time.monotonic()
            h.call(number, "PUT", "/v1/plans",
                   {"attributes": {"tenant": f"t{number}"}, "plan": "paid", **who})
            took.append(h.everywhere(
                began, "a plan", lambda s, n=number: s.check("query", f"t{n}")["limit"] == 5))
            assert made["who"] == f"operator {number}"
        print(f"# {kind}: at most {max(took):.3f} s, {sorted(took)[len(took) // 2]:.3f} s in the middle")

        for server in h.servers:
            server.kill()
        h.servers = [h.start() for _ in range(3)]
        logs = [h.changes(n) for n in range(3)]
        assert logs[0] == logs[1] == logs[2] and [e["id"] for e in logs[0]] == list(range(2, 20))
        assert {e["who"] for e in logs[0]} == {f"operator {n}" for n in range(3)}
        assert [s.check("query", "t1")["limit"] for s in h.servers] == [5] * 3
        assert len(h.call(2, "GET", "/v1/plans")["plans"]) == 3


def changes_at_once_are_all_kept_and_in_one_order(kind):
    with Fixture(kind) as h:
        problems = []

        def work(number):
            try:
                for i in range(10):
                    h.call(number, "PUT", "/v1/overrides", {
                        "policy": "login", "key": f"198.51.100.{i}", "limit": 100 * number + i})
            except Exception as problem:  # pylint: disable=broad-except
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems, problems
        entries = h.changes(0)
        assert [e["id"] for e in entries] == list(range(2, 32))
        last = {}
        for entry in entries:
            last[entry["tag"]] = entry["limit"]
        for n in range(3):
            wait_until(lambda: h.call(n, "GET", "/v1/stats")["ledger"]["last_id"] == 31, "all of them")
            listed = h.call(n, "GET", "/v1/overrides")["overrides"]
            assert {o["tag"]: o["limit"] for o in listed} == last


@test
def an_override_on_one_instance_holds_on_three_within_a_second_and_after_kill_9():
    for kind in KINDS:
        changes_reach_three_instances(kind)


def corrections_are_made_once_and_known_to_all(kind):
    with Fixture(kind) as h:
        key = {"policy": "login", "key": "203.0.113.7"}
        block = h.call(0, "PUT", "/v1/overrides", {"policy": "query", "key": "t0", "limit": 9})
        for server in h.servers:
            server.check("login", "203.0.113.7")
        assert not h.servers[0].check("login", "203.0.113.7")["allowed"]
        made, = h.call(1, "POST", "/v1/corrections", {**key, "effect": "reset", "who": "ann", "reason": "a test"})["entries"]
        wait_until(lambda: h.servers[2].check("login", "203.0.113.7")["allowed"], "the reset")
        h.call(2, "POST", "/v1/corrections", {**key, "effect": "charge", "cost": 2})
        for server in h.servers:
            assert not server.check("login", "203.0.113.7")["allowed"]
        for number in range(3):
            entries = h.changes(number)
            assert [(e["kind"], e["effect"], e.get("cost")) for e in entries] == [
                ("override", "limit", None), ("correction", "reset", None), ("correction", "charge", 2)], entries
            assert entries[1] == made and made["who"] == "ann", entries
            assert h.servers[number].check("query", "t0")["limit"] == 9  # what is in force stays
            assert [o["id"] for o in h.call(number, "GET", "/v1/overrides")["overrides"]] == [block["id"]]


@test
def a_correction_on_one_instance_is_in_the_audit_log_of_all():
    for kind in KINDS:
        corrections_are_made_once_and_known_to_all(kind)


def reloads_are_known_to_all(kind):
    with Fixture(kind) as h:
        h.config.write_text(POLICIES.replace("1h", "2h"))
        for server in h.servers:
            server.wait_for("reloaded")
        wait_until(lambda: len(h.call(0, "GET", "/v1/audit")["entries"]) == 4, "all reloads")
        entries = h.call(0, "GET", "/v1/audit")["entries"][1:]
        assert {e["instance"].split(":")[-1] for e in entries} == {str(s.port) for s in h.servers}, entries
        assert {(e["effect"], e["who"]) for e in entries} == {("loaded", "the policy file has changed")}, entries
        assert all("changed login" in e["reason"] for e in entries), entries
        h.servers[0].kill()
        h.servers[0] = h.start()  # with the same
        assert len(h.call(0, "GET", "/v1/audit")["entries"]) == 4


@test
def a_reload_of_each_instance_is_in_the_audit_log_of_all():
    for kind in KINDS:
        reloads_are_known_to_all(kind)


@test
def a_reload_is_in_the_view_of_the_database_and_never_in_force():
    with Fixture("postgres") as h:
        name = h.url.split("?")[0].rsplit("/", 1)[1]
        row = database.psql("SELECT concat_ws('/', kind, effect, who, tag, \"by\") FROM weir.audit", database=name)
        assert row.split("\n")[0] == "reload/loaded/start of the server", row
        found = database.psql("SELECT count(*) FROM weir.in_force()", database=name)
        assert found.split() == ["0"], found


@test
def a_reload_while_the_store_is_away_is_written_when_it_is_back():
    with Fixture("redis") as h:
        h.redis.kill()
        wait_until(lambda: all(s.http("GET", "/readyz")[2]["ledger_stale"] for s in h.servers), "staleness")
        h.config.write_text(POLICIES.replace("1h", "2h"))
        h.servers[0].wait_for("reloaded")
        h.servers[0].wait_for("audit")  # the log says that it is late
        h.redis.start()
        wait_until(lambda: not h.servers[0].http("GET", "/readyz")[2]["ledger_stale"], "its return")
        said = wait_until(lambda: h.call(0, "GET", "/v1/audit")["entries"], "the reload")
        assert said[-1]["kind"] == "reload" and "changed login" in said[-1]["reason"], said


@test
def a_correction_without_its_store_is_an_error_and_not_written():
    with Fixture("postgres") as h:
        key = {"policy": "login", "key": "203.0.113.7"}
        h.servers[0].check("login", "203.0.113.7")
        database.stop()
        try:
            wait_until(lambda: h.servers[0].http("GET", "/readyz")[2]["ledger_stale"], "staleness")
            h.call(0, "POST", "/v1/corrections", {**key, "effect": "reset"}, status=503)
        finally:
            database.start()
        wait_until(lambda: not h.servers[0].http("GET", "/readyz")[2]["ledger_stale"], "its return")
        assert h.changes(0) == []


@test
def a_ledger_from_before_there_were_corrections_takes_them():
    with Fixture("postgres") as h:
        name = h.url.split("?")[0].rsplit("/", 1)[1]
        database.psql("ALTER TABLE weir.ledger DROP CONSTRAINT ledger_kind_check, ADD CONSTRAINT ledger_kind_check "
                      "CHECK (kind IN ('override', 'plan', 'mode')) NOT VALID; DELETE FROM weir.migrations WHERE number = 15", database=name)
        database.psql(Path("sql/0015_corrections.sql").read_text(), database=name)
        h.call(0, "POST", "/v1/corrections", {"policy": "login", "key": "203.0.113.7", "effect": "charge", "cost": 1})
        assert "correction" in database.psql("SELECT kind FROM weir.audit", database=name)


@test
def a_named_limit_of_requests_can_be_overridden():
    for kind in KINDS:
        names_that_requests_bring_are_overruled_as_policies_are(kind)


@test
def changes_that_several_make_at_once_are_all_kept_in_one_order():
    for kind in KINDS:
        changes_at_once_are_all_kept_and_in_one_order(kind)


@test
def while_the_database_is_away_what_was_read_last_holds():
    with Fixture("postgres") as h:
        h.call(0, "PUT", "/v1/overrides", {"policy": "login", "key": "203.0.113.7", "effect": "block"})
        database.stop()
        try:
            assert h.servers[0].check("login", "203.0.113.7")["source"] == "blocked"
            wait_until(lambda: h.servers[0].http("GET", "/readyz")[2]["ledger_stale"], "staleness")
            h.call(0, "PUT", "/v1/overrides",
                   {"policy": "login", "key": "203.0.113.8", "effect": "block"}, status=503)
            assert h.call(0, "GET", "/v1/overrides")["stale"] is True
        finally:
            database.start()
        wait_until(lambda: not h.servers[0].http("GET", "/readyz")[2]["ledger_stale"], "its return")
        h.call(0, "PUT", "/v1/overrides", {"policy": "login", "key": "203.0.113.8", "effect": "block"})
        assert len(h.changes(0)) == 2


@test
def the_ledger_in_the_database_is_append_only():
    with Fixture("postgres") as h:
        h.call(0, "PUT", "/v1/overrides", {"policy": "login", "key": "203.0.113.7", "effect": "block",
                                           "who": "ann"})
        name = h.url.split("?")[0].rsplit("/", 1)[1]
        for statement in ("UPDATE weir.ledger SET who = 'bob'", "DELETE FROM weir.ledger",
                          "TRUNCATE weir.ledger"):
            try:
                database.psql(statement, database=name)
            except SqlError as refused:
                assert "append-only" in str(refused), refused
            else:
                raise AssertionError(statement)
        assert "ann" in database.psql("SELECT who FROM weir.audit", database=name)


try:
    run()
finally:
    if database:
        database.__exit__()
