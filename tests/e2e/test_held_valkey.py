#!/usr/bin/env python3
"""test_held_valkey.py - reservations in Valkey: all of test_held.py, with its server in place of Redis's.

    test_held_valkey.py TREE      from the root of the source

It is `valkey-server`, or what the environment has in WEIR_TEST_VALKEY. Debian 13 has a package of it; ./dev
matrix fetches others.
"""
import os
import shutil
import sys

PROGRAM = shutil.which(os.environ.get("WEIR_TEST_VALKEY", "valkey-server"))

if not PROGRAM:
    print("1..1\nok 1 - reservations_hold_in_valkey # skip there is no valkey-server")
    sys.exit(0)
os.environ["WEIR_TEST_REDIS"] = PROGRAM
os.execv(sys.executable, [sys.executable, "tests/e2e/test_held.py", *sys.argv[1:]])
