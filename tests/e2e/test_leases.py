#!/usr/bin/env python3
"""test_leases.py - leased quotas: servers that answer from chunks of a shared limit, which is never
exceeded, whatever happens to them.

    test_leases.py TREE      from the root of the source
"""
import contextlib
import signal
import socket
import subprocess
import sys

sys.path.insert(0, "tests/support")
import lease_homes  # noqa: E402
import postgres_fixture  # noqa: E402
from asker import adopt_orphans, handed_over  # noqa: E402
from lease_trial import (POLICIES as TRIED, SLIDING, YEAR, Callers, excess, read_answers, share_of,  # noqa: E402
                         trial)
from redis import Redis  # noqa: E402
from shared_store import PATIENT, RedisFixture, weir  # noqa: E402
from weir_server import PATIENCE, TREE, command, run, test, wait_until  # noqa: E402

POLICIES = TRIED + """\
  month:  {limit: 5000 per month, by: user, lease: {ttl: 2s, most: 100}}
  first:  {limit: 5000 per 1h, by: user, algorithm: fixed_window, start: first, lease: on}
  tokens: {limit: 9000 per 52w, by: user, algorithm: fixed_window, counts: tokens, lease: on}
  long:   {limit: 9000 per 52w, by: user, algorithm: fixed_window, lease: {ttl: 60s}}
  plain:  {limit: 9000 per 52w, by: user, algorithm: fixed_window}
  calm:   {limit: 9000 per 52w, by: user, lease: {ttl: 8s}}
  plans:
    limit: 5000 per 52w
    by: user
    algorithm: fixed_window
    lease: on
    plans: {small: 3 per 52w}
  drip:   {limit: 5000 per 52w, by: user, algorithm: token_bucket, lease: on}
  queue:  {limit: 5000 per 52w, by: user, algorithm: leaky_bucket, lease: on}
  slid:   {limit: 5000 per 52w, by: user, lease: on}
  fading: {limit: 5000 per 52w, by: user, algorithm: sliding_counter, lease: on}
  mixed:
    rules:
      all:  {limit: 6000 per 52w, algorithm: token_bucket, lease: on}
      user: {limit: 4000 per 52w, by: user, lease: on}
  two:
    algorithm: fixed_window
    rules:
      all:  {limit: 6000 per 52w, lease: on}
      user: {limit: 4000 per 52w, by: user, lease: on}
  half:
    algorithm: fixed_window
    rules:
      all:  {limit: 6000 per 52w, lease: on}
      user: {limit: 4000 per 52w, by: user}
  tried:  {limit: 5000 per 52w, by: user, algorithm: fixed_window, mode: shadow, lease: on}
  beside: {limit: 5000 per 52w, by: user, algorithm: fixed_window, shadow_limit: 10 per 52w, lease: on}
  partly: {limit: 5000 per 52w, by: user, rollout: 1%, lease: on}
"""


TOO_BUSY = "the machine is too busy to ask for more than the limits"


class Home(RedisFixture):
    """A Redis of its own, and servers that share it."""

    policies = POLICIES

    def __init__(self, parameters=PATIENT, **options):
        redis = Redis(**options)
        super().__init__(redis, redis.url, parameters)


class WatchedHome(lease_homes.WatchedHome):
    policies = POLICIES


class ClusterHome(lease_homes.ClusterHome):
    policies = POLICIES


class PairHome(lease_homes.PairHome):
    policies = POLICIES


class PostgresHome(postgres_fixture.Fixture):
    policies = POLICIES


def metric(server, name):
    text = server.http("GET", "/metrics")[2].decode()
    return int(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])


def sources_of(server, policy, user, count, *words):
    """Ask in a row: (allowed, by source)."""
    with socket.create_connection(server.address, timeout=PATIENCE) as sock, \
            sock.makefile("rb") as stream:
        sock.sendall(command("WEIR.CHECK", policy, user, *words) * count)
        return read_answers(stream, count)


