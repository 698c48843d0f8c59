#!/usr/bin/env python3
"""test_history.py - what was decided over time: told by the server and by the tool, and kept.

    test_history.py TREE      from the root of the source
"""
import itertools
import json
import os
import pty
import subprocess
import sys
import time

sys.path.insert(0, "tests/support")
from postgres import Postgres  # noqa: E402
from redis import Cluster, Redis  # noqa: E402
from weir_server import PATIENCE, WEIR, Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  login: {limit: 2 per 15m, by: ip}
  try:   {limit: 1 per 15m, by: ip, mode: shadow}
  local: {limit: 1000 per 15m, by: ip, on_error: allow}
  many:
    rules:
      all: {limit: 100 per 15m}
      ip: {limit: 1 per 15m, by: ip}
      trial: {limit: 1 per 15m, by: ip, mode: shadow}
"""


def serve(folder, store=None, **more):
    (folder / "policies.yaml").write_text(POLICIES)
    return Server(config=folder / "policies.yaml", store=store or f"file:{folder}/data", threads=2,
                  **more)


def sums(server, query="since=1h"):
    """{policy: [allowed, denied, shadow_denied, fallback]} of all that the server tells; charges
    behind them, if there are some."""
    status, _, body = server.http("GET", f"/v1/history?{query}")
    assert status == 200, body
    assert body["columns"] == ["at_ms", "allowed", "denied", "shadow_denied", "fallback",
                               "charges"], body
    found = {}
    for series in body["rules" if "rule=" in query else "checks"]:
        total = found.setdefault(series["policy"], [0, 0, 0, 0, 0])
        for _, *counts in series["points"]:
            total[:] = [a + b for a, b in zip(total, counts, strict=True)]
    return {policy: total if total[4] else total[:4] for policy, total in found.items()}


def told(server, expected):
    wait_until(lambda: sums(server) == expected, f"a history of {expected}, not {sums(server)}")


def history(*words, tty=False):
    """What `weir history` prints, to a pipe or to a terminal."""
    command = [str(WEIR), "history", *words]
    if not tty:
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    main, other = pty.openpty()
    env = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=env) as process:
        os.close(other)
        text = b""
        try:
            while piece := os.read(main, 65536):
                text += piece
        except OSError:  # the other end is closed
            pass
        process.wait(PATIENCE)
    os.close(main)
    return text.decode().replace("\r\n", "\n")


# ---- the file store ----------------------------------------------------------------------------


@test
def decisions_are_reported_by_policy_and_outcome():
    with Folder() as folder, serve(folder, "memory:") as server:
        for _ in range(5):
            server.check("login", "192.0.2.1")
        for _ in range(3):
            server.check("try", "192.0.2.1")
        told(server, {"login": [2, 3, 0, 0], "try": [3, 0, 2, 0]})
        assert sums(server, "policy=login") == {"login": [2, 3, 0, 0]}
        assert sums(server, "policy=login&rule=default&step=1m&since=1h") == {"login": [2, 3, 0, 0]}
        assert not sums(server, "policy=login&rule=other")
        assert not sums(server, "since=3h&until=2h")


def charge(server, times):
    for _ in range(times):
        status, _, said = server.http("POST", "/v1/charge", {"policy": "login", "key": "192.0.2.1"})
        assert status == 200, said


@test
def charges_are_told_apart_from_checks():
    with Folder() as folder:
        with serve(folder) as server:
            server.check("login", "192.0.2.1")
            charge(server, 3)
            told(server, {"login": [1, 0, 0, 0, 3]})
            assert sums(server, "rule=default") == {"login": [1, 0, 0, 0]}
            charge(server, 2)
            assert server.stop() == 0
        with serve(folder) as server:
            assert sums(server) == {"login": [1, 0, 0, 0, 5]}
            rows = history("--server", server.url, "login", "--step", "1h").stdout.splitlines()
            assert sum(int(row.split()[7]) for row in rows[1:]) == 5, rows


@test
def charges_of_servers_that_share_a_store_are_one_history():
    with Database() as db, Redis() as redis, Folder() as folder:
        for url in db.url, redis.url:
            with serve(folder, url + "?deadline=20s") as one, serve(folder, url + "?deadline=20s") as two:
                charge(one, 2)
                told(two, {"login": [0, 0, 0, 0, 2]})
                charge(two, 1)
                told(one, {"login": [0, 0, 0, 0, 3]})


@test
def a_check_denied_by_one_of_many_rules_is_reported_as_one():
    with Folder() as folder, serve(folder, "memory:") as server:
        for i in range(10):
            server.check("many", f"192.0.2.{i % 3}")
        told(server, {"many": [3, 7, 0, 0]})
        for rule, expected in (("all", [3, 0, 0, 0]), ("ip", [3, 7, 0, 0]), ("trial", [3, 0, 0, 0])):
            assert sums(server, f"rule={rule}") == {"many": expected}, rule
        stats = server.http("GET", "/v1/stats")[2]
        counted, = (c for c in stats["checks"] if c["policy"] == "many")
        assert (counted["allowed"], counted["denied"]) == (3, 7), counted
        rows = history("--server", server.url, "many", "--step", "1h", "--rules").stdout.splitlines()
        found = {row.split()[2]: row.split()[3:5] for row in rows[1:]}
        assert found == {"(check)": ["3", "7"], "all": ["3", "0"], "ip": ["3", "7"],
                         "trial": ["3", "0"]}, rows


@test
def it_is_there_after_a_restart_and_after_a_kill():
    with Folder() as folder:
        with serve(folder) as server:
            for _ in range(4):
                server.check("login", "192.0.2.1")
            assert server.stop() == 0  # what was not told yet is written now
        with serve(folder) as server:
            assert sums(server) == {"login": [2, 2, 0, 0]}
            server.check("login", "192.0.2.1")
            told(server, {"login": [2, 3, 0, 0]})
            server.kill()
        with serve(folder) as server:
            assert sums(server) == {"login": [2, 3, 0, 0]}
            assert not server.log.events("store")


@test
def a_damaged_file_is_set_aside_and_reported():
    with Folder() as folder:
        with serve(folder) as server:
            server.check("login", "192.0.2.1")
            assert server.stop() == 0
        file = folder / "data" / "history"
        data = bytearray(file.read_bytes())
        data[20] ^= 1
        file.write_bytes(data)
        with serve(folder) as server:
            assert "renamed to" in server.wait_for("store")["message"]
            assert not sums(server)
            server.check("login", "192.0.2.1")
            told(server, {"login": [1, 0, 0, 0]})
            assert (folder / "data" / "history.damaged").read_bytes() == bytes(data)


@test
def a_handover_carries_it_on():
    with Folder() as folder, serve(folder) as server:
        server.check("login", "192.0.2.1")
        server.signal(12)  # SIGUSR2
        server.wait_for("stopped")
        wait_until(lambda: len(server.log.events("ready")) == 2, "the successor")
        server.process.wait(PATIENCE)
        successor = server.log.events("handover")[0]["message"].split()[1]
        try:
            server.check("login", "192.0.2.1")
            told(server, {"login": [2, 0, 0, 0]})
        finally:
            os.kill(int(successor), 15)
            wait_until(lambda: server.log.ended, "the end of the successor")


@test
def invalid_requests_are_explained():
    with Folder() as folder, serve(folder, "memory:") as server:
        for query, why in (("since=yesterday", "how long ago"), ("step=30s", "whole minutes"),
                           ("since=1h&until=2h", "before until"), ("since=90d&step=1m", "5000 steps"),
                           ("sinc=1h", "policy, rule, since, until and step"),
                           (f"policy={'x' * 65}", "longer than any name")):
            status, _, body = server.http("GET", f"/v1/history?{query}")
            assert status == 400 and why in body["detail"], (query, body)


# ---- the tool ----------------------------------------------------------------------------------


@test
def the_tool_prints_a_table_or_draws():
    with Folder() as folder, serve(folder, "memory:") as server:
        empty = history("--server", server.url)
        assert (empty.returncode, empty.stdout) == (0, "no checks in this time\n"), empty
        for _ in range(5):
            server.check("login", "192.0.2.1")
        told(server, {"login": [2, 3, 0, 0]})
        table = history("--server", server.url, "login", "--since", "7d", "--step", "1h")
        head, *rows = table.stdout.splitlines()
        assert head.split() == ["time", "policy", "rule", "allowed", "denied", "shadow-denied",
                                "fallback", "charges"], table
        assert [row.split()[1:3] for row in rows] == [["login", "(check)"]] * len(rows), table
        assert [sum(int(row.split()[i]) for row in rows) for i in (3, 4)] == [2, 3], table
        drawn = history("--server", server.url, "login", "--since", "7d", tty=True)
        assert drawn.startswith("login\n") and "█" in drawn and "3, at most 3 in" in drawn, drawn
        assert max(len(line) for line in drawn.splitlines()) <= 80, drawn
        told_json = json.loads(history("--server", server.url, "--json").stdout)
        assert told_json["checks"][0]["policy"] == "login", told_json


@test
def the_tool_prints_error_messages():
    wrong = history("--since", "yesterday")
    assert wrong.returncode == 2 and "--since" in wrong.stderr, wrong
    assert history("a", "b").returncode == 2
    with Folder() as folder, serve(folder, "memory:") as server:
        wrong = history("--server", server.url, "--since", "90d", "--step", "1m")
        assert wrong.returncode == 2 and "longer step" in wrong.stderr, wrong


# ---- Postgres ----------------------------------------------------------------------------------


class Database:
    """One of the cluster, with the schema."""

    names = itertools.count(1)

    def __enter__(self):
        self.name = f"history{next(self.names)}"
        cluster.psql(f"CREATE DATABASE {self.name}")
        cluster.migrate(database=self.name)
        self.url = cluster.url_of(self.name)
        return self

    def __exit__(self, *_):
        pass  # it goes with the cluster

    def sql(self, text):
        return cluster.psql(text, database=self.name).strip()


@test
def servers_that_share_a_database_have_one_history():
    with Database() as db, Folder() as folder:
        url = db.url + "?deadline=20s"
        with serve(folder, url) as one, serve(folder, url) as two:
            for server in one, two, one:
                server.check("login", "192.0.2.1")
            told(one, {"login": [2, 1, 0, 0]})
            told(two, {"login": [2, 1, 0, 0]})
            assert db.sql("SELECT policy, rule, sum(allowed), sum(denied) FROM weir.history_hours "
                          "GROUP BY 1, 2 ORDER BY 2") == "login\t(check)\t2\t1\nlogin\tdefault\t2\t1"


@test
def servers_and_sql_report_denials_together():
    with Database() as db, Folder() as folder:
        url = db.url + "?deadline=20s"
        with serve(folder, url) as one, serve(folder, url) as two:
            pushed = subprocess.run([WEIR, "policy", "push", folder / "policies.yaml", db.url],
                                    capture_output=True, timeout=PATIENCE, check=False)
            assert pushed.returncode == 0, pushed
            for server, times in (one, 2 + 4), (two, 3):
                for _ in range(times):
                    server.check("login", "192.0.2.1")
            tag = one.wait_for("denied")["tag"]
            db.sql("SELECT weir.check('login', '{\"ip\": \"192.0.2.1\"}') FROM generate_series(1, 2)")
            assert one.stop() == two.stop() == 0
        db.sql("UPDATE weir.tally SET minute = minute - interval '1 minute'; SELECT weir.tidy()")
        assert db.sql("SELECT policy, rule, tag, denied FROM weir.most_denied") == (
            f"login\tdefault\t{tag}\t9")


@test
def reports_that_postgres_missed_are_sent_later():
    with Database() as db, Folder() as folder:
        with serve(folder, db.url + "?deadline=5s") as server:
            server.check("local", "192.0.2.1")
            told(server, {"local": [1, 0, 0, 0]})
            cluster.crash()
            answers = [server.check("local", "192.0.2.1") for _ in range(7)]
            assert all(answer["allowed"] for answer in answers), answers
            by_fallback = sum(answer["source"] == "fallback" for answer in answers)
            assert by_fallback > 0, answers
            assert "will retry" in server.wait_for("history")["message"]
            assert server.http("GET", "/v1/history")[0] == 503
            cluster.start()
            assert "written again" in server.wait_for("history", 2)["message"]
            told(server, {"local": [8, 0, 0, by_fallback]})


@test
def postgres_reports_hours_where_minutes_have_expired():
    with Database() as db, Folder() as folder:
        now = int(time.time() * 1000)
        days = [1, 6, 8, 89, 91]
        report = {"decisions": [{"minute_ms": now - day * 86400000, "policy": "old", "rule": "(check)",
                                 "allowed": 10, "denied": day} for day in days]}
        db.sql(f"SELECT weir.report('{json.dumps(report)}'); SELECT weir.tidy()")
        assert db.sql("SELECT count(*) FROM weir.history") == "2"
        assert db.sql("SELECT count(*) FROM weir.history_hours") == "4"
        with serve(folder, db.url) as server:
            assert sums(server, "since=90d&step=1h") == {"old": [40, 1 + 6 + 8 + 89, 0, 0]}
            assert sums(server, "since=9d&until=7d&step=1m") == {"old": [10, 8, 0, 0]}


# ---- Redis -------------------------------------------------------------------------------------


@test
def servers_that_share_a_redis_have_one_history():
    with Redis() as redis, Folder() as folder:
        with serve(folder, redis.url + "?deadline=20s") as one, \
                serve(folder, redis.url + "?deadline=20s") as two:
            for server in one, two, one:
                server.check("login", "192.0.2.1")
            two.check("try", "192.0.2.1")
            two.check("try", "192.0.2.1")
            told(one, {"login": [2, 1, 0, 0], "try": [2, 0, 1, 0]})
            told(two, {"login": [2, 1, 0, 0], "try": [2, 0, 1, 0]})
            assert sums(one, "policy=login&rule=default&step=1h") == {"login": [2, 1, 0, 0]}
            redis.stop()
            assert one.http("GET", "/v1/history")[0] == 503


@test
def redis_forgets_minutes_after_a_day_and_hours_after_ninety():
    with Redis() as redis, Folder() as folder, serve(folder, redis.url) as server:
        server.check("login", "192.0.2.1")
        told(server, {"login": [1, 0, 0, 0]})
        with redis.client() as ask:
            left = {kind: ask("PTTL", key) for key in ask("KEYS", "rl:{history}*")
                    for kind in [key.decode().split(":")[2]]}
            day = 86400000
            assert day <= left["m"] <= day + 3600000, left
            assert 90 * day <= left["h"] <= 91 * day, left
            # Of long ago, there are hours.
            then = int(time.time()) // 86400 - 40
            ask("HSET", f"rl:{{history}}:h:{then}", "7 old (check)", "10 5 0 1", "9 old (check)", "1 0 0 0")
        assert sums(server, "since=60d&policy=old") == {"old": [11, 5, 0, 1]}
        body = server.http("GET", "/v1/history?since=60d&policy=old&step=1h")[2]
        assert body["checks"][0]["points"] == [[(then * 24 + 7) * 3600000, 10, 5, 0, 1, 0],
                                               [(then * 24 + 9) * 3600000, 1, 0, 0, 0, 0]], body


def url_of(nodes):
    return "redis+cluster://" + ",".join(f"127.0.0.1:{s.port}" for s in nodes.servers)


@test
def a_redis_cluster_keeps_it_too():
    with Cluster() as nodes, Folder() as folder, serve(folder, url_of(nodes)) as server:
        server.check("login", "192.0.2.1")
        told(server, {"login": [1, 0, 0, 0]})


with Postgres(fsync="off") as cluster:
    run()
