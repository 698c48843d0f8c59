"""stalls.py - for tests and benchmarks: how long a runnable thread had to wait for a CPU.

    stalls = Stalls(5)                          for five seconds, at normal priority
    stalls = Stalls(5, comes_first=True)        at real-time priority
    stalls.worst()                              in ms, after the five seconds
    stalls.periods()                            those of more than 2 ms: (from, to), in seconds of time.time()

At normal priority a thread also waits for other processes of this machine. At real-time priority
it waits only while the host of the virtual machine runs something else, which may take longer than
a request should. Without the right to real-time priority that is unknown, and 0.
"""
import json
import os
import subprocess
import sys

# On one processor, asleep for 2 ms at a time.
SLEEPER = """
import json, os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
try:
    if sys.argv[3] == "first":
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
except PermissionError:
    sys.exit("0")
worst, periods, last, end = 0, [], time.monotonic(), time.monotonic() + float(sys.argv[2])
while last < end:
    time.sleep(0.002)
    now = time.monotonic()
    stall = now - last - 0.002
    worst, last = max(worst, stall), now
    if stall > 0.002:
        periods.append((time.time() - stall, time.time()))
print(json.dumps([worst * 1000, periods]))
"""


class Stalls:
    def __init__(self, seconds, comes_first=False):
        self.sleepers = [
            subprocess.Popen([sys.executable, "-c", SLEEPER, str(cpu), str(seconds),
                              "first" if comes_first else "ordinary"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for cpu in os.sched_getaffinity(0)]

    def results(self):
        if self.sleepers:
            said = [sleeper.communicate()[0] for sleeper in self.sleepers]
            self.sleepers, self.found = [], [json.loads(one) for one in said if one]
        return self.found

    def worst(self):
        return max((worst for worst, _ in self.results()), default=0)

    def periods(self):
        return [tuple(period) for _, periods in self.results() for period in periods]
