#!/usr/bin/env python3
"""bench_console.py - what an open console costs a server, and what its tasks cost the browser.

    bench_console.py TREE [--quick] [--rounds N] [--seconds S] [--realtime] [--out NAME]

A server with 200 policies and a week of history, 10,080 points a minute apart. First a real browser loads the console
some times and keeps it open while 5,000 checks a second are decided: how long its tasks take, and what it asks the server for.
Then the server decides as many checks as it can, in short turns alone and while the same is asked at the same
pace. What an open console takes away is the ratio of the processor time that the server spends on a check: other work of the machine
hardly changes it, unlike the checks a second, whose ratio is printed, too. The browser itself is not there then, as it would take the
processors of this machine and not the server's.

Results go to NAME.csv, by default TREE/console.
"""
import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from npm import CHROMIUM, browser  # noqa: E402
from rounds import add_options, parse_options, run_rounds  # noqa: E402
from weir_server import Folder, Server  # noqa: E402

POLICIES, MINUTES, RATE, TASK_MS, MOST_LOST, USUAL = 200, 7 * 24 * 60, 5000, 50, 0.02, 2


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
    """Asks for what the page asked for, at its pace, over one connection; it goes on where it was closed."""

    def __init__(self, server, requests):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port)
        self.waits, self.paths = zip(*requests)
        self.place, self.asked, self.left = 0, 0, self.waits[0]

    def __enter__(self):
        self.is_over, self.problem = threading.Event(), None
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        if self.problem:
            raise self.problem

    def ask(self):
        due = time.monotonic() + self.left
        try:
            while not self.is_over.wait(max(0, due - time.monotonic())):
                self.connection.request("GET", self.paths[self.place], headers={"Accept": "application/json"})
                answer = self.connection.getresponse()
                answer.read()
                assert answer.status == 200, f"{self.paths[self.place]}: {answer.status}"
                self.place = (self.place + 1) % len(self.paths)
                self.asked += 1
                due = time.monotonic() + self.waits[self.place]
        except (AssertionError, OSError, http.client.HTTPException) as problem:
            self.problem = problem
        self.left = max(0, due - time.monotonic())


