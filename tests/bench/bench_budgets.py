#!/usr/bin/env python3
"""bench_budgets.py - reservations, next to checks and to scripts written by hand for Redis.

    bench_budgets.py TREE [--quick] [--only library|server] [--rounds N] [--seconds S] [--realtime]
                     [--out NAME]

First by the library (bench_budgets.c), then by a server, with everything on this machine. A pair is
a reserve and its commit with a new id. All take turns for several rounds: a figure is the median of
the rounds, a ratio the median of the rounds' ratios. CPU is that of the server and its store.

round trips  between weir and its store, of reserves and commits that come one after the other: a
             proxy between the two counts them, on the connection that has most of them
one          checks and pairs of a token bucket
three        checks and pairs of three rules: requests, tokens and money; the commit says that half
             of the tokens were used
four         pairs of these rules and of slots, which no check can ask for
  lua        one EVALSHA of budget_reserve.lua and one of budget_commit.lua, to Redis itself
slots        one caller, pairs of a key that has 10 or 1000 other slots open

CALLERS ask, and each has 16 pairs or checks under way, or one. All are asked by weir bench. weir
has one thread, as Redis has. Files are synced every 50 ms; the AOF of Redis every second; Postgres
has synchronous_commit on. There are KEYS users. No request is denied.

Results go to NAME.csv, by default TREE/budgets.
"""
import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from postgres import Postgres, descendants  # noqa: E402
from proxy import Proxy  # noqa: E402
from redis import Client, Redis  # noqa: E402
from rounds import (add_options, cpu_seconds, parse_options, print_tables,  # noqa: E402
                    print_value, ratio, run_rounds, write_csv)
from weir_server import Server  # noqa: E402

KEYS, CALLERS, TTL, DAY = 100_000, 50, 60_000, 86_400_000
SLOTS = 10, 1000
PAIRS_COUNTED = 200
REQUESTS, TOKENS, MONEY, RUNNING = 10**8, 10**9, 10**12, 60_000  # the limits
THREE = f"""
    by: user
    rules:
      requests: {{limit: {REQUESTS} per 1m, algorithm: fixed_window}}
      tokens: {{limit: {TOKENS} per 1m, algorithm: token_bucket, counts: tokens}}
      spend: {{limit: {MONEY} per month, counts: money}}
"""
POLICIES = f"""
version: 1
policies:
  one: {{limit: {REQUESTS} per 1m, algorithm: token_bucket, by: user}}
  slots: {{limit: {RUNNING} at once, by: user}}
  three:{THREE}  four:{THREE}      running: {{limit: {RUNNING} at once}}
"""
COSTS = "COST tokens 100 COST money 5"
CHECKS = {"one": "WEIR.CHECK one {key}", "three": "WEIR.CHECK three {key} " + COSTS}
PAIRS = {"one": f"WEIR.RESERVE one {{key}} TTL {TTL} ID {{id}} ; WEIR.COMMIT {{id}}",
         "three": f"WEIR.RESERVE three {{key}} TTL {TTL} ID {{id}} {COSTS} ; "
                  "WEIR.COMMIT {id} COST tokens 50"}
FOUR = PAIRS["three"].replace("three", "four")
HELD = f"WEIR.RESERVE slots {{key}} TTL {TTL} ID {{id}} ; WEIR.COMMIT {{id}}"
SCRIPTS = [(HERE / f"budget_{name}.lua").read_bytes() for name in ("reserve", "commit")]
LUA = ("EVALSHA {0} 3 c:{{key}} s:{{key}} r:{{id}} {{id}} {ttl} 202611 100 5 {limits} ; "
       "EVALSHA {1} 3 c:{{key}} s:{{key}} r:{{id}} {{id}} 50 5").format(
           *(hashlib.sha1(script).hexdigest() for script in SCRIPTS), ttl=TTL,
           limits=f"{REQUESTS} {TOKENS} {MONEY} {RUNNING}")
HERE_ALONE = "memory", "file"  # stores without a server of their own
COLUMNS = {"per_second": "per second", "p50": "p50 us", "p99": "p99 us", "cpu_us": "CPU us"}
FULL, SINGLE = (CALLERS, 16), (CALLERS, 1)  # callers, and what each has under way


class Case:
    """One contestant under one load, and what was measured of it, round by round."""

    def __init__(self, name, what, command, load=FULL, key=None):
        self.name, self.what, self.command, self.load, self.key = name, what, command, load, key
        self.rounds = []  # None: without an answer

    def median(self, what):
        answered = [r[what] for r in self.rounds if r]
        return statistics.median(answered) if answered else float("nan")

    @property
    def kind(self):
        callers, under_way = self.load
        return f"{self.what}, {callers} caller{'s'[:callers - 1]}" + (
            f" with {under_way} under way each" if under_way > 1 else "")


