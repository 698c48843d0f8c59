"""budget_steps.py - for tests: random rules and random steps of budgets, for the model and the stores."""

import datetime
from zoneinfo import ZoneInfo

KINDS = ("fixed_window", "sliding_window", "sliding_counter", "token_bucket", "leaky_bucket",
         "calendar", "concurrency")
BEGIN = 1_700_000_000_000
KNOWN_FOR = 600_000
# Days on which a zone has no midnight, two, another offset or no day at all.
ODD_DAYS = (("America/Sao_Paulo", (2018, 11, 4)), ("America/Sao_Paulo", (2018, 2, 18)),
            ("Pacific/Apia", (2011, 12, 30)), ("Australia/Lord_Howe", (2026, 4, 5)),
            ("Australia/Lord_Howe", (2026, 10, 4)), ("Africa/Casablanca", (2026, 2, 15)),
            ("America/Havana", (2026, 11, 1)), ("Europe/Berlin", (2026, 3, 29)),
            ("Asia/Kathmandu", (1986, 1, 1)), ("UTC", (2028, 2, 29)))
OPS = ("reserve",) * 6 + ("commit",) * 5 + ("release", "grow", "grow", "extend", "check", "check",
                                            "charge", "peek")


def random_rule(dice, name, algorithm, counts):
    rule = {"name": name, "algorithm": algorithm, "limit": dice.choice((1, 4, 10, 25, 100))}
    if counts:
        rule["counts"] = counts
    if dice.random() < 0.7:
        rule["by"] = "user"
    if algorithm == "concurrency":
        return rule
    if algorithm == "calendar":
        rule |= {"period": dice.choice(("day", "week", "month")),
                 "zone": dice.choice(("UTC", "Europe/Berlin", "America/Sao_Paulo"))}
        return rule
    rule["window_ms"] = dice.choice((1000, 7919, 60_000, 600_000))
    if "bucket" in algorithm and dice.random() < 0.5:
        rule["burst"] = dice.choice((1, 5, 30))
    if algorithm == "fixed_window" and dice.random() < 0.3:
        rule["start"] = "first"
    if dice.random() < 0.15:
        rule["block_for_ms"] = dice.choice((500, 20_000))
    return rule


def odd_time(dice, rules):
    """On a day that is odd somewhere; a window of the calendar is of that zone."""
    zone, day = dice.choice(ODD_DAYS)
    for rule in rules:
        if rule["algorithm"] == "calendar":
            rule |= {"zone": zone, "period": dice.choice(("day", "week", "month", "quarter", "year"))}
            if rule["period"] in ("month", "quarter", "year") and dice.random() < 0.7:
                rule["month_day"] = dice.choice((1, 29, 30, 31, day[2]))
    begin = int(datetime.datetime(*day, tzinfo=ZoneInfo(zone)).timestamp()) * 1000
    return begin - dice.choice((1, 3_600_000, dice.randrange(90_000_000)))


def random_rules(dice, kinds=KINDS):
    """One to three; the first counts requests. One that runs at once counts them, too."""
    picked = dice.sample(kinds, dice.randint(1, min(3, len(kinds))))
    return [random_rule(dice, f"r{i}", kind, "tokens" if i > 0 and kind != "concurrency"
                        and dice.random() < 0.7 else None) for i, kind in enumerate(picked)]


class Steps:
    """Time goes on by itself; ids are mostly of reservations that were made. With `resets` there are
    some, and checks with ids."""

    def __init__(self, dice, rules, begin=BEGIN, resets=False):
        self.resets, self.ends = resets, []
        self.dice, self.rules, self.now = dice, rules, begin
        self.ids, self.asked = 0, {}
        self.has_slots = any(r["algorithm"] == "concurrency" for r in rules)
        self.amounts = sorted({r.get("counts", "requests") for r in rules})

    def costs(self):
        costs = {name: self.dice.choice((0, 1, 1, 2, 3, self.dice.randrange(30)))
                 for name in self.amounts if self.dice.random() < 0.6}
        if self.has_slots and "requests" in costs:
            costs["requests"] = min(costs["requests"], self.dice.choice((1, 2, 101)))
        return costs

    def next(self):
        dice = self.dice
        longest = max(r.get("window_ms", 60_000) for r in self.rules)
        self.now += dice.choice((0, 0, 1, dice.randrange(100), dice.randrange(2000),
                                 dice.randrange(longest + 2),
                                 dice.randrange(700_000) if dice.random() < 0.1 else 5))
        ends = [t for t in self.ends if t > self.now]
        if ends and dice.random() < 0.2:
            self.now = dice.choice(ends)
        op = dice.choice(OPS + ("reset", "again", "again") if self.resets else OPS)
        is_again = op == "again" # a check with an id
        if is_again:
            op = "reserve" if self.has_slots else "check"
        if self.has_slots and op in ("check", "charge"):
            op = "peek"
        step = {"now": self.now, "op": op}
        if op in ("check", "charge", "peek") and not is_again:
            return step | {"key": dice.choice("ab"), "costs": self.costs()}
        if op == "reset":
            return step | {"key": dice.choice("ab")}
        recent = f"i{max(0, self.ids - dice.choice((0, 0, 1, 1, 2, 3, 8, 30)))}"
        if op in ("reserve", "check"):
            return self.reserve(step, recent)
        step["id"] = recent
        if op == "extend":
            return step | {"ttl_ms": dice.choice((1, 1000, 60_000))}
        return step if op == "release" else step | {"costs": self.costs()}

    def reserve(self, step, recent):
        dice = self.dice
        if recent in self.asked and dice.random() < 0.15: # mostly the same question again
            step |= {name: self.asked[recent][name] for name in ("key", "id", "costs")}
            if dice.random() > 0.7:
                step["costs"] = self.costs()
        else:
            self.ids += 1
            step |= {"key": dice.choice("ab"), "id": f"i{self.ids}", "costs": self.costs()}
            self.asked[step["id"]] = step
        if step["op"] == "reserve":
            step["ttl_ms"] = dice.choice((1, 500, 5000, 60_000, 400_000))
        end = self.now + step.get("ttl_ms", 0)
        self.ends = self.ends[-12:] + [end - 1, end, end + KNOWN_FOR - 1, end + KNOWN_FOR]
        return step
