#!/usr/bin/env python3
"""test_conformance.py - the conformance traces through weir.judge(), one by one and in batches.

    tests/sql/test_conformance.py TREE
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from sql_judge import CHECK, PEEK, ask, complete, key_of, padded  # noqa: E402
from postgres import Postgres  # noqa: E402
from weir_server import run, test  # noqa: E402

TRACES = Path(__file__).resolve().parent.parent / "conformance"


def read(name):
    return [json.loads(line) for line in (TRACES / name).read_text().splitlines()]


def rule_of(trace):
    return complete(trace["algorithm"], trace["limit"], trace["window_ms"], trace.get("burst", 0),
                    trace.get("precision_ms", 0))


def limit_steps(way):
    """(question, what is expected of each charge, where it stands)"""
    for line, trace in enumerate(read("limits.jsonl"), 1):
        rule = rule_of(trace)
        for i, (now, key, cost, peek, *expected) in enumerate(trace["steps"]):
            question = PEEK if peek else CHECK, cost, now, [(key_of(way, line, key), rule)]
            yield question, [tuple(expected)], f"limits.jsonl:{line} step {i}"


def policy_steps(way):
    for line, trace in enumerate(read("policies.jsonl"), 1):
        for i, (now, ip, email, cost, _, _, _, expected) in enumerate(trace["steps"]):
            who = {"global": "", "ip": ip, "email": email}
            charges = [(key_of(way, line, rule["name"], who[rule["name"]]), rule_of(rule))
                       for rule in trace["rules"]]
            yield ((CHECK, cost, now, charges), [tuple(e) for e in expected],
                   f"policies.jsonl:{line} step {i}")


def compare(steps, size, dress=list):
    steps = list(steps)
    assert len(steps) > 1000
    calls = [steps[i:i + size] for i in range(0, len(steps), size)]
    got = ask(db, [dress([question for question, _, _ in call]) for call in calls])
    for call, call_answers in zip(calls, got):
        for (_, expected, where), charges in zip(call, call_answers):
            for want, have in zip(expected, charges):
                assert tuple(have[:len(want)]) == want, f"{where}: expected {want}, got {have}"


def in_turn(steps):
    """Step by step of all traces in turn: time jumps back and forth as in no trace alone."""
    traces = {}
    for step in steps:
        traces.setdefault(step[2].split(" ")[0], []).append(step)
    for i in range(max(map(len, traces.values()))):
        yield from (trace[i] for trace in traces.values() if i < len(trace))


@test
def every_limit_trace_matches_one_by_one():
    compare(limit_steps("one by one"), 1)


@test
def every_limit_trace_matches_in_batches():
    compare(limit_steps("in batches"), 64)


@test
def every_limit_trace_matches_in_batches_of_all_traces():
    compare(in_turn(limit_steps("in turn")), 300)


@test
def every_limit_trace_matches_in_a_batch_of_one_time():
    compare(limit_steps("padded"), 1, lambda questions: padded(*questions))


@test
def every_policy_trace_matches_in_a_batch_of_one_time():
    compare(policy_steps("padded"), 1, lambda questions: padded(*questions))


@test
def every_policy_trace_matches_one_by_one():
    compare(policy_steps("one by one"), 1)


@test
def every_policy_trace_matches_in_batches():
    compare(policy_steps("in batches"), 64)


@test
def every_policy_trace_matches_in_batches_of_all_traces():
    compare(in_turn(policy_steps("in turn")), 300)


with Postgres(fsync="off", synchronous_commit="off") as db:
    db.migrate()
    run()
