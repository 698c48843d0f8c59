"""shared_store.py - for end-to-end tests: servers that share a store, and their clients."""
import json
import random
import selectors
import socket
import subprocess
import threading
import time

from asker import PROTOCOLS, Asker
from weir_server import PATIENCE, WEIR, Folder, Server, command, wait_until

POLICIES = """
version: 1
policies:
  many:   {limit: 1000 per 1d, by: user}
  bucket: {limit: 1000 per 1d, by: user, algorithm: token_bucket}
  fixed:  {limit: 1000 per 52w, by: user, algorithm: fixed_window}
  churn:  {limit: 1000 per 50ms, by: user}
  open:   {limit: 1000 per 1d, by: user, on_error: allow}
  shut:   {limit: 1000 per 1d, by: user, on_error: deny}
  three:
    rules:
      global: {limit: 150 per 1d}
      tenant: {limit: 40 per 1d, by: tenant}
      user:   {limit: 7 per 1d, by: user, algorithm: token_bucket}
"""
SEVERAL = """
version: 1
policies:
  global: {limit: 150 per 1d}
  tenant: {limit: 40 per 1d, by: tenant}
  user:   {limit: 7 per 1d, by: user, algorithm: token_bucket}
"""
DEADLINE = 0.25  # seconds, for a failing store
MARGIN = 2.0     # for a machine that is busy with other things
UNWELL = f"deadline={DEADLINE * 1000:.0f}ms"
PATIENT = "deadline=20s"  # for a healthy store on a busy machine


class Fixture:
    """Servers that have this URI for their store."""

    policies = POLICIES

    def __init__(self, url):
        self.url, self.servers = url, []
        self.folder = Folder()
        self.config = self.folder.path / "policies.yaml"
        self.config.write_text(self.policies)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        statuses = [server.stop() for server in self.servers if kind is None]
        for server in self.servers:
            server.__exit__()
        self.folder.__exit__()
        assert not any(statuses), [server.log.other for server in self.servers]

    def serve(self, *arguments, **more):
        self.servers.append(Server(*arguments, **{"store": self.url, "config": self.config, **more}))
        return self.servers[-1]

    def refused(self, *arguments, store=None):
        """What a server says that does not start."""
        done = weir("serve", "--store", store or self.url, "--config", self.config, "--listen",
                    "127.0.0.1:0", *arguments)
        assert done.returncode == 2, done
        return done.stderr

    def secret_file(self, digits):
        path = self.folder.path / "secret"
        path.write_text(digits + "\n")
        path.chmod(0o600)
        return path


class RedisFixture(Fixture):
    """Servers that share a Redis or a cluster, which ends with them."""

    def __init__(self, redis, url, parameters=PATIENT):
        self.redis = redis
        super().__init__(f"{url}?{parameters}")

    def __exit__(self, kind, *rest):
        try:
            super().__exit__(kind, *rest)
        finally:
            self.redis.__exit__()


def weir(*words, **more):
    return subprocess.run([WEIR, *words], capture_output=True, text=True, check=False,
                          timeout=PATIENCE, **more)


def asked(server, policy="open", user="ann"):
    """Ask once: where the answer is from, and is it allowed? It comes in time."""
    begin = time.monotonic()
    answer = server.check(policy, user)
    took = time.monotonic() - begin
    assert took < DEADLINE + MARGIN, f"{took} s"
    return answer["source"], answer["allowed"]


def falls_back(server):
    """Wait until on_error decides; then every request is answered in time."""
    wait_until(lambda: asked(server)[0] == "fallback", "on_error")
    for _ in range(20):
        assert asked(server, "open") == ("fallback", True)
        assert asked(server, "shut") == ("fallback", False)


def comes_back(server):
    """Wait until the server uses the store again; then every request is counted."""
    wait_until(lambda: asked(server, user="probe")[0] == "store", "the store")
    wait_until(lambda: all(asked(server, user="probe")[0] == "store" for _ in range(10)),
               "all to be counted")


def says(server, *texts):
    """One of these is in its log, as docs/operations.md tells operators."""
    wait_until(lambda: any(text in line.get("message", "") for line in list(server.log.lines)
                           for text in texts), f"{texts} in the log")


def used(server, policy, key):
    """By what the store itself says; on a busy machine one may be answered by on_error, and to ask
    again counts nothing."""
    def peek():
        answer = server.http("POST", "/v1/peek", {"policy": policy, "key": key})[2]
        return answer if answer["source"] == "store" else None

    answer = wait_until(peek, "the store")
    return answer["limit"] - answer["remaining"]


def witness(server, times=50):
    """Send `times` checks: how many the store counted, and how many on_error decided."""
    sources = [server.check("open", "witness")["source"] for _ in range(times)]
    return sources.count("store"), sources.count("fallback")


