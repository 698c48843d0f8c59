#!/usr/bin/env python3
"""test_console.py - what the page for operators asks a server for, and who may ask for it.

    test_console.py TREE      from the root of the source
"""
import gzip
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """version: 1
policies:
  login: {limit: 2 per 1h, by: ip}
  query: {limit: 1 per 1d, by: tenant, plans: {paid: 5 per 1d}}
  both:
    rules:
      ip:    {limit: 9 per 1h, by: ip}
      owner: {limit: 3 per 1h, by: [tenant, ip]}
  all: {limit: 1000 per 1h}
"""
READ = ("policies", "overrides", "plans", "audit", "stats", "top", "shadow", "history", "alerts", "reload", "token")


class Fixture:
    """A server with one token for each scope, named as the scope, and one with a name of its own."""

    def __init__(self, policies=POLICIES):
        self.folder = Folder()
        self.config = self.folder.path / "policies.yaml"
        (self.folder.path / "linked").mkdir()
        self.config.symlink_to("linked/policies.yaml")  # a change of it waits for a reload
        tokens = "server:\n  tokens:\n"
        for scope in ("check", "admin", "metrics", "reset", "view"):
            self.secret(scope)
            tokens += f"    - {{file: {scope}.token, scope: {scope}}}\n"
        self.secret("x")
        self.config.write_text(policies + tokens + "    - {file: x.token, scope: [admin, check], name: ann}\n")
        self.server = Server(config=self.config, store=f"file:{self.folder.path}/store")

    def secret(self, name):
        file = self.folder.path / f"{name}.token"
        file.write_text(f"a-token-for-{name}-of-weir")
        file.chmod(0o600)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def ask(self, method, path, body=None, token="admin"):
        return self.server.http(method, path, body, {"Authorization": f"Bearer a-token-for-{token}-of-weir"})

    def call(self, *words, **more):
        status, _, said = self.ask(*words, **more)
        assert status == 200, (words, status, said)
        return said


@test
def a_token_can_be_asked_for_its_name_and_scopes():
    with Fixture() as f:
        assert f.call("GET", "/v1/token", token="view") == {"name": "view", "scopes": ["view"], "is_needed": True}
        assert f.call("GET", "/v1/token", token="x") == {"name": "ann", "scopes": ["check", "admin"], "is_needed": True}
        assert f.server.http("GET", "/v1/token")[0] == 401
        assert f.ask("GET", "/v1/token", token="nobody")[0] == 401
    with Server() as server:
        said = server.http("GET", "/v1/token")[2]
        assert said == {"name": None, "scopes": ["check", "admin", "metrics", "reset", "view"], "is_needed": False}, said


@test
def a_token_to_view_reads_what_admin_reads_and_changes_nothing():
    with Fixture() as f:
        for name in READ:
            assert f.ask("GET", f"/v1/{name}", token="view")[0] == 200, name
        changes = [("POST", "/v1/reload", None), ("POST", "/v1/undo", {"id": 1}), ("POST", "/v1/lookup", {"key": "a"}),
                   ("POST", "/v1/usage", {"policy": "login", "key": "192.0.2.1"}),
                   ("POST", "/v1/reset", {"policy": "login", "key": "192.0.2.1"}),
                   ("POST", "/v1/check", {"policy": "login", "key": "192.0.2.1"}),
                   ("PUT", "/v1/overrides", {"policy": "login", "key": "192.0.2.1", "effect": "block"}),
                   ("DELETE", "/v1/overrides?id=1", None), ("PUT", "/v1/plans", {}), ("DELETE", "/v1/plans?id=1", None),
                   ("POST", "/v1/policies/login/mode", {"mode": "off"}), ("DELETE", "/v1/policies/login/mode", None)]
        for method, path, body in changes:
            assert f.ask(method, path, body, token="view")[0] == 403, (method, path)
        assert f.ask("GET", "/v1/top", token="metrics")[2]["detail"] == \
            "this needs the scope admin or view, which the token does not have"
        assert [e["kind"] for e in f.call("GET", "/v1/audit")["entries"]] == ["reload"]  # the start


