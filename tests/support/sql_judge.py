"""sql_judge.py - for tests: questions to weir.judge() as SQL, and its answers as Python.

A question is (verb, cost, now, charges) with one cost for all charges or a tuple of one for each, a charge (key, rule), a rule (algorithm, limit, window,
burst, precision); an answer is, for each charge, (allowed, remaining, retry_after, reset_after,
delay).
"""
import hashlib
import json

from c_lists import CLists

LISTS = CLists(".")
# Those of which a check is enough.
COUNTED = {name: number for name, number in LISTS.algorithms.items() if name != "concurrency"}
NUMBERS = {**COUNTED, "cell": 15}
CHECK, PEEK, REFUND, RESET = map(LISTS.wire_verbs.get, ("check", "peek", "refund", "reset"))


def complete(algorithm, limit, window, burst=0, precision=0):
    """A rule with what was left out, as rule_check() does it."""
    if limit == 0:
        return algorithm, 0, window, 0, 0
    if algorithm in LISTS.with_burst:
        burst = burst or limit
    else:
        burst = limit
    if algorithm in LISTS.with_precision:
        precision = precision or (1 if limit <= 60 else -(-window // 60))
    return algorithm, limit, window, burst, precision


def key_of(*what):
    """16 bytes in the form of a UUID; as text they sort as the database sorts them."""
    digest = hashlib.md5(repr(what).encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


def array(values):
    return "'{" + ",".join("NULL" if v is None else str(v) for v in values) + "}'"


def costs_of(question):
    _, cost, _, charges = question
    return (cost,) * len(charges) if isinstance(cost, int) else cost


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
    columns += [array(question[0] for question in questions),
                array(cost for question in questions for cost in costs_of(question)),
                array(question[2] for question in questions)]
    return ("SELECT array_to_json(array[allowed::int[]::bigint[], remaining, retry_after, "
            f"reset_after, delay]) FROM weir.judge({', '.join(columns)});")


def charge(questions):
    """The same by weir.charge_one() or weir.charge_many(): plain checks, those of a key agree on rule and
    time. Whether each key's all pass, in the order of keys."""
    keys = sorted({question[3][0][0] for question in questions})
    of = {key: [q for q in questions if q[3][0][0] == key] for key in keys}
    if len(questions) == 1:
        (_, cost, now, ((key, rule),)), = questions
        numbers = ", ".join(str(number) for number in (NUMBERS[rule[0]], *rule[1:], cost, now))
        return f"SELECT json_build_array(cardinality(weir.charge_one('{key}', {numbers})) = 4);"
    rules = list(dict.fromkeys(of[key][0][3][0][1] for key in keys))
    kinds = {NUMBERS[rule[0]] for rule in rules}
    columns = [array(keys), str(*kinds) if len(kinds) == 1 else "NULL"]
    columns += [array(NUMBERS[r[0]] for r in rules)]
    columns += [array(r[i] for r in rules) for i in range(1, 5)]
    columns += [array(rules.index(of[key][0][3][0][1]) + 1 for key in keys),
                array(sum(q[1] for q in of[key]) for key in keys),
                array(of[key][0][2] for key in keys), array(len(of[key]) for key in keys),
                array(q[1] for key in keys for q in of[key])]
    return (f"SELECT json_agg(k = ANY (coalesce(passed, '{{}}')) ORDER BY k) "
            f"FROM weir.charge_many({', '.join(columns)}), generate_series(1, {len(keys)}) AS k;")


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
