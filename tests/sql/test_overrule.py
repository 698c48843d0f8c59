#!/usr/bin/env python3
"""test_overrule.py - what operators change holds for checks by plain SQL as it does for a server's.

    tests/sql/test_overrule.py TREE
"""
import json
import subprocess
import sys
import time

sys.path.insert(0, "tests/support")
from postgres import Postgres  # noqa: E402
from weir_server import WEIR, Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
defaults: {algorithm: fixed_window}
exempt: [{ip: 10.0.0.0/8}]
policies:
  login:  {limit: 5 per 52w, by: ip}
  plain:  {limit: 5 per 52w, by: ip}
  query:  {limit: 10 per 52w, by: tenant, plans: {paid: 100 per 52w, free: 3 per 1d}}
  bucket: {limit: 10 per 52w, by: user, algorithm: token_bucket, plans: {big: 50 per 52w}}
  burst:  {limit: 10 per 52w, burst: 30, by: user, algorithm: token_bucket}
  slide:  {limit: 100 per 52w, by: user, algorithm: sliding_window}
  dry:    {limit: 2 per 52w, by: user, mode: shadow}
  three:
    rules:
      all:  {limit: 50 per 52w}
      ip:   {limit: 5 per 52w, by: ip, shadow_limit: 2 per 52w}
      user: {limit: 3 per 52w, by: [user, ip]}
      next: {limit: 1 per 52w, by: ip, mode: shadow}
