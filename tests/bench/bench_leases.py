#!/usr/bin/env python3
"""bench_leases.py - leased quotas: weir in front of Redis and Postgres with leases and without, next
to callers who ask Redis or Postgres themselves, and to weir's store in memory.

    bench_leases.py TREE [--quick] [--rounds N] [--seconds S] [--realtime] [--out NAME]
    bench_leases.py TREE --trial N [--servers N]
    bench_leases.py TREE --usage

One Redis (AOF everysec) and one Postgres (fsync on), with everything on this machine. They take turns
for several rounds: a figure is the median of the rounds, a ratio the median of the rounds' ratios.

leased redis, leased postgres   a policy with `lease: on`
asked redis, asked postgres     the same policy without
memory, memory unix             the same policy, counted in the process
evalsha                         gcra.lua by EVALSHA, one call a check, asked by weir bench
upsert                          one plain prepared upsert, by pgbench
library postgres                one caller who has weir in its process, as pgbench has libpq

All of Redis and its callers is asked by TCP, all of Postgres and its callers by Unix sockets, as pgbench asks
by default: a ratio compares what comes the same way. No request is denied. `store` is how often weir asked its store for 1000 decisions.

With --trial no speed is measured: so many decisions are made by N servers (3 and 8) that are killed,
stopped for longer than a chunk lasts and set by an hour, and whose store is restarted, fails over, or
moves slots; it fails if callers were told more than the limits of any algorithm allow.

With --usage three servers are asked for more than a limit, of each algorithm with each store: it fails if
less than 97 % of it was used. Of a sliding window or counter that is how full it was when it denied.

Results go to NAME.csv, by default TREE/leases.
"""
import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import lease_homes  # noqa: E402
import lease_trial  # noqa: E402
import postgres_fixture  # noqa: E402
from postgres import Postgres, programs  # noqa: E402
from redis import Redis  # noqa: E402
from rounds import (add_options, parse_options, print_tables, print_value, ratio,  # noqa: E402
                    run_rounds, write_csv)
from weir_server import Server  # noqa: E402

KEYS, HOT = 100_000, 1
LUA = (HERE / "gcra.lua").read_bytes()
EVALSHA = f"raw:EVALSHA {hashlib.sha1(LUA).hexdigest()} 1 {{key}} 999999 1000000 1"
UPSERT = ("INSERT INTO plain AS p (key, count) VALUES ('key:' || :k, 1) "
          "ON CONFLICT (key) DO UPDATE SET count = p.count + 1 RETURNING count;")
POLICY = "version: 1\npolicies:\n  wide: {limit: 1000000000000 per 52w, by: key, " \
    "algorithm: fixed_window%s}\n"
COLUMNS = {"per_second": "checks/s", "p50": "p50 us", "p99": "p99 us", "store": "store/1000"}
LOADS = (1, 1), (8, 1), (64, 1), (64, 16)  # callers, and what each has under way
CHECKS = 100_000  # that a caller with the library makes in each second of a round
WEIR = "leased redis", "asked redis", "memory", "leased postgres", "asked postgres", "memory unix"
STORES, USED = ("Home", "PostgresHome", "ClusterHome"), 0.97
CHAOS = {"Home": ["stop", "kill", "step", "store"] * 3, "PostgresHome": ["stop", "kill", "step"] * 3, "PairHome": ["restart", "kill", "restart", "take_over"],
         "ClusterHome": ["stop", "kill", "move", "promote", "step"], "WatchedHome": ["kill", "failover"]}


class Case:
    """One contestant under one load, and what was measured of it, round by round."""

    def __init__(self, name, load, keys):
        self.name, self.load, self.keys = name, load, keys
        self.rounds = []

    def median(self, what):
        return statistics.median(r[what] for r in self.rounds)

    @property
    def kind(self):
        keys = f"{self.keys} random keys" if self.keys > 1 else "one hot key"
        callers, under_way = self.load
        return f"{keys}, {callers} caller{'s' if callers > 1 else ''}" + (
            f" with {under_way} under way each" if under_way > 1 else "")


