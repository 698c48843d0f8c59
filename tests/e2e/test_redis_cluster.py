#!/usr/bin/env python3
"""test_redis_cluster.py - one limit for many machines: weir with a real Redis cluster, that is moved
about and loses a master.

    test_redis_cluster.py TREE      from the root of the source
"""
import concurrent.futures
import itertools
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, "tests/support")
from redis import Cluster  # noqa: E402
from weir_server import TREE, run, test, wait_until  # noqa: E402
from shared_store import (PATIENT, UNWELL, Gang, Fixture, asked, comes_back,  # noqa: E402
                          conforms, falls_back, never_half_charged, overrides_hold_everywhere,
                          several_policies_are_never_half_charged,
                          says, used, weir)


class Home(Fixture):
    """Servers that share a cluster. It is one for several tests, which begin with no counts."""

    cluster = None

    def __init__(self, parameters=PATIENT, seeds=3):
        if not Home.cluster:
            Home.cluster = Cluster()
        for node in self.cluster.masters:
            node("FLUSHALL")
        super().__init__(url(self.cluster.masters[:seeds], parameters))

    def keys(self, pattern="rl:{*"):
        return self.cluster.keys(pattern)


def url(nodes, parameters):
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes) + \
        f"?{parameters}"


# ---- the contract ----------------------------------------------------------------------------


@test
def every_conformance_trace_matches():
    with Home() as home:
        conforms(TREE, home.url, "redis+cluster:", os.environ)


@test
def four_servers_admit_exactly_the_limit():
    with Home() as home, Gang([home.serve() for _ in range(4)], 64) as gang:
        for n in range(12):
            policy = ("many", "bucket", "fixed")[n % 3]
            allowed, refused, _ = gang.ask(20, "WEIR.CHECK", policy, f"ann-{n}")
            assert (allowed, refused) == (1000, 280), (n, allowed, refused)


@test
def several_policies_of_one_request_are_charged_together_or_not_at_all():
    with Home() as home:
        several_policies_are_never_half_charged(home)


@test
def rules_in_several_slots_are_never_half_charged():
    with Home() as home:
        never_half_charged([home.serve(), home.serve()])


@test
def a_denial_by_one_slot_is_undone_in_the_others():
    with Home() as home:
        server = home.serve()
        for n in range(13):  # another user each time: of one the server remembers the denial
            answers = [server.http("POST", "/v1/check", {
                "policy": "three", "attributes": {"tenant": f"t{n}", "user": f"u{n}"}})[2]
                for _ in range(8)]
            assert [answer["allowed"] for answer in answers] == [True] * 7 + [False]
            left = {rule["rule"]: rule["limit"] - rule["remaining"]
                    for rule in answers[7]["rules"]}
            assert answers[7]["rule"] == "user", answers[7]
            assert left == {"global": 7 * (n + 1), "tenant": 7, "user": 7}, left
        tags = {key.split(b"}")[0] for key in home.keys()}
        assert len(tags) >= 25, tags  # or nothing had to be undone


def batches(dice, count):
    """Of checks that share some of their keys, and are refused now by this rule and now by that."""
    now = 1_700_000_000_000
    for _ in range(count):
        now += dice.choice([1, 50, 700, 5000])
        yield {"checks": [
            {"policy": dice.choice(["four", "four", "four", "alone"]), "now": now,
             "cost": dice.choice([1, 1, 2, 3]),
             "attributes": {"tenant": f"t{dice.randrange(2)}", "user": f"u{dice.randrange(4)}",
                            "address": f"a{dice.randrange(3)}"}}
            for _ in range(dice.randrange(2, 40))]}


FOUR = """
version: 1
policies:
  four:
    rules:
      global:  {limit: 60 per 10s}
      tenant:  {limit: 30 per 9s, by: tenant, algorithm: fixed_window}
      user:    {limit: 10 per 6s, by: user, algorithm: token_bucket}
      address: {limit: 12 per 8s, by: address, algorithm: sliding_counter}
  alone: {limit: 20 per 7s, by: user}
"""


@test
def checks_of_a_batch_are_answered_as_if_they_were_asked_one_by_one():
    seed = random.randrange(1 << 32)
    print(f"# seed {seed}")
    dice = random.Random(seed)
    with Home() as home:
        home.config.write_text(FOUR)
        shared = home.serve("--trust-client-clock", threads=1)
        alone = home.serve("--trust-client-clock", threads=1, store="memory:")
        asked_for, differ = 0, []
        for batch in batches(dice, 25 if "asan" in str(TREE) or "tsan" in str(TREE) else 100):
            pair = [server.http("POST", "/v1/check", batch)[2]["answers"]
                    for server in (shared, alone)]
            for ask, answer, expected in zip(batch["checks"], *pair, strict=True):
                asked_for += 1
                if answer != expected:
                    differ.append((ask, answer, expected))
        print(f"# {len(differ)} of {asked_for} answers differ")
        assert not differ, differ[0]


