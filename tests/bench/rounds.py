"""rounds.py - what the benchmarks of servers share: options, rounds, processor time and ratios."""
import csv
import os
import signal
import statistics
import sys
from pathlib import Path


def add_options(parser):
    parser.add_argument("tree", type=Path, help="where weir is built")
    parser.add_argument("--rounds", type=int, help="how often each is asked")
    parser.add_argument("--seconds", type=int, help="how long, each time")
    parser.add_argument("--realtime", action="store_true",
                        help="before all other work of this machine; for root")
    parser.add_argument("--out", type=Path, help="where results go: OUT.csv")


def parse_options(parser, name):
    options = parser.parse_args()
    options.tree = options.tree.resolve()
    options.out = options.out or options.tree / name
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: no store must stay
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # and so do all it starts
    return options


def run_rounds(rounds, cases, measure):
    """All take turns, every second round backwards: what one leaves behind is not always the same
    other's to bear."""
    for r in range(rounds):
        for i, case in enumerate(cases[::-1] if r % 2 else cases):
            if sys.stderr.isatty():
                print(f"\rround {r + 1} of {rounds}: {i + 1} of {len(cases)} {case.name:20}", end="",
                      file=sys.stderr)
            case.rounds.append(measure(case))
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:  # a helper of a store that has ended meanwhile
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def ratio(above, below, what="per_second"):
    """The median of the rounds' ratios; a round without an answer is None."""
    ratios = [a[what] / b[what] for a, b in zip(above.rounds, below.rounds) if a and b and b[what]]
    return statistics.median(ratios) if ratios else float("nan")


def print_tables(cases, columns):
    """One for each load; the columns by what was measured."""
    kind = None
    for c in cases:
        if c.kind != kind:
            kind = c.kind
            print(f"\n{kind}\n{'':14}" + "".join(f" {title:>11}" for title in columns.values()))
        print(f"{c.name:14}" + "".join(
            f" {c.median(what):11.{2 if what == 'cpu_us' else 0}f}" for what in columns))


def print_value(label, value, least=None, most=None, width=72):
    wanted = ""
    if least is not None:
        wanted = f"   wanted: {least:g} or more" + ("" if value >= least else "   MISSED")
    elif most is not None:
        wanted = f"   wanted: {most:g} or less" + ("" if value <= most else "   MISSED")
    print(f"{label:{width}} {value:6.2f}{wanted}")


def write_csv(cases, columns, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["contestant", "load", "round", *columns])
        for c in cases:
            for number, r in enumerate(c.rounds, 1):
                out.writerow([c.name, c.kind, number] +
                             ([f"{r[what]:.6g}" for what in columns] if r else []))
