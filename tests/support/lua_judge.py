"""lua_judge.py - asks lua/judge.lua questions, as a store would.

    judge = Judge(client)
    judge.load()
    judge([check(rule, "key"), check([(rule, "a"), (other, "b")], cost=2, now=1000)])

A question is a Question, and its answer a list of Decisions, one for each charge.
"""
import hashlib
import struct
from collections import namedtuple
from pathlib import Path

from c_lists import CLists
from redis import Refused

SCRIPT = b"".join(Path("lua", name).read_bytes() for name in ("limits.lua", "judge.lua"))
SHA = hashlib.sha1(SCRIPT).hexdigest()
LISTS = CLists(".")
ALGORITHMS = {name: n for name, n in LISTS.algorithms.items() if name != "concurrency"} # is held
CHECK, PEEK, REFUND, RESET, UNDO, CHARGE = map(
    LISTS.wire_verbs.get, ("check", "peek", "refund", "reset", "undo", "charge"))

Decision = namedtuple("Decision", "allowed remaining retry_after reset_after delay")
Question = namedtuple("Question", "verb charges cost now")
Rule = namedtuple("Rule", "algorithm limit window burst precision block",
                  defaults=(0,))


def rule(algorithm, limit, window, burst=0, precision=0):
    if not precision and algorithm in LISTS.with_precision:
        precision = 1 if limit <= 60 else -(-window // 60)
    return Rule(ALGORITHMS[algorithm], limit, window, burst or limit, precision)


def cell(interval, capacity, cost=1, added=0):
    """Times are in ns, and become whole ms and the ns above."""
    words = [15]
    for ns in (interval, interval * capacity, interval * cost, added):
        words += divmod(ns, 1000000)
    return tuple(words)


def costs_of(cost, charges):
    """One for all charges, or a list of one for each."""
    return [cost] * len(charges) if isinstance(cost, int) else cost


def ask(verb, charges, key=None, cost=1, now=0):
    if key is not None:
        charges = [(charges, key)]
    return Question(verb, tuple(charges), cost, now)


def check(*words, **named):
    return ask(CHECK, *words, **named)


def peek(*words, **named):
    return ask(PEEK, *words, **named)


def refund(*words, **named):
    return ask(REFUND, *words, **named)


def reset(*words, **named):
    return ask(RESET, *words, **named)


def undo(charges, cost=1, now=0):
    """Each charge has more: when what is undone would have been untouched again, and when it was
    charged."""
    return Question(UNDO, tuple(charges), cost, now)


def packed_integer(number):
    if 0 <= number < 128:
        return struct.pack(">B", number)
    if -32 <= number < 0:
        return struct.pack(">b", number)
    if number >= 0:
        for code, form, bits in ((0xcc, ">BB", 8), (0xcd, ">BH", 16), (0xce, ">BI", 32)):
            if number < 1 << bits:
                return struct.pack(form, code, number)
        return struct.pack(">BQ", 0xcf, number)
    return struct.pack(">Bq", 0xd3, number)


def packed(numbers):
    return struct.pack(">BI", 0xdd, len(numbers)) + b"".join(map(packed_integer, numbers))


class Judge:
    def __init__(self, client):
        self.client = client
        self.now = None # Redis's, of the last call

    def load(self):
        assert self.client("SCRIPT", "LOAD", SCRIPT).decode() == SHA

    def words(self, questions):
        """The command for these questions."""
        keys, rules, rest = {}, {}, []
        for question in questions:
            rest += [question.verb, question.now, len(question.charges)]
            costs = costs_of(question.cost, question.charges)
            for cost, (numbers, key, *due) in zip(costs, question.charges):
                rest += [keys.setdefault(key, len(keys) + 1),
                         rules.setdefault(tuple(numbers), len(rules) + 1), cost, *due]
        numbers = [len(rules), *(number for one in rules for number in one), *rest]
        return ["EVALSHA", SHA, len(keys), *keys, packed(numbers)]

    def read(self, questions, reply):
        self.now = int(struct.unpack_from("<d", reply)[0])
        answers, at = [], 8
        for question in questions:
            answers.append([])
            for _ in question.charges:
                allowed, *numbers = struct.unpack_from("<Bdddd", reply, at)
                answers[-1].append(Decision(bool(allowed), *(
                    int(n) if abs(n) != float("inf") else n for n in numbers)))
                at += 33
        assert at == len(reply)
        return answers

    def __call__(self, questions):
        """All of them in one call, and again if the server does not have the script."""
        words = self.words(questions)
        try:
            reply = self.client(*words)
        except Refused as error:
            if error.code != "NOSCRIPT":
                raise
            self.load()
            reply = self.client(*words)
        return self.read(questions, reply)

    def one(self, question):
        """The decision of a question with one charge."""
        return self([question])[0][0]
