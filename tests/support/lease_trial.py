"""lease_trial.py - for tests of leased quotas: callers of many servers, what happens to these
meanwhile, and whether what the callers were told keeps to the limits.

Callers are processes: each asks one server, some checks at a time, and notes when it asked, when it
had the answers, and how many were let in. A decision was made between the two. So the limits are
kept if the decisions can be dated, each within its two times, with no window above its limit. For
intervals that is so if, and only if, in each row of windows no more decisions lie wholly than the
windows hold together (Hall's theorem). The windows are those of the store's clock, which is this
machine's. Of the algorithms in which what is counted ages, what lies wholly in any interval is looked
at: as long as the window, or for buckets of any length.
"""
import bisect
import collections
import heapq
import itertools
import multiprocessing
import os
import random
import signal
import socket
import statistics
import struct
import threading
import time

from weir_server import PATIENCE, TREE, command

AT_ONCE, FEW = 32, 2  # checks of a caller at a time
LINES = 10  # of an answer: how many values follow, 5 numbers, and the rule and the source with their lengths
LIMIT, WINDOW, YEAR = 4000, 1000, 20000
TTL = 1.0
TENTH = 100  # ms
HOUR_MS = 3600000
STEPPED = TREE / "tests" / "libstepped_clock.so"
BURST, SLIDING, SLIDING_WINDOW = 3000, 15000, 11000  # 11 s after a calm second is one that is not
POLICIES = f"""
version: 1
policies:
  second: {{limit: {LIMIT} per {WINDOW}ms, by: user, algorithm: fixed_window, lease: on}}
  year:   {{limit: {YEAR} per 52w, by: user, algorithm: fixed_window, lease: on}}
  token:  {{limit: {LIMIT} per {WINDOW}ms, burst: {BURST}, by: user, algorithm: token_bucket, lease: on}}
  leaky:  {{limit: {LIMIT} per {WINDOW}ms, burst: {BURST}, by: user, algorithm: leaky_bucket, lease: on}}
  log:    {{limit: {SLIDING} per {SLIDING_WINDOW}ms, by: user, algorithm: sliding_window, lease: on}}
  counter: {{limit: {SLIDING} per {SLIDING_WINDOW}ms, by: user, algorithm: sliding_counter, lease: on}}
"""
STEADY = {"second": (LIMIT, WINDOW), "token": (LIMIT, WINDOW), "leaky": (LIMIT, WINDOW), "log": (SLIDING, SLIDING_WINDOW),
          "counter": (SLIDING, SLIDING_WINDOW)}
TRIED = "second", "year", "token", "leaky", "log", "counter"


class Told(collections.namedtuple("Told", "policy key asked answered allowed denied")):
    """So many checks were let in and denied, at some time between the two, in ms."""


def now_ms():
    return time.time_ns() // 1_000_000


def read_answers(stream, count):
    """How many were allowed, and by which source each was decided."""
    lines = list(itertools.islice(stream, LINES * count))
    heads = set(lines[::LINES])
    if len(lines) < LINES * count or heads != {b"*7\r\n"}:
        raise ConnectionError(heads)
    by = collections.Counter(zip(lines[1::LINES], lines[9::LINES]))
    sources = collections.Counter()
    for (_, source), n in by.items():
        sources[source[:-2].decode()] += n
    return sum(n for (said, source), n in by.items()
               if said == b":1\r\n" and source != b"fallback\r\n"), sources


def ask(stream, sock, policy, key, count):
    sock.sendall(command("WEIR.CHECK", policy, key) * count)
    return read_answers(stream, count)


def is_calm(now):
    """Every second window, if there are waves: less is asked for than the limit, so that servers have
    chunks when it ends, and when they are stopped. In the next, far more is."""
    return now // WINDOW % 2 == 0


def call(address, seed, policies, keys, until, most, has_waves, leased, results):
    """A caller: goes on until this time, and until one of them had an answer from a lease, or for so many
    checks; a server that is away is asked again."""
    dice = random.Random(seed)
    told, sources, sock, stream, asked = [], collections.Counter(), None, None, 0
    while asked < most and (time.time() < until or not leased.value and
                            time.time() < until + PATIENCE):
        try:
            if not sock:
                sock = socket.create_connection(address, timeout=PATIENCE)
                stream = sock.makefile("rb")
            # One key is hot, the others are warm.
            key = "hot" if dice.random() < 0.8 else f"warm-{dice.randrange(keys)}"
            policy = dice.choice(policies)
            began = now_ms()
            count = FEW if has_waves and is_calm(began) else AT_ONCE
            allowed, from_ = ask(stream, sock, policy, key, count)
            told.append(tuple(Told(policy, key, began, now_ms(), allowed, count - allowed)))
            sources.update(from_)
            leased.value = leased.value or from_["lease"] > 0
            asked += count
            if count == FEW:
                time.sleep(0.002)
        except (OSError, ValueError):  # what was not heard was not told
            if sock:
                sock.close()
            sock = None
            time.sleep(0.02)
    results.put((told, sources))


