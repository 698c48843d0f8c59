#!/usr/bin/env python3
"""test_check.py - checks by plain SQL: policies, identities, roles, and odd input.

    tests/sql/test_check.py TREE
"""
import hashlib
import hmac
import json
import subprocess
import sys

sys.path.insert(0, "tests/support")
from postgres import Postgres, SqlError, programs  # noqa: E402
from weir_server import run, test  # noqa: E402

YEARS = 1000000000000


def rule(name="default", limit=3, window=YEARS, algorithm="fixed_window", by=("ip",), **more):
    return {"name": name, "algorithm": algorithm, "limit": limit, "window_ms": window,
            "by": list(by), **more}


POLICIES = {
    "login": {"rules": [rule(plans={"paid": {"limit": 5, "window_ms": YEARS}})]},
    "cleanup": {"rules": [rule("global", 1000, by=()), rule("ip", 5), rule("email", 3, by=["email"])],
                "exempt": [{"ip": ["10.0.0.0/8", "2001:db8::/32"]},
                           {"user": ["cron"], "route": ["/health", "/ready"]}]},
    "soonest": {"rules": [rule("a", 1, 1000000), rule("b", 1, 900)], "retry_after": "soonest"},
    "shadowed": {"mode": "shadow", "rules": [rule(limit=1)]},
    "tried": {"rules": [rule("live", 4, shadow_limit={"limit": 1, "window_ms": YEARS}),
                        rule("next", 2, mode="shadow")]},
    "off": {"mode": "off", "rules": [rule()]},
    "rules-off": {"rules": [rule(mode="off")]},
    "closed": {"rules": [rule(limit=0)]},
    "site": {"rules": [rule(ipv6_prefix=48)]},
    "both": {"rules": [rule(by=["tenant", "route"])]},
    "everyone": {"rules": [rule(by=())]},
    "user": {"rules": [rule(by=["user"])]},
    "mail": {"rules": [rule(by=["email"])]},
}


def literal(value):
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def call(function, policy, attributes=None, role="caller", **more):
    words = [literal(policy)]
    if attributes is not None:
        words.append("p_attributes => " + literal(json.dumps(attributes)))
    words += [f"p_{name} => {literal(value)}" for name, value in more.items()]
    return json.loads(db.value(f"SELECT row_to_json(a) FROM weir.{function}({', '.join(words)}) a",
                               role=role))


def check(policy, attributes=None, **more):
    return call("check", policy, attributes, **more)


def refused(what, why, code="22023", role="caller"):
    """The text of the error that this function or statement must end in."""
    try:
        if callable(what):
            what()
        else:
            db.psql(what, role=role)
    except SqlError as error:
        assert error.code == code, error
        assert why in str(error), error
        return str(error)
    raise AssertionError(f"{what} was taken")


@test
def a_policy_admits_its_limit_and_says_so():
    got = [check("login", {"ip": "203.0.113.1"}) for _ in range(4)]
    assert [a["allowed"] for a in got] == [True, True, True, False]
    assert [a["remaining"] for a in got] == [2, 1, 0, 0]
    assert got[3]["retry_after_ms"] > 0 and got[0]["retry_after_ms"] == 0
    assert got[3]["policy"] == "login" and got[3]["rule"] == "default" and got[3]["limit"] == 3
    assert got[3]["source"] == "store"


@test
def a_plan_has_its_own_numbers_and_the_same_count():
    for _ in range(3):
        assert check("login", key="203.0.113.2")["allowed"]
    assert not check("login", key="203.0.113.2")["allowed"]
    paid = check("login", key="203.0.113.2", plan="paid")
    assert paid["allowed"] and paid["limit"] == 5 and paid["remaining"] == 1
    assert not check("login", key="203.0.113.2", plan="unknown")["allowed"]


