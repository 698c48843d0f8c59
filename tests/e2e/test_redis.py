#!/usr/bin/env python3
"""test_redis.py - one limit for many machines: weir with a real Redis, well and unwell.

    test_redis.py TREE      from the root of the source
"""
import json
import os
import re
import signal
import socket
import struct
import sys
import threading

sys.path.insert(0, "tests/support")
from redis import Redis, Watched  # noqa: E402
from weir_server import TREE, command, run, test, wait_until  # noqa: E402
from shared_store import (PATIENT, UNWELL, Gang, Fixture, RedisFixture, a_promoted_replica_counts_on,  # noqa: E402
                          asked, comes_back,
                          conforms, falls_back, library_and_server_share_a_limit,
                          never_half_charged, overrides_hold_everywhere, says, servers_share_a_cell,
                          several_policies_are_never_half_charged, used,
                          verbs_do_what_they_do_elsewhere, weir, witness)


class Home(RedisFixture):
    """A Redis of its own, and servers that share it."""

    def __init__(self, parameters=PATIENT, **options):
        redis = Redis(**options)
        super().__init__(redis, redis.url, parameters)

    def secret(self):
        return self.redis("GET", "rl:secret").decode()


# ---- the contract ----------------------------------------------------------------------------


@test
def every_conformance_trace_matches():
    with Home() as home:
        conforms(TREE, home.url, "redis:", os.environ)


@test
def four_servers_admit_exactly_the_limit_fifty_times():
    with Home() as home, Gang([home.serve() for _ in range(4)], 64) as gang:
        for n in range(50):
            policy = ("many", "bucket", "fixed")[n % 3]
            allowed, refused, _ = gang.ask(20, "WEIR.CHECK", policy, f"ann-{n}")
            assert (allowed, refused) == (1000, 280), (n, allowed, refused)


@test
def several_policies_of_one_request_are_charged_together_or_not_at_all():
    with Home() as home:
        several_policies_are_never_half_charged(home)


@test
def three_rules_are_never_half_charged():
    with Home() as home:
        never_half_charged([home.serve(), home.serve()])


@test
def the_library_and_a_server_share_a_limit():
    with Home() as home:
        library_and_server_share_a_limit(home)


@test
def refund_reset_and_peek_are_the_same_as_elsewhere():
    with Home() as home:
        verbs_do_what_they_do_elsewhere(home)


@test
def cl_throttle_counts_in_redis():
    with Home() as home:
        servers_share_a_cell(home)


@test
def keys_name_the_rule_and_not_the_identity():
    with Home() as home:
        home.serve().check("many", "ann-with-a-name")
        keys = sorted(key.decode() for key in home.redis("KEYS", "*"))
        assert len(keys) == 3 and keys[:2] == ["rl:ledger", "rl:secret"], keys
        head, policy, rule, digest = keys[2].rsplit(":", 3)
        assert (policy, rule, len(digest)) == ("many", "default", 32), keys
        assert head[:4] == "rl:{" and len(head) == 9, keys


@test
def rules_of_one_identity_have_one_tag():
    with Home() as home:
        home.config.write_text("version: 1\npolicies:\n"
                               "  one: {rules: {a: {limit: 5 per 1h, by: user},"
                               " b: {limit: 9 per 1d, by: user}}}\n"
                               "  two: {limit: 5 per 1m, by: user}\n")
        server = home.serve()
        server.check("one", "ann")
        server.check("two", "ann")
        tags = {key.split(b"}")[0] for key in home.redis("KEYS", "rl:{*")}
        assert len(home.redis("KEYS", "rl:{*")) == 3 and len(tags) == 1, tags


@test
def expired_keys_are_removed():
    with Home() as home:
        home.config.write_text("version: 1\npolicies: {short: {limit: 5 per 50ms, by: user}}\n")
        server = home.serve()
        server.check("short", "ann")
        wait_until(lambda: not home.redis("KEYS", "rl:{*"), "expiry")


@test
def stats_have_the_number_of_keys():
    with Home() as home:
        server = home.serve()
        for n in range(20):
            server.check("many", f"user-{n}")

        def keys():
            return server.http("GET", "/v1/stats")[2]["store"]["keys"]
        wait_until(lambda: keys() >= 20, "the keys to be counted")


def publications(home):
    found = re.search(rb"cmdstat_publish:calls=(\d+)", home.redis("INFO", "commandstats"))
    return int(found[1]) if found else 0


