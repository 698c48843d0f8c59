#!/usr/bin/env python3
"""test_monitoring.py - the dashboard for Grafana and the rules for Prometheus ask for what a server has.

    test_monitoring.py TREE      from the root of the source

A server is made to have every metric; then each name, label and label's value of every expression
is looked for among what it exposes.
"""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import Folder, Server, run, test, wait_until  # noqa: E402

RULES = Path("examples/prometheus/alerts.yaml")
DASHBOARD = Path("examples/grafana/weir.json")
POLICIES = """
version: 1
policies:
  login:  {limit: 1 per 15m, by: ip}
  shadow: {limit: 1 per 15m, by: ip, mode: shadow}
  jobs:   {limit: 1 at once, by: ip}
"""
SAMPLE = re.compile(r"^([a-zA-Z_:]+)(?:\{(.*)\})? \S+$", re.M)
LABEL = re.compile(r'(\w+)="([^"]*)"')
NAME = re.compile(r"\b((?:weir|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
BY = re.compile(r"\bby \(([^)]*)\)")
OUTCOMES = {"allowed", "denied", "shadow_denied"}
SOURCES = {"store", "cache", "fallback", "exempt", "blocked", "off", "lease"}


def exposed():
    """{metric: {label: values}} of a server that has decided all kinds of things."""
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text(POLICIES)
        with Server(config=config) as server:
            for policy in "login", "login", "shadow", "shadow", "none":
                server.check(policy, "192.0.2.1")
            server.http("POST", "/v1/reserve", {"policy": "jobs", "key": "192.0.2.1", "ttl_ms": 60_000})
            text = wait_until(lambda: (said := server.http("GET", "/metrics")[2].decode())
                              and "weir_held_amount{" in said and said, "a look at what is held")
    found = {}
    for name, labels in SAMPLE.findall(text):
        metric = found.setdefault(name, {})
        for label, value in LABEL.findall(labels):
            metric.setdefault(label, set()).add(value)
    return found


def rule_expressions():
    """Each `expr` of the rules, whether on its line or below it."""
    text = RULES.read_text()
    found = re.findall(r"^ +expr: (?!\|)(.+)$", text, re.M)
    found += re.findall(r"^ +expr: \|\n((?: {10,}.*\n)+)", text, re.M)
    assert len(found) == len(re.findall(r"^ +- alert: ", text, re.M)), found
    return found


def dashboard_expressions():
    found = json.loads(DASHBOARD.read_text())
    queries = [v["query"]["query"] for v in found["templating"]["list"] if v["type"] == "query"]
    return queries + [t["expr"] for panel in found["panels"] for t in panel["targets"]]


def problems(expression, metrics):
    names = NAME.findall(expression)
    if not names:
        yield f"{expression} asks for nothing"
    labels = {"instance", "job"}  # Prometheus adds them
    for name, matchers in names:
        if name not in metrics:
            yield f"there is no {name}"
            continue
        labels |= set(metrics[name])
        for label, operator, value in re.findall(r'(\w+)(=~?)"([^"]*)"', matchers):
            if label not in metrics[name] | {"instance": 0}:
                yield f"{name} has no label {label}"
            elif operator == "=" and value not in metrics[name][label]:
                yield f"{name} never has {label}={value}"
    for group in BY.findall(expression):
        for label in group.split(","):
            if label.strip() not in labels:
                yield f"{expression} groups by {label.strip()}, which nothing has"
    for name, label in re.findall(r"label_values\((\w+), (\w+)\)", expression):
        if label not in metrics.get(name, {}) | {"instance": 0}:
            yield f"{name} has no label {label}"


METRICS = exposed()


@test
def the_server_has_all_outcomes():
    assert METRICS["weir_decisions_total"]["outcome"] == OUTCOMES, METRICS
    assert METRICS["weir_checks_total"]["outcome"] == OUTCOMES, METRICS
    assert METRICS["weir_checks_total"]["source"] == SOURCES, METRICS


@test
def the_rules_ask_for_metrics_that_there_are():
    found = [p for e in rule_expressions() for p in problems(e, METRICS)]
    assert not found, found


@test
def the_dashboard_asks_for_metrics_that_there_are():
    found = [p for e in dashboard_expressions() for p in problems(e, METRICS)]
    assert not found, found


@test
def a_wrong_name_label_or_value_would_be_noticed():
    for wrong in ("rate(weir_decision_total[5m])", 'weir_decisions_total{outcome="refused"}',
                  'weir_decisions_total{kind="denied"}', "sum by (kind) (weir_keys)", "up == 0",
                  "label_values(weir_keys, policy)"):
        assert list(problems(wrong, METRICS)), wrong


@test
def panels_have_titles_of_their_own_and_do_not_overlap():
    taken, ids = set(), set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        assert panel["title"] and panel["description"], panel
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        assert panel["id"] not in ids
        taken |= cells
        ids.add(panel["id"])


@test
def prometheus_takes_the_rules():
    if not shutil.which("promtool"):
        return "there is no promtool"
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and "12 rules found" in done.stdout, done
    return None


@test
def the_last_hour_is_told_by_the_minute():
    with Server() as server:
        server.http("POST", "/v1/check", {"key": "a", "limit": 5, "window_ms": 60000})

        def told():
            status, _, said = server.http("GET", "/v1/vitals")
            assert status == 200 and said["columns"] == ["at_ms", "decision_p99_ns", "keys", "memory_bytes"], said
            return [p for p in said["points"] if p[1] and p[2] == 1 and p[3] > 1000000 and p[0] % said["step_ms"] == 0]
        wait_until(told, "a minute with a decision")


run()