@test
def peek_refund_and_reset_do_what_they_say():
    who = {"ip": "203.0.113.3"}
    assert call("peek", "login", who)["remaining"] == 3
    assert check("login", who, peek="true")["remaining"] == 3
    assert check("login", who, cost=3)["remaining"] == 0
    assert call("refund", "login", who, cost=2)["remaining"] == 2
    assert check("login", who, cost=0)["remaining"] == 2
    assert call("reset", "login", who, role="server")["remaining"] == 3


@test
def a_charge_counts_beyond_the_limit():
    who = {"ip": "203.0.113.33"}
    got = call("charge", "login", who, cost=5)
    assert got["allowed"] and got["remaining"] == 0
    assert (got["rules"][0]["used"], got["rules"][0]["over"]) == (5, 2)
    assert not check("login", who)["allowed"]
    assert call("refund", "login", who, cost=3)["remaining"] == 1


@test
def several_rules_are_charged_together_or_not_at_all():
    who = {"ip": "203.0.113.4", "email": "a@example.com"}
    for _ in range(3):
        got = check("cleanup", who)
        assert got["allowed"] and got["rule"] == "email"
    got = check("cleanup", who)
    assert not got["allowed"] and got["rule"] == "email"
    assert [r["remaining"] for r in got["rules"]] == [997, 2, 0]
    assert [r["rule"] for r in got["rules"]] == ["global", "ip", "email"]


@test
def the_longest_wait_decides_unless_the_policy_says_soonest():
    check("soonest", key="203.0.113.5")
    got = check("soonest", key="203.0.113.5")
    waits = [r["retry_after_ms"] for r in got["rules"]]
    if all(waits):  # no window ended in between
        assert got["retry_after_ms"] == min(waits)


@test
def an_exempt_identity_is_not_counted():
    for who in ({"ip": "10.9.8.7"}, {"ip": "2001:db8:1::1"}, {"ip": "[2001:db8::1]:443"},
                {"ip": "::ffff:10.1.1.1"}, {"user": "cron", "route": "/ready"}):
        got = check("cleanup", {"email": "x@example.com", "ip": "203.0.113.6", **who})
        assert got["allowed"] and got["source"] == "exempt", who
    got = check("cleanup", {"ip": "203.0.113.6", "email": "y@example.com", "user": "cron"})
    assert got["source"] == "store"


@test
def rules_in_shadow_count_and_deny_nothing():
    got = [check("shadowed", key="203.0.113.7") for _ in range(2)]
    assert [a["allowed"] for a in got] == [True, True]
    assert [a["rules"][0]["shadow_denied"] for a in got] == [False, True]
    got = [check("tried", key="203.0.113.7") for _ in range(3)]
    assert [a["allowed"] for a in got] == [True] * 3
    assert [a["rules"][0]["shadow_denied"] for a in got] == [False, True, True]
    assert [a["rules"][1]["shadow_denied"] for a in got] == [False, False, True]
    assert got[2]["rules"][0]["remaining"] == 1 and got[2]["rule"] == "live"


@test
def a_policy_that_is_off_allows_every_request():
    for policy in ("off", "rules-off"):
        for _ in range(5):
            got = check(policy, key="203.0.113.8")
            assert got["allowed"] and got["source"] == "off" and got["remaining"] == 3
    got = check("closed", key="203.0.113.8")
    assert not got["allowed"] and got["retry_after_ms"] == -1


@test
def identities_are_normalised_as_everywhere():
    same = {
        "login": [["198.51.100.1", "198.51.100.1:80", "::ffff:198.51.100.1", "[::ffff:c633:6401]:1"],
                  ["2001:db8:1:2::1", "2001:DB8:1:2:9::%eth0", "[2001:db8:1:2:ffff::]:443"],
                  ["::1.2.3.4", "::5"]],
        "site": [["2001:db8:1:2::1", "2001:db8:1:3::1"]],
        "mail": [["Bob@Example.COM", " bob@example.com\t"]],
    }
    for policy, groups in same.items():
        for values in groups:
            call("reset", policy, role="server", key=values[0])
            assert check(policy, key=values[0])["remaining"] == 2
            for value in values[1:]:
                assert call("peek", policy, key=value)["remaining"] == 2, value
    for value in ("010.0.0.1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "10.0.0.0/8", "::1::", "fe80::1%",
                  "[::1", "1.2.3.4:65536", "1.2.3.4 ", "g::1", "12345::", "example.com", "::1%a b"):
        refused(lambda v=value: check("login", key=v), "is not an IP address")


