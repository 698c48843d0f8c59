#!/usr/bin/env python3
"""bench_js.py - checks from one process of Node.js: weir-client next to limiters of npm with Redis.

    bench_js.py TREE [--quick]      from the root of the source

Both keep their counters in memory, on this machine. What npm has to fetch is kept in TREE.
"""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from npm import fetched  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import TREE, Server  # noqa: E402

CLIENT = Path("clients/js")
NEEDS = {"NODE_MODULES": (CLIENT, "js"), "PEERS": (Path("tests/bench/js"), "js_bench")}


def main(arguments):
    env = {**os.environ, "PACKAGE": str(TREE / "js/dist")}
    for variable, (source, folder) in NEEDS.items():
        modules, why = fetched(source, TREE / folder)
        if not modules:
            sys.exit(f"bench_js: {why}")
        env[variable] = str(modules)
    subprocess.run(["node", CLIENT / "build.mjs", TREE / "js/dist"], env=env, check=True)
    with Server() as server, Redis() as redis:
        env.update({"WEIR_PORT": str(server.port), "REDIS_PORT": str(redis.port),
                    "SECONDS": "0.1" if "--quick" in arguments else "0.4",
                    "ROUNDS": "1" if "--quick" in arguments else "7"})
        return subprocess.run(["node", "tests/bench/bench_js.mjs"], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
