#!/usr/bin/env python3
"""test_replay_terminal.py - what `weir replay` shows on a terminal: drawings, progress, an estimate.

    test_replay_terminal.py TREE
"""
import gzip
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from weir_server import PATIENCE, WEIR, Folder, run, test  # noqa: E402

START = 1714550400  # 2024-05-01T08:00:00Z


def line(when, ip="203.0.113.1"):
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(when))
    return f'{ip} - - [{stamp}] "GET / HTTP/1.1" 200 5\n'


class Here(Folder):
    def __enter__(self):
        (self.path / "policies.yaml").write_text("version: 1\npolicies: {p: {limit: 2 per 1s, by: ip, algorithm: fixed_window}}\n")
        return self

    def long_log(self, blocks):
        """Each block is ten thousand lines."""
        packed = gzip.compress("".join(line(START + i) for i in range(10000)).encode())
        (self.path / "long.log.gz").write_bytes(packed * blocks)
        return "long.log.gz"

    def until(self, pattern, *words):
        """Until its stderr, which is a terminal, shows the pattern; then ^C. What it has printed, and the match."""
        ours, theirs = os.openpty()
        with subprocess.Popen([WEIR, "replay", "-c", "policies.yaml", *words], cwd=self.path, stdout=subprocess.PIPE,
                              stderr=theirs) as process:
            os.close(theirs)
            shown, found, end = b"", None, time.monotonic() + PATIENCE
            while not found and time.monotonic() < end:
                shown += os.read(ours, 65536)
                found = re.search(pattern, shown.decode())
            process.send_signal(signal.SIGINT)
            printed = process.communicate(timeout=PATIENCE)[0].decode()
            os.close(ours)
        assert found, shown[-300:]
        assert process.returncode == 0
        return printed, found


def seconds(text):
    """Of a duration such as 1h2m3s."""
    return sum(int(n) * {"h": 3600, "m": 60, "s": 1}[unit] for n, unit in re.findall(r"(\d+)([hms])", text))


@test
def requests_and_denials_are_drawn_over_time():
    """One, two, four and eight requests in four seconds, of which two pass in each."""
    with Here() as here:
        (here.path / "a.log").write_text("".join(line(START + i) * 2 ** i for i in range(4)))
        for locale, rows in (("C.UTF-8", ["▁▂▄█  requests", "  ▃█  denied"]), ("C", ["..-#  requests", "  :#  denied"])):
            told = subprocess.run([WEIR, "replay", "-c", "policies.yaml", "a.log"], cwd=here.path, capture_output=True, check=True,
                                  env={**os.environ, "LC_ALL": locale}, timeout=PATIENCE).stdout.decode()
            drawn = re.findall(r"^    (.{4}  (?:requests|denied))$", told, re.M)
            assert drawn == rows, (locale, drawn)
            assert "\n    2024-05-01 08:00 to 2024-05-01 08:00 UTC\n" in told


@test
def a_long_run_shows_how_far_it_is():
    with Here() as here:
        log = here.long_log(3000)
        printed, found = here.until(r"(\d+) lines, ([\d.]+) million a second, (\d+) denied, (\d+)%, (\w+) left", log)
        assert int(found[1]) > 0 and float(found[2]) >= 0 and int(found[4]) < 100
        assert "stopped before the end: this is the report so far" in printed
        lines = int(re.search(r"gzip, (\d+) lines", printed)[1])
        assert int(found[1]) <= lines < 30_000_000
        # The estimate is what is left at the speed so far.
        left = (30_000_000 - int(found[1])) / (float(found[2]) * 1e6 or 1)
        assert seconds(found[5]) <= 2 * left + 2 and 2 * seconds(found[5]) + 2 >= left / 2, (found[0], left)


@test
def several_passes_are_told_apart():
    """Each has a speed of its own: a suggestion reads the logs several times."""
    with Here() as here:
        printed, found = here.until(r"pass (\d+): (\d+) lines, ([\d.]+) million a second, (\d+)%, \w+ left", "--suggest", "99%",
                                    here.long_log(60))
        assert int(found[1]) >= 2 and int(found[2]) <= 600_000
        assert "# Stopped before the end" in printed or "p: {limit: " in printed


@test
def without_a_terminal_there_is_no_progress():
    with Here() as here:
        done = subprocess.run([WEIR, "replay", "-c", "policies.yaml", here.long_log(100)], cwd=here.path, capture_output=True, check=True,
                              timeout=PATIENCE)
        assert done.stderr == b"" and b"1000000 requests" in done.stdout


run()
