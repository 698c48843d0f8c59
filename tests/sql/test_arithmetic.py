#!/usr/bin/env python3
"""test_arithmetic.py - weir.judge() against a model: verbs, changing limits, clocks that step back.

    tests/sql/test_arithmetic.py TREE
"""
import json
import os
import random
import sys

sys.path.insert(0, "tests/support")
from sql_judge import CHECK, COUNTED, NUMBERS, PEEK, REFUND, RESET, answers, ask, charge, complete, costs_of, judge, \
    key_of, padded
from sql_model import Model  # noqa: E402
from postgres import Postgres  # noqa: E402
from weir_server import run, test  # noqa: E402

SEED = int(os.environ.get("WEIR_TEST_SEED", random.randrange(1 << 32)))
print(f"# WEIR_TEST_SEED={SEED}")
EPOCH = 1700000000000
BIG = (1 << 53) - 1


class Traffic:
    """Random questions on a few keys whose rules change on the way."""

    def __init__(self, seed, algorithms):
        self.random = random.Random(seed)
        self.seed = seed
        self.now = EPOCH
        self.keys = []
        for number in range(12):
            algorithm = self.random.choice(algorithms)
            window = self.random.choice([1, 7, 60, 1000, 60000, 3600000])
            self.keys.append((key_of(seed, number), algorithm, window))

    def rule(self, algorithm, window):
        r = self.random
        limit = r.choice([0, 1, 2, 3, 5, 10, 100, 1000])
        if algorithm == "cell":
            return algorithm, limit, window * 1000000 // r.choice([1, 3]), limit or 1, \
                r.choice([0, 1000000])
        burst = r.choice([0, 1, 4, 50]) if "bucket" in algorithm else 0
        precision = r.choice([0, 1, max(1, window // 10), window]) \
            if algorithm == "sliding_window" else 0
        return complete(algorithm, limit, window, burst, precision)

    def question(self):
        r = self.random
        verb = r.choices([CHECK, PEEK, REFUND, RESET], [20, 3, 4, 1])[0]
        cost = r.choices([0, 1, 2, 5, 50, 2000], [1, 20, 5, 3, 2, 1])[0]
        self.now += r.choice([0, 0, 0, 1, 3, 10, 100, 5000])
        now = self.now - r.choice([0, 0, 0, 0, 1, 50, 100000])
        count = r.choices([1, 2, 3], [6, 2, 1])[0]
        charges = [(key, self.rule(algorithm, window))
                   for key, algorithm, window in r.sample(self.keys, count)]
        if count > 1 and r.random() < 0.5: # a cost of 0 for some of them
            cost = tuple(r.choice([0, cost]) for _ in charges)
        return verb, cost, now, charges

    def calls(self, count):
        for _ in range(count):
            yield [self.question() for _ in range(self.random.choice([1, 1, 2, 5, 30]))]

    def batch(self):
        """Checks and peeks at one time, with one rule for each key."""
        rules = {key: self.rule(algorithm, window) for key, algorithm, window in self.keys}
        questions = [self.question() for _ in range(self.random.choice([8, 20]))]
        alone = self.random.random() < 0.5
        return [(PEEK if q[0] == PEEK else CHECK, costs_of(q)[0] if alone else q[1], questions[0][2],
                 [(key, rules[key]) for key, _ in q[3][:1 if alone else None]])
                for q in questions]

    def batches(self, count):
        """And something else now and then."""
        for _ in range(count):
            yield self.batch() if self.random.random() < 0.8 else [self.question()]


    def plain(self, count):
        """Checks of one charge, those of a key in one call with one rule at one time."""
        for _ in range(count):
            calls = [self.question() for _ in range(self.random.choice([1, 1, 2, 12, 30]))]
            of = {}
            for _, _, now, ((key, rule), *_) in calls:
                of.setdefault(key, (now, rule))
            yield [(CHECK, max(costs_of(call)[0], 1), *of[key][:1], [(key, of[key][1])])
                   for call in calls for (key, _), *_ in call[3:]]


def follows_the_model(algorithms, count=250, way=Traffic.calls):
    for number in range(3):
        seed = f"{SEED} {algorithms} {number} {way.__name__}"
        calls = list(way(Traffic(seed, algorithms), count))
        model = Model()
        for i, (call, got) in enumerate(zip(calls, ask(db, calls))):
            for j, (question, have) in enumerate(zip(call, got)):
                want = [tuple(map(int, answer)) for answer in model.judge(question)]
                assert [tuple(a) for a in have] == want, \
                    f"run {number} call {i} question {j} {question}: expected {want}, got {have}"


@test
def fixed_window_follows_the_model():
    follows_the_model(["fixed_window"])


@test
def sliding_window_follows_the_model():
    follows_the_model(["sliding_window"])


@test
def sliding_counter_follows_the_model():
    follows_the_model(["sliding_counter"])


@test
def token_bucket_follows_the_model():
    follows_the_model(["token_bucket"])


@test
def leaky_bucket_follows_the_model():
    follows_the_model(["leaky_bucket"])


@test
def cell_follows_the_model():
    follows_the_model(["cell"])


@test
def all_together_follow_the_model():
    follows_the_model(list(NUMBERS), 500)


@test
def batches_of_one_time_follow_the_model():
    algorithms = list(COUNTED)
    for algorithm in algorithms:
        follows_the_model([algorithm], 100, Traffic.batches)
    follows_the_model(algorithms, 250, Traffic.batches)


def twin(question):
    verb, cost, now, ((key, rule),) = question
    return verb, cost, now, [(key_of("twin", key), rule)]


def rows_of(keys):
    """What is kept of each, in this order."""
    listed = ", ".join(f"('{key}'::uuid, {i})" for i, key in enumerate(keys))
    return db.rows("SELECT at, used, other, oldest, expires, coalesce(log, '{}') "
                   f"FROM (VALUES {listed}) AS k (key, i) LEFT JOIN weir.states USING (key) "
                   "ORDER BY i")


@test
def charge_and_judge_agree():
    algorithms = list(NUMBERS)
    for number, kinds in enumerate([[a] for a in algorithms] + [algorithms] * 3):
        traffic = Traffic(f"{SEED} charge {number}", kinds)
        calls = list(traffic.plain(150))
        said = db.psql("\n".join(charge(call) + "\n" + judge([twin(q) for q in call])
                                 for call in calls)).splitlines()
        for i, call in enumerate(calls):
            passed = dict(zip(sorted({q[3][0][0] for q in call}), json.loads(said[2 * i])))
            for q, have in zip(call, answers(said[2 * i + 1], call)):
                if passed[q[3][0][0]]:
                    assert have[0][0] == 1, f"call {i} {q}: was charged, but judged {have}"
        keys = [key for key, _, _ in traffic.keys]
        for key, have, want in zip(traffic.keys, rows_of(keys),
                                   rows_of([key_of("twin", key) for key in keys])):
            assert have == want, f"{kinds} {key}: charged {have}, judged {want}"
        assert any(len(call) > 1 for call in calls)


@test
def a_lone_charge_of_a_sliding_window_leaves_what_judging_does_at_every_edge():
    rule = complete("sliding_window", 10, 1000, 0, 100)
    histories = {
        "one": [(CHECK, 1, 0)],
        "one and one more": [(CHECK, 1, 0), (CHECK, 2, 50)],
        "two buckets": [(CHECK, 1, 0), (CHECK, 2, 100)],
        "three": [(CHECK, 3, 0), (CHECK, 1, 100), (CHECK, 2, 250)],
        "given back": [(CHECK, 1, 0), (REFUND, 1, 20)],
        "all given back": [(CHECK, 1, 0), (CHECK, 2, 100), (REFUND, 3, 120)],
        "partly given back": [(CHECK, 4, 0), (CHECK, 2, 100), (REFUND, 3, 120)],
    }
    ends = (-150, -1, 0, 99, 100, 101, 250, 350, 1098, 1099, 1100, 1101, 1198, 1199, 1200, 1201, 1500)
    cases = [(name, then, cost) for name in histories for then in ends for cost in (1, 4, 9, 10)]
    said = db.psql("\n".join(line for case in cases for line in lone_and_judged(
        rule, case, histories[case[0]]))).splitlines()
    passed = 0
    for case, lone, judged in zip(cases, said[0::2], said[1::2]):
        assert json.loads(lone)[0] == bool(answers(judged, [(0, 0, 0, [0])])[0][0][0]), case
        passed += json.loads(lone)[0]
    assert 0 < passed < len(cases)
    for case, have, want in zip(cases, rows_of([key_of("lone", c) for c in cases]),
                                rows_of([key_of("twin", key_of("lone", c)) for c in cases])):
        assert have == want, f"{case}: charged {have}, judged {want}"


def lone_and_judged(rule, case, history):
    """The same past for a key and its twin; then one is charged and the other judged."""
    key, (_, then, cost) = key_of("lone", case), case
    for verb, amount, at in history:
        past = verb, amount, EPOCH + at, [(key, rule)]
        yield f"DO $$ BEGIN PERFORM * FROM ({judge([past, twin(past)])[:-1]}) AS j; END $$;"
    last = CHECK, cost, EPOCH + then, [(key, rule)]
    yield charge([last])
    yield judge([twin(last)])


@test
def the_largest_numbers_do_not_overflow():
    late = (1 << 48) - 1
    calls = []
    for algorithm in COUNTED:
        for limit, window in ((BIG, 1), (1, BIG), (94906265, 94906265)):
            rule = complete(algorithm, limit, window, 0,
                            window if algorithm == "sliding_window" else 0)
            key = key_of("large", algorithm, limit)
            for verb, cost, now in ((CHECK, limit, EPOCH), (CHECK, 1, EPOCH), (CHECK, 1 << 53, EPOCH),
                                    (PEEK, limit, late), (CHECK, limit, late), (REFUND, 1 << 53, late),
                                    (CHECK, 1, late)):
                calls.append([(verb, cost, now, [(key, rule)])])
    for way in (list, lambda call: padded(*call)):
        model = Model()
        for call, got in zip(calls, ask(db, [way(call) for call in calls])):
            want = [tuple(map(int, answer)) for answer in model.judge(call[0])]
            assert [tuple(a) for a in got[0]] == want, f"{call}: expected {want}, got {got[0]}"
        db.psql("TRUNCATE weir.states")


@test
def a_denied_charge_changes_nothing():
    rule = complete("sliding_window", 2, 1000)
    key, other = key_of("untouched", 1), key_of("untouched", 2)
    closed = complete("fixed_window", 0, 1000)
    ask(db, [[(PEEK, 1, EPOCH, [(key, rule)])], [(CHECK, 0, EPOCH, [(key, rule)])],
             [(CHECK, 3, EPOCH, [(key, rule)])], [(REFUND, 1, EPOCH, [(key, rule)])],
             [(RESET, 1, EPOCH, [(key, rule)])],
             [(CHECK, 1, EPOCH, [(key, rule), (other, closed)])]])
    assert db.value(f"SELECT count(*) FROM weir.states WHERE key IN ('{key}', '{other}')") == "0"
    ask(db, [[(CHECK, 2, EPOCH, [(key, rule)])]])
    look = f"SELECT xmin, xmax, ctid, * FROM weir.states WHERE key = '{key}'"
    before = db.value(look)
    number = "SELECT pg_current_xact_id_if_assigned() IS NULL"
    for times in (1, 10):
        denied = judge([(CHECK, 1, EPOCH, [(key, rule)]), (PEEK, 1, EPOCH, [(key, rule)])] * times)
        said = db.rows(f"BEGIN; {denied} {number}; COMMIT;")
        assert said[1] == ["t"], "a refusal took a transaction number"
        assert db.value(look) == before


@test
def keys_out_of_order_or_twice_are_rejected():
    for keys in ("{00000000-0000-0000-0000-000000000002,00000000-0000-0000-0000-000000000001}",
                 "{00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000001}"):
        try:
            db.psql(f"SELECT * FROM weir.judge('{keys}', '{{1}}', '{{1}}', '{{1}}', '{{1}}', '{{0}}', "
                    "'{1,2}', '{1,1}')")
        except AssertionError as error:
            assert "ascending" in str(error), error
        else:
            raise AssertionError("was taken")


@test
def a_verb_that_there_is_not_is_refused_and_changes_nothing():
    key = key_of("no verb")
    numbers = complete("fixed_window", 5, 1000)
    ask(db, [[(CHECK, 1, EPOCH, [(key, numbers)])]])
    before = db.value(f"SELECT states FROM weir.states WHERE key = '{key}'")
    for verb in (-1, RESET + 1, 99):
        try:
            ask(db, [[(verb, 1, EPOCH, [(key, numbers)])]])
        except AssertionError as error:
            assert f"there is no verb {verb}" in str(error), error
        else:
            raise AssertionError("was taken")
    assert db.value(f"SELECT states FROM weir.states WHERE key = '{key}'") == before


with Postgres(fsync="off", synchronous_commit="off") as db:
    db.migrate()
    run()
