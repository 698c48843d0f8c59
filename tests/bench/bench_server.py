#!/usr/bin/env python3
"""bench_server.py - weir as a server, next to others that limit and to one that only answers.

    bench_server.py TREE [--quick] [--only WORD] [--rounds N] [--seconds S] [--pin] [--realtime]
                      [--out NAME]

All of them run on this machine at the same time, and are asked one after the other by `weir bench`
over 50 connections on loopback; idle servers sleep. They take turns for several rounds: a
figure is the median of the rounds, a ratio the median of the rounds' ratios; times at a rate are those
of all rounds together, as in a short one a p99 is of a few stalls of the machine. Generator and servers
share the machine, so on few cores the generator is part of every figure, of the floor's as well;
the CPU time a request costs a server (/proc/PID/stat) is not touched by that.

constant        answers the same bytes as weir, looks at nothing: see constant.c; it is asked for the same
                as what it is compared with
constant always the same, behind a write and a sync for all that was asked together
weir            CL.THROTTLE by RESP, GET /v1/gate and POST /v1/check by HTTP; file store, sync 50ms
weir bucket     WEIR.LIMIT with a token bucket, and
weir sliding    with a sliding window; WEIR.LIMIT asks for more than CL.THROTTLE, and answers more
weir three      GET /v1/gate of a policy with three rules
memory ...      the same, counters in memory alone
weir uring      the same, --io uring
weir always     the same, sync: always
redis lua       gcra.lua by EVALSHA, one call a request; AOF everysec, no rewriting of the AOF
redis incr      INCR and PEXPIRE NX, sent together: a fixed window in two commands a request
... always      the same, AOF always
nginx           limit_req in front of an empty gif; as many workers as weir has threads
haproxy         a stick table in front of a constant answer; as many threads

On a machine that has other work, --realtime (as root) keeps other processes from running: without it,
times at a rate say little then.

Limits are so wide that no request is denied: every request changes a counter. Redis decides in one
thread, so it has the same figures beside one thread of the others and beside two.

Results go to NAME.csv and NAME.svg, by default TREE/server.
"""
import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from picture import bars
from rounds import cpu_seconds, print_value

HERE = Path(__file__).resolve().parent
LIMIT = 10_000_000  # a minute
KEYS, HOT = 100_000, 1
RATES = 10_000, 30_000
OFTEN = 3  # times a round that they are asked at a rate: a p99 is what varies most
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
LUA = (HERE / "gcra.lua").read_bytes()
GATE, CHECK, PLAIN = "/v1/gate?policy=limit&key={key}", None, "/?key={key}"


# ---- servers ------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def once(how):
    """What `weir bench` sends for that, once."""
    if how.startswith("/"):
        return f"GET {how} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".replace("{key}", "key:000001").encode()
    if how == "cl.throttle":
        how = f"raw:CL.THROTTLE {{key}} {LIMIT - 1} {LIMIT} 60"
    return command(*how.removeprefix("raw:").replace("{key}", "key:000001").encode().split())


def shape_of(answer):
    """Without its numbers and names of days and months."""
    return re.sub(rb"\d", b"0", re.sub(rb"(?<=Date: )\w+|[A-Z][a-z]+(?= \d{4} )", b"day", answer))


