#!/usr/bin/env python3
"""test_amounts.py - costs by name mean the same by HTTP, RESP and the command line.

    test_amounts.py TREE      from the root of the source
"""
import json
import re
import subprocess
import sys

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, WEIR, Server, run, test  # noqa: E402

NOW = 1700000000000
POLICIES = """
version: 1
policies:
  model:
    by: user
    rules:
      calls:  {limit: 100 per 1m}
      tokens: {limit: 5000 per 1m, counts: tokens}
  spend: {limit: 1000000000000 per month, by: user, counts: micro-dollars}
"""
ASK = {"policy": "model", "now": NOW}
LEFT = [99, 3800]  # after 1200 tokens


class Served:
    def __enter__(self):
        self.folder = Folder()
        self.config = self.folder.__enter__() / "policies.yaml"
        self.config.write_text(POLICIES)
        self.server = Server("--trust-client-clock", config=self.config).__enter__()
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def post(self, body, verb="check"):
        return self.server.http("POST", f"/v1/{verb}", body)

    def check(self, *words, remote=False):
        where = ["--server", self.server.url] if remote else ["--config", str(self.config)]
        return tool("check", "model", "a", *words, *where)

    def explain(self, *words):
        return tool("policy", "explain", str(self.config), "model", "user=a", *words)


def tool(*words):
    return subprocess.run([str(WEIR), *words], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)


def left(answer):
    return [rule["remaining"] for rule in answer["rules"]]


@test
def the_body_the_query_and_the_batch_bring_costs():
    with Served() as s:
        tokens = {"costs": {"tokens": 1200}}
        assert left(s.post({**ASK, "key": "a", **tokens})[2]) == LEFT
        query = f"/v1/check?policy=model&key=b&now={NOW}&cost.tokens=1200&cost.requests=1"
        assert left(s.server.http("POST", query)[2]) == LEFT
        many = {"checks": [{**ASK, "key": "c", **tokens}, {**ASK, "key": "c", "cost": 2},
                           {**ASK, "key": "c", "costs": {"rows": 1}}]}
        answers = s.post(many)[2]["answers"]
        assert [left(a) for a in answers[:2]] == [LEFT, [97, 3800]], answers
        assert answers[2]["error"]["code"] == "invalid_cost", answers[2]
        for verb, want in (("peek", LEFT), ("refund", [100, 5000]), ("charge", LEFT),
                           ("check", [98, 2600])):
            got = s.post({**ASK, "key": "a", **tokens}, verb)[2]
            assert left(got) == want, (verb, got)


@test
def the_headers_have_the_length_of_the_month_that_is_in_force():
    with Served() as s:
        for now, days in ((1707000000000, 29), (1710000000000, 31), (1738500000000, 28)):
            asked = {"policy": "spend", "key": "a", "now": now, "costs": {"micro-dollars": 1}}
            _, headers, answer = s.post(asked)
            assert headers["ratelimit-policy"] == f'"spend";q=1000000000000;w={days * 86400}', headers
            assert answer["reset_after_ms"] <= days * 86400000


@test
def each_mistake_is_named():
    with Served() as s:
        for costs, code, detail in (
                ({"rows": 1}, "invalid_cost", "no rule counts rows: give the cost of requests, tokens"),
                ({"tokens": -1}, "invalid_cost", "the cost of tokens must be from 0 to 2^53, not -1"),
                ({"": 1}, "invalid_cost", "no rule counts : give the cost of requests, tokens"),
                ({"tokens": "1"}, "invalid_request", "the cost of tokens must be a whole number"),
                ([], "invalid_request", "'costs' must be an object, as in {\"tokens\": 1200}"),
                ({f"a{i}": 1 for i in range(17)}, "invalid_request",
                 "there are too many costs: at most 16")):
            status, _, problem = s.post({**ASK, "key": "a", "costs": costs})
            assert (status, problem["code"], problem["detail"]) == (400, code, detail), problem
        for body, detail in (
                ({**ASK, "key": "a", "cost": 1, "costs": {"requests": 1}},
                 "give a cost or the cost of requests, not both"),
                ({"policy": "spend", "key": "a", "cost": 5},
                 "no rule counts requests: give the cost of micro-dollars"),
                ({"key": "a", "limit": 5, "window_ms": 1000, "costs": {"tokens": 1}},
                 "a limit that comes with a request counts requests alone")):
            status, _, problem = s.post(body)
            assert (status, problem["detail"]) == (400, detail), problem
        for query in ("cost.tokens=x", "&".join(f"cost.a{i}=1" for i in range(17))):
            assert s.server.http("POST", f"/v1/check?policy=model&key=a&{query}")[0] == 400, query
        assert left(s.post({**ASK, "key": "a"}, "peek")[2]) == [100, 5000]


