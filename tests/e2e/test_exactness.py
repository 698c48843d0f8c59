#!/usr/bin/env python3
"""test_exactness.py - a limit is a limit: for a thousand at once, and over any number of lives.

    test_exactness.py TREE      from the root of the source
"""
import random
import signal
import sys

sys.path.insert(0, "tests/support")
from asker import Asker, Crowd, PROTOCOLS, adopt_orphans, handed_over, http_question  # noqa: E402
from shared_store import SEVERAL, never_half_charged  # noqa: E402
from weir_server import Folder, Server, command, free_port, run, test  # noqa: E402

POLICIES = """
version: 1
policies:
  login:  {limit: 5 per 1d, by: ip}
  many:   {limit: 500 per 1d, by: user}
  bucket: {limit: 500 per 1d, by: user, algorithm: token_bucket}
  fixed:  {limit: 500 per 52w, by: user, algorithm: fixed_window}
  both:
    rules:
      tenant: {limit: 50 per 1d, by: tenant}
      user:   {limit: 3 per 1d, by: user}
"""
SEED = random.SystemRandom().randrange(1 << 32)
STORES = {"memory": ["memory:"], "file": ["file:{}"],
          "file_sync_always": ["file:{}", "--sync", "always"]}
DURABLE = [name for name in STORES if name != "memory"]


