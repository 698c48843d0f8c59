#!/usr/bin/env python3
"""run.py - runs the tests of the build trees given, several at a time, and counts.

    tests/run.py TREE... [-- NAME...]
    tests/run.py --targets TREE [-- NAME...]

What there is to run stands in meson.build; meson writes it into each tree. A suite is a
program that prints TAP. It fails as many times as it prints `not ok`; if it dies, hangs,
exits with an error or runs another number of tests than it planned, that is one failure
more. With NAMEs, only suites whose name contains one of them are run. The last line
is always `N passed, M failed`; the exit status is 0 if M is 0 and N is not.
With --targets, it prints what must be built before those suites can run.
"""
import collections
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

RESULT = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)")
DIRECTIVE = re.compile(r"#\s*(?:skip|todo)\b[\s:]*(.*)", re.IGNORECASE)


class Suite:
    def __init__(self, tree, wrapper, test):
        group = test["suite"][0].split(":")[-1]
        label = tree.name.partition("-")[2]
        self.name = f"{group}/{test['name']}" + (f"@{label}" if label else "")
        self.command = wrapper + test["cmd"]
        self.depends = test["depends"]
        self.env = test["env"]
        self.timeout = test["timeout"]
        self.alone = not test["is_parallel"]
        self.passed = self.failed = 0
        self.skipped = []  # the reason of each
        self.output = self.problem = ""
        self.seconds = 0.0

    def run(self, running):
        begin = time.monotonic()
        try:
            with subprocess.Popen(self.command, env={**os.environ, **self.env},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, start_new_session=True) as process:
                running.add(process)
                try:
                    output, _ = process.communicate(timeout=self.timeout)
                except subprocess.TimeoutExpired:
                    interrupt(process)
                    output, _ = process.communicate()
                    self.problem = f"took more than {self.timeout} s"
                finally:
                    running.discard(process)
            self.output = output.decode(errors="replace")
            self.judge(process.returncode)
        except OSError as error:
            self.problem = f"cannot be started: {error}"
        self.failed += bool(self.problem)
        self.seconds = time.monotonic() - begin
        return self

    def judge(self, status):
        planned = 0
        for line in self.output.splitlines():
            plan, result, directive = PLAN.match(line), RESULT.match(line), DIRECTIVE.search(line)
            if plan:
                planned += int(plan[1])
            elif result and directive:
                self.skipped.append(directive[1] or "no reason is given")
            elif result and result[1]:
                self.failed += 1
            elif result:
                self.passed += 1
        ran = self.passed + self.failed + len(self.skipped)
        if self.problem:
            pass
        elif status < 0:
            self.problem = f"was killed by {signal.Signals(-status).name}"
        elif status and not self.failed:
            self.problem = f"exited with {status}"
        elif planned == 0:
            self.problem = "printed no plan: it ran no test, or not to its end"
        elif ran != planned:
            self.problem = f"planned {planned} tests and ran {ran}"

    def report(self):
        word = "FAIL" if self.failed else "ok"
        print(f"{word:<5}{self.name:<40}{self.passed:>5} passed {self.seconds:>7.1f} s", flush=True)
        if self.failed:
            print("".join(f"    {line}\n" for line in self.output.splitlines()), end="")
            if self.problem:
                print(f"    {self.name} {self.problem}")
            print(f"    again: {' '.join(self.command)}", flush=True)


def interrupt(process):
    """Servers of a test may be in sessions of their own: it can stop them, before it is killed."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass
    kill_group(process)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself


def without_aslr():
    """The sanitizers of older compilers fail at random where the kernel randomises more
    bits of an address than they know of."""
    command = ["setarch", "-R"]
    try:
        works = subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        works = False
    return command if works else []


def read_tree(tree):
    options = json.loads((tree / "meson-info/intro-buildoptions.json").read_text())
    tests = json.loads((tree / "meson-info/intro-tests.json").read_text())
    sanitized = any(o["name"] == "b_sanitize" and o["value"] != "none" for o in options)
    wrapper = without_aslr() if sanitized else []
    return [Suite(tree, wrapper, test) for test in tests]


def print_targets(tree, suites):
    files = {target["id"]: target["filename"]
             for target in json.loads((tree / "meson-info/intro-targets.json").read_text())}
    needed = {file for suite in suites for target in suite.depends for file in files[target]}
    print(*sorted(os.path.relpath(file, tree) for file in needed),
          *["all"] if any(suite.name.startswith("install/") for suite in suites) else [])


def run_all(suites):
    running, workers = set(), (os.cpu_count() or 1) + 1  # many wait more than they work
    # Sanitized trees are given last and take longest: begin with them, so that no long suite
    # runs alone at the end.
    together = [s for s in reversed(suites) if not s.alone]
    pool = concurrent.futures.ThreadPoolExecutor(workers)
    try:
        for done in concurrent.futures.as_completed(pool.submit(s.run, running) for s in together):
            done.result().report()
        for suite in suites:
            if suite.alone:
                suite.run(running).report()
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            kill_group(process)
        raise


def report_skipped(suites):
    """How many tests of each suite were not run, and why."""
    for suite in suites:
        for reason, count in collections.Counter(suite.skipped).items():
            print(f"skip {suite.name:<40}{count:>5} {'tests' if count > 1 else 'test'}: {reason}")


def main(arguments):
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    trees, names = [Path(a) for a in arguments[:cut] if a != "--targets"], arguments[cut + 1:]
    known = [suite for tree in trees for suite in read_tree(tree)]
    suites = [s for s in known if not names or any(name in s.name for name in names)]
    if "--targets" in arguments[:cut]:
        print_targets(trees[0], suites)
        return 0
    if not suites:
        print("no suite has such a name; there are", *(s.name for s in known), sep="\n  ")
    begin = time.monotonic()
    run_all(suites)

    report_skipped(suites)
    passed, failed = sum(s.passed for s in suites), sum(s.failed for s in suites)
    skipped = sum(len(s.skipped) for s in suites)
    failing = [s.name for s in suites if s.failed]
    print(f"\n{len(suites)} suites in {time.monotonic() - begin:.0f} s"
          + (f", {skipped} tests skipped" if skipped else "")
          + (f", failing: {' '.join(failing)}" if failing else ""))
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parent.parent)
    sys.exit(main(sys.argv[1:]))
