#!/usr/bin/env python3
"""bench_js.py - checks from one process of Node.js: weir-client next to limiters of npm with Redis.

    bench_js.py TREE [--quick] [--realtime] [--rounds N]      from the root of the source
                [--sync 1s|always] [--in-flight 16,128] [--only WORDS]...

Both keep their counters in files on this machine, as safe as each other: with a sync each second, and
with a sync before each answer. All peers take turns in one process, in each round. What npm has to
fetch is kept in TREE.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from npm import fetched  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import TREE, Folder, Server  # noqa: E402

CLIENT = Path("clients/js")
NEEDS = {"NODE_MODULES": (CLIENT, "js"), "PEERS": (Path("tests/bench/js"), "js_bench")}
DURABILITY = {  # the sync of weir, and the appendfsync of Redis
    "a sync each second": ("1s", "everysec"),
    "a sync before each answer": ("always", "always"),
}
POLICIES = """version: 1
policies:
  fixed: {limit: 1000000 per 1h, by: user, algorithm: fixed_window}
  sliding: {limit: 1000000 per 1h, by: user, algorithm: sliding_counter}
"""


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tree")
    parser.add_argument("--quick", action="store_true", help="2 rounds, for a look")
    parser.add_argument("--realtime", action="store_true",
                        help="before all other work of this machine; for root")
    parser.add_argument("--rounds", type=int, help="how often each is asked")
    parser.add_argument("--sync", choices=[sync for sync, _ in DURABILITY.values()], help="only this one of weir's")
    parser.add_argument("--in-flight", default="1,16,128,256", help="how many callers")
    parser.add_argument("--only", action="append", default=[], help="ways whose whole name this is")
    return parser.parse_args()


def main():
    options = read_options()
    env = {**os.environ, "PACKAGE": str(TREE / "js/dist"),
           "SECONDS": "0.1" if options.quick else "0.15",
           "ROUNDS": str(options.rounds or (2 if options.quick else 9)),
           "IN_FLIGHT": options.in_flight, "ONLY": json.dumps(options.only)}
    for variable, (source, folder) in NEEDS.items():
        modules, why = fetched(source, TREE / folder)
        if not modules:
            sys.exit(f"bench_js: {why}")
        env[variable] = str(modules)
    subprocess.run(["node", CLIENT / "build.mjs", TREE / "js/dist"], env=env, check=True)
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # and so do all it starts
    for name, (sync, appendfsync) in DURABILITY.items():
        if options.sync not in (None, sync):
            continue
        print(f"## {name}", flush=True)
        with Folder() as folder:
            (folder / "policies.yaml").write_text(POLICIES)
            with Server("--sync", sync, store=f"file:{folder}/data", config=folder / "policies.yaml", threads=1) \
                    as server, Redis(appendonly="yes", appendfsync=appendfsync) as redis:
                env.update({"WEIR_PORT": str(server.port), "REDIS_PORT": str(redis.port)})
                subprocess.run(["node", "tests/bench/bench_js.mjs"], env=env, check=True)


if __name__ == "__main__":
    main()
