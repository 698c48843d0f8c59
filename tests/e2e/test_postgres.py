#!/usr/bin/env python3
"""test_postgres.py - one limit for many machines: weir with a real Postgres, well and unwell.

    test_postgres.py TREE      from the root of the source

WEIR_TEST_RUNS=50 lets four servers meet one limit so often, instead of once for each algorithm;
WEIR_TEST_SECONDS=300 lets them send random batches for so long.
"""
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, "tests/support")
from asker import Crowd  # noqa: E402
from postgres_fixture import PATIENT, Fixture, close_cluster, weir  # noqa: E402
from postgres import descendants, programs, send_signal  # noqa: E402
from weir_server import PATIENCE, TREE, WEIR, run, test, wait_until  # noqa: E402
from shared_store import (UNWELL, asked, comes_back, conforms, falls_back,  # noqa: E402
                          library_and_server_share_a_limit, never_half_charged, says,
                          servers_share_a_cell, several_policies_are_never_half_charged, used,
                          verbs_do_what_they_do_elsewhere, witness)

# ---- the contract ----------------------------------------------------------------------------


@test
def every_conformance_trace_matches():
    with Fixture() as fixture:
        conforms(TREE, fixture.url, "postgres:", os.environ)


@test
def requests_without_a_time_use_the_clock_of_the_database():
    with Fixture() as fixture:
        fixture.sql(f"ALTER DATABASE {fixture.name} SET log_statement = 'all'")
        server = fixture.serve("--trust-client-clock")
        server.check("many", "ann")
        server.check("many", "ann else", now=1700000000000)
        log = fixture.db.log.read_text().split("execute weir_charge: ")[1:]
        nows = [line.split("$8 = ")[1].split("\n")[0] for line in log]
        assert nows == ["NULL", "'1700000000000'"], nows


def crowds(fixture, count, questions, size=16):
    """So many servers, each with a crowd at its door; {question: how often it was allowed}."""
    servers = [fixture.serve(threads=2) for _ in range(count)]
    there = [Crowd(server.address, questions, size=size, seed=number)
             for number, server in enumerate(servers)]
    allowed = {}
    for crowd in there:
        for question, times in crowd.end().allowed.items():
            allowed[question] = allowed.get(question, 0) + times
    return servers, allowed


@test
def four_servers_admit_exactly_the_limit():
    runs = int(os.environ.get("WEIR_TEST_RUNS", "3"))
    for number in range(runs):
        policy = ("many", "bucket", "fixed")[number % 3]
        with Fixture() as fixture:
            question = policy, "user", "ann"
            _, allowed = crowds(fixture, 4, [question] * 400)
            assert allowed == {question: 1000}, (number, allowed)
    print(f"# {runs} runs")


def random_batch(dice):
    """What one turn of a server may be asked: some keys twice, and in no order."""
    return [{"policy": dice.choice(("three", "three", "churn", "many", "bucket")),
             "attributes": {"tenant": f"t{dice.randrange(5)}", "user": f"u{dice.randrange(30)}"},
             "cost": dice.randrange(1, 4)} for _ in range(dice.randrange(1, 60))]


def send_batches(address, dice, until, sources):
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)

    def ask(verb, body):
        connection.request("POST", f"/v1/{verb}", json.dumps(body))
        response = connection.getresponse()
        said = json.loads(response.read())
        assert response.status == 200, (response.status, said)
        return said

    while time.monotonic() < until:
        for answer in ask("check", {"checks": random_batch(dice)})["answers"]:
            sources[answer["source"]] = sources.get(answer["source"], 0) + 1
        for verb in "refund", "reset":
            if dice.randrange(3) == 0:
                ask(verb, random_batch(dice)[0])
    connection.close()