@test
def keys_are_those_that_the_server_computes():
    secret = bytes.fromhex(db.value("SELECT encode(weir.server_secret(), 'hex')", role="server"))

    def mac(key, message):
        return hmac.new(key, message, hashlib.sha256).digest()[:16]

    def uuid(scope, identity):
        return mac(mac(secret, b"weir hash key\0" + b"\0".join(scope)), identity).hex()

    cases = [
        (lambda: check("both", {"tenant": "Zoë's", "route": "/a'b\\"}),
         [b"both", b"default", b"fixed_window", b"%d" % YEARS],
         "6:Zoë's".encode() + b"5:/a'b\\"),
        (lambda: check("everyone"), [b"everyone", b"default", b"fixed_window", b"%d" % YEARS], b""),
        (lambda: check("site", key="2001:db8:5:6::1"),
         [b"site", b"default", b"fixed_window", b"%d" % YEARS], b"15:2001:db8:5::/48"),
        (lambda: check("tried", key="198.51.100.9"),
         [b"tried", b"live", b"fixed_window", b"%d" % YEARS, b"shadow"], b"12:198.51.100.9"),
        (lambda: db.psql("SELECT weir.limit('k1', 5, 60000)"),
         [b"limits that come with a request", b"sliding_window", b"60000"], b"2:k1"),
        (lambda: db.psql("SELECT weir.check_rate_limit('k2', 5, 60)"),
         [b"limits that come with a request", b"sliding_window", b"60000"], b"2:k2"),
        (lambda: db.psql("SELECT weir.limit('k3', 5, 60000, p_name => 'upload')"),
         [b"upload", b"default", b"sliding_window", b"60000"], b"2:k3"),
    ]
    for ask, scope, identity in cases:
        key = uuid(scope, identity)
        assert db.value(f"SELECT count(*) FROM weir.states WHERE key = '{key}'") == "0"
        ask()
        assert db.value(f"SELECT count(*) FROM weir.states WHERE key = '{key}'") == "1", scope


@test
def errors_say_what_is_wrong_without_an_identity():
    secret_word = "carol@secret.example"
    said = [
        refused(lambda: check("logn", key=secret_word), "there is no policy 'logn'", code="42704"),
        refused(lambda: check("login", {"email": secret_word}), "the request has no attribute 'ip'"),
        refused(lambda: check("login", {"ip": secret_word}), "is not an IP address"),
        refused(lambda: check("login", {"ip": ""}), "is empty"),
        refused(lambda: check("mail", {"email": "  "}), "is empty"),
        refused(lambda: check("user", {"user": secret_word * 300}), "too long"),
        refused(lambda: check("user", {"user": [secret_word]}), "must be a text or a whole number"),
        refused(lambda: check("both", key=secret_word), "give them by name"),
        refused(lambda: check("everyone", key=secret_word), "leave the key out"),
        refused(lambda: check("login", {"ip": "1.2.3.4"}, key=secret_word), "not both"),
        refused(lambda: check("login", key="1.2.3.4", cost=-1), "cost must be"),
        refused(lambda: check("user", {str(i): secret_word for i in range(17)}), "at most 16"),
        refused("SELECT weir.limit('k', -1, 60000)", "limit must be at least 0"),
        refused("SELECT weir.limit('k', 1, 0)", "the window must be at least 1 ms"),
        refused("SELECT weir.limit('k', 9007199254740991, 2, 'sliding_counter')", "below 2^53"),
        refused("SELECT weir.limit('k', 1, 1, 'no_such')", "there is no such algorithm"),
        refused("SELECT weir.limit('k', 1, 1000, p_burst => 5)", "burst"),
        refused("SELECT weir.limit('', 1, 1000)", "the key is empty"),
        refused("SELECT weir.limit('k', 1, 1000, p_start => 'last')", "start must be epoch or first"),
        refused("SELECT weir.limit('k', 1, 1000, p_start => 'first')", "only fixed_window has a start"),
        refused("SELECT weir.limit('k', 1, 1000, p_block_for_ms => 0)", "block_for must be from 1 ms"),
        refused("SELECT weir.check_rate_limit('k', NULL, 60)", "limit must be"),
    ]
    for text in said:
        for line in text.splitlines():
            if not line.startswith(("LINE", "STATEMENT")):
                assert secret_word not in line, line


