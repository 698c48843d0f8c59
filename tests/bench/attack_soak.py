#!/usr/bin/env python3
"""attack_soak.py - one server under all attacks at once, while others ask it at a steady rate.

    attack_soak.py TREE [SECONDS [ATTACK...]]      PACE=N: attackers pause N times shorter

With `chrt -r 1` before it, server and callers come before all other work of the machine.

TREE is best one with a sanitizer, as `./dev bench attacks` has it: what is wrong in memory ends the
server. It has a file store with few keys, tokens, and policies that operators change. For a quarter of
the time there is no attack; then all of these run, or those that are named, each at a bounded rate, until
the server is told to end, in the midst of it:

siege      reloads, and checks behind questions of operators, pipelined
unread     connections that pipeline GET / and read nothing
bodies     large bodies by callers without a token, some never finished
silent     connections that say nothing, up to the limit of connections
keys       checks of keys that never come again, more than the server may hold
origins    changes that pages of other sites ask for
bytes      what the fuzzers' corpus has, changed at random
tokens     wrong tokens, by HTTP and RESP

BOUNDS, each of which is told and held:
  - all regular requests are answered, and none is denied or gets an error;
  - their 99th percentile is at most twice what it was before. Attackers, clients and server share the
    cores of this machine: that of a second server, which is not attacked, is told beside it;
  - the server's memory grows by no more than 32 MiB after the first third of the attacks;
  - operators are answered within 10 s throughout;
  - SIGTERM ends it within its drain timeout and 5 s, with status 0 and no word of a sanitizer.
"""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from weir_server import Folder, Server, WEIR, command, wait_until  # noqa: E402

ATTACK = len(sys.argv) > 1 and sys.argv[1] == "--attack"
SECONDS = 60 if len(sys.argv) < 3 or ATTACK else int(sys.argv[2])
PACE = float(os.environ.get("PACE", "1"))
RATE = 300            # requests a second of regular clients
GROWTH = 32           # MiB
DRAIN, MORE = 3, 5    # seconds
PATIENCE_OF_OPERATORS = 10
CONNECTIONS = 600
KEYS = 20_000
CHECK_TOKEN, ADMIN_TOKEN = "check-0123456789abcdef", "admin-0123456789abcdef"
POLICIES = """
version: 1
server:
  tokens:
    - {{file: {folder}/check.token, scope: [check]}}
    - {{file: {folder}/admin.token, scope: [check, admin, metrics]}}
policies:
  steady: {{limit: 1000000 per 1s, by: key, algorithm: token_bucket}}
  login:
    rules:
      global:  {{limit: 1000000 per 1m}}
      address: {{limit: 5 per 15m, by: ip}}
"""


# ---- attacks: each in a process of its own, until it is killed ---------------------------------

def connect(address):
    s = socket.create_connection(address, timeout=5)
    s.settimeout(5)
    return s


def request(method, path, body=b"", token=None, *more):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *more]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body:
        lines.append("Content-Type: application/json")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def pause(rate):
    time.sleep(1 / (rate * PACE))


def hear(s, most=1 << 20):
    """What comes until it is closed, or nothing comes for a while."""
    s.settimeout(1)
    heard = 0
    try:
        while heard < most and (piece := s.recv(65536)):
            heard += len(piece)
    except OSError:
        pass
    return heard


def siege(address, dice):
    check = request("POST", "/v1/check", b'{"policy":"login","attributes":{"ip":"192.0.2.7"}}',
                    ADMIN_TOKEN)
    overrides = request("GET", "/v1/overrides", token=ADMIN_TOKEN)
    reload = request("POST", "/v1/reload", token=ADMIN_TOKEN)
    while True:
        connections = [connect(address) for _ in range(10)]
        for s in connections[6:]:
            s.sendall((overrides + check) * 5)
        for s in connections[:6]:
            s.sendall(reload * 2)
        for s in connections:
            if dice.randrange(2):
                hear(s)
            s.close()


def unread(address, dice):
    page = request("GET", "/")
    while True:
        connections = [connect(address) for _ in range(50)]
        for s in connections:
            s.setblocking(False)
        for _ in range(40):
            for s in connections:
                try:
                    s.send(page * 50)
                except OSError:
                    pass
            pause(20)
        for s in connections:
            s.close()


