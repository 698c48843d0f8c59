"""stalls.py - for tests and benchmarks: how long a runnable thread had to wait for a CPU.

    stalls = Stalls(5)                          for five seconds, at normal priority
    stalls = Stalls(5, comes_first=True)        at real-time priority
    stalls.worst()                              in ms, after the five seconds

At normal priority a thread also waits for other processes of this machine. At real-time priority
it waits only while the host of the virtual machine runs something else, which may take longer than
a request should. Without the right to real-time priority that is unknown, and 0.
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
