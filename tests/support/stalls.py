"""stalls.py - for tests and benchmarks: how long a machine let somebody wait who was to run.

    stalls = Stalls(5)                          for five seconds, ordinary as anybody
    stalls = Stalls(5, comes_first=True)        with more of a right to run than all others
    stalls.worst()                              in ms, when they are over

Who is ordinary waits for other work of the machine as well. Who comes first waits only where nobody
runs: a virtual machine's host may well see to others for longer than a request may take. Without the
right to come first, that is not known, and 0.
"""
import os
import subprocess
import sys

# On one processor, asleep for 2 ms at a time.
SLEEPER = """
import os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
try:
    if sys.argv[3] == "first":
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
except PermissionError:
    sys.exit("0")
worst, last, end = 0, time.monotonic(), time.monotonic() + float(sys.argv[2])
while last < end:
    time.sleep(0.002)
    now = time.monotonic()
    worst, last = max(worst, now - last - 0.002), now
print(worst * 1000)
"""


class Stalls:
    def __init__(self, seconds, comes_first=False):
        self.sleepers = [
            subprocess.Popen([sys.executable, "-c", SLEEPER, str(cpu), str(seconds),
                              "first" if comes_first else "ordinary"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for cpu in os.sched_getaffinity(0)]

    def worst(self):
        return max(float(sleeper.communicate()[0] or 0) for sleeper in self.sleepers)