@test
def odd_values_are_data():
    odd = ["'; DROP TABLE weir.states; --", "\\", '"', "$$", "%s %I", "{a,b}", "NULL", "\x01\x7f",
           "ключ", "😀", "' OR '1'='1", "\n\t"]
    for value in odd:
        assert check("user", {"user": value})["remaining"] == 2, value
        assert check("user", {"user": value})["remaining"] == 1, value
        assert db.value(f"SELECT remaining FROM weir.limit({literal(value)}, 9, 60000)",
                        role="caller") == "8"
    assert check("user", {"user": 42})["remaining"] == 2
    assert check("user", key="42")["remaining"] == 1
    assert check("user", {"user": "u" * 4096})["allowed"]
    assert db.value("SELECT count(*) > 0 FROM weir.states") == "t"


@test
def values_that_no_text_can_have_are_clear_errors():
    for statement, code in ((b"SELECT weir.limit('a\xff', 5, 1000)", "22021"),
                            (b"SELECT weir.limit(E'a\\x00', 5, 1000)", "22021"),
                            (b"SELECT weir.check('user', '{\"user\": \"a\\u0000b\"}')", "22P05"),
                            (b"SELECT weir.check('user', '{\"user\": \"a\xc3(\"}')", "22021"),
                            (b"SELECT weir.limit(repeat('k', 1000000), 5, 1000)", "22023"),
                            (b"SELECT weir.check('user', jsonb_build_object('user', "
                             b"repeat('k', 1000000)))", "22023"),
                            (b"SELECT weir.check('user', '[]')", "22023")):
        refused(statement, "", code=code)


@test
def a_caller_may_ask_and_nothing_else():
    assert check("login", key="203.0.113.20")["allowed"]
    for statement in ("SELECT * FROM weir.states", "SELECT * FROM weir.secret",
                      "SELECT * FROM weir.policies", "SELECT * FROM weir.tally",
                      "DELETE FROM weir.states", "INSERT INTO weir.policies VALUES ('x', '{}')",
                      "SELECT weir.server_secret()", "SELECT weir.replace_secret('x')",
                      "SELECT weir.push_policies('{}')", "SELECT weir.pushed_policies()",
                      "SELECT weir.reset('login', p_key => '203.0.113.20')",
                      "SELECT weir.judge('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
                      "SELECT weir.hmac('x', 'y')", "SELECT weir.tidy()", "CALL weir.upkeep()",
                      "SELECT * FROM weir.deny_rate", "SELECT weir.expose()",
                      "CREATE TABLE weir.mine (a int)"):
        refused(statement, "permission denied", code="42501")
    for statement in ("SELECT weir.limit('k', 1, 1)", "SELECT * FROM weir.deny_rate"):
        refused(statement, "permission denied", code="42501", role="stranger")
    db.psql("SELECT * FROM weir.deny_rate", role="viewer")


@test
def a_caller_cannot_slip_an_operator_into_a_function():
    db.psql("""
        CREATE FUNCTION pg_temp.always(uuid, uuid) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR pg_temp.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = pg_temp.always);
        CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$;
        SET search_path = pg_temp, pg_catalog, weir;
        SELECT weir.check('login', p_key => '203.0.113.30');
        SELECT weir.check('login', p_key => '203.0.113.31');
    """, role="caller")
    assert call("peek", "login", key="203.0.113.30")["remaining"] == 2
    assert call("peek", "login", key="203.0.113.32")["remaining"] == 3