class Gang:
    """Connections that all ask at once, many at a time, in RESP."""

    def __init__(self, servers, size):
        self.sockets = [socket.create_connection(servers[i % len(servers)].address,
                                                 timeout=PATIENCE) for i in range(size)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.close()

    def ask(self, times, *words):
        """Each asks so often: (how many were allowed, refused, decided without the store)."""
        question = command(*words) * times
        waiting = selectors.DefaultSelector()
        counts = [0, 0, 0]
        for one in self.sockets:
            one.sendall(question)
        for one in self.sockets:
            waiting.register(one, selectors.EVENT_READ, bytearray())
        while waiting.get_map():
            ready = waiting.select(PATIENCE)
            assert ready, "no answer"
            for key, _ in ready:
                piece = key.fileobj.recv(1 << 16)
                assert piece, "the connection was closed"
                key.data.extend(piece)
                if key.data.count(b"*7\r\n") == times and key.data.endswith(
                        (b"store\r\n", b"cache\r\n", b"fallback\r\n")):
                    waiting.unregister(key.fileobj)
                    counts[0] += key.data.count(b"*7\r\n:1\r\n")
                    counts[1] += key.data.count(b"*7\r\n:0\r\n")
                    counts[2] += key.data.count(b"fallback\r\n")
        return tuple(counts)


def never_half_charged(servers, asks=600, meanwhile=lambda: None, policy="three"):
    """Three rules, asked at random by many at once: each has counted what was let in, no more. They
    are of one policy, or each of one of its own."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"# seed {seed}")
    dice = random.Random(seed)
    questions = [{"tenant": f"t{dice.randrange(5)}", "user": f"u{dice.randrange(25)}"}
                 for _ in range(asks)]
    counted, lock, problems = [], threading.Lock(), []

    def work(address, protocol, share):
        try:
            with Asker(address, protocol) as asker:
                for attributes in share:
                    if asker.ask(policy, attributes)[0]:
                        with lock:
                            counted.append(attributes)
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(servers[n % len(servers)].address,
                                                   PROTOCOLS[n // 2 % 2], questions[n::16]))
               for n in range(16)]
    for thread in threads:
        thread.start()
    meanwhile()
    for thread in threads:
        thread.join()
    assert not problems, problems
    assert 0 < len(counted) < len(questions)
    for attributes in questions[:60]:
        rules = servers[0].http("POST", "/v1/peek",
                                {"policies": [policy] if isinstance(policy, str) else policy,
                                 "attributes": attributes})[2]["rules"]
        # The bucket leaks one in some hours: it is as full as it was.
        assert {rule.get("policy", rule["rule"]): rule["limit"] - rule["remaining"] for rule in rules} == {
            "global": len(counted),
            "tenant": sum(c["tenant"] == attributes["tenant"] for c in counted),
            "user": sum(c["user"] == attributes["user"] for c in counted)}, (rules, attributes)


def several_policies_are_never_half_charged(home):
    home.config.write_text(SEVERAL)
    never_half_charged([home.serve(), home.serve()], asks=400, policy=["global", "tenant", "user"])


def library_and_server_share_a_limit(fixture):
    server = fixture.serve()
    words = ["check", "--config", fixture.config, "--store", fixture.url, "--json", "many"]
    for left in (999, 997, 995):
        answer = json.loads(weir(*words, "ann").stdout)
        assert answer["source"] == "store" and answer["remaining"] == left, answer
        assert server.check("many", "ann")["remaining"] == left - 1


def verbs_do_what_they_do_elsewhere(fixture):
    server = fixture.serve()

    def remaining(verb, **more):
        asked_for = {"policy": "bucket", "key": "ann", **more}
        return server.http("POST", f"/v1/{verb}", asked_for)[2]["remaining"]
    assert remaining("check", cost=10) == 990
    assert remaining("peek", cost=500) == 990
    assert remaining("refund", cost=4) == 994
    assert remaining("check", cost=0) == 994
    assert remaining("reset") == 1000
    assert remaining("check") == 999


def servers_share_a_cell(fixture):
    servers = [fixture.serve(), fixture.serve()]
    replies = [servers[n % 2].resp("CL.THROTTLE", "k", 5, 10, 60) for n in range(7)]
    left = [int(reply.split(b"\r\n")[3][1:]) for reply in replies]
    assert left == [5, 4, 3, 2, 1, 0, 0], left
    assert replies[-1].split(b"\r\n")[1] == b":1"


def overrides_hold_everywhere(servers):
    """What an operator changes at one server holds at the others, and stands in the audit log."""
    there, other = servers
    status, _, answer = there.http("PUT", "/v1/overrides", {
        "policy": "many", "key": "ann", "effect": "block", "for": "1h", "who": "ann",
        "reason": "\u00e9 'quoted' \"twice\""})
    assert status in (200, 201), answer
    wait_until(lambda: other.check("many", "ann")["source"] == "blocked", "the block")
    assert other.check("many", "ann-else")["source"] == "store"
    for server in servers:
        text = server.http("GET", "/v1/audit")[2]
        assert "ann" in str(text) and "quoted" in str(text), text
    status, _, answer = other.http("DELETE", f"/v1/overrides?id={answer['id']}", {"who": "bob", "reason": "x"})
    assert status in (200, 204), answer
    wait_until(lambda: there.check("many", "ann")["source"] == "store", "the end of it")


def a_promoted_replica_counts_on(fixture, watched):
    """The master is lost, and Sentinel makes a replica the next one."""
    server = fixture.serve()
    comes_back(server)
    counted, unknown = witness(server)
    watched.master("WAIT", 1, 5000)
    wait_until(lambda: any(b":open:" in key for key in watched.replica("KEYS", "*")),
               "the replica to have it")
    watched.master.kill()
    falls_back(server)
    watched.wait_for_promotion()
    comes_back(server)
    assert 0 < used(server, "open", "witness") <= counted + unknown


def conforms(tree, url, name, env):
    done = subprocess.run([tree / "tests/conform_stores"], capture_output=True, text=True, check=False,
                          env={**env, "WEIR_TEST_STORE": url, "CMOCKA_MESSAGE_OUTPUT": "TAP"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok 2 - every_policy_trace_matches in {name}" in done.stdout, done.stdout