class Field:
    """A server of weir for each store, and Redis itself."""

    stores = *HERE_ALONE, "redis", "postgres"

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="budgets.", dir=options.tree))
        self.config = self.folder / "policies.yaml"
        self.config.write_text(POLICIES)
        self.servers, self.proxies, self.trips = {}, {}, {}
        self.redis = Redis(appendonly="yes", auto_aof_rewrite_percentage=0)
        self.peer = Redis(appendonly="yes", auto_aof_rewrite_percentage=0)  # of those by hand
        self.db = Postgres(max_wal_size="4GB", checkpoint_timeout="30min")
        ours = ["weir " + store for store in self.stores]
        self.cases = []
        for name in ours:
            for rules in CHECKS:
                self.cases += [Case(name, f"check of {rules}", CHECKS[rules]),
                               Case(name, f"pair of {rules}", PAIRS[rules])]
        for load in FULL, SINGLE:
            self.cases += [Case("lua", "pair of four", LUA, load)]
            self.cases += [Case(name, "pair of four", FOUR, load) for name in ours]
        self.cases += [Case(name, f"pair beside {n} slots", HELD, (1, 1), f"open-{n}")
                       for name in ours for n in SLOTS]

    def start(self):
        self.db.migrate()
        self.proxies = {"redis": Proxy(self.redis.address),
                        "postgres": Proxy(("127.0.0.1", self.db.port))}
        urls = {"memory": "memory:", "file": f"file:{self.folder}/data",
                "redis": f"{self.redis.url}?deadline=30s", "postgres": f"{self.db.url}?deadline=30s"}
        for store in self.stores:
            self.servers["weir " + store] = self.serve(urls[store])
        for script in SCRIPTS:
            self.peer("SCRIPT", "LOAD", script)
        self.compare_answers()
        for server in self.servers.values():
            self.open_slots(server)

    def serve(self, url):
        more = ("--sync", "50ms") if url.startswith("file:") else ()
        return Server(*more, store=url, config=self.config, threads=1)

    def stop(self):
        for proxy in self.proxies.values():
            proxy.close()
        for server in self.servers.values():
            server.__exit__()
        self.redis.__exit__()
        self.peer.__exit__()
        self.db.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def compare_answers(self):
        """The scripts must do the same work: what remains after a pair is what weir says."""
        def ask(client, text):
            return [client(*words.format(key="same", id="same-1").split())
                    for words in text.split(" ; ")]

        with self.peer.client() as client:
            held, used = ask(client, LUA)
            counts = client("HMGET", "c:same", "requests", "money")
            slots = client("ZCARD", "s:same")
        if held[0] != 1 or used != [1, 50, 0]:
            sys.exit(f"bench_budgets: the scripts say {held} and {used}")
        by_hand = [REQUESTS - int(counts[0]), MONEY - int(counts[1]), RUNNING - slots]
        for name, server in self.servers.items():
            with Client(server.address) as client:
                ask(client, FOUR)
            rules = server.http("POST", "/v1/peek", {"policy": "four", "key": "same"})[2]["rules"]
            remaining = {rule["rule"]: rule["remaining"] for rule in rules}
            said = [remaining[rule] for rule in ("requests", "spend", "running")]
            if said != by_hand:
                sys.exit(f"bench_budgets: {name} has {said}, the scripts have {by_hand}")

    def open_slots(self, server):
        with Client(server.address) as client:
            for n in SLOTS:
                replies = client.many(
                    ("WEIR.RESERVE", "slots", f"open-{n}", "TTL", DAY, "ID", f"open-{n}-{i}")
                    for i in range(n))
                if not all(reply[0] == 1 for reply in replies):
                    sys.exit("bench_budgets: a slot is denied")

    def count_round_trips(self):
        for store, url in (("redis", "redis://127.0.0.1:{}?deadline=30s"),
                           ("postgres", "postgres://postgres@127.0.0.1:{}/postgres?deadline=30s")):
            proxy = self.proxies[store]
            with self.serve(url.format(proxy.port)) as server, Client(server.address) as client:
                for i in range(-5, PAIRS_COUNTED):
                    if i == 0:
                        before = list(proxy.round_trips)
                    client("WEIR.RESERVE", "four", "ann", "TTL", TTL, "ID", f"trip{i}", "COST",
                           "tokens", 100, "COST", "money", 5)
                    client("WEIR.COMMIT", f"trip{i}", "COST", "tokens", 50)
                # A server has other connections, for its upkeep.
                trips = [now - then for now, then in zip(proxy.round_trips, before)]
                self.trips[store] = max(trips) / (2 * PAIRS_COUNTED)

    def pids(self, name):
        if name == "lua":
            return [self.peer.process.pid]
        store = name.split()[1]
        theirs = {"redis": [self.redis.process.pid], "postgres": descendants(self.db.pid)}
        return [self.servers[name].pid, *theirs.get(store, [])]

    def measure(self, case):
        callers, under_way = case.load
        port = self.peer.port if case.name == "lua" else self.servers[case.name].port
        keys = ["--key", case.key, "--keys", "1"] if case.key else ["--keys", str(KEYS)]
        pids = self.pids(case.name)
        before = cpu_seconds(pids)
        done = subprocess.run(
            [self.options.tree / "weir", "bench", "--json", "--server", f"resp://127.0.0.1:{port}",
             "--connections", str(callers), "--pipeline", str(under_way), *keys,
             "--duration", f"{self.options.seconds}s", "--command", "raw:" + case.command],
            capture_output=True, text=True, check=False)
        said = json.loads(done.stdout) if done.stdout else None
        if not said and "answer" in done.stderr:  # in time: the machine is too busy for this store
            print(f"{case.name}, {case.kind}: {done.stderr.strip()}", flush=True)
            return None
        if not said or said["errors"]:
            sys.exit(f"bench_budgets: {case.name}, {case.kind}: {done.stderr}{done.stdout[:300]}")
        return {"per_second": said["per_second"], "p50": said["latency_us"]["p50"],
                "p99": said["latency_us"]["p99"],
                "cpu_us": (cpu_seconds(pids) - before) * 1e6 / said["requests"]}

    def run(self):
        run_rounds(self.options.rounds, self.cases, self.measure)

    def find(self, name, what, load=None):
        return next(case for case in self.cases if case.name == name and case.what == what
                    and load in (None, case.load))


