#!/usr/bin/env python3
"""test_held.py - reservations in Redis and in a cluster: servers that are killed, slots, and what was
really used.

    test_held.py TREE      from the root of the source
"""
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, "tests/support")
import held  # noqa: E402
from redis import Cluster, Redis  # noqa: E402
from shared_store import PATIENT, UNWELL, RedisFixture  # noqa: E402
from weir_server import TREE, run, test, wait_until  # noqa: E402


def redis_home(parameters=PATIENT):
    """A Redis of its own, and servers that share it."""
    redis = Redis()
    return RedisFixture(redis, redis.url, parameters)


def cluster_home():
    cluster = Cluster()
    return RedisFixture(cluster, f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")


def ask(server, verb, **body):
    status, _, answer = server.http("POST", f"/v1/{verb}", body)
    assert status == 200, answer
    return answer


def monitor(redis):
    """All that is done to sets of slots, in its order. Returns what ends it: (how many were taken,
    the most that were held at one instant of the store's clock)."""
    client = redis.client()
    client("MONITOR")
    lines = []

    def listen():
        while True:
            line = client.stream.readline().decode(errors="replace")
            if not line:
                return
            if '"ECHO" "no more"' in line:
                return
            if ":slots:" in line and " lua] " in line:
                lines.append(line)

    thread = threading.Thread(target=listen)
    thread.start()

    def end():
        redis("ECHO", "no more")
        thread.join()
        client.close()
        return replay(lines)
    return end


def replay(lines):
    """A call forgets what has expired by its clock before it adds or takes away."""
    held_until, now, taken, most = {}, 0, 0, 0
    for line in lines:
        words = line.split(' "', 1)[1].rstrip().rstrip('"').split('" "') if ' "' in line else [""]
        name = words[0].upper()
        if name == "ZREMRANGEBYSCORE":
            now = max(now, int(words[3]))
        elif name == "ZADD":
            taken += words[3] not in held_until
            held_until[words[3]] = int(words[2])
            most = max(most, sum(expires > now for expires in held_until.values()))
        elif name == "ZREM":
            held_until.pop(words[2], None)
        elif name == "DEL" and words[1].endswith(":h"):
            held_until.clear()
    return taken, most


def traces_hold(url):
    done = subprocess.run([TREE / "tests/conform_budgets"], capture_output=True, text=True,
                          check=False, env={**os.environ, "WEIR_TEST_STORE": url})
    assert done.returncode == 0, done.stdout + done.stderr


@test
def every_trace_of_budgets_holds_in_redis():
    with redis_home() as home:
        traces_hold(home.url)


@test
def every_trace_of_budgets_holds_in_a_cluster():
    with cluster_home() as home:
        traces_hold(home.url)


@test
def a_lost_answer_is_charged_once_in_redis():
    with redis_home() as home:
        held.a_lost_answer_is_charged_once(home)


@test
def a_lost_answer_is_charged_once_in_a_cluster():
    with cluster_home() as home:
        held.a_lost_answer_is_charged_once(home)


@test
def what_is_held_is_settled_exactly_while_its_slots_move():
    with cluster_home() as home:
        home.config.write_text(held.POLICIES)
        cluster, moved = home.redis, []

        def keys():
            return [key for node in cluster.masters for key in node("KEYS", "rl:{*")]

        def move():
            wait_until(lambda: len(keys()) > 5, "something to be counted")
            slots = {cluster.nodes[0]("CLUSTER", "KEYSLOT", key): key for key in keys()}
            for slot, key in sorted(slots.items())[:8]:
                source = cluster.owner(key)
                target = next(node for node in cluster.masters if node is not source)
                for step in cluster.move(slot, source, target):
                    moved.append(step)
        held.settled_exactly([home.serve(), home.serve()], steps=15 * held.LENGTH // 100,
                             meanwhile=move)
        assert moved


@test
def never_more_than_seven_at_once():
    with redis_home() as home:
        held.never_more_than_seven_at_once(home, lambda: monitor(home.redis))


@test
def what_was_used_would_have_been_admitted():
    with redis_home() as home:
        held.what_was_used_would_have_been_admitted(home)


@test
def keys_of_reservations_expire_by_themselves():
    with redis_home() as home:
        home.config.write_text(held.POLICIES)
        server = home.serve()
        held_by = server.http("POST", "/v1/reserve", {"policy": "slots",
                                                      "ttl_ms": 50})[2]["reservation"]
        with home.redis.client() as client:
            ttl = {key: client("PTTL", key) for key in client("KEYS", "rl:{*")}
            records = [key for key in ttl if b":reservation:" in key]
            assert len(ttl) == 3 and len(records) == 1, ttl
            assert 600_000 - 1000 < ttl.pop(records[0]) <= 600_050, ttl
            assert all(0 < left <= 50 or left == -2 for left in ttl.values()), ttl
            wait_until(lambda: client("KEYS", "rl:{*") == records, "the slots to be forgotten")
        status, _, answer = server.http("POST", "/v1/commit", {"reservation": held_by})
        assert status == 200 and answer["expired"], answer


@test
def what_was_held_before_a_reset_is_not_given_back():
    with redis_home() as home:
        home.config.write_text("version: 1\npolicies:\n" + "".join(
            f"  {kind}: {{limit: 100 per 1d, by: user, algorithm: {kind}}}\n"
            for kind in held.KINDS))
        server = home.serve()
        for kind in held.KINDS:
            who = {"policy": kind, "key": "ann"}
            one, two = (ask(server, "reserve", **who, cost=9, ttl_ms=60_000)["reservation"]
                        for _ in range(2))
            ask(server, "reset", **who)
            assert ask(server, "check", **who, cost=20)["remaining"] == 80, kind
            assert ask(server, "release", reservation=one)["remaining"] == 80, kind
            three = ask(server, "reserve", **who, cost=10, ttl_ms=60_000)["reservation"]
            assert ask(server, "release", reservation=two)["remaining"] == 70, kind
            assert ask(server, "release", reservation=three)["remaining"] == 80, kind


@test
def what_is_given_back_is_not_denied_from_memory():
    with redis_home() as home:
        home.config.write_text("version: 1\npolicies:\n"
                               "  ten: {limit: 10 per 1d, by: user, algorithm: fixed_window}\n")
        server = home.serve(threads=1)
        for i in range(20):
            who = {"policy": "ten", "key": f"u{i}"}
            held_by = ask(server, "reserve", **who, cost=10, ttl_ms=60_000)["reservation"]
            assert not ask(server, "check", **who)["allowed"]
            assert ask(server, "check", **who)["source"] == "cache"
            assert not ask(server, "reserve", **who, ttl_ms=1000)["allowed"]
            assert ask(server, "commit", reservation=held_by, cost=9)["remaining"] == 1
            assert ask(server, "check", **who)["allowed"]


@test
def a_record_is_known_for_ten_minutes_to_the_ms():
    with redis_home() as home, cluster_home() as cluster:
        for fixture in (home, cluster):
            fixture.config.write_text(held.POLICIES)
            server = fixture.serve("--trust-client-clock")
            begin, expires = 1_700_000_000_000, 1_700_000_001_000
            for name in ("known", "gone"):
                ask(server, "reserve", policy="jobs", attributes={"user": "ann"}, id=name,
                    ttl_ms=1000, now=begin)
            assert ask(server, "commit", reservation="known", now=expires + 599_999)["expired"]
            status, _, answer = server.http("POST", "/v1/commit", {"reservation": "gone",
                                                                   "now": expires + 600_000})
            assert (status, answer["code"]) == (404, "no_such_reservation"), answer


@test
def a_server_that_lost_its_scripts_is_sent_them_again():
    with redis_home() as home:
        home.config.write_text(held.POLICIES)
        server = home.serve()
        for i in range(3):
            answer = ask(server, "reserve", policy="slots", ttl_ms=60_000)
            assert answer["source"] == "store" and answer["remaining"] == 6 - i, answer
            home.redis("SCRIPT", "FLUSH")


def cost_of_a_slot(home, server, times=200):
    """us of Redis for each call, with what is held by now."""
    home.redis("CONFIG", "RESETSTAT")
    for _ in range(times):
        one = ask(server, "reserve", policy="many", ttl_ms=600_000)["reservation"]
        ask(server, "release", reservation=one)
    line = home.redis.client().info("commandstats")["cmdstat_evalsha"]
    return float(dict(part.split("=") for part in line.split(","))["usec_per_call"])


@test
def a_thousand_open_slots_are_not_much_slower_than_ten():
    with redis_home() as home:
        home.config.write_text("version: 1\npolicies:\n  many: {limit: 2000 at once}\n")
        server = home.serve(threads=1)
        costs = []
        for open_slots in (10, 990):
            for _ in range(open_slots):
                ask(server, "reserve", policy="many", ttl_ms=600_000)
            costs.append(cost_of_a_slot(home, server))
        print("# us of a call with 10 open slots, and with 1000:", costs)
        assert costs[1] < 3 * costs[0], costs


# ---- a store that is away ------------------------------------------------------------------------

def used(server):
    answer = ask(server, "peek", policy="jobs", attributes={"user": "ann"})
    return 1_000_000 - answer["rules"][0]["remaining"] if answer["source"] == "store" else None


def metric(server, name):
    text = server.http("GET", "/metrics")[2].decode()
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith(name + " ")][0]


