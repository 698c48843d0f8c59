#!/usr/bin/env python3
"""test_overrides.py - what operators change while a server runs: overrides, plans, modes, switches.

    test_overrides.py TREE      from the root of the source
"""
import json
import re
import subprocess
import sys

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, WEIR, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  login: {limit: 2 per 1h, by: ip}
  query: {limit: 1 per 1d, by: tenant, plans: {paid: 5 per 1d}}
  both:
    rules:
      all: {limit: 100 per 1h}
      ip:  {limit: 3 per 1h, by: ip}
"""


class Fixture:
    """A server with these policies, and what is kept of it when it is killed."""

    def __init__(self, kept=False, policies=POLICIES, **more):
        self.folder, self.more = Folder(), more
        self.config = self.folder.path / "policies.yaml"
        self.config.write_text(policies)
        self.store = f"file:{self.folder.path}/store" if kept else "memory:"
        self.server = None
        self.start()

    def start(self):
        self.server = Server(config=self.config, store=self.store, **self.more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def call(self, method, path, body=None, status=200, headers=None):
        found, _, answer = self.server.http(method, path, body, headers)
        assert found == status, (method, path, found, answer)
        return answer

    def put(self, **body):
        return self.call("PUT", "/v1/overrides", body)

    def source(self, policy, key):
        return self.server.check(policy, key)["source"]

    def weir(self, *words, status=0):
        result = subprocess.run([str(WEIR), *map(str, words), "--server", self.server.url],
                                capture_output=True, text=True, timeout=PATIENCE)
        assert result.returncode == status, (words, result)
        return result.stdout + result.stderr


# ---- overrides ----------------------------------------------------------------------------------

@test
def an_override_holds_from_the_answer_on_and_until_it_is_removed():
    with Fixture() as h:
        made = h.put(policy="login", key="203.0.113.7", effect="block", who="ann", reason="abuse",
                     **{"for": "1h"})
        assert (made["id"], made["effect"], made["who"], made["reason"]) == (1, "block", "ann", "abuse")
        assert made["expires_ms"] - made["at_ms"] in range(3599000, 3600001)
        answer = h.server.check("login", "203.0.113.7")
        assert not answer["allowed"] and answer["source"] == "blocked" and answer["override"] == 1
        assert 0 < answer["retry_after_ms"] <= 3600000
        assert h.source("login", "203.0.113.8") == "store"
        h.put(policy="login", attributes={"ip": "203.0.113.7"}, effect="exempt")
        assert h.source("login", "203.0.113.7") == "exempt"
        h.put(policy="login", key="203.0.113.7", limit=9)
        assert h.server.check("login", "203.0.113.7")["limit"] == 9
        gone = h.call("DELETE", "/v1/overrides", {"policy": "login", "key": "203.0.113.7"})
        assert gone["effect"] == "removed" and gone["id"] == 4
        assert h.server.check("login", "203.0.113.7")["limit"] == 2
        assert h.call("GET", "/v1/overrides")["overrides"] == []


@test
def lists_have_hashes_and_no_identities():
    with Fixture() as h:
        h.put(policy="login", key="203.0.113.7", effect="block")
        h.put(policy="both", attributes={"ip": "203.0.113.7"}, rule="ip", burst=None, limit=7)
        h.call("PUT", "/v1/plans", {"attributes": {"tenant": "acme"}, "plan": "paid"})
        text = "".join(json.dumps(h.call("GET", path))
                       for path in ("/v1/overrides", "/v1/plans", "/v1/audit"))
        text += h.weir("override", "list") + h.weir("audit") + json.dumps(h.server.log.lines)
        assert "203.0.113.7" not in text and "acme" not in text
        listed = h.call("GET", "/v1/overrides")["overrides"]
        assert [(o["policy"], o["rule"], o["by"]) for o in listed] == [
            ("login", None, ["ip"]), ("both", "ip", ["ip"])]
        assert all(re.fullmatch("[0-9a-f]{32}", o["tag"]) for o in listed)
        assert len(h.call("GET", "/v1/overrides?policy=both")["overrides"]) == 1


# ---- tags ---------------------------------------------------------------------------------------

TAGGED = """
version: 1
policies:
  login: {limit: 1 per 1h, by: ip}
  query: {limit: 1 per 1d, by: tenant, plans: {paid: 5 per 1d}}
  other: {limit: 9 per 1m, by: ip, algorithm: token_bucket}
  both:
    rules:
      all:  {limit: 100 per 1h}
      ip:   {limit: 3 per 1h, by: ip}
      user: {limit: 4 per 1h, by: user}
