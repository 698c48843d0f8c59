#!/usr/bin/env python3
"""test_reserve_kill.py - a server with a file store that is killed between a charge and its answer.

    test_reserve_kill.py TREE      from the root of the source

A caller that got no answer asks the next life again, with the same id. Whether the charge was kept
or not, it is counted once. WEIR_TEST_KILLS is how often, for each way of syncing; 200 take long.
"""
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, "tests/support")
from weir_server import WEIR, Folder, Server, run, test  # noqa: E402

SCALE = int(os.environ.get("WEIR_TEST_SCALE", 100))
KILLS = int(os.environ.get("WEIR_TEST_KILLS", max(4, 12 * SCALE // 100)))
UNITS, SLOTS, HOUR = 1_000_000, 60_000, 3_600_000
LONGEST = 0.002  # seconds until the kill: about what a reserve takes
POLICIES = f"""
version: 1
policies:
  jobs:
    by: user
    rules:
      units: {{limit: {UNITS} per 52w, algorithm: fixed_window}}
      slots: {{limit: {SLOTS} at once}}
"""


def request_bytes(body):
    text = json.dumps(body).encode()
    return (b"POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(text)) + text


def ask(server, verb, **body):
    status, _, answer = server.http("POST", f"/v1/{verb}", body)
    assert status == 200, answer
    return answer


def kill_during(server, body, dice, is_awaited):
    """Ask, and kill the server: after its answer, or at any moment before or soon after it."""
    with server.connect() as connection:
        connection.sendall(request_bytes(body))
        if is_awaited:
            assert connection.recv(1) == b"H"
        else:
            time.sleep(dice.random() * LONGEST)
        server.kill()


def kill_and_ask_again(sync):
    seed = int(os.environ.get("WEIR_TEST_SEED", 0)) or random.SystemRandom().randrange(1 << 32)
    dice, found = random.Random(seed), 0
    with Folder() as folder:
        config, store = folder / "policies.yaml", f"file:{folder}/data"
        config.write_text(POLICIES)

        def live():
            return Server("--sync", sync, config=config, store=store, threads=1)

        server = live()
        try:
            for i in range(KILLS):
                body = {"policy": "jobs", "key": "ann", "id": f"r{i}", "cost": 1, "ttl_ms": HOUR}
                is_awaited = i % 3 == 0
                kill_during(server, body, dice, is_awaited)
                server = live()
                answer = ask(server, "reserve", **body)
                assert answer["allowed"], answer
                assert answer["repeated"] or not is_awaited, "what was answered is forgotten"
                found += answer["repeated"]
                if i % 2:
                    ask(server, "commit", reservation=f"r{i}")
            rules = {rule["rule"]: rule for rule in
                     ask(server, "peek", policy="jobs", key="ann")["rules"]}
            assert server.stop() == 0
        finally:
            server.__exit__()
        print(f"# sync {sync}: seed {seed}, {KILLS} kills, {found} of the charges were kept")
        used, held = UNITS - rules["units"]["remaining"], SLOTS - rules["slots"]["remaining"]
        assert (used, held) == (KILLS, KILLS - KILLS // 2), (used, held)
        done = subprocess.run([WEIR, "store", "check", store], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done


@test
def a_reserve_that_is_asked_again_after_a_kill_is_charged_once_if_each_is_synced():
    kill_and_ask_again("always")


@test
def a_reserve_that_is_asked_again_after_a_kill_is_charged_once_if_some_are_synced_together():
    kill_and_ask_again("50ms")


run()
