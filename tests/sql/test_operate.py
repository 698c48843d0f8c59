#!/usr/bin/env python3
"""test_operate.py - operators without a server: what they change by SQL is what a server would have changed.

    tests/sql/test_operate.py TREE
"""
import json
import subprocess
import sys

sys.path.insert(0, "tests/support")
from postgres import Postgres, SqlError  # noqa: E402
from weir_server import WEIR, Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
defaults: {algorithm: fixed_window}
policies:
  login:  {limit: 5 per 52w, by: ip}
  query:  {limit: 10 per 52w, by: tenant, plans: {paid: 100 per 52w}}
  bucket: {limit: 10 per 52w, by: user, algorithm: token_bucket}
  three:
    rules:
      all:  {limit: 50 per 52w}
      ip:   {limit: 5 per 52w, by: ip}
      pair: {limit: 3 per 52w, by: [user, ip]}
      swap: {limit: 3 per 52w, by: [ip, user]}
"""
numbers = iter(range(1, 1000))


def address():
    return f"203.0.113.{next(numbers)}"


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
    return "'" + text.replace("'", "''") + "'"


def call(name, role="operator", **named):
    words = ", ".join(f"p_{key} => {literal(value)}" for key, value in named.items())
    return db.value(f"SELECT weir.{name}({words})", role=role)


def by_sql(policy, **who):
    return json.loads(db.value(f"SELECT row_to_json(a) FROM weir.peek({literal(policy)}, "
                               f"{literal(who)}) a", role="caller"))


def by_http(policy, **who):
    return server.http("POST", "/v1/peek", {"policy": policy, "attributes": who})[2]


def both(policy, member, expected, **who):
    """SQL callers see it at once, a server after its change feed has reported it."""
    assert by_sql(policy, **who)[member] == expected, by_sql(policy, **who)
    wait_until(lambda: by_http(policy, **who)[member] == expected, f"{member} to be {expected}")


def refused(text, code="22023", **more):
    try:
        call(**more)
    except SqlError as error:
        assert error.code == code and text in str(error), error
    else:
        raise AssertionError(f"{more} was not refused")


@test
def an_override_holds_for_servers_and_for_sql_until_it_is_taken_back():
    ip = address()
    number = call("set_override", policy="login", key=ip, effect="block", reason="stuffing")
    both("login", "source", "blocked", ip=ip)
    assert call("set_override", policy="login", attributes={"ip": ip}, limit=50) > number
    both("login", "limit", 50, ip=ip)
    removed = call("clear_override", policy="login", key=ip, who="ann", reason="the wrong one")
    both("login", "limit", 5, ip=ip)
    assert call("clear_override", policy="login", key=ip) == ""  # there is none any more
    log = db.rows(f"SELECT effect, who, reason FROM weir.audit WHERE id IN ({number}, {removed})",
                  role="operator")
    assert log == [["block", "operator", "stuffing"], ["removed", "ann", "the wrong one"]], log


@test
def every_effect_is_what_a_server_makes_of_it():
    ip, tenant, user = address(), f"tenant-{next(numbers)}", f"user-{next(numbers)}"
    call("set_override", policy="login", key=ip, effect="exempt")
    both("login", "source", "exempt", ip=ip)
    call("set_override", policy="query", key=tenant, plan="paid")
    both("query", "limit", 100, tenant=tenant)
    call("set_override", policy="bucket", key=user, burst=30)
    both("bucket", "remaining", 30, user=user)
    call("set_override", policy="three", attributes={"ip": ip}, rule="ip", limit=2)
    both("three", "limit", 2, ip=ip, user="u")


@test
def an_identity_in_a_view_can_be_blocked_by_its_tag():
    ip = address()
    db.psql("TRUNCATE weir.tally, weir.denials")
    db.psql(f"SELECT weir.check('login', p_key => '{ip}', p_cost => 6)", role="caller")
    tag = db.value("SELECT tag FROM weir.most_denied WHERE policy = 'login'", role="operator")
    call("set_override", policy="login", tag=tag, effect="block")
    both("login", "source", "blocked", ip=ip)
    both("login", "source", "store", ip=address())
    call("clear_override", policy="login", tag=tag)
    both("login", "source", "store", ip=ip)
    call("set_override", policy="three", tag=tag, rule="ip", limit=1)
    both("three", "limit", 1, ip=ip, user="u")
    refused("name one of them", name="set_override", policy="three", tag=tag, limit=1)
    refused("32 hexadecimal", name="set_override", policy="login", tag=tag[1:], limit=1)
    refused("not several", name="set_override", policy="login", tag=tag, key=ip, limit=1)


@test
def plans_are_assigned_for_a_policy_or_for_all():
    tenant = f"tenant-{next(numbers)}"
    call("set_plan", plan="paid", attributes={"tenant": tenant})
    both("query", "limit", 100, tenant=tenant)
    assert call("clear_plan", attributes={"tenant": tenant})
    both("query", "limit", 10, tenant=tenant)
    call("set_plan", plan="paid", attributes={"tenant": tenant}, policy="query")
    both("query", "limit", 100, tenant=tenant)
    assert call("clear_plan", attributes={"tenant": tenant}) == ""  # for all there is none
    assert call("clear_plan", attributes={"tenant": tenant}, policy="query")
    both("query", "limit", 10, tenant=tenant)


@test
def a_mode_is_set_and_taken_back():
    ip = address()
    call("set_mode", policy="login", mode="off", **{"for": "10 minutes"})
    both("login", "source", "off", ip=ip)
    listed = db.rows("SELECT kind, policy, value, expires > now() + interval '9 minutes' "
                     "FROM weir.in_force() WHERE kind = 'mode'", role="operator")
    assert listed == [["mode", "login", "off", "t"]], listed
    call("clear_mode", policy="login")
    both("login", "source", "store", ip=ip)


@test
def a_change_of_a_server_is_listed_and_cleared_by_its_id():
    ip = address()
    status, _, said = server.http("PUT", "/v1/overrides", {
        "policy": "login", "key": ip, "effect": "block", "who": "a test"})
    assert status in (200, 201), said
    found = db.rows(f"SELECT kind, policy, \"by\", effect, who, length(tag) FROM weir.in_force() "
                    f"WHERE id = {said['id']}", role="operator")
    assert found == [["override", "login", "ip", "block", "a test", "32"]], found
    assert call("clear", id=said["id"])
    both("login", "source", "store", ip=ip)
    assert call("clear", id=said["id"]) == ""
    number = call("set_override", policy="login", key=ip, effect="block")
    wait_until(lambda: any(str(entry["id"]) == number for entry in
                           server.http("GET", "/v1/overrides")[2]["overrides"]), "the server")
    assert server.http("DELETE", f"/v1/overrides?id={number}", {"who": "a test"})[0] == 200
    both("login", "source", "store", ip=ip)


@test
def an_override_expires():
    ip = address()
    number = call("set_override", policy="login", key=ip, effect="block", **{"for": "300 ms"})
    wait_until(lambda: by_sql("login", ip=ip)["source"] == "store", "its end")
    assert db.rows(f"SELECT id FROM weir.in_force() WHERE id = {number}", role="operator") == []


@test
def changes_without_effect_are_rejected():
    ip = address()
    refused("there is no policy", "42704", name="set_override", policy="logni", key=ip, effect="block")
    refused("give one of these", name="set_override", policy="login", key=ip)
    refused("give one of these", name="set_override", policy="login", key=ip, effect="shoot")
    refused("give one of these", name="set_override", policy="login", key=ip, effect="block", limit=1)
    refused("has no plan", name="set_override", policy="query", key="t", plan="gold")
    refused("has no rule", name="set_override", policy="login", key=ip, rule="x", limit=1)
    refused("exactly these", name="set_override", policy="three", attributes={"user": "u"}, limit=1)
    refused("name one of them", name="set_override", policy="three",
            attributes={"user": "u", "ip": ip}, limit=1)
    refused("not several", name="set_override", policy="login", key=ip, attributes={"ip": ip}, limit=1)
    refused("below 2^53", name="set_override", policy="login", key=ip, limit=1 << 53)
    refused("only token_bucket", name="set_override", policy="login", key=ip, burst=5)
    refused("end before it begins", name="set_override", policy="login", key=ip, effect="block",
            **{"for": "-1 s"})
    refused("has a plan", name="set_plan", plan="gold", attributes={"tenant": "t"})
    refused("by one attribute", name="set_plan", plan="paid", attributes={"tenant": "t", "a": "b"})
    refused("mode is", name="set_mode", policy="login", mode="on")
    refused("attribute's name", name="set_plan", plan="paid", attributes={"ten ant": "t"})
    for reason in "a\nb", "a\x1bb", "a\x9bb":
        refused("one line", name="set_mode", policy="login", mode="off", reason=reason)
    call("clear", id=call("set_mode", policy="login", mode="enforce", reason="\u00fc \u20ac \U0001f600"))
    refused("more than 128", name="set_mode", policy="login", mode="off", who="x" * 129)
    assert by_sql("login", ip=ip)["source"] == "store"


@test
def none_but_operators_may_change_anything():
    ip = address()
    for role in "caller", "server", "viewer", "stranger":
        for name, more in (("set_override", {"policy": "login", "key": ip, "effect": "block"}),
                           ("set_plan", {"plan": "paid", "attributes": {"tenant": "t"}}),
                           ("set_mode", {"policy": "login", "mode": "off"}), ("clear", {"id": 1}),
                           ("clear_override", {"policy": "login", "key": ip}),
                           ("clear_mode", {"policy": "login"}),
                           ("clear_plan", {"attributes": {"tenant": "t"}}), ("in_force", {})):
            refused("permission denied", "42501", name=name, role=role, **more)
    for name in ("check", "judge", "append_entry", "server_secret", "tidy"):
        mays = db.value("SELECT bool_or(has_function_privilege('operator', p.oid, 'EXECUTE')) FROM "
                        f"pg_proc p WHERE pronamespace = 'weir'::regnamespace AND proname = '{name}'")
        assert mays == "f", name


@test
def set_role_gives_the_name_in_the_audit_log():
    number = db.value("SET ROLE weir_operator; SELECT weir.set_mode('login', 'enforce')",
                      role="operator")
    assert db.value(f"SELECT who FROM weir.audit WHERE id = {number}") == "weir_operator"
    call("clear", id=number)


@test
def stats_are_for_viewers_and_operators():
    ip = address()
    db.psql("TRUNCATE weir.tally, weir.history")
    db.psql(f"SELECT weir.check('login', p_key => '{ip}', p_cost => 2) FROM generate_series(1, 3)",
            role="caller")
    for role in "viewer", "operator":
        found = db.rows("SELECT policy, checks, allowed, denied FROM weir.stats('login')", role=role)
        assert found == [["login", "3", "2", "1"]], found
    refused("permission denied", "42501", name="stats", role="caller")


with Postgres(fsync="off", synchronous_commit="off") as db, Folder() as folder:
    db.migrate()
    for one in ("caller", "server", "viewer", "operator"):
        db.psql(f"CREATE ROLE {one} LOGIN IN ROLE weir_{one}")
    db.psql("CREATE ROLE stranger LOGIN")
    config = folder / "policies.yaml"
    config.write_text(POLICIES)
    subprocess.run([WEIR, "policy", "push", config, db.url_of("postgres", "operator")], check=True,
                   capture_output=True)
    with Server(store=f"{db.url_of('postgres', 'server')}?deadline=20s", config=config) as server:
        run()
