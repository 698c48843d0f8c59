#!/usr/bin/env python3
"""test_pooler.py - weir through a real pgbouncer, which hands its connections on after each transaction.

    test_pooler.py TREE      from the root of the source
"""
import json
import os
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, "tests/support")
from pgbouncer import Pgbouncer, program  # noqa: E402
from postgres_fixture import PATIENT, Fixture, close_cluster, weir  # noqa: E402
from postgres import programs  # noqa: E402
from shared_store import (UNWELL, Gang, asked, comes_back, conforms, falls_back,  # noqa: E402
                          library_and_server_share_a_limit, never_half_charged,
                          overrides_hold_everywhere, says, used, verbs_do_what_they_do_elsewhere,
                          witness)
from weir_server import PATIENCE, TREE, run, test, wait_until  # noqa: E402

FEW = "version: 1\npolicies: {few: {limit: 5 per 1d, by: user}}\n"
WITHIN = 1.0  # seconds, as is promised of changes by operators
VERSION = tuple(int(n) for n in re.search(
    r"(\d+)\.(\d+)", subprocess.run([program(), "--version"], capture_output=True, text=True,
                                    check=True).stdout).groups())
# Newer ones translate the names of prepared statements, if they are set to.
KINDS = [{}] if VERSION < (1, 21) else [{"max_prepared_statements": 0},
                                        {"max_prepared_statements": 100}]


class Pooled(Fixture):
    """As a Fixture, with a pooler that has fewer connections than weir has."""

    def __init__(self, parameters=PATIENT, migrated=True, **settings):
        super().__init__(parameters, migrated)
        self.pooler = Pgbouncer(self.db, **{"default_pool_size": 2, **settings})
        self.direct = self.url
        self.url = f"{self.pooler.url_of(self.name, 'limiter')}?{parameters}"
        self.owner_pooled = self.pooler.url_of(self.name)

    def __exit__(self, *failure):
        try:
            super().__exit__(*failure)
        finally:
            self.pooler.__exit__()

    def as_client(self, text):
        """What another client sees that has the same role, through the same pooler."""
        return self.db.psql(text, role="limiter", database=self.name,
                            options=("-h", "127.0.0.1", "-p", str(self.pooler.port)))


