#!/usr/bin/env python3
"""test_charges.py - random checks, peeks and charges are answered as the model of budgets answers.

    test_charges.py TREE      from the root of the source

Each store has a server that believes its clients' clock. The server of the file store is killed and
started again every few steps.
"""
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, "tests/support")
from budget_model import Model  # noqa: E402
from postgres_fixture import Fixture, close_cluster  # noqa: E402
from redis import Cluster, Redis  # noqa: E402
from weir_server import Server, run, test  # noqa: E402

SEED = int(os.environ.get("WEIR_TEST_SEED", 1))
STEPS = max(20, 60 * int(os.environ.get("WEIR_TEST_SCALE", 100)) // 100)
KINDS = ("fixed_window", "sliding_window", "sliding_counter", "token_bucket", "leaky_bucket")
EPOCH = 1_700_000_000_000


def rule(dice, algorithm, name):
    made = {"name": name, "algorithm": algorithm, "limit": dice.choice([1, 5, 10, 1000]),
            "window_ms": dice.choice([1000, 60_000])}
    if "bucket" in algorithm and dice.random() < 0.5:
        made["burst"] = dice.choice([1, 4, 50])
    if dice.random() < 0.7:
        made["by"] = "user"
    if dice.random() < 0.5:
        made["counts"] = dice.choice(["tokens", "money"])
    return made


def policies(dice):
    """One of each algorithm alone, and some of several rules."""
    made = {kind: [rule(dice, kind, "a")] for kind in KINDS}
    for i in range(3):
        made[f"several{i}"] = [rule(dice, kind, name)
                               for name, kind in zip("abc", dice.sample(KINDS, 3))]
    return made


def policy_file(made):
    text = "version: 1\npolicies:\n"
    for name, rules in made.items():
        text += f"  {name}:\n    rules:\n"
        for r in rules:
            text += f"      {r['name']}:\n        limit: {r['limit']} per {r['window_ms']}ms\n"
            text += f"        algorithm: {r['algorithm']}\n"
            text += f"        burst: {r['burst']}\n" if "burst" in r else ""
            text += "        by: [user]\n" if "by" in r else ""
            text += f"        counts: {r['counts']}\n" if "counts" in r else ""
    return text


def steps(dice, count, rules):
    names = sorted({r.get("counts", "requests") for r in rules})
    now = EPOCH
    for _ in range(count):
        now += dice.choice([0, 0, 1, 3, 400, 1000, 20_000, 100_000])
        yield {"now": now, "op": dice.choice(["check", "check", "check", "peek", "charge"]),
               "key": dice.choice("xy"),
               "costs": {name: dice.choice([0, 1, 1, 2, 7, 60, 3000]) for name in names
                         if dice.random() < 0.8}}


def answer_of(said, op, rules):
    """As the model writes it."""
    rows = said.get("rules", [said])
    if op == "charge":
        assert all(r["over"] <= r["used"] for r in rows)
        return {"over": said["over"],
                "rules": [[r["remaining"], r["reset_after_ms"]] for r in rows]}
    return {"allowed": said["allowed"], "rule": said["rule"],
            "retry_after_ms": said["retry_after_ms"],
            "rules": [[r["allowed"], r["remaining"], r["retry_after_ms"], r["reset_after_ms"]]
                      for r in rows]}


def conforms(serve, reopens=None):
    dice = random.Random(SEED)
    made = policies(dice)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "policies.yaml")
        config.write_text(policy_file(made))
        server = serve(config, folder)
        try:
            for policy, rules in made.items():
                model = Model(rules)
                by = any("by" in r for r in rules)
                for i, step in enumerate(steps(dice, STEPS, rules)):
                    if reopens and i % reopens == reopens - 1:
                        server.process.kill()
                        server.process.wait()
                        server = serve(config, folder)
                    body = {"policy": policy, "now": step["now"],
                            "costs": step["costs"]}
                    if by:
                        body["attributes"] = {"user": step["key"]}
                    status, _, said = server.http("POST", f"/v1/{step['op']}", body)
                    assert status == 200, (status, said)
                    have, want = answer_of(said, step["op"], rules), model.step(step)
                    assert have == want, (SEED, rules, step, have, want)
                    if step["op"] == "charge" and len(rules) == 1:
                        key = model.key_of(0, step["key"])
                        assert said["used"] == key.state.used(step["now"]), (rules, step, said)
        finally:
            server.__exit__()


@test
def memory_charges_as_the_model():
    conforms(lambda config, _: Server("--trust-client-clock", config=config))


@test
def a_file_that_is_opened_again_charges_as_the_model():
    conforms(lambda config, folder: Server("--trust-client-clock", config=config,
                                           store=f"file:{folder}/data"), reopens=15)


@test
def postgres_charges_as_the_model():
    with Fixture() as fixture:
        conforms(lambda config, _: Server("--trust-client-clock", config=config, store=fixture.url))


@test
def redis_charges_as_the_model():
    with Redis() as redis:
        conforms(lambda config, _: Server("--trust-client-clock", config=config, store=redis.url))


@test
def a_cluster_charges_as_the_model():
    with Cluster() as cluster:
        url = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"
        conforms(lambda config, _: Server("--trust-client-clock", config=config, store=url))


try:
    run()
finally:
    close_cluster()
