#!/usr/bin/env python3
"""test_script.py - lua/judge.lua on real servers: what it decides and writes, and what it survives.

    test_script.py TREE      from the root of the source
"""
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, "tests/support")
from lua_judge import ALGORITHMS, CHARGE, Judge, ask, cell, check, peek, refund, reset, \
    rule  # noqa: E402
from redis import Client, Cluster, Redis, Refused, Watched  # noqa: E402
from weir_server import run, test, wait_until  # noqa: E402

HOUR = 3_600_000
RULES = {name: rule(name, 10, HOUR) for name in ALGORITHMS}
FIVE = rule("sliding_window", 5, HOUR)


def statement(**options):
    """A test that is given a judge on a server of its own."""
    def make(function):
        def with_server():
            with Redis(**options) as server, server.client() as client:
                function(Judge(client))
        with_server.__name__ = function.__name__
        return test(with_server)
    return make


def refusal(action, *words):
    try:
        action(*words)
    except Refused as error:
        return str(error)
    raise AssertionError("it was not refused")


# ---- what is decided -----------------------------------------------------------------------------

@statement()
def questions_of_one_call_see_what_those_before_them_charged(judge):
    for name, numbers in RULES.items():
        answers = judge([check(numbers, name) for _ in range(12)])
        assert [a.allowed for a, in answers] == [True] * 10 + [False] * 2, name
        assert [a.remaining for a, in answers] == [*range(9, -1, -1), 0, 0], name


@statement()
def a_question_is_charged_whole_or_not_at_all(judge):
    one, two = rule("fixed_window", 3, HOUR), rule("token_bucket", 10, HOUR)
    answers = judge([check([(two, "b"), (one, "a")]) for _ in range(5)])
    assert [(b.allowed, a.allowed) for b, a in answers] == [(True, True)] * 3 + [(True, False)] * 2
    assert [(b.remaining, a.remaining) for b, a in answers] == \
        [(9, 2), (8, 1), (7, 0), (7, 0), (7, 0)]
    assert judge.one(peek(two, "b")).remaining == 7


@statement()
def a_call_may_have_thousands_of_keys(judge):
    questions = [check([(FIVE, f"a{i}"), (FIVE, f"b{i}")]) for i in range(4500)]
    answers = judge(questions)
    assert all(d.remaining == 4 for answer in answers for d in answer)
    assert judge.client("DBSIZE") == 9000
    assert all(d.remaining == 3 for answer in judge(questions) for d in answer)


@statement()
def a_limit_of_none_refuses_all_and_keeps_nothing(judge):
    for name in ALGORITHMS:
        none = rule(name, 0, 0)
        assert judge.one(check(none, name)) == (False, 0, -1, 0, 0)
        assert judge.one(check(none, name, cost=0)) == (True, 0, 0, 0, 0)
        assert judge.one(refund(none, name)) == (True, 0, 0, 0, 0)
    assert judge.client("DBSIZE") == 0


@statement()
def a_verb_that_there_is_not_is_refused_and_changes_nothing(judge):
    judge([check(FIVE, "key")])
    before = judge.client("DUMP", "key")
    said = refusal(judge, [check(FIVE, "key"), ask(CHARGE + 1, FIVE, "key")])
    assert f"there is no verb {CHARGE + 1}" in said, said
    assert judge.client("DUMP", "key") == before


@statement()
def a_clock_that_steps_back_frees_nothing(judge):
    future = judge.client("TIME")
    now = int(future[0]) * 1000 + HOUR
    for name, numbers in RULES.items():
        judge([check(numbers, name, cost=10, now=now)])
        assert not judge.one(check(numbers, name)).allowed, name