@test
def functions_can_be_exposed_where_postgrest_looks():
    db.psql("SELECT weir.expose('public'); SELECT weir.expose('public')")
    row = db.rows("SELECT allowed, current_count, retry_after FROM "
                  "check_rate_limit(p_key => 'e', p_limit => 1, p_window_seconds => 60)",
                  role="caller")
    assert row == [["t", "1", "0"]]
    row = db.rows("SELECT * FROM check_rate_limit('e', 1, 60)", role="caller")
    assert row == [["f", "1", "60"]], row
    assert db.value("SELECT requests_count FROM upsert_rate_limit('e', '/', '2020-01-01', "
                    "'2021-01-01')", role="caller") == "1"
    assert db.rows("SELECT count, allowed FROM increment_rate_limit('e', 5)",
                   role="caller") == [["1", "t"]]
    assert db.value("SELECT cleanup_old_rate_limit_buckets()", role="caller") == "0"
    refused("SELECT check_rate_limit('e', 1, 60)", "permission denied", "42501", "stranger")
    db.psql("SELECT weir.unexpose()")
    assert db.value("SELECT to_regproc('public.check_rate_limit') IS NULL") == "t"
    db.psql("CREATE FUNCTION public.check_rate_limit(p_key text, p_limit integer, p_window_seconds "
            "integer) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    refused("SELECT weir.expose('public')", "not weir's", "42723", "postgres")
    db.psql("DROP FUNCTION public.check_rate_limit")


def upsert(who, start, end):
    return int(db.value(f"SELECT requests_count FROM weir.upsert_rate_limit('{who}', '/', {start}, "
                        f"{end})", role="caller"))


def increment(key, limit, day="NULL"):
    return db.rows(f"SELECT * FROM weir.increment_rate_limit('{key}', {limit}, {day})",
                   role="caller")[0]


TODAY = "(now() AT TIME ZONE 'UTC')::date"


@test
def each_window_of_a_caller_counts_by_itself():
    assert [increment("days", 2) for _ in range(3)] == [["1", "t"], ["2", "t"], ["2", "f"]]
    for day in (f"{TODAY} + 1", f"{TODAY} - 1", f"{TODAY} - 700", "'1969-07-20'", "'0044-03-15 BC'"):
        assert increment("days", 2, day) == ["1", "t"], day
        assert increment("days", 2, TODAY) == ["2", "f"], day
        assert increment("days", 2, day) == ["2", "t"], day
        assert increment("days", 2, day) == ["2", "f"], day
    hour = "date_trunc('hour', now())"
    starts = [f"{hour} + interval '{shift}'" for shift in ("0", "1 hour", "-1 hour", "1 us", "1 s")]
    for count in (1, 2, 3):
        assert [upsert("hours", at, f"{at} + interval '1 hour'") for at in starts] == [count] * 5
    assert upsert("hours", starts[0], f"{hour} + interval '2 hours'") == 4


@test
def a_past_window_is_kept_for_clients_with_a_late_clock():
    yesterday = f"{TODAY} - 1"
    long_ago = "'2001-01-01'", "'2001-01-01 00:01'"
    increment("late", 1, yesterday)
    upsert("late", *long_ago)
    db.psql("UPDATE weir.states SET due = 0; SELECT weir.tidy()")
    assert increment("late", 1, yesterday) == ["1", "f"]
    assert upsert("late", *long_ago) == 2


@test
def a_window_counts_as_far_as_an_integer_and_has_an_end():
    for window in (("'2026-01-01'", "'2027-02-05'"), ("'2026-01-01'", "'2027-01-01'"),
                   ("'1969-01-01'", "'1969-12-31'"), ("'2026-01-01'", "'2026-01-01 00:00:00.000001'")):
        db.psql("TRUNCATE weir.states")
        assert upsert("long", *window) == 1
        db.psql("UPDATE weir.states SET used = 2147483645")
        assert [upsert("long", *window) for _ in range(3)] == [2147483646] + [2147483647] * 2
        assert db.value("SELECT max(expires) < extract(epoch FROM now() + interval '402 days') * 1000"
                        " FROM weir.states") == "t"
    for window in ("'2026-01-01', '2027-02-05 00:00:00.001'", "'2000-01-01', '2100-01-01'",
                   "'4713-01-01 BC', '294276-12-31'"):
        refused(f"SELECT weir.upsert_rate_limit('long', '/', {window})", "400 days at most")
    refused("SELECT weir.limit('long', 61, 9007199254740991)", "must be below 2^53")
    refused("SELECT weir.limit('long', 2, 9007199254740992, 'fixed_window')", "must be below 2^53")
    assert increment("long", 2147483647) == ["1", "t"]
    for window in ("'2026-01-01', 'infinity'", "'-infinity', '2026-01-01'", "NULL, '2026-01-01'",
                   "'2026-01-01', '2026-01-01'"):
        refused(f"SELECT weir.upsert_rate_limit('long', '/', {window})", "must end after its start")
    refused("SELECT weir.increment_rate_limit('long', 1, 'infinity')", "must be a finite time")
    refused("SELECT weir.increment_rate_limit('long', 1, '9999-01-01')", "in the future")


def many(checks, role="caller"):
    return [json.loads(line) for line, in db.rows(
        f"SELECT row_to_json(a) FROM weir.check_many({literal(json.dumps(checks))}) a", role=role)]


@test
def many_checks_are_answered_in_their_order_and_each_is_charged_wholly_or_not():
    login = {"policy": "login", "key": "203.0.113.60"}
    said = many([login, {**login, "cost": 3}, {"key": "many", "limit": 1, "window_ms": YEARS}, login,
                 {"key": "many", "limit": 1, "window_ms": YEARS}, {**login, "peek": True},
                 {**login, "plan": "paid", "cost": 2}, {"policy": "cleanup", "attributes": {"ip": "10.0.0.1"}}])
    assert [answer["allowed"] for answer in said] == [True, False, True, True, False, True, True,
                                                      True], said
    assert [answer["remaining"] for answer in said] == [2, 2, 0, 1, 0, 1, 1, 1000], said
    assert [answer["policy"] for answer in said[1:3]] == ["login", None], said
    assert said[7]["source"] == "exempt", said[7]
    alone, together = call("peek", "login", key="203.0.113.60"), many([{**login, "peek": True}])[0]
    assert alone.keys() == together.keys() and alone["remaining"] == together["remaining"] == 0
    assert many([]) == []


@test
def of_many_checks_with_a_mistake_none_is_charged():
    good = {"policy": "login", "key": "203.0.113.61"}
    for bad, text in (({"policy": "none", "key": "k"}, "there is no policy"), (3, "must be an object"),
                      ({**good, "limit": 1}, "a policy, or a limit"), ({"key": "k"}, "the window must be"),
                      ({**good, "sum": 1}, "no member"), ({**good, "cost": "x"}, "whole numbers"),
                      ({"key": "k", "limit": 1, "window_ms": 1, "plan": "p"}, "belong to a policy")):
        try:
            many([good, bad])
        except SqlError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"{bad} was taken")
    for wrong in {"a": 1}, [good] * 1001:
        refused(f"SELECT weir.check_many({literal(json.dumps(wrong))})", "")
    assert many([{**good, "peek": True}])[0]["remaining"] == 3