class Callers:
    """Two for each server, from now on."""

    def __init__(self, addresses, policies, seconds, most=1 << 40, keys=20, has_waves=False):
        context = multiprocessing.get_context("fork")
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"# seed {seed}")
        self.results = context.Queue()
        until = time.time() + seconds
        leased = context.Value("b", False, lock=False)
        self.processes = [context.Process(target=call, daemon=True, args=(
            address, f"{seed}-{n}-{twin}", policies, keys, until, most, has_waves,
            leased, self.results))
            for n, address in enumerate(addresses) for twin in range(2)]
        for process in self.processes:
            process.start()

    def finish(self):
        told, sources = [], collections.Counter()
        for _ in self.processes:
            some, from_ = self.results.get(timeout=600)
            told += [Told(*one) for one in some]
            sources.update(from_)
        for process in self.processes:
            process.join()
        return told, sources


def windows_of(told, window):
    """Of each policy and key: how many were let in wholly within windows i to j."""
    counts = collections.defaultdict(collections.Counter)
    for one in told:
        if one.allowed:
            span = one.asked // window, one.answered // window
            counts[one.policy, one.key][span] += one.allowed
    return counts


def excess(told, limit, window):
    """The worst: by how much some row of windows of some key holds more than it may, or below 0."""
    worst = -limit
    for spans in windows_of(told, window).values():
        begins = sorted({i for i, _ in spans})
        ends = sorted({j for _, j in spans})
        for i in begins:
            for j in (j for j in ends if j >= i):
                within = sum(n for (a, b), n in spans.items() if i <= a and b <= j)
                worst = max(worst, within - (j - i + 1) * limit)
    return worst


class Tallest:
    """Numbers in a row: add to the first so many, and find the greatest of the first so many."""

    def __init__(self, numbers):
        self.size = 1 << max(0, len(numbers) - 1).bit_length()
        self.best = [0] * self.size + numbers + [-(1 << 62)] * (self.size - len(numbers))
        self.more = [0] * (2 * self.size)
        for i in range(self.size - 1, 0, -1):
            self.best[i] = max(self.best[2 * i], self.best[2 * i + 1])

    def nodes(self, count):
        """Those that together are the first so many."""
        left, right, found = self.size, self.size + count, []
        while left < right:
            if left & 1:
                found.append(left)
                left += 1
            if right & 1:
                right -= 1
                found.append(right)
            left, right = left // 2, right // 2
        return found

    def add(self, count, n):
        above = set()
        for node in self.nodes(count):
            self.best[node] += n
            self.more[node] += n
            while node > 1:
                node //= 2
                above.add(node)
        for node in sorted(above, reverse=True):
            self.best[node] = max(self.best[2 * node], self.best[2 * node + 1]) + self.more[node]

    def greatest(self, count):
        most = -(1 << 62)
        for node in self.nodes(count):
            best = self.best[node]
            while node > 1:
                node //= 2
                best += self.more[node]
            most = max(most, best)
        return most


def spans_by_key(told):
    """Of each policy and key: (answered, asked, how many were let in), by the first."""
    spans = collections.defaultdict(collections.Counter)
    for one in told:
        if one.allowed:
            spans[one.policy, one.key][one.answered, one.asked] += one.allowed
    return [sorted((*span, n) for span, n in of.items()) for of in spans.values()]


