"""held.py - for end-to-end tests: reservations of servers that share a store, and that are killed.

Each function is given a fixture (shared_store.Fixture) whose servers can be killed. WEIR_TEST_HELD
is how long they go on, in percent: 100 in ./dev test; the full numbers are in each.
"""
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time

from weir_server import PATIENCE, wait_until

LENGTH = int(os.environ.get("WEIR_TEST_HELD", 100))
POLICIES = """
version: 1
policies:
  slots: {limit: 7 at once}
  jobs:
    rules:
      all:  {limit: 1000000 per 1d, algorithm: fixed_window}
      each: {limit: 1000000 per 1d, by: user, algorithm: token_bucket}
"""
KINDS = ("fixed_window", "sliding_window", "sliding_counter", "token_bucket", "leaky_bucket")


def dice_of(name):
    seed = int(os.environ.get("WEIR_TEST_SEED", 0)) or random.SystemRandom().randrange(1 << 32)
    print(f"# {name}: seed {seed}")
    return random.Random(seed)


class Caller:
    """One connection to a server, for many questions."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(*address, timeout=PATIENCE)

    def ask(self, verb, body):
        self.connection.request("POST", f"/v1/{verb}", json.dumps(body))
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self):
        self.connection.close()


# ---- an answer that is lost ----------------------------------------------------------------------

def ask_and_kill(server, body, after):
    """Send it and kill the server, maybe before it has charged, maybe after."""
    text = json.dumps(body).encode()
    with socket.create_connection(server.address, timeout=PATIENCE) as one:
        one.sendall(b"POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(text), text))
        time.sleep(after)
        server.kill()
        try:
            return b'"source":"store"' in one.recv(4096)
        except OSError:
            return False


def a_lost_answer_is_charged_once(fixture):
    """A server is killed between charge and answer. The same question, under the same id, is
    charged once, wherever it is asked again. 200 kills at a WEIR_TEST_HELD of 2000."""
    fixture.config.write_text(POLICIES)
    dice, kills = dice_of("kills"), max(1, 10 * LENGTH // 100)
    other, users = fixture.serve(), {}
    answered = repeated = 0
    for i in range(kills):
        user, cost = f"u{i % 5}", dice.randrange(1, 9)
        body = {"policy": "jobs", "attributes": {"user": user}, "cost": cost, "ttl_ms": 600_000,
                "id": f"job-{i}"}
        victim = fixture.serve(threads=1)
        wait_until(lambda v=victim: v.http("POST", "/v1/peek", {"policy": "slots"})[2]["source"]
                   == "store", "the store")
        answered += ask_and_kill(victim, body, dice.choice((0, 0.0005, 0.001, 0.002, 0.005)))
        fixture.servers.remove(victim)
        status, _, answer = other.http("POST", "/v1/reserve", body)
        assert status == 200 and answer["allowed"] and answer["source"] == "store", answer
        repeated += answer["repeated"]
        assert other.http("POST", "/v1/reserve", body)[2]["repeated"]
        users[user] = users.get(user, 0) + cost
    assert repeated >= answered
    print(f"# {kills} kills: {answered} answers came, {repeated} had been charged")
    for user, counted in users.items():
        rules = other.http("POST", "/v1/peek", {"policy": "jobs",
                                                "attributes": {"user": user}})[2]["rules"]
        used = [1_000_000 - rule["remaining"] for rule in rules]
        assert used[0] == sum(users.values()), (used, users)
        # A bucket of a million a day drains one in 86 ms: it never has more.
        assert used[1] <= counted, (used, counted)


# ---- slots of a cluster that move ----------------------------------------------------------------

def settled_exactly(servers, steps, meanwhile):
    """Reserve, grow and settle at random while something else goes on. In the end each rule has
    counted what was used, no more and no less."""
    dice = dice_of("moves")
    users, problems, lock = {}, [], threading.Lock()

    def work(server, seed):
        dice, caller = random.Random(seed), Caller(server.address)

        def ask(verb, **body):
            status, answer = caller.ask(verb, body)
            assert status == 200 and answer["source"] == "store", (verb, answer)
            return answer
        try:
            for _ in range(steps):
                user, used = f"u{dice.randrange(6)}", dice.randrange(12)
                one = ask("reserve", policy="jobs", attributes={"user": user}, cost=5,
                          ttl_ms=600_000)["reservation"]
                if dice.random() < 0.3:
                    ask("grow", reservation=one, cost=3)
                ask("commit", reservation=one, cost=used)
                with lock:
                    users[user] = users.get(user, 0) + used
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(problem)
        finally:
            caller.close()
    threads = [threading.Thread(target=work, args=(server, dice.randrange(1 << 32)))
               for server in servers for _ in range(4)]
    for thread in threads:
        thread.start()
    meanwhile()
    for thread in threads:
        thread.join()
    assert not problems, problems
    for user, used in users.items():
        rules = servers[0].http("POST", "/v1/peek", {"policy": "jobs",
                                                     "attributes": {"user": user}})[2]["rules"]
        counted = [1_000_000 - rule["remaining"] for rule in rules]
        assert counted[0] == sum(users.values()), (counted, users)
        assert counted[1] <= used, (counted, used)


# ---- slots ---------------------------------------------------------------------------------------

WORKER = """
import http.client, json, random, sys, threading, time
ports, seed, until = json.loads(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

def work(n):
    dice = random.Random(seed * 100 + n)
    while time.time() < until:
        try:
            one = http.client.HTTPConnection("127.0.0.1", dice.choice(ports), timeout=2)
            while time.time() < until:
                one.request("POST", "/v1/reserve", json.dumps(
                    {"policy": "slots", "ttl_ms": dice.choice((20, 60, 300))}))
                answer = json.loads(one.getresponse().read())
                if not answer.get("reservation"):
                    time.sleep(min(0.05, answer.get("retry_after_ms", 5) / 1000))
                    continue
                time.sleep(dice.choice((0, 0.002, 0.03, 0.1)))
                verb = dice.choice(("commit", "release", "extend", "nothing"))
                if verb != "nothing":
                    one.request("POST", "/v1/" + verb, json.dumps(
                        {"reservation": answer["reservation"],
                         **({"ttl_ms": 80} if verb == "extend" else {})}))
                    one.getresponse().read()
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.01)

threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


class Workers:
    """Processes of eight workers each."""

    def __init__(self, count, servers, dice, until):
        self.servers, self.dice, self.until = servers, dice, until
        self.running = [self.spawn() for _ in range(count)]

    def spawn(self):
        ports = json.dumps([server.port for server in self.servers])
        return subprocess.Popen([sys.executable, "-c", WORKER, ports,
                                 str(self.dice.randrange(1 << 30)), str(self.until)])

    def kill_one(self):
        i = self.dice.randrange(len(self.running))
        self.running[i].kill()
        self.running[i].wait()
        self.running[i] = self.spawn()

    def end(self):
        for worker in self.running:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


def never_more_than_seven_at_once(fixture, watch):
    """64 workers on 4 servers, seven slots; workers and servers are killed, leases run out. `watch`
    says, when it is called again, how many slots were taken and the most at one instant of the
    store's clock."""
    fixture.config.write_text(POLICIES)
    dice, seconds = dice_of("slots"), 4 * LENGTH / 100
    servers = [fixture.serve() for _ in range(4)]
    end = watch()
    until = time.time() + seconds
    workers = Workers(8, servers, dice, until)
    try:
        while time.time() < until:
            time.sleep(0.3)
            if dice.random() < 0.5:
                workers.kill_one()
            else:
                i = dice.randrange(1, 4)
                servers[i].kill()
                fixture.servers.remove(servers[i])
                servers[i] = fixture.serve(listen="127.0.0.1:%d" % servers[i].port)
    finally:
        workers.end()
    taken, most = end()
    print(f"# {taken} slots were taken, at most {most} at once")
    assert taken > 20 and most <= 7, (taken, most)
    assert most == 7
    wait_until(lambda: servers[0].http("POST", "/v1/peek", {"policy": "slots"})[2][
        "remaining"] == 7, "all slots to be free")


# ---- what was used -------------------------------------------------------------------------------

