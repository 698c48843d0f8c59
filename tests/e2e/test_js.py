#!/usr/bin/env python3
"""test_js.py - the client for JavaScript: builds it, and runs its tests against real servers.

    test_js.py TREE [NAME...]      from the root of the source; only tests of these names

The tests are clients/js/test/NAME.test.mjs. What npm has to fetch is kept in TREE/js, and the compiled package too. Without npm,
or where it reaches no registry, the tests are skipped.
"""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from npm import fetched  # noqa: E402
from weir_server import TREE, WEIR  # noqa: E402

CLIENT, KEPT = Path("clients/js").resolve(), TREE / "js"


def skip(names, why):
    for number, name in enumerate(names, 1):
        print(f"ok {number} - {name} # skip {why}")
    print(f"1..{len(names)}", flush=True)


def main(names):
    names = names or sorted(path.name.removesuffix(".test.mjs") for path in CLIENT.glob("test/*.test.mjs"))
    modules, why = fetched(CLIENT, KEPT)
    if not modules:
        skip(names, why)
        return 0
    env = {**os.environ, "WEIR": str(WEIR), "PACKAGE": str(KEPT / "dist"), "NODE_MODULES": str(modules)}
    subprocess.run(["node", CLIENT / "build.mjs", KEPT / "dist"], env=env, check=True)
    # Each prints TAP with a plan of its own.
    return max(subprocess.run(["node", "--test-reporter=tap", CLIENT / f"test/{name}.test.mjs"], env=env,
                              check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
