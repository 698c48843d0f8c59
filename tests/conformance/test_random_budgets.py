#!/usr/bin/env python3
"""test_random_budgets.py - random traces of budgets, as the model answers them, hold in every store.

    test_random_budgets.py TREE      from the root of the source

They have what the traces of the contract have not: resets, checks with ids, odd days of many zones, and
steps at the very ms at which reservations expire or are forgotten.
"""
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, "tests/support")
from budget_model import Model  # noqa: E402
from budget_steps import Steps, odd_time, random_rules  # noqa: E402
from postgres_fixture import PATIENT, Fixture, close_cluster  # noqa: E402
from redis import Cluster, Redis  # noqa: E402
from weir_server import Folder, TREE, run, test  # noqa: E402

SEED = int(os.environ.get("WEIR_TEST_SEED") or random.randrange(1 << 32))
SCALE = int(os.environ.get("WEIR_TEST_SCALE", "100"))
print(f"# WEIR_TEST_SEED={SEED}")


def trace(dice, length):
    rules = random_rules(dice)
    for rule in rules:  # what lockouts forget is easily wrong
        if "window_ms" in rule and dice.random() < 0.3:
            rule["block_for_ms"] = dice.choice((1, 500, 20_000))
    steps, model = Steps(dice, rules, odd_time(dice, rules), resets=True), Model(rules)
    return {"rules": rules, "steps": [step | {"want": model.step(step)}
                                      for step in (dict(steps.next()) for _ in range(length))]}


def hold(traces, url=None):
    dice = random.Random(SEED)
    with Folder() as folder:
        path = folder / "traces.jsonl"
        with path.open("w") as file:
            for _ in range(traces):
                file.write(json.dumps(trace(dice, 80)) + "\n")
        env = {**os.environ, "WEIR_TEST_TRACES": str(path)}
        done = subprocess.run([TREE / "tests/conform_budgets"], capture_output=True, text=True,
                              check=False, env=env | ({"WEIR_TEST_STORE": url} if url else {}))
        assert done.returncode == 0, done.stdout + done.stderr


@test
def in_memory_and_in_files_that_are_opened_again():
    hold(max(20, 100 * SCALE // 100))


@test
def in_postgres():
    with Fixture() as fixture:
        hold(max(5, 10 * SCALE // 100), fixture.url)


@test
def in_redis():
    with Redis() as redis:
        hold(max(10, 20 * SCALE // 100), f"{redis.url}?{PATIENT}")


@test
def in_a_cluster():
    with Cluster() as cluster:
        hold(max(10, 20 * SCALE // 100),
             f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}?{PATIENT}")


try:
    run()
finally:
    close_cluster()