@test
def a_plan_that_no_rule_has_is_warned_of():
    for plan, warns in ("piad", True), ("paid", False):
        heard = subprocess.run(
            [programs() / "psql", "-X", "-q", "-c",
             f"SELECT weir.peek('login', p_key => '203.0.113.62', p_plan => '{plan}')",
             db.url_of("postgres", "caller")], capture_output=True, text=True, check=True).stderr
        assert ("no rule of policy 'login' has a plan 'piad'" in heard) == warns, heard


@test
def a_limit_with_a_name_is_counted_as_a_policy_of_that_name_would_be():
    def limit(key="k", name="sign-in"):
        return json.loads(db.value(f"SELECT row_to_json(a) FROM weir.limit('{key}', 2, {YEARS}, "
                                   f"'fixed_window', p_name => '{name}') a", role="caller"))
    said = [limit() for _ in range(3)]
    assert [answer["allowed"] for answer in said] == [True, True, False], said
    assert said[2]["policy"] == "sign-in" and said[2]["rule"] == "default", said[2]
    assert limit(name="other")["allowed"] and limit("k2")["allowed"]
    assert many([{"key": "k", "name": "sign-in", "limit": 2, "window_ms": YEARS,
                  "algorithm": "fixed_window"}])[0]["policy"] == "sign-in"
    assert db.rows("SELECT policy, checks, denied FROM weir.deny_rate WHERE policy = "
                   "'sign-in'", role="viewer") == [["sign-in", "5", "2"]]
    operate = "SELECT weir.{}('sign-in', p_key => 'k', p_named => true{})"
    db.psql(operate.format("set_override", ", p_limit => 9"))
    assert limit()["limit"] == 9
    db.psql(operate.format("clear_override", ""))
    db.psql("SELECT weir.set_mode('sign-in', 'off', p_named => true)")
    assert limit()["source"] == "off"
    db.psql("SELECT weir.clear_mode('sign-in')")
    assert not limit()["allowed"]
    pushed = {**POLICIES, "sign-in": {"rules": [rule(limit=3, by=("user",))]}}
    db.psql(f"SELECT weir.push_policies({literal(json.dumps(pushed))})", role="server")
    try:
        assert check("sign-in", key="k")["remaining"] == 0  # two were counted before
        refused(f"SELECT weir.limit('k', 2, {YEARS}, p_name => 'sign-in')", "is a policy")
    finally:
        db.psql(f"SELECT weir.push_policies({literal(json.dumps(POLICIES))})", role="server")
    refused(f"SELECT weir.limit('k', 2, {YEARS}, p_name => 'sign in')", "1 to 64")


