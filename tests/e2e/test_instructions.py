#!/usr/bin/env python3
"""test_instructions.py - how many instructions a request costs the loop that serves it.

    test_instructions.py TREE      from the root of the source

Counted by callgrind in the thread of the loop: 10 connections ask with 16 requests under way each, about
1,000 keys that are known. What a request costs is the difference of two runs, divided by the requests
that one has more. Time has no say in it, and other work of the machine hardly any. The bounds are a twelfth
above what was reached; docs/performance.md has the figures.
"""
import itertools
import re
import shutil
import sys

sys.path.insert(0, "tests/support")
from weir_server import Folder, Server, command, run, test  # noqa: E402

POLICIES = """
version: 1
policies:
  one: {limit: 1000000 per 1s, by: key, algorithm: leaky_bucket}
  scarce: {limit: 1 per 1h, by: key, algorithm: token_bucket}
  several:
    rules:
      second: {limit: 1000000 per 1s, by: key}
      minute: {limit: 10000000 per 1m, by: key}
      hour: {limit: 100000000 per 1h, by: key}
  queues:
    by: key
    algorithm: leaky_bucket
    rules:
      second: {limit: 1000000 per 1s}
      minute: {limit: 60000000 per 1m}
      hour: {limit: 2000000000 per 1h}
"""
CONNECTIONS, PIPELINE, KEYS = 10, 16, 1000
FEW, MOST = 1600, 8000


def key(i):
    return "k%d" % (10000 + i * 7919 % KEYS)


def http(line, body=""):
    length = f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n" if body else ""
    return f"{line} HTTP/1.1\r\nHost: 127.0.0.1:7878\r\n{length}\r\n{body}".encode()


ids = itertools.count(100000)


def pair(k):
    """A reservation and its commit, under a new id."""
    name = f"id-{next(ids)}"
    return command("WEIR.RESERVE", "one", k, "TTL", 60000, "ID", name) + command("WEIR.COMMIT", name)


def ended_resp(data, lines):
    return data.count(b"\r\n") >= lines * PIPELINE


def ended_http(data):
    at, n = 0, 0
    while (end := data.find(b"\r\n\r\n", at)) >= 0:
        at = end + 4 + int(re.search(rb"Content-Length: (\d+)", data[at:end])[1])
        n += at <= len(data)
    return n >= PIPELINE


# What is asked, when 16 answers are there, and the most instructions that one may cost.
WAYS = {
    "WEIR.LIMIT": (lambda k: command("WEIR.LIMIT", k, "token_bucket", 1000000, 60000),
                   lambda data: ended_resp(data, 10), 1820),
    "WEIR.CHECK": (lambda k: command("WEIR.CHECK", "one", k), lambda data: ended_resp(data, 10), 1870),
    "CL.THROTTLE": (lambda k: command("CL.THROTTLE", k, 999999, 10000000, 60),
                    lambda data: ended_resp(data, 6), 1930),
    "pair of WEIR.RESERVE and WEIR.COMMIT": (pair, lambda data: ended_resp(data, 25), 6370),
    "GET /v1/gate": (lambda k: http(f"GET /v1/gate?policy=one&key={k}"), ended_http, 2390),
    "GET /v1/gate of three rules": (lambda k: http(f"GET /v1/gate?policy=several&key={k}"), ended_http,
                                    4410),
    "GET /v1/gate of three buckets": (lambda k: http(f"GET /v1/gate?policy=queues&key={k}"), ended_http,
                                      3320),
    "GET /v1/gate that is denied": (lambda k: http("GET /v1/gate?policy=scarce&key=k"), ended_http, 3360),
    "POST /v1/check": (lambda k: http("POST /v1/check", '{"policy":"one","key":"%s"}' % k), ended_http,
                       3710),
}


def ask(server, request, is_ended, count):
    sockets = [server.connect() for _ in range(CONNECTIONS)]
    for first in range(0, count, CONNECTIONS * PIPELINE):
        for n, s in enumerate(sockets):
            s.sendall(b"".join(request(key(first + n * PIPELINE + i)) for i in range(PIPELINE)))
        for s in sockets:
            data = b""
            while not is_ended(data):
                piece = s.recv(1 << 20)
                assert piece and data[:1] != b"-", data
                data += piece
    for s in sockets:
        s.close()


def counted(way, count):
    """All instructions of the loop's thread."""
    request, is_ended, _ = WAYS[way]
    with Folder() as folder:
        (folder / "policies.yaml").write_text(POLICIES)
        callgrind = ["valgrind", "--tool=callgrind", "--separate-threads=yes",
                     f"--callgrind-out-file={folder}/counts"]
        with Server(config=folder / "policies.yaml", threads=1, command=callgrind) as server:
            ask(server, request, is_ended, count)
            server.stop()
        texts = [file.read_text() for file in folder.glob("counts-*")]
        loops = [text for text in texts if "run_loop" in text]
        assert len(loops) == 1, f"{len(texts)} threads, {len(loops)} loops"
        return int(re.search(r"^(?:totals|summary): (\d+)", loops[0], re.M)[1])


def costs_no_more_than_its_bound(way):
    def holds():
        if not shutil.which("valgrind"):
            return "there is no valgrind"
        cost = (counted(way, MOST) - counted(way, FEW)) / (MOST - FEW)
        print(f"# {way}: {cost:.0f} instructions")
        assert 0 < cost <= WAYS[way][2], f"{cost:.0f} instructions, at most {WAYS[way][2]}"
        return None
    holds.__name__ = f"a {way} costs no more than its bound"
    test(holds)


for each in WAYS:
    costs_no_more_than_its_bound(each)
run()
