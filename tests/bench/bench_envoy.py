#!/usr/bin/env python3
"""bench_envoy.py - Envoy's rate limit service by gRPC: weir, next to a server that always says the same, and to
envoyproxy/ratelimit.

    bench_envoy.py TREE [--quick] [--rounds N] [--seconds S] [--realtime] [--out NAME]

h2load asks with one thread over 4 connections, with 100 calls under way on each, and then over one connection with one.
They take turns for several rounds: a figure is the median of the rounds, a ratio the median of the rounds' ratios.

constant        answers the same message, looks at nothing: see constant_grpc.c
memory, file    weir with one thread; the file store syncs every 50 ms
reference       envoyproxy/ratelimit with a Redis that keeps nothing on disk, without statistics and tracing, on all cores.
                WEIR_RATELIMIT is the path of its program; without, it is left out

All serve the same file, and no call is denied: each changes a counter. Generator and servers share the machine; the CPU
time that a call costs a server (Redis included) is not touched by that.

Results go to NAME.csv, by default TREE/envoy.
"""
import argparse
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from redis import Redis  # noqa: E402
from rounds import (add_options, cpu_seconds, parse_options, print_tables, print_value, ratio,  # noqa: E402
                    run_rounds, write_csv)
from weir_server import Server, free_port, wait_until  # noqa: E402

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
CONFIG = "domain: bench\ndescriptors:\n  - {key: remote_address, rate_limit: " \
    "{unit: year, requests_per_unit: 4294967295}}\n"
COLUMNS = {"per_second": "calls/s", "p50": "p50 us", "p99": "p99 us", "cpu_us": "CPU us"}
LOADS = (4, 100), (1, 1)  # connections, and calls under way on each
REFERENCE = os.environ.get("WEIR_RATELIMIT")


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def call():
    """A RateLimitRequest for one descriptor, with the prefix of gRPC."""
    entry = field(1, b"remote_address") + field(2, b"192.0.2.1")
    message = field(1, b"bench") + field(2, field(1, entry))
    return b"\0" + struct.pack(">I", len(message)) + message


class Case:
    """One contestant under one load, and what was measured of it, round by round."""

    def __init__(self, name, load):
        self.name, self.load, self.rounds = name, load, []

    def median(self, what):
        return statistics.median(r[what] for r in self.rounds)

    @property
    def kind(self):
        return "%d connection%s, %d under way on each" % (self.load[0], "s" * (self.load[0] > 1), self.load[1])


class Field:
    """All of them, and what to ask them with."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="bench-envoy."))
        self.names = ["constant", "memory", "file", *(["reference"] if REFERENCE else [])]
        self.cases = [Case(name, load) for load in LOADS for name in self.names]
        self.processes, self.servers, self.ports, self.redis = {}, [], {}, None

    def start(self):
        (self.folder / "call").write_bytes(call())
        files = self.folder / "runtime/ratelimit/config"
        files.mkdir(parents=True)
        (files / "bench.yaml").write_text(CONFIG)
        self.run("constant", [self.options.tree / "tests/constant_grpc", str(self.port("constant")), "1"])
        for name, store in ("memory", "memory:"), ("file", f"file:{self.folder / 'data'}"):
            server = Server("--envoy-config", files, store=store, threads=1)
            self.servers.append(server)
            self.processes[name], self.ports[name] = [server.pid], server.port
        if REFERENCE:
            self.redis = Redis(appendonly="no")
            self.run("reference", [REFERENCE], {
                "RUNTIME_ROOT": str(self.folder / "runtime"), "RUNTIME_SUBDIRECTORY": "ratelimit",
                "RUNTIME_WATCH_ROOT": "false", "DISABLE_STATS": "true", "LOG_LEVEL": "error",
                "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{self.redis.port}", "HOST": "127.0.0.1",
                "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(self.port("reference")), "PORT": str(free_port()),
                "DEBUG_PORT": str(free_port())})
            self.processes["reference"].append(self.redis.process.pid)

    def port(self, name):
        self.ports[name] = free_port()
        return self.ports[name]

    def run(self, name, words, env=None):
        process = subprocess.Popen(words, env={**os.environ, **(env or {})}, stderr=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        self.servers.append(process)
        self.processes[name] = [process.pid]
        wait_until(lambda: self.answers(name), name)

    def answers(self, name):
        said = self.h2load(name, "-n", "1", "-c", "1", "-m", "1")
        return "1 succeeded" in said

    def h2load(self, name, *words):
        return subprocess.run(["h2load", "-t", "1", *words, "-d", self.folder / "call", "-H",
                               "content-type: application/grpc", "-H", "te: trailers",
                               f"http://127.0.0.1:{self.ports[name]}{METHOD}"], capture_output=True, text=True,
                              check=False).stdout

    def measure(self, case):
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        before, began = cpu_seconds(self.processes[case.name]), time.monotonic()
        said = self.h2load(case.name, "-D", str(self.options.seconds), "-c", str(case.load[0]), "-m",
                           str(case.load[1]), f"--log-file={log}")
        cpu, took = cpu_seconds(self.processes[case.name]) - before, time.monotonic() - began
        counted = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", said)
        if not counted or any(int(n) for n in counted.groups()[1:]) or "wrong" in said:
            sys.exit(f"bench_envoy: h2load of {case.name}:\n{said}")
        times = sorted(int(line.split()[2]) for line in log.read_text().splitlines())
        assert abs(len(times) - int(counted[1])) <= 2 * case.load[0] * case.load[1], (len(times), counted[0])
        return {"per_second": len(times) / min(took, self.options.seconds), "p50": times[len(times) // 2],
                "p99": times[len(times) * 99 // 100], "cpu_us": cpu * 1e6 / len(times)}

    def stop(self):
        for server in self.servers:
            server.kill()
            server.wait() if isinstance(server, subprocess.Popen) else None
        if self.redis:
            self.redis.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def case(self, name, load):
        return next(c for c in self.cases if c.name == name and c.load == load)


def main():
    parser = argparse.ArgumentParser(description="weir by gRPC, next to a constant server and envoyproxy/ratelimit")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="2 rounds of 2 s, instead of 5 of 5 s")
    options = parse_options(parser, "envoy")
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = options.seconds or (2 if options.quick else 5)
    if not shutil.which("h2load"):
        sys.exit("bench_envoy: h2load is not installed (nghttp2-client)")
    f = Field(options)
    try:
        f.start()
        run_rounds(options.rounds, f.cases, f.measure)
    finally:
        f.stop()
    print_tables(f.cases, COLUMNS)
    print()
    busy = LOADS[0]
    for name in "memory", "file":
        print_value(f"{name}: calls a second, of the constant server's, 100 under way",
                    ratio(f.case(name, busy), f.case("constant", busy)), least=0.6)
        if REFERENCE:
            print_value(f"{name}: calls a second, of the reference's",
                        ratio(f.case(name, busy), f.case("reference", busy)), least=5)
    write_csv(f.cases, COLUMNS, f"{options.out}.csv")


if __name__ == "__main__":
    main()
