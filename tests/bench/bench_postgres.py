#!/usr/bin/env python3
"""bench_postgres.py - weir's Postgres store, next to limiters that people write in SQL themselves.

    bench_postgres.py TREE [--quick] [--rounds N] [--seconds S] [--rows N] [--realtime] [--out NAME]

One Postgres for all (fsync on), with everything on this machine. Clients of weir use TCP; weir,
which is beside its database, and pgbench use the Unix socket. Each table has a million rows before it
starts, those of the keys that are asked for among them. They take turns for several rounds: a figure
is the median of the rounds, a ratio the median of the rounds' ratios.

seed 001, 002, 003  seeds/*.sql by pgbench: prepared, one call a check
weir resp, http     weir serve with postgres://, asked by weir bench: one request a check
upsert              one plain prepared upsert, by pgbench: what a round trip and a commit cost
upsert by proxy     the same by TCP to haproxy, which only copies: what one more process on the way
                    costs

A single caller uses TCP for both or a Unix socket for both, OFTEN in each round: then all
of the time is the way there and back, and the two differ by a tenth.

Callers wait for each answer. At saturation there are 64 for a seed; weir's 32 send 16 at a time.
Limits are so wide that no request is denied, and windows so long that no row expires meanwhile: all
charge rows that are there. By both protocols weir counts by a sliding window, its default. Last, 100
callers ask ten times each for one key with a limit of 5: what more than 5 are let through should not
have been.

Results go to NAME.csv, by default TREE/postgres.
"""
import argparse
import csv
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from postgres import Postgres, programs  # noqa: E402
from rounds import add_options, parse_options, print_value, run_rounds  # noqa: E402
from weir_server import free_port  # noqa: E402

KEYS, HOT = 100_000, 1
FULL = 0  # as many as it takes
WIDE, FEW = 1_000_000_000, 5
DAY = "date_trunc('day', now())"
SEEDS = {
    "seed 001": "SELECT requests_count, (requests_count <= {limit})::int AS passed FROM "
                f"seed_001.upsert_rate_limit({{key}}, '/', {DAY}, {DAY} + interval '1 day')",
    "seed 002": "INSERT INTO seed_002.rate_limits (key, window_start, count) "
                "VALUES ({key}, current_date, 1) ON CONFLICT (key, window_start) DO UPDATE "
                "SET count = CASE WHEN rate_limits.count < {limit} THEN rate_limits.count + 1 "
                "ELSE rate_limits.count END RETURNING count, (count <= {limit})::int AS passed",
    "seed 003": "SELECT allowed::int AS passed FROM "
                "seed_003.check_rate_limit({key}, {limit}, 3600)",
}
UPSERT = ("INSERT INTO plain AS p (key, count) VALUES ({key}, 1) "
          "ON CONFLICT (key) DO UPDATE SET count = p.count + 1 RETURNING count")
OURS = "SELECT allowed::int AS passed FROM weir.check_rate_limit({key}, {limit}, 3600)"
WEIR = "weir resp", "weir http"
WAYS = "TCP", "Unix"
PROXY = "upsert by proxy"
ALONE = *(f"{name} by {way}" for way in WAYS for name in ("upsert", *WEIR)), PROXY
OFTEN = 3
PROXY_CONFIG = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen postgres
    bind 127.0.0.1:{port}
    server postgres unix@{folder}/.s.PGSQL.{postgres}
"""
TABLES = """
CREATE TABLE plain (key text PRIMARY KEY, count int NOT NULL);
INSERT INTO plain SELECT 'key:' || i, 1 FROM generate_series(1, :rows) AS i;
CREATE TABLE answers (passed int NOT NULL);
INSERT INTO weir.states (key, at, used, other, oldest, expires, due)
SELECT gen_random_uuid(), t, 1, 0, 0, t + 86400000, t + 86400000
  FROM generate_series(1, :rows), (SELECT (extract(epoch FROM now()) * 1000)::bigint) AS c (t);
