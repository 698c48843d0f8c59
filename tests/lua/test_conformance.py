#!/usr/bin/env python3
"""test_conformance.py - every trace gives the same numbers in Redis as in C.

    test_conformance.py TREE      from the root of the source
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from lua_judge import Decision, Judge, ask, check, rule  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import run, test  # noqa: E402


def traces(name):
    text = (Path("tests/conformance") / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def limit_steps(name):
    """(question, what is expected, where) of each step, a list for each trace."""
    for line, trace in enumerate(traces("limits.jsonl"), 1):
        numbers = rule(trace["algorithm"], trace["limit"], trace["window_ms"],
                       trace.get("burst", 0), trace.get("precision_ms", 0))
        yield [(ask(int(bool(peek)), numbers, f"{name}:{line}:{key}", cost=cost, now=now),
                [Decision(bool(allowed), *rest)], f"limits.jsonl:{line} step {i}")
               for i, (now, key, cost, peek, allowed, *rest) in enumerate(trace["steps"])]


def policy_steps(name):
    for line, trace in enumerate(traces("policies.jsonl"), 1):
        numbers = {r["name"]: rule(r["algorithm"], r["limit"], r["window_ms"])
                   for r in trace["rules"]}
        steps = []
        for i, (now, ip, email, cost, _, _, _, expected) in enumerate(trace["steps"]):
            who = {"global": "", "ip": ip, "email": email}
            charges = [(numbers[r], f"{name}:{line}:{r}:{who[r]}") for r in numbers]
            steps.append((check(charges, cost=cost, now=now),
                          [Decision(bool(ok), *rest, None) for ok, *rest in expected],
                          f"policies.jsonl:{line} step {i}"))
        yield steps


def compare(answers, steps):
    for answer, (question, expected, where) in zip(answers, steps, strict=True):
        for got, wanted in zip(answer, expected, strict=True):
            if wanted.delay is None: # a policy's trace has none
                got = got._replace(delay=None)
            assert got == wanted, f"{where}: got {got}, expected {wanted}, asked {question}"


def ask_all(judge, steps, size):
    """In calls of so many questions, all calls in one pipeline."""
    calls = [steps[i:i + size] for i in range(0, len(steps), size)]
    replies = judge.client.many(judge.words([q for q, _, _ in call]) for call in calls)
    for call, reply in zip(calls, replies):
        compare(judge.read([q for q, _, _ in call], reply), call)


def interleaved(lists):
    """The first steps of all, then the second ones: time jumps as in no trace alone."""
    return [steps[i] for i in range(max(map(len, lists))) for steps in lists if i < len(steps)]


def statement(kind, how, arrange, size):
    def it_matches():
        with Redis() as server, server.client() as client:
            judge = Judge(client)
            judge.load()
            lists = list(kind(how))
            assert len(lists) >= 40
            for steps in arrange(lists):
                ask_all(judge, steps, size)
    it_matches.__name__ = f"every_{kind.__name__.split('_')[0]}_trace_matches_{how}"
    test(it_matches)


for steps_of in (limit_steps, policy_steps):
    statement(steps_of, "step_by_step", lambda lists: lists, 1)
    statement(steps_of, "in_calls_of_7", lambda lists: lists, 7)
    statement(steps_of, "whole_in_one_call", lambda lists: lists, 1 << 30)
    statement(steps_of, "interleaved_in_calls_of_64", lambda lists: [interleaved(lists)], 64)

run()
