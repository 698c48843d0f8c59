#!/usr/bin/env python3
"""test_budget_windows.py - charges, amounts, lockouts and windows of budgets are answered as the model does, in every store.

    test_budget_windows.py BUILD      from the root of the source
"""
import datetime
import json
import os
import random
import subprocess
import sys
import time
from zoneinfo import ZoneInfo

sys.path.insert(0, "tests/support")
from budget_model import calendar_window, civil_instant  # noqa: E402
from budget_store import compare  # noqa: E402
from postgres import SqlError  # noqa: E402
from postgres_fixture import PATIENT, Fixture, close_cluster, weir  # noqa: E402
from redis import Cluster, Redis  # noqa: E402
from weir_server import Folder, Server, TREE, run, test  # noqa: E402

ALGORITHMS = ("fixed_window", "sliding_window", "sliding_counter", "token_bucket", "leaky_bucket")
SEED = int(os.environ.get("SEED") or random.randrange(1 << 32))
SCALE = int(os.environ.get("WEIR_TEST_SCALE", "100"))
BEGIN = int(time.time()) // 3600 * 3600 * 1000
print(f"# SEED={SEED}")


def charged(dice, name):
    """Of any algorithm, and of several amounts."""
    rule = {"name": name, "algorithm": dice.choice(ALGORITHMS),
            "limit": dice.choice((1, 5, 10, 1000)), "window_ms": dice.choice((1000, 60000))}
    if "bucket" in rule["algorithm"] and dice.random() < 0.5:
        rule["burst"] = dice.choice((1, 4, 50))
    if dice.random() < 0.5:
        rule["counts"] = dice.choice(("tokens", "money"))
    return rule


def first_window(dice, name):
    return {"name": name, "algorithm": "fixed_window", "limit": dice.randrange(1, 12),
            "window_ms": dice.choice((1000, 61007, 3600000)), "start": "first"}


def lockout(dice, name):
    """Of any algorithm; shorter and longer than the window."""
    rule = {"name": name, "algorithm": dice.choice(ALGORITHMS), "limit": dice.randrange(1, 8),
            "window_ms": dice.choice((1000, 61007, 3600000))}
    if "bucket" in rule["algorithm"]:
        rule["burst"] = dice.randrange(1, 8)
    if name == "user" or dice.random() < 0.5:
        rule["block_for_ms"] = dice.choice((1, 700, 90000, 7200000))
    return rule


def calendar(dice, name):
    """Of zones with odd offsets and odd changes; the times are those of the coming years."""
    rule = {"name": name, "algorithm": "calendar", "limit": dice.randrange(1, 12),
            "period": dice.choice(("day", "week", "month", "quarter", "year")),
            "zone": dice.choice(("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe",
                                 "America/New_York", "Pacific/Chatham", "Africa/Cairo"))}
    if rule["period"] in ("month", "quarter", "year"):
        rule["month_day"] = dice.choice((1, 15, 28, 29, 30, 31))
    return rule


ODD_DAYS = (  # and what is odd about them: the days around them are tried
    ("Europe/Berlin", "2023-03-26"),  # 23 hours
    ("Europe/Berlin", "2023-10-29"),  # 25 hours
    ("America/Sao_Paulo", "2018-11-04"),  # its midnight does not exist
    ("America/Sao_Paulo", "2018-02-17"),  # the hour before midnight comes twice
    ("America/Havana", "2021-11-07"),  # the hour after midnight comes twice
    ("Pacific/Apia", "2011-12-30"),  # a day that was left out
    ("Australia/Lord_Howe", "2022-04-03"),  # half an hour
    ("Asia/Pyongyang", "2015-08-15"),  # another offset, for good
    ("America/Caracas", "2016-05-01"),  # likewise
    ("Europe/Istanbul", "2016-09-07"),  # the rule of winter time ends
    ("Asia/Kathmandu", "1986-01-01"),  # a quarter of an hour
    ("UTC", "2000-02-29"), ("UTC", "1972-02-29"), ("UTC", "2023-02-28"), ("UTC", "2024-12-31"))


def past_calendar(dice, name):
    return {**calendar(dice, name), "odd": dice.randrange(len(ODD_DAYS))}


def begin_of(dice, rules):
    """Now, or some days before an odd day: all rules of the trace then have its zone."""
    if "odd" not in rules[0]:
        return BEGIN
    zone, day = ODD_DAYS[rules[0]["odd"]]
    for rule in rules:
        rule["zone"] = zone
    odd = civil_instant(ZoneInfo(zone), datetime.date.fromisoformat(day))
    return odd - dice.randrange(60) * 3600000 - dice.randrange(3600000)


