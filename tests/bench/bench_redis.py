#!/usr/bin/env python3
"""bench_redis.py - weir in front of Redis, by TLS and plain, next to clients of Redis itself.

    bench_redis.py TREE [--quick] [--rounds N] [--seconds S] [--realtime] [--out NAME]

One Redis for all but weir tls (AOF everysec), with everything on this machine. They take turns for several
rounds: a figure is the median of the rounds, a ratio the median of the rounds' ratios.

evalsha    gcra.lua by EVALSHA, one call a check, asked by weir bench
weir resp  weir serve with redis://, asked by the same weir bench: one request a check
weir tls   the same with rediss://, to a second Redis that has TLS alone
flexible   npm's rate-limiter-flexible with ioredis, in one node process; left out where npm
           cannot fetch it

Callers wait for each answer; at saturation each of 64 has 16 under way. No request is
denied, except in the last case: one key that always is.

Results go to NAME.csv, by default TREE/redis.
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

from certificates import make_certs  # noqa: E402
from redis import Redis  # noqa: E402
from rounds import (add_options, parse_options, print_tables, print_value, ratio,  # noqa: E402
                    run_rounds, write_csv)
from weir_server import Server  # noqa: E402

KEYS, HOT = 100_000, 1
LUA = (HERE / "gcra.lua").read_bytes()
EVALSHA = f"raw:EVALSHA {hashlib.sha1(LUA).hexdigest()} 1 {{key}} "
POLICIES = """
version: 1
policies:
  wide:   {limit: 1000000 per 1s, by: key, algorithm: token_bucket}
  denied: {limit: 1 per 52w, by: key, algorithm: fixed_window}
"""
COLUMNS = {"per_second": "checks/s", "p50": "p50 us", "p99": "p99 us"}
LOADS = (8, 1), (64, 1), (64, 16)  # callers, and what each has under way


class Case:
    """One contestant under one load, and what was measured of it, round by round."""

    def __init__(self, name, load, keys, is_denied=False):
        self.name, self.load, self.keys, self.is_denied = name, load, keys, is_denied
        self.rounds = []

    def median(self, what):
        return statistics.median(r[what] for r in self.rounds)

    @property
    def kind(self):
        keys = f"{self.keys} random keys" if self.keys > 1 else \
            "one key that is refused" if self.is_denied else "one hot key"
        callers, under_way = self.load
        return f"{keys}, {callers} callers" + (f" with {under_way} under way each"
                                               if under_way > 1 else "")


def fetch_flexible(tree):
    """The folder of the node program, or None and why."""
    source, folder = HERE / "flexible", tree / "flexible"
    if not shutil.which("npm") or not shutil.which("node"):
        return None, "node or npm is not installed"
    if not (folder / "node_modules").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
                               "--fetch-retries=0", "--fetch-timeout=20000"], cwd=folder,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder)
            return None, "npm cannot fetch it: " + done.stderr.strip().splitlines()[-1]
    shutil.copy(source / "flexible.js", folder)
    return folder, None


class Field:
    """Redis, and a weir in front of it."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="bench-redis."))
        self.flexible, self.why = fetch_flexible(options.tree)
        names = ["evalsha", "weir resp", "weir tls"] + (["flexible"] if self.flexible else [])
        self.cases = [Case(name, load, keys) for keys in (KEYS, HOT) for load in LOADS
                      for name in names]
        self.cases += [Case(name, load, HOT, True) for load in LOADS[1:] for name in names]
        make_certs(self.folder / "certs")
        self.redis = Redis(appendonly="yes", auto_aof_rewrite_percentage=0)
        self.secure = Redis(appendonly="yes", auto_aof_rewrite_percentage=0,
                            tls=self.folder / "certs")
        self.servers = {}  # of weir, by the name of the contestant

    def start(self):
        config = self.folder / "policies.yaml"
        config.write_text(POLICIES)
        self.redis("SCRIPT", "LOAD", LUA)
        for name, store in (("weir resp", f"{self.redis.url}?"), ("weir tls", f"{self.secure.url}&")):
            self.servers[name] = Server(store=f"{store}deadline=10s", config=config)

    def stop(self):
        for server in self.servers.values():
            server.stop()
        self.redis.__exit__()
        self.secure.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def bench(self, port, case, *words):
        callers, under_way = case.load
        done = subprocess.run(
            [self.options.tree / "weir", "bench", "--json", "--server", f"resp://127.0.0.1:{port}",
             "--connections", str(callers), "--pipeline", str(under_way), "--keys", str(case.keys),
             "--duration", f"{self.options.seconds}s", *words],
            capture_output=True, text=True, check=False)
        said = json.loads(done.stdout) if done.stdout else None
        if not said or said["errors"]:
            sys.exit(f"bench_redis: weir bench: {done.stderr}{done.stdout[:300]}")
        return {"per_second": said["per_second"], "p50": said["latency_us"]["p50"],
                "p99": said["latency_us"]["p99"]}

    def measure(self, case):
        if case.name == "evalsha":
            numbers = "0 1 31536000" if case.is_denied else "999999 1000000 1"
            return self.bench(self.redis.port, case, "--command", EVALSHA + numbers)
        if case.name in self.servers:
            return self.bench(self.servers[case.name].port, case, "--policy",
                              "denied" if case.is_denied else "wide")
        callers, under_way = case.load
        done = subprocess.run(
            ["node", "flexible.js", *map(str, (
                self.redis.port, callers * under_way, case.keys, self.options.seconds,
                1 if case.is_denied else 10**9))], cwd=self.flexible, capture_output=True,
            text=True, check=False)
        if done.returncode:
            sys.exit(f"bench_redis: flexible.js: {done.stderr}")
        return json.loads(done.stdout)

    def run(self):
        run_rounds(self.options.rounds, self.cases, self.measure)


# ---- what came of it ----------------------------------------------------------------------------

def print_ratios(field):
    print()
    for ours in (c for c in field.cases if c.name == "weir resp" and c.load[0] == 64):
        least = 5 if ours.is_denied else 1.3 if ours.load[1] > 1 else 1
        for theirs in (c for c in field.cases if c.kind == ours.kind and c is not ours):
            if theirs.name == "weir tls":
                print_value("weir tls / weir resp: " + ours.kind, ratio(theirs, ours))
                continue
            is_wanted = theirs.name == "evalsha" and not (ours.is_denied and ours.load[1] == 1)
            print_value(f"weir resp / {theirs.name}: {ours.kind}", ratio(ours, theirs),
                        least=least if is_wanted else None)


def read_options():
    parser = argparse.ArgumentParser(description="weir in front of Redis, next to others.")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="one short round")
    options = parse_options(parser, "redis")
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = options.seconds or (1 if options.quick else 3)
    return options


def main():
    options = read_options()
    field = Field(options)
    try:
        field.start()
        print(f"{options.rounds} rounds of {options.seconds} s; {os.cpu_count()} cores for "
              "callers, weir and Redis" + (f"; no flexible: {field.why}" if field.why else ""),
              flush=True)
        field.run()
        print_tables(field.cases, COLUMNS)
        print_ratios(field)
    finally:
        field.stop()
    write_csv(field.cases, COLUMNS, options.out.with_suffix(".csv"))
    print(f"\nsee {options.out.with_suffix('.csv')}")


if __name__ == "__main__":
    main()
