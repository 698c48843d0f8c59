#!/usr/bin/env python3
"""test_budgets.py - the policies of endpoints with a language model, and the handler that streams from one.

    test_budgets.py TREE      from the root of the source
"""
import contextlib
import http.client
import os
import subprocess
import sys

sys.path.insert(0, "tests/support")
from weir_server import Server, free_port, run, test, wait_until  # noqa: E402

POLICIES = "examples/policies/ai.yaml"
NOW = 1_700_000_000_000 // 86_400_000 * 86_400_000  # 0:00 of a day
MINUTE, DAY = 60_000, 86_400_000
PRICE = 3  # of the handler


class Endpoints:
    """A server with these policies, which is told the time."""

    def __init__(self, **environment):
        self.server = Server("--trust-client-clock", config=POLICIES,
                             env={**os.environ, **environment})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    def ask(self, verb, policy, user="ann", now=NOW, costs=None, **more):
        status, _, answer = self.server.http("POST", f"/v1/{verb}", {
            "policy": policy, "attributes": {"user": user, **more}, "now": now, "costs": costs or {}})
        assert status == 200, answer
        return answer

    def exercise(self, now=NOW, **more):
        return self.ask("check", "exercise.create", now=now, costs={"tokens": 100, "micro-dollars": 300},
                        **more)


def remaining(answer):
    return {rule["rule"]: rule["remaining"] for rule in answer["rules"]}


# ---- the policies ----------------------------------------------------------------------------

@test
def ten_exercises_a_minute_and_the_eleventh_in_the_next():
    with Endpoints() as e:
        assert all(e.exercise(NOW + 1000)["allowed"] for _ in range(10))
        denied = e.exercise(NOW + 1000)
        assert (denied["allowed"], denied["rule"], denied["retry_after_ms"]) == (False, "calls", 59_000)
        assert remaining(denied)["tokens"] == 19_000  # it has used none
        assert e.exercise(NOW + 1000, user="bob")["allowed"]
        assert e.exercise(NOW + MINUTE)["allowed"]


@test
def tokens_and_money_end_before_the_calls_do():
    with Endpoints() as e:
        large = {"tokens": 9000, "micro-dollars": 27_000}
        assert e.ask("check", "exercise.create", costs=large)["allowed"]
        assert e.ask("check", "exercise.create", costs=large)["allowed"]
        denied = e.ask("check", "exercise.create", costs=large)
        assert denied["rule"] == "tokens" and remaining(denied) == {
            "calls": 8, "tokens": 2000, "spend": 946_000}, denied
        done = e.ask("charge", "exercise.create", costs={"requests": 0, "micro-dollars": 950_000})
        assert (done["rule"], done["over"]) == ("spend", 4000), done  # it was dearer than expected
        denied = e.exercise(NOW + MINUTE)
        assert (denied["rule"], denied["retry_after_ms"]) == ("spend", DAY - MINUTE), denied
        assert e.exercise(NOW + DAY)["allowed"]


@test
def five_reports_a_day_and_one_budget_of_the_month():
    with Endpoints() as e:
        costs = {"tokens": 50_000, "micro-dollars": 20_000_000}
        assert all(e.ask("check", "report.on-demand", costs=costs)["allowed"] for _ in range(5))
        denied = e.ask("check", "report.on-demand", costs=costs)
        assert (denied["rule"], denied["retry_after_ms"]) == ("calls", DAY), denied
        assert all(e.ask("check", "report.on-demand", user="bob", costs=costs)["allowed"]
                   for _ in range(5))
        denied = e.ask("check", "report.on-demand", user="eve", costs=costs)
        assert denied["rule"] == "spend" and remaining(denied)["spend"] == 0, denied
        first = NOW + denied["retry_after_ms"]
        assert not e.ask("check", "report.on-demand", user="eve", now=first - 1, costs=costs)["allowed"]
        assert e.ask("check", "report.on-demand", user="eve", now=first, costs=costs)["allowed"]


@test
def jobs_are_exempt():
    with Endpoints() as e:
        for _ in range(20):
            assert e.exercise(job="cron")["source"] == "exempt"
        assert remaining(e.exercise())["calls"] == 9


