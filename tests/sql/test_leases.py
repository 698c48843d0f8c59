#!/usr/bin/env python3
"""test_leases.py - what is leased of logs, counters and buckets in Postgres, next to a model.

    test_leases.py TREE      from the root of the source
"""
import sys

sys.path.insert(0, "tests/support")
import lease_model  # noqa: E402
from postgres import Postgres  # noqa: E402
from sql_leases import Leases  # noqa: E402
from weir_server import run, test  # noqa: E402


@test
def leases_stand_still_and_no_limit_is_exceeded():
    with Postgres() as db:
        db.migrate()
        store = Leases(db)
        lease_model.play(store, 60, 60)
        store.close()


run()