"""


class Case:
    """One contestant under one load, and what was measured of it, round by round."""

    def __init__(self, name, callers, keys, commit):
        self.name, self.callers, self.keys, self.commit = name, callers, keys, commit
        self.rounds = []

    def median(self, what):
        return statistics.median(r[what] for r in self.rounds)


def all_cases(commits):
    cases = []
    for commit in commits:
        cases += [Case(name, 1, KEYS, commit) for name in ALONE]
        cases += [Case(name, callers, keys, commit) for keys in (KEYS, HOT)
                  for callers in (8, 32, FULL) for name in (*SEEDS, *WEIR)]
    return cases


class Field:
    """The database, and a weir for each way to commit."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="bench-postgres."))
        self.db = Postgres(max_wal_size="4GB", checkpoint_timeout="30min")
        self.commits = ["on"] if options.quick else ["on", "off"]
        self.cases = all_cases(self.commits)
        self.servers, self.ports = [], {PROXY: free_port()}

    def start(self):
        self.db.migrate()
        rows = ("-v", f"rows={self.options.rows}")
        for file in sorted((HERE / "seeds").glob("*.sql")):
            self.db.psql(file.read_text(), options=rows)
        self.db.psql(TABLES, options=rows)
        self.db.psql("VACUUM ANALYZE")
        self.db.psql("CHECKPOINT")
        for commit in self.commits:
            port = self.ports[commit] = free_port()
            with open(self.folder / f"log-{commit}", "wb") as log:
                self.servers.append(subprocess.Popen(
                    [self.options.tree / "weir", "serve",
                     "--store", f"postgres://postgres@/postgres?host={self.db.folder}&"
                     f"port={self.db.port}&synchronous_commit={commit}&deadline=10s",
                     "--listen", f"127.0.0.1:{port},unix:{self.folder}/{commit}"],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder))
        config = self.folder / "haproxy.cfg"
        config.write_text(PROXY_CONFIG.format(port=self.ports[PROXY], folder=self.db.folder,
                                              postgres=self.db.port))
        with open(self.folder / f"log-{PROXY}", "wb") as log:
            self.servers.append(subprocess.Popen(["haproxy", "-db", "-f", config],
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        for name, server in zip((*self.commits, PROXY), self.servers):
            self.wait(name, server)

    def wait(self, name, server):
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.ports[name]), 1).close()
                return
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / f"log-{name}").read_text(errors="replace")
                    sys.exit(f"bench_postgres: a server does not listen: {said[-1000:]}")
                time.sleep(0.01)

    def stop(self):
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            server.wait(30)
        self.db.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pgbench(self, script, callers, commit, *more, place=None):
        file = self.folder / "script.sql"
        file.write_text(script)
        host, port = place or (self.db.folder, self.db.port)
        done = subprocess.run(
            [programs() / "pgbench", "-n", "-h", host, "-p", str(port), "-U", "postgres", "-f", file,
             "-c", str(callers), "-j", str(min(callers, os.cpu_count())),
             *more, "postgres"], capture_output=True, text=True, check=False, cwd=self.folder,
            env={**os.environ, "PGOPTIONS": f"-c synchronous_commit={commit}"})
        if done.returncode:
            sys.exit(f"bench_postgres: pgbench: {done.stdout}{done.stderr}")
        return done.stdout

    def measure_sql(self, case):
        statement = SEEDS.get(case.name, UPSERT)
        places = {"upsert by TCP": ("127.0.0.1", self.db.port),
                  PROXY: ("127.0.0.1", self.ports[PROXY])}
        script = f"\\set k random(1, {case.keys})\n" + statement.format(
            key="'key:' || :k", limit=WIDE) + ";\n"
        said = self.pgbench(script, case.callers or 64, case.commit, "-M", "prepared", "-T",
                            str(self.options.seconds), "--log", "--log-prefix=took",
                            place=places.get(case.name))
        took = []
        for file in self.folder.glob("took.*"):
            took += [int(line.split()[2]) for line in file.read_text().splitlines()]
            file.unlink()
        took.sort()
        return {"per_second": float(re.search(r"tps = ([\d.]+)", said)[1]),
                "p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}

    def bench(self, url, *words):
        done = subprocess.run(
            [self.options.tree / "weir", "bench", "--json", "--server", url,
             *(str(w) for w in words)],
            capture_output=True, text=True, check=False)
        if not done.stdout:
            sys.exit(f"bench_postgres: weir bench: {done.stderr}")
        return json.loads(done.stdout)

    def url(self, name, commit):
        protocol = name.split()[1]
        if name.endswith("Unix"):
            return f"{'resp+' if protocol == 'resp' else ''}unix:{self.folder}/{commit}"
        return f"{protocol}://127.0.0.1:{self.ports[commit]}"

    def ask_weir(self, name, callers, keys, commit, *how_long):
        said = self.bench(self.url(name, commit), "--keys", keys, "--connections", callers or 32,
                          "--pipeline", 1 if callers else 16, "--limit", f"{WIDE} per 1h", *how_long)
        if said["denied"] + said["errors"]:
            sys.exit(f"bench_postgres: {name}: {said['denied']} denied, {said['errors']} errors")
        return said

    def measure_weir(self, case):
        said = self.ask_weir(case.name, case.callers, case.keys, case.commit, "--duration",
                             f"{self.options.seconds}s")
        return {"per_second": said["per_second"], "p50": said["latency_us"]["p50"],
                "p99": said["latency_us"]["p99"]}

    def fill(self):
        """weir's keys are hashes: only weir can make their rows."""
        for name in WEIR:
            self.ask_weir(name, FULL, KEYS, "on", "--requests", 5 * KEYS)

    def run(self):
        alone = [case for case in self.cases if case.name in ALONE]
        turns = alone * (OFTEN - 1) + self.cases
        run_rounds(self.options.rounds, turns, lambda case: (
            self.measure_weir if case.name.startswith("weir") else self.measure_sql)(case))

    def admitted(self, name):
        """How many of 1000 checks by 100 callers pass a limit of 5."""
        # Another key than by SQL: they would share one limit.
        if name in WEIR:
            said = self.bench(self.url(name, "on"), "--connections", 100, "--requests", 1000, "--keys", 1,
                              "--key", "contest", "--limit", f"{FEW} per 1h", "--command",
                              "weir.limit", "--algorithm", "sliding_window")
            if said["errors"]:
                sys.exit(f"bench_postgres: {said['errors']} errors in the race")
            return said["allowed"]
        self.db.psql("TRUNCATE answers")
        statement = SEEDS.get(name, OURS).format(key="'race'", limit=FEW)
        self.pgbench(f"{statement} \\gset\nINSERT INTO answers VALUES (:passed);\n", 100, "on",
                     "-t", "10")
        return int(self.db.value("SELECT sum(passed) FROM answers"))


# ---- what came of it ----------------------------------------------------------------------------

def keys_text(keys):
    return "one hot key" if keys == HOT else f"{keys} random keys"


def print_tables(field):
    group = None
    for c in field.cases:
        kind = c.commit, c.keys, c.callers
        if kind != group:
            group = kind
            callers = f"{c.callers} caller{'s'[:c.callers - 1]}" if c.callers else "saturation"
            print(f"\nsynchronous_commit {c.commit}, {keys_text(c.keys)}, {callers}")
            print(f"{'':18}   checks/s     p50 us     p99 us")
        print(f"{c.name:18} {c.median('per_second'):10.0f} {c.median('p50'):10.0f} "
              f"{c.median('p99'):10.0f}")


def best(field, names, keys, commit, r):
    return max(c.rounds[r]["per_second"] for c in field.cases
               if c.name in names and c.keys == keys and c.commit == commit)


def print_ratio(label, values, least=None, most=None):
    print_value(label, statistics.median(values), least, most, width=62)


def print_ratios(field):
    rounds = range(field.options.rounds)
    print()
    for commit in field.commits:
        is_synced = commit == "on"  # which is what the floors are for
        for keys, least in (KEYS, 5), (HOT, 30):
            for name in WEIR:
                print_ratio(f"{name} / best seed: commit {commit}, {keys_text(keys)}",
                            [best(field, [name], keys, commit, r) /
                             best(field, SEEDS, keys, commit, r) for r in rounds],
                            least=least if is_synced else None)
        alone = {c.name: c.rounds for c in field.cases if c.callers == 1 and c.commit == commit}

        def print_alone(name, other, most=None):
            print_ratio(f"{name} / {other}: commit {commit}, p50",
                        [x["p50"] / y["p50"] for x, y in zip(alone[name], alone[other])], most=most)

        for way in WAYS:
            for name in WEIR:
                print_alone(f"{name} by {way}", f"upsert by {way}", 1.3 if is_synced else None)
        print_alone(PROXY, "upsert by TCP")
        print_alone(PROXY, "upsert by Unix")
        for name in WEIR:
            print_alone(f"{name} by TCP", "upsert by Unix")


def print_admitted(field):
    print(f"\nlet through by 1000 checks of 100 callers, limit {FEW}")
    for name in (*SEEDS, "weir sql", "weir resp"):
        count = field.admitted(name)
        wanted = ""
        if name.startswith("weir"):
            wanted = f"   wanted: {FEW}" + ("" if count == FEW else "   MISSED")
        print(f"{name:12} {count:6}{wanted}")


def write_csv(field, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["contestant", "callers", "keys", "synchronous_commit", "round",
                      "per_second", "p50", "p99"])
        for c in field.cases:
            for number, r in enumerate(c.rounds, 1):
                out.writerow([c.name, c.callers or "saturation", c.keys, c.commit, number] +
                             [f"{r[column]:.6g}" for column in ("per_second", "p50", "p99")])


def read_options():
    parser = argparse.ArgumentParser(description="weir's Postgres store, next to others.")
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="synchronous_commit on, short rounds")
    parser.add_argument("--rows", type=int, default=1_000_000, help="in each table, before")
    options = parse_options(parser, "postgres")
    options.rounds = options.rounds or (1 if options.quick else 9)
    options.seconds = options.seconds or 1
    return options


def main():
    options = read_options()
    field = Field(options)
    try:
        field.start()
        field.fill()
        print(f"{options.rounds} rounds of {options.seconds} s; {options.rows} rows in each table; "
              f"{os.cpu_count()} cores for callers, weir and Postgres", flush=True)
        field.run()
        print_tables(field)
        print_ratios(field)
        print_admitted(field)
    finally:
        field.stop()
    write_csv(field, options.out.with_suffix(".csv"))
    print(f"\nsee {options.out.with_suffix('.csv')}")


if __name__ == "__main__":
    main()
