#!/usr/bin/env python3
"""bench_scripts.py - scripts of npm's limiters: weir, which recognises them, next to a Redis that runs them.

    bench_scripts.py TREE [--quick] [--rounds N] [--realtime] [--out NAME]

redis-benchmark sends EVALSHA on 100 000 keys, by so many connections, each with so many requests under way.
weir has one thread, as Redis has. Both count in memory; or both in files, with a sync each second. They take
turns for several rounds: a figure is the median of the rounds, a ratio the median of the rounds' ratios.

What npm has to fetch is kept in TREE. Results go to NAME.csv, by default TREE/scripts.
"""
import argparse
import csv
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from npm import fetched  # noqa: E402
from redis import Client, Redis  # noqa: E402
from rounds import add_options, cpu_seconds, parse_options, ratio, run_rounds, write_csv  # noqa: E402
from weir_server import Folder, Server  # noqa: E402

KEYS = 100_000
LOADS = (1, 1), (16, 1), (128, 1), (256, 1), (1, 128), (16, 16)  # connections, and what each has under way
COLUMNS = ("per_second", "p50", "p99", "cpu")
SCRIPTS = """
const { RateLimiterRedis } = require('rate-limiter-flexible')
const { RedisStore } = require('rate-limit-redis')
const flexible = new RateLimiterRedis({ storeClient: {}, points: 1, duration: 1 })._incrTtlLuaScript
new RedisStore({ sendCommand: (script, load, text) => {
  console.log(JSON.stringify({ 'rate-limiter-flexible': [flexible, '1', '3600'], 'rate-limit-redis': [text, '3600000'] }))
} }).loadIncrementScript('').catch(() => {})
"""


class Case:
    """A server under one load, and what was measured of it, round by round."""

    def __init__(self, name, kind, load, server, call):
        self.name, self.kind, self.load, self.server, self.call = name, kind, load, server, call
        self.rounds = []

    def median(self, what):
        return statistics.median(r[what] for r in self.rounds)

    def cpu(self):
        """Of the server, us a request."""
        return statistics.mean(r["cpu"] for r in self.rounds)


def scripts(modules):
    """For each limiter its script that counts, and the arguments."""
    return json.loads(subprocess.run(["node", "-e", SCRIPTS], cwd=modules, capture_output=True, check=True).stdout)


def measure(is_quick):
    def measured(case):
        connections, under_way = case.load
        requests = (5_000 if is_quick else 20_000) * (4 if under_way > 1 else 1)
        before = cpu_seconds([case.server.process.pid])
        out = subprocess.run(["redis-benchmark", "-p", str(case.server.port), "-c", str(connections),
                              "-P", str(under_way), "-n", str(requests), "-r", str(KEYS), "--precision", "3",
                              "--csv", *case.call], capture_output=True, text=True, check=True).stdout
        used = cpu_seconds([case.server.process.pid]) - before
        row = next(csv.DictReader(out[out.index('"test"'):].splitlines()))
        return {"per_second": float(row["rps"]), "p50": 1000 * float(row["p50_latency_ms"]),
                "p99": 1000 * float(row["p99_latency_ms"]), "cpu": 1e6 * used / requests}
    return measured


def pairs_of(where, weir, redis, texts):
    """The same on weir and on Redis."""
    for name, (text, *arguments) in texts.items():
        for server in (weir, redis):
            with Client(("127.0.0.1", server.port)) as ask:
                sha1 = ask("SCRIPT", "LOAD", text).decode()
        call = ["EVALSHA", sha1, "1", f"{name}:__rand_int__", *arguments]
        for load in LOADS:
            kind = f"{name}, {where}, {load[0]} x {load[1]}"
            yield Case("weir", kind, load, weir, call), Case("Redis", kind, load, redis, call)


def print_pair(weir, redis):
    figures = "".join(f"{c.median('per_second'):12.0f}{c.median('p50'):8.0f}/{c.median('p99'):<7.0f}{c.cpu():6.2f}"
                      for c in (weir, redis))
    print(f"{weir.kind:42}{figures}{ratio(weir, redis):8.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="2 short rounds, for a look")
    options = parse_options(parser, "scripts")
    modules, why = fetched(HERE / "js", options.tree / "js_bench")
    if not modules:
        sys.exit(f"bench_scripts: {why}")
    texts = scripts(modules)
    with Folder() as folder, Server(store="memory:", threads=1) as memory, Redis() as redis, \
            Server("--sync", "1s", store=f"file:{folder}/data", threads=1) as files, \
            Redis(appendonly="yes", appendfsync="everysec") as aof:
        pairs = [*pairs_of("in memory", memory, redis, texts), *pairs_of("in files", files, aof, texts)]
        cases = [case for pair in pairs for case in pair]
        run_rounds(options.rounds or (2 if options.quick else 9), cases, measure(options.quick))
    print("a second, p50/p99 in us and processor time of the server in us, of weir and of Redis; weir's times as many")
    for pair in pairs:
        print_pair(*pair)
    write_csv(cases, COLUMNS, options.out.with_suffix(".csv"))


if __name__ == "__main__":
    main()
