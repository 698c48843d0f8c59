#!/usr/bin/env python3
"""test_budget_model.py - the model of budgets agrees with the traces of an independent one.

    test_budget_model.py TREE      from the root of the source
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from budget_model import Model  # noqa: E402
from weir_server import run, test  # noqa: E402


@test
def every_answer_of_the_traces_is_the_models():
    for line in Path("tests/conformance/budgets.jsonl").read_text(encoding="ascii").splitlines():
        trace = json.loads(line)
        model = Model(trace["rules"])
        for step in trace["steps"]:
            answer = model.step(step)
            assert {name: answer.get(name) for name in step["want"]} == step["want"], (
                trace["rules"], step, answer)


run()
