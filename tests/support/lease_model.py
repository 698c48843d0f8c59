"""lease_model.py - leases as they are meant, by brute force: a state is the list of what was counted and
when, and what is still leased. play() asks a store and this model the same, and compares all numbers.

What is leased counts in full. Once it is settled, what was spent counts as if it came then. What is not
settled counts as if all of it came when the lease expires.

It also notes when each unit is let in: of a lease at random times before it is settled or expires. The
plain algorithm, without leases, must let in each of these at its time, too: that no limit is exceeded
is not deduced but seen.
"""
import random
from fractions import Fraction

MOST = 5000  # ms until all is forgotten, of the rules that are played


class Model:
    def __init__(self, algorithm, limit, window, burst, precision):
        self.algorithm, self.limit, self.window = algorithm, limit, window
        self.burst, self.precision = burst, precision
        self.counted = []  # time, amount
        self.leases = {}  # id: amount, expires

    @property
    def most(self):
        return self.burst if self.algorithm.endswith("bucket") else self.limit

    def all_at(self, now):
        """What is counted by then, and what is still leased."""
        ended = [(expires, amount) for amount, expires in self.leases.values() if expires <= now]
        leased = sum(amount for amount, expires in self.leases.values() if expires > now)
        return sorted([*self.counted, *ended]), leased

    def load(self, now):
        """How much of the limit is used, exactly."""
        counted, leased = self.all_at(now)
        return leased + load_of(self, counted, now)

    def passes(self, cost, now):
        return cost == 0 or self.load(now) + cost <= self.most

    def remaining(self, now):
        return int(max(0, (self.most - self.load(now)) // 1))

    def retry(self, cost, now):
        if cost > self.most:
            return -1
        return next(t for t in range(1, 3 * MOST) if self.passes(cost, now + t))

    def reset(self, now):
        """When nothing is left. Before, a state may have no weight and yet be kept."""
        counted, _ = self.all_at(now + 3 * MOST)
        times = [end_of(self, counted)] if counted else []
        return max([0, *(t - now for t in times)])

    def delay(self, now):
        if self.algorithm != "leaky_bucket":
            return 0
        return -int(-self.load(now) * self.window // self.limit)


def load_of(rule, counted, now):
    """Of a plain state."""
    if rule.algorithm == "sliding_window":
        g = rule.precision
        return sum(n for at, n in counted if at - at % g + g - 1 + rule.window > now)
    if rule.algorithm == "sliding_counter":
        begin = now - now % rule.window
        previous = sum(n for at, n in counted if begin - rule.window <= at < begin)
        return sum(n for at, n in counted if at >= begin) + \
            Fraction(previous * (rule.window - (now - begin)), rule.window)
    level, last = Fraction(0), 0
    for at, n in [*counted, (now, 0)]:
        level = max(Fraction(0), level - Fraction((at - last) * rule.limit, rule.window)) + n
        last = at
    return level


def end_of(rule, counted):
    last = counted[-1][0]
    if rule.algorithm == "sliding_window":
        return last - last % rule.precision + rule.precision - 1 + rule.window
    if rule.algorithm == "sliding_counter":
        return last - last % rule.window + 2 * rule.window
    return last - int(-load_of(rule, counted, last) * rule.window // rule.limit)


def some_rule(dice):
    algorithm = dice.choice(("sliding_window", "sliding_counter", "token_bucket", "leaky_bucket"))
    window = dice.choice((7, 30, 100))
    precision = dice.choice((1, 4, 10)) if algorithm == "sliding_window" else 0
    return algorithm, dice.randint(4, 40), window, dice.randint(4, 50), precision


def let_in_again(model, let_in):
    """What the plain algorithm says of all that was let in, one after the other."""
    counted = []
    for at in sorted(let_in):
        if load_of(model, counted, at) + 1 > model.most:
            return f"at {at} one too many: {sorted(let_in)}"
        counted.append((at, 1))
    return ""


class Play:
    """One rule, one key, and what happens to it."""

    def __init__(self, store, seed):
        self.store, self.seed = store, seed
        self.dice = random.Random(seed)
        self.numbers = some_rule(self.dice)
        self.model = Model(*self.numbers)
        self.rule, self.key = store.rule(*self.numbers), store.key(seed)
        self.now, self.ids, self.granted = 1_000_000, 0, {}
        self.let_in = []
        self.leased = self.denied = 0

    def spend(self, id, amount, until):
        """At any times since it was granted."""
        self.let_in += [self.dice.randint(self.granted[id], until) for _ in range(amount)]

    def end_leases(self):
        for id, (amount, expires) in list(self.model.leases.items()):
            if expires <= self.now:
                del self.model.leases[id]
                self.model.counted.append((expires, amount))
                self.spend(id, amount, expires - 1)

    def expect(self, said, cost, charged, is_peek=False):
        """`said` is of before it is charged if it is denied or a peek, otherwise of after."""
        model, now = self.model, self.now
        allowed = model.passes(cost, now)
        wait = 0 if allowed else model.retry(cost, now)
        delay = model.delay(now) if allowed else 0
        if allowed and not is_peek:
            charged()
        wanted = allowed, model.remaining(now), wait, model.reset(now), delay
        assert tuple(said) == wanted, (f"seed {self.seed} {self.numbers} at {now}, cost {cost}: "
                                       f"{tuple(said)}, not {wanted}; {model.counted} {model.leases}")
        return allowed

    def check(self):
        cost = self.dice.choice((0, 1, 1, 2, 5, 60))
        said = self.store.check(self.rule, self.key, cost, self.now)
        if self.expect(said, cost, lambda: cost and self.model.counted.append((self.now, cost))):
            self.let_in += [self.now] * cost
        else:
            self.denied += bool(self.model.leases)

    def peek(self):
        cost = self.dice.choice((1, 3))
        self.expect(self.store.peek(self.rule, self.key, cost, self.now), cost, None, True)

    def lease(self):
        id, amount = self.ids, self.dice.choice((1, 2, 4, 9))
        ttl = self.dice.choice((1, 5, 20, 60))
        said = self.store.lease(f"{self.seed}-{id}", self.rule, self.key, amount, ttl, self.now)
        if self.expect(said, amount, lambda: self.model.leases.update(
                {id: (amount, self.now + ttl)})):
            self.granted[id] = self.now
            self.leased += 1
        self.ids += 1

    def settle(self):
        if self.model.leases:
            id = self.dice.choice(list(self.model.leases))
            amount, _ = self.model.leases.pop(id)
            spent = self.dice.choice((0, amount, self.dice.randint(0, amount)))
            self.store.settle(f"{self.seed}-{id}", spent, self.now)
            if spent:
                self.model.counted.append((self.now, spent))
            self.spend(id, spent, self.now)

    def run(self, steps):
        for _ in range(steps):
            self.now += self.dice.choice((0, 0, 1, 1, 2, 5, self.dice.randrange(2 * self.model.window)))
            self.end_leases()
            getattr(self, self.dice.choice(("check", "check", "peek", "lease", "lease", "settle")))()
        self.now += MOST
        self.end_leases()
        wrong = let_in_again(self.model, self.let_in)
        assert not wrong, (self.seed, self.numbers, wrong)


def play(store, games, steps, seed=None):
    """Many of them: something was leased in most, and denied with something leased in some."""
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"# seed {seed}")
    leased = denied = 0
    for n in range(games):
        game = Play(store, f"{seed}-{n}")
        game.run(steps)
        leased, denied = leased + game.leased, denied + game.denied
    print(f"# {leased} leases, {denied} denials beside them")
    assert leased > games and denied > games, (leased, denied)