@test
def a_denial_is_cached_until_a_refund_or_reset():
    with Home() as home:
        home.config.write_text("version: 1\npolicies: {few: {limit: 5 per 1d, by: user}}\n")
        servers = [home.serve(), home.serve()]
        assert [servers[n % 2].check("few", "ann")["allowed"] for n in range(6)] == \
            [True] * 5 + [False]
        for server in servers:
            wait_until(lambda s=server: s.check("few", "ann")["source"] == "cache",
                       "it to be remembered")
        before = publications(home)
        for verb in ("refund", "reset"):
            servers[0].http("POST", f"/v1/{verb}", {"policy": "few", "key": "ann"})
            wait_until(lambda: servers[1].check("few", "ann")["allowed"], "it to be let in")
        assert publications(home) > before


@test
def changes_of_operators_hold_on_all_servers():
    with Home() as home:
        overrides_hold_everywhere([home.serve(), home.serve()])
        late = home.serve()
        assert "bob" in str(late.http("GET", "/v1/audit")[2])


# ---- other ways there ------------------------------------------------------------------------


@test
def a_password_a_database_and_a_unix_socket():
    with Home(requirepass="hunter2") as home:
        for url in (f"redis://:hunter2@127.0.0.1:{home.redis.port}/3?{PATIENT}",
                    f"redis+unix://:hunter2@{home.redis.socket_path}?db=3&{PATIENT}"):
            home.url = url
            assert home.serve().check("many", "ann")["source"] == "store"
        assert home.servers[0].check("many", "ann")["remaining"] == 997
        with home.redis.client() as ask:
            ask("AUTH", "hunter2")
            assert ask.info("keyspace").keys() == {"db3"}


@test
def a_user_with_only_the_documented_rights_is_enough():
    manual = open("docs/redis.md", encoding="utf8").read()
    rule = manual[manual.index("ACL SETUSER weir"):].split("\n\n")[0].split()[3:]
    with Home() as home:
        home.redis("ACL", "SETUSER", "weir", *rule)
        home.config.write_text(home.config.read_text() + "".join(
            f"  {name}: {{limit: 9 per 1d, by: user, algorithm: {name}, reserve: {{on_expiry: release}}}}\n"
            for name in ("fixed_window", "token_bucket")))
        home.url = f"redis://weir:secret@127.0.0.1:{home.redis.port}?{PATIENT}"
        server = home.serve()
        for verb in ("check", "refund", "reset", "peek"):
            answer = server.http("POST", f"/v1/{verb}", {"policy": "many", "key": "ann"})[2]
            assert answer["source"] == "store", (verb, answer)
        for policy in "bucket", "fixed_window", "token_bucket":
            held = server.http("POST", "/v1/reserve", {"policy": policy, "key": "ann", "ttl_ms": 90_000})[2]
            for verb, more in (("grow", {"cost": 2}), ("extend", {"ttl_ms": 99_000}), ("commit", {})):
                answer = server.http("POST", f"/v1/{verb}",
                                     {"reservation": held["reservation"], **more})[2]
                assert answer["source"] == "store", (policy, verb, answer)
        wait_until(lambda: b"# TYPE weir_reservations " in server.http("GET", "/metrics")[2],
                   "a look at what is held")
        assert not [line for line in server.log.lines if "NOPERM" in str(line)], server.log.lines


@test
def replicas_are_waited_for():
    with Home("wait_replicas=1&" + UNWELL) as home:
        server = home.serve()
        falls_back(server)
        with home.redis.replica() as replica:
            comes_back(server)
            wait_until(lambda: server.check("many", "ann")["source"] == "store", "the store's answer")
            assert [key for key in replica("KEYS", "*") if b":many:" in key]
        falls_back(server)


# ---- a Redis that is unwell ------------------------------------------------------------------


@test
def nothing_acknowledged_is_lost_when_redis_crashes():
    with Home(UNWELL, appendonly="yes") as home:
        server = home.serve()
        comes_back(server)
        counted, unknown = witness(server)
        assert counted > 0
        home.redis.kill()
        falls_back(server)
        home.redis.start()
        comes_back(server)
        assert counted <= used(server, "open", "witness") <= counted + unknown


@test
def scripts_that_are_flushed_are_loaded_again():
    with Home() as home, Gang([home.serve(), home.serve()], 16) as gang:
        stop = threading.Event()

        def flush():
            with home.redis.client() as ask:
                while not stop.wait(0.02):
                    ask("SCRIPT", "FLUSH")
        thread = threading.Thread(target=flush)
        thread.start()
        try:
            for n in range(5):
                allowed, refused, fallback = gang.ask(80, "WEIR.CHECK", "many", f"ann-{n}")
                assert (allowed, refused, fallback) == (1000, 280, 0), (allowed, refused, fallback)
        finally:
            stop.set()
            thread.join()


@test
def a_server_that_is_busy_for_long():
    with Home(UNWELL, enable_debug_command="local") as home:
        server = home.serve()
        comes_back(server)
        sleeper = threading.Thread(target=lambda: home.redis("DEBUG", "SLEEP", "1.5"))
        sleeper.start()
        wait_until(lambda: asked(server)[0] == "fallback", "on_error")
        sleeper.join()
        comes_back(server)