def bodies(address, dice):
    head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    while True:
        connections = [connect(address) for _ in range(20)]
        for s in connections:
            size = dice.choice([60_000, 1_000_000, 1 << 40])
            try:
                s.sendall(head + b"Content-Length: %d\r\n\r\n" % size + b" " * 60_000)
            except OSError:
                pass
        pause(1)
        for s in connections:
            if dice.randrange(2):
                hear(s)
            s.close()


def silent(address, dice):
    while True:
        connections = []
        for _ in range(CONNECTIONS):
            try:
                connections.append(connect(address))
            except OSError:
                break
            pause(500)
        pause(0.2)
        for s in connections:
            s.close()


def keys(address, dice):
    s = None
    while True:
        try:
            s = s or connect(address)
            s.sendall(command("AUTH", CHECK_TOKEN) + b"".join(
                command("WEIR.CHECK", "login", f"ip=2001:db8:{n >> 16:x}:{n & 0xffff:x}::1")
                for n in (dice.randrange(1 << 32) for _ in range(100))))
            heard = b""
            while heard.count(b"\r\n") < 101 and (piece := s.recv(65536)):
                heard += piece
        except OSError:
            s = None
        pause(20)


def origins(address, dice):
    while True:
        method, path = dice.choice([("POST", "/v1/reset"), ("POST", "/v1/reload"),
                                    ("GET", "/v1/policies"), ("POST", "/v1/overrides")])
        with connect(address) as s:
            s.sendall(request(method, path, b"{}", None, "Origin: https://elsewhere.example",
                              "Sec-Fetch-Site: cross-site"))
            hear(s, 1)
        pause(100)


def samples():
    return [path.read_bytes() for name in ("http", "resp", "session")
            for path in sorted((HERE.parent / "fuzz" / "corpus" / name).iterdir())]


def bytes_(address, dice):
    corpus = samples()
    while True:
        text = bytearray(dice.choice(corpus))
        for _ in range(dice.randrange(4)):
            if text:
                text[dice.randrange(len(text))] = dice.randrange(256)
        try:
            with connect(address) as s:
                s.sendall(text)
                if dice.randrange(4) == 0:
                    hear(s, 1)
        except OSError:
            pass
        pause(100)


def tokens(address, dice):
    while True:
        wrong = f"{dice.randrange(1 << 128):032x}"
        try:
            with connect(address) as s:
                if dice.randrange(2):
                    s.sendall(request("POST", "/v1/check", b'{"policy":"login"}', wrong) * 20)
                else:
                    s.sendall(command("AUTH", wrong) * 20)
                hear(s, 20 * 40)
        except OSError:
            pass
        pause(20)


ATTACKS = {"siege": siege, "unread": unread, "bodies": bodies, "silent": silent, "keys": keys,
           "origins": origins, "bytes": bytes_, "tokens": tokens}
CHOSEN = list(ATTACKS) if ATTACK else sys.argv[3:] or list(ATTACKS)


def attack(name, port):
    """Begins again after an error: a server may well refuse. Takes no processor from the server and its
    callers, as an attacker has a machine of its own."""
    comes_first = os.sched_getscheduler(0) == os.SCHED_RR
    os.sched_setscheduler(0, os.SCHED_OTHER if comes_first else os.SCHED_IDLE, os.sched_param(0))
    dice = random.Random(name)
    while True:
        try:
            ATTACKS[name](("127.0.0.1", int(port)), dice)
        except OSError:
            pause(10)


class Attackers:
    def __init__(self, port):
        self.processes = [subprocess.Popen([sys.executable, __file__, "--attack", name, str(port)])
                          for name in CHOSEN]

    def __enter__(self):
        return self

    def all_live(self):
        return all(process.poll() is None for process in self.processes)

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


# ---- regular clients -----------------------------------------------------------------------------

def resident(pid):
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)


class Steady:
    """Callers on connections that they keep, at a fixed rate."""

    def __init__(self, server, folder, seconds):
        self.process = subprocess.Popen(
            [WEIR, "bench", "--server", server.url, "--token-file", str(folder / "check.token"),
             "--policy", "steady", "--keys", "1000", "--rate", str(RATE), "--connections", "8",
             "--duration", f"{seconds}s", "--json"], stdout=subprocess.PIPE, text=True)

    def report(self):
        said, _ = self.process.communicate(timeout=SECONDS + 60)
        return json.loads(said)


def ask_operator(server):
    """Seconds that an operator waits."""
    begin = time.monotonic()
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    for method, path in ("GET", "/v1/overrides"), ("POST", "/v1/reload"):
        status = server.http(method, path, headers=headers)[0]
        if status != 200:
            return None
    return time.monotonic() - begin