@test
def policies_are_pushed_whole_or_not_at_all():
    before = db.value("SELECT weir.pushed_policies()", role="server")
    for bad in ({"x": {}}, {"x": {"rules": []}}, {"x y": {"rules": [rule()]}},
                {"x": {"rules": [rule(algorithm="none")]}}, {"x": {"rules": [rule(limit=-1)]}},
                {"x": {"rules": [rule()], "reserve": {"on_expiry": "never"}}},
                {"x": {"rules": [rule()], "reserve": {"ttl_ms": 86400001}}},
                {"x": {"rules": [rule()], "reserve": {"max_ttl_ms": "1s"}}},
                {"x": {"rules": [rule()], "reserve": [1]}},
                {"x": {"rules": [rule(burst=4)]}}, {"x": {"rules": [rule(mode="on")]}},
                {"x": {"rules": [rule(shadow_limit={"limit": 1, "window_ms": 0})]}},
                {"x": {"rules": [rule(plans={"p": {"limit": 1 << 60, "window_ms": 9}})]}}):
        refused(f"SELECT weir.push_policies({literal(json.dumps({**POLICIES, **bad}))})", "",
                role="server")
    assert db.value("SELECT weir.pushed_policies()", role="server") == before
    assert len(json.loads(before)) == len(POLICIES)


@test
def a_read_only_transaction_can_be_denied():
    check("login", key="203.0.113.40", cost=3)
    said = db.value("BEGIN READ ONLY; SELECT allowed FROM weir.check('login', p_key => "
                    "'203.0.113.40'); COMMIT", role="caller")
    assert said == "f"


with Postgres(fsync="off", synchronous_commit="off") as db:
    db.migrate()
    for name in ("caller", "server", "viewer"):
        db.psql(f"CREATE ROLE {name} LOGIN IN ROLE weir_{name}")
    db.psql("CREATE ROLE stranger LOGIN")
    db.psql(f"SELECT weir.push_policies({literal(json.dumps(POLICIES))})", role="server")
    run()
