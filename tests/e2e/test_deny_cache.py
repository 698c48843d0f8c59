#!/usr/bin/env python3
"""test_deny_cache.py - refusals from memory, on several instances that share a Postgres.

    test_deny_cache.py TREE      from the root of the source
"""
import random
import signal
import sys
import time

sys.path.insert(0, "tests/support")
import postgres_fixture  # noqa: E402
from postgres_fixture import close_cluster, weir  # noqa: E402
from weir_server import run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  few:    {limit: 2 per 52w, by: user, algorithm: fixed_window}
  window: {limit: 2 per 1d, by: user}
  two:
    rules:
      all:  {limit: 1000 per 1d}
      user: {limit: 2 per 1d, by: user}
  model:
    rules:
      calls:  {limit: 1000 per 1d, by: user}
      tokens: {limit: 50 per 1d, by: user, counts: tokens}
  tried:  {limit: 2 per 1d, by: user, mode: shadow}
"""
SECOND = 1.0
MARGIN = 2.0  # for a machine that is busy with other things


class Fixture(postgres_fixture.Fixture):
    policies = POLICIES


def is_remembered(server, policy, user):
    answer = server.check(policy, user)
    assert not answer["allowed"], answer
    return answer["source"] == "cache"


def exhaust(servers, policy, user):
    """Until each of them refuses it from memory."""
    while servers[0].check(policy, user)["allowed"]:
        pass
    for server in servers:
        wait_until(lambda: is_remembered(server, policy, user), "a refusal from memory")


def ask_all(server, users):
    body = {"checks": [{"policy": "few", "key": user} for user in users]}
    return server.http("POST", "/v1/check", body)[2]["answers"]


def metric(server, name):
    text = server.http("GET", "/metrics")[2].decode()
    return int(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])


@test
def an_attack_on_denied_keys_hardly_reaches_the_store():
    users = [f"user-{number}" for number in range(1000)]
    with Fixture() as fixture:
        server = fixture.serve()
        exhaust([server], "few", "ann")  # it listens
        for _ in range(3):
            answers = ask_all(server, users)
        assert not any(answer["allowed"] for answer in answers)
        sources = [answer["source"] for _ in range(20) for answer in ask_all(server, users)]
        assert len(sources) == 20000
        print(f"# of {len(sources)} questions the store was asked {sources.count('store')}")
        assert sources.count("store") * 10 <= len(sources)
        assert metric(server, "weir_deny_cache_hits_total") >= sources.count("cache")
        assert metric(server, "weir_deny_cache_entries") >= 900


@test
def what_costs_no_tokens_passes_while_those_are_used_up():
    def ask(user, tokens):
        return server.http("POST", "/v1/check", {"policy": "model", "key": user,
                                                 "costs": {"tokens": tokens}})[2]
    with Fixture() as fixture:
        server = fixture.serve()
        exhaust([server], "few", "ann")  # it listens
        assert ask("bob", 40)["allowed"]
        wait_until(lambda: ask("bob", 20)["source"] == "cache", "a refusal from memory")
        denied = ask("bob", 20)
        assert denied["rule"] == "tokens" and not denied["allowed"], denied
        for remaining in (10, 3):  # less may fit, and the store decides that
            answer = ask("bob", remaining)
            assert answer["allowed"] == (remaining == 10), answer
        answer = ask("bob", 0)
        assert answer["allowed"] and answer["source"] == "store", answer
        assert [r["remaining"] for r in answer["rules"]] == [997, 0], answer


@test
def a_refund_reaches_all_instances_within_a_second():
    with Fixture() as fixture:
        assert weir("policy", "push", fixture.config, fixture.owner).returncode == 0
        servers = [fixture.serve() for _ in range(3)]

        def by_http(verb):
            return lambda: servers[0].http("POST", f"/v1/{verb}", {"policy": "window", "key": "u"})

        def by_sql():
            fixture.sql("SELECT weir.reset('window', '{\"user\": \"u\"}')")

        for give_back in (by_http("refund"), by_http("reset"), by_sql):
            exhaust(servers, "window", "u")
            begin = time.monotonic()
            give_back()
            if give_back is not by_sql:  # where it was done it is known at once
                assert servers[0].check("window", "u")["allowed"]
                servers[0].http("POST", "/v1/refund", {"policy": "window", "key": "u"})
            for server in servers[1:]:
                wait_until(lambda: server.check("window", "u")["source"] == "store", "the news")
                took = time.monotonic() - begin
                assert took < SECOND + MARGIN, f"{took} s"
            servers[0].http("POST", "/v1/reset", {"policy": "window", "key": "u"})


OVERRIDES = [{"effect": "block"}, {"effect": "exempt"}, {"limit": 4}, {"limit": 1}, None]


def numbers_of(override):
    return (override or {"limit": 2}).get("limit")


def is_by(override, answer, count):
    """Is this the right answer for an identity with this count?"""
    limit = numbers_of(override)
    if not limit:
        allowed, source = {"exempt": (True, "exempt"), "block": (False, "blocked")}[override["effect"]]
        return (answer["allowed"], answer["source"]) == (allowed, source)
    left = max(limit - count - (count < limit), 0)
    return ((answer["allowed"], answer["limit"], answer["remaining"]) == (count < limit, limit, left)
            and answer["source"] in ("store", "cache"))


class Changes:
    """The overrides of identities, and the changes that an instance may not have seen yet."""

    def __init__(self, servers, dice):
        self.servers, self.dice = servers, dice
        self.made = {}  # user: [(when it was replaced, by whom, override)], the last of them in force

    def of(self, user, server, now):
        """What may hold for it: what does, and for a while what others have replaced."""
        made = self.made.get(user, [(None, None, None)])
        return [made[-1][2]] + [override for when, who, override in made[:-1]
                                if who is not server and now - when < SECOND + MARGIN]

    def make(self, user):
        server, override = self.dice.choice(self.servers), self.dice.choice(OVERRIDES)
        made = self.made.setdefault(user, [(None, None, None)])
        if override == made[-1][2]:
            return
        body = {"policy": "few", "key": user, "who": "a test", **(override or {})}
        status = server.http("PUT" if override else "DELETE", "/v1/overrides", body)[0]
        assert status == 200, (status, override)
        made[-1] = (time.monotonic(), server, made[-1][2])
        made.append((None, None, override))
        if self.dice.random() < 0.5:  # from here on no answer has an excuse
            listed = self.listed(server)
            for other in self.servers:
                wait_until(lambda: self.listed(other) == listed, "the override elsewhere")
            self.made = {who: changes[-1:] for who, changes in self.made.items()}

    @staticmethod
    def listed(server):
        return sorted(one["id"] for one in server.http("GET", "/v1/overrides")[2]["overrides"])


@test
def no_answer_of_three_instances_is_wrong():
    """Checks one after the other, against a count of the test. An instance may use its deny cache
    for at most a second after a refund, reset or override on another instance."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"# seed {seed}")
    dice = random.Random(seed)
    used, given_back = {}, {}
    sources = []
    with Fixture() as fixture:
        servers = [fixture.serve() for _ in range(3)]
        exhaust(servers, "few", "ann")
        changes = Changes(servers, dice)
        for _ in range(4000):
            server, user = dice.choice(servers), f"user-{dice.randrange(4)}"
            count = used.get(user, 0)
            chance = dice.random()
            if chance < 0.01:
                changes.make(user)
                continue
            asked = time.monotonic()
            overrides = changes.of(user, server, asked)
            if chance < 0.03:
                verb = dice.choice(["refund", "reset"])
                if verb == "refund" and {"effect": "exempt"} in overrides:
                    continue  # which gives nothing back
                server.http("POST", f"/v1/{verb}", {"policy": "few", "key": user})
                used[user] = max(count - 1, 0) if verb == "refund" else 0
                given_back[user] = time.monotonic(), server
                continue
            answer = server.check("few", user)
            sources.append(answer["source"])
            when, who = given_back.get(user, (0, None))
            if answer["source"] == "cache" and who is not server and asked - when < SECOND:
                continue
            right = [override for override in overrides if is_by(override, answer, count)]
            assert right, (answer, count, overrides, asked - when)
            if numbers_of(right[0]) and answer["allowed"]:
                used[user] = count + 1
            if answer["source"] == "cache":
                truth = server.http("POST", "/v1/peek", {"policy": "few", "key": user})[2]
                if truth["source"] == "store" and not truth["allowed"]:
                    assert abs(truth["retry_after_ms"] - answer["retry_after_ms"]) < 1000 * MARGIN
                    assert abs(truth["reset_after_ms"] - answer["reset_after_ms"]) < 1000 * MARGIN
        print(f"# {sources.count('cache')} from memory, {sources.count('store')} from the store, "
              f"{sources.count('blocked')} blocked, {sources.count('exempt')} exempt")
        assert sources.count("cache") > sources.count("store")
        assert min(sources.count("blocked"), sources.count("exempt")) > 0