@test
def a_server_that_is_stopped_and_continued():
    with Home(UNWELL) as home:
        server = home.serve()
        comes_back(server)
        home.redis.process.send_signal(signal.SIGSTOP)
        try:
            falls_back(server)
        finally:
            home.redis.process.send_signal(signal.SIGCONT)
        comes_back(server)


@test
def tags_are_reported_after_a_reload_has_freed_their_policies():
    def policies(limit):
        rules = f"{{a: {{limit: {limit} per 1h, by: ip}}, b: {{limit: {limit} per 1h, by: user}}}}"
        return "version: 1\npolicies:\n" + "".join(f"  p{n}: {{rules: {rules}}}\n" for n in range(300))

    with Home() as home:
        home.config.write_text(policies(1000))
        server = home.serve(threads=1)
        asks = {"policy": "p7", "attributes": {"ip": "203.0.113.7", "user": "ann"}, "tag": True}
        wait_until(lambda: server.http("POST", "/v1/check", asks)[2]["source"] == "store", "Redis")
        rules = server.http("POST", "/v1/peek", asks)[2]["rules"]
        tags = [f'"tag":"{rule["tag"]}"'.encode() for rule in rules]
        body = json.dumps(asks)
        check = f"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        for number in range(8):
            connections = [server.connect() for _ in range(20)]
            home.redis.process.send_signal(signal.SIGSTOP)
            try:
                for connection in connections:
                    connection.sendall(check.encode())
                assert server.http("GET", "/healthz")[0] == 200
                home.config.write_text(policies(2000 + number))
                reload = threading.Thread(target=server.http, args=("POST", "/v1/reload"))
                reload.start()  # it ends when no check has the policies from before
                wait_until(lambda: server.http("GET", "/v1/policies")[2]["policies"][0]["rules"][0]["limit"]
                           == 2000 + number, "the reload")
            finally:
                home.redis.process.send_signal(signal.SIGCONT)
            reload.join()
            for connection in connections:
                said = connection.recv(65536)
                assert said.count(b'"tag":') == 3 and all(tag in said for tag in tags), said
                connection.close()


@test
def a_server_stops_while_closed_connections_still_drain():
    with Home() as home:
        server = home.serve(threads=1)
        comes_back(server)
        home.redis.process.send_signal(signal.SIGSTOP)
        try:
            with server.connect() as asker:
                asker.sendall(command("WEIR.CHECK", "open", "ann"))
                assert server.http("GET", "/healthz")[0] == 200
                asker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            assert server.stop() == 0
        finally:
            home.redis.process.send_signal(signal.SIGCONT)


