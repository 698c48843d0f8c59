"""budget_model.py - what budgets must answer, said once more in Python: plain lists, no bounds.

Amounts, charges, reservations, slots, calendar windows, windows from the first hit and lockouts, in the
simplest way that is right. Time never steps back here.
"""
import datetime
from zoneinfo import ZoneInfo

KNOWN_FOR = 600_000  # ms after its expiry that a reservation is known


def up(a, b):
    return -(-a // b)


# ---- the calendar ------------------------------------------------------------------------------

def civil_instant(zone, date):
    """The first instant whose local time is at or after midnight of this date, in ms."""
    utc = datetime.timezone.utc
    midnight = datetime.datetime.combine(date, datetime.time())
    guess = int(midnight.replace(tzinfo=utc).timestamp())

    def local(second):
        return datetime.datetime.fromtimestamp(second, utc).astimezone(zone).replace(tzinfo=None)
    low, high = guess - 36 * 3600, guess + 36 * 3600
    # Offsets change at whole seconds; local time may step back over midnight, so look from the left.
    step = low
    while step < high:
        if local(step) >= midnight:
            break
        step += 900
    low, high = step - 900, step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if local(middle) >= midnight else (middle, high)
    return high * 1000


def clip(year, month, day):
    last = (datetime.date(year + month // 12, month % 12 + 1, 1) - datetime.timedelta(1)).day
    return datetime.date(year, month, min(day, last))


def boundary_dates(period, month_day, around):
    """Boundaries from well before this date to well after it."""
    if period == "day":
        return [around + datetime.timedelta(i) for i in range(-3, 4)]
    if period == "week":
        monday = around - datetime.timedelta(around.weekday())
        return [monday + datetime.timedelta(7 * i) for i in range(-2, 3)]
    step = {"month": 1, "quarter": 3, "year": 12}[period]
    first = (around.year * 12 + around.month - 1) // step * step
    return [clip((first + i * step) // 12, (first + i * step) % 12 + 1, month_day)
            for i in range(-2, 4)]


def calendar_window(rule, now):
    zone = ZoneInfo(rule.get("zone", "UTC"))
    date = datetime.datetime.fromtimestamp(now // 1000, zone).date()
    instants = [civil_instant(zone, d)
                for d in boundary_dates(rule["period"], rule.get("month_day", 1), date)]
    start = max(i for i in instants if i <= now)
    return start, min(i for i in instants if i > now)


# ---- states --------------------------------------------------------------------------------------
# wait(): None if the cost passes; -1 never; else ms. add() counts and returns a mark; give_back()
# takes from what has this mark.

class Window:
    """Fixed, by the calendar, or from the first hit."""

    def __init__(self, rule):
        self.rule, self.start, self.end, self.count = rule, None, None, 0

    def bring_up(self, now):
        r = self.rule
        if self.start is not None and now < self.end:
            return
        self.count = 0
        if r["algorithm"] == "calendar":
            self.start, self.end = calendar_window(r, now)
        elif r.get("start") == "first":
            self.start = self.end = None
        else:
            self.start = now - now % r["window_ms"]
            self.end = self.start + r["window_ms"]

    def most(self):
        return self.rule["limit"]

    def used(self, now):
        self.bring_up(now)
        return self.count

    def wait(self, now, cost):
        self.bring_up(now)
        if self.count + cost <= self.rule["limit"]:
            return None
        return -1 if cost > self.rule["limit"] else self.end - now

    def reset(self, now):
        self.bring_up(now)
        return self.end - now if self.end else 0

    def add(self, now, cost, hold):
        self.bring_up(now)
        if self.start is None:
            self.start, self.end = now, now + self.rule["window_ms"]
        self.count += cost
        return self.start

    def give_back(self, now, mark, amount):
        self.bring_up(now)
        if self.start == mark:
            self.count -= amount


class SlidingCounter:
    def __init__(self, rule):
        self.rule, self.start, self.current, self.previous = rule, 0, 0, 0

    def bring_up(self, now):
        w = self.rule["window_ms"]
        start = now - now % w
        if start == self.start + w:
            self.previous, self.current = self.current, 0
        elif start != self.start:
            self.previous = self.current = 0
        self.start = start

    def most(self):
        return self.rule["limit"]

    def load(self, now):
        """Times the window."""
        self.bring_up(now)
        w = self.rule["window_ms"]
        return self.previous * (w - (now - self.start)) + self.current * w

    def used(self, now):
        return up(self.load(now), self.rule["window_ms"])

    def passes(self, t, cost):
        w, n = self.rule["window_ms"], (t - self.start) // self.rule["window_ms"]
        previous, current = (self.previous, self.current) if n == 0 else \
            (self.current, 0) if n == 1 else (0, 0)
        return previous * (w - (t - self.start - n * w)) + (current + cost) * w \
            <= self.rule["limit"] * w

    def wait(self, now, cost):
        self.bring_up(now)
        if self.passes(now, cost):
            return None
        if cost > self.rule["limit"]:
            return -1
        low, high = now, now + 2 * self.rule["window_ms"]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.passes(middle, cost) else (middle, high)
        return high - now

    def reset(self, now):
        self.bring_up(now)
        w = self.rule["window_ms"]
        end = self.start + 2 * w if self.current else self.start + w if self.previous else now
        return end - now

    def add(self, now, cost, hold):
        self.bring_up(now)
        self.current += cost
        return self.start

    def give_back(self, now, mark, amount):
        self.bring_up(now)
        if mark == self.start:
            self.current -= amount
        elif mark == self.start - self.rule["window_ms"]:
            self.previous -= amount


class SlidingWindow:
    def __init__(self, rule):
        self.rule, self.buckets = rule, {}
        w, limit = rule["window_ms"], rule["limit"]
        self.grain = rule.get("precision_ms") or (1 if limit <= 60 else up(w, 60))

    def leaves(self, start):
        return start + self.grain - 1 + self.rule["window_ms"]

    def bring_up(self, now):
        self.buckets = {s: n for s, n in self.buckets.items() if self.leaves(s) > now and n}

    def most(self):
        return self.rule["limit"]

    def used(self, now):
        self.bring_up(now)
        return sum(self.buckets.values())

    def wait(self, now, cost):
        used = self.used(now)
        if used + cost <= self.rule["limit"]:
            return None
        if cost > self.rule["limit"]:
            return -1
        for start in sorted(self.buckets):
            used -= self.buckets[start]
            if used + cost <= self.rule["limit"]:
                return self.leaves(start) - now
        raise AssertionError

    def reset(self, now):
        self.bring_up(now)
        return self.leaves(max(self.buckets)) - now if self.buckets else 0

    def add(self, now, cost, hold):
        self.bring_up(now)
        start = now - now % self.grain
        self.buckets[start] = self.buckets.get(start, 0) + cost
        return start

    def give_back(self, now, mark, amount):
        self.bring_up(now)
        if mark in self.buckets:
            self.buckets[mark] -= amount


class Bucket:
    """y is used, and drains. With holds: z is known to be used, and drains; open holds do not."""

    def __init__(self, rule):
        self.rule, self.y, self.z, self.at, self.holds = rule, 0, 0, 0, []
        self.burst = rule.get("burst") or rule["limit"]

    def drain(self, to):
        rate = self.rule["limit"] * (to - self.at)
        self.y, self.z, self.at = max(0, self.y - rate), max(0, self.z - rate), to

    def bring_up(self, now):
        for hold in sorted((h for h in self.holds if h.expires <= now), key=lambda h: h.expires):
            self.drain(max(hold.expires, self.at))
            self.z += hold.amount[id(self)] * self.rule["window_ms"]
            self.holds.remove(hold)
        self.drain(now)

    def most(self):
        return self.burst

    def used(self, now):
        self.bring_up(now)
        return up(self.y, self.rule["window_ms"])

    def remaining(self, now):
        self.bring_up(now)
        return max(0, (self.burst * self.rule["window_ms"] - self.y) // self.rule["window_ms"])

    def wait(self, now, cost):
        self.bring_up(now)
        over = self.y + (cost - self.burst) * self.rule["window_ms"]
        if over <= 0:
            return None
        return -1 if cost > self.burst else up(over, self.rule["limit"])

    def reset(self, now):
        self.bring_up(now)
        return up(self.y, self.rule["limit"])

    def add(self, now, cost, hold):
        self.bring_up(now)
        self.y += cost * self.rule["window_ms"]
        if hold is None:
            self.z += cost * self.rule["window_ms"]
        else:
            hold.amount[id(self)] = hold.amount.get(id(self), 0) + cost
            if hold not in self.holds:
                self.holds.append(hold)
        return id(self)

    def settle(self, now, hold, used):
        self.bring_up(now)
        w = self.rule["window_ms"]
        if hold in self.holds:
            self.holds.remove(hold)
            held = hold.amount[id(self)]
            self.z += used * w
        else:
            held = hold.amount.get(id(self), 0)
            used = max(used, held)
            self.z += (used - held) * w
        self.y += max(0, used - held) * w
        self.y = min(self.y, self.z + sum(h.amount[id(self)] for h in self.holds) * w)


class Slots:
    def __init__(self, rule):
        self.rule, self.taken = rule, []  # holds

    def bring_up(self, now):
        self.taken = [h for h in self.taken if h.expires > now]

    def most(self):
        return self.rule["limit"]

    def used(self, now):
        self.bring_up(now)
        return sum(h.amount[id(self)] for h in self.taken)

    def wait(self, now, cost):
        used = self.used(now)
        if used + cost <= self.rule["limit"]:
            return None
        if cost > self.rule["limit"]:
            return -1
        for hold in sorted(self.taken, key=lambda h: h.expires):
            used -= hold.amount[id(self)]
            if used + cost <= self.rule["limit"]:
                return hold.expires - now
        raise AssertionError

    def reset(self, now):
        self.bring_up(now)
        return max((h.expires for h in self.taken), default=now) - now

    def add(self, now, cost, hold):
        self.bring_up(now)
        hold.amount[id(self)] = hold.amount.get(id(self), 0) + cost
        if hold not in self.taken:
            self.taken.append(hold)
        return id(self)

    def settle(self, now, hold, used):
        self.bring_up(now)
        if hold in self.taken:
            self.taken.remove(hold)


STATES = {"fixed_window": Window, "calendar": Window, "sliding_counter": SlidingCounter,
          "sliding_window": SlidingWindow, "token_bucket": Bucket, "leaky_bucket": Bucket,
          "concurrency": Slots}


class Key:
    """One rule on one identity, and its lockout."""

    def __init__(self, rule):
        self.rule, self.state, self.blocked = rule, STATES[rule["algorithm"]](rule), None

    def is_blocked(self, now):
        if self.blocked is not None and now >= self.blocked:
            self.blocked, self.state = None, STATES[self.rule["algorithm"]](self.rule)
        return self.blocked is not None

    def remaining(self, now):
        if self.is_blocked(now):
            return 0
        if isinstance(self.state, Bucket):
            return self.state.remaining(now)
        if isinstance(self.state, SlidingCounter):
            w = self.rule["window_ms"]
            return max(0, (self.rule["limit"] * w - self.state.load(now)) // w)
        return max(0, self.state.most() - self.state.used(now))

    def over(self, now):
        self.is_blocked(now)
        return max(0, self.state.used(now) - self.state.most())

    def reset(self, now):
        return self.blocked - now if self.is_blocked(now) else self.state.reset(now)

    def wait(self, now, cost):
        if cost == 0:
            return None
        if self.is_blocked(now):
            return self.blocked - now
        return self.state.wait(now, cost)

    def forget(self):
        self.blocked, self.state = None, STATES[self.rule["algorithm"]](self.rule)

    def block(self, now):
        self.forget()
        self.blocked = now + self.rule["block_for_ms"]

    def stand(self, now):
        return [self.remaining(now), self.reset(now)]


class Hold:
    """A reservation."""

    def __init__(self, question, expires):
        self.question, self.expires, self.settled = question, expires, None
        self.amount = {}  # by id of the state, for buckets and slots
        self.parts = []   # (key, state, mark, amount), oldest first
        self.checked = None # what a check with an id has used at once
        self.keys = []    # of all rules, in file order

    def is_expired(self, now):
        return now >= self.expires


class Model:
    def __init__(self, rules):
        self.rules, self.keys, self.holds = rules, {}, {}

    def key_of(self, i, user):
        name = (i, user if self.rules[i].get("by") else None)
        if name not in self.keys:
            self.keys[name] = Key(self.rules[i])
        return self.keys[name]

    def costs(self, step, of_requests=1):
        costs = step.get("costs") or {}
        return [costs.get(r.get("counts", "requests"),
                          of_requests if r.get("counts", "requests") == "requests" else 0)
                for r in self.rules]

    def decide(self, now, keys, costs, takes, hold=None):
        """A check: the answer, charged if it is allowed and takes."""
        waits = [k.wait(now, c) for k, c in zip(keys, costs)]
        allowed = all(w is None for w in waits)
        marks = []
        if takes and not allowed:
            for key, wait in zip(keys, waits):
                if wait is not None and wait != -1 and key.rule.get("block_for_ms") \
                        and not key.is_blocked(now):
                    key.block(now)
            waits = [k.wait(now, c) for k, c in zip(keys, costs)]
        if takes and allowed:
            for key, cost in zip(keys, costs):
                if cost:
                    mark = key.state.add(now, cost, hold)
                    if hold:
                        hold.parts.append((key, key.state, mark, cost))
        rules = [[w is None, k.remaining(now), w or 0, k.reset(now)] for k, w in zip(keys, waits)]
        if allowed:
            decides = min(range(len(rules)), key=lambda i: rules[i][1])
        else:
            decides = max((i for i in range(len(rules)) if not rules[i][0]),
                          key=lambda i: float("inf") if rules[i][2] == -1 else rules[i][2])
        return {"allowed": allowed, "rule": self.rules[decides]["name"],
                "retry_after_ms": 0 if allowed else rules[decides][2], "rules": rules}

    def stand(self, now, keys):
        return [k.stand(now) for k in keys]

    def find(self, step):
        hold = self.holds.get(step["id"])
        if hold and step["now"] >= hold.expires + KNOWN_FOR:
            del self.holds[step["id"]]
            hold = None
        return hold

    def step(self, step):
        now, op = step["now"], step["op"]
        if op == "reset":
            for i in range(len(self.rules)):
                self.key_of(i, step["key"]).forget()
            return {}
        if op == "peek" or op == "check" and "id" not in step:
            keys = [self.key_of(i, step["key"]) for i in range(len(self.rules))]
            return self.decide(now, keys, self.costs(step), op == "check")
        if op == "charge":
            return self.charge(now, step)
        hold = self.find(step)
        if op in ("reserve", "check"):
            return self.reserve(now, step, hold)
        if not hold:
            return {"error": "no_such_reservation"}
        if op in ("commit", "release"):
            return self.settle(now, step, hold)
        if hold.settled is not None:
            return {"error": "already_settled"}
        if hold.is_expired(now):
            return {"error": "reservation_expired"}
        if op == "extend":
            hold.expires = max(hold.expires, now + step["ttl_ms"])
            return {"expires_in_ms": hold.expires - now}
        return self.decide(now, hold.keys, self.costs(step, 0), True, hold)

    def charge(self, now, step):
        keys = [self.key_of(i, step["key"]) for i in range(len(self.rules))]
        for key, cost in zip(keys, self.costs(step)):
            key.is_blocked(now)
            if cost:
                key.state.add(now, cost, None)
        return {"over": max(k.over(now) for k in keys), "rules": self.stand(now, keys)}

    def reserve(self, now, step, hold):
        question = (step["key"], self.costs(step))
        if hold:
            if hold.question != question:
                return {"error": "id_reused"}
            return {"allowed": True, "repeated": True, "rules": self.stand(now, hold.keys)}
        is_check = step["op"] == "check"
        hold = Hold(question, now + (0 if is_check else step["ttl_ms"]))
        hold.keys = [self.key_of(i, step["key"]) for i in range(len(self.rules))]
        answer = self.decide(now, hold.keys, self.costs(step), True, None if is_check else hold)
        if answer["allowed"]:
            self.holds[step["id"]] = hold
            if is_check:
                hold.checked = hold.settled = self.costs(step)
            else:
                answer["expires_in_ms"] = step["ttl_ms"]
        return answer

    def settle(self, now, step, hold):
        held = hold.checked or [sum(p[3] for p in hold.parts if p[0] is k) for k in hold.keys]
        named = step.get("costs") or {}
        used = [0 if step["op"] == "release" else named.get(r.get("counts", "requests"), h)
                for r, h in zip(self.rules, held)]
        if hold.settled is not None:
            if hold.settled != used:
                return {"error": "already_settled"}
            return {"repeated": True, "over": 0, "rules": self.stand(now, hold.keys)}
        expired = hold.is_expired(now)
        hold.settled = used
        for key, h, u in zip(hold.keys, held, used):
            self.settle_one(now, hold, key, h, u, expired)
        return {"expired": expired, "over": max(k.over(now) for k in hold.keys), "rules": self.stand(now, hold.keys)}

    def settle_one(self, now, hold, key, held, used, expired):
        key.is_blocked(now)
        parts = [p for p in hold.parts if p[0] is key]
        if isinstance(key.state, (Bucket, Slots)):
            amount = sum(p[3] for p in parts if p[1] is key.state)
            if amount: # the rest was forgotten before this was grown
                key.state.settle(now, hold, max(0, used - (held - amount)))
            elif used > held and isinstance(key.state, Bucket):
                key.state.add(now, used - held, None)
            return
        if used > held:
            key.state.add(now, used - held, None)
        elif not expired:
            back = held - used
            for _, state, mark, amount in reversed(parts):
                part = min(back, amount)
                back -= part
                if state is key.state:
                    state.give_back(now, mark, part)
