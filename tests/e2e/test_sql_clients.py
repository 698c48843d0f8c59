#!/usr/bin/env python3
"""test_sql_clients.py - clients that call SQL: the examples, npm's pg, and what PostgREST sends.

    test_sql_clients.py TREE      from the root of the source
"""
import collections
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from npm import fetched  # noqa: E402
from postgres import Postgres, SqlError  # noqa: E402
from weir_server import PATIENCE, TREE, WEIR, Folder, Server, run, test  # noqa: E402

CLIENTS, EXAMPLES = Path("tests/e2e/sql_clients").resolve(), Path("examples/postgres").resolve()
POLICIES = "version: 1\npolicies: {login: {limit: 5 per 15m, by: ip}, word: {limit: 5 per 15m, by: user}}\n"
ODD = ["'; DROP TABLE weir.states; --", "\\", "$1", '"', "%s", "\u00fc\U0001f600", "a\tb\nc", "x" * 200]


class Fixture:
    """A database that was set up as docs/sql.md says, and a server that has it for its store."""

    def __init__(self):
        self.db, self.folder = Postgres(fsync="off"), Folder()
        self.config = self.folder.__enter__() / "policies.yaml"
        self.config.write_text(POLICIES)
        self.server = None

    def __enter__(self):
        self.db.psql("CREATE ROLE anon; CREATE ROLE edge LOGIN; GRANT anon TO edge")
        self.db.psql(weir("migrate", "--print"))
        weir("policy", "push", self.config, self.db.url)
        self.db.psql("SELECT weir.expose('public'); GRANT weir_caller TO anon, edge")
        return self

    def __exit__(self, *_):
        if self.server:
            self.server.__exit__()
        self.db.close()
        self.folder.__exit__()

    def serve(self):
        self.server = Server(store=f"{self.db.url}?deadline=20s", config=self.config)
        return self.server

    def sql(self, policy, key):
        text = key.replace("'", "''")
        return self.db.value(f"SELECT allowed FROM weir.check('{policy}', p_key => '{text}')",
                             role="edge") == "t"

    def example(self, name, addresses):
        done = subprocess.run(["node", CLIENTS / "ask.js", EXAMPLES / name,
                               self.db.url_of("postgres", "edge")], input=json.dumps(addresses),
                              capture_output=True, text=True, check=False, timeout=PATIENCE,
                              env={**os.environ, "NODE_PATH": str(fetched(CLIENTS, TREE / "sql_clients")[0])})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def weir(*words):
    done = subprocess.run([WEIR, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def admits_five(name):
    if problem := fetched(CLIENTS, TREE / "sql_clients")[1]:
        return problem
    with Fixture() as fixture:
        heard = fixture.example(name, ["192.0.2.1"] * 20 + ["192.0.2.2"])
        assert collections.Counter(status for status, _ in heard[:20]) == {200: 5, 429: 15}, heard
        assert heard[20] == [200, 0], heard
        assert all(0 < retry <= 900 for status, retry in heard if status == 429), heard
    return None


@test
def the_example_with_pg_admits_exactly_its_limit():
    return admits_five("pg.mjs")


@test
def the_example_with_supabase_js_admits_exactly_its_limit():
    return admits_five("supabase.mjs")


@test
def a_check_by_sql_and_one_by_http_share_one_limit():
    with Fixture() as fixture:
        server = fixture.serve()
        for ip, first in (("192.0.2.1", True), ("192.0.2.2", False)):
            heard = []
            for n in range(7):
                if (n % 2 == 0) == first:
                    heard.append(fixture.sql("login", ip))
                else:
                    heard.append(server.http("POST", "/v1/check",
                                             {"policy": "login", "key": ip})[2]["allowed"])
            assert heard == [True] * 5 + [False] * 2, heard


@test
def odd_keys_are_keys_and_nothing_else():
    with Fixture() as fixture:
        server = fixture.serve()
        for key in ODD:
            assert [fixture.sql("word", key) for _ in range(3)] == [True] * 3, key
            heard = [server.http("POST", "/v1/check", {"policy": "word", "key": key})[2]["allowed"]
                     for _ in range(3)]
            assert heard == [True, True, False], (key, heard)
        assert fixture.db.value("SELECT count(*) FROM weir.states") == str(len(ODD))


def as_postgrest(db, method="POST", address="192.0.2.1", sub=None):
    """One request in the transaction that PostgREST makes of it; its status and headers."""
    headers = json.dumps({"x-forwarded-for": f"203.0.113.99, {address}"})
    claims = json.dumps({"role": "anon", **({"sub": sub} if sub else {})})
    settings = {"role": "anon", "request.method": method, "request.path": "/things",
                "request.headers": headers, "request.jwt.claims": claims}
    sets = ", ".join(f"set_config('{name}', $q${value}$q$, true)" for name, value in settings.items())
    try:
        db.psql(f"BEGIN {'READ ONLY' if method == 'GET' else ''}; SELECT {sets}; "
                "SELECT public.limit_request(); SELECT 1; COMMIT", role="authenticator")
        return 200, {}
    except SqlError as error:
        lines = str(error).splitlines()
        if error.code != "PGRST":
            raise
        message = json.loads(next(line for line in lines if "ERROR:" in line).partition("PGRST: ")[2])
        detail = json.loads(next(line for line in lines if "DETAIL:" in line).partition("DETAIL:")[2])
        assert set(message) == {"code", "message", "details", "hint"}, message
        assert set(detail) == {"status", "headers"}, detail
        return detail["status"], detail["headers"]


@test
def a_limit_is_checked_before_each_request_of_postgrest():
    with Fixture() as fixture:
        fixture.config.write_text("version: 1\npolicies: {api: {limit: 3 per 15m, by: who}}\n")
        weir("policy", "push", fixture.config, fixture.db.url)
        fixture.db.psql((EXAMPLES / "pre_request.sql").read_text())
        fixture.db.psql("CREATE ROLE authenticator LOGIN NOINHERIT; GRANT anon TO authenticator; "
                      "REVOKE weir_caller FROM anon")
        ask = functools.partial(as_postgrest, fixture.db)
        assert ask("GET") == (200, {})  # which counts nothing
        assert [ask()[0] for _ in range(4)] == [200, 200, 200, 429]
        for method in "POST", "GET":
            status, headers = ask(method)
            assert status == 429 and 0 < int(headers["Retry-After"]) <= 900, headers
        assert ask(address="192.0.2.2") == (200, {})
        assert [ask(sub="ann")[0] for _ in range(4)] == [200, 200, 200, 429]
        assert ask(sub="ben")[0] == 200


@test
def one_row_is_an_object_and_rows_are_an_array():
    """As PostgREST tells them apart: by whether a function returns a set."""
    kinds = {"upsert_rate_limit": "f", "increment_rate_limit": "f", "check_rate_limit": "t"}
    with Fixture() as fixture:
        for schema in "weir", "public":
            found = dict(fixture.db.rows(
                "SELECT proname, proretset FROM pg_proc JOIN pg_type t ON t.oid = prorettype WHERE "
                f"pronamespace = '{schema}'::regnamespace AND proname LIKE '%_rate_limit' AND typtype "
                "IN ('c', 'p')"))
            assert found == kinds, (schema, found)
        body = fixture.db.value("SELECT row_to_json(r) FROM (SELECT * FROM public.upsert_rate_limit("
                              "p_identifier => 'a', p_endpoint => '/', p_window_start => now(), "
                              "p_window_end => now() + interval '1 minute')) r", role="edge")
        assert json.loads(body) == {"requests_count": 1}, body


run()