def random_holds(dice, callers, policy, steps):
    """Reserve and commit at random. What was used, as (when it was reserved, how much)."""
    now, made, used = 1_700_000_000_000, 0, []
    holds = [None] * 12
    for _ in range(steps):
        now += dice.choice((dice.randrange(60), dice.randrange(60), dice.randrange(1500)))
        for i, hold in enumerate(holds):
            if hold and hold["expires"] <= now:
                used.append((hold["at"], hold["cost"]))
                holds[i] = None
        i, ask = dice.randrange(len(holds)), dice.choice(callers).ask
        if holds[i]:
            amount = dice.randrange(holds[i]["cost"] + 1)
            status, answer = ask("commit", {"reservation": holds[i]["id"], "cost": amount,
                                            "now": now})
            assert status == 200 and not answer["expired"], answer
            if amount:
                used.append((holds[i]["at"], amount))
            holds[i] = None
            continue
        made += 1
        asked = {"policy": policy, "key": "ann", "id": f"{policy}-{made}", "now": now,
                 "cost": 1 + dice.randrange(10), "ttl_ms": 1 + dice.randrange(3000)}
        status, answer = ask("reserve", asked)
        assert status == 200 and answer["source"] == "store", answer
        if answer["allowed"]:
            holds[i] = {"id": asked["id"], "at": now, "cost": asked["cost"],
                        "expires": now + asked["ttl_ms"]}
    return sorted(used)