@test
def refunds_resets_and_peeks_go_to_all_slots():
    with Home() as home:
        server = home.serve()
        ask = {"policy": "three", "attributes": {"tenant": "t", "user": "u"}}

        def remaining(verb, **more):
            rules = server.http("POST", f"/v1/{verb}", {**ask, **more})[2]["rules"]
            return [rule["remaining"] for rule in rules]
        assert remaining("check", cost=5) == [145, 35, 2]
        assert remaining("refund", cost=2) == [147, 37, 4]
        assert remaining("peek", cost=2) == [147, 37, 4]
        assert remaining("reset") == [150, 40, 7]
        assert not home.keys()


@test
def one_node_is_enough_to_find_the_others():
    with Home(seeds=1) as home:
        server = home.serve()
        for n in range(30):
            assert server.check("many", f"user-{n}")["source"] == "store"
        assert all(node("KEYS", "rl:{*") for node in home.cluster.masters)


@test
def changes_of_operators_hold_on_all_servers():
    with Home() as home:
        overrides_hold_everywhere([home.serve(), home.serve()])
        late = home.serve()
        assert "bob" in str(late.http("GET", "/v1/audit")[2])


# ---- a cluster that is moved about -----------------------------------------------------------


def slots_of(home):
    """{slot: its keys} of what has been counted."""
    slots = {}
    for key in home.keys():
        slots.setdefault(home.cluster.nodes[0]("CLUSTER", "KEYSLOT", key), []).append(key)
    return slots


@test
def a_slot_that_is_moved_under_load():
    """There and back, under load: every check is answered, and the limit is exact."""
    with Home() as home, Gang([home.serve(), home.serve()], 16) as gang:
        gang.ask(1, "WEIR.CHECK", "many", "ann")
        (slot, (key,)), = slots_of(home).items()
        source = home.cluster.owner(key)
        target = next(node for node in home.cluster.masters if node is not source)
        stop, problems = threading.Event(), []

        def move():
            try:
                for nodes in itertools.cycle([(source, target), (target, source)]):
                    for _ in home.cluster.move(slot, *nodes):
                        stop.wait(0.01)
                    if stop.is_set() and nodes[1] is source:
                        return
            except Exception as problem:  # pylint: disable=broad-except
                problems.append(problem)
        mover = threading.Thread(target=move)
        mover.start()
        try:
            counts = [gang.ask(10, "WEIR.CHECK", "many", "ann") for _ in range(8)]
        finally:
            stop.set()
            mover.join()
        assert not problems, problems
        assert sum(allowed for allowed, _, _ in counts) == 1000 - 16, counts
        assert sum(refused for _, refused, _ in counts) == 8 * 160 - 1000 + 16, counts
        assert not any(fallback for _, _, fallback in counts), counts


@test
def rules_in_several_slots_while_these_are_moved():
    with Home() as home:
        servers = [home.serve(), home.serve()]
        moved = []

        def move_some():
            wait_until(lambda: len(home.keys()) > 5, "something to be counted")
            for slot, keys in sorted(slots_of(home).items())[:6]:
                source = home.cluster.owner(keys[0])
                target = next(node for node in home.cluster.masters if node is not source)
                for _ in home.cluster.move(slot, source, target):
                    moved.append(slot)
        never_half_charged(servers, asks=1000, meanwhile=move_some)
        assert moved


@test
def scripts_that_one_node_has_lost_are_loaded_again():
    with Home() as home:
        server = home.serve()
        for n in range(30):
            server.check("many", f"user-{n}")
        for node in home.cluster.masters:
            node("SCRIPT", "FLUSH")
        for n in range(30):
            answer = server.check("many", f"user-{n}")
            assert (answer["source"], answer["remaining"]) == ("store", 998), answer


@test
def an_unassigned_slot_fails_alone():
    with Home(UNWELL) as home:
        server = home.serve()
        comes_back(server)
        (slot, (key, *_)), *_ = slots_of(home).items()
        owner = home.cluster.owner(key)
        for node in home.cluster.masters:
            node("CONFIG", "SET", "cluster-require-full-coverage", "no")
        for node in home.cluster.masters:
            node("CLUSTER", "DELSLOTS", slot)
        wait_until(lambda: asked(server, user="probe")[0] == "fallback", "on_error")
        others = [asked(server, user=f"user-{n}")[0] for n in range(20)]
        assert others.count("store") >= 19, others
        for node in home.cluster.masters:
            node("CLUSTER", "SETSLOT", slot, "NODE", owner("CLUSTER", "MYID"))
        comes_back(server)