@test
def the_audit_log_names_the_token():
    with Fixture() as f:
        block = {"policy": "login", "key": "192.0.2.1", "effect": "block"}
        assert f.call("PUT", "/v1/overrides", block)["who"] == "token admin"
        assert f.call("PUT", "/v1/overrides", {**block, "who": "bob"}, token="x")["who"] == "bob (token ann)"
        assert f.call("POST", "/v1/policies/login/mode", {"mode": "off"}, token="x")["who"] == "token ann"
        status, _, said = f.ask("PUT", "/v1/overrides", {**block, "who": "b" * 128})
        assert status == 400 and "who" in said["detail"], said


@test
def a_value_is_looked_up_in_every_policy():
    with Fixture() as f:
        for _ in range(2):
            f.call("POST", "/v1/check", {"policy": "login", "key": "192.0.2.1"}, token="check")
        said = f.call("POST", "/v1/lookup", {"key": "192.0.2.1"})
        rows = {p["policy"]: p for p in said["policies"]}
        assert list(rows) == ["login", "query", "both"] and said["left_out"] == 0, said
        rule = rows["login"]["rules"][0]
        tag = f.call("POST", "/v1/peek", {"policy": "login", "key": "192.0.2.1", "tag": True}, token="check")["tag"]
        assert (rule["tag"], rule["by"], rule["used"], rule["left"], rule["limit"]) == (tag, ["ip"], 2, 0, 2), rule
        assert 0 < rule["reset_after_ms"] <= 3_600_000, rule
        assert rows["both"] == {"policy": "both", "missing": "ip"}, rows["both"]
        said = f.call("POST", "/v1/lookup", {"attributes": {"ip": "192.0.2.1", "tenant": "acme"}})
        rows = {p["policy"]: p for p in said["policies"]}
        assert [r["by"] for r in rows["both"]["rules"]] == [["ip"], ["tenant", "ip"]], rows
        assert rows["both"]["rules"][0]["tag"] == tag != rows["both"]["rules"][1]["tag"], rows
        assert f.call("POST", "/v1/check", {"policy": "login", "key": "192.0.2.1"}, token="check")["remaining"] == 0


@test
def a_value_that_can_be_none_is_left_out_and_what_is_exempt_has_no_numbers():
    with Fixture() as f:
        said = f.call("POST", "/v1/lookup", {"key": "acme"})
        assert [p["policy"] for p in said["policies"]] == ["query", "both"], said
        status, _, said = f.ask("POST", "/v1/lookup", {"attributes": {"ip": "acme"}})
        assert (status, said["code"]) == (400, "invalid_attribute") and "acme" not in said["detail"], said
        assert f.ask("POST", "/v1/lookup", {})[0] == 400
        f.call("PUT", "/v1/overrides", {"policy": "query", "key": "acme", "effect": "exempt"})
        rule = f.call("POST", "/v1/lookup", {"key": "acme"})["policies"][0]["rules"][0]
        assert rule["counts"] == "requests" and "used" not in rule, rule
        f.call("PUT", "/v1/overrides", {"policy": "query", "key": "acme", "effect": "block"})
        rule = f.call("POST", "/v1/lookup", {"key": "acme"})["policies"][0]["rules"][0]
        assert (rule["used"], rule["left"]) == (0, 1), rule


@test
def a_change_is_taken_back_to_what_held_before_and_outlives_a_kill():
    with Fixture() as f:
        block = {"policy": "login", "key": "192.0.2.1", "effect": "block", "for": "1h", "reason": "attack"}
        first = f.call("PUT", "/v1/overrides", block)
        second = f.call("PUT", "/v1/overrides", {"policy": "login", "key": "192.0.2.1", "effect": "exempt"})
        status, _, said = f.ask("POST", "/v1/undo", {"id": first["id"]})
        assert (status, said["detail"]) == (400, "change 2 was followed by change 3 of the same: undo that one"), said
        undone = f.call("POST", "/v1/undo", {"id": second["id"]})
        assert {**undone, "id": 2, "at_ms": first["at_ms"], "reason": "attack"} == first, undone
        assert undone["reason"] == "undo of 3", undone
        f.server.kill()
        f.server = Server(config=f.config, store=f"file:{f.folder.path}/store")
        assert f.call("POST", "/v1/peek", {"policy": "login", "key": "192.0.2.1"}, token="check")["source"] == "blocked"
        mode = f.call("POST", "/v1/policies/login/mode", {"mode": "off"})
        assert f.call("POST", "/v1/undo", {"id": mode["id"], "reason": "oops"}, token="x")["reason"] == "oops"
        assert "live_mode" not in f.call("GET", "/v1/policies")["policies"][0]
        for bad, why in (({"id": 99}, "there is no change 99"), ({}, "the id is missing: give that of a change"),
                         ({"id": 5, "policy": "login"}, "'policy' does not belong")):
            status, _, said = f.ask("POST", "/v1/undo", bad)
            assert status == 400 and said["detail"].startswith(why), said


