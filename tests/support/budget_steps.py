"""budget_steps.py - for tests: random rules and random steps of budgets, for the model and the stores."""

KINDS = ("fixed_window", "sliding_window", "sliding_counter", "token_bucket", "leaky_bucket",
         "calendar", "concurrency")
BEGIN = 1_700_000_000_000
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


def random_rules(dice, kinds=KINDS):
    """One to three; the first counts requests. One that runs at once counts them, too."""
    picked = dice.sample(kinds, dice.randint(1, min(3, len(kinds))))
    return [random_rule(dice, f"r{i}", kind, "tokens" if i > 0 and kind != "concurrency"
                        and dice.random() < 0.7 else None) for i, kind in enumerate(picked)]


class Steps:
    """Time goes on by itself; ids are mostly of reservations that were made."""

    def __init__(self, dice, rules, begin=BEGIN):
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
        op = dice.choice(OPS)
        if self.has_slots and op in ("check", "charge"):
            op = "peek"
        step = {"now": self.now, "op": op}
        if op in ("check", "charge", "peek"):
            return step | {"key": dice.choice("ab"), "costs": self.costs()}
        recent = f"i{max(0, self.ids - dice.choice((0, 0, 1, 1, 2, 3, 8, 30)))}"
        if op == "reserve":
            return self.reserve(step, recent)
        step["id"] = recent
        if op == "extend":
            return step | {"ttl_ms": dice.choice((1, 1000, 60_000))}
        return step if op == "release" else step | {"costs": self.costs()}

    def reserve(self, step, recent):
        dice = self.dice
        if recent in self.asked and dice.random() < 0.15: # mostly the same question again
            again = dict(self.asked[recent], now=step["now"])
            return again if dice.random() < 0.7 else again | {"costs": self.costs()}
        self.ids += 1
        step |= {"key": dice.choice("ab"), "id": f"i{self.ids}", "costs": self.costs(),
                 "ttl_ms": dice.choice((1, 500, 5000, 60_000, 400_000))}
        self.asked[step["id"]] = step
        return step