class Field:
    """Redis, Postgres, and weirs in front of them."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="bench-leases."))
        self.cases = [Case(name, load, keys) for keys in (HOT, KEYS) for load in LOADS
                      for name in (*WEIR, "evalsha", *(() if load[1] > 1 else ("upsert",)))]
        self.cases.insert(0, Case("library postgres", LOADS[0], HOT))
        self.redis = Redis(appendonly="yes", auto_aof_rewrite_percentage=0)
        self.db = Postgres(max_wal_size="4GB", checkpoint_timeout="30min")
        self.servers, self.library = {}, None

    def start(self):
        self.redis("SCRIPT", "LOAD", LUA)
        self.db.migrate()
        self.db.psql("CREATE TABLE plain (key text PRIMARY KEY, count int NOT NULL); INSERT INTO "
                     f"plain SELECT 'key:' || i, 1 FROM generate_series(1, {KEYS}) AS i")
        postgres = f"postgres://postgres@/postgres?host={self.db.folder}&port={self.db.port}"
        stores = {"redis": f"{self.redis.url}?deadline=10s", "postgres": f"{postgres}&deadline=10s"}
        for name in WEIR:
            config = self.folder / f"{name.replace(' ', '-')}.yaml"
            config.write_text(POLICY % (", lease: on" if "leased" in name else ""))
            if name == "leased postgres":
                self.library = config, stores["postgres"]
            self.servers[name] = Server(store=stores.get(name.split()[-1], "memory:"), config=config,
                                        listen=f"127.0.0.1:0,unix:{self.socket_of(name)}")

    def socket_of(self, name):
        return self.folder / f"{name.replace(' ', '-')}.sock"

    def url_of(self, name):
        if name.split()[-1] in ("postgres", "unix"):
            return f"resp+unix:{self.socket_of(name)}"
        return f"resp://127.0.0.1:{self.servers[name].port}"

    def stop(self):
        for server in self.servers.values():
            server.stop()
        self.redis.__exit__()
        self.db.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def bench(self, url, case, *words):
        callers, under_way = case.load
        done = subprocess.run(
            [self.options.tree / "weir", "bench", "--json", "--server", url, "--connections",
             str(callers), "--pipeline", str(under_way), "--keys", str(case.keys), "--duration",
             f"{self.options.seconds}s", *words],
            capture_output=True, text=True, check=False)
        said = json.loads(done.stdout) if done.stdout else None
        if not said or said["errors"]:
            sys.exit(f"bench_leases: weir bench: {done.stderr}{done.stdout[:300]}")
        return {"per_second": said["per_second"], "p50": said["latency_us"]["p50"],
                "p99": said["latency_us"]["p99"], "store": 1000.0}

    def ask_library(self):
        count = int(CHECKS * self.options.seconds)
        done = subprocess.run([self.options.tree / "tests" / "library_caller", *self.library, "wide",
                               "library", str(count)], capture_output=True, text=True, check=True)
        allowed, leased, us = (int(word) for word in done.stdout.split())
        if allowed < count:
            sys.exit(f"bench_leases: of {count} checks {allowed} were allowed")
        return {"per_second": 1e6 * count / us, "p50": us / count, "p99": us / count,
                "store": 1000 * (count - leased) / count}

    def upsert(self, case):
        script = self.folder / "upsert.sql"
        script.write_text(f"\\set k random(1, {case.keys})\n{UPSERT}\n")
        done = subprocess.run(
            [programs() / "pgbench", "-n", "-M", "prepared", "-f", script, "-c", str(case.load[0]),
             "-j", "2", "-T", str(max(1, int(self.options.seconds))), "-h", self.db.folder, "-p",
             str(self.db.port), "-U", "postgres", "postgres"], capture_output=True, text=True,
            check=True)
        per_second = float(re.search(r"tps = ([\d.]+)", done.stdout)[1])
        mean = 1e6 * case.load[0] / per_second  # all that pgbench tells without a log
        return {"per_second": per_second, "p50": mean, "p99": mean, "store": 1000.0}

    def asked(self, server):
        """Decisions, and how often the store was asked."""
        text = server.http("GET", "/metrics")[2].decode()
        by_source = dict(re.findall(r'^weir_checks_total\{policy="wide",outcome="allowed",'
                                    r'source="(\w+)"\} (\d+)', text, re.M))
        requests = int(re.search(r"^weir_lease_requests_total (\d+)", text, re.M)[1])
        store = int(by_source.get("store", 0))
        return store + int(by_source.get("lease", 0)), store + requests

    def measure(self, case):
        if case.name == "upsert":
            return self.upsert(case)
        if case.name == "library postgres":
            return self.ask_library()
        if case.name == "evalsha":
            return self.bench(f"resp://127.0.0.1:{self.redis.port}", case, "--command", EVALSHA)
        server = self.servers[case.name]
        before = self.asked(server)
        result = self.bench(self.url_of(case.name), case, "--policy", "wide")
        decided, asked = (now - then for now, then in zip(self.asked(server), before))
        return {**result, "store": 1000 * asked / max(1, decided)}

    def run(self):
        run_rounds(self.options.rounds, self.cases, self.measure)


# ---- what came of it ----------------------------------------------------------------------------

WANTED = {(1, 1): 1.2, (64, 1): 2, (64, 16): 8}  # times callers of Redis, for a hot key


def print_ratios(field):
    alone = {c.name: c for c in field.cases if (c.keys, c.load) == (HOT, LOADS[0])}
    print()
    print_value("library postgres / upsert: one hot key, 1 caller",
                ratio(alone["library postgres"], alone["upsert"]), least=10)
    print_value("memory unix / upsert, which bounds a caller over a socket: one hot key, 1 caller",
                ratio(alone["memory unix"], alone["upsert"]))
    for ours in (c for c in field.cases if c.name.startswith("leased")):
        others = {c.name: c for c in field.cases if c.kind == ours.kind}
        store, is_hot = ours.name.split()[1], ours.keys == HOT
        print_value(f"{ours.name} / asked: {ours.kind}", ratio(ours, others[f"asked {store}"]))
        if store == "redis":
            print_value(f"{ours.name} / evalsha: {ours.kind}", ratio(ours, others["evalsha"]),
                        least=WANTED.get(ours.load) if is_hot else None)
        elif "upsert" in others:
            print_value(f"{ours.name} / upsert: {ours.kind}", ratio(ours, others["upsert"]),
                        least=10 if is_hot else None)
        memory = others["memory" if store == "redis" else "memory unix"]
        print_value(f"{ours.name} / memory, p50: {ours.kind}", ratio(ours, memory, "p50"),
                    most=1.3 if is_hot else None)
        if is_hot:
            print_value(f"{ours.name}, store asked for 1000: {ours.kind}", ours.median("store"),
                        most=20)


def try_limits(options):
    """Decisions until there are enough, in trials of half a minute: with each store in turn."""
    made, homes = 0, list(CHAOS)
    for number in range(1000):
        count = options.servers or (3, 8)[number // len(homes) % 2]
        name = homes[number % len(homes)]
        with getattr(lease_homes, name)() as home:
            tried = lease_trial.trial(home, count, 30, CHAOS[name])
        made += tried.decisions
        print(f"{made} decisions, {count} servers, {name}", flush=True)
        if made >= options.trial and number + 1 >= 2 * len(homes):
            break


def show_usage():
    """How much of what each algorithm lets in three servers used under steady load, with each store."""
    worst = 1
    for name in STORES:
        for policy, numbers in lease_trial.STEADY.items():
            with getattr(lease_homes, name)() as home:
                tried = lease_trial.trial(home, 3, 4 + 3 * numbers[1] / 1000, [], [policy])
            share = lease_trial.share_of(tried.told, policy, "hot")
            worst = min(worst, share)
            print(f"{name}: {policy} used {share:.1%} of its limit", flush=True)
    if worst < USED:
        sys.exit(f"bench_leases: less than {USED:.0%} of a limit was used")


def read_options():
    parser = argparse.ArgumentParser(description="leased quotas, next to others")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--trial", type=int, help="decisions that must keep to the limits")
    parser.add_argument("--servers", type=int, help="of a trial")
    parser.add_argument("--usage", action="store_true", help="how much of each limit is used")
    options = parse_options(parser, "leases")
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = options.seconds or (1 if options.quick else 3)
    return options


def main():
    options = read_options()
    if options.trial or options.usage:
        try:
            if options.trial:
                try_limits(options)
            if options.usage:
                show_usage()
        finally:
            postgres_fixture.close_cluster()
        return
    field = Field(options)
    try:
        field.start()
        print(f"{options.rounds} rounds of {options.seconds} s; {os.cpu_count()} cores for callers, "
              "weir, Redis and Postgres", flush=True)
        field.run()
        print_tables(field.cases, COLUMNS)
        print_ratios(field)
    finally:
        field.stop()
    write_csv(field.cases, COLUMNS, options.out.with_suffix(".csv"))
    print(f"\nsee {options.out.with_suffix('.csv')}")


if __name__ == "__main__":
    main()