# ---- what came of it ----------------------------------------------------------------------------

def print_ratios(field):
    print()
    for store, trips in field.trips.items():
        print_value(f"weir {store}: round trips of a reserve or a commit", trips, most=1.01)
    for store in field.stores:
        name = "weir " + store
        for rules in CHECKS:
            check, pair = (field.find(name, f"{what} of {rules}") for what in ("check", "pair"))
            print_value(f"{name}: pair / check of {rules}, time", ratio(check, pair),
                        most=2.5 if store in HERE_ALONE else None)
            print_value(f"{name}: pair / check of {rules}, CPU", ratio(pair, check, "cpu_us"))
    for load in FULL, SINGLE:
        by_hand = field.find("lua", "pair of four", load)
        for store in field.stores:
            ours = field.find("weir " + store, "pair of four", load)
            least = 5 if store == "file" and load == FULL else None
            print_value(f"{ours.name} / lua: {ours.kind}", ratio(ours, by_hand), least=least)
            print_value("lua / weir, CPU", ratio(by_hand, ours, "cpu_us"))
    for store in field.stores:
        few, many = (field.find("weir " + store, f"pair beside {n} slots") for n in SLOTS)
        print_value(f"weir {store}: beside 1000 slots / beside 10, time", ratio(few, many), most=3)
        print_value(f"weir {store}: beside 1000 slots / beside 10, CPU", ratio(many, few, "cpu_us"),
                    most=3)


def read_options():
    parser = argparse.ArgumentParser(description="Reservations, next to checks and to Lua by hand.")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", choices=("library", "server"), help="one of the two parts")
    options = parse_options(parser, "budgets")
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = options.seconds or 2
    return options


def run_servers(options):
    field = Field(options)
    try:
        field.start()
        print(f"\nby a server: {options.rounds} rounds of {options.seconds} s; {os.cpu_count()} "
              f"cores for callers, weir and stores; load {os.getloadavg()[0]:.1f} at the start",
              flush=True)
        field.count_round_trips()
        field.run()
        print_tables(sorted(field.cases, key=lambda case: case.kind), COLUMNS)
        print_ratios(field)
    finally:
        field.stop()
    write_csv(field.cases, COLUMNS, options.out.with_suffix(".csv"))
    print(f"\nsee {options.out.with_suffix('.csv')}")


def main():
    options = read_options()
    if options.only != "server":
        subprocess.run([options.tree / "tests/bench_budgets", "--dir", options.tree]
                       + (["--quick"] if options.quick else []), check=True)
    if options.only != "library":
        run_servers(options)


if __name__ == "__main__":
    main()