"""
SAME = "allowed", "policy", "rule", "limit", "remaining", "source", "delay_ms"
SAME_IN_RULE = "rule", "allowed", "limit", "remaining"
SLACK_MS = 20_000  # between two answers, on a busy machine
numbers = iter(range(1, 1000))


def person():
    """The attributes of a new identity."""
    n = next(numbers)
    return {"ip": f"203.0.113.{n % 250 + 1}", "user": f"user-{n}", "tenant": f"tenant-{n}"}


def by_http(verb, policy, who, **more):
    status, _, said = server.http("POST", f"/v1/{verb}",
                                  {"policy": policy, "attributes": who, **more})
    assert status == 200, (status, said)
    return said


def by_sql(verb, policy, who, plan=None):
    plan = f", p_plan => '{plan}'" if plan else ""
    return json.loads(db.value(f"SELECT row_to_json(a) FROM weir.{verb}('{policy}', "
                               f"'{json.dumps(who)}'{plan}) a"))


def is_close(a, b):
    return a == b or (a > 0 and b > 0 and abs(a - b) < SLACK_MS)


def agree(policy, who, verb="peek", **more):
    """Both give the same answer; it is returned."""
    ours, theirs = by_sql(verb, policy, who, **more), by_http(verb, policy, who, **more)
    assert [ours[name] for name in SAME] == [theirs[name] for name in SAME], (ours, theirs)
    for name in "retry_after_ms", "reset_after_ms":
        assert is_close(ours[name], theirs[name]), (name, ours, theirs)
    if "rules" in theirs:
        assert [[rule[name] for name in SAME_IN_RULE] for rule in ours["rules"]] == \
               [[rule[name] for name in SAME_IN_RULE] for rule in theirs["rules"]], (ours, theirs)
    return ours


def change(method, path, **more):
    status, _, said = server.http(method, path, {"who": "a test", **more})
    assert status in (200, 201), (status, said)
    return said


def override(policy, who, **more):
    return change("PUT", "/v1/overrides", policy=policy, attributes=who, **more)


def only(who, *names):
    return {name: who[name] for name in names}


@test
def a_policy_of_which_nothing_was_changed_is_as_it_was_pushed():
    assert db.value("SELECT count(*) FROM weir.ledger WHERE kind <> 'reload'") == "0"
    for policy in "login", "query", "bucket", "slide", "dry", "three":
        assert agree(policy, person())["source"] == "store"
    who = person()
    assert by_sql("check", "three", who)["allowed"] and by_http("check", "three", who)["allowed"]
    assert agree("three", who)["remaining"] == 1


@test
def a_block_denies_until_it_expires():
    who, other = person(), person()
    override("login", only(who, "ip"), effect="block")
    got = agree("login", who)
    assert not got["allowed"] and got["source"] == "blocked" and got["retry_after_ms"] == -1, got
    assert by_sql("check", "login", who)["source"] == "blocked"
    assert agree("login", other)["allowed"]
    override("login", only(who, "ip"), effect="block", **{"for": "1h"})
    assert 0 < agree("login", who)["retry_after_ms"] <= 3600_000
    by_sql("refund", "login", who)  # which a block does not refuse
    change("DELETE", "/v1/overrides", policy="login", attributes=only(who, "ip"))
    assert agree("login", who)["source"] == "store"


@test
def an_expired_override_does_not_restore_the_one_before():
    who = person()
    override("login", only(who, "ip"), limit=50)
    override("login", only(who, "ip"), effect="block", expires_ms=int(time.time() * 1000) + 300)
    assert by_sql("peek", "login", who)["source"] in ("blocked", "store")
    wait_until(lambda: by_sql("peek", "login", who)["source"] == "store", "the end of the block")
    assert agree("login", who)["limit"] == 5


@test
def an_exempt_identity_is_not_counted():
    who = person()
    assert by_sql("check", "login", who)["remaining"] == 4
    override("login", only(who, "ip"), effect="exempt")
    for _ in range(7):
        assert by_sql("check", "login", who)["source"] == "exempt"
    agree("login", who)
    agree("login", who, "reset")
    change("DELETE", "/v1/overrides", policy="login", attributes=only(who, "ip"))
    assert agree("login", who)["remaining"] == 5


@test
def other_numbers_count_on():
    who = person()
    for policy, more, limit, left in (
            ("bucket", {"limit": 20}, 20, 19), ("bucket", {"burst": 5}, 10, 4),
            ("burst", {"limit": 20}, 20, 29), ("burst", {"limit": 20, "burst": 60}, 20, 59),
            ("slide", {"limit": 7}, 7, 6), ("slide", {"limit": 0}, 0, 0),
            ("bucket", {"limit": 0}, 0, 0)):
        who = person()
        assert by_sql("check", policy, who)["allowed"]
        override(policy, only(who, "user"), **more)
        got = agree(policy, who)
        assert (got["limit"], got["remaining"]) == (limit, left), (policy, more, got)
        got = agree(policy, person())
        assert got["limit"] != limit or "burst" in more, got


@test
def a_plan_of_an_override_an_asked_and_an_assigned_one_have_their_order():
    who = person()
    assert agree("query", who)["limit"] == 10
    change("PUT", "/v1/plans", attributes=only(who, "tenant"), plan="paid")
    assert agree("query", who)["limit"] == 100
    assert agree("query", who, plan="free")["limit"] == 3
    change("PUT", "/v1/plans", attributes=only(who, "user"), plan="free")
    assert agree("query", who)["limit"] == 3
    change("PUT", "/v1/plans", attributes=only(who, "user"), plan="paid", policy="query")
    assert agree("query", who)["limit"] == 100
    change("DELETE", "/v1/plans", attributes=only(who, "user"))
    change("DELETE", "/v1/plans", attributes=only(who, "user"), policy="query")
    assert agree("query", who)["limit"] == 100
    override("query", only(who, "tenant"), plan="free")
    assert agree("query", who, plan="paid")["limit"] == 3
    assert agree("query", {"tenant": "ann"})["limit"] == 10
    assert by_sql("check", "query", who)["remaining"] == agree("query", who)["remaining"] == 2


@test
def other_numbers_are_those_of_the_plan_but_for_what_is_changed():
    who = person()
    override("bucket", only(who, "user"), burst=70)
    assert agree("bucket", who, plan="big")["limit"] == 50
    assert agree("bucket", who)["remaining"] == 70


@test
def an_override_is_for_rules_that_count_by_the_same_and_the_narrower_counts():
    who = person()
    override("three", only(who, "ip"), limit=9)
    got = agree("three", who)
    assert [rule["limit"] for rule in got["rules"]] == [50, 9, 3, 9], got
    override("three", only(who, "ip"), rule="ip", limit=7)
    assert [rule["limit"] for rule in agree("three", who)["rules"]] == [50, 7, 3, 9]
    override("three", only(who, "ip"), effect="exempt")
    assert [rule["rule"] for rule in agree("three", who)["rules"]] == ["all", "ip", "user"]
    override("three", only(who, "ip"), rule="ip", effect="exempt")
    assert [rule["rule"] for rule in agree("three", who)["rules"]] == ["all", "user"]
    override("three", only(who, "user", "ip"), effect="block")
    got = agree("three", who)
    assert (got["rule"], got["source"]) == ("user", "blocked"), got


@test
def a_tag_is_the_same_and_blocks_the_same_as_an_identity():
    who = person()
    tag = by_http("peek", "login", who, tag=True)["tag"]
    assert override("login", only(who, "ip"), limit=50)["tag"] == tag
    change("PUT", "/v1/overrides", policy="login", tag=tag, effect="block")
    assert agree("login", who)["source"] == "blocked"
    assert agree("plain", who)["source"] == "store"  # which counts by the same
    assert db.value(f"SELECT count(*) FROM weir.audit WHERE tag = '{tag}'") == "2"
    # Whom SQL refuses has the tag that a server gives them, and so by a rule of two attributes.
    assert not by_sql("check", "login", who)["allowed"]
    for _ in range(4):
        by_sql("check", "three", who)
    told = by_http("peek", "three", who, tag=True)
    tags = set(db.value("SELECT string_agg(tag, ' ') FROM weir.most_denied").split())
    assert told["rule"] == "user" and {tag, told["tag"]} <= tags, (told, tags)
    tenant = by_http("peek", "query", who, tag=True)["tag"]
    change("PUT", "/v1/plans", tag=tenant, by=["tenant"], plan="paid")
    assert agree("query", who)["limit"] == 100
    change("PUT", "/v1/overrides", policy="query", tag=tenant, plan="free")
    assert agree("query", who)["limit"] == 3
    change("DELETE", "/v1/overrides", policy="query", tag=tenant)
    change("DELETE", "/v1/plans", tag=tenant)
    assert agree("query", who)["limit"] == 10


@test
def in_shadow_a_block_is_only_reported():
    who = person()
    override("dry", only(who, "user"), effect="block")
    got = agree("dry", who)
    assert got["allowed"] and got["source"] == "store" and got["rules"][0]["shadow_denied"], got
    who = person()
    override("three", only(who, "ip"), rule="next", effect="block")
    assert agree("three", who)["allowed"]


@test
def a_live_mode_takes_the_place_of_the_pushed_one():
    for policy, modes in ("login", ("off", "shadow", "enforce")), ("dry", ("enforce", "off")), \
                         ("three", ("shadow", "off", "enforce")):
        who = person()
        for mode in modes:
            change("POST", f"/v1/policies/{policy}/mode", mode=mode)
            for _ in range(3):
                by_sql("check", policy, who)
                agree(policy, who)
            assert (agree(policy, who)["source"] == "off") == (mode == "off")
        change("DELETE", f"/v1/policies/{policy}/mode")
        agree(policy, who)
    change("POST", "/v1/policies/login/mode", mode="off",
           expires_ms=int(time.time() * 1000) + 300)
    wait_until(lambda: by_sql("peek", "login", person())["source"] == "store", "the mode's end")


@test
def an_exempt_request_needs_no_attributes_of_rules():
    override("three", {"ip": "10.0.0.1"}, effect="block")
    assert agree("three", {"ip": "10.0.0.1"})["source"] == "exempt"


@test
def without_the_migration_policies_are_as_they_were_pushed():
    who = person()
    override("plain", only(who, "ip"), effect="block")
    assert by_sql("peek", "plain", who)["source"] == "blocked"
    subprocess.run([WEIR, "migrate", "--rollback", "8", db.url], check=True, capture_output=True)
    assert by_sql("peek", "plain", who)["source"] == "store"
    subprocess.run([WEIR, "migrate", db.url], check=True, capture_output=True)
    assert by_sql("peek", "plain", who)["source"] == "blocked"


with Postgres(fsync="off", synchronous_commit="off") as db, Folder() as folder:
    config = folder / "policies.yaml"
    config.write_text(POLICIES)
    for words in ("migrate", db.url), ("policy", "push", config, db.url):
        subprocess.run([WEIR, *words], check=True, capture_output=True)
    with Server(store=f"{db.url}?deadline=20s", config=config) as server:
        run()