def children(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Server:
    """A process that listens on a port of its own, with a folder of its own."""

    def __init__(self, name, threads, command, folder, cpu=None):
        self.name, self.threads, self.port = name, threads, free_port()
        self.folder = folder / f"{name}-{threads}".replace(" ", "-")
        self.folder.mkdir()
        self.folder.chmod(0o755)
        words = [str(w) for w in command(self)]
        if cpu is not None:
            words = ["taskset", "-c", str(cpu)] + words
        with open(self.folder / "output", "wb") as output:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=output, cwd=self.folder)

    def fill(self, template):
        """A copy of a configuration, with its words in capitals filled in."""
        text = (HERE / template).read_text()
        for word, value in {"DIR": self.folder, "PORT": self.port, "THREADS": self.threads}.items():
            text = text.replace(word, str(value))
        (self.folder / template).write_text(text)
        return self.folder / template

    def wait(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "output").read_text(errors="replace")
                    sys.exit(f"bench_server: {self.name} does not listen: {said[-1000:]}")
                time.sleep(0.01)

    def cpu_seconds(self):
        return cpu_seconds([self.process.pid] + children(self.process.pid))

    def ask_once(self, request):
        with socket.create_connection(("127.0.0.1", self.port), 5) as s:
            s.sendall(request)
            return s.recv(4096)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def commands(tree):
    """How each of them is started."""
    def weir(*store, io="epoll"):
        return lambda s: [tree / "weir", "serve", "--config", HERE / "policies.yaml", "--store",
                          *(word.format(folder=s.folder) for word in store), "--threads", s.threads,
                          "--io", io, "--listen", f"127.0.0.1:{s.port}", "--log", s.folder / "log"]

    def weir_file(sync, io="epoll"):
        return weir("file:{folder}/data", "--sync", sync, io=io)

    def redis(fsync):
        return lambda s: ["redis-server", "--port", s.port, "--bind", "127.0.0.1", "--save", "",
                          "--dir", s.folder, "--appendonly", "yes", "--appendfsync", fsync,
                          "--auto-aof-rewrite-percentage", "0", "--daemonize", "no"]

    return {
        "constant": lambda s: [tree / "tests/constant", s.port, s.threads],
        "constant always": lambda s: [tree / "tests/constant", s.port, s.threads, s.folder / "kept"],
        "weir": weir_file("50ms"),
        "weir uring": weir_file("50ms", "uring"),
        "weir always": weir_file("always"),
        "memory": weir("memory:"),
        "redis": redis("everysec"),
        "redis always": redis("always"),
        "nginx": lambda s: ["nginx", "-c", s.fill("nginx.conf"), "-e", s.folder / "error.log"],
        "haproxy": lambda s: ["haproxy", "-db", "-f", s.fill("haproxy.cfg")],
    }


# ---- cases --------------------------------------------------------------------------------------

LUA_COMMAND = (f"raw:EVALSHA {hashlib.sha1(LUA).hexdigest()} 1 {{key}} "
               f"{LIMIT - 1} {LIMIT} 60")
WEIR_LIMIT = f"raw:WEIR.LIMIT {{key}} {{algorithm}} {LIMIT} 60000"
BUCKET, SLIDING = (WEIR_LIMIT.replace("{algorithm}", a) for a in ("token_bucket", "sliding_window"))
INCR_COMMAND = "raw:INCR n:{key} ; PEXPIRE n:{key} 60000 NX"  # scripts have the others

# name: (server, protocol, how it is asked)
CONTESTANTS = {
    "constant": ("constant", "resp", "cl.throttle"),
    "constant bucket": ("constant", "resp", BUCKET),
    "constant sliding": ("constant", "resp", SLIDING),
    "constant always": ("constant always", "resp", "cl.throttle"),
    "weir": ("weir", "resp", "cl.throttle"),
    "weir uring": ("weir uring", "resp", "cl.throttle"),
    "weir bucket": ("weir", "resp", BUCKET),
    "weir sliding": ("weir", "resp", SLIDING),
    "memory": ("memory", "resp", "cl.throttle"),
    "memory bucket": ("memory", "resp", BUCKET),
    "memory sliding": ("memory", "resp", SLIDING),
    "redis lua": ("redis", "resp", LUA_COMMAND),
    "redis incr": ("redis", "resp", INCR_COMMAND),
    "weir always": ("weir always", "resp", "cl.throttle"),
    "redis lua always": ("redis always", "resp", LUA_COMMAND),
    "redis incr always": ("redis always", "resp", INCR_COMMAND),
    "constant http": ("constant", "http", GATE),
    "weir gate": ("weir", "http", GATE),
    "weir uring gate": ("weir uring", "http", GATE),
    "weir check": ("weir", "http", CHECK),
    "weir three": ("weir", "http", GATE.replace("=limit", "=three")),
    "memory gate": ("memory", "http", GATE),
    "memory three": ("memory", "http", GATE.replace("=limit", "=three")),
    "nginx": ("nginx", "http", PLAIN),
    "haproxy": ("haproxy", "http", PLAIN),
}
RESP = ["constant", "weir", "weir uring", "redis lua", "redis incr"]
ALWAYS = ["constant always", "weir always", "redis lua always", "redis incr always"]
ALSO = ["constant bucket", "constant sliding", "weir bucket", "weir sliding", "memory", "memory bucket", "memory sliding", "weir three",
        "memory gate", "memory three"]  # with one thread and random keys
