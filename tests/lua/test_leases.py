#!/usr/bin/env python3
"""test_leases.py - what is leased of logs, counters and buckets in Redis, next to a model.

    test_leases.py TREE      from the root of the source
"""
import sys

sys.path.insert(0, "tests/support")
import lease_model  # noqa: E402
from lua_leases import UNKNOWN, Leases  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import run, test  # noqa: E402


@test
def leases_stand_still_and_no_limit_is_exceeded():
    with Redis() as server, server.client() as client:
        lease_model.play(Leases(client), 150, 60)


run()