def heat(server, policy="year", user="ann", *words):
    """Ask until a chunk is there: how many were let in."""
    total = 0

    def is_leased():
        nonlocal total
        allowed, sources = sources_of(server, policy, user, 20, *words)
        total += allowed
        return sources["lease"] > 0
    wait_until(is_leased, "a lease")
    return total


def returned(*servers):
    for server in servers:
        wait_until(lambda: metric(server, "weir_leases") == 0, "leases to be returned")


def remaining(server, policy="year", user="ann"):
    return server.http("POST", "/v1/peek", {"policy": policy, "key": user})[2]["remaining"]


def uses_all(servers, limit, policy, user, total, *words, cost=1):
    """Ask until all are denied and nothing is leased: so much was let in, all in all. Less only by what
    came back too late, from a server that had to wait for its turn on a busy machine. What is given back
    may still be on its way to the store when nothing is leased."""
    stranded = 0
    for _ in range(200):
        returned(*servers)
        some = [sources_of(server, policy, user, 1000, *words)[0] for server in servers]
        total += sum(some)
        stranded = sum(metric(server, "weir_lease_units_stranded_total") for server in servers)
        if not any(some) and total * cost + stranded >= limit:
            break
    print(f"# {total * cost} of {limit}, {stranded} stranded")
    assert limit - stranded <= total * cost <= limit, (policy, total, stranded)


# ---- the contract ----------------------------------------------------------------------------


