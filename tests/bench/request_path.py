#!/usr/bin/env python3
"""request_path.py - how many of our files a request goes through, and how often it changes file.

    request_path.py TREE [--list]

TREE is built with -finstrument-functions and without optimisation, so each function is a call.
One request is traced, after some like it: what is made once (connections, statements, tables) does
not count. Neither do functions in headers, which are short, nor what the threads in the background
do, nor what a loop does while no request comes.

files    .c files with a function that was entered
changes  how often a function was entered that is in another file than the one entered before
calls    functions that were entered

--list prints each file in the order in which it is first entered.
"""
import argparse
import json
import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from postgres import Postgres  # noqa: E402
from weir_server import Server  # noqa: E402

HEAD, NOTE, MOST = 8, struct.Struct("=Qii"), 1 << 18
WARM_UPS = 5  # requests
IDLE = 1.5  # seconds
AFTER = 0.2  # seconds, for a loop to end its turn after the reply
POLICY = """version: 1
policies:
  login:
    by: [ip]
    limit: 1000 per 1m
"""


class Trace:
    """The notes of tracer.c, in a file that the server has mapped, too."""

    def __init__(self, folder):
        self.path = folder / "trace"
        self.path.touch()
        os.truncate(self.path, HEAD + MOST * NOTE.size)
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)

    def count(self):
        return struct.unpack_from("=I", self.map, 4)[0]

    def during(self, action):
        """(function, thread, depth) of all that was entered meanwhile, and shortly after."""
        struct.pack_into("=II", self.map, 0, 1, 0)
        action()
        time.sleep(AFTER)
        struct.pack_into("=I", self.map, 0, 0)
        count = self.count()
        assert count <= MOST, "too many notes"
        return [NOTE.unpack_from(self.map, HEAD + i * NOTE.size) for i in range(count)]


class Names:
    """Which function of which file is at an address."""

    def __init__(self, program, pid):
        self.program, self.known = program, {}
        maps = Path(f"/proc/{pid}/maps").read_text()
        self.base = min(int(line.split("-")[0], 16) for line in maps.splitlines()
                        if line.endswith(str(program)))

    def look_up(self, addresses):
        new = sorted(set(addresses) - set(self.known))
        if not new:
            return
        lines = subprocess.run(
            ["addr2line", "-f", "-e", self.program, *(hex(a - self.base) for a in new)],
            capture_output=True, text=True, check=True).stdout.splitlines()
        for address, name, place in zip(new, lines[::2], lines[1::2]):
            found = re.search(r"(?:^|/)((?:src|include)/[^:]*)", place)
            self.known[address] = (found[1] if found else "?"), name

    def of(self, notes):
        self.look_up([address for address, _, _ in notes])
        return [(*self.known[address], thread, depth) for address, thread, depth in notes]


def pieces(notes, thread):
    """What libuv or the kernel has called in a thread, each with all that it called in turn."""
    found = []
    for file, name, other, depth in notes:
        if other != thread:
            continue
        if not found or depth <= found[-1][0]:
            found.append((depth, []))
        found[-1][1].append((file, name))
    return [tuple(calls) for _, calls in found]


def measure(server, trace, ask):
    names = Names(server.process.args[0], server.process.pid)

    def warm_up():
        for _ in range(WARM_UPS):
            ask()

    warm = names.of(trace.during(warm_up))
    idle = names.of(trace.during(lambda: time.sleep(IDLE)))
    loop = next(thread for _, name, thread, _ in warm if name == "conn_accept")
    background = {note[2] for note in idle} - {loop}
    usual = set(pieces(idle, loop))
    notes = names.of(trace.during(ask))
    calls = []
    for thread in sorted({note[2] for note in notes} - background, key=lambda t: t != loop):
        for piece in pieces(notes, thread):
            if piece not in usual:
                calls += [call for call in piece if not call[0].endswith(".h")]
    return calls


class Client:
    """One connection, which is kept."""

    def __init__(self, address, bytes_, end):
        self.address, self.bytes, self.end, self.socket = address, bytes_, end, None

    def __call__(self):
        if not self.socket:
            self.socket = socket.create_connection(self.address)
        self.socket.sendall(self.bytes)
        got = b""
        while not self.end(got):
            more = self.socket.recv(65536)
            assert more, f"the server ended the connection after {got}"
            got += more
        assert got[:1] != b"-" and not re.match(rb"HTTP/1.1 [45]", got), got


def resp(*words):
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)])


def resp_ended(got):
    return got.count(b"\r\n") >= 5  # an array of at least four numbers


def http(method, path, body):
    text = json.dumps(body).encode()
    return (b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (method, path, len(text), text))


def http_ended(got):
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return bool(length) and len(body) >= int(length[1])


REQUESTS = {
    "RESP check": (resp(b"WEIR.CHECK", b"login", b"ip=203.0.113.7"), resp_ended),
    "HTTP check": (http(b"POST", b"/v1/check",
                        {"policy": "login", "attributes": {"ip": "203.0.113.7"}}), http_ended),
    "override": (http(b"PUT", b"/v1/overrides",
                      {"policy": "login", "attributes": {"ip": "203.0.113.7"},
                       "limit": 5, "reason": "try"}), http_ended),
}


def trace_request(tree, tracer, store, request):
    with tempfile.TemporaryDirectory(prefix="weir-path.") as name:
        folder = Path(name)
        trace = Trace(folder)
        (folder / "policies.yaml").write_text(POLICY)
        environment = {"LD_PRELOAD": str(tracer), "WEIR_TRACE": str(trace.path),
                       "WEIR_DUMPABLE": "1"}
        with Server(config=folder / "policies.yaml", store=store.format(folder=folder), threads=1,
                    env=environment) as server:
            return measure(server, trace, Client(server.address, *REQUESTS[request]))


def report(name, calls, lists):
    order = list(dict.fromkeys(file for file, _ in calls))
    changes = sum(1 for one, next_ in zip(calls, calls[1:]) if one[0] != next_[0])
    print(f"{name:<24} {len(order):>5} {changes:>7} {len(calls):>5}", flush=True)
    if lists:
        print(*(f"    {file}" for file in order), sep="\n", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    tree = given.tree.resolve()
    tracer = tree / "tracer.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", tracer, HERE / "tracer.c"], check=True)
    print(f"{'request':<24} {'files':>5} {'changes':>7} {'calls':>5}")
    for request in REQUESTS:
        calls = trace_request(tree, tracer, "file:{folder}/store", request)
        report(request, calls, given.list)
    with Postgres() as database:
        database.migrate()
        calls = trace_request(tree, tracer, database.url, "RESP check")
        report("RESP check, Postgres", calls, given.list)


if __name__ == "__main__":
    main()