@test
def commands_bring_costs():
    with Served() as s:
        def remaining(*words):
            said = s.server.resp(*words, "NOW", str(NOW), "FULL").decode()
            return [int(n) for n in re.findall(r"remaining\r\n:(\d+)", said)]
        assert remaining("WEIR.CHECK", "model", "a", "COST", "tokens", "1200") == [99] + LEFT
        assert remaining("WEIR.CHARGE", "model", "b", "COST", "tokens", "1200", "COST", "requests", "1")[1:] \
            == LEFT
        assert remaining("WEIR.CHECK", "model", "a", "COST", "2")[1:] == [97, 3800]
        assert remaining("WEIR.PEEK", "spend", "a", "COST", "micro-dollars", "7")[0] == 10**12
        for words, error in (
                (("COST", "rows", "1"), b"-INVALID_COST no rule counts rows: give the cost of requests, tokens"),
                (("COST", "tokens", "1", "COST", "tokens", "1"), b"-INVALID_REQUEST the cost of tokens is given twice"),
                (("COST", "1", "COST", "2"), b"-INVALID_REQUEST COST is given twice"),
                (("COST", "2", "COST", "requests", "1"),
                 b"-INVALID_REQUEST give a cost or the cost of requests, not both"),
                (("COST", "tokens"), b"-INVALID_REQUEST COST must be followed by a whole number"),
                (sum((("COST", f"a{i}", "1") for i in range(17)), ()),
                 b"-INVALID_REQUEST there are more than 16 costs")):
            said = s.server.resp("WEIR.CHECK", "model", "a", *words)
            assert said.startswith(error), (words, said)
        assert remaining("WEIR.CHECK", "model", "a", "COST", "tokens", "100", "COST", "3")[1:] == [94, 3700]


@test
def the_tool_brings_costs_here_and_to_a_server():
    with Served() as s:
        for remote in (False, True):
            now = ("--now", str(NOW), "--json")
            done = s.check("--cost", "tokens=1200,requests=1", *now, remote=remote)
            assert left(json.loads(done.stdout)) == LEFT, done
            done = s.check("--cost", "rows=1", remote=remote)
            assert (done.returncode, done.stdout) == (2, ""), done
            assert "no rule counts rows: give the cost of requests, tokens" in done.stderr, done
        for words, error in (("tokens=", "must be N, or NAME=N"), ("=5", "must be N, or NAME=N"),
                             ("tokens=x", "--cost tokens must be a whole number"),
                             (",".join(f"a{i}=1" for i in range(17)), "more than 16 amounts")):
            done = s.check("--cost", words)
            assert done.returncode == 2 and error in done.stderr, done


@test
def explanations_and_lists_say_what_a_rule_counts():
    with Served() as s:
        done = s.explain()
        assert re.search(r"counts +tokens +line \d", done.stdout), done
        done = s.explain("--json")
        rules = json.loads(done.stdout)["rules"]
        assert "counts" not in rules[0] and rules[1]["counts"]["value"] == "tokens", rules
        listed = s.server.http("GET", "/v1/policies")[2]["policies"]
        assert [r.get("counts") for p in listed for r in p["rules"]] == [None, "tokens", "micro-dollars"]


run()