def watch(server, steady):
    """Its memory once a second, how long operators wait, and how often they are turned away."""
    memory, waits, refused = [], [], 0
    while steady.process.poll() is None:
        memory.append(resident(server.pid))
        try:
            wait = ask_operator(server)
        except OSError:
            wait = None
        refused += wait is None
        waits += [] if wait is None else [wait]
        time.sleep(1)
    return memory, waits, refused


def serve(folder):
    for name, token in ("check", CHECK_TOKEN), ("admin", ADMIN_TOKEN):
        (folder / f"{name}.token").write_text(token + "\n")
        (folder / f"{name}.token").chmod(0o600)
    (folder / "policies.yaml").write_text(POLICIES.format(folder=folder))
    options = os.environ.get("ASAN_OPTIONS", "")
    return Server("--max-connections", CONNECTIONS, "--max-keys", KEYS, "--drain-timeout", f"{DRAIN}s",
                  "--request-timeout", "5s", config=folder / "policies.yaml",
                  store=f"file:{folder}/store", threads=2,
                  # What was freed is kept for a while to find uses of it: a bounded while.
                  env={"ASAN_OPTIONS": f"{options}:quarantine_size_mb=8"})


class Bounds:
    def __init__(self):
        self.broken = 0

    def hold(self, what, value, bound, is_held):
        self.broken += not is_held
        print(f"{'held  ' if is_held else 'BROKEN'} {what}: {value} ({bound})", flush=True)


def percentile(report):
    return report["latency_us"]["p99"] / 1000


def under_attack(server, neighbour, folder, bounds):
    before = max(5, min(SECONDS // 4, 120))
    beside = Steady(neighbour, folder, before)
    quiet = Steady(server, folder, before).report()
    beside.report()
    with Attackers(server.port) as attackers:
        beside = Steady(neighbour, folder, SECONDS - before)
        steady = Steady(server, folder, SECONDS - before)
        memory, waits, refused = watch(server, steady)
        loud, spared = steady.report(), beside.report()
        all_lived = attackers.all_live()
        begin = time.monotonic()
        server.signal(signal.SIGTERM)
        try:
            status = server.process.wait(60)
        except subprocess.TimeoutExpired:
            status = "none"
        ended = time.monotonic() - begin
    most = 2 * percentile(quiet)
    grown = max(memory[len(memory) // 3:]) - min(memory[len(memory) // 3:][:3])
    bounds.hold("attackers that went on to the end", len(CHOSEN) if all_lived else "fewer",
                f"all {len(CHOSEN)}", all_lived)
    bounds.hold("unanswered, refused, or errors", loud["lost"] + loud["denied"] + loud["errors"],
                f"none of {loud['requests']}",
                loud["lost"] + loud["denied"] + loud["errors"] == 0)
    bounds.hold("99th percentile", f"{percentile(loud):.1f} ms",
                f"at most {most:.1f} ms; {percentile(quiet):.1f} ms before, "
                f"{percentile(spared):.1f} ms of the server that is not attacked",
                percentile(loud) <= most)
    bounds.hold("memory after the first third", f"{grown:+.1f} MiB of {memory[-1]:.0f} MiB",
                f"at most {GROWTH} MiB more", grown <= GROWTH)
    bounds.hold("operators' longest wait", f"{max(waits, default=0):.1f} s, {refused} of "
                f"{len(waits) + refused} found no connection or were refused",
                f"at most {PATIENCE_OF_OPERATORS} s, and half are let in",
                waits and max(waits) <= PATIENCE_OF_OPERATORS and refused <= len(waits))
    bounds.hold("SIGTERM", f"{ended:.1f} s, status {status}", f"at most {DRAIN + MORE} s, status 0",
                status == 0 and ended <= DRAIN + MORE)
    said = [line for line in server.log.other if "ERROR: " in line or "runtime error" in line]
    bounds.hold("words of a sanitizer", len(said), "none", not said)
    for line in server.log.other[:40] if said else []:
        print(f"    {line}")


def main():
    bounds = Bounds()
    print(f"{SECONDS} s; {RATE} requests a second by regular clients", flush=True)
    with Folder() as folder, Folder() as other, serve(folder) as server, serve(other) as neighbour:
        for each in server, neighbour:
            wait_until(lambda: ask_operator(each) is not None, "the server")
        under_attack(server, neighbour, folder, bounds)
    sys.exit(1 if bounds.broken else 0)


if ATTACK:
    attack(*sys.argv[2:4])
else:
    main()