def admits_exactly_the_limit(home, count=3):
    with home:
        servers = [home.serve() for _ in range(count)]
        for server in servers:
            heat(server, user="other")
        callers = Callers([server.address for server in servers], ["year"], 60, most=YEAR // 4)
        told, sources = callers.finish()
        print(f"# {dict(sources)}")
        assert excess(told, YEAR, 1 << 60) <= 0
        assert sources["lease"] > sources["store"], sources
        hot = sum(one.allowed for one in told if one.key == "hot")
        uses_all(servers, YEAR, "year", "hot", hot)
        for server in servers:
            units = [metric(server, f"weir_lease_units_{what}_total")
                     for what in ("granted", "spent", "returned", "stranded")]
            assert units[0] == sum(units[1:]), units


@test
def servers_that_share_a_redis_admit_exactly_the_limit():
    admits_exactly_the_limit(Home())


@test
def servers_that_share_a_cluster_admit_exactly_the_limit():
    admits_exactly_the_limit(ClusterHome())


@test
def servers_that_share_a_postgres_admit_exactly_the_limit():
    admits_exactly_the_limit(PostgresHome(), 2)


@test
def steady_load_uses_the_limit_of_each_window_and_never_more():
    with Home() as home:
        tried = trial(home, 3, 4, [])
        assert min(tried.shares, default=1) >= 0.97, tried.shares
        for policy in ("token", "leaky"):
            if not is_denied(tried.told, policy):
                return TOO_BUSY
            share = share_of(tried.told, policy, "hot")
            assert share >= 0.97, (policy, share)
    return None


def is_denied(told, policy):
    return any(one.denied for one in told if (one.policy, one.key) == (policy, "hot"))


def denies_only_what_is_full(home):
    """How full each was when it denied, with what a server that had to wait could not give back."""
    with home:
        servers = [home.serve() for _ in range(3)]
        callers = Callers([server.address for server in servers], ["log", "counter"], 60,
                          most=3 * SLIDING // 4, keys=1)
        told, _ = callers.finish()
        stranded = sum(metric(server, "weir_lease_units_stranded_total") for server in servers)
        for policy in ("log", "counter"):
            if not is_denied(told, policy):
                return TOO_BUSY
            share = share_of(told, policy, "hot")
            print(f"# {policy}: {share:.1%}, {stranded} units stranded")
            assert share >= 0.97 - stranded / SLIDING, (policy, share, stranded)
    return None


@test
def sliding_windows_and_counters_deny_only_when_they_are_full():
    return denies_only_what_is_full(Home())


@test
def sliding_windows_and_counters_of_a_postgres_deny_only_when_they_are_full():
    return denies_only_what_is_full(PostgresHome())


@test
def servers_that_are_killed_stopped_or_set_never_exceed_a_limit():
    with Home() as home:
        trial(home, 3, 7, ["step", "stop", "kill"])


@test
def servers_of_a_postgres_that_are_killed_stopped_or_set_never_exceed_a_limit():
    with PostgresHome() as home:
        trial(home, 3, 7, ["step", "stop", "kill"])


@test
def no_limit_is_exceeded_when_the_store_is_restarted():
    with Home(appendonly="yes", appendfsync="always") as home:
        trial(home, 3, 4, ["store"])


@test
def no_limit_is_exceeded_when_a_postgres_crashes_and_when_its_standby_is_promoted():
    with PairHome() as home:
        trial(home, 3, 8, ["restart", "take_over"])


@test
def no_limit_is_exceeded_in_a_cluster_whose_slots_move_and_whose_replicas_are_promoted():
    with ClusterHome() as home:
        trial(home, 3, 10, ["kill", "move", "promote"])


@test
def no_limit_is_exceeded_when_a_replica_that_is_waited_for_is_promoted():
    with WatchedHome() as home:
        trial(home, 3, 8, ["failover"])


# ---- refusals, and what is told --------------------------------------------------------------


@test
def denials_and_their_waits_are_the_stores():
    with Home() as home:
        server = home.serve()
        uses_all([server], YEAR, "year", "ann", heat(server))
        answer = server.check("year", "ann")
        assert not answer["allowed"] and answer["source"] in ("store", "cache"), answer
        wait = server.http("POST", "/v1/peek", {"policy": "year", "key": "ann"})[2]["retry_after_ms"]
        assert 0 <= answer["retry_after_ms"] - wait < 30000, (answer, wait)


@test
def remaining_is_what_is_left_of_the_chunk_and_never_too_much():
    with Home() as home:
        server = home.serve()
        heat(server)

        def leased():
            answer = server.check("year", "ann")
            return answer if answer["source"] == "lease" else None
        answer = wait_until(leased, "an answer from a lease")
        assert answer["allowed"] and answer["limit"] == YEAR, answer
        returned(server)
        assert 0 <= answer["remaining"] <= remaining(server), answer


@test
def every_kind_of_window_and_amount_is_leased_and_counted_exactly():
    with Home() as home:
        server = home.serve()
        for policy, limit, words, cost in (("month", 5000, (), 1), ("first", 5000, (), 1),
                                           ("tokens", 9000, ("COST", "tokens", "3"), 3),
                                           ("drip", 5000, (), 1), ("queue", 5000, (), 1),
                                           ("slid", 5000, (), 1), ("fading", 5000, (), 1),
                                           ("two", 4000, (), 1), ("mixed", 4000, (), 1)):
            words = ("user=ann", *words) if policy in ("two", "mixed") else ("ann", *words)
            total = heat(server, policy, *words)
            uses_all([server], limit, policy, words[0], total, *words[1:], cost=cost)


@test
def what_was_answered_from_chunks_is_counted_as_used():
    with Home() as home:
        server = home.serve()
        total = heat(server, "tokens", "ann", "COST", "tokens", "3")
        text = server.http("GET", "/metrics")[2].decode()
        used = sum(int(line.split()[1]) for line in text.splitlines()
                   if line.startswith('weir_used_total{policy="tokens"'))
        assert used == 3 * total, (used, total)


@test
def requests_that_differ_in_their_key_alone_count_under_the_same_keys_as_others():
    """Of a pipeline only the first is parsed. There are more keys than a loop remembers."""
    with Home() as home:
        server = home.serve()
        users = [f"user-{n}" for n in range(700)]
        with socket.create_connection(server.address, timeout=PATIENCE) as sock, \
                sock.makefile("rb") as stream:
            for _ in range(3):
                sock.sendall(b"".join(command("WEIR.CHECK", "plain", user) for user in users))
                assert read_answers(stream, len(users))[0] == len(users)
        other = home.serve()
        for user in users[::13]:
            answer = other.http("POST", "/v1/peek", {"policy": "plain", "attributes": {"user": user}})[2]
            assert answer["remaining"] == 9000 - 3, (user, answer)


# ---- what recalls a chunk --------------------------------------------------------------------


def recalls(servers, verb, policy):
    """Is a chunk given back by what the other server is told, before it would be for its age?"""
    heat(servers[0], policy)
    servers[1].http("POST", f"/v1/{verb}", {"policy": policy, "key": "ann"})
    before = metric(servers[0], "weir_lease_requests_total")
    answers = [servers[0].check(policy, "ann")["source"] for _ in range(20)]
    return "store" in answers and metric(servers[0], "weir_lease_requests_total") > before


def recalls_chunks(home, *policies):
    with home:
        servers = [home.serve() for _ in range(2)]
        for policy, limit in policies:
            for verb in ("refund", "reset"):
                wait_until(lambda: recalls(servers, verb, policy),
                           "a chunk that is recalled while it is used")
            servers[0].http("POST", "/v1/reset", {"policy": policy, "key": "ann"})
            uses_all(servers, limit, policy, "ann", 0)


@test
def refunds_and_resets_anywhere_recall_a_chunk():
    recalls_chunks(Home(), ("year", YEAR), ("drip", 5000), ("slid", 5000))


@test
def refunds_and_resets_anywhere_recall_a_chunk_of_a_cluster():
    recalls_chunks(ClusterHome(), ("drip", 5000))


@test
def refunds_and_resets_anywhere_recall_a_chunk_of_a_postgres():
    recalls_chunks(PostgresHome(), ("slid", 5000))


def holds_beside_leases(home):
    """What is reserved and what is leased of one key add up, and so does what is charged."""
    with home:
        server = home.serve()
        for policy in ("drip", "queue", "slid", "fading"):
            total = heat(server, policy)
            held = [server.http("POST", "/v1/reserve", {"policy": policy, "key": "ann", "ttl_ms": 600000,
                                                        "costs": {"requests": 100}})[2]["reservation"]
                    for _ in range(2)]
            total += heat(server, policy)
            server.http("POST", "/v1/commit", {"reservation": held[0], "costs": {"requests": 40}})
            total += heat(server, policy)
            server.http("POST", "/v1/charge", {"policy": policy, "key": "ann", "cost": 7})
            server.http("POST", "/v1/release", {"reservation": held[1]})
            uses_all([server], 5000, policy, "ann", total + 47)


@test
def reservations_and_charges_beside_leases_are_counted_exactly():
    holds_beside_leases(Home())


@test
def reservations_and_charges_beside_leases_are_counted_exactly_in_a_postgres():
    holds_beside_leases(PostgresHome())


@test
def without_the_store_nothing_is_spent_and_on_error_decides():
    with Home("deadline=200ms") as home:
        server = home.serve()
        heat(server, "long")
        home.redis.kill()
        wait_until(lambda: server.check("long", "ann")["source"] == "fallback", "the fallback")
        assert "lease" not in sources_of(server, "long", "ann", 50)[1]
        home.redis.start()
        heat(server, "long")


@test
def a_reload_an_override_and_a_block_recall_chunks():
    with Home() as home:
        server = home.serve()
        heat(server)
        home.config.write_text(POLICIES.replace(f"{YEAR} per 52w", "30 per 52w"))
        assert server.http("POST", "/v1/reload", {})[0] == 200
        assert not server.check("year", "ann")["allowed"]
        home.config.write_text(POLICIES)
        assert server.http("POST", "/v1/reload", {})[0] == 200
        heat(server)
        status = server.http("PUT", "/v1/overrides", {"policy": "year", "key": "ann",
                                                      "effect": "block"})
        assert status[0] in (200, 201), status
        answer = wait_until(lambda: next((a for a in [server.check("year", "ann")]
                                          if not a["allowed"]), None), "the block")
        assert answer["source"] == "blocked", answer


def change(server, method, path, body):
    status, _, said = server.http(method, path, body)
    assert status in (200, 201), (path, body, status, said)


@test
def what_an_operator_changes_elsewhere_holds_for_what_was_leased_before():
    """A smaller limit, an exemption, an assigned plan and a mode end what another server has leased, and
    what was spent before still counts."""
    with Home() as home:
        here, there, policy = home.serve(), home.serve(), "plans"
        for path, body, wanted in (
                ("/v1/overrides", {"policy": "plans", "key": "a", "limit": 10}, (False, "store")),
                ("/v1/overrides", {"policy": "plans", "key": "b", "effect": "exempt"}, (True, "exempt")),
                ("/v1/plans", {"attributes": {"user": "c"}, "plan": "small"}, (False, "store")),
                ("/v1/policies/plans/mode", {"mode": "off"}, (True, "off"))):
            user = body.get("key") or next(iter(body.get("attributes", {"": "d"}).values()))
            total = heat(here, policy, user)
            change(there, "POST" if path.endswith("mode") else "PUT", path, body)

            def is_in_force():
                nonlocal total
                answer = here.check(policy, user)
                total += answer["source"] in ("lease", "store") and answer["allowed"]
                source = "store" if answer["source"] == "cache" else answer["source"]
                return (answer["allowed"], source) == wanted
            wait_until(is_in_force, path)
            _, sources = sources_of(here, policy, user, 50)
            assert "lease" not in sources, (path, sources)
            if user == "a":  # without it, all that was let in counts, and no more
                returned(here)
                number = there.http("GET", "/v1/overrides", None)[2]["overrides"][0]["id"]
                change(there, "DELETE", f"/v1/overrides?id={number}", None)
                wait_until(lambda: remaining(here, policy, user) == 5000 - total, "the limit as it was")


@test
def a_check_with_an_id_is_the_stores_and_charged_once():
    with Home() as home:
        server = home.serve()
        total = heat(server, "long")
        answers = [server.check("long", "ann", id="once") for _ in range(3)]
        assert {answer["source"] for answer in answers} == {"store"}, answers
        uses_all([server], 9000, "long", "ann", total + 1)


@test
def a_denial_of_more_than_is_left_does_not_stop_what_a_chunk_still_has():
    with Home() as home:
        server = home.serve()
        heat(server, "long")
        assert metric(server, "weir_leases") > 0
        answer = server.check("long", "ann", cost=9000)
        assert not answer["allowed"] and answer["source"] == "store", answer
        assert server.check("long", "ann", cost=9000)["source"] == "cache"
        answer = server.check("long", "ann")
        assert answer["allowed"] and answer["source"] == "lease", answer


@test
def the_fallback_has_counted_what_was_spent_of_chunks():
    with Home("deadline=200ms") as home:
        server = home.serve()
        total = heat(server, "long") + heat(server, "long")
        home.redis.kill()

        def local():
            answer = server.http("POST", "/v1/peek", {"policy": "long", "key": "ann"})[2]
            return answer if answer["source"] == "fallback" else None
        assert wait_until(local, "the fallback")["remaining"] == 9000 - total


# ---- what is given back ----------------------------------------------------------------------


@contextlib.contextmanager
def stopped(home, server):
    home.servers.remove(server)
    assert server.stop() == 0
    yield


@contextlib.contextmanager
def drained(home, server):
    """While a client is still there, which hangs up in the end."""
    with server.connect() as sock, sock.makefile("rb") as stream:
        sock.sendall(command("PING"))
        assert stream.readline() == b"+PONG\r\n"
        home.servers.remove(server)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("draining")
    assert server.process.wait(PATIENCE) == 0
    yield


@contextlib.contextmanager
def replaced(home, server):
    home.servers.remove(server)
    with handed_over(server):
        yield


@contextlib.contextmanager
def reloaded(_, server):
    assert server.http("POST", "/v1/reload", {})[0] == 200
    yield


@contextlib.contextmanager
def idle(*_):
    yield


def gives_back(home, ends):
    """All that is left of chunks that could last for long, to the unit: then others can have it."""
    with home:
        other = home.serve()
        for user, end in enumerate(ends):
            server = home.serve()
            policy = "calm" if end is idle else "long"
            total = heat(server, policy, user)
            assert metric(server, "weir_leases") > 0
            assert remaining(other, policy, user) < 9000 - total
            with end(home, server):
                wait_until(lambda: remaining(other, policy, user) == 9000 - total, end.__name__)
                assert heat(other, policy, user) > 0
            if server in home.servers:
                assert metric(server, "weir_lease_units_stranded_total") == 0


@test
def chunks_go_back_at_the_end_at_a_handover_at_a_reload_and_when_they_are_not_used():
    gives_back(Home(), [stopped, drained, replaced, reloaded, idle])


@test
def chunks_of_a_postgres_go_back_at_the_end_at_a_handover_at_a_reload_and_when_they_are_not_used():
    gives_back(PostgresHome(), [stopped, drained, replaced, reloaded, idle])


@test
def a_program_with_the_library_leases_and_gives_back_when_it_closes():
    with Home() as home:
        server = home.serve()
        total = leased = 0

        def is_leased():
            nonlocal total, leased
            done = subprocess.run([TREE / "tests" / "library_caller", home.config, home.url, "long",
                                   "ann", "1500"], capture_output=True, text=True, check=True,
                                  timeout=PATIENCE)
            total, leased = (a + int(b) for a, b in zip((total, leased), done.stdout.split()))
            return leased > 0
        wait_until(is_leased, "an answer from a lease")
        assert remaining(server, "long") == 9000 - total


# ---- what has none ---------------------------------------------------------------------------


@test
def a_plan_shadows_and_rules_without_leases_are_asked_of_the_store():
    with Home() as home:
        server = home.serve()
        for policy, words in (("plain", ("ann",)), ("half", ("user=ann",)), ("tried", ("ann",)),
                              ("beside", ("ann",))):
            _, sources = sources_of(server, policy, words[0], 500, *words[1:])
            assert set(sources) == {"store"}, (policy, sources)
        # One of a hundred has the limit enforced, and may lease; who that is, the secret says.
        asked = [set(sources_of(server, "partly", user, 500)[1]) for user in ("ann", "bob", "cid")]
        assert {"store"} in asked, asked
        heat(server, "plans")
        allowed, sources = sources_of(server, "plans", "ann", 50, "PLAN", "small")
        assert allowed == 0 and "lease" not in sources, sources
        for verb in ("peek", "charge"):
            assert server.http("POST", f"/v1/{verb}", {"policy": "plans", "key": "ann"})[2]["source"] \
                == "store"


@test
def what_cannot_be_leased_is_refused_when_the_policies_are_loaded():
    with Home() as home:
        for text, what in (("{limit: 5 per 9s, lease: on}", "a lease of a sliding_window needs a window of 10s or more"),
                           ("{limit: 5 per 1s, algorithm: sliding_counter, lease: on}", "a lease of a sliding_counter needs"),
                           ("{limit: 5 at once, lease: on}", "not of a concurrency"),
                           ("{limit: 5 per 1m, algorithm: fixed_window, block_for: 1m, lease: on}", "block_for"),
                           ("{limit: 5 per 1m, algorithm: fixed_window, lease: {ttl: 1ms}}", "from 500ms to 60s"),
                           ("{limit: 5 per 1m, algorithm: fixed_window, lease: maybe}", "lease")):
            home.config.write_text(f"version: 1\npolicies:\n  p: {text}\n")
            said = weir("policy", "lint", str(home.config))
            assert said.returncode != 0 and what in said.stdout + said.stderr, (text, said)


@test
def a_store_of_one_process_has_no_use_for_leases():
    with Home() as home:
        server = home.serve(store="memory:")
        assert set(sources_of(server, "year", "ann", 500)[1]) == {"store"}


adopt_orphans()
try:
    run()
finally:
    postgres_fixture.close_cluster()
