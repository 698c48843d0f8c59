#!/usr/bin/env python3
"""test_faults.py - a shared store fails in every way there is, under every on_error.

    test_faults.py TREE      from the root of the source

Of each fault it is told what the callers got, how long the slowest of them waited, how much was let
in beyond the limit, and how long it took to be back. Both stores are tried at once.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, "tests/support")
from faulty_stores import FaultyPostgres, FaultyRedis  # noqa: E402
from proxy import Proxy  # noqa: E402
from weir_server import PATIENCE, WEIR, Folder, Server, run, test, wait_until  # noqa: E402
from stalls import Stalls  # noqa: E402

DEADLINE = 0.25   # seconds
MARGIN = 0.2      # for a busy machine; less than a second deadline
RECOVERY = 25.0   # it takes a second or two on one that is not
LIMIT, INSTANCES, BEFORE, ASKED = 10, 2, 3, 15
SHARE = LIMIT // INSTANCES
LOADED = 5        # seconds
RATE = int(os.environ.get("WEIR_TEST_RATE", "1000"))  # requests a second under load
POLICIES = f"""
version: 1
fallback: {{instances: {INSTANCES}, after_errors: 3}}
policies:
  allow: {{limit: {LIMIT} per 1d, by: user, on_error: allow}}
  deny:  {{limit: {LIMIT} per 1d, by: user, on_error: deny}}
  local: {{limit: {LIMIT} per 1d, by: user, on_error: local}}
  much:  {{limit: 1000000 per 1d, by: user, on_error: local}}
