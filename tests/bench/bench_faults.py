#!/usr/bin/env python3
"""bench_faults.py - a steady stream of requests, while the shared store dies and comes back.

    bench_faults.py TREE [--quick] [--rate N] [--seconds S] [--deadline MS] [--tries N] [--out NAME]

`weir bench` asks one server at a fixed rate by RESP, whatever becomes of the answers; a request's
time counts from when it was to be sent. A third into the run the store fails, two thirds into it is
mended:

nothing    nothing happens, for comparison
killed     all its processes are, and it is started again with what it had
hangs      SIGSTOP, then SIGCONT: connections stay open, without answers
stutters   stopped for twice the deadline, let go for a tenth of a second, again and again

No request may be denied: the limit is out of reach, and on_error is local. In parallel one client
checks keys with a limit of 10, of which no more may be allowed than on_error permits. Answers that
break either rule are wrong. The machine's cores are for the callers, weir and the store together.

A run in which the machine itself stood still, as a virtual one does while its host is busy, is made
once more; the last column is for how long it did. That needs root, and is 0 without.

Results go to NAME.csv, by default TREE/faults.
"""
import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from faulty_stores import FaultyPostgres, FaultyRedis  # noqa: E402
from weir_server import Folder, Server, WEIR, wait_until  # noqa: E402
from stalls import Stalls  # noqa: E402

FAULTS = "nothing", "killed", "hangs", "stutters"
MARGIN = 5      # ms that the 99th percentile may be above the deadline
STALL = 5       # ms for which the machine may stand still in a run that counts
GROWTH = 16     # MiB that may be resident more than before
LIMIT = 10
CONNECTIONS, UNDER_WAY = 50, 200
POLICIES = f"""
version: 1
fallback: {{instances: 2}}
policies:
  much:  {{limit: 1000000 per 1s, by: key, algorithm: token_bucket, on_error: local}}
  deny:  {{limit: {LIMIT} per 1d, by: key, on_error: deny}}
  local: {{limit: {LIMIT} per 1d, by: key, on_error: local}}
"""
COLUMNS = ["store", "fault", "offered", "answered", "unanswered", "wrong", "p50_ms", "p99_ms",
           "max_ms", "late", "rss_before", "rss_peak", "rss_after", "recovery_s", "stall_ms"]


def resident(pid):
    """MiB"""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