def excess_of_bucket(told, burst, limit, window):
    """The worst: by how much more than burst + limit / window * t was let in within t ms of some key."""
    worst = -burst
    for spans in spans_by_key(told):
        begins = sorted({asked for _, asked, _ in spans})
        places = {asked: i for i, asked in enumerate(begins)}
        row = Tallest([limit * begin for begin in begins])
        for answered, asked, n in spans:
            row.add(places[asked] + 1, n * window)
            over = row.greatest(bisect.bisect(begins, answered)) - limit * answered
            worst = max(worst, -((burst * window - over) // window))
    return worst


def excess_of_log(told, limit, window):
    """… more than the limit in `window` ms."""
    worst = -limit
    for spans in spans_by_key(told):
        within, inside = 0, []
        for answered, asked, n in spans:
            heapq.heappush(inside, (asked, n))
            within += n
            while inside and inside[0][0] <= answered - window:
                within -= heapq.heappop(inside)[1]
            worst = max(worst, within - limit)
    return worst


def excess_of_counter(told, limit, window):
    """… more than is left of the limit by what was let in in the window before."""
    worst = -limit
    for spans in spans_by_key(told):
        number, previous, current = None, 0, 0
        for answered, asked, n in spans:
            if answered // window != number:
                previous = current if number is not None and answered // window == number + 1 else 0
                number, current = answered // window, 0
            current += n if asked // window == number else 0
            load = previous * (window - answered % window) + current * window
            worst = max(worst, -((limit * window - load) // window))
    return worst


def check_limits(told):
    """Of all policies."""
    of = collections.defaultdict(list)
    for one in told:
        of[one.policy].append(one)
    worst = (("second", excess(of["second"], LIMIT, WINDOW)),
             ("year", excess(of["year"], YEAR, 1 << 60)),
             ("token", excess_of_bucket(of["token"], BURST, LIMIT, WINDOW)),
             ("leaky", excess_of_bucket(of["leaky"], BURST, LIMIT, WINDOW)),
             ("log", excess_of_log(of["log"], SLIDING, SLIDING_WINDOW)),
             ("counter", excess_of_counter(of["counter"], SLIDING, SLIDING_WINDOW)))
    for policy, over in worst:
        print(f"# {policy}: {sum(one.allowed for one in of[policy])} let in, {-over} below the limit")
    assert all(over <= 0 for _, over in worst), f"more than the limit: {worst}"


def steady_usage(told, policy, key, limit, window):
    """The share of what drains from a bucket that was used, from the first denial to the last."""
    mine = sorted((one.answered, one.allowed, one.denied) for one in told
                  if (one.policy, one.key) == (policy, key))
    denied = [answered for answered, _, count in mine if count]
    if not denied:
        return 0
    first, last = denied[0], denied[-1]
    used = sum(allowed for answered, allowed, _ in mine if first < answered <= last)
    return used * window / (limit * (last - first)) if last > first else 0


def fullness(told, policy, key, limit, window):
    """How full a sliding window or counter was when it denied, on average over all tenths of a second in
    which it did: the rest was leased and not used, or is dated later than it was used."""
    mine = sorted((one.answered, one.asked, one.allowed, one.denied) for one in told
                  if (one.policy, one.key) == (policy, key))
    ends = [answered for answered, *_ in mine]
    let_in = [0, *itertools.accumulate(allowed for _, _, allowed, _ in mine)]

    def between(first, last):
        return let_in[bisect.bisect(ends, last)] - let_in[bisect.bisect_left(ends, first)]

    def counted(asked, answered):
        if policy == "log":
            return between(asked - window + 1, answered)
        begins = answered // window * window
        return between(begins, answered) + \
            between(begins - window, begins - 1) * (window - answered % window) / window
    full = collections.defaultdict(list)
    for answered, asked, _, denied in mine:
        if denied and answered - asked < TENTH:
            full[answered // TENTH].append(counted(asked, answered) / limit)
    return statistics.mean(statistics.mean(of) for of in full.values()) if full else 0


def usage(told, policy, key, limit, window):
    """The share of the limit that was used in each window between the first and the last in which some
    were denied: in the others less was asked for."""
    used, denied = collections.Counter(), set()
    for one in told:
        if (one.policy, one.key) == (policy, key):
            used[one.answered // window] += one.allowed
            if one.denied and one.asked // window == one.answered // window:
                denied.add(one.answered // window)
    inner = sorted(used)[1:-1]
    return [used[number] / limit for number in inner if number in denied]


def share_of(told, policy, key):
    """How much of its limit was used, by what fits its algorithm."""
    limit, window = STEADY[policy]
    if policy == "second":
        return statistics.mean(usage(told, policy, key, limit, window) or [0])
    return (steady_usage if window == WINDOW else fullness)(told, policy, key, limit, window)


# ---- what happens to servers -------------------------------------------------------------------


class Clock:
    """The time of day of one server, which can be set."""

    def __init__(self, folder, number):
        self.path = folder / f"clock-{number}"
        self.set(0)
        self.env = {"LD_PRELOAD": str(STEPPED), "WEIR_TEST_STEP": str(self.path)} \
            if self.is_possible() else {}

    @staticmethod
    def is_possible():
        """A sanitizer must be loaded before all else."""
        return "san" not in TREE.name and STEPPED.exists()

    def set(self, ahead):
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:
            file.write(struct.pack("<q", ahead))


class Trouble(threading.Thread):
    """One thing after the other, each some time after the last."""

    def __init__(self, home, clocks, kinds, seconds):
        super().__init__(daemon=True)
        self.home, self.clocks, self.kinds, self.seconds = home, clocks, kinds, seconds
        self.done = collections.Counter()
        self.problem = None
        self.start()

    def run(self):
        try:
            for turn, kind in enumerate(self.kinds):
                time.sleep(self.seconds / (len(self.kinds) + 1) / 4)  # of load
                getattr(self, kind)(turn % len(self.home.servers))
                self.done[kind] += 1
        except Exception as problem:  # pylint: disable=broad-except
            self.problem = problem

    def finish(self):
        """What went wrong here fails the trial, and is told."""
        self.join()
        if self.problem:
            raise self.problem

    def stop(self, number):
        """For longer than any chunk lasts, from a calm window into one that is not."""
        process = self.home.servers[number].process
        time.sleep((2 * WINDOW - now_ms() % (2 * WINDOW) + 0.5 * WINDOW) / 1000)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.2 * TTL)
        os.kill(process.pid, signal.SIGCONT)

    def kill(self, number):
        """kill -9, and another one in its place."""
        server = self.home.servers[number]
        server.process.kill()
        server.process.wait()
        self.home.servers[number] = self.home.serve(
            listen="%s:%d" % server.address, env=self.clocks[number].env)
        self.home.servers.pop()

    def step(self, number):
        """The time of day, by an hour: back, or ahead the next time."""
        time.sleep((2 * WINDOW - now_ms() % (2 * WINDOW) + 0.5 * WINDOW) / 1000)
        self.clocks[number].set(HOUR_MS if self.done["step"] % 2 else -HOUR_MS)

    def store(self, _):
        self.home.redis.crash()

    def restart(self, _):
        """A Postgres that is crashed, and recovers."""
        self.home.primary.crash()
        self.home.primary.start()

    def take_over(self, _):
        """It crashes for good, and its standby is promoted."""
        self.home.primary.crash()
        self.home.standby.promote()

    def move(self, _):
        """The slot of a hot key, and all that is leased of it, to another master."""
        cluster = self.home.cluster
        key = next(key for key in cluster.keys() if key.endswith(b":l"))
        source = cluster.owner(key)
        target = next(node for node in cluster.masters if node is not source)
        for _ in cluster.move(source("CLUSTER", "KEYSLOT", key), source, target):
            time.sleep(0.05)

    def promote(self, _):
        """A failover in which the master takes part: nothing is lost."""
        master, (replica, *_) = next(iter(self.home.cluster.followers.items()))
        self.home.cluster.promote(replica)

    def failover(self, _):
        """The master is killed, its replica takes over, and what was the master follows it."""
        watched = self.home.watched
        watched.master.kill()
        watched.wait_for_promotion()
        watched.master.start()


Trial = collections.namedtuple("Trial", "decisions shares told")


def trial(home, count, seconds, kinds, policies=TRIED):
    """So many servers under load, and trouble of these kinds. No limit is exceeded. The answer has
    how many decisions there were, how much of the hot key's limit was used in each window that was
    full, and what the callers were told."""
    if not Clock.is_possible():
        kinds = [kind for kind in kinds if kind != "step"]
    clocks = [Clock(home.folder.path, number) for number in range(count)]
    for clock in clocks:
        home.serve(env=clock.env)
    callers = Callers([server.address for server in home.servers], policies, seconds,
                      has_waves=bool(kinds))
    trouble = Trouble(home, clocks, kinds, seconds)
    told, sources = callers.finish()
    trouble.finish()
    shares = usage(told, "second", "hot", LIMIT, WINDOW)
    print(f"# {sum(sources.values())} decisions {dict(sources)}, {dict(trouble.done)}, used of each "
          f"full window {[round(share, 3) for share in shares]}")
    assert sources["lease"] > 0, sources
    assert trouble.done.total() == len(kinds), trouble.done
    check_limits(told)
    return Trial(sum(sources.values()), shares, told)