@test
def from_8_connections_exactly_the_limit_is_allowed():
    limit, each = 500, 40
    with Redis() as server:
        for name in ALGORITHMS:
            numbers, allowed = rule(name, limit, 24 * HOUR), []

            def volley():
                with server.client() as client:
                    judge = Judge(client)
                    for i in range(each):
                        size = 1 + i % 5
                        allowed.extend(d.allowed for d, in judge([check(numbers, name)] * size))

            threads = [threading.Thread(target=volley) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(allowed) == 8 * each * 3
            assert sum(allowed) == limit, (name, sum(allowed))


# ---- what is written -----------------------------------------------------------------------------

def changes(client):
    return int(client.info("persistence")["rdb_changes_since_last_save"])


@statement()
def what_is_refused_peeked_at_or_free_writes_nothing(judge):
    judge([check(numbers, name, cost=10) for name, numbers in RULES.items()])
    judge([check(cell(10**9, 1), "cell")])
    before = changes(judge.client)
    assert before == 6
    for name, numbers in RULES.items():
        answers = judge([check(numbers, name), peek(numbers, name), check(numbers, name, cost=0),
                         check([(numbers, name), (numbers, "fresh")]), peek(numbers, "fresh"),
                         check(numbers, "fresh", cost=0), refund(numbers, "fresh"),
                         refund(numbers, name, cost=0), reset(numbers, "fresh")])
        assert [a[0].allowed for a in answers] == [False, False, True, False] + [True] * 5
    assert not judge.one(check(cell(10**9, 1), "cell")).allowed
    judge([peek(cell(10**9, 1), "cell"), check(cell(10**9, 1, 0), "cell", cost=0)])
    assert changes(judge.client) == before
    assert judge.client("DBSIZE") == 6


@statement()
def a_charge_of_cost_0_passes_beside_others_that_are_charged(judge):
    judge([check(numbers, name, cost=10) for name, numbers in RULES.items()])
    for name, numbers in RULES.items():
        (full, other), = judge([check([(numbers, name), (numbers, "other " + name)], cost=[0, 3])])
        assert (full.allowed, full.remaining, other.allowed, other.remaining) == (True, 0, True, 7)
        (full, other), = judge([check([(numbers, name), (numbers, "other " + name)], cost=[1, 0])])
        assert (full.allowed, other.allowed, other.remaining) == (False, True, 7)


@statement()
def a_key_is_written_once_a_call_however_often_it_was_charged(judge):
    judge([check(numbers, name) for numbers, name in 5 * [(RULES[n], n) for n in RULES]])
    assert changes(judge.client) == len(RULES)


def expiry(client, key):
    """When the key will be gone, in ms since the epoch."""
    return client("PEXPIRETIME", key)


@statement()
def a_key_lives_until_it_is_untouched(judge):
    for name, numbers in RULES.items():
        for cost in (1, 3):
            decision = judge.one(check(numbers, name, cost=cost))
            assert decision.reset_after > 0
            assert expiry(judge.client, name) == judge.now + decision.reset_after, name
        decision = judge.one(refund(numbers, name, cost=2))
        assert expiry(judge.client, name) == judge.now + decision.reset_after, name
    decision = judge.one(check(cell(1_500_000, 10), "cell")) # 1.5 ms: what is told is cut
    assert (decision.reset_after, expiry(judge.client, "cell")) == (1, judge.now + 2)


@statement()
def a_key_that_was_charged_at_a_time_of_its_callers_stays_an_hour_longer(judge):
    for name, numbers in RULES.items():
        decision = judge.one(check(numbers, name, now=1_700_000_000_000))
        assert expiry(judge.client, name) == judge.now + decision.reset_after + HOUR, name


@statement()
def a_key_that_is_untouched_again_is_deleted(judge):
    for name, numbers in RULES.items():
        for back in (refund, reset):
            judge([check(numbers, name)])
            assert judge.client("EXISTS", name) == 1
            decision = judge.one(back(numbers, name, cost=7))
            assert (decision.allowed, decision.remaining) == (True, 10)
            assert judge.client("EXISTS", name) == 0, (name, back)
        judge([check(numbers, name), reset(numbers, name)])
        assert judge.client("EXISTS", name) == 0, name
    judge([check(cell(10**9, 5), "cell")])
    judge([check(cell(10**9, 5, -1), "cell", cost=-1)])
    assert judge.client("EXISTS", "cell") == 0


@statement()
def a_key_is_small(judge):
    for name, numbers in RULES.items():
        key = "rl:{3fa9}:login:ip:" + 32 * "0"
        judge([check(numbers, key)])
        assert judge.client("MEMORY", "USAGE", key) <= 160, name # 136 on a 64-bit machine
        judge.client("DEL", key)
    full = rule("sliding_window", 1000, 60 * 60 * 1000) # buckets of a minute, 61 of them at most
    judge([check(full, "full", now=1_700_000_000_000 + 60_000 * i) for i in range(200)])
    assert judge.client("STRLEN", "full") <= 24 + 60 * 13
    assert judge.client("MEMORY", "USAGE", "full") <= 1100


@statement()
def keys_may_have_any_bytes(judge):
    keys = [b"", b"\0", bytes(range(256)), b"{}", b"a\r\nb", "é".encode(), b"k" * 100_000]
    answers = judge([check(FIVE, key) for key in keys + keys])
    assert [a.remaining for a, in answers] == [4] * len(keys) + [3] * len(keys)
    assert judge.client("DBSIZE") == len(keys)


@statement()
def a_value_that_is_not_ours_is_an_error_and_stays_as_it_is(judge):
    judge.client("SET", "foreign", "7")
    assert "too short" in refusal(judge, [check(FIVE, "a"), check(FIVE, "foreign")])
    assert judge.client("GET", "foreign") == b"7"
    assert judge.client("EXISTS", "a") == 0


# ---- what it survives ----------------------------------------------------------------------------

@statement()
def a_script_that_is_not_there_is_loaded_and_asked_again(judge):
    words = judge.words([check(FIVE, "a")])
    assert refusal(judge.client, *words).startswith("NOSCRIPT ")
    assert judge.one(check(FIVE, "a")).remaining == 4
    judge.client("SCRIPT", "FLUSH")
    assert refusal(judge.client, *words).startswith("NOSCRIPT ")
    assert judge.one(check(FIVE, "a")).remaining == 3


@statement()
def the_rights_that_the_documentation_gives_are_enough(judge):
    text = Path("docs/redis.md").read_text()
    words = text[text.index("ACL SETUSER weir"):].split("\n\n")[0].split()
    assert judge.client(*words) == "OK"
    judge.client("AUTH", "weir", "secret")
    keys = ["rl:{3fa9}:a", "rl:{3fa9}:b"]
    assert [d.remaining for d in judge([check([(FIVE, key) for key in keys])])[0]] == [4, 4]
    assert judge.one(check(FIVE, keys[0])).remaining == 3
    assert judge.one(reset(FIVE, keys[0])).remaining == 5
    assert refusal(judge, [check(FIVE, "another's")]).startswith("NOPERM ")


@statement(maxmemory_policy="noeviction")
def a_server_that_is_full_charges_nothing(judge):
    judge([check(FIVE, "kept", cost=5)])
    judge.client("CONFIG", "SET", "maxmemory", "1")
    assert refusal(judge, [check([(FIVE, "a"), (FIVE, "b")])]).startswith("OOM ")
    assert not judge.one(check(FIVE, "kept")).allowed # what is refused needs no memory
    judge.client("CONFIG", "SET", "maxmemory", "0")
    assert judge.client("EXISTS", "a", "b") == 0
    assert judge.one(check(FIVE, "a")).remaining == 4


@test
def answered_checks_survive_kill_9_when_every_write_is_synced():
    with Redis(appendonly="yes", appendfsync="always") as server:
        with server.client() as client:
            judge = Judge(client)
            judge([check(numbers, name, cost=7) for name, numbers in RULES.items()])
            written = {name: (client("GET", name), expiry(client, name)) for name in RULES}
        server.crash()
        with server.client() as client:
            judge = Judge(client)
            assert {name: (client("GET", name), expiry(client, name)) for name in RULES} == written
            for name, numbers in RULES.items():
                assert not judge.one(check(numbers, name, cost=5)).allowed, name


@test
def a_replica_has_the_result_and_does_not_charge():
    with Redis() as server, server.replica() as replica, server.client() as client, \
            replica.client() as other:
        judge, reader = Judge(client), Judge(other)
        judge([check(numbers, name, cost=10) for name, numbers in RULES.items()])
        assert client("WAIT", 1, 10_000) == 1
        for name, numbers in RULES.items():
            assert other("GET", name) == client("GET", name)
            assert expiry(other, name) == expiry(client, name)
            assert not reader.one(check(numbers, name)).allowed
        text = refusal(reader, [check(FIVE, "a")])
        assert text.startswith("READONLY You can't write against a read only replica"), text
        assert reader.one(peek(FIVE, "a")).remaining == 5


@test
def a_replica_promoted_by_sentinel_continues_counting():
    with Watched() as watched:
        with watched.master.client() as client:
            Judge(client)([check(FIVE, "a", cost=3)])
            assert client("WAIT", 1, 10_000) == 1
        watched.master.kill()
        watched.wait_for_promotion()
        with watched.replica.client() as client:
            assert Judge(client).one(check(FIVE, "a")).remaining == 1


# ---- a cluster -----------------------------------------------------------------------------------

def slot_of(cluster, key):
    return cluster.nodes[0]("CLUSTER", "KEYSLOT", key)


@test
def in_a_cluster_the_keys_of_a_call_are_of_one_slot():
    with Cluster() as cluster:
        keys = ["rl:{3fa9}:login:ip:1", "rl:{3fa9}:login:minute:2"]
        owner = cluster.owner(keys[0])
        other = next(node for node in cluster.masters if node is not owner)
        both = check([(FIVE, key) for key in keys])
        with owner.client() as client, other.client() as elsewhere:
            judge, misled = Judge(client), Judge(elsewhere)
            judge.load()
            misled.load()
            assert [d.remaining for d in judge([both])[0]] == [4, 4]
            assert refusal(misled, [both]) == \
                f"MOVED {slot_of(cluster, keys[0])} 127.0.0.1:{owner.port}"
            apart = [both, check(FIVE, "rl:{0000}:login:ip:3")]
            assert refusal(judge, apart).startswith("CROSSSLOT ")
            words = judge.words([check(FIVE, keys[0])])
        followed = subprocess.run(
            ["redis-cli", "-c", "-p", str(other.port), "-x", *map(str, words[:-1])],
            input=words[-1], capture_output=True, check=True, timeout=30)
        assert b"ERR" not in followed.stdout + followed.stderr, followed
        with owner.client() as client:
            assert Judge(client).one(peek(FIVE, keys[0])).remaining == 3


@test
def while_a_slot_moves_a_call_is_redirected_or_answered_tryagain_and_counts_once():
    with Cluster() as cluster:
        here, there = "rl:{3fa9}:a", "rl:{3fa9}:b"
        slot, source = slot_of(cluster, here), cluster.owner(here)
        target = next(node for node in cluster.masters if node is not source)
        with source.client() as at_source, target.client() as at_target:
            judge, new = Judge(at_source), Judge(at_target)
            judge.load()
            new.load()
            judge([check(FIVE, here)])
            steps = cluster.move(slot, source, target)
            assert next(steps) == "moving"
            assert judge.one(check(FIVE, here)).remaining == 3 # still there
            assert refusal(judge, [check(FIVE, there)]) == f"ASK {slot} 127.0.0.1:{target.port}"
            assert refusal(judge, [check([(FIVE, here), (FIVE, there)])]).startswith("TRYAGAIN ")
            at_target("ASKING")
            assert new.one(check(FIVE, there)).remaining == 4
            assert next(steps) == "moved"
            assert refusal(judge, [check(FIVE, here)]).startswith("ASK ")
            at_target("ASKING")
            assert new.one(check(FIVE, here)).remaining == 2
            assert next(steps, None) is None
            wait_until(lambda: refusal(judge, [check(FIVE, here)]).startswith("MOVED "), "the move")
            assert [d.remaining for d in new([check([(FIVE, here), (FIVE, there)])])[0]] == [1, 3]


@test
def a_promoted_replica_of_a_cluster_continues_counting():
    with Cluster(replicas=1) as cluster:
        key = "rl:{3fa9}:a"
        owner = cluster.owner(key)
        replica, = cluster.followers[owner]
        with owner.client() as client:
            Judge(client)([check(FIVE, key, cost=3)])
            assert client("WAIT", 1, 10_000) == 1
        cluster.promote(replica)
        with Client(replica.address) as client:
            assert Judge(client).one(check(FIVE, key)).remaining == 1


run()