"""


def tag_of(fixture, policy, **attributes):
    return fixture.call("POST", "/v1/peek", {"policy": policy, "attributes": attributes, "tag": True})


@test
def an_identity_has_the_same_tag_everywhere():
    with Fixture(policies=TAGGED, kept=True) as h:
        ip = "203.0.113.7"
        h.server.check("login", ip)
        denied = h.call("POST", "/v1/check", {"policy": "login", "key": ip, "tag": True})
        assert denied["allowed"] is False
        tag = denied["tag"]
        assert re.fullmatch("[0-9a-f]{32}", tag)
        assert h.call("GET", f"/v1/check?policy=login&ip={ip}&tag=1")["tag"] == tag
        assert "tag" not in h.call("GET", f"/v1/check?policy=login&ip={ip}")
        assert h.server.wait_for("denied")["tag"] == tag
        assert [e["tag"] for e in h.call("GET", "/v1/top")["top"]] == [tag]
        assert h.put(policy="login", key=ip, effect="block")["tag"] == tag
        assert [o["tag"] for o in h.call("GET", "/v1/overrides")["overrides"]] == [tag]
        assert [e.get("tag") for e in h.call("GET", "/v1/audit")["entries"]] == [None, tag]  # the start has none
        assert tag in h.weir("override", "list") and tag in h.weir("audit")
        assert tag in h.weir("top")
        # Blocked, it is the same; and so it is under other rules that count by the same.
        assert tag_of(h, "login", ip=ip)["tag"] == tag
        assert tag_of(h, "other", ip=ip)["tag"] == tag
        rules = tag_of(h, "both", ip=ip, user="ann")["rules"]
        assert rules[1]["tag"] == tag and len({r["tag"] for r in rules}) == 3
        # RESP tells it too, if it is asked to: of the answer, then of its rules.
        told = [h.server.resp(*words) for words in (
            ("WEIR.PEEK", "login", ip, "TAG"), ("WEIR.CHECK", "both", f"ip={ip}", "user=ann", "FULL", "TAG"),
            ("WEIR.PEEK", "login", ip, "FULL"), ("WEIR.LIMIT", ip, "token_bucket", "5", "1000", "TAG"))]
        found = [re.findall(rb"\$3\r\ntag\r\n\$32\r\n([0-9a-f]{32})\r\n", text) for text in told]
        assert found[0] == [tag.encode()] and found[2] == [], told  # blocked: there are no rules
        assert found[1][1:] == [r["tag"].encode() for r in rules] and found[1][0] in found[1][1:], told
        brought = h.call("POST", "/v1/check", {"key": ip, "algorithm": "token_bucket", "limit": 5,
                                               "window_ms": 1000, "tag": True})["tag"]
        assert found[3] == [brought.encode()] * 2, told
        assert told[0].startswith(b"*26\r\n") and told[2].startswith(b"*24\r\n"), told
        assert tag_of(h, "login", ip="203.0.113.8")["tag"] != tag
        told = subprocess.run([WEIR, "policy", "explain", h.config, "login", ip, "--json",
                               "--secret-file", h.folder.path / "store" / "secret"],
                              capture_output=True, text=True, timeout=PATIENCE, check=True)
        assert json.loads(told.stdout)["rules"][0]["tag"] == tag


@test
def an_identity_can_be_blocked_listed_and_cleared_by_its_tag():
    with Fixture(policies=TAGGED) as h:
        long = "x" * 1000  # more than a check keeps of it
        for policy, who in (("login", {"ip": "203.0.113.7"}), ("both", {"ip": "::1", "user": long})):
            said = tag_of(h, policy, **who)
            tag = said["rules"][2]["tag"] if "rules" in said else said["tag"]
            by = {"by": "user"} if policy == "both" else {}
            made = h.put(policy=policy, tag=tag.upper(), effect="block", **by)
            assert (made["tag"], made["rule"], made["by"]) == (tag, None, ["user" if by else "ip"])
            assert tag_of(h, policy, **who)["source"] == "blocked"
            assert tag_of(h, policy, **{**who, "user": "bob", "ip": "203.0.113.9"})["source"] == "store"
            h.put(policy=policy, tag=tag, limit=7, **by)
            assert len(h.call("GET", f"/v1/overrides?tag={tag}")["overrides"]) == 1
            assert len(h.call("GET", f"/v1/overrides?tag={tag[::-1]}")["overrides"]) == 0
            assert len(h.call("GET", f"/v1/audit?tag={tag}")["entries"]) == 2
            gone = h.call("DELETE", "/v1/overrides", {"policy": policy, "tag": tag})
            assert gone["effect"] == "removed" and gone["tag"] == tag
            assert tag_of(h, policy, **who)["source"] == "store"
        # A rule that is named says what the tag is of, and has it alone.
        tag = tag_of(h, "both", ip="203.0.113.7", user="ann")["rules"][1]["tag"]
        assert h.put(policy="both", rule="ip", tag=tag, effect="block")["by"] == ["ip"]
        assert tag_of(h, "both", ip="203.0.113.7", user="ann")["rule"] == "ip"
        # An override of one policy is none of another, though the tag is the same.
        assert tag_of(h, "other", ip="203.0.113.7")["source"] == "store"


@test
def a_plan_is_assigned_by_a_tag():
    with Fixture(policies=TAGGED) as h:
        tag = tag_of(h, "query", tenant="acme")["tag"]
        h.call("PUT", "/v1/plans", {"tag": tag, "by": ["tenant"], "plan": "paid"})
        assert h.server.check("query", "acme")["limit"] == 5
        assert h.server.check("query", "other")["limit"] == 1
        again = h.call("PUT", "/v1/plans", {"attributes": {"tenant": "acme"}, "plan": "paid"})
        assert again["tag"] == tag and len(h.call("GET", f"/v1/plans?tag={tag}")["plans"]) == 1
        h.call("DELETE", "/v1/plans", {"tag": tag})
        assert h.server.check("query", "acme")["limit"] == 1
        # An identity with a plan may have an override as well.
        h.call("PUT", "/v1/plans", {"policy": "query", "tag": tag, "plan": "paid"})
        h.put(policy="query", tag=tag, effect="exempt")
        assert h.source("query", "acme") == "exempt"
        h.call("DELETE", "/v1/overrides", {"policy": "query", "tag": tag})
        assert h.server.check("query", "acme")["limit"] == 5


@test
def an_invalid_or_ambiguous_tag_is_rejected():
    with Fixture(policies=TAGGED) as h:
        tag = "0123456789abcdef" * 2
        for body, words in (({"policy": "login", "tag": "dc89"}, "32 hexadecimal digits"),
                            ({"policy": "login", "tag": tag + "0"}, "32 hexadecimal digits"),
                            ({"policy": "login", "tag": "g" * 32}, "32 hexadecimal digits"),
                            ({"policy": "login", "tag": tag, "key": "1.1.1.1"}, "one of them"),
                            ({"policy": "both", "tag": tag}, "the attributes of the tag are not clear"),
                            ({"policy": "both", "tag": tag, "by": ["mail"]}, "no rule of policy"),
                            ({"policy": "both", "tag": tag, "by": [1]}, "'by' must be"),
                            ({"policy": "both", "tag": tag, "by": ["a"] * 9}, "at most 8"),
                            ({"policy": "login", "key": "1.1.1.1", "by": "ip"}, "needs a tag"),
                            ({"tag": tag}, "the policy is missing")):
            answer = h.call("PUT", "/v1/overrides", {"effect": "block", **body}, 400)
            assert words in answer["detail"], answer
        assert "attributes of the tag" in h.call("PUT", "/v1/plans", {"tag": tag, "plan": "paid"},
                                            400)["detail"]
        h.call("POST", "/v1/policies/login/mode", {"mode": "off", "tag": tag}, 400)
        h.call("GET", "/v1/overrides?tag=dc89", status=400)
        h.call("POST", "/v1/check", {"policy": "login", "key": "1.1.1.1", "tag": 1}, 400)
        h.call("GET", "/v1/check?policy=login&ip=1.1.1.1&tag=maybe", status=400)
        assert h.call("GET", "/v1/audit")["entries"] == []


@test
def the_command_line_takes_tags():
    with Fixture(policies=TAGGED) as h:
        tag = tag_of(h, "login", ip="203.0.113.7")["tag"]
        assert tag in h.weir("override", "set", "login", "--tag", tag, "--block", "--for", "1h")
        assert h.source("login", "203.0.113.7") == "blocked"
        assert tag in h.weir("override", "list", "--tag", tag)
        assert h.weir("override", "list", "--tag", "0" * 32) == "no override is in force\n"
        h.weir("override", "rm", "--tag", tag, "login")
        assert h.source("login", "203.0.113.7") == "store"
        assert len(h.weir("audit", "--tag", tag).splitlines()) == 3
        assert "attributes of the tag" in h.weir("override", "set", "both", "--tag", tag, "--block", status=2)
        h.weir("override", "set", "both", "--tag", tag, "--by", "ip", "--block")
        assert tag_of(h, "both", ip="203.0.113.7", user="ann")["source"] == "blocked"
        tag = tag_of(h, "query", tenant="acme")["tag"]
        h.weir("plan", "set", "--tag", tag, "--by", "tenant", "paid")
        assert h.server.check("query", "acme")["limit"] == 5
        assert tag in h.weir("plan", "list", "--tag", tag)
        h.weir("plan", "rm", "--tag", tag)
        assert h.server.check("query", "acme")["limit"] == 1


@test
def a_block_denies_on_every_protocol():
    with Fixture() as h:
        h.put(policy="login", key="203.0.113.7", effect="block")
        assert b"blocked" in h.server.resp("WEIR.CHECK", "login", "203.0.113.7")
        status, headers, _ = h.server.http("GET", "/v1/gate?policy=login&ip=203.0.113.7")
        assert status == 429, headers.items()
        assert h.call("POST", "/v1/peek", {"policy": "login", "key": "203.0.113.7"})["allowed"] is False


@test
def a_change_does_not_end_the_connection_nor_overtake_what_was_asked_before():
    with Fixture() as h, h.server.connect() as s:
        body = json.dumps({"policy": "login", "key": "203.0.113.7", "effect": "block"})
        check = json.dumps({"policy": "login", "key": "203.0.113.7"})
        s.sendall("".join(
            f"{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n{more}\r\n{text}"
            for line, text, more in (("POST /v1/check", check, ""), ("PUT /v1/overrides", body, ""),
                                     ("GET /v1/audit", "", "Connection: close\r\n"))).encode())
        data = b""
        while piece := s.recv(65536):
            data += piece
        assert data.count(b"HTTP/1.1 200") == 3, data
        assert data.index(b'"source":"store"') < data.index(b'"effect":"block"'), data


@test
def mistakes_are_rejected_with_a_suggestion():
    with Fixture() as h:
        for body, status, words in (
                ({"policy": "login", "key": "203.0.113.7"}, 400, "the effect is missing"),
                ({"policy": "login", "key": "x", "effect": "block"}, 400, "not an IP address"),
                ({"policy": "logn", "key": "x", "effect": "block"}, 404, "did you mean 'login'?"),
                ({"policy": "login", "key": "1.1.1.1", "effect": "block", "limit": 3}, 400,
                 "has one effect"),
                ({"policy": "login", "key": "1.1.1.1", "effect": "block", "for": "soon"}, 400, ""),
                ({"policy": "login", "key": "1.1.1.1", "effect": "block", "expires_ms": 5}, 400,
                 "in the past"),
                ({"policy": "login", "key": "1.1.1.1", "efect": "block"}, 400,
                 "did you mean 'effect'?"),
                ({"policy": "login", "key": "1.1.1.1", "mode": "off"}, 400, "'mode' does not belong"),
                ({"policy": "login", "key": "1.1.1.1", "effect": "block", "who": "a\nb"}, 400,
                 "one line"),
                ({"policy": "login", "key": "1.1.1.1", "effect": "block", "reason": "x" * 513}, 400,
                 "at most 512"),
                ("[1]", 400, "must be a JSON object"), ("{", 400, "must be a JSON object")):
            answer = h.call("PUT", "/v1/overrides", body, status)
            assert words in answer["detail"], answer
            assert "1.1.1.1" not in answer["detail"]
        h.call("DELETE", "/v1/overrides?id=1", status=404)
        h.call("DELETE", "/v1/overrides?id=x", status=400)
        h.call("POST", "/v1/overrides", {}, status=405)
        h.call("POST", "/v1/policies/nope/mode", {"mode": "off"}, status=404)
        h.call("POST", "/v1/policies/login/mode", {"mode": "loud"}, status=400)
        h.call("POST", "/v1/policies/a/b/mode", {"mode": "off"}, status=404)
        h.call("GET", "/v1/audit?n=0", status=400)
        assert h.call("GET", "/v1/audit") == {"entries": [], "last": 0}


@test
def only_an_admin_may_change_anything_and_no_page_of_another_site():
    with Folder() as folder:
        for name in ("check", "admin"):
            (folder / name).write_text(f"{name}-token-of-the-tests\n")
            (folder / name).chmod(0o600)
        config = folder / "policies.yaml"
        config.write_text(POLICIES + "server:\n  tokens:\n" + "".join(
            f"    - {{file: {folder / name}, scope: [{name}]}}\n" for name in ("check", "admin")))
        with Server(config=config) as server:
            def status(method, path, token, **more):
                headers = {"Authorization": f"Bearer {token}-token-of-the-tests", **more}
                body = {"policy": "login", "key": "203.0.113.7", "effect": "block"}
                if path.endswith("mode"):
                    body = {"mode": "off"}
                return server.http(method, path, body if method != "GET" else None, headers)[0]

            paths = (("PUT", "/v1/overrides"), ("POST", "/v1/policies/login/mode"),
                     ("GET", "/v1/overrides"), ("GET", "/v1/audit"))
            assert [status(*path, "check") for path in paths] == [403] * 4
            assert [status(*path, "admin") for path in paths] == [200] * 4
            assert status("PUT", "/v1/overrides", "admin", **{"Sec-Fetch-Site": "cross-site"}) == 403


# ---- plans and modes ----------------------------------------------------------------------------

@test
def a_tenant_has_the_plan_it_is_assigned():
    with Fixture() as h:
        made = h.call("PUT", "/v1/plans", {"attributes": {"tenant": "acme"}, "plan": "paid"})
        assert h.server.check("query", "acme")["limit"] == 5
        assert h.server.check("query", "other")["limit"] == 1
        assert [p["plan"] for p in h.call("GET", "/v1/plans")["plans"]] == ["paid"]
        h.call("DELETE", f"/v1/plans?id={made['id']}")
        assert h.server.check("query", "acme")["limit"] == 1


@test
def a_mode_can_be_changed_and_says_so():
    with Fixture() as h:
        made = h.call("POST", "/v1/policies/login/mode", {"mode": "off", "for": "1h"})
        assert h.source("login", "203.0.113.7") == "off"
        listed = {p["policy"]: p for p in h.call("GET", "/v1/policies")["policies"]}
        assert listed["login"]["live_mode"] == {"mode": "off", "id": 1,
                                                "expires_ms": made["expires_ms"]}
        assert listed["login"]["mode"] == "enforce" and "live_mode" not in listed["both"]
        h.call("DELETE", "/v1/policies/login/mode")
        assert h.source("login", "203.0.113.7") == "store"
        h.call("DELETE", "/v1/policies/login/mode", status=404)


ODD = """
version: 1
policies:
  /api/login: {limit: 2 per 1h, by: ip}
  exercise:create: {limit: 2 per 1h, by: ip}
