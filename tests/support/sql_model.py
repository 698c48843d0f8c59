"""sql_model.py - what weir.judge() must answer, said once more in Python: plain lists and no bounds.

Differs from the SQL in all that could be wrong there: nothing is packed, batched or cached.
"""
import copy

from sql_judge import CHECK, PEEK, REFUND, RESET, costs_of

NS = 1000000


def up(a, b):
    return -(-a // b)


def toward_zero(a, b):
    return a // b if (a >= 0) == (b >= 0) else -(-a // b)


class FixedWindow:
    def __init__(self):
        self.start = self.count = 0

    def bring_up(self, rule, now):
        t = max(now, self.start)
        start = t - t % rule[2]
        if start != self.start:
            self.start, self.count = start, 0
        return t

    def look(self, rule, now, cost):
        t = self.bring_up(rule, now)
        end = self.start + rule[2] - t
        wait = 0 if cost == 0 or self.count + cost <= rule[1] else -1 if cost > rule[1] else end
        return wait == 0, max(rule[1] - self.count, 0), wait, end, 0

    def take(self, rule, now, cost):
        self.bring_up(rule, now)
        self.count += cost

    def give_back(self, rule, now, cost):
        self.bring_up(rule, now)
        self.count -= min(cost, self.count)


class SlidingCounter:
    def __init__(self):
        self.start = self.current = self.previous = 0

    def bring_up(self, rule, now):
        t = max(now, self.start)
        start = t - t % rule[2]
        if start - rule[2] == self.start:
            self.start, self.current, self.previous = start, 0, self.current
        elif start != self.start:
            self.start, self.current, self.previous = start, 0, 0
        return t

    def passes(self, rule, t, cost):
        """At a later time of no change."""
        limit, window = rule[1:3]
        start = t - t % window
        if start == self.start:
            current, previous = self.current, self.previous
        elif start - window == self.start:
            current, previous = 0, self.current
        else:
            current = previous = 0
        return previous * (window - (t - start)) + (current + cost) * window <= limit * window

    def look(self, rule, now, cost):
        t = self.bring_up(rule, now)
        limit, window = rule[1:3]
        end = self.start + window - t
        room = (limit - self.current) * window - self.previous * end
        wait = 0
        if cost > limit:
            wait = -1
        elif cost > 0 and not self.passes(rule, t, cost):
            low, high = t, t + end + window  # it grows easier and easier
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self.passes(rule, middle, cost) else (middle, high)
            wait = high - t
        reset = end + window if self.current else end if self.previous else 0
        return wait == 0, max(room, 0) // window, wait, reset, 0

    def take(self, rule, now, cost):
        self.bring_up(rule, now)
        self.current += cost

    def give_back(self, rule, now, cost):
        self.bring_up(rule, now)
        newest = min(cost, self.current)
        self.current -= newest
        self.previous -= min(cost - newest, self.previous)


class Bucket:
    def __init__(self):
        self.used = self.at = 0

    def bring_up(self, rule, now):
        t = max(now, self.at)
        self.used = max(0, self.used - (t - self.at) * rule[1])
        self.at = t

    def look(self, rule, now, cost):
        self.bring_up(rule, now)
        algorithm, limit, window, burst, _ = rule
        over = self.used + (cost - burst) * window
        wait = -1 if cost > burst else up(over, limit) if over > 0 and cost > 0 else 0
        queue = up(self.used, limit) if algorithm == "leaky_bucket" and wait == 0 else 0
        rest = max(burst * window - self.used, 0) // window
        return wait == 0, rest, wait, up(self.used, limit), queue

    def take(self, rule, now, cost):
        self.bring_up(rule, now)
        self.used += cost * rule[2]

    def give_back(self, rule, now, cost):
        self.bring_up(rule, now)
        self.used = max(0, self.used - cost * rule[2])


class SlidingWindow:
    def __init__(self):
        self.log = []  # [start, count], oldest first

    def live(self, rule, now):
        t = max([now] + [start for start, _ in self.log])
        life = rule[4] - 1 + rule[2]
        return t, life, [entry for entry in self.log if entry[0] + life > t]

    def look(self, rule, now, cost):
        t, life, live = self.live(rule, now)
        total = sum(count for _, count in live)
        wait = 0
        if cost > rule[1]:
            wait = -1
        elif cost > 0 and total + cost > rule[1]:
            excess = total + cost - rule[1]
            for start, count in live:
                excess -= count
                if excess <= 0:
                    wait = start + life - t
                    break
        reset = live[-1][0] + life - t if live else 0
        return wait == 0, max(rule[1] - total, 0), wait, reset, 0

    def take(self, rule, now, cost):
        t, _, self.log = self.live(rule, now)
        start = t - t % rule[4]
        if self.log and self.log[-1][0] >= start:
            self.log[-1][1] += cost
        else:
            self.log.append([start, cost])

    def give_back(self, rule, now, cost):
        while cost > 0 and self.log:
            taken = min(cost, self.log[-1][1])
            self.log[-1][1] -= taken
            cost -= taken
            if self.log[-1][1] == 0:
                self.log.pop()


class Cell:
    def __init__(self):
        self.due = 0  # ns

    def step(self, rule, now, cost, charging):
        _, capacity, interval, _, extra = rule
        now_ns = now * NS
        at = max(self.due, now_ns)
        increment, most = interval * cost, interval * capacity
        ahead = at + increment - most - now_ns
        then = at if ahead > 0 or not charging else at + increment
        wait = 0 if ahead <= 0 else toward_zero(ahead, NS) if increment <= most else -1
        free = most - (then - now_ns)
        rest = toward_zero(toward_zero(free, 1000), interval // 1000) if free > -interval else 0
        if ahead <= 0 and charging:
            self.due = max(then, 0)
        return ahead <= 0, rest, wait, toward_zero(then - now_ns + extra, NS), 0

    def look(self, rule, now, cost):
        return self.step(rule, now, cost, False)

    def take(self, rule, now, cost):
        self.step(rule, now, cost, True)


KINDS = {"fixed_window": FixedWindow, "sliding_counter": SlidingCounter, "token_bucket": Bucket,
         "leaky_bucket": Bucket, "sliding_window": SlidingWindow, "cell": Cell}


class Model:
    def __init__(self):
        self.states = {}

    def state(self, key, rule):
        return self.states.get(key) or KINDS[rule[0]]()

    def take(self, key, rule, now, cost):
        self.states[key] = self.state(key, rule)
        self.states[key].take(rule, now, cost)

    def look(self, key, rule, now, cost):
        if rule[1] == 0 and rule[0] != "cell":
            return cost == 0, 0, 0 if cost == 0 else -1, 0, 0
        return copy.copy(self.state(key, rule)).look(rule, now, cost)

    def judge(self, question):
        verb, _, now, charges = question
        costs = costs_of(question)
        if verb in (CHECK, PEEK):
            before = [self.look(key, rule, now, cost) for cost, (key, rule) in zip(costs, charges)]
            if verb == PEEK or not any(costs) or not all(answer[0] for answer in before):
                return before
            for cost, (key, rule) in zip(costs, charges):
                if cost:
                    self.take(key, rule, now, cost)
            # What stands after it, and what it had to wait for before.
            after = [self.look(key, rule, now, 0) for key, rule in charges]
            return [(True, a[1], 0, a[3], b[4]) for a, b in zip(after, before)]
        answers = []
        for cost, (key, rule) in zip(costs, charges):
            if verb == RESET:
                self.states.pop(key, None)
            elif key in self.states and rule[1] > 0:
                if rule[0] == "cell":
                    answers.append(self.states[key].step(rule, now, -cost, True))
                    continue
                self.states[key].give_back(rule, now, cost)
            assert verb in (REFUND, RESET)
            answers.append(self.look(key, rule, now, 0))
        return answers