class Fixture:
    """Lives of a server, one after the other, on one port and one store."""

    def __init__(self, store):
        self.folder = Folder()
        self.path = self.folder.path
        (self.path / "policies.yaml").write_text(POLICIES)
        self.store = [word.format(self.path / "data") for word in STORES[store]]
        self.address = "127.0.0.1", free_port()
        self.server = self.successor = None
        self.start()

    def start(self):
        self.server = Server(*self.store[1:], store=self.store[0], threads=2,
                             config=self.path / "policies.yaml", listen="%s:%d" % self.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.successor:
            self.successor.stop(signal.SIGKILL)
        self.server.__exit__()
        self.folder.__exit__()

    def restart(self):
        assert self.server.stop() == 0
        self.start()

    def crash(self):
        self.server.kill()
        self.start()

    def hand_over(self):
        self.successor = handed_over(self.server)

    def left(self, policy, protocol="resp", **attributes):
        with Asker(self.address, protocol) as asker:
            return asker.ask(policy, attributes, "peek")[1]


def statement(stores):
    """One test for each of the stores."""
    def make(function):
        for store in stores:
            def with_this(store=store):
                with Fixture(store) as fixture:
                    function(fixture)
            with_this.__name__ = f"{function.__name__}_in_{store}"
            test(with_this)
        return function
    return make


def volley(fixture, connections, each, questions):
    """All connections first, then all questions at once, then all answers: how many are allowed."""
    askers = [Asker(fixture.address, PROTOCOLS[i % 2]) for i in range(connections)]
    try:
        for asker in askers:
            asker.arrive()
        for asker in askers:
            asker.socket.sendall(questions[asker.protocol] * each)
        allowed = 0
        for asker in askers:
            for _ in range(each):
                if asker.protocol == "http":
                    status, _, answer = asker.read_http()
                    assert status == 200, answer
                    allowed += answer["allowed"]
                else:
                    allowed += asker.read_resp()[0]
        return allowed
    finally:
        for asker in askers:
            asker.leave()


LOGIN = {"http": http_question("/v1/check", {"policy": "login", "key": "203.0.113.7"}),
         "resp": command("WEIR.CHECK", "login", "203.0.113.7")}


@statement(STORES)
def of_1000_attempts_at_once_exactly_5_are_allowed(fixture):
    assert volley(fixture, 500, 2, LOGIN) == 5
    assert fixture.left("login", ip="203.0.113.7") == 0


def five_over_two_lives(fixture, change):
    assert [volley(fixture, 1, 1, LOGIN) for _ in range(3)] == [1, 1, 1]
    change()
    assert volley(fixture, 500, 2, LOGIN) == 2


@statement(DURABLE)
def five_stay_five_over_a_restart(fixture):
    five_over_two_lives(fixture, fixture.restart)


@statement(DURABLE)
def five_stay_five_over_a_handover(fixture):
    five_over_two_lives(fixture, fixture.hand_over)


@statement(DURABLE)
def five_stay_five_over_kill_9(fixture):
    five_over_two_lives(fixture, fixture.crash)


HUNDREDS = ("many", "bucket", "fixed")


def in_the_middle(fixture, change):
    questions = [(policy, "user", "a") for policy in HUNDREDS for _ in range(1000)]
    crowd = Crowd(fixture.address, questions, seed=SEED)
    for share in (0.15, 0.4):
        crowd.reaches(share)
        change()
        if change == fixture.hand_over:
            break
    return crowd.end()


def exactly_500_each(fixture, crowd):
    """After a graceful stop, every counted check was answered."""
    allowed = {policy: n for (policy, _, _), n in crowd.allowed.items()}
    assert allowed == dict.fromkeys(HUNDREDS, 500), (SEED, allowed, crowd.unanswered)
    for policy in HUNDREDS:
        assert fixture.left(policy, user="a") == 0, policy


@statement(DURABLE)
def a_restart_in_the_middle_neither_grants_nor_loses_one(fixture):
    exactly_500_each(fixture, in_the_middle(fixture, fixture.restart))


@statement(DURABLE)
def a_handover_in_the_middle_neither_grants_nor_loses_one(fixture):
    exactly_500_each(fixture, in_the_middle(fixture, fixture.hand_over))


@statement(DURABLE)
def kill_9_in_the_middle_grants_none(fixture):
    crowd = in_the_middle(fixture, fixture.crash)
    unanswered = sum(crowd.unanswered.values())
    for policy in HUNDREDS:
        allowed = crowd.allowed[policy, "user", "a"]
        assert 500 - unanswered <= allowed <= 500, (SEED, policy, allowed, unanswered)
        assert fixture.left(policy, user="a") == 0, policy


@test
def thousands_of_attempts_over_many_keys_and_six_lives_exceed_no_limit():
    keys = [f"10.{i // 250}.{i % 250}.1" for i in range(400)]
    with Fixture("file") as fixture:
        crowd = Crowd(fixture.address, [("login", "ip", key) for key in keys for _ in range(12)],
                      seed=SEED)
        chance = random.Random(SEED)
        for life in range(5):
            crowd.reaches((life + chance.random()) / 5.5)
            chance.choice([fixture.crash, fixture.crash, fixture.restart])()
        crowd.end()
        assert crowd.done == 4800
        with Asker(fixture.address, "resp") as asker:
            for key in keys:
                question = ("login", "ip", key)
                granted, lost = (counts.get(question, 0) for counts in
                                 (crowd.allowed, crowd.unanswered))
                left = asker.ask("login", {"ip": key}, "peek")[1]
                assert granted <= 5, (SEED, key, granted)
                assert granted <= 5 - left <= granted + lost, (SEED, key, granted, lost, left)


@statement(STORES)
def a_refused_check_of_several_rules_charges_none(fixture):
    with Asker(fixture.address, "http") as http, Asker(fixture.address, "resp") as resp:
        for asker in (http, resp):
            who = {"tenant": "t", "user": asker.protocol}
            answers = [asker.ask("both", who) for _ in range(20)]
            assert answers == [(True, 2), (True, 1), (True, 0)] + [(False, 0)] * 17, answers
        # The tenant has paid for six, not for forty.
        answer = http.exchange(http_question("/v1/peek", {
            "policy": "both", "attributes": {"tenant": "t", "user": "another"}}), http.read_http)[2]
        left = {rule["rule"]: rule["remaining"] for rule in answer["rules"]}
        assert left == {"tenant": 44, "user": 3}, left
        allowed = [(http, resp)[i % 2].ask("both", {"tenant": "t", "user": f"u{i}"})[0]
                   for i in range(100)]
        assert allowed == [True] * 44 + [False] * 56, allowed
        # Those that were refused for the tenant's sake have all of their own.
        assert resp.ask("both", {"tenant": "other", "user": "u99"}, "peek") == (True, 3)


adopt_orphans()
@statement(STORES)
def several_policies_of_one_request_are_charged_together_or_not_at_all(fixture):
    (fixture.path / "policies.yaml").write_text(SEVERAL)
    assert fixture.server.http("POST", "/v1/reload")[0] == 200
    never_half_charged([fixture.server], asks=400, policy=["global", "tenant", "user"])


run()