"""


@test
def a_policy_of_any_name_can_be_switched_and_overridden():
    names = {"/api/login": "%2Fapi%2flogin", "exercise:create": "exercise%3Acreate"}
    with Fixture(policies=ODD) as h:
        for name, encoded in names.items():
            made = h.call("POST", f"/v1/policies/{encoded}/mode", {"mode": "off"})
            assert made["policy"] == name and h.source(name, "203.0.113.7") == "off"
            h.call("DELETE", f"/v1/policies/{encoded}/mode")
            h.weir("mode", name, "off")
            assert h.source(name, "203.0.113.7") == "off"
            assert name in h.weir("audit", name)
            h.weir("mode", name, "file")
            h.weir("override", "set", name, "203.0.113.7", "--block")
            assert h.source(name, "203.0.113.7") == "blocked"
            assert name in h.weir("override", "list", name)
            assert [o["policy"] for o in
                    h.call("GET", f"/v1/overrides?policy={encoded}")["overrides"]] == [name]
            h.weir("override", "rm", name, "203.0.113.7")
            assert h.source(name, "203.0.113.7") == "store"
        # What stands as it is need not be encoded.
        h.call("POST", "/v1/policies/exercise:create/mode", {"mode": "shadow"})


@test
def a_name_in_a_path_is_decoded_once_and_strictly():
    with Fixture(policies=ODD) as h:
        for name, status in (("%2Fapi%2Flogin", 200), ("/api/login", 404),
                             ("%252Fapi%252Flogin", 404), ("exercise+create", 404),
                             ("%", 400), ("%2", 400), ("%2Fapi%2", 400), ("%zzapi", 400),
                             ("%2gapi", 400), ("%00", 400), ("%2Fapi%00", 400),
                             ("%1B%5B31m", 404), ("x" * 200, 404)):
            answer = h.call("POST", f"/v1/policies/{name}/mode", {"mode": "shadow"}, status)
            assert "\x1b" not in json.dumps(answer, ensure_ascii=False), answer
        # Nothing else of a path is: what a proxy lets pass by its path is what is done.
        h.call("POST", "/v1/policies/login%2Fmode", {"mode": "off"}, 404)
        h.call("GET", "/v1/%6dode", None, 404)
        h.call("GET", "/v1/overrides%", None, 404)


@test
def overrides_outlive_a_reload_of_the_policies():
    with Fixture() as h:
        h.put(policy="login", key="203.0.113.7", effect="block")
        h.put(policy="query", key="acme", plan="paid")
        h.config.write_text(POLICIES.replace("2 per 1h", "4 per 2h").replace("paid: 5", "paid: 6"))
        h.call("POST", "/v1/reload")
        assert h.source("login", "203.0.113.7") == "blocked"
        assert h.server.check("login", "203.0.113.8")["limit"] == 4
        assert h.server.check("query", "acme")["limit"] == 6


# ---- what is kept -------------------------------------------------------------------------------

@test
def everything_is_in_force_again_after_kill_9_and_the_audit_log_has_it_all():
    with Fixture(kept=True) as h:
        for i in range(20):
            h.put(policy="login", key=f"203.0.113.{i}", effect="exempt" if i % 2 else "block",
                  who=f"w{i}", reason=f"r{i}")
        h.call("DELETE", "/v1/overrides?id=2", {"who": "bob", "reason": "forgiven"})
        h.call("PUT", "/v1/plans", {"attributes": {"tenant": "acme"}, "plan": "paid"})
        h.call("POST", "/v1/policies/both/mode", {"mode": "shadow"})
        before = h.call("GET", "/v1/audit")
        h.server.kill()
        h.start()
        assert h.call("GET", "/v1/audit") == before
        assert [e["id"] for e in before["entries"]] == list(range(1, 25))
        assert before["entries"][21]["who"] == "bob" and before["entries"][21]["effect"] == "removed"
        assert h.source("login", "203.0.113.0") == "store"
        assert h.source("login", "203.0.113.1") == "exempt"
        assert h.source("login", "203.0.113.2") == "blocked"
        assert h.server.check("query", "acme")["limit"] == 5
        pages, last = [], 0
        while page := h.call("GET", f"/v1/audit?n=7&after={last}")["entries"]:
            pages, last = pages + page, page[-1]["id"]
        assert pages == before["entries"]
        assert len(h.call("GET", "/v1/audit?policy=both")["entries"]) == 1
        h.server.kill()
        found = subprocess.run([WEIR, "store", "check", f"{h.folder.path}/store"], text=True,
                               capture_output=True, timeout=PATIENCE)
        assert found.returncode == 0 and "ledger    24 changes" in found.stdout, found


@test
def a_damaged_ledger_is_rejected_and_can_be_repaired():
    with Fixture(kept=True) as h:
        for i in range(3):
            h.put(policy="login", key=f"203.0.113.{i}", effect="block")
        h.server.kill()
        ledger = h.folder.path / "store" / "ledger"
        damaged = bytearray(ledger.read_bytes())
        damaged[damaged.find(b"login")] ^= 1  # in the first override
        ledger.write_bytes(damaged)
        words = [str(WEIR), "store", "check", f"{h.folder.path}/store"]
        refused = subprocess.run([str(WEIR), "serve", "--store", h.store, "--listen", "127.0.0.1:0"],
                                 text=True, capture_output=True, timeout=PATIENCE)
        assert refused.returncode == 2 and re.search("ledger is damaged at byte [0-9]+", refused.stderr), refused
        found = subprocess.run(words, text=True, capture_output=True, timeout=PATIENCE)
        assert found.returncode == 1 and "ledger is damaged" in found.stdout, found
        words[2] = "repair"
        subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)
        h.start()
        assert [h.source("login", f"203.0.113.{i}") for i in range(3)] == [
            "store", "blocked", "blocked"]


# ---- switches, and what is observed -------------------------------------------------------------

@test
def the_environment_switches_all_or_some_policies_off_and_logs_it():
    with Fixture(env={"WEIR_ENABLED": "false"}) as h:
        assert h.source("login", "203.0.113.7") == "off"
        assert h.call("GET", "/readyz")["enabled"] is False
        assert "WEIR_ENABLED is off" in h.server.wait_for("switched-off")["message"]
        assert b"\nweir_enabled 0\n" in h.call("GET", "/metrics")
        h.call("POST", "/v1/policies/login/mode", {"mode": "enforce"})
        assert h.source("login", "203.0.113.7") == "off"
    with Fixture(env={"WEIR_ENABLED_POLICIES": "query"}) as h:
        assert h.call("GET", "/readyz")["enabled"] is True
        assert "2 of 3 policies are off" in h.server.wait_for("switched-off")["message"]
        assert h.source("login", "203.0.113.7") == "off" and h.source("query", "acme") == "store"
        h.call("POST", "/v1/policies/login/mode", {"mode": "enforce"})
        assert h.source("login", "203.0.113.7") == "off"


@test
def overrides_in_force_are_in_metrics_statistics_and_log():
    with Fixture() as h:
        h.put(policy="login", key="203.0.113.7", effect="block", who="ann", reason="abuse")
        h.call("POST", "/v1/policies/both/mode", {"mode": "off"})
        h.source("login", "203.0.113.7")
        metrics = h.call("GET", "/metrics").decode()
        assert 'weir_ledger_in_force{kind="override"} 1\n' in metrics
        assert 'weir_ledger_in_force{kind="plan"} 0\n' in metrics
        assert 'weir_ledger_in_force{kind="mode"} 1\n' in metrics
        assert "\nweir_ledger_last_id 2\n" in metrics
        assert re.search(r'weir_checks_total\{[^}]*source="blocked"[^}]*\} 1\n', metrics), metrics
        assert h.call("GET", "/v1/stats")["ledger"] == {
            "override": 1, "plan": 0, "mode": 1, "last_id": 2, "read_failures": 0, "stale": False}
        assert h.server.wait_for("changed")["message"] == (
            "override 1: block in policy login, by ann: abuse")


@test
def expired_overrides_do_not_count_as_in_force():
    with Fixture() as h:
        h.put(policy="login", key="203.0.113.7", effect="block", **{"for": "500ms"})
        wait_until(lambda: h.source("login", "203.0.113.7") == "store", "its end")
        wait_until(lambda: h.call("GET", "/v1/stats")["ledger"]["override"] == 0, "its going")
        assert len(h.call("GET", "/v1/audit")["entries"]) == 1


# ---- the command line ---------------------------------------------------------------------------

@test
def the_command_line_does_the_same():
    with Fixture() as h:
        assert h.weir("override", "list") == "no override is in force\n"
        assert h.weir("plan", "list") == "no plan is assigned\n"
        assert h.weir("audit") == "no such change\n"
        assert "give --exempt" in h.weir("override", "set", "login", "203.0.113.7", status=2)
        assert "block" in h.weir("override", "set", "login", "203.0.113.7", "--block", "--for", "2h",
                                 "--reason", "abuse", "--who", "ann")
        assert h.source("login", "203.0.113.7") == "blocked"
        h.weir("override", "set", "both", "ip=203.0.113.7", "--rule", "ip", "--limit", "50")
        listed = h.weir("override", "list")
        assert "both/ip" in listed and "limit 50" in listed and "ann: abuse" in listed
        assert json.loads(h.weir("override", "list", "both", "--json"))["overrides"][0]["limit"] == 50
        h.weir("override", "rm", "1", "--who", "bob")
        h.weir("override", "rm", "both", "ip=203.0.113.7", "--rule", "ip")
        assert "no such override" in h.weir("override", "rm", "1", status=2)
        h.weir("plan", "set", "tenant=acme", "paid")
        assert h.server.check("query", "acme")["limit"] == 5
        assert "plan paid" in h.weir("plan", "list")
        h.weir("plan", "rm", "tenant=acme")
        h.weir("mode", "login", "shadow", "--for", "10m")
        assert "mode shadow" in h.weir("audit", "login")
        h.weir("mode", "login", "file")
        assert "mode must be enforce" in h.weir("mode", "login", "loud", status=2)
        assert len(h.weir("audit").splitlines()) == 9
        assert len(h.weir("audit", "--after", "6", "-n", "1").splitlines()) == 2
        assert "not both" in h.weir("override", "set", "login", "203.0.113.7", "--block", "--exempt",
                                    status=2)


# ---- corrections --------------------------------------------------------------------------------

def left(h, policy, **whose):
    return h.call("POST", "/v1/peek", {"policy": policy, **whose})["remaining"]


@test
def a_correction_changes_what_is_counted_and_stays_in_the_audit_log_over_kill_9():
    with Fixture(kept=True) as h:
        ann = {"policy": "login", "key": "203.0.113.7"}
        h.server.check("login", "203.0.113.7")
        h.server.check("login", "203.0.113.7")
        made, = h.call("POST", "/v1/corrections", {**ann, "effect": "reset", "who": "ann", "reason": "called"})["entries"]
        assert (made["kind"], made["effect"], made["policy"], made["by"], made["who"], made["reason"]) == (
            "correction", "reset", "login", ["ip"], "ann", "called"), made
        assert left(h, "login", key="203.0.113.7") == 2
        h.call("POST", "/v1/corrections", {**ann, "effect": "charge", "cost": 2})
        assert left(h, "login", key="203.0.113.7") == 0
        refund, = h.call("POST", "/v1/corrections", {**ann, "effect": "refund", "cost": 1})["entries"]
        assert left(h, "login", key="203.0.113.7") == 1 and refund["cost"] == 1, refund
        tag = h.call("POST", "/v1/peek", {**ann, "tag": True})["tag"]
        h.server.kill()
        h.start()
        entries = h.call("GET", f"/v1/audit?tag={tag}")["entries"]
        assert [e["effect"] for e in entries] == ["reset", "charge", "refund"], entries
        assert "refund 1" in h.weir("audit"), h.weir("audit")
        assert h.call("GET", "/v1/stats")["ledger"]["override"] == 0
        assert h.call("GET", "/v1/overrides")["overrides"] == []


@test
def a_correction_names_each_identity_that_the_rules_count_by():
    with Fixture(policies=POLICIES + """
  pair:
    rules:
      ip: {limit: 3 per 1h, by: ip}
      again: {limit: 9 per 1d, by: ip}
      user: {limit: 3 per 1h, by: user}
  whole: {limit: 3 per 1h}
