#!/usr/bin/env python3
"""bench_replay.py - `weir replay` on a log in the combined format, next to `wc -l` and GoAccess.

    bench_replay.py TREE [--quick] [--lines N] [--rounds N] [--folder DIR] [--keep] [--out FILE]

All read the same file, which make_log.c has written; 50 million lines of 200 bytes unless said otherwise, and one
million with --quick. They take turns for several rounds, pinned to one processor; a figure is the median of
the rounds. `wc -l` is the floor: it reads all bytes and looks for the ends of lines.

    wc -l         counts lines
    parse         weir replay, but no line of the mapping is for any request: lines are parsed and mapped
    replay        weir replay: all are judged by a limit of 60 per minute by address, and counted
    against       the same by two policy files
    goaccess      GoAccess without its sorting of panels by a browser: --output report.json

Lines a second are by the CPU time, of user and system, that the program took: this machine may have other
work. The elapsed time is beside it. The whole file is read once before.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POLICY = "version: 1\npolicies: {{site: {{limit: {} per 1m, by: ip}}}}\n"


def measure(command, folder):
    """CPU and elapsed seconds, MiB of memory, and what it has printed."""
    began = time.monotonic()
    with open(folder / "printed", "wb") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed: {process.returncode}")
    return used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024


def programs(tree, folder, log):
    weir = [str(tree / "weir"), "replay", "--json", "--config"]
    yield "wc -l", ["wc", "-l", log]
    yield "parse", [*weir, "site.yaml", "--map", "/none/such => site", log]
    yield "replay", [*weir, "site.yaml", log]
    yield "against", [*weir, "site.yaml", "--against", "other.yaml", log]
    if shutil.which("goaccess"):
        yield "goaccess", ["goaccess", log, "--log-format=COMBINED", "--no-global-config", "--no-progress",
                           "--output", "report.json"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lines", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--folder", type=Path, help="where the log is written; it is removed afterwards")
    parser.add_argument("--keep", action="store_true", help="leave the log there, and use one that is there")
    parser.add_argument("--only", help="programs whose name contains this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tree = options.tree.resolve()
    lines = options.lines or (1_000_000 if options.quick else 50_000_000)
    rounds = options.rounds or (3 if options.quick else 1)
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-replay.", dir=options.folder))
    kept = (options.folder or folder) / f"access-{lines}.log"
    log = kept if options.keep else folder / "access.log"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        (folder / "site.yaml").write_text(POLICY.format(60))
        (folder / "other.yaml").write_text(POLICY.format(10))
        if not log.exists():
            with open(log, "wb") as to:
                subprocess.run([tree / "tests/make_log", str(lines)], stdout=to, check=True)
        size = log.stat().st_size
        print(f"{lines} lines, {size / 2**20:.0f} MiB, {rounds} rounds, one processor")
        print(f"{'':10} {'lines/s':>12} {'CPU s':>8} {'elapsed s':>10} {'MiB':>8}")
        figures = {}
        subprocess.run(["cat", log], stdout=subprocess.DEVNULL, check=True)
        for _ in range(rounds):
            for name, command in programs(tree, folder, str(log.resolve())):
                if not options.only or options.only in name:
                    figures.setdefault(name, []).append(measure(command, folder))
                if name == "replay" and name in figures:
                    with open(folder / "printed", "rb") as printed:
                        assert json.load(printed)["judged"] == lines
        medians = {}
        for name, rows in figures.items():
            cpu, elapsed, memory = (statistics.median(column) for column in zip(*rows))
            medians[name] = {"lines_per_second": round(lines / cpu), "cpu_s": cpu, "elapsed_s": elapsed,
                             "memory_mib": memory}
            print(f"{name:10} {lines / cpu:12.0f} {cpu:8.2f} {elapsed:10.2f} {memory:8.0f}")
        if "replay" in medians and "parse" in medians:
            parse, replay = medians["parse"]["cpu_s"], medians["replay"]["cpu_s"]
            print(f"of a replayed line: {1e9 * parse / lines:.0f} ns to read, parse and map it, "
                  f"{1e9 * (replay - parse) / lines:.0f} ns to judge and count it")
        if "replay" in medians and "goaccess" in medians:
            ratio = medians["replay"]["lines_per_second"] / medians["goaccess"]["lines_per_second"]
            print(f"replay is {ratio:.1f} times as fast as goaccess")
        if options.out:
            options.out.write_text(json.dumps({"lines": lines, "bytes": size, **medians}, indent=1) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