HTTP = ["constant http", "weir gate", "weir uring gate", "weir check", "nginx", "haproxy"]


def is_there(server):
    """Is it installed, or built here?"""
    program = {"redis": "redis-server", "nginx": "nginx", "haproxy": "haproxy"}
    return server.split()[0] not in program or shutil.which(program[server.split()[0]])


class Case:
    """One contestant under one load, and what was measured of it, round by round."""

    def __init__(self, name, threads, pipeline, keys, rate=0):
        self.name, self.threads, self.pipeline, self.keys, self.rate = (name, threads, pipeline,
                                                                        keys, rate)
        self.rounds = []
        self.times = Counter()  # of all rounds together: us, and how often

    def load(self):
        _, protocol, how = CONTESTANTS[self.name]
        words = ["--pipeline", self.pipeline, "--keys", self.keys]
        if protocol == "resp":
            words += ["--command", how, "--limit", f"{LIMIT} per 60s"]
        elif how:
            words += ["--path", how]
        else:
            words += ["--policy", "limit"]
        return words + (["--rate", self.rate] if self.rate else [])

    def add(self, said):
        for us, count in said.pop("histogram"):
            self.times[us] += count
        self.rounds.append(said)

    def of_all_rounds(self, quantile):
        left = sum(self.times.values()) * quantile
        for us in sorted(self.times):
            left -= self.times[us]
            if left <= 0:
                return us

    def figure(self, what):
        if self.rate and what in QUANTILES:
            return self.of_all_rounds(QUANTILES[what])
        return statistics.median(r[what] for r in self.rounds)


def all_cases(threads):
    cases = []
    for t in threads:
        for pipeline in 1, 16:
            for keys in KEYS, HOT:
                for name in RESP + HTTP:
                    if t == 1 or not name.startswith("redis"):
                        cases.append(Case(name, t, pipeline, keys))
            for name in ALWAYS + (ALSO if t == 1 else []):
                if t == 1 or not name.startswith("redis"):
                    cases.append(Case(name, t, pipeline, KEYS))
    for rate in RATES:
        for name in RESP + HTTP:
            cases.append(Case(name, 1, 16, KEYS, rate))
    return cases