def traces(make, count=16):
    """Each one rule, or one of users beside one of everybody."""
    dice = random.Random(SEED)
    found = []
    for _ in range(max(4, count * SCALE // 100)):
        rules = [{**make(dice, "user"), "by": "user"}]
        if dice.random() < 0.5:
            rules.append(make(dice, "everybody"))
        found.append((rules, begin_of(dice, rules)))
    return zip(*found)


def in_every_store(make, steps=40):
    what = make.__name__

    def statement(name, store):
        store.__name__ = f"{what}_{name}"
        test(store)

    def ask(url, **more):
        rules, begins = traces(make)
        compare(url, rules, SEED, steps, begins, **more)

    def in_postgres():
        with Fixture() as fixture:
            ask(fixture.url)

    def in_redis():
        with Redis() as server:
            ask(f"{server.url}?{PATIENT}")

    def in_a_cluster():
        with Cluster() as nodes:
            seeds = ",".join(f"127.0.0.1:{s.port}" for s in nodes.masters)
            ask(f"redis+cluster://{seeds}?{PATIENT}")

    statement("in_memory", lambda: ask("memory:"))
    statement("in_a_file_store_over_a_restart", lambda: ask("file:", survives=True))
    statement("in_postgres", in_postgres)
    statement("in_redis", in_redis)
    statement("in_a_redis_cluster", in_a_cluster)


in_every_store(charged)
in_every_store(first_window)
in_every_store(lockout)
in_every_store(calendar)
in_every_store(past_calendar)


def sql_and_http_share(text):
    """What is counted through one is seen by the other: a rule of 4 that lasts."""
    with Fixture() as fixture:
        fixture.config.write_text(f"version: 1\npolicies: {{p: {{{text}, by: user}}}}\n")
        assert weir("policy", "push", fixture.config, fixture.owner).returncode == 0
        server, heard = fixture.serve(), []
        for n in range(6):
            if n % 2:
                heard.append(server.check("p", "ann")["remaining"])
            else:
                heard.append(int(fixture.value(
                    "SELECT remaining FROM weir.check('p', p_key => 'ann')")))
        assert heard == [3, 2, 1, 0, 0, 0], heard
        by_sql = int(fixture.value("SELECT reset_after_ms FROM weir.peek('p', p_key => 'ann')"))
        by_http = server.http("POST", "/v1/peek", {"policy": "p", "key": "ann"})[2]["reset_after_ms"]
        assert by_http <= by_sql < by_http + 60000, (by_http, by_sql)


@test
def sql_and_http_share_a_window_from_the_first_request():
    sql_and_http_share("limit: 4 per 1d, algorithm: fixed_window, start: first")

@test
def sql_and_http_share_a_window_of_the_calendar():
    sql_and_http_share("limit: 4 per quarter, zone: Asia/Kathmandu, month_day: 31")


@test
def every_trace_of_budgets_holds_in_postgres():
    with Fixture() as fixture:
        done = subprocess.run([TREE / "tests/conform_budgets"], capture_output=True, text=True,
                              check=False, env={**os.environ, "WEIR_TEST_STORE": fixture.url})
    assert done.returncode == 0, done.stdout + done.stderr


@test
def sql_and_http_share_amounts_by_name():
    with Fixture() as fixture:
        fixture.config.write_text("version: 1\npolicies:\n  p:\n    by: user\n    rules:\n"
                                  "      calls: {limit: 9 per 1d}\n"
                                  "      tokens: {limit: 100 per 1d, counts: tokens, shadow_limit: 50 per 1d}\n")
        assert weir("policy", "push", fixture.config, fixture.owner).returncode == 0
        server = fixture.serve()

        def by_sql(verb, costs="NULL", more=""):
            answer = fixture.value(f"SELECT to_json(a) FROM weir.{verb}('p', p_key => 'ann', "
                                   f"p_costs => {costs}{more}) AS a")
            return [[r["remaining"], r["shadow_denied"]] for r in json.loads(answer)["rules"]]

        def by_http(verb, costs):
            answer = server.http("POST", f"/v1/{verb}", {"policy": "p", "key": "ann", "costs": costs})[2]
            return [[r["remaining"], r.get("shadow_denied", False)] for r in answer["rules"]]
        no, yes = False, True
        assert by_sql("check", "'{\"tokens\": 40}'") == [[8, no], [60, no]]
        assert by_http("check", {"tokens": 20, "requests": 2}) == [[6, no], [40, yes]]
        assert by_sql("check", "'{\"tokens\": 41}'") == [[6, no], [40, yes]]
        assert by_sql("charge", "'{\"tokens\": 41}'", ", p_cost => 2") == [[4, no], [0, no]]
        assert by_sql("refund", "'{\"tokens\": 1, \"requests\": 0}'") == [[4, no], [0, no]]
        assert by_sql("check") == by_http("peek", {}) == [[3, no], [0, no]]
        many = """SELECT array_to_json(array_agg(a.remaining)) FROM weir.check_many('[
            {"policy": "p", "key": "bob", "costs": {"tokens": 95}},
            {"policy": "p", "key": "bob", "cost": 2}]') AS a"""
        assert json.loads(fixture.value(many)) == [5, 5]
        for asked, error in (
                ("p_costs => '{\"rows\": 1}'", "no rule counts rows: give the cost of requests, tokens"),
                ("p_costs => '{\"tokens\": -1}'", "the cost of tokens must be from 0 to 2^53"),
                ("p_costs => '{\"tokens\": 1.5}'", "the cost of tokens must be a whole number"),
                ("p_costs => '[]'", "costs must be an object"),
                ("p_cost => 1, p_costs => '{\"requests\": 1}'", "give a cost or the cost of requests"),
                ("p_costs => (SELECT json_object_agg(n, 1) FROM generate_series(1, 17) AS n)::jsonb",
                 "there are too many costs: at most 16")):
            try:
                said = fixture.value(f"SELECT weir.check('p', p_key => 'ann', {asked})")
            except SqlError as problem:
                said = str(problem)
            assert error in said, (asked, said)


@test
def sql_finds_the_same_midnights_as_the_model():
    days = {"America/Sao_Paulo": ("2018-11-03", "2018-11-04", "2018-11-05"),
            "America/Havana": ("2026-03-08", "2026-11-01", "2026-11-02"),
            "Pacific/Apia": ("2011-12-29", "2011-12-30", "2011-12-31", "2012-01-01"),
            "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
            "Asia/Kathmandu": ("1985-12-31", "1986-01-01", "2026-02-28"),
            "Europe/Berlin": ("2026-03-29", "2026-10-25", "2028-02-29")}
    with Fixture() as fixture:
        for zone, dates in days.items():
            for day in dates:
                want = civil_instant(ZoneInfo(zone), datetime.date.fromisoformat(day))
                have = fixture.value(f"SELECT weir.midnight('{day}', '{zone}')")
                assert int(have) == want, (zone, day, have, want)


@test
def sql_finds_the_same_windows_as_the_model_around_odd_days():
    dice = random.Random(SEED)
    asked = []
    for _ in range(300):
        rule = past_calendar(dice, "r")
        asked.append((rule, begin_of(dice, [rule]) + dice.randrange(120) * 3600000))
    rows = ", ".join(f"({i}, '{r['period']}', '{r['zone']}', {r.get('month_day', 1)}, {now})"
                     for i, (r, now) in enumerate(asked))
    with Fixture() as fixture:
        found = json.loads(fixture.value(
            f"""SELECT jsonb_agg((weir.calendar_bounds(period, zone, day, now::bigint))[2:3] ORDER BY i)
                  FROM (VALUES {rows}) AS v (i, period, zone, day, now)""".replace("\n", " ")))
    for (rule, now), have in zip(asked, found):
        assert tuple(have) == calendar_window(rule, now), (rule, now, have)


@test
def sql_and_http_share_a_lockout_and_a_reset_lifts_it():
    with Fixture() as fixture:
        fixture.config.write_text(
            "version: 1\npolicies: {p: {limit: 1 per 1m, by: user, block_for: 1h}}\n")
        assert weir("policy", "push", fixture.config, fixture.owner).returncode == 0
        server = fixture.serve()
        ask = "SELECT {} FROM weir.check('p', p_key => 'ann')"
        assert fixture.value(ask.format("allowed")) == "t"
        first = server.check("p", "ann")
        assert first["retry_after_ms"] == first["reset_after_ms"] == 3600000, first
        assert 3500000 < int(fixture.value(ask.format("retry_after_ms"))) <= 3600000
        assert 3500000 < server.check("p", "ann", cost=9)["retry_after_ms"] <= 3600000
        server.http("POST", "/v1/reset", {"policy": "p", "key": "ann"})
        assert server.check("p", "ann")["allowed"]
        assert fixture.value(ask.format("retry_after_ms")) == "3600000"
        assert not server.check("p", "ann")["allowed"]


@test
def a_lockout_survives_a_killed_server():
    with Folder() as folder:
        config, store = folder / "policies.yaml", f"file:{folder / 'store'}"
        config.write_text("version: 1\npolicies: {p: {limit: 1 per 1m, by: user, block_for: 1h}}\n")
        with Server(store=store, config=config) as server:
            assert [server.check("p", "ann")["allowed"] for _ in range(2)] == [True, False]
            server.kill()
        with Server(store=store, config=config) as server:
            assert server.check("p", "ann")["retry_after_ms"] > 3500000
            assert server.check("p", "bob")["allowed"]

try:
    run()
finally:
    close_cluster()
