"""judging.py - for tests: questions to weir.judge() as SQL, and its answers as Python.

A question is (verb, cost, now, charges), a charge (key, rule), a rule (algorithm, limit, window,
burst, precision); an answer is, for each charge, (allowed, remaining, retry_after, reset_after,
delay).
"""
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

NUMBERS = {"fixed_window": 1, "sliding_window": 2, "sliding_counter": 3, "token_bucket": 4,
           "leaky_bucket": 5, "cell": 15}
CHECK, PEEK, REFUND, RESET = range(4)


def complete(algorithm, limit, window, burst=0, precision=0):
    """A rule with what was left out, as rule_check() does it."""
    if limit == 0:
        return algorithm, 0, window, 0, 0
    if algorithm in ("token_bucket", "leaky_bucket"):
        burst = burst or limit
    else:
        burst = limit
    if algorithm == "sliding_window":
        precision = precision or (1 if limit <= 60 else -(-window // 60))
    return algorithm, limit, window, burst, precision


def key_of(*what):
    """16 bytes in the form of a UUID; as text they sort as the database sorts them."""
    digest = hashlib.md5(repr(what).encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


def array(values):
    return "'{" + ",".join("NULL" if v is None else str(v) for v in values) + "}'"


def judge(questions):
    """One call, as one statement."""
    charges = [charge for question in questions for charge in question[3]]
    keys = sorted({key for key, _ in charges})
    rules = list(dict.fromkeys(rule for _, rule in charges))
    slot = {key: i for i, key in enumerate(keys, 1)}
    place = {rule: i for i, rule in enumerate(rules, 1)}
    counts = [len(question[3]) for question in questions]
    columns = [array(keys), array(NUMBERS[r[0]] for r in rules)]
    columns += [array(r[i] for r in rules) for i in range(1, 5)]
    columns += [array(slot[key] for key, _ in charges), array(place[rule] for _, rule in charges)]
    columns += ["NULL" if max(counts) == 1 else array(counts)]
    columns += [array(question[i] for question in questions) for i in range(3)]
    return ("SELECT array_to_json(array[allowed::int[]::bigint[], remaining, retry_after, "
            f"reset_after, delay]) FROM weir.judge({', '.join(columns)});")


def answers(line, questions):
    columns = json.loads(line)
    rows = iter(list(zip(*columns)))
    return [[next(rows) for _ in question[3]] for question in questions]


def ask(db, calls):
    """All these calls in one connection, each in its own transaction; the answers of each."""
    lines = db.psql("\n".join(judge(questions) for questions in calls)).splitlines()
    assert len(lines) == len(calls), f"{len(lines)} answers to {len(calls)} calls"
    return [answers(line, questions) for line, questions in zip(lines, calls)]


def padded(question):
    """A call of this question and of looks at an untouched key, so that it is a batch."""
    look = (PEEK, 1, question[2], [(key_of("padding"), complete("fixed_window", 1, 1))])
    return [question] + [look] * 8