"""
FAULTS = ["killed", "hung", "slow", "reset in mid-answer", "restarted empty", "cut off"]


class Proxied:
    """A store, and a proxy before it for what the store itself cannot be made to do."""

    def __init__(self, store):
        self.store = store
        self.proxy = Proxy(store.address)
        self.url = store.url_at(self.proxy.port)

    def close(self):
        self.proxy.close()
        self.store.close()


def in_postgres():
    return Proxied(FaultyPostgres(fsync="off", max_connections=60))


def in_redis():
    return Proxied(FaultyRedis(appendfsync="always"))


def break_it(proxied, fault):
    if fault in ("killed", "restarted empty"):
        proxied.store.kill()
    elif fault == "hung":
        proxied.store.stop()
    else:
        proxied.proxy.mode = {"slow": "slow", "reset in mid-answer": "reset",
                              "cut off": "cut"}[fault]


def mend_it(proxied, fault):
    if fault == "restarted empty":
        proxied.proxy.mode = "cut"  # so that no server sees the old data
        proxied.store.start()
        proxied.store.forget()
    elif fault == "killed":
        proxied.store.start()
    elif fault == "hung":
        proxied.store.go_on()
    proxied.proxy.mode = "pass"


class Asking:
    """A client of one server that measures how long each answer took."""

    def __init__(self, server):
        self.server, self.slowest = server, 0.0

    def __call__(self, policy, user):
        begin = time.monotonic()
        answer = self.server.check(policy, user)
        self.slowest = max(self.slowest, time.monotonic() - begin)
        return answer

    def often(self, policy, user, times):
        return [self(policy, user) for _ in range(times)]

    def is_counted(self):
        return all(self("allow", "probe")["source"] != "fallback" for _ in range(5))


def admitted(answers):
    return sum(answer["allowed"] for answer in answers)


def serve(store, folder, **more):
    config = folder / "policies.yaml"
    config.write_text(POLICIES)
    return Server(store=f"{store.url}?deadline={DEADLINE * 1000:.0f}ms", config=config, **more)


def try_out(store, fault):
    """All that is worth knowing of one fault."""
    user, facts = fault.replace(" ", "-"), {}
    with Folder() as folder, serve(store, folder, threads=1) as server:
        ask = Asking(server)
        wait_until(ask.is_counted, "the store")
        before = {policy: admitted(ask.often(policy, user, BEFORE))
                  for policy in ("allow", "deny", "local")}
        break_it(store, fault)
        try:
            wait_until(lambda: ask("allow", "probe")["source"] == "fallback", "on_error")
            ask.slowest = 0.0
            during = {policy: ask.often(policy, user, ASKED) for policy in before}
            facts["slowest"] = ask.slowest
            facts["ready"] = server.http("GET", "/readyz")
        finally:
            mend_it(store, fault)
        begin = time.monotonic()
        wait_until(ask.is_counted, "the store")
        facts["recovery"] = time.monotonic() - begin
        after = {policy: admitted(ask.often(policy, user, 2 * LIMIT)) for policy in before}
        facts["lines"] = [line["message"] for line in server.log.events("store")]
        facts["sources"] = {answer["source"] for answers in during.values() for answer in answers}
        facts["during"] = {policy: admitted(answers) for policy, answers in during.items()}
        facts["total"] = {policy: before[policy] + facts["during"][policy] + after[policy]
                          for policy in before}
        assert server.stop() == 0
    return facts


def try_all(kind):
    store = kind()
    try:
        return {fault: try_out(store, fault) for fault in FAULTS}
    finally:
        store.close()


pool = concurrent.futures.ThreadPoolExecutor(2)
found = {}


def facts_of(kind, fault):
    if not found:
        found.update({each: pool.submit(try_all, each) for each in (in_postgres, in_redis)})
    return found[kind].result()[fault]


def hold(kind, fault):
    """Bounds: `deny` lets in no more than the limit, `local` its share of it beside that, and each
    once more if the store has forgotten all."""
    facts = facts_of(kind, fault)
    again = LIMIT if fault == "restarted empty" else 0
    during, total = facts["during"], facts["total"]
    bound = {"deny": LIMIT + again, "local": LIMIT + SHARE + again}
    print(f"# let in of {ASKED} meanwhile: allow {during['allow']}, deny {during['deny']}, local "
          f"{during['local']}; in all: deny {total['deny']} of at most {bound['deny']}, local "
          f"{total['local']} of at most {bound['local']}; slowest answer "
          f"{facts['slowest'] * 1000:.0f} ms, back after {facts['recovery'] * 1000:.0f} ms")
    assert facts["sources"] == {"fallback"}, facts
    assert during["allow"] == ASKED and during["deny"] == 0, facts
    assert during["local"] <= SHARE - BEFORE, facts  # it knows what the store has let in
    assert total["deny"] <= bound["deny"] and total["local"] <= bound["local"], facts
    assert facts["slowest"] < DEADLINE + MARGIN, facts
    assert facts["recovery"] < RECOVERY, facts
    status, _, ready = facts["ready"]
    assert status == 503 and ready["store"] == "failed", ready
    assert ready["breaker"]["state"] in ("open", "partly_open"), ready
    assert sum("on_error decides until it is back" in line for line in facts["lines"]) >= 1, facts
    assert len(facts["lines"]) < 20, facts["lines"]  # for a change, not for a request


def add_tests():
    for kind, name in ((in_postgres, "postgres"), (in_redis, "redis")):
        for fault in FAULTS:
            def one(kind=kind, fault=fault):
                hold(kind, fault)
            one.__name__ = f"{name} {fault}"
            test(one)


def resident(server):
    with open(f"/proc/{server.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def put_load_on(server):
    return subprocess.Popen(
        [WEIR, "bench", "--server", f"resp://127.0.0.1:{server.port}", "--policy", "much",
         "--keys", "1000", "--rate", str(RATE), "--duration", f"{LOADED}s", "--json",
         # As many under way as wait at once when each waits for the deadline, and some more.
         "--connections", "10", "--pipeline", str(max(100, RATE // 10))],
        stdout=subprocess.PIPE, text=True)


def is_ready(server):
    return server.http("GET", "/readyz")[0] == 200


def suffer(proxied, server, fault):
    """What callers say of a server whose store fails and is mended, by how much it grew, and for how
    many ms the machine let others wait meanwhile."""
    bench, stalls = put_load_on(server), Stalls(LOADED)
    time.sleep(1)  # of load, not for anything to become true
    memory = resident(server)
    break_it(proxied, fault)
    try:
        wait_until(lambda: not is_ready(server), "the breaker")
        time.sleep(0.5)
    finally:
        mend_it(proxied, fault)
    wait_until(lambda: is_ready(server), "the store")
    said, _ = bench.communicate(timeout=PATIENCE)
    return json.loads(said), resident(server) - memory, stalls.worst()


def is_in_time(report, stalled):
    """All were sent, and answered. Both the server and the client need CPU time."""
    late = min(0.005 + 2 * stalled / 1000, MARGIN)
    return report["requests"] >= LOADED * RATE - 1 and report["latency_us"]["p99"] < (DEADLINE + late) * 1e6


def suffer_undisturbed(proxied, server, fault):
    """Again, if the machine stalled, which hides how long the server makes callers wait, or if callers
    waited for a machine that is busy: a server that is slow by itself is slow each time."""
    for _ in range(4):
        found = report, _, stalled = suffer(proxied, server, fault)
        if stalled < MARGIN / 4 * 1000 and is_in_time(report, stalled):
            break
    return found


def put_under_load(kind):
    proxied = kind()
    try:
        with Folder() as folder, serve(proxied.store, folder, threads=1) as server:
            wait_until(Asking(server).is_counted, "the store")
            return {fault: suffer_undisturbed(proxied, server, fault) for fault in ("killed", "hung")}
    finally:
        proxied.close()


loaded = {}


def hold_under_load(kind):
    if not loaded:
        for each in found.values():
            each.result()  # that load must not disturb them
        loaded.update({each: pool.submit(put_under_load, each) for each in (in_postgres, in_redis)})
    for fault, (report, grown, stalled) in loaded[kind].result().items():
        latency = report["latency_us"]
        print(f"# {fault}: {report['requests']} answered, {report['lost']} not; p50 "
              f"{latency['p50'] / 1000:.1f} ms, p99 {latency['p99'] / 1000:.1f} ms, max "
              f"{latency['max'] / 1000:.1f} ms; memory grew by {grown >> 10} KiB; the machine let "
              f"others wait for {stalled:.1f} ms")
        assert report["errors"] == report["lost"] == report["denied"] == 0, report
        assert is_in_time(report, stalled), (report, stalled)
        assert grown < 16 << 20, grown


THREADS = 3


def open_all_breakers(server):
    """Ask until no thread waits any more."""
    askers = concurrent.futures.ThreadPoolExecutor(8)

    def all_are_open():
        list(askers.map(lambda n: server.check("deny", f"opener-{n}"), range(16)))
        return server.http("GET", "/readyz")[2]["breaker"]["open"] == THREADS
    wait_until(all_are_open, "every breaker")
    askers.shutdown()


def get_ready_again(kind):
    """Seconds from the store's recovery until an idle server is ready again."""
    proxied, took = kind(), {}
    try:
        with Folder() as folder, serve(proxied, folder, threads=THREADS) as server:
            wait_until(Asking(server).is_counted, "the store")
            for fault in ("hung", "cut off", "killed"):
                break_it(proxied, fault)
                try:
                    open_all_breakers(server)
                finally:
                    mend_it(proxied, fault)
                begin = time.monotonic()
                wait_until(lambda: is_ready(server), f"a server whose store was {fault}")
                took[fault] = time.monotonic() - begin
                assert server.http("GET", "/readyz")[2]["breaker"]["open"] == 0
            assert server.stop() == 0
    finally:
        proxied.close()
    return took


def hold_without_traffic(kind):
    stalls = Stalls(5)
    took = get_ready_again(kind)
    print("# ready again after " + ", ".join(f"{seconds * 1000:.0f} ms ({fault})"
                                             for fault, seconds in took.items()))
    assert max(took.values()) < 2.5 + 10 * stalls.worst() / 1000, took


add_tests()


@test
def an_idle_server_is_ready_soon_after_its_postgres_is():
    hold_without_traffic(in_postgres)


@test
def an_idle_server_is_ready_soon_after_its_redis_is():
    hold_without_traffic(in_redis)


@test
def under_steady_load_all_requests_are_answered_while_postgres_crashes_hangs_and_restarts():
    hold_under_load(in_postgres)


@test
def under_steady_load_all_requests_are_answered_while_redis_crashes_hangs_and_restarts():
    hold_under_load(in_redis)


run()
