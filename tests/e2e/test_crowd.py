#!/usr/bin/env python3
"""test_crowd.py - many connections at once: those that only stand there, and those that mean harm.

    test_crowd.py TREE      from the root of the source
"""
import re
import resource
import select
import socket
import struct
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, "tests/support")
from asker import Asker  # noqa: E402
from weir_server import Folder, PATIENCE, Server, command, run, test, wait_until  # noqa: E402

IDLE, FIRST = 10_000, 40
KEYS = 1_000_000
BYTES_PER_IDLE = 1024  # of the process; the kernel's buffers are not in it
BYTES_PER_KEY = 160
SPARE_FILES = 200

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def resident(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", text)[1])


def gauge(server, name):
    return int(re.search(rf"^{name} (\d+)$", server.http("GET", "/metrics")[2].decode(), re.M)[1])


def come(address, number):
    """From one of several addresses, each of which has its own ports. It leaves by a reset: else
    the port would be taken for another minute, and other tests could stumble over it."""
    one = socket.create_connection(address, timeout=PATIENCE,
                                   source_address=(f"127.0.0.{2 + number % 8}", 0))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return one


def answers_within_a_second(server):
    began = time.monotonic()
    with Asker(server.address, "http") as http, Asker(server.address, "resp") as resp:
        for asker in (http, resp):
            asker.ask("query", {"tenant": "ann"})
    assert time.monotonic() - began < 1


def fill(server, begin, end):
    """One check for each of so many keys, in one long pipeline."""
    with server.connect() as s:
        def send():
            for first in range(begin, end, 10_000):
                s.sendall(b"".join(b"*3\r\n$10\r\nWEIR.CHECK\r\n$5\r\nquery\r\n$10\r\nt%09d\r\n" % i
                                   for i in range(first, first + 10_000)))
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        heard, rest = 0, b""
        while heard < end - begin:
            data = rest + s.recv(1 << 20)
            whole = data.rfind(b"store\r\n") + 7 if b"store\r\n" in data else 0
            heard += data.count(b"store\r\n", 0, whole)
            rest = data[whole:]
        sender.join(PATIENCE)


def gather(server, count):
    """So many that have an answer, or never say a word."""
    questions = [HEALTH, HEALTH, command("PING"), b""]
    crowd = []
    for i in range(count):
        crowd.append(come(server.address, i))
        crowd[i].sendall(questions[i % 4])
    for i, one in enumerate(crowd):
        assert i % 4 == 3 or one.recv(4096).startswith((b"HTTP/1.1 200 OK", b"+PONG"))
    return crowd


@test
def ten_thousand_idle_connections_and_a_million_keys_fit_in_the_memory_stated():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < IDLE + SPARE_FILES:
        return f"only {most} files may be open here: raise `ulimit -Hn`"
    resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE + SPARE_FILES, most))
    crowd = []
    with Folder() as folder, Server("--request-timeout", "5m", config="examples/policies.yaml",
                                    store=f"file:{folder}/data", threads=2) as server:
        try:
            answers_within_a_second(server)
            for one in gather(server, FIRST):  # the pages of the program that they run are no memory of theirs
                one.close()
            at_first = resident(server.pid)
            crowd = gather(server, IDLE)
            with_crowd = resident(server.pid)
            assert gauge(server, "weir_connections") == IDLE + 1
            fill(server, 0, KEYS)
            assert gauge(server, "weir_keys") >= KEYS
            with_keys = resident(server.pid)

            each, key = (with_crowd - at_first) / IDLE, (with_keys - with_crowd) / KEYS
            print(f"# {each:.0f} bytes for an idle connection, {key:.0f} for a key, "
                  f"{with_keys >> 20} MB in all", flush=True)
            assert each <= BYTES_PER_IDLE
            assert key <= BYTES_PER_KEY
            answers_within_a_second(server)
            for i in range(0, IDLE, 101):
                crowd[i].sendall(HEALTH if i % 4 < 2 else command("PING"))
            for i in range(0, IDLE, 101):
                assert crowd[i].recv(4096).startswith((b"HTTP/1.1 200 OK", b"+PONG"))
        finally:
            for one in crowd:
                one.close()
        wait_until(lambda: gauge(server, "weir_connections") == 1, "all to be gone")
    return None