@test
def random_batches_of_four_servers_meet_no_deadlock():
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"# seed {seed}")
    problems, counts = [], [{} for _ in range(16)]

    def work(number):
        try:
            send_batches(servers[number % 4].address, random.Random(seed + number), until,
                         counts[number])
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(problem)

    with Fixture() as fixture:
        servers = [fixture.serve(threads=2) for _ in range(4)]
        until = time.monotonic() + float(os.environ.get("WEIR_TEST_SECONDS", "2"))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(counts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems, problems
        total = {source: sum(count.get(source, 0) for count in counts)
                 for source in set().union(*counts)}
        print(f"# {total}")
        assert total.get("store", 0) > 0 and not total.get("fallback"), total
        wait_until(lambda: fixture.value("SELECT xact_commit > 10 FROM pg_stat_database "
                                       f"WHERE datname = '{fixture.name}'") == "t", "the statistics")
        assert fixture.value("SELECT deadlocks FROM pg_stat_database "
                           f"WHERE datname = '{fixture.name}'") == "0"


@test
def many_keys_at_once_are_exact_too():
    with Fixture() as fixture:
        fixture.config.write_text("version: 1\npolicies: {few: {limit: 5 per 1d, by: user}}\n")
        questions = [("few", "user", f"user-{n % 60}") for n in range(300)]
        _, allowed = crowds(fixture, 3, questions)
        assert set(allowed.values()) == {5} and len(allowed) == 60, allowed


@test
def several_policies_of_one_request_are_charged_together_or_not_at_all():
    with Fixture() as fixture:
        several_policies_are_never_half_charged(fixture)


@test
def three_rules_are_never_half_charged():
    with Fixture() as fixture:
        never_half_charged([fixture.serve(), fixture.serve()])


@test
def the_library_and_a_server_share_a_limit():
    with Fixture() as fixture:
        library_and_server_share_a_limit(fixture)


@test
def refund_reset_and_peek_are_the_same_as_elsewhere():
    with Fixture() as fixture:
        verbs_do_what_they_do_elsewhere(fixture)


@test
def cl_throttle_counts_in_the_database():
    with Fixture() as fixture:
        servers_share_a_cell(fixture)


@test
def sql_and_http_share_a_limit():
    with Fixture() as fixture:
        server = fixture.serve()
        assert weir("policy", "push", fixture.config, fixture.owner).returncode == 0
        ask = "SELECT remaining FROM weir.check('many', '{\"user\": \"ann\"}')"
        assert server.check("many", "ann")["remaining"] == 999
        assert fixture.value(ask) == "998"
        assert server.check("many", "ann")["remaining"] == 997


@test
def sql_and_http_share_limits_that_begin_with_the_first_hit_and_lock_out():
    hour, lockout = 3600000, 7200000
    with Fixture() as fixture:
        server = fixture.serve()
        for name in (None, "strict"):
            limit = {"key": "ann", "limit": 2, "window_ms": hour, "algorithm": "fixed_window", "start": "first",
                     "block_for_ms": lockout, **({"name": name} if name else {})}
            words = ("'ann', 2, 3600000, 'fixed_window', p_start => 'first', p_block_for_ms => 7200000"
                     + (f", p_name => '{name}'" if name else ""))

            def by_http(asked):
                return server.http("POST", "/v1/check", asked)[2]

            first = by_http(limit)
            assert (first["remaining"], first["reset_after_ms"]) == (1, hour), first
            assert fixture.value(f"SELECT remaining FROM weir.limit({words})") == "0"
            many = json.dumps([limit]).replace("'", "''")
            wait = int(fixture.value(f"SELECT retry_after_ms FROM weir.check_many('{many}')"))
            assert wait == lockout, wait
            denied = by_http(limit)
            assert not denied["allowed"] and hour < denied["retry_after_ms"] <= lockout, denied
            assert int(fixture.value(f"SELECT retry_after_ms FROM weir.limit({words})")) > hour
        # Without a name, another start and another lockout are other limits.
        for other in ({"start": "epoch"}, {"block_for_ms": 1}):
            assert by_http({**limit, "name": None, **other})["allowed"], other


@test
def sql_and_http_share_a_named_limit_of_requests():
    def by_http(server, key="ann", **more):
        return server.http("POST", "/v1/check", {"name": "sign-in", "key": key, "limit": 5,
                                                 "window_ms": 3600000, **more})[2]

    def by_sql(fixture, key="ann", what="remaining"):
        return fixture.value(f"SELECT {what} FROM weir.limit('{key}', 5, 3600000, p_name => 'sign-in')")

    with Fixture() as fixture:
        server = fixture.serve()
        assert [by_http(server)["remaining"], int(by_sql(fixture)), by_http(server)["remaining"],
                int(by_sql(fixture))] == [4, 3, 2, 1]
        assert by_http(server, name="other")["remaining"] == 4
        assert by_http(server, key="bob")["remaining"] == 4 and by_sql(fixture, "bob") == "3"
        # What an operator sets on one side holds on the other.
        made = weir("override", "set", "sign-in", "--key", "ann", "--limit", "50", "--server", server.url,
                    "--json")
        assert made.returncode == 0, made
        assert by_sql(fixture, what='"limit"') == "50" and by_http(server)["limit"] == 50
        assert by_sql(fixture, "bob", '"limit"') == "5"
        fixture.sql("SELECT weir.set_override('sign-in', p_key => 'bob', p_effect => 'block', p_named => true)")
        assert by_sql(fixture, "bob", "source") == "blocked"
        wait_until(lambda: by_http(server, "bob", peek=True)["source"] == "blocked", "the server to hear of it")
        fixture.sql("SELECT weir.set_mode('sign-in', 'off', p_named => true)")
        assert by_sql(fixture, "eve", "source") == "off"
        wait_until(lambda: by_http(server, "eve", peek=True)["source"] == "off", "the server to hear of it")


@test
def sql_and_http_agree_on_the_identities_in_a_rollout():
    with Fixture() as fixture:
        fixture.config.write_text(
            "version: 1\npolicies: {part: {limit: 1 per 1d, by: user, rollout: 50%}}\n")
        server = fixture.serve()
        assert weir("policy", "push", fixture.config, fixture.owner).returncode == 0
        users = [f"user-{number}" for number in range(30)]
        asked = ",".join(f"('{user}')" for user in users)
        by_sql = fixture.sql("SELECT (weir.check('part', jsonb_build_object('user', u), 1)).allowed"
                           f" FROM generate_series(1, 2) AS n, (VALUES {asked}) AS v (u)"
                           " ORDER BY n").split()[len(users):]
        by_http = [server.check("part", user)["allowed"] for user in users]
        assert [allowed == "t" for allowed in by_sql] == by_http, (by_sql, by_http)
        assert 0 < sum(by_http) < len(users), by_http


@test
def no_identity_is_in_the_database():
    with Fixture() as fixture:
        server = fixture.serve()
        server.check("many", "ann-with-a-name")
        assert fixture.value("SELECT count(*) FROM weir.states") == "1"
        dump = subprocess.run([programs() / "pg_dump", fixture.owner], capture_output=True,
                              text=True, check=True).stdout
        assert "ann-with-a-name" not in dump


@test
def expired_rows_are_removed():
    with Fixture() as fixture:
        server = fixture.serve()
        server.check("many", "ann")
        fixture.sql("UPDATE weir.states SET expires = 0, due = 0")
        wait_until(lambda: fixture.value("SELECT count(*) FROM weir.states") == "0", "removal")


# ---- a database that is unwell ---------------------------------------------------------------


@test
def nothing_acknowledged_is_lost_when_the_database_crashes():
    with Fixture(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        counted, unknown = witness(server)
        assert counted > 0
        fixture.db.crash()
        falls_back(server)
        fixture.db.start()
        comes_back(server)
        kept = used(server, "open", "witness")
        assert counted <= kept <= counted + unknown, (counted, kept, unknown)


@test
def answers_wait_for_the_disk_unless_the_uri_says_otherwise():
    for parameter, expected in ("deadline=20s", "on"), ("synchronous_commit=off&deadline=20s", "off"), \
                               ("synchronous_commit=local&deadline=20s", "local"):
        with Fixture(parameter) as fixture:
            fixture.sql(f"ALTER DATABASE {fixture.name} SET synchronous_commit = off; "
                      "CREATE TABLE heard (word text); "
                      "CREATE FUNCTION hear() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS "
                      "'BEGIN INSERT INTO public.heard VALUES (current_setting($$synchronous_commit$$));"
                      " RETURN NULL; END'; "
                      "CREATE TRIGGER hear AFTER INSERT ON weir.states EXECUTE FUNCTION hear()")
            assert fixture.serve().check("many", "x")["source"] == "store"
            assert fixture.value("SELECT DISTINCT word FROM heard") == expected


@test
def a_restart_is_survived():
    with Fixture(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        fixture.db.stop()
        falls_back(server)
        says(server, "cannot be reached", "was lost")
        says(server, "has failed, on_error decides until it is back")
        fixture.db.start()
        comes_back(server)
        says(server, "is back")
        wait_until(lambda: server.http("GET", "/readyz")[0] == 200, "all threads")


@test
def a_database_that_becomes_read_only_and_back():
    with Fixture(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        fixture.sql(f"ALTER DATABASE {fixture.name} SET default_transaction_read_only = on")
        fixture.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                  f"WHERE usename = 'limiter' AND datname = '{fixture.name}'")
        falls_back(server)
        says(server, "has failed")
        fixture.sql("SET default_transaction_read_only = off;"
                  f"ALTER DATABASE {fixture.name} RESET default_transaction_read_only")
        comes_back(server)


@test
def a_database_without_connections_to_spare():
    with Fixture(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        fixture.sql("ALTER ROLE limiter CONNECTION LIMIT 0;"
                  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                  f"WHERE usename = 'limiter' AND datname = '{fixture.name}'")
        falls_back(server)
        says(server, "cannot be reached", "was lost")
        fixture.sql("ALTER ROLE limiter CONNECTION LIMIT -1")
        comes_back(server)


class Sleeper:
    """A session that holds a lock until it is left."""

    def __init__(self, fixture, statement, role="postgres"):
        self.process = subprocess.Popen(
            [programs() / "psql", "-X", "-q", "-A", "-t", fixture.db.url_of(fixture.name, role)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(f"BEGIN; {statement};\nSELECT 'held';\n")
        self.process.stdin.flush()
        while self.process.stdout.readline().strip() != "held":
            assert self.process.poll() is None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate("ROLLBACK;\n")


@test
def a_lock_held_by_another_session():
    with Fixture(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        with Sleeper(fixture, "LOCK TABLE weir.states IN ACCESS EXCLUSIVE MODE"):
            falls_back(server)
            says(server, "has failed")
        comes_back(server)


@test
def a_key_locked_by_another_session_does_not_delay_other_keys():
    """For long: at first weir does not know which key is locked."""
    with Fixture(UNWELL) as fixture:
        server = fixture.serve()
        held, over = {"policy": "many", "key": "held"}, threading.Event()

        def ask(body):
            return server.http("POST", "/v1/check", body)[2]

        def hammer():
            while not over.is_set():
                ask(held)
                time.sleep(0.01)

        def others_of_200():  # a busy machine may miss deadlines by itself
            return [ask({"policy": "shut", "key": str(next(keys))})["source"]
                    for _ in range(200)].count("store")

        keys = itertools.count()
        assert ask(held)["source"] == "store"
        threads = [threading.Thread(target=hammer, daemon=True) for _ in range(4)]
        with Sleeper(fixture, "SELECT FROM weir.states FOR UPDATE"):
            for thread in threads:
                thread.start()
            says(server, "keeps keys locked: on_error")
            wait_until(lambda: ask({"policy": "open", "key": "other"}) and
                       server.http("GET", "/readyz")[0] == 200, "the store to be well for others")
            wait_until(lambda: others_of_200() >= 195, "other keys to be asked for in time")
            assert ask(held)["source"] == "fallback"
        wait_until(lambda: ask(held)["source"] == "store", "it to be let go")
        over.set()
        for thread in threads:
            thread.join(PATIENCE)


def check_many(server, policy, keys):
    """In one request: the sources of the answers."""
    said = server.http("POST", "/v1/check",
                       {"checks": [{"policy": policy, "key": key} for key in keys]})[2]
    return [answer["source"] for answer in said["answers"]]


@test
def locks_of_other_roles_do_not_block_new_keys():
    """Advisory locks are for every role that may connect, so nothing may depend on one."""
    with Fixture("deadline=2s") as fixture:
        fixture.sql("CREATE ROLE stranger LOGIN")
        server = fixture.serve()
        comes_back(server)
        tables = fixture.value("SELECT count(*) FROM pg_class WHERE relnamespace = 'weir'::regnamespace "
                             "AND has_table_privilege('stranger', oid, 'SELECT, UPDATE, DELETE')")
        assert tables == "0", tables
        # As numbers: 'weirguar', the next one, and 'weir' with 1 << 16 and 1.
        locks = "; ".join(f"SELECT pg_advisory_lock({number})" for number in
                          (0x7765697267756172, 0x7765697267756173, 8603398601508454401))
        with Sleeper(fixture, locks, "stranger"):
            for size in 1, 40, 60:
                heard = check_many(server, "many", [f"under siege {size} {i}" for i in range(size)])
                assert set(heard) == {"store"}, (size, heard)
            fixture.sql("UPDATE weir.states SET expires = 0, due = 0")
            wait_until(lambda: fixture.value("SELECT count(*) FROM weir.states") == "0", "removal")
            assert weir("migrate", fixture.owner).returncode == 0
        fixture.sql("BEGIN; SELECT weir.limit('new ' || i, 5, 60000) FROM generate_series(1, 60) AS i; "
                  "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory');"
                  " END $$; COMMIT")


@test
def an_open_transaction_keeps_none_but_its_own_new_keys():
    """The log of Postgres says who waited for it for 5 ms: those that asked for its own key. An answer
    may come too late on a busy machine, so it is asked for again; one that waits for the transaction
    never comes."""
    with Fixture("deadline=2s") as fixture:
        fixture.sql(f"""CREATE ROLE slow LOGIN IN ROLE weir_caller;
                        ALTER DATABASE {fixture.name} SET log_lock_waits = on;
                        ALTER DATABASE {fixture.name} SET deadlock_timeout = '5ms'""")
        assert weir("policy", "push", fixture.config, fixture.owner).returncode == 0
        server, numbers = fixture.serve(), itertools.count()
        comes_back(server)

        def fresh(count):
            return [f"fresh {next(numbers)}" for _ in range(count)]

        with Sleeper(fixture, "SELECT weir.check('many', p_key => 'held')", "slow"):
            pid = fixture.value("SELECT pid FROM pg_stat_activity WHERE usename = 'slow'")

            def waits():
                return len(re.findall(rf"holding the lock: [^.]*\b{pid}\b", fixture.db.log.read_text()))

            def others(keys, *held):
                """Where the answers for the keys of others come from, with a held one among them."""
                heard = check_many(server, "many", [*keys, *held])
                assert heard[len(keys):] == ["fallback"] * len(held), heard
                return set(heard[:len(keys)])

            def answers(*held):
                keys = fresh(60)
                wait_until(lambda: others(keys, *held) == {"store"}, "the keys of others to be answered")

            for _ in range(4):
                answers()
            assert waits() == 0
            # Each thread has a breaker of its own, and finding the held key may have opened some.
            wait_until(lambda: others(fresh(60), "held") == {"store"} and
                       server.http("GET", "/readyz")[0] == 200,
                       "the keys of others to be answered, on every thread")
            says(server, "keeps keys locked: on_error")
            waited = waits()
            assert waited > 0
            for _ in range(20):
                answers("held")
            assert waits() == waited
        wait_until(lambda: check_many(server, "many", ["held"]) == ["store"], "it to be let go")


def metric(server, name):
    return float(re.search(rf"^{name} (\S+)$", server.http("GET", "/metrics")[2].decode(), re.M)[1])


@test
def the_waiting_time_of_a_decision_is_measured():
    with Fixture(PATIENT) as fixture:
        server = fixture.serve()
        comes_back(server)
        assert metric(server, "weir_decision_seconds_sum") < 1
        with Sleeper(fixture, "LOCK TABLE weir.states IN ACCESS EXCLUSIVE MODE"):
            asking = threading.Thread(target=server.check, args=("open", "ann"))
            asking.start()
            time.sleep(1)
        asking.join()
        for name in "weir_decision_seconds", "weir_journal_sync_seconds":
            assert 1 <= metric(server, f"{name}_sum") < 1 + PATIENCE, name
        assert (metric(server, "weir_decision_seconds_count")
                == metric(server, "weir_store_batch_size_sum"))


@test
def a_database_that_is_stopped_and_continued():
    with Fixture(UNWELL) as fixture:
        server = fixture.serve()
        comes_back(server)
        stopped = descendants(fixture.db.pid)
        try:
            send_signal(stopped, signal.SIGSTOP)
            falls_back(server)
        finally:
            # What runs it as another user has stopped along with it.
            send_signal([*stopped, fixture.db.process.pid], signal.SIGCONT)
        comes_back(server)


@test
def of_several_hosts_the_one_that_takes_writes_is_used():
    with Fixture() as fixture:
        server = f"127.0.0.1:{fixture.db.port}"
        fixture.url = (f"postgres://limiter@127.0.0.1:1,{server}/{fixture.name}"
                     f"?target_session_attrs=read-write&{PATIENT}&pool=3&synchronous_commit=off")
        assert fixture.serve().check("many", "ann")["source"] == "store"


@test
def a_server_that_starts_without_its_database_finds_the_secret_when_that_is_there():
    with Fixture(UNWELL) as fixture:
        fixture.serve()
        comes_back(fixture.servers[0])
        wait_until(lambda: asked(fixture.servers[0], "many", "known")[0] == "store", "the store")
        counted = used(fixture.servers[0], "many", "known")
        fixture.db.stop()
        server = fixture.serve()
        says(server, "on_error decides until the secret is known")
        falls_back(server)
        assert server.check("many", "known")["source"] == "fallback"
        status, _, said = server.http("PUT", "/v1/overrides", {
            "policy": "many", "key": "known", "effect": "exempt", "who": "me"})
        assert status == 503, (status, said)
        fixture.db.start()
        says(server, "the secret is known")
        comes_back(server)
        assert used(server, "many", "known") == counted


@test
def without_the_store_a_check_names_secret_file():
    with Fixture() as fixture:
        done = weir("check", "--store", "postgres://limiter@127.0.0.1:1/none", "-c", fixture.config,
                    "many", "ann")
        assert done.returncode == 2, done
        assert "Connection refused" in done.stderr and "--secret-file" in done.stderr, done.stderr


@test
def a_server_starts_without_its_database_if_it_has_the_secret():
    with Fixture(UNWELL) as fixture:
        secret = fixture.folder.path / "secret"
        secret.write_text(fixture.value("SELECT encode(bytes, 'hex') FROM weir.secret") + "\n")
        secret.chmod(0o600)
        fixture.db.stop()
        server = fixture.serve("--secret-file", secret)
        falls_back(server)
        fixture.db.start()
        comes_back(server)


# ---- what is refused -------------------------------------------------------------------------


def refused(fixture, *arguments, store=None):
    done = weir("serve", "--store", store or fixture.url, "--config", fixture.config, "--listen",
                "127.0.0.1:0", *arguments)
    assert done.returncode == 2, done
    return done.stderr


@test
def a_database_without_the_schema_is_rejected():
    with Fixture(migrated=False) as fixture:
        assert "run 'weir migrate'" in refused(fixture)


@test
def a_server_that_is_too_old_is_rejected():
    """One that says so when it greets; `./dev matrix` runs a real one."""
    def message(kind, body):
        return kind + struct.pack("!i", len(body) + 4) + body

    def greet(listener):
        for _ in range(3):
            with listener.accept()[0] as client:
                client.recv(4096)
                client.sendall(message(b"R", struct.pack("!i", 0)) + message(b"S", b"server_version\x0012.22\0") +
                               message(b"K", struct.pack("!ii", 1, 1)) + message(b"Z", b"I"))
                client.recv(4096)

    with Fixture(migrated=False) as fixture, socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,))
        thread.start()
        url = f"postgres://limiter@127.0.0.1:{listener.getsockname()[1]}/app?sslmode=disable&gssencmode=disable"
        text = "Postgres 12.22 is too old: weir needs 13 or newer"
        assert text in refused(fixture, store=url)
        assert text in weir("migrate", url).stderr
        assert text in refused(fixture, "--secret-file", fixture.secret_file("ab" * 32), store=url)
        thread.join()


@test
def a_role_without_the_right_is_rejected():
    with Fixture() as fixture:
        fixture.sql("REVOKE weir_server FROM limiter")
        try:
            assert "GRANT weir_server" in refused(fixture)
        finally:
            fixture.sql("GRANT weir_server TO limiter")


@test
def another_secret_is_rejected():
    with Fixture() as fixture:
        secret = fixture.folder.path / "secret"
        secret.write_text("0123456789abcdef" * 4 + "\n")
        secret.chmod(0o600)
        assert "another secret" in refused(fixture, "--secret-file", secret)


@test
def no_text_has_the_password():
    with Fixture() as fixture:
        away = ("postgres://limiter:hunter2@127.0.0.1:1/x",
                f"postgres://limiter:hunter2@127.0.0.1:{fixture.db.port}/none")
        wrong = ("postgres://limiter:hunter2@127.0.0.1:1/x?deadline=soon",
                 "postgres://limiter:hunter2@127.0.0.1:1/x?nonsense=1",
                 "postgres://limiter:hunter2%zz@127.0.0.1:1/x",
                 "postgres://limiter:hunter2@[::1/x")
        for store in away + wrong:
            if store in away:
                server = fixture.serve(store=store)
                says(server, "cannot be reached")
                text = f"{list(server.log.lines)}{server.log.other}"
            else:
                text = refused(fixture, store=store)
            assert text and "hunter2" not in text, text
            done = weir("migrate", store)
            assert done.returncode == 2 and "hunter2" not in done.stdout + done.stderr, done


# ---- weir doctor -----------------------------------------------------------------------------


@test
def a_doctor_says_what_to_change():
    with Fixture(migrated=False) as fixture:
        done = weir("doctor", fixture.owner)
        assert done.returncode == 1 and "Run 'weir migrate'" in done.stdout, done
        assert "fsync is off" in done.stdout, done
        assert weir("migrate", fixture.owner).returncode == 0
        said = json.loads(weir("doctor", "--json", fixture.owner).stdout)
        assert [f["about"] for f in said["findings"] if f["level"] != "fine"] == ["durability"], said
        fixture.sql("REVOKE weir_server FROM limiter")  # which another fixture may have granted
        try:
            assert "GRANT weir_server" in weir("doctor", fixture.url).stdout
        finally:
            fixture.sql("GRANT weir_server TO limiter")
    assert weir("doctor", "postgres://limiter:hunter2@127.0.0.1:1/none").returncode == 2


# ---- migrations ------------------------------------------------------------------------------


@test
def migrations_are_applied_once_and_taken_back():
    with Fixture(migrated=False) as fixture:
        assert weir("migrate", "--check", fixture.owner).returncode == 1
        first = weir("migrate", fixture.owner)
        assert first.returncode == 0 and "0001_tables applied\n" in first.stdout, first
        again = weir("migrate", fixture.owner)
        assert again.returncode == 0 and all(
            line.endswith(" is already applied") for line in again.stdout.splitlines()), again
        assert weir("migrate", "--check", fixture.owner).returncode == 0
        back = weir("migrate", "--rollback", "0", fixture.owner)
        assert back.returncode == 0, back
        assert fixture.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'weir'") == "0"
        assert weir("migrate", "--check", fixture.owner).returncode == 1
        assert weir("migrate", fixture.owner).returncode == 0


@test
def a_migration_that_fails_leaves_nothing():
    with Fixture(migrated=False) as fixture:
        fixture.sql("CREATE SCHEMA weir; CREATE VIEW weir.states AS SELECT 1 AS one")
        done = weir("migrate", fixture.owner)
        assert done.returncode == 2 and "0001_tables" in done.stderr, done
        assert fixture.value("SELECT to_regclass('weir.migrations')") == ""


@test
def several_may_migrate_at_once():
    with Fixture(migrated=False) as fixture:
        all_of_them = [subprocess.Popen([WEIR, "migrate", fixture.owner], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True) for _ in range(4)]
        said = [process.communicate(timeout=PATIENCE) for process in all_of_them]
        assert all(process.returncode == 0 for process in all_of_them), said
        assert sum("0001_tables applied\n" in out for out, _ in said) == 1, said


@test
def printed_sql_can_be_run_by_hand():
    with Fixture(migrated=False) as fixture:
        printed = weir("migrate", "--print").stdout
        for _ in range(2):
            fixture.sql(printed)
            checked = weir("migrate", "--check", fixture.owner)
            assert checked.returncode == 0, checked
        said = weir("migrate", fixture.owner).stdout.splitlines()
        assert said and all(line.endswith(" is already applied") for line in said), said
        fixture.sql("GRANT weir_server TO limiter")
        assert fixture.serve().check("many", "ann")["source"] == "store"


@test
def pushing_policies_reports_what_changed():
    with Fixture() as fixture:
        first = weir("policy", "push", fixture.config, fixture.owner)
        assert first.returncode == 0 and "many added\n" in first.stdout, first
        fixture.config.write_text("version: 1\npolicies:\n"
                                "  many: {limit: 1000 per 1d, by: user}\n"
                                "  open: {limit: 1 per 1d, by: user}\n"
                                "exempt: [{ip: [10.0.0.0/8, '2001:db8::/32']}]\n")
        words = "policy", "push", fixture.config, fixture.owner
        assert weir(*words, "--check").returncode == 1
        second = weir(*words)
        assert "many changed\n" in second.stdout and "shut removed\n" in second.stdout, second
        assert weir(*words, "--check").returncode == 0
        assert weir("policy", "push", "-", fixture.owner, input="nonsense").returncode == 2


@test
def a_push_can_be_printed_and_run_by_hand():
    with Fixture() as fixture:
        fixture.config.write_text("""version: 1
policies:
  "many": {limit: 5 per 1d, by: user}
exempt: [{user: ["it's \\"me\\"", 'back\\slash \\n', 'ü', '$$']}]
""")
        printed = weir("policy", "push", "--print", fixture.config)
        assert printed.returncode == 0, printed
        fixture.sql(printed.stdout)
        assert weir("policy", "push", "--check", fixture.config, fixture.owner).returncode == 0
        exempt = "SELECT source FROM weir.check('many', jsonb_build_object('user', $q$back\\slash \\n$q$))"
        assert fixture.value(exempt) == "exempt"
        for words in (["--print", fixture.config, fixture.owner], ["--print", "--check", fixture.config],
                      ["--print", fixture.folder.path / "none.yaml"]):
            assert weir("policy", "push", *words).returncode == 2, words


@test
def policies_that_differ_in_the_database_are_reported():
    """Otherwise SQL callers and clients of the server would have different limits."""
    def differing(server):
        return server.http("GET", "/v1/policies")[2]["differs_in_database"]

    with Fixture() as fixture:
        fixture.config.write_text("version: 1\npolicies: {few: {limit: 5 per 1d, by: user}}\n")
        server = fixture.serve()
        wait_until(lambda: differing(server) == [], "the comparison")  # where none is, none differs
        assert weir("doctor", "--config", fixture.config, fixture.owner).stdout.count("'few'") == 1
        other = fixture.folder.path / "other.yaml"
        other.write_text("version: 1\npolicies: {few: {limit: 50 per 1d, by: user}, more: {limit: 1 "
                         "per 1s, by: user}}\n")
        assert weir("policy", "push", other, fixture.owner).returncode == 0
        wait_until(lambda: differing(server) == ["few", "more"], "the push to be heard of")
        says(server, "differ from those of this server")
        second = fixture.serve()  # a server that starts later notices it too
        wait_until(lambda: differing(second) == ["few", "more"], "the comparison")
        said = weir("doctor", "--config", fixture.config, fixture.owner)
        assert said.returncode == 1 and "2 differ from the file" in said.stdout, said
        fixture.config.write_text(other.read_text())
        assert server.http("POST", "/v1/reload")[0] == 200
        wait_until(lambda: differing(server) == [], "the reload")
        assert "all 2 are as in the file" in weir("doctor", "-c", other, fixture.owner).stdout


try:
    run()
finally:
    close_cluster()