@test
def a_server_ends_soon_however_many_questions_of_operators_wait_for_redis():
    with Home(UNWELL) as home:
        server = home.serve("--drain-timeout", "1s", threads=2)
        comes_back(server)
        home.redis.process.send_signal(signal.SIGSTOP)
        try:
            connections = [server.connect() for _ in range(4)]
            for connection in connections:
                connection.sendall(b"GET /v1/overrides HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
            wait_until(lambda: asked(server)[0] == "fallback", "on_error")
            assert server.stop() == 0  # within PATIENCE; all of them would take minutes
        finally:
            home.redis.process.send_signal(signal.SIGCONT)


@test
def connections_that_are_reset():
    with Home(UNWELL) as home:
        server = home.serve()
        comes_back(server)
        for _ in range(5):
            home.redis("CLIENT", "KILL", "TYPE", "normal")
            comes_back(server)
        assert server.http("GET", "/readyz")[0] == 200


@test
def a_full_server_is_on_errors_matter():
    with Home(UNWELL) as home:
        server = home.serve()
        comes_back(server)
        home.redis("CONFIG", "SET", "maxmemory", "1")
        falls_back(server)
        home.redis("CONFIG", "SET", "maxmemory", "0")
        comes_back(server)


@test
def a_replica_that_sentinel_promotes():
    with Watched() as watched, Fixture(
            f"redis+sentinel://127.0.0.1:{watched.sentinel.port}/main?{UNWELL}") as fixture:
        a_promoted_replica_counts_on(fixture, watched)


# ---- what is kept of the secret --------------------------------------------------------------


@test
def a_secret_that_was_lost_with_everything_else_is_put_back():
    with Home() as home:
        server = home.serve()
        server.check("many", "ann")
        before = home.secret()
        home.redis("FLUSHALL")
        wait_until(lambda: home.redis("EXISTS", "rl:secret"), "the secret")
        assert home.secret() == before


@test
def a_server_that_starts_without_redis_finds_the_secret_when_that_is_there():
    with Home(UNWELL, appendonly="yes") as home:
        first = home.serve()
        comes_back(first)
        wait_until(lambda: first.check("many", "known")["source"] == "store", "the store")
        left = first.check("many", "known", peek=True)["remaining"]
        home.redis.stop()
        server = home.serve()
        says(server, "on_error decides until the secret is known")
        falls_back(server)
        status, _, said = server.http("PUT", "/v1/overrides", {
            "policy": "many", "key": "known", "effect": "exempt", "who": "me"})
        assert status == 503, (status, said)
        home.redis.start()
        says(server, "the secret is known")
        comes_back(server)
        assert used(server, "many", "known") == 1000 - left


@test
def without_the_store_a_check_names_secret_file():
    with Home() as home:
        done = weir("check", "--store", "redis://127.0.0.1:1", "-c", home.config, "many", "ann")
        assert done.returncode == 2, done
        assert "Connection refused" in done.stderr and "--secret-file" in done.stderr, done.stderr


@test
def a_server_starts_without_redis_if_it_has_the_secret():
    with Home(UNWELL, appendonly="yes") as home:
        home.serve()
        secret = home.secret_file(home.secret())
        home.redis.stop()
        server = home.serve("--secret-file", secret)
        falls_back(server)
        home.redis.start()
        comes_back(server)


@test
def another_secret_is_rejected():
    with Home() as home:
        home.serve()
        assert "another secret" in home.refused("--secret-file",
                                                home.secret_file("0123456789abcdef" * 4))


# ---- what is refused, and what is warned of --------------------------------------------------


@test
def a_server_that_evicts_counts_is_warned_of():
    with Home(maxmemory="100mb", maxmemory_policy="allkeys-lru") as home:
        server = home.serve()
        assert [line for line in server.log.lines if "allkeys-lru" in str(line)], server.log.lines


@test
def no_text_has_the_password():
    with Home(requirepass="hunter3") as home:
        away = ("redis://limiter:hunter2@127.0.0.1:1/0",
                "redis+sentinel://:hunter2@127.0.0.1:1/main",
                "redis+cluster://:hunter2@127.0.0.1:1")
        for store in away:
            server = home.serve(store=store)
            says(server, "cannot be reached")
            text = f"{list(server.log.lines)}{server.log.other}"
            assert text and "hunter2" not in text, text
        for store in ("redis://limiter:hunter2@127.0.0.1:1/x",
                      "redis://limiter:hunter2@127.0.0.1:1/0?deadline=soon",
                      "redis://limiter:hunter2@127.0.0.1:1?nonsense=1",
                      "redis://limiter:hunter2%zz@127.0.0.1:1",
                      "redis://limiter:hunter2@127.0.0.1:port",
                      f"redis://:hunter2@127.0.0.1:{home.redis.port}"):
            text = home.refused(store=store)
            assert text and "hunter2" not in text, text


# ---- weir doctor -----------------------------------------------------------------------------


def diagnosis(url):
    """(exit status, {what about: (level, text)})"""
    done = weir("doctor", "--json", url)
    assert not done.stderr, done
    said = json.loads(done.stdout)
    assert said["healthy"] == (done.returncode == 0), done
    return done.returncode, {f["about"]: (f["level"], f["text"]) for f in said["findings"]
                             if f["level"] != "fine"}


@test
def a_doctor_finds_nothing_to_change_in_what_the_manual_recommends():
    with Redis(appendonly="yes") as redis:
        status, found = diagnosis(redis.url)
        assert (status, found) == (0, {}), found
        text = weir("doctor", redis.url).stdout
        assert "fine    script      it runs" in text and "appendfsync everysec" in text, text


@test
def a_doctor_says_what_to_change():
    with Redis(maxmemory="100mb", maxmemory_policy="volatile-lru") as redis:
        status, found = diagnosis(redis.url + "?wait_replicas=1")
        assert status == 1 and found.keys() == {"eviction", "durability", "replicas"}, found
        assert "volatile-lru" in found["eviction"][1]
        assert found["replicas"][0] == "wrong"
        with redis.replica() as replica:
            assert diagnosis(replica.url)[1]["role"][0] == "wrong"
        redis("ACL", "SETUSER", "poor", "on", ">pass", "~*", "+@all", "-evalsha")
        found = diagnosis(f"redis://poor:pass@127.0.0.1:{redis.port}")[1]
        assert "NOPERM" in found["script"][1] or "no permissions" in found["script"][1], found


@test
def a_doctor_that_is_denied_access_says_so():
    for url in ("redis://127.0.0.1:1", "redis://127.0.0.1:x", "memory:", "nonsense"):
        done = weir("doctor", url)
        assert done.returncode == 2 and done.stderr and not done.stdout, done


run()
