#!/usr/bin/env python3
"""bench_console.py - what an open console costs a server, and what its frames cost the browser.

    bench_console.py TREE [--quick] [--rounds N] [--seconds S] [--realtime] [--out NAME]

A server with 200 policies and a week of history, 10,080 points a minute apart. First a real browser has the console
open while 5,000 checks a second are decided: how long its frames take, and what it asks the server for.
Then the server decides as many checks as it can, in turns alone and while the same is asked at the same
pace: the ratio of both is what an open console takes away. The browser itself is not there then, as it would take the
processors of this machine and not the server's.

Results go to NAME.csv, by default TREE/console.
"""
import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from npm import CHROMIUM, browser  # noqa: E402
from rounds import add_options, cpu_seconds, parse_options  # noqa: E402
from weir_server import Folder, Server  # noqa: E402

POLICIES, MINUTES, RATE, FRAME_MS, MOST_LOST = 200, 7 * 24 * 60, 5000, 50, 0.02


def write_policies(path):
    rows = "".join(f"  policy-{i:03}: {{limit: {10 if i % 3 == 0 else 1000000} per 1m, by: user}}\n" for i in range(POLICIES))
    path.write_text("version: 1\npolicies:\n" + rows)


def history():
    """Each minute of a week has one policy's point: 10,080 of them."""
    now = int(time.time()) // 60 * 60000
    for minute in range(MINUTES, 0, -1):
        yield f"{now - minute * 60000} policy-{minute % POLICIES:03} (check) {minute % 97} {minute % 7} 0 0"


class Case:
    def __init__(self, name):
        self.name, self.rounds = name, []


class Page:
    """Asks for what the page asked for, when it did, over one connection."""

    def __init__(self, server, requests):
        self.server, self.requests, self.is_over, self.asked = server, requests, threading.Event(), 0
        self.thread = threading.Thread(target=self.ask)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        while True:
            began = time.monotonic()
            for at, path in self.requests:
                if self.is_over.wait(max(0, at / 1000 - (time.monotonic() - began))):
                    return
                connection.request("GET", path, headers={"Accept": "application/json"})
                connection.getresponse().read()
                self.asked += 1


def load(options, server, *words):
    said = subprocess.run([options.tree / "weir", "bench", "-s", f"resp://127.0.0.1:{server.port}", "--policy", "policy-001", "--json", *map(str, words)],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(said)


def open_page(options, server, modules, seconds):
    """What the browser saw while 5,000 checks a second were decided."""
    ahead = subprocess.Popen([options.tree / "weir", "bench", "-s", f"resp://127.0.0.1:{server.port}", "--policy", "policy-003",
                              "-r", str(RATE), "-d", "1h", "-c", "8", "--json"], stdout=subprocess.DEVNULL)
    try:
        said = subprocess.run(["node", HERE / "console_page.js", CHROMIUM, server.url, str(seconds)], capture_output=True, text=True,
                              check=True, env={**os.environ, "NODE_PATH": str(modules)}).stdout
        assert ahead.poll() is None, "the load ended before the page"
    finally:
        ahead.terminate()
        ahead.wait()
    return json.loads(said)


def steady(requests):
    """What an open page goes on asking for: without the files and the first look, in a loop."""
    asked = [(at, path) for at, path in requests if path.startswith(("/v1/", "/readyz"))]
    first = [at for at, path in asked if path == "/v1/stats"][1]
    return [(at - first, path) for at, path in asked if at >= first]


def measure(options, server, requests, case):
    before = cpu_seconds([server.pid])
    if case.name == "alone":
        said = load(options, server, "-c", 16, "-P", 16, "-d", f"{options.seconds}s")
    else:
        with Page(server, requests):
            said = load(options, server, "-c", 16, "-P", 16, "-d", f"{options.seconds}s")
    return {"per_second": said["throughput"] if "throughput" in said else said["per_second"], "cpu": cpu_seconds([server.pid]) - before}


def idle_cost(server, requests, seconds):
    """The part of one processor that the page's questions take."""
    before = cpu_seconds([server.pid])
    with Page(server, requests) as page:
        time.sleep(seconds)
    return (cpu_seconds([server.pid]) - before) / seconds, page.asked / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    options = parse_options(parser, "console")
    options.rounds = options.rounds or (2 if options.quick else 12)
    options.seconds = options.seconds or (1 if options.quick else 3)
    modules, why = browser(options.tree)
    if why:
        sys.exit(f"there is no browser: {why}")
    alone, opened = Case("alone"), Case("with a console")
    with Folder() as folder:
        write_policies(folder / "policies.yaml")
        subprocess.run([options.tree / "tests/seed_history", folder / "data"], input="\n".join(history()) + "\n", text=True, check=True)
        with Server(config=folder / "policies.yaml", store=f"file:{folder / 'data'}", threads=1) as server:
            seen = open_page(options, server, modules, 15 if options.quick else 20)
            requests = steady(seen["requests"])
            cost, asked = idle_cost(server, requests, 5 if options.quick else 20)
            for r in range(options.rounds):
                for case in ((alone, opened), (opened, alone))[r % 2]:
                    case.rounds.append(measure(options, server, requests, case))
    ratios = [b["per_second"] / a["per_second"] for a, b in zip(alone.rounds, opened.rounds)]
    frames, long_tasks = (sorted(ms for at, ms in seen[kind] if at >= seen["loaded"]) for kind in ("frames", "long_tasks"))
    rows = {
        "frame, median (ms)": statistics.median(frames), "frame, longest (ms)": frames[-1],
        "tasks of more than 50 ms": len(long_tasks), "a chart of 10,000 points (ms)": seen["points"],
        "requests of the page a second": asked, "of one processor (%)": 100 * cost,
        "checks a second, alone": statistics.median(a["per_second"] for a in alone.rounds),
        "checks a second, with a console": statistics.median(b["per_second"] for b in opened.rounds),
        "ratio": statistics.median(ratios),
    }
    for name, value in rows.items():
        print(f"{name:36} {value:14,.3f}")
    print(f'while it loads, tasks of more than 50 ms: {[round(ms) for at, ms in seen["long_tasks"] if at < seen["loaded"]]}')
    options.out.with_suffix(".csv").write_text("what,value\n" + "".join(f'"{name}",{value}\n' for name, value in rows.items()))
    bad = [f"a frame took {frames[-1]:.0f} ms"] if frames[-1] >= FRAME_MS else []
    bad += [f"a chart of 10,000 points took {seen['points']:.0f} ms"] if seen["points"] >= FRAME_MS else []
    bad += [f"the page takes {100 * cost:.1f} % of a processor"] if cost >= MOST_LOST else []
    sys.exit("; ".join(bad) or 0)


if __name__ == "__main__":
    main()