@test
def a_removal_is_taken_back_and_what_is_over_is_not():
    with Fixture() as f:
        plan = {"attributes": {"tenant": "acme"}, "plan": "paid"}
        made = f.call("PUT", "/v1/plans", plan)
        gone = f.call("DELETE", f"/v1/plans?id={made['id']}")
        back = f.call("POST", "/v1/undo", {"id": gone["id"]})
        assert back["plan"] == "paid" and [p["id"] for p in f.call("GET", "/v1/plans")["plans"]] == [back["id"]], back
        short = f.call("PUT", "/v1/overrides", {"policy": "login", "key": "192.0.2.1", "effect": "block", "for": "300ms"})
        wait_until(lambda: not f.call("GET", "/v1/overrides")["overrides"], "its end")
        assert f.ask("POST", "/v1/undo", {"id": short["id"]})[2]["detail"] == f"change {short['id']} has expired"


@test
def the_newest_changes_are_listed():
    with Fixture() as f:
        for i in range(7):
            f.call("PUT", "/v1/overrides", {"policy": "login", "key": f"192.0.2.{i}", "effect": "block"})
        said = f.call("GET", "/v1/audit?newest=3")
        assert [e["id"] for e in said["entries"]] == [6, 7, 8] and said["last"] == 8, said
        assert [e["id"] for e in f.call("GET", "/v1/audit?newest=1000")["entries"]] == list(range(1, 9))
        assert f.ask("GET", "/v1/audit?newest=1001")[0] == 400


@test
def what_a_reload_would_change_is_told_and_not_done():
    with Fixture() as f:
        assert f.call("GET", "/v1/reload") == {"changes": "no policy has changed", "diff": []}
        text = f.config.read_text()
        f.config.write_text(text.replace("limit: 2 per 1h", "limit: 20 per 1h").replace("  all: {limit: 1000 per 1h}\n", ""))
        said = f.call("GET", "/v1/reload")
        assert said["changes"] == "removed all; changed login/default", said
        changed = [d for d in said["diff"] if d["change"] == "changed"]
        assert changed == [{"policy": "login", "rule": "default", "change": "changed", "was": {"limit": 2}, "is": {"limit": 20}}], said
        assert f.call("GET", "/v1/policies")["policies"][0]["rules"][0]["limit"] == 2
        assert f.call("POST", "/v1/reload")["changes"] == "removed all; changed login/default"
        assert f.call("GET", "/v1/reload")["diff"] == []
        f.config.write_text("version: 1\npolicies: {login: {limit: none}}\n")
        assert f.ask("GET", "/v1/reload")[2]["code"] == "invalid_policy_file"
    with Server() as server:
        assert server.http("GET", "/v1/reload")[2]["detail"] == "there is no policy file to reload"


@test
def the_page_is_small_compressed_and_kept_by_browsers():
    with Server() as server:
        _, headers, page = server.http("GET", "/", None, {"Accept": "text/html"})
        assert headers["Cache-Control"] == "no-cache" and "Content-Encoding" not in headers, headers
        known = {"Accept": "text/html", "If-None-Match": headers["ETag"]}
        status, headers, body = server.http("GET", "/", None, known)
        assert (status, body) == (304, b"") and "Content-Length" not in headers, (status, headers)
        assert server.http("GET", "/", None, {**known, "If-None-Match": 'W/"0123"'})[0] == 200
        folder = page.decode().split('src="/ui/')[1].split("/")[0]
        total = 0
        for file in Path("web").iterdir():
            _, headers, body = server.http("GET", f"/ui/{folder}/{file.name}", None, {"Accept-Encoding": "gzip, br"})
            assert headers["Cache-Control"] == "public, max-age=31536000, immutable", headers
            assert headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in headers["Vary"], headers
            assert len(body) < file.stat().st_size, file
            plain = server.http("GET", f"/ui/{folder}/{file.name}", None, {"Accept-Encoding": "gzip;q=0"})[2]
            assert gzip.decompress(body) == plain, file
            total += len(plain)
        assert total < 150_000, total
        assert server.http("GET", "/ui/0123456789abcdef/app.js")[0] == 404


run()
