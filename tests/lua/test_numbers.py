#!/usr/bin/env python3
"""test_numbers.py - what no trace has: giving back, large numbers, cells, and undoing, in Redis.

    test_numbers.py TREE      from the root of the source
"""
import http.client
import json
import itertools
import random
import sys

sys.path.insert(0, "tests/support")
from lua_judge import ALGORITHMS, CHARGE, CHECK, PEEK, REFUND, RESET, Decision, Judge, ask, cell, check, \
    peek, rule, undo  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import PATIENCE, Server, run, test  # noqa: E402

SEED = random.SystemRandom().randrange(1 << 32)
EPOCH = 1_700_000_000_000
MOST = (1 << 53) - 1 # of limit * window and burst * window


def random_rule(dice, algorithm):
    window = dice.choice([1, 7, 1000, 3_600_000, dice.randrange(1, 10**9),
                          dice.randrange(1, 1 << 50)])
    limit = min(dice.choice([1, 2, 5, 60, 61, 1000, MOST]), MOST // window)
    limit = dice.choice([limit, limit, dice.randrange(1, limit + 1)])
    burst = precision = 0
    if algorithm.endswith("bucket"):
        burst = dice.choice([0, dice.randrange(1, MOST // window + 1), min(20, MOST // window)])
    if algorithm == "sliding_window" and dice.random() < 0.5:
        precision = dice.randrange(-(-window // 60), window + 1)
    if algorithm == "sliding_window" and min(limit, window) > 1 << 20:
        precision = precision or -(-window // 60)
    return limit, window, burst, precision


def random_story(dice, algorithm, key):
    """What happens to one key: (verb, cost, now), and the numbers of each question."""
    limit, window, burst, precision = random_rule(dice, algorithm)
    now, most = EPOCH + dice.randrange(1 << 40), burst or limit
    for _ in range(30):
        now += dice.choice([0, 0, 1, dice.randrange(window), dice.randrange(3 * window)])
        if now >= 1 << 48:
            return
        if dice.random() < 0.1: # other numbers, the same algorithm and window
            limit = dice.randrange(1, limit + 1)
            burst = dice.randrange(1, burst + 1) if burst else 0
        verb = dice.choice([CHECK] * 6 + [PEEK, REFUND, REFUND, RESET, CHARGE])
        cost = dice.choice([1, 1, 1, int(verb == REFUND), most, dice.randrange(1, most + 1),
                            most + 1])
        numbers = rule(algorithm, limit, window, burst, precision)
        yield ask(verb, numbers, key, cost=cost, now=now), {
            "key": key, "algorithm": algorithm, "limit": limit, "window_ms": window, "cost": cost,
            "now": now, **({"burst": burst} if burst else {}),
            **({"precision_ms": precision} if precision else {})}


class Weir:
    """Asks a server of ours that keeps its counts in memory, where the arithmetic is in C."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE)

    def __call__(self, verb, request):
        path = ("/v1/check", "/v1/peek", "/v1/refund", "/v1/reset", None, "/v1/charge")[verb]
        self.connection.request("POST", path, json.dumps(request))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, (request, answer)
        answer["remaining"] -= answer.get("over", 0) # as the script says it
        return Decision(*(answer[name] for name in (
            "allowed", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms")))


def statement_about(algorithm):
    def it_is_as_in_c():
        dice = random.Random(SEED)
        with Redis() as redis, redis.client() as client, \
                Server("--trust-client-clock") as server:
            judge, weir = Judge(client), Weir(server)
            for i in range(30):
                story = list(random_story(dice, algorithm, f"{algorithm}:{i}"))
                answers, size = [], dice.choice([1, 5, 30])
                for at in range(0, len(story), size):
                    answers += judge([question for question, _ in story[at:at + size]])
                for (question, request), (got,) in zip(story, answers, strict=True):
                    expected = weir(question.verb, request)
                    most = -(MOST - request.get("burst", request["limit"])) # a server says no more
                    if question.verb == CHARGE and got.remaining < most:
                        got = got._replace(remaining=most)
                    if expected.reset_after < MOST: # what is more is not exact in Redis
                        assert got == expected, (SEED, i, question, got, expected)
    it_is_as_in_c.__name__ = f"{algorithm}_gives_back_and_holds_large_numbers_as_in_c"
    test(it_is_as_in_c)


for name in ALGORITHMS:
    statement_about(name)


# ---- cells ---------------------------------------------------------------------------------------

def towards_zero(a, b):
    return a // b if a >= 0 else -(-a // b)


class Cell:
    """src/limit/cell.c in integers without bounds."""

    def __init__(self):
        self.due = 0

    def take(self, interval, capacity, cost, added, now_ms, is_peek):
        now, most, increment = now_ms * 10**6, interval * capacity, interval * cost
        at = max(self.due, now)
        ahead = at + increment - most - now
        then = at if ahead > 0 or is_peek else at + increment
        left, remaining, retry = most - (then - now), 0, 0
        if ahead > 0:
            retry = towards_zero(ahead, 10**6) if increment <= most else -1
        if left > -interval:
            us, divisor = towards_zero(left, 1000), interval // 1000
            remaining = towards_zero(us, divisor) if divisor else \
                0 if us == 0 else float("inf") if us > 0 else float("-inf")
        if ahead <= 0 and not is_peek and cost:
            self.due = then
        return Decision(ahead <= 0, remaining, retry, towards_zero(then - now + added, 10**6), 0)


@test
def a_cell_counts_nanoseconds_exactly():
    dice = random.Random(SEED)
    with Redis() as redis, redis.client() as client:
        judge = Judge(client)
        for i in range(150):
            interval = dice.choice([1, 999, 1999, 333_333_333, 10**9, dice.randrange(1, 10**7),
                                    dice.randrange(1, 10**13), dice.randrange(1, 10**17)])
            most = 9 * 10**18 // interval - 4 # 285 years: 2^53 us
            capacity = min(most, dice.choice([1, 2, 16, 1000, 0, -1]))
            added, now, model = dice.choice([0, 0, interval]), EPOCH, Cell()
            questions, expected = [], []
            for _ in range(20):
                now += dice.choice([0, 0, 1, dice.randrange(2 * interval // 10**6 + 2)])
                verb = dice.choice([CHECK] * 5 + [PEEK])
                cost = dice.choice([1, 1, 1, 0, -1, -3, capacity, capacity + 1])
                questions.append(ask(verb, cell(interval, capacity, cost, added), f"cell:{i}",
                                     cost=cost, now=now))
                expected.append(model.take(interval, capacity, cost, added, now, verb == PEEK))
            size = dice.choice([1, 20])
            answers = [a for at in range(0, 20, size) for a, in judge(questions[at:at + size])]
            for question, got, wanted in zip(questions, answers, expected, strict=True):
                assert got == wanted, (SEED, question, got, wanted)


# ---- undoing -------------------------------------------------------------------------------------

@test
def an_undo_admits_nothing_that_would_be_denied_without_the_charge():
    """Two keys see the same admissions. One of them was also charged for what was undone later."""
    dice = random.Random(SEED)
    exact = total = 0
    with Redis() as redis, redis.client() as client:
        judge = Judge(client)
        for i in range(400):
            numbers = rule(dice.choice(list(ALGORITHMS)), dice.choice([3, 10, 100]), 1000)
            with_it, without = f"with:{i}", f"without:{i}"
            now, cost = EPOCH + dice.randrange(10**6), dice.randrange(1, 4)

            def others(times):
                nonlocal now
                for _ in range(times):
                    now += dice.choice([0, 1, 3, dice.randrange(400)])
                    amount = dice.randrange(1, 3)
                    if judge.one(check(numbers, with_it, cost=amount, now=now)).allowed:
                        same = judge.one(check(numbers, without, cost=amount, now=now))
                        assert same.allowed, SEED

            others(dice.randrange(4))
            charged = judge.one(check(numbers, with_it, cost=cost, now=now))
            if not charged.allowed:
                continue
            due, charged_at = now + charged.reset_after, now
            others(dice.randrange(5))
            judge([undo([(numbers, with_it, due, charged_at)], cost=cost, now=now)])
            for _ in range(5):
                now += dice.choice([0, 1, dice.randrange(700)])
                left = [judge.one(peek(numbers, key, now=now)).remaining
                        for key in (with_it, without)]
                assert left[0] <= left[1], (SEED, i, numbers, left)
                exact, total = exact + (left[0] == left[1]), total + 1
    assert exact > 0.9 * total, (SEED, exact, total) # and it is not for nothing


@test
def an_immediate_undo_leaves_nothing_behind():
    with Redis() as redis, redis.client() as client:
        judge = Judge(client)
        for name, limit in itertools.product(ALGORITHMS, (10, 100_000)): # one lasts less than a ms
            numbers = rule(name, limit, 60000)
            charged = judge.one(check(numbers, name, now=EPOCH))
            (after,), = judge([undo([(numbers, name, EPOCH + charged.reset_after, EPOCH)],
                                    now=EPOCH)])
            assert after.remaining == limit, name
            assert judge.one(peek(numbers, name, now=EPOCH + 1)).remaining == limit, name
            assert client("EXISTS", name) == 0, name


run()