@test
def a_commit_waits_for_a_store_that_is_away():
    with redis_home(UNWELL) as home:
        home.config.write_text(held.POLICIES)
        server = home.serve(threads=1)
        wait_until(lambda: used(server) == 0, "the store")
        first, second = (ask(server, "reserve", policy="jobs", attributes={"user": "ann"}, cost=10,
                             ttl_ms=60_000)["reservation"] for _ in range(2))
        home.redis.process.send_signal(signal.SIGSTOP)
        answer = ask(server, "commit", reservation=first, cost=3)
        assert answer["source"] == "fallback" and answer["reservation"] == first, answer
        assert ask(server, "release", reservation=second)["source"] == "fallback"
        assert metric(server, "weir_settlements_waiting") == 2
        home.redis.process.send_signal(signal.SIGCONT)
        wait_until(lambda: used(server) == 3, "the store to be told")
        wait_until(lambda: metric(server, "weir_settlements_waiting") == 0, "none to wait")
        assert metric(server, "weir_settlements_dropped_total") == 0


@test
def without_the_store_it_is_held_and_settled_by_the_process():
    with redis_home(UNWELL) as home:
        home.config.write_text(held.POLICIES)
        server = home.serve(threads=1)
        wait_until(lambda: used(server) == 0, "the store")
        home.redis.process.send_signal(signal.SIGSTOP)
        question = {"policy": "slots", "ttl_ms": 60_000, "id": "mine"}
        answers = [ask(server, "reserve", **question) for _ in range(2)]
        assert [a["source"] for a in answers] == ["fallback"] * 2, answers
        assert [a["repeated"] for a in answers] == [False, True], answers
        assert [a["remaining"] for a in answers] == [6, 6], answers
        both = ask(server, "reserve", policy="jobs", attributes={"user": "ann"}, ttl_ms=60_000)
        assert both["reservation"].startswith("local.") and len(both["rules"]) == 2, both
        local = answers[0]["reservation"]
        assert local.startswith("local.") and answers[1]["reservation"] == local, answers
        home.redis.process.send_signal(signal.SIGCONT)
        wait_until(lambda: used(server) is not None, "the store to be back")
        answer = ask(server, "release", reservation=local)
        assert answer["remaining"] == 7 and answer["source"] == "fallback", answer
        assert ask(server, "release", reservation=local)["repeated"]


@test
def what_the_process_holds_expires_there():
    with redis_home(UNWELL) as home:
        home.config.write_text(held.POLICIES)
        server = home.serve(threads=1)
        wait_until(lambda: used(server) == 0, "the store")
        home.redis.process.send_signal(signal.SIGSTOP)
        answer = ask(server, "reserve", policy="slots", ttl_ms=1)
        assert answer["reservation"].startswith("local."), answer
        wait_until(lambda: ask(server, "peek", policy="slots")["remaining"] == 7, "its expiry")
        assert ask(server, "release", reservation=answer["reservation"])["expired"]
        home.redis.process.send_signal(signal.SIGCONT)


run()