""") as h:
        whom = {"policy": "pair", "attributes": {"ip": "203.0.113.7", "user": "ann"}}
        entries = h.call("POST", "/v1/corrections", {**whom, "effect": "charge", "cost": 3})["entries"]
        assert [e["by"] for e in entries] == [["ip"], ["user"]], entries
        assert not h.call("POST", "/v1/check", whom)["allowed"]
        entry, = h.call("POST", "/v1/corrections", {"policy": "whole", "effect": "charge", "cost": 3})["entries"]
        assert entry["by"] == [], entry
        assert not h.call("POST", "/v1/check", {"policy": "whole"})["allowed"]


@test
def an_override_stands_beside_a_correction_and_cannot_be_undone_by_it():
    with Fixture() as h:
        h.put(policy="login", key="203.0.113.7", limit=50)
        made, = h.call("POST", "/v1/corrections", {"policy": "login", "key": "203.0.113.7", "effect": "reset"})["entries"]
        assert h.server.check("login", "203.0.113.7")["limit"] == 50
        assert "correct it once more" in h.call("POST", "/v1/undo", {"id": made["id"]}, status=400)["detail"]
        h.call("POST", "/v1/undo", {"id": 1})
        assert h.server.check("login", "203.0.113.7")["limit"] == 2


@test
def a_correction_that_is_not_clear_is_rejected_and_changes_nothing():
    with Fixture() as h:
        good = {"policy": "login", "key": "203.0.113.7", "effect": "refund", "cost": 1}
        h.server.check("login", "203.0.113.7")
        for body, said in (({**good, "effect": "reset"}, "leave 'cost' out"), ({**good, "cost": 0}, "give 'cost'"),
                           ({**good, "effect": "block"}, "reset, refund or charge"), ({**good, "for": "1h"}, "to a correction"),
                           ({**good, "tag": "0" * 32}, "to a correction"), ({**good, "rule": "default"}, "to a correction"),
                           ({**good, "limit": 3}, "to a correction"), ({**good, "key": "no address"}, "address"),
                           ({"policy": "both", "effect": "reset"}, "not given"), ({"effect": "reset", "attributes": {"ip": "203.0.113.7"}}, "the policy is missing"),
                           ({**good, "reason": "x" * 513}, "512"), ({**good, "cost": -1}, "whole number")):
            found = h.call("POST", "/v1/corrections", body, status=400)
            assert said in found["detail"], (body, found)
        h.call("POST", "/v1/corrections", {**good, "policy": "logn"}, status=404)
        h.call("PUT", "/v1/overrides", {"policy": "login", "key": "203.0.113.7", "effect": "reset"}, status=400)
        h.call("PUT", "/v1/overrides", {"policy": "login", "key": "203.0.113.7", "effect": "block", "cost": 1}, status=400)
        assert h.call("GET", "/v1/audit")["entries"] == [] and left(h, "login", key="203.0.113.7") == 1


@test
def what_applications_reset_and_refund_is_not_in_the_audit_log():
    with Fixture() as h:
        h.call("POST", "/v1/reset", {"policy": "login", "key": "203.0.113.7"})
        h.call("POST", "/v1/refund", {"policy": "login", "key": "203.0.113.7"})
        assert h.call("GET", "/v1/audit")["entries"] == []


run()
