#!/usr/bin/env python3
"""test_waits.py - no thread waits for one that waits for it, whatever is asked at the same time.

    test_waits.py TREE      from the root of the source
"""
import signal
import sys
import time

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, Server, run, test  # noqa: E402

POLICIES = "version: 1\npolicies:\n  login: {limit: 1000000 per 1h, by: ip}\n"
RELOAD = b"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
OVERRIDES = b"GET /v1/overrides HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b'{"policy":"login","key":"203.0.113.7"}'
CHECK = (b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         b"Content-Length: %d\r\n\r\n" % len(BODY)) + BODY
ROUNDS = 10


def besiege(server):
    """Six that reload, and four whose checks are answered behind what a pool thread must do.
    Returns the connections, none of which has been read from."""
    connections = [server.connect() for _ in range(10)]
    for _ in range(ROUNDS):
        for connection in connections[6:]:
            connection.sendall((OVERRIDES + CHECK) * 3)
        for connection in connections[:6]:
            connection.sendall(RELOAD)
    return connections


def hear_answers(connection, count):
    """How often it says 200, in this many answers."""
    data = b""
    while data.count(b"HTTP/1.1 ") < count or not data.endswith(b"}\n"):
        piece = connection.recv(65536)
        assert piece, f"closed after {data.count(b'HTTP/1.1 ')} of {count} answers: {data[-300:]}"
        data += piece
    return data.count(b"HTTP/1.1 200 ")


def policies_in(folder):
    config = folder / "weir.yaml"
    config.write_text(POLICIES)
    return config


@test
def reloads_and_checks_behind_operators_questions_are_all_answered():
    with Folder() as folder, Server(config=policies_in(folder), threads=2,
                                    store=f"file:{folder}/store") as server:
        connections = besiege(server)
        for connection in connections[:6]:
            assert hear_answers(connection, ROUNDS) == ROUNDS
        for connection in connections[6:]:
            assert hear_answers(connection, 6 * ROUNDS) == 6 * ROUNDS
        assert server.http("GET", "/v1/overrides")[0] == 200
        assert server.http("POST", "/v1/reload")[0] == 200
        for connection in connections:
            connection.close()
        assert server.stop() == 0


@test
def a_server_under_attack_answers_reloads_and_stops_on_sigterm():
    with Folder() as folder, Server("--drain-timeout", "1s", config=policies_in(folder), threads=2,
                                    store=f"file:{folder}/store") as server:
        connections = besiege(server)
        assert server.http("GET", "/v1/overrides")[0] == 200
        (folder / "weir.yaml").write_text(POLICIES.replace("login", "signin"))
        assert server.http("POST", "/v1/reload")[0] == 200
        assert server.check("signin", "203.0.113.7")["allowed"]
        server.signal(signal.SIGHUP)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < PATIENCE / 2
        for connection in connections:
            connection.close()


def reload_together(server, count):
    """How many of them succeed."""
    connections = [server.connect() for _ in range(count)]
    for connection in connections:  # accepted, all of them
        connection.sendall(CHECK)
        assert hear_answers(connection, 1) == 1
    server.signal(signal.SIGSTOP)  # so that they come together, however slowly they are sent
    for connection in connections:
        connection.sendall(RELOAD)
    server.signal(signal.SIGCONT)
    succeeded = 0
    for connection in connections:
        succeeded += hear_answers(connection, 1)
        connection.close()
    return succeeded


@test
def reloads_that_come_while_one_runs_share_the_next_and_each_has_its_result():
    with Folder() as folder, Server(config=policies_in(folder), threads=1) as server:
        assert reload_together(server, 200) == 200
        told = server.http("GET", "/v1/policies")[2]["reload"]
        assert 1 <= told["succeeded"] < 100 and told["failed"] == 0, told
        (folder / "weir.yaml").write_text(POLICIES.replace("limit", "limt"))
        assert reload_together(server, 200) == 0
        told = server.http("GET", "/v1/policies")[2]["reload"]
        assert 1 <= told["failed"] < 100, told
        assert server.stop() == 0


run()