@test
def a_doctor_looks_at_every_master():
    with Home() as home:
        done = weir("doctor", home.url)
        assert done.returncode == 1 and not done.stderr, done
        assert "16384 of 16384 slots are served" in done.stdout, done.stdout
        for node in home.cluster.masters:
            assert f"it runs at 127.0.0.1:{node.port}\n" in done.stdout, done.stdout
        assert "there is no failover" in done.stdout, done.stdout


def is_ready(server):
    return server.http("GET", "/readyz")[0] == 200


@test
def an_idle_server_is_ready_soon_after_all_masters_are():
    """Each has hung, and then died; several threads have found out."""
    with Home(UNWELL) as home:
        server = home.serve(threads=3)
        comes_back(server)

        def ask_many():
            with concurrent.futures.ThreadPoolExecutor(12) as askers:
                list(askers.map(lambda n: server.check("open", f"user-{n}"), range(120)))
            return not is_ready(server)
        for fail, mend in ((signal.SIGSTOP, lambda node: node.process.send_signal(signal.SIGCONT)),
                           (signal.SIGKILL, lambda node: (node.kill(), node.start()))):
            for node in home.cluster.masters:
                node.process.send_signal(fail)
            try:
                wait_until(ask_many, "the breakers")
                assert ask_many()
            finally:
                for node in home.cluster.masters:
                    mend(node)
            wait_until(home.cluster.is_well, "the cluster")
            begin = time.monotonic()
            wait_until(lambda: is_ready(server), "a server whose cluster is well")
            took = time.monotonic() - begin
            print(f"# ready again after {took * 1000:.0f} ms ({fail.name})")
            assert took < 5, took


# ---- a cluster that loses a master -----------------------------------------------------------


class Replicated(Fixture):
    def __init__(self, parameters):
        self.cluster = Cluster(replicas=1, cluster_node_timeout=1000)
        super().__init__(url(self.cluster.masters, parameters))

    def __exit__(self, *how):
        try:
            super().__exit__(*how)
        finally:
            self.cluster.__exit__()


@test
def a_failover_by_hand_under_load_loses_nothing():
    with Replicated(PATIENT) as home, Gang([home.serve(), home.serve()], 16) as gang:
        allowed, _, _ = gang.ask(5, "WEIR.CHECK", "many", "ann")
        key, = [key for node in home.cluster.masters for key in node("KEYS", "rl:{*")]
        replica, = home.cluster.followers[home.cluster.owner(key)]
        promoter = threading.Thread(target=home.cluster.promote, args=(replica,))
        promoter.start()
        for _ in range(12):
            more, _, fallback = gang.ask(10, "WEIR.CHECK", "many", "ann")
            allowed += more
            assert not fallback, fallback
        promoter.join()
        assert replica("ROLE")[0] == b"master"
        assert allowed == 1000, allowed


@test
def a_master_that_dies_is_replaced():
    with Replicated(UNWELL) as home:
        server = home.serve()
        comes_back(server)
        for _ in range(20):
            asked(server, user="witness")
        before = used(server, "open", "witness")
        key = next(key for node in home.cluster.masters for key in node("KEYS", "rl:{*"))
        master = home.cluster.owner(key)
        replica, = home.cluster.followers[master]
        wait_until(lambda: replica("DBSIZE") == master("DBSIZE"), "the replica to have it")
        users = [f"user-{n}" for n in range(30)]
        master.kill()
        wait_until(lambda: any(asked(server, user=user)[0] == "fallback" for user in users),
                   "an answer by on_error")
        wait_until(lambda: all(asked(server, user=user)[0] == "store" for user in users),
                   "all to be counted")
        comes_back(server)
        assert used(server, "open", "witness") == before


@test
def a_server_that_starts_without_its_cluster_makes_a_secret_when_that_is_there():
    with Home(UNWELL) as home:
        for node in home.cluster.masters:
            node.stop()
        server = home.serve()
        says(server, "on_error decides until the secret is known")
        falls_back(server)
        for node in home.cluster.masters:
            node.start()
        wait_until(home.cluster.is_well, "the cluster")
        says(server, "the secret is known")
        comes_back(server)
        secret = home.cluster.owner("rl:secret")("GET", "rl:secret")
        assert len(secret) == 64 and len(set(secret)) > 4, secret


try:
    run()
finally:
    if Home.cluster:
        Home.cluster.__exit__()