@test
def the_environment_overrides_limits_and_switches_policies():
    with Endpoints(WEIR_POLICY_EXERCISE_CREATE_CALLS_LIMIT="2 per 1m",
                   WEIR_POLICY_REPORT_ON_DEMAND_CALLS_LIMIT="1 per month",
                   WEIR_ENABLED_POLICIES="exercise.create,report.on-demand") as e:
        assert [e.exercise()["allowed"] for _ in range(3)] == [True, True, False]
        assert e.ask("check", "report.on-demand")["allowed"]
        assert not e.ask("check", "report.on-demand", now=NOW + DAY)["allowed"]
        assert e.ask("peek", "chat")["source"] == "off"


# ---- the handler -----------------------------------------------------------------------------

class Chat:
    """The handler of examples/llm, and the server that it asks."""

    def __init__(self, word_ms=0, ttl_ms=30_000, **environment):
        self.server = Server(config=POLICIES, env={**os.environ, **environment})
        self.port = free_port()
        self.worker = subprocess.Popen(
            [sys.executable, "examples/llm/chat.py", str(self.port)],
            env={**os.environ, "WEIR": self.server.url, "CHAT_WORD_MS": str(word_ms),
                 "CHAT_TTL_MS": str(ttl_ms)})
        wait_until(self.is_there, "the handler")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.worker.kill()
        self.worker.wait()
        self.server.__exit__()

    def is_there(self):
        with contextlib.suppress(OSError), contextlib.closing(self.connect()) as connection:
            connection.connect()
            return True

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def begin(self, prompt):
        connection = self.connect()
        connection.request("POST", "/chat?user=ann", prompt)
        return connection, connection.getresponse()

    def ask(self, prompt):
        with contextlib.closing(self.connect()) as connection:
            connection.request("POST", "/chat?user=ann", prompt)
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode().split("\n")[:-1]

    def left(self):
        return remaining(self.peek())

    def peek(self):
        return self.server.http("POST", "/v1/peek", {"policy": "chat", "attributes": {"user": "ann"}})[2]


def after(tokens, limit=50_000, streams=2):
    return {"streams": streams, "tokens": limit - tokens, "spend": 200_000_000 - PRICE * tokens}


@test
def what_a_short_answer_does_not_use_is_given_back():
    with Chat() as chat:
        status, _, words = chat.ask("say 10 words")
        assert (status, len(words)) == (200, 10)
        wait_until(lambda: chat.left() == after(3 + 10), "the commit")


@test
def a_long_answer_grows():
    with Chat() as chat:
        assert len(chat.ask("say 200 words")[2]) == 200
        wait_until(lambda: chat.left() == after(3 + 200), "the commit")


@test
def a_stream_stops_at_its_budget():
    with Chat(WEIR_POLICY_CHAT_TOKENS_LIMIT="100 per day") as chat:
        words = chat.ask("say 500 words")[2]
        assert len(words) == 98 and words[-1] == "[your budget is used up]", len(words)
        wait_until(lambda: chat.left() == after(100, 100), "the commit")
        status, headers, words = chat.ask("say 10 words")
        assert (status, words) == (429, ["denied by tokens"])
        assert 0 < int(headers["Retry-After"]) <= 86400


@test
def a_third_stream_waits_for_one_of_two():
    with Chat(word_ms=20) as chat:
        begun = [chat.begin("say 1000 words") for _ in range(2)]
        status, _, words = chat.ask("say 1 words")
        assert (status, words) == (429, ["denied by streams"])
        for connection, response in begun:  # these clients leave
            response.close()
            connection.close()
        wait_until(lambda: chat.left()["streams"] == 2, "the commits")
        spent = 50_000 - chat.left()["tokens"]
        assert 6 < spent < 2 * 1003, spent  # what they have used is used, and no more
        assert chat.ask("say 1 words")[0] == 200


@test
def a_worker_that_dies_makes_others_wait_until_its_reservation_expires():
    with Chat(word_ms=20, ttl_ms=1500) as chat:
        chat.begin("say 1000 words")
        chat.worker.kill()
        chat.worker.wait()
        wait_until(lambda: chat.peek()["rules"][0]["reset_after_ms"] > 0, "the slot")
        assert chat.left()["streams"] == 1
        wait_until(lambda: chat.left()["streams"] == 2, "the expiry")
        left = chat.left()
        assert left == after(50_000 - left["tokens"]), left
        assert (50_000 - left["tokens"] - 3 - 64) % 32 == 0, left  # all that it held counts as used


run()