class Field:
    """All servers, and all cases by what tells them apart."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="server-", dir=options.tree))
        self.folder.chmod(0o755)
        self.servers = {}
        self.cases = [c for c in all_cases([1] if options.quick else [1, 2])
                      if options.only in c.name and is_there(CONTESTANTS[c.name][0])]

    def find(self, name, threads, pipeline, keys, rate=0):
        if name.startswith("redis"):
            threads = 1
        for c in self.cases:
            if (c.name, c.threads, c.pipeline, c.keys, c.rate) == (name, threads, pipeline, keys,
                                                                   rate):
                return c if c.rounds else None
        return None

    def start(self):
        how = commands(self.options.tree)
        for case in self.cases:
            name = CONTESTANTS[case.name][0]
            if (name, case.threads) not in self.servers:
                cpu = 0 if self.options.pin and case.threads == 1 else None
                self.servers[name, case.threads] = Server(name, case.threads, how[name],
                                                          self.folder, cpu)
        for (name, _), server in self.servers.items():
            server.wait()
            if name.startswith("redis"):
                server.ask_once(command(b"SCRIPT", b"LOAD", LUA))
        self.compare_answers()

    def compare_answers(self):
        """The floor is fair if it answers as much as weir."""
        for how in "cl.throttle", BUCKET, SLIDING, GATE:
            answers = {name: shape_of(server.ask_once(once(how)))
                       for (name, _), server in self.servers.items()
                       if name.split()[0] in ("constant", "memory", "weir")}
            if len(set(answers.values())) > 1:
                sys.exit(f"bench_server: not the same answers to {how}: {answers}")

    def stop(self):
        for server in self.servers.values():
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def measure(self, case, seconds):
        name, protocol, _ = CONTESTANTS[case.name]
        server = self.servers[name, case.threads]
        words = [self.options.tree / "weir", "bench", "--json", "--server",
                 f"{protocol}://127.0.0.1:{server.port}", "--duration", f"{int(seconds * 1000)}ms"]
        if self.options.pin and case.threads == 1:
            words = ["taskset", "-c", "1"] + words
        before = server.cpu_seconds()
        done = subprocess.run([str(w) for w in words + case.load()], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0 or not done.stdout:
            sys.exit(f"bench_server: {case.name}: {done.stderr or done.stdout[:1000]}")
        said = json.loads(done.stdout)
        if said["denied"] + said["errors"] > 0:
            sys.exit(f"bench_server: {case.name}: {said['denied']} denied, {said['errors']} errors")
        said["cpu_us"] = (server.cpu_seconds() - before) * 1e6 / said["requests"]
        for quantile, us in said.pop("latency_us").items():
            said[quantile] = us
        return said

    def run(self):
        seconds = self.options.seconds
        for server_case in {(CONTESTANTS[c.name][0], c.threads): c for c in self.cases
                            if not c.rate and c.keys == KEYS}.values():
            self.measure(server_case, seconds)  # not counted: its tables fill
        turns = [c for c in self.cases if not c.rate] + OFTEN * [c for c in self.cases if c.rate]
        for r in range(self.options.rounds):
            for i, case in enumerate(turns):
                if sys.stderr.isatty():
                    print(f"\rround {r + 1} of {self.options.rounds}: {i + 1} of "
                          f"{len(turns)} {case.name:20}", end="", file=sys.stderr)
                os.sync()  # no case pays for the writes of another
                case.add(self.measure(case, seconds))
        if sys.stderr.isatty():
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr)


# ---- what came of it ----------------------------------------------------------------------------

def keys_text(keys):
    return "one hot key" if keys == HOT else f"{keys} random keys"


def print_tables(field):
    group = None
    for c in sorted(field.cases, key=lambda c: (c.rate, CONTESTANTS[c.name][1] == "http",
                                                c.name in ALWAYS, c.pipeline, -c.keys, c.threads)):
        kind = (c.rate, CONTESTANTS[c.name][1], c.name in ALWAYS, c.pipeline, c.keys)
        if kind != group:
            group = kind
            pace = f"{c.rate} a second, at a fixed rate" if c.rate else f"pipeline {c.pipeline}"
            print(f"\n{CONTESTANTS[c.name][1].upper()}, {pace}, {keys_text(c.keys)}"
                  f"{', synced before answered' if c.name in ALWAYS else ''}")
            print(f"{'':20} threads  requests/s  CPU us     p50 us    p99 us  p99.9 us")
        print(f"{c.name:20} {c.threads:7}  {c.figure('per_second'):10.0f} {c.figure('cpu_us'):7.2f} "
              f"{c.figure('p50'):10.0f} {c.figure('p99'):9.0f} {c.figure('p99.9'):9.0f}")


def ratio(a, b, what="per_second"):
    if a.rate and what in QUANTILES:
        return a.figure(what) / b.figure(what)
    return statistics.median(x[what] / y[what] for x, y in zip(a.rounds, b.rounds))


def print_ratio(field, a, b, threads, pipeline, keys, least=None, most=None, rate=0, what="per_second",
                called=None):
    """A line, if both were measured; the other one is called `called` there."""
    one = field.find(a, threads, pipeline, keys, rate)
    other = field.find(b, threads, pipeline, keys, rate)
    if not one or not other:
        return
    value = ratio(one, other, what)
    load = f"{rate}/s" if rate else f"pipeline {pipeline}, {threads} thread{'s'[:threads - 1]}"
    label = f"{a} / {called or b}: {load}{', hot key' if keys == HOT else ''}"
    label += {"per_second": "", "cpu_us": ", CPU"}.get(what, f", {what}")
    print_value(label, value, least, most, width=62)


def print_ratios(field):
    loads = [(t, keys) for t in (1, 2) for keys in (KEYS, HOT)]
    print()
    for t, keys in loads:
        print_ratio(field, "weir", "redis lua", t, 16, keys, least=5)
    for name in "weir", "memory":
        for kind in "", " bucket", " sliding":
            print_ratio(field, name + kind, "constant" + kind, 1, 16, KEYS, least=0.8,
                        called="constant")
    for t, keys in loads[1:]:
        print_ratio(field, "weir", "constant", t, 16, keys, least=0.8)
    for t, keys in loads:
        print_ratio(field, "weir", "constant", t, 1, keys, least=0.95)
    print_ratio(field, "weir uring", "constant", 1, 1, KEYS, least=1.1)
    for pipeline in 1, 16:
        for t in 1, 2:
            print_ratio(field, "weir always", "redis lua always", t, pipeline, KEYS, least=4)
    print_ratio(field, "weir always", "constant always", 1, 1, KEYS, least=0.95)
    for pipeline in 1, 16:
        for t, keys in loads:
            print_ratio(field, "weir gate", "nginx", t, pipeline, keys, least=1.2)
    for t in 1, 2:
        print_ratio(field, "weir gate", "haproxy", t, 1, KEYS, least=1.2)
    for name in "weir", "memory":
        print_ratio(field, name + " gate", "constant http", 1, 16, KEYS, least=0.6)
        print_ratio(field, name + " three", name + " gate", 1, 16, KEYS, most=1.4, what="cpu_us")
    print_ratio(field, "weir", "constant", 1, 16, KEYS, most=1.1, rate=RATES[0], what="p99")
    print_ratio(field, "weir gate", "constant http", 1, 16, KEYS, most=1.1, rate=RATES[0],
                what="p99")
    print("\nio_uring, next to epoll:")
    for pipeline in 1, 16:
        for t in 1, 2:
            print_ratio(field, "weir uring", "weir", t, pipeline, KEYS)
            print_ratio(field, "weir uring", "weir", t, pipeline, KEYS, what="cpu_us")
            if (t, pipeline) != (1, 1):
                print_ratio(field, "weir uring", "constant", t, pipeline, KEYS)
            print_ratio(field, "weir uring gate", "weir gate", t, pipeline, KEYS)
            print_ratio(field, "weir uring gate", "weir gate", t, pipeline, KEYS, what="cpu_us")
    print_ratio(field, "weir uring", "weir", 1, 16, KEYS, rate=RATES[0], what="p99")
    print_ratio(field, "weir uring", "weir", 1, 16, KEYS, rate=RATES[0], what="cpu_us")
    print("\nand, to know:")
    for pipeline in 1, 16:
        print_ratio(field, "weir", "redis incr", 1, pipeline, KEYS)
        print_ratio(field, "weir always", "redis incr always", 1, pipeline, KEYS)
        print_ratio(field, "constant always", "redis lua always", 1, pipeline, KEYS)
        print_ratio(field, "weir", "constant", 1, pipeline, KEYS, what="cpu_us")
        print_ratio(field, "weir check", "nginx", 1, pipeline, KEYS)
        print_ratio(field, "weir gate", "nginx", 1, pipeline, KEYS, what="cpu_us")
    print_ratio(field, "weir", "redis lua", 1, 16, KEYS, rate=RATES[1], what="p99")
    print_ratio(field, "weir gate", "nginx", 1, 16, KEYS, rate=RATES[1], what="p99")


COLUMNS = ["per_second", "cpu_us", "p50", "p90", "p99", "p99.9", "max", "requests"]


def write_csv(field, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["contestant", "threads", "pipeline", "keys", "rate", "round"] + COLUMNS)
        for c in field.cases:
            for number, r in enumerate(c.rounds, 1):
                out.writerow([c.name, c.threads, c.pipeline, c.keys, c.rate, number] +
                             [f"{r[column]:.6g}" for column in COLUMNS])


def write_picture(field, path):
    def chart(title, unit, names, what, threads, pipeline, keys=KEYS, rate=0):
        found = [(name, field.find(name, threads, pipeline, keys, rate)) for name in names]
        return title, unit, [(name, c.figure(what)) for name, c in found if c]

    charts = []
    for pipeline in 1, 16:
        charts.append(chart(f"RESP, pipeline {pipeline}", "thousand requests/s", RESP,
                            "per_second", 1, pipeline))
        charts.append(chart(f"RESP, synced before answered, pipeline {pipeline}",
                            "thousand requests/s", ALWAYS, "per_second", 1, pipeline))
    charts.append(chart("HTTP, pipeline 1", "thousand requests/s", HTTP, "per_second", 1, 1))
    charts.append(chart("CPU of the server, RESP, pipeline 16", "us a request", RESP, "cpu_us", 1,
                        16))
    charts.append(chart("p99 at 10 000 requests a second, RESP", "us", RESP, "p99", 1, 16,
                        rate=RATES[0]))
    charts.append(chart("p99 at 10 000 requests a second, HTTP", "us", HTTP, "p99", 1, 16,
                        rate=RATES[0]))
    charts = [(title, unit, [(n, v / 1000 if unit.startswith("thousand") else v) for n, v in rows])
              for title, unit, rows in charts if rows]
    path.write_text(bars("50 connections, 100 000 random keys, one thread", charts),
                    encoding="utf-8")


def read_options():
    parser = argparse.ArgumentParser(description="weir as a server, next to others.")
    parser.add_argument("tree", type=Path, help="where weir and constant are built")
    parser.add_argument("--quick", action="store_true", help="one thread, short rounds")
    parser.add_argument("--only", default="", help="contestants whose name has this word")
    parser.add_argument("--rounds", type=int, help="how often each is asked")
    parser.add_argument("--seconds", type=float, help="how long, each time")
    parser.add_argument("--pin", action="store_true",
                        help="servers with one thread on core 0, the generator on core 1")
    parser.add_argument("--realtime", action="store_true",
                        help="before all other work of this machine; for root")
    parser.add_argument("--out", type=Path, help="where results go: OUT.csv, OUT.svg")
    options = parser.parse_args()
    options.tree = options.tree.resolve()
    options.out = options.out or options.tree / "server"
    options.rounds = options.rounds or (3 if options.quick else 11)
    options.seconds = options.seconds or (0.2 if options.quick else 0.4)
    return options


def main():
    options = read_options()
    os.environ["PATH"] += ":/usr/sbin"
    for name in "redis", "nginx", "haproxy":
        if not is_there(name):
            print(f"{name} is not installed, and left out")
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # and so do all it starts
    field = Field(options)
    try:
        field.start()
        print(f"50 connections; {options.rounds} rounds of {options.seconds} s, those at a rate {OFTEN} "
              f"times as often; {os.cpu_count()} cores for generator and server", flush=True)
        field.run()
    finally:
        field.stop()
    print_tables(field)
    print_ratios(field)
    write_csv(field, options.out.with_suffix(".csv"))
    write_picture(field, options.out.with_suffix(".svg"))
    print(f"\nsee {options.out.with_suffix('.csv')} and {options.out.with_suffix('.svg')}")


if __name__ == "__main__":
    main()