def what_was_used_would_have_been_admitted(fixture):
    """Three servers hold and settle at random. What was really used is asked again of a limiter that
    has seen nothing: all of it passes. 100,000 steps at a WEIR_TEST_HELD of 10,000."""
    fixture.config.write_text("version: 1\npolicies:\n" + "".join(
        f"  {kind}: {{limit: 10 per 1s, by: user, algorithm: {kind}}}\n" for kind in KINDS))
    dice, steps = dice_of("used"), 200 * LENGTH // 100
    callers = [Caller(fixture.serve("--trust-client-clock").address) for _ in range(3)]
    problems = []

    def compare(kind, seed):
        own = [Caller(server.address) for server in fixture.servers]
        try:
            used = random_holds(random.Random(seed), own, kind, steps)
            assert len(used) > steps // 10, (kind, len(used))
            for at, amount in used:
                _, answer = own[0].ask("check", {"policy": kind, "key": "fresh", "now": at,
                                                 "cost": amount})
                assert answer["allowed"], (kind, seed, at, amount, answer)
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(problem)
        finally:
            for caller in own:
                caller.close()

    threads = [threading.Thread(target=compare, args=(kind, dice.randrange(1 << 32)))
               for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for caller in callers:
        caller.close()
    assert not problems, problems


# ---- given back when it expires ------------------------------------------------------------------

RELEASED_KINDS = {
    **{kind: f"{{limit: 10 per 10h, algorithm: {kind}" for kind in KINDS},
    "first": "{limit: 10 per 10h, algorithm: fixed_window, start: first",
    "calendar": "{limit: 10 per year, zone: Europe/Berlin",
}
RELEASED_TTL = 1500  # ms


def released_policies():
    return "version: 1\npolicies:\n" + "".join(
        f"  {name}: {rule}, by: user, reserve: {{on_expiry: release}}}}\n"
        for name, rule in RELEASED_KINDS.items())


def given_back_when_it_expires(fixture):
    """Of each kind of limit: what was held comes back after it has expired, though the server that
    was asked for it is dead; not before; and a denial that a server has in mind does not outlast
    it. What was settled in time stays as it was settled. A later commit adds."""
    fixture.config.write_text(released_policies())
    maker, other = fixture.serve(), fixture.serve()

    def ask(server, verb, kind, user="ann", **more):
        body = more if "reservation" in more else {"policy": kind, "attributes": {"user": user},
                                                   **more}
        status, _, answer = server.http("POST", f"/v1/{verb}", body)
        assert status in (200, 429), (kind, verb, answer)
        return answer

    def left(kind, user="ann"):
        return ask(other, "peek", kind, user)["remaining"]

    begin = {}
    for kind in RELEASED_KINDS:
        begin[kind] = int(time.time() * 1000)  # as stores tell time
        assert ask(maker, "reserve", kind, cost=5, ttl_ms=RELEASED_TTL, id=f"{kind}-ann")["allowed"]
        assert ask(maker, "grow", kind, reservation=f"{kind}-ann", cost=3)["allowed"]
        assert ask(maker, "reserve", kind, "bob", cost=8, ttl_ms=RELEASED_TTL,
                   id=f"{kind}-bob")["allowed"]
        assert ask(maker, "commit", kind, reservation=f"{kind}-bob", cost=6)["remaining"] == 4
        assert ask(maker, "reserve", kind, "cid", cost=8, ttl_ms=RELEASED_TTL,
                   id=f"{kind}-cid")["allowed"]
        assert ask(maker, "extend", kind, reservation=f"{kind}-cid", ttl_ms=600_000)["expires_in_ms"]
        denied = ask(other, "check", kind, cost=3)
        assert not denied["allowed"] and denied["remaining"] == 2, denied
    maker.kill()
    fixture.servers.remove(maker)
    for kind in RELEASED_KINDS:
        wait_until(lambda k=kind: ask(other, "check", k, cost=3)["allowed"],
                   f"{kind}: what expired to come back")
        assert int(time.time() * 1000) - begin[kind] >= RELEASED_TTL, kind
        assert left(kind) == 7, (kind, left(kind))
        late = ask(other, "commit", kind, reservation=f"{kind}-ann", cost=4)
        assert late["expired"] and left(kind) == 3, (kind, late)
        assert ask(other, "commit", kind, reservation=f"{kind}-ann", cost=4)["repeated"]
        assert left(kind) == 3, kind
        assert left(kind, "bob") == 4, kind
        assert left(kind, "cid") == 2, kind
        assert ask(other, "release", kind, reservation=f"{kind}-cid")["remaining"] == 10, kind


# ---- what operators see --------------------------------------------------------------------------

def gauge(server, name):
    """{values of its labels: value}; None: the server does not tell it."""
    text = server.http("GET", "/metrics")[2].decode()
    if f"# TYPE {name} " not in text:
        return None
    return {tuple(re.findall(r'="([^"]*)"', labels)): int(value)
            for labels, value in re.findall(rf"^{name}\{{(.*)\}} (\d+)$", text, re.M)}


def gauges_tell_what_is_held(fixture, stop):
    """All servers tell what is held in the store they share, whichever has made it, and which
    expired unsettled; so does the usage of an identity. `stop` takes the store away: then they tell
    nothing."""
    fixture.config.write_text(POLICIES)
    maker, other = fixture.serve(), fixture.serve()

    def told():
        return gauge(other, "weir_reservations"), gauge(other, "weir_held_amount")

    def ask(server, verb, **body):
        status, _, answer = server.http("POST", f"/v1/{verb}", body)
        assert status == 200, answer
        return answer

    for i in range(6):
        ask(maker, "reserve", policy="jobs", attributes={"user": f"u{i}"}, cost=5 + i, id=f"j{i}",
            ttl_ms=600_000 if i else 1)
    ask(maker, "reserve", policy="slots", id="s", ttl_ms=600_000)
    ask(maker, "grow", reservation="j1", cost=100)
    want = ({("jobs", "held"): 5, ("jobs", "expired"): 1, ("slots", "held"): 1, ("slots", "expired"): 0},
            {("jobs", "all", "requests"): 140, ("jobs", "each", "requests"): 140,
             ("slots", "default", "requests"): 1})
    try:
        wait_until(lambda: told() == want, "all that is held")
    except AssertionError as error:
        raise AssertionError(f"{told()} instead of {want}") from error
    usage = ask(other, "usage", policy="jobs", attributes={"user": "u1"})
    held_of = {rule["rule"]: rule["held"] for rule in usage["rules"]}
    assert held_of == {"all": 140, "each": 106} and usage["reservations"] == 5, usage
    stats = other.http("GET", "/v1/stats")[2]["held"]
    assert {"policy": "jobs", "held": 5, "expired": 1} in stats["reservations"], stats

    ask(other, "commit", reservation="j0", cost=5)  # late: it was used in full
    ask(other, "commit", reservation="j1", cost=6)
    ask(other, "commit", reservation="j2", cost=9)
    ask(other, "release", reservation="s")
    wait_until(lambda: told() == ({("jobs", "held"): 3, ("jobs", "expired"): 0},
                                  {("jobs", "all", "requests"): 27, ("jobs", "each", "requests"): 27}),
               "what is still held")
    # One has made them, the other has settled them: together they know what was used.
    sums = {}
    for name in "used", "given_back", "overrun":
        both = [gauge(server, f"weir_{name}_total") for server in (maker, other)]
        sums[name] = [sum(one["jobs", rule, "requests"] for one in both) for rule in ("all", "each")]
    used = 5 + 6 + 7 + 8 + 9 + 10 + 100 + 2
    assert sums == {"used": [used] * 2, "given_back": [100] * 2, "overrun": [2] * 2}, sums
    stop()
    wait_until(lambda: told() == (None, None), "that nothing is told")