class Holder:
    """A client that keeps one of the pooler's connections, in a transaction."""

    def __init__(self, fixture, statement="SELECT 1"):
        self.process = subprocess.Popen(
            [programs() / "psql", "-X", "-q", "-A", "-t", fixture.pooler.url_of(fixture.name, "limiter")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(f"BEGIN;\n{statement};\n\\echo there\n")
        self.process.stdin.flush()
        while "there" not in self.process.stdout.readline():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


def sources(servers, times=50):
    return {server.check("many", f"user-{n % 7}")["source"]
            for n in range(times) for server in servers}


# ---- the contract ----------------------------------------------------------------------------


@test
def every_conformance_trace_matches():
    for settings in KINDS:
        with Pooled(**settings) as fixture:
            conforms(TREE, fixture.url, "postgres:", os.environ)


@test
def a_thousand_at_once_meet_a_limit_of_five():
    for settings in KINDS:
        with Pooled(**settings) as fixture:
            fixture.config.write_text(FEW)
            servers = [fixture.serve(threads=2) for _ in range(4)]
            with Gang(servers, 1000) as gang:
                for user in "ann", "bob", "eve":
                    counts = gang.ask(1, "WEIR.CHECK", "few", user)
                    assert counts == (5, 995, 0), (settings, counts)


@test
def no_answer_is_a_fallback():
    """Two connections, and four servers that have two threads each."""
    for settings in KINDS:
        with Pooled(**settings) as fixture:
            servers = [fixture.serve(threads=2) for _ in range(4)]
            assert sources(servers) == {"store"}


@test
def several_rules_are_never_half_charged():
    with Pooled() as fixture:
        never_half_charged([fixture.serve(), fixture.serve()], asks=300)


@test
def the_library_and_a_server_share_a_limit():
    with Pooled() as fixture:
        library_and_server_share_a_limit(fixture)


@test
def refund_reset_and_peek_are_the_same_as_elsewhere():
    with Pooled() as fixture:
        verbs_do_what_they_do_elsewhere(fixture)


@test
def servers_with_and_without_the_pooler_share_a_limit():
    with Pooled() as fixture:
        servers = [fixture.serve(), fixture.serve(store=fixture.direct)]
        left = [servers[n % 2].check("many", "ann")["remaining"] for n in range(6)]
        assert left == [999, 998, 997, 996, 995, 994], left


# ---- what a session would keep ---------------------------------------------------------------


@test
def other_clients_of_the_pooler_find_nothing_changed():
    ask = ("SELECT current_setting('statement_timeout'), current_setting('enable_seqscan'),"
           " current_setting('synchronous_commit'),"
           " (SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'weir%')")
    with Pooled("deadline=700ms&synchronous_commit=off", default_pool_size=1) as fixture:
        server = fixture.serve()
        comes_back(server)
        for _ in range(20):
            assert server.check("many", "ann")["source"] == "store"
            assert fixture.as_client(ask).split() == ["0", "on", "on", "0"]


@test
def settings_of_the_uri_hold_in_each_transaction():
    for parameters, expected in ("deadline=20s", "on 20s"), ("synchronous_commit=off&deadline=19s", "off 19s"):
        with Pooled(parameters) as fixture:
            fixture.sql(f"ALTER DATABASE {fixture.name} SET synchronous_commit = off; "
                        "CREATE TABLE heard (word text); "
                        "CREATE FUNCTION hear() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS "
                        "'BEGIN INSERT INTO public.heard VALUES (current_setting($$synchronous_commit$$)"
                        " || $$ $$ || current_setting($$statement_timeout$$)); RETURN NULL; END'; "
                        "CREATE TRIGGER hear AFTER INSERT ON weir.states EXECUTE FUNCTION hear()")
            server = fixture.serve(threads=2)
            assert {server.check("many", f"user-{n}")["source"] for n in range(20)} == {"store"}
            assert fixture.value("SELECT DISTINCT word FROM heard") == expected


@test
def the_database_gives_up_what_waits_for_a_lock():
    with Pooled(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        server.check("many", "ann")
        with subprocess.Popen([programs() / "psql", "-X", "-q", fixture.owner], stdin=subprocess.PIPE,
                              text=True) as keeper:
            keeper.stdin.write("BEGIN; LOCK TABLE weir.states;\n")
            keeper.stdin.flush()
            wait_until(lambda: asked(server)[0] == "fallback", "on_error")
            wait_until(lambda: "canceling statement due to statement timeout" in fixture.db.log.read_text(),
                       "the end of the statement")
            keeper.stdin.write("ROLLBACK;\n")
            keeper.stdin.close()
        comes_back(server)


@test
def what_an_operator_changes_arrives_within_a_second():
    with Pooled() as fixture:
        one, other = fixture.serve(), fixture.serve()
        overrides_hold_everywhere([one, other])
        body = {"policy": "many", "key": "bob", "effect": "block", "for": "1h", "who": "ann", "reason": "x"}
        assert one.http("PUT", "/v1/overrides", body)[0] in (200, 201)
        begin = time.monotonic()
        wait_until(lambda: other.check("many", "bob")["source"] == "blocked", "the block")
        assert time.monotonic() - begin < WITHIN + 1.0, time.monotonic() - begin


@test
def pushed_policies_are_compared():
    with Pooled() as fixture:
        server = fixture.serve()
        assert weir("policy", "push", fixture.config, fixture.owner_pooled).returncode == 0
        other = fixture.folder.path / "other.yaml"
        other.write_text(fixture.config.read_text().replace("1000 per 52w", "10 per 52w"))
        assert weir("policy", "push", other, fixture.owner_pooled).returncode == 0
        says(server, "the policies in the database differ")
        assert weir("policy", "push", fixture.config, fixture.owner_pooled).returncode == 0
        says(server, "the policies in the database are the same as here")


@test
def denials_are_not_cached_where_resets_are_not_heard():
    with Pooled() as fixture:
        fixture.config.write_text(FEW)
        one, other = fixture.serve(), fixture.serve()
        for _ in range(5):
            assert one.check("few", "ann")["allowed"]
        for _ in range(10):
            answer = one.check("few", "ann")
            assert (answer["allowed"], answer["source"]) == (False, "store"), answer
        assert other.http("POST", "/v1/reset", {"policy": "few", "key": "ann"})[0] == 200
        assert one.check("few", "ann")["allowed"]


@test
def the_schema_is_migrated_through_it():
    with Pooled(migrated=False) as fixture:
        done = weir("migrate", fixture.owner_pooled)
        assert done.returncode == 0, done
        assert weir("migrate", "--check", fixture.owner_pooled).returncode == 0
        fixture.sql("GRANT weir_server TO limiter")
        server = fixture.serve()
        assert server.check("many", "ann")["remaining"] == 999
        assert server.stop() == 0  # else its upkeep may hold a table that is dropped
        done = weir("migrate", "--rollback", "0", fixture.owner_pooled)
        assert done.returncode == 0, done


@test
def expired_rows_are_removed_and_the_history_is_kept():
    with Pooled() as fixture:
        server = fixture.serve()
        server.check("many", "ann")
        fixture.sql("UPDATE weir.states SET expires = 0, due = 0")
        wait_until(lambda: fixture.value("SELECT count(*) FROM weir.states") == "0", "removal")
        assert server.http("GET", "/v1/history?since=1h")[0] == 200
        assert server.stop() == 0
        assert fixture.value("SELECT sum(allowed) FROM weir.history WHERE rule = '(check)'") == "1"


# ---- how it is found -------------------------------------------------------------------------


@test
def a_server_says_that_a_pooler_is_there():
    line = "a pooler is between this server and Postgres"
    with Pooled() as fixture:
        says(fixture.serve(), line)
        direct = fixture.serve(store=fixture.direct)
        direct.check("many", "ann")
        assert not any(line in entry.get("message", "") for entry in direct.log.lines)


@test
def a_wrong_setting_is_noticed_without_a_fallback():
    """The names of statements are another client's, or not there: that mode is left at once."""
    with Pooled(f"pooler=session&{PATIENT}", default_pool_size=3, **KINDS[0]) as fixture:
        servers = [fixture.serve(threads=2) for _ in range(3)]
        assert sources(servers) == {"store"}
        for server in servers:
            says(server, "a pooler is between this server and Postgres")


@test
def statements_that_vanish_change_the_mode_of_the_connection():
    with Pooled(f"pooler=session&{PATIENT}", default_pool_size=1, **KINDS[0]) as fixture:
        server = fixture.serve(threads=1)
        server.check("many", "ann")
        for _ in range(3):
            fixture.as_client("DEALLOCATE ALL")
            assert sources([server], 5) == {"store"}
        says(server, "a pooler is between this server and Postgres")


@test
def one_that_listens_notices_that_another_process_answers():
    with Pooled(f"pooler=session&{PATIENT}", **KINDS[-1]) as fixture:
        server = fixture.serve(threads=1)

        def noticed():
            """Keep one of two connections for a moment, so that now this and now that one answers."""
            with Holder(fixture):
                server.check("many", "ann")
            return any("a pooler is between" in line.get("message", "") for line in list(server.log.lines))

        wait_until(noticed, "the server to notice")


@test
def a_pooler_of_sessions_is_used_as_a_session():
    with Pooled(f"pooler=session&{PATIENT}", pool_mode="session", default_pool_size=20) as fixture:
        fixture.config.write_text(FEW)
        server = fixture.serve(threads=1)
        for _ in range(5):
            assert server.check("few", "ann")["source"] == "store"
        wait_until(lambda: server.check("few", "ann")["source"] == "cache", "the deny cache")
        assert not any("pooler" in entry.get("message", "") for entry in server.log.lines[:-1]
                       if "is serving" not in entry.get("message", ""))


@test
def a_direct_connection_may_be_told_that_it_is_pooled():
    with Fixture(f"pooler=transaction&{PATIENT}") as fixture:
        server = fixture.serve()
        says(server, "a pooler is between this server and Postgres")
        assert sources([server]) == {"store"}


@test
def a_pooler_of_statements_is_rejected():
    text = "pools statements"
    with Pooled(pool_mode="statement") as fixture:
        assert text in fixture.refused()
        done = weir("doctor", "--json", fixture.url)
        found = {one["about"]: one for one in json.loads(done.stdout)["findings"]}
        assert done.returncode == 1 and found["pooler"]["level"] == "wrong", done
        assert text in found["pooler"]["text"], found


@test
def another_isolation_level_is_rejected():
    with Pooled() as fixture:
        fixture.sql(f"ALTER DATABASE {fixture.name} SET default_transaction_isolation = 'serializable'")
        assert "default_transaction_isolation must be read committed" in fixture.refused()


@test
def a_doctor_says_what_the_pooler_means():
    with Pooled() as fixture:
        done = weir("doctor", "--json", fixture.url)
        found = {one["about"]: one for one in json.loads(done.stdout)["findings"]}
        assert found["pooler"]["level"] == "fine", found
        assert "the deny cache is not used" in found["pooler"]["text"], found
        assert "pooler" not in weir("doctor", "--json", fixture.direct).stdout


# ---- a pooler that is unwell -----------------------------------------------------------------


@test
def a_pooler_that_is_killed_and_started_again():
    with Pooled(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        counted, unknown = witness(server)
        assert counted > 0
        fixture.pooler.kill()
        falls_back(server)
        fixture.pooler.start()
        comes_back(server)
        kept = used(server, "open", "witness")
        assert counted <= kept <= counted + unknown, (counted, kept, unknown)


@test
def a_pooler_that_hangs_and_goes_on():
    with Pooled(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        fixture.pooler.pause()
        try:
            falls_back(server)
        finally:
            fixture.pooler.resume()
        comes_back(server)


@test
def a_pool_that_is_used_up():
    with Pooled(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        with Holder(fixture), Holder(fixture):
            falls_back(server)
        comes_back(server)


@test
def a_limit_is_never_exceeded_while_the_pooler_is_restarted():
    with Pooled(UNWELL) as fixture:
        fixture.config.write_text("version: 1\npolicies: {shut: {limit: 50 per 1d, by: user, on_error: deny}}\n")
        servers = [fixture.serve() for _ in range(2)]
        allowed, lock = [], threading.Lock()

        def work(server):
            for _ in range(150):
                if server.check("shut", "ann")["allowed"]:
                    with lock:
                        allowed.append(1)

        threads = [threading.Thread(target=work, args=(server,)) for server in servers * 4]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(allowed) > 5, "the first")
        fixture.pooler.kill()
        fixture.pooler.start()
        for thread in threads:
            thread.join()
        assert 5 < len(allowed) <= 50, len(allowed)


try:
    run()
finally:
    close_cluster()