@test
def of_several_rules_the_cached_denials_are_reported():
    with Fixture() as fixture:
        server = fixture.serve()
        exhaust([server], "two", "u")
        answer = server.check("two", "u")
        while answer["source"] != "cache":
            answer = server.check("two", "u")
        assert answer["rule"] == "user" and not answer["allowed"]
        assert "rules" not in answer, answer  # of the other one nothing is known
        peek = server.http("POST", "/v1/peek", {"policy": "two", "key": "u"})[2]
        assert [row["rule"] for row in peek["rules"]] == ["all", "user"], peek
        assert peek["source"] == "store"
        assert server.check("two", "other")["rules"][0]["remaining"] == 1000 - 3


@test
def a_denial_in_shadow_is_cached_and_denies_nothing():
    with Fixture() as fixture:
        server = fixture.serve()
        exhaust([server], "few", "u")
        for _ in range(2):
            assert not server.check("tried", "u")["shadow"]
        sources = set()
        wait_until(lambda: sources.add(server.check("tried", "u")["source"]) or len(sources) > 1,
                   "an answer from memory")
        answer = server.check("tried", "u")
        assert answer["allowed"] and answer["shadow"], answer


@test
def a_change_of_the_policies_is_heeded_at_once():
    with Fixture() as fixture:
        server = fixture.serve()
        exhaust([server], "window", "u")
        fixture.config.write_text(POLICIES.replace("window: {limit: 2", "window: {limit: 4"))
        server.signal(signal.SIGHUP)
        server.wait_for("reloaded")
        assert server.check("window", "u")["allowed"]


@test
def an_instance_without_a_change_feed_asks_the_store():
    with Fixture() as fixture:
        server = fixture.serve()
        exhaust([server], "window", "u")
        # The one that listens is the one that asks for nothing but the clock.
        listens = f"datname = '{fixture.name}' AND query LIKE '%clock_timestamp%'"
        fixture.db.psql(f"ALTER DATABASE {fixture.name} ALLOW_CONNECTIONS false;"
                      f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listens}")
        begin = time.monotonic()
        wait_until(lambda: not is_remembered(server, "window", "u"), "the store to be asked")
        assert time.monotonic() - begin < SECOND + MARGIN
        for _ in range(10):
            assert not is_remembered(server, "window", "u")
        assert [line for line in server.log.events("store") if "sends no change notifications" in str(line)]
        fixture.db.psql(f"ALTER DATABASE {fixture.name} ALLOW_CONNECTIONS true")
        wait_until(lambda: is_remembered(server, "window", "u"), "it to listen again")
        wait_until(lambda: [line for line in server.log.events("store") if "again" in str(line)],
                   "a line in the log")


try:
    run()
finally:
    close_cluster()