class Watcher(threading.Thread):
    """Beside the load: how large the server is, and whether limits hold."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.is_over = server, False
        self.peak = 0
        self.let_in = {}
        self.start()

    def run(self):
        asked = 0
        while not self.is_over:
            self.peak = max(self.peak, resident(self.server.pid))
            for policy in ("deny", "local"):
                key = policy, f"user-{asked // 40}"
                answer = self.server.check(*key)
                self.let_in[key] = self.let_in.get(key, 0) + answer["allowed"]
            asked += 1
            time.sleep(0.02)

    def end(self):
        """How many were let in that must not be."""
        self.is_over = True
        self.join()
        bounds = {"deny": LIMIT, "local": LIMIT + LIMIT // 2}
        return sum(max(0, count - bounds[policy]) for (policy, _), count in self.let_in.items())


class Fault:
    """What is done to a store, and undone."""

    def __init__(self, store, kind, deadline):
        self.store, self.kind, self.deadline = store, kind, deadline
        self.stutterer = None
        self.is_over = False

    def begin(self):
        if self.kind == "killed":
            self.store.kill()
        elif self.kind == "hangs":
            self.store.stop()
        elif self.kind == "stutters":
            self.stutterer = threading.Thread(target=self.stutter, daemon=True)
            self.stutterer.start()

    def stutter(self):
        while not self.is_over:
            self.store.stop()
            time.sleep(2 * self.deadline / 1000)
            self.store.go_on()
            time.sleep(0.1)

    def end(self):
        if self.kind == "killed":
            self.store.start()
        elif self.kind == "hangs":
            self.store.go_on()
        elif self.kind == "stutters":
            self.is_over = True
            self.stutterer.join()


def is_counted(server):
    return all(server.check("much", "probe")["source"] == "store" for _ in range(3))


def load(server, options):
    return subprocess.Popen(
        [WEIR, "bench", "--server", f"resp://127.0.0.1:{server.port}", "--policy", "much",
         "--keys", "10000", "--rate", str(options.rate), "--connections", str(CONNECTIONS),
         "--pipeline", str(UNDER_WAY), "--warmup", "1s", "--duration", f"{options.seconds}s",
         "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def later_than(report, ms):
    """How many took longer than that."""
    return sum(count for end, count in report["histogram"] if end > ms * 1000)


def measure(store, kind, options):
    """One line of the table."""
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text(POLICIES)
        store.forget()
        with Server(store=f"{store.url}?deadline={options.deadline}ms", config=config) as server:
            wait_until(lambda: is_counted(server), "the store")
            fault = Fault(store, kind, options.deadline)
            bench = load(server, options)
            stalls = Stalls(1 + options.seconds, comes_first=True)
            third = options.seconds / 3
            time.sleep(1 + third)
            before = resident(server.pid)
            watcher = Watcher(server)
            fault.begin()
            time.sleep(third)
            fault.end()
            mended = time.monotonic()
            wait_until(lambda: is_counted(server), "the store")
            recovery = time.monotonic() - mended
            said, problems = bench.communicate()
            let_in = watcher.end()
            after = resident(server.pid)
            if options.verbose:
                print(*server.log.events("store"), sep="\n", file=sys.stderr)
            server.stop()
    if not said:
        sys.exit(f"bench_faults: weir bench: {problems}")
    report = json.loads(said)
    latency = report["latency_us"]
    return dict(zip(COLUMNS, [
        store.name, kind, options.rate, report["requests"] / options.seconds, report["lost"],
        report["denied"] + report["errors"] + let_in, latency["p50"] / 1000,
        latency["p99"] / 1000, latency["max"] / 1000,
        later_than(report, options.deadline + MARGIN), before, max(watcher.peak, after), after,
        0 if kind == "nothing" else recovery, stalls.worst()]))


def undisturbed(store, kind, options):
    """Once more if the machine stood still; the run in which it did so least."""
    best = None
    for _ in range(options.tries):
        row = measure(store, kind, options)
        if not best or row["stall_ms"] < best["stall_ms"]:
            best = row
        if best["stall_ms"] <= STALL:
            break
    return best


# ---- what came of it ----------------------------------------------------------------------------

def print_header(options):
    print(f"{options.rate} requests a second for {options.seconds} s, "
          f"{CONNECTIONS} connections, deadline {options.deadline} ms; {os.cpu_count()} cores for all\n")
    print("store    fault     answered/s unanswered wrong   p50 ms   p99 ms   max ms  late   "
          "MiB before  peak after   back after s   stall ms", flush=True)


def print_line(row):
    print(f"{row['store']:8} {row['fault']:9} {row['answered']:10.0f} {row['unanswered']:10} "
          f"{row['wrong']:5} {row['p50_ms']:8.2f} {row['p99_ms']:8.2f} {row['max_ms']:8.2f} {row['late']:5}   "
          f"{row['rss_before']:10.1f} {row['rss_peak']:5.1f} {row['rss_after']:5.1f}   "
          f"{row['recovery_s']:12.2f} {row['stall_ms']:10.1f}", flush=True)


def misses(row, options):
    """What was promised, and does not hold."""
    if row["unanswered"]:
        yield "requests without an answer"
    if row["wrong"]:
        yield "wrong answers"
    if row["answered"] < 0.999 * options.rate:
        yield "the rate"
    if row["p99_ms"] > options.deadline + MARGIN:
        yield "the deadline"
    if row["rss_peak"] > row["rss_before"] + GROWTH:
        yield "flat memory"


def read_options():
    parser = argparse.ArgumentParser(description="Load on a server whose store fails.")
    parser.add_argument("tree", type=Path, help="where weir is built")
    parser.add_argument("--quick", action="store_true", help="short runs")
    parser.add_argument("--rate", type=int, default=20000, help="requests a second")
    parser.add_argument("--seconds", type=int, help="how long each run is")
    parser.add_argument("--tries", type=int, default=3,
                        help="how often at most, if the machine stands still meanwhile")
    parser.add_argument("--deadline", type=int, default=100, help="of the store, in ms")
    parser.add_argument("--store", choices=["Postgres", "Redis"], help="only this one")
    parser.add_argument("--fault", choices=FAULTS, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="show what the server logs")
    parser.add_argument("--out", type=Path, help="where results go: OUT.csv")
    options = parser.parse_args()
    options.out = options.out or options.tree.resolve() / "faults"
    options.seconds = options.seconds or (6 if options.quick else 15)
    return options


def main():
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: no store must stay
    rows, missed = [], []
    print_header(options)
    for kind in (FaultyPostgres, FaultyRedis):
        if options.store not in (None, kind.name):
            continue
        store = kind()
        try:
            for fault in FAULTS:
                if options.fault in (None, fault):
                    rows.append(undisturbed(store, fault, options))
                    print_line(rows[-1])
                    missed += [f"{kind.name}, {fault}: {what}"
                               for what in misses(rows[-1], options)]
        finally:
            store.close()
    with open(options.out.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, COLUMNS)
        out.writeheader()
        out.writerows(rows)
    print("\n" + "".join(f"MISSED {what}\n" for what in missed) +
          f"see {options.out.with_suffix('.csv')}")


if __name__ == "__main__":
    main()