def load(options, server, *words):
    said = subprocess.run([options.tree / "weir", "bench", "-s", f"resp://127.0.0.1:{server.port}", "--policy", "policy-001", "--json", *map(str, words)],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(said)


def open_page(options, server, modules):
    """What the browser saw while 5,000 checks a second were decided."""
    loads, seconds = (3, 10) if options.quick else (9, 30)
    ahead = subprocess.Popen([options.tree / "weir", "bench", "-s", f"resp://127.0.0.1:{server.port}", "--policy", "policy-003",
                              "-r", str(RATE), "-d", "1h", "-c", "8", "--json"], stdout=subprocess.DEVNULL)
    try:
        said = subprocess.run(["node", HERE / "console_page.js", CHROMIUM, server.url, str(loads), str(seconds)], stdout=subprocess.PIPE,
                              text=True, check=True, env={**os.environ, "NODE_PATH": str(modules)}).stdout
        assert ahead.poll() is None, "the load ended before the page"
    finally:
        ahead.terminate()
        ahead.wait()
    return json.loads(said)


def steady(requests):
    """What an open page goes on asking for, each with the seconds that it waits before: whole looks, without the files and the first.
    On a busy machine the page asks less often than every two seconds; that would flatter it."""
    asked = [(at, path) for at, path in requests if path.startswith(("/v1/", "/readyz"))]
    looks = [i for i, (_, path) in enumerate(asked) if path == "/v1/stats"]
    if len(looks) < 3:
        sys.exit(f"the page has looked at the server {len(looks)} times only: this machine is too busy")
    return [(min(USUAL, (asked[i][0] - asked[i - 1][0]) / 1000), asked[i][1]) for i in range(looks[1], looks[-1])]


def cpu_ns(pid):
    """As cpu_seconds(), but not in steps of ten milliseconds."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def measure(options, server, page):
    """For some seconds, with this page or without."""
    words, before = ("-c", 16, "-P", 16, "-d", f"{options.seconds}s"), cpu_ns(server.pid)
    with page or contextlib.nullcontext():
        said = load(options, server, *words)
    return {"per_second": said["per_second"], "cpu_ns": (cpu_ns(server.pid) - before) / said["requests"]}


def idle_cost(server, page, seconds):
    """The part of one processor that the page's questions take."""
    before, asked = cpu_ns(server.pid), page.asked
    with page:
        time.sleep(seconds)
    return (cpu_ns(server.pid) - before) / 1e9 / seconds, (page.asked - asked) / seconds


def compared(opened, alone, what):
    """The ratio of both sums, and between which two it is with 95 % certainty: those of rounds that are drawn again and again."""
    pairs, drawn = [(b[what], a[what]) for a, b in zip(alone.rounds, opened.rounds)], random.Random(1)
    of = lambda some: sum(b for b, _ in some) / sum(a for _, a in some)  # noqa: E731
    ranked = sorted(of(drawn.choices(pairs, k=len(pairs))) for _ in range(2000))
    return of(pairs), ranked[50], ranked[-51]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    options = parse_options(parser, "console")
    options.rounds = options.rounds or (3 if options.quick else 40)
    options.seconds = options.seconds or 2
    modules, why = browser(options.tree)
    if why:
        sys.exit(f"there is no browser: {why}")
    alone, opened = Case("alone"), Case("with a console")
    with Folder() as folder:
        write_policies(folder / "policies.yaml")
        subprocess.run([options.tree / "tests/seed_history", folder / "data"], input="\n".join(history()) + "\n", text=True, check=True)
        with Server(config=folder / "policies.yaml", store=f"file:{folder / 'data'}", threads=1) as server:
            seen = open_page(options, server, modules)
            page = Page(server, steady(seen["requests"]))
            cost, asked = idle_cost(server, page, 5 if options.quick else 30)
            before = page.asked
            run_rounds(options.rounds, [alone, opened], lambda case: measure(options, server, page if case is opened else None))
            assert page.asked > before, "the page has asked for nothing"
    report(options, seen, {"requests of the page a second": asked, "of one processor (%)": 100 * cost}, alone, opened)


def report(options, seen, page, alone, opened):
    speed, work = (compared(opened, alone, what) for what in ("per_second", "cpu_ns"))
    load, task = statistics.median(cpu for cpu, _ in seen["loads"]), max(cpu for cpu, _ in seen["tasks"])
    rows = {
        "longest task of a load, median (ms)": load, "longest task of the open page (ms)": task,
        "the same, by the clock (ms)": max(wall for _, wall in seen["tasks"]), "a chart of 10,000 points (ms)": seen["points"], **page,
        "checks a second, alone": statistics.median(a["per_second"] for a in alone.rounds),
        "checks a second, with a console": statistics.median(b["per_second"] for b in opened.rounds),
        "ratio of the checks a second": speed[0], "processor time of a check, alone (ns)": statistics.median(a["cpu_ns"] for a in alone.rounds),
        "ratio of the processor time": work[0],
    }
    for name, value in rows.items():
        print(f"{name:40} {value:14,.3f}")
    print(f"of {options.rounds} rounds, with 95 % certainty: the checks a second are {speed[1]:.3f} to {speed[2]:.3f} of those alone, "
          f"the processor time of a check {work[1]:.3f} to {work[2]:.3f}")
    print("longest task of each load, ms of the processor (by the clock): " + ", ".join(f"{cpu:.0f} ({wall:.0f})" for cpu, wall in seen["loads"]))
    options.out.with_suffix(".csv").write_text("what,value\n" + "".join(f'"{name}",{value}\n' for name, value in rows.items()))
    bad = [f"a task of the open page takes {task:.0f} ms"] if task >= TASK_MS else []
    bad += [f"while it loads, a task takes {load:.0f} ms"] if load >= TASK_MS else []
    bad += [f"a chart of 10,000 points takes {seen['points']:.0f} ms"] if seen["points"] >= TASK_MS else []
    bad += [f"the page takes {page['of one processor (%)']:.1f} % of a processor"] if page["of one processor (%)"] >= 100 * MOST_LOST else []
    bad += [f"a check takes {100 * work[1] - 100:.1f} % more with a console, or more"] if work[1] >= 1 + MOST_LOST and not options.quick else []
    sys.exit("; ".join(bad) or 0)


if __name__ == "__main__":
    main()