@test
def five_hundred_slow_senders_delay_no_client_and_are_disconnected():
    """Each new byte comes in time, and does not help: the whole request has a second."""
    long = b"GET /v1/check?policy=login HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 4000
    slow = command("WEIR.CHECK", "login", "x" * 4000)
    with Server("--request-timeout", "1s", config="examples/policies.yaml") as server:
        crowd = {come(server.address, i): long if i % 2 else slow for i in range(500)}
        said, at, deadline = {}, 0, time.monotonic() + PATIENCE
        began = time.monotonic()
        while crowd:
            assert time.monotonic() < deadline, f"{len(crowd)} are still there"
            for one, words in list(crowd.items()):
                try:
                    one.send(words[at:at + 1])
                except ConnectionError:
                    said.setdefault(one, b"")
                    del crowd[one]
            at += 1
            answers_within_a_second(server)
            for one in select.select(crowd, [], [], 0)[0]:
                try:
                    said[one] = one.recv(4096)
                except ConnectionError:
                    said[one] = b""
                del crowd[one]
        assert time.monotonic() - began >= 1
        assert at > 5, "they sent several bytes each"
        told = [text for text in said.values() if text]
        assert all(text.startswith(b"HTTP/1.1 408 Request Timeout") for text in told), told
        assert len(told) > 200, len(told)
        for one in said:
            one.close()
        wait_until(lambda: gauge(server, "weir_connections") == 1, "all to be gone")


@test
def pipelines_longer_than_a_turn_are_answered_whole_on_many_connections_at_once():
    """More checks than a turn holds, in bytes that end together with what was read."""
    one, each, rounds = command("WEIR.LIMIT", "k", "token_bucket", "5", "60000"), 1000, 4
    with Server(store="memory:", threads=1) as server:
        crowd = [come(server.address, i) for i in range(50)]
        senders = [threading.Thread(target=lambda s=s: [s.sendall(one * each) for _ in range(rounds)],
                                    daemon=True) for s in crowd]
        for sender in senders:
            sender.start()
        heard, deadline = dict.fromkeys(crowd, 0), time.monotonic() + PATIENCE
        while any(n < each * rounds for n in heard.values()):
            assert time.monotonic() < deadline, heard.values()
            for s in select.select(crowd, [], [], 1)[0]:
                data = s.recv(1 << 20)
                assert data, server.log.other
                heard[s] += data.count(b"*")
        for sender in senders:
            sender.join(PATIENCE)
        assert set(heard.values()) == {each * rounds}, heard
        for s in crowd:
            s.close()
        assert server.stop() == 0


@test
def resets_in_the_middle_of_requests_leave_nothing_behind():
    post = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{"
    halves = [HEALTH[:20], command("WEIR.CHECK", "login", "192.0.2.1")[:25], post + b" " * 5000,
              HEALTH * 50, command("WEIR.CHECK", "query", "t") * 50, b""]
    with Server(config="examples/policies.yaml") as server:
        files = Path(f"/proc/{server.pid}/fd")
        before = len(list(files.iterdir()))
        for i in range(1500):
            one = come(server.address, i)
            one.sendall(halves[i % len(halves)])
            one.close()
        wait_until(lambda: gauge(server, "weir_connections") == 1, "all to be gone")
        wait_until(lambda: len(list(files.iterdir())) <= before, "their files to be closed")
        answers_within_a_second(server)
        assert server.stop() == 0


@test
def beyond_the_ceiling_a_connection_gets_an_error_until_another_closes():
    with Server("--max-connections", "100", config="examples/policies.yaml") as server:
        crowd = [come(server.address, i) for i in range(100)]
        for one in crowd:
            one.sendall(command("PING"))
            assert one.recv(100) == b"+PONG\r\n"
        status, headers, answer = server.http("GET", "/healthz")
        assert (status, answer["detail"]) == (
            503, "there are too many connections: try again later"), answer
        assert headers["Retry-After"] == "1", headers
        assert headers["Connection"] == "close", headers
        assert server.resp("PING") == b"-ERR there are too many connections: try again later\r\n"
        with server.connect() as silent:
            assert silent.recv(1) == b""  # it had a second to speak
        crowd.pop().close()
        wait_until(lambda: server.resp("PING") == b"+PONG\r\n", "room for one")
        crowd[0].sendall(command("PING"))
        assert crowd[0].recv(100) == b"+PONG\r\n"
        for one in crowd:
            one.close()
        wait_until(lambda: server.http("GET", "/metrics")[0] == 200, "room for many")
        assert gauge(server, "weir_refused_connections_total") >= 3


run()
