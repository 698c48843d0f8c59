#!/usr/bin/env python3
"""test_top.py - `weir top` on a terminal: views, sorting, filters, and what operators do from there.

    test_top.py TREE      from the root of the source
"""
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from screen import Screen  # noqa: E402
from weir_server import WEIR, Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  login: {limit: 2 per 15m, by: ip}
  query: {limit: 10 per 1d, by: tenant, plans: {paid: 20 per 1d, free: 5 per 1d}}
  pair:
    rules:
      all: {limit: 100 per 1m}
      ip: {limit: 1 per 1h, by: ip}
      user: {limit: 50 per 1h, by: user}
"""
UP, DOWN, RIGHT, ESC, ENTER, TAB, F1 = "\033[A", "\033[B", "\033[C", "\033", "\r", "\t", "\033OP"


class Served:
    """A server with policies, and two addresses that it denies."""

    def __init__(self, *arguments, tokens=()):
        self.folder = Folder()
        self.arguments, self.tokens = list(arguments), {}
        self.names = tokens

    def __enter__(self):
        path = self.folder.__enter__()
        listed = "".join(f"    - {{file: {path / scope}, scope: [{scope}]}}\n" for scope in self.names)
        (path / "policies.yaml").write_text(POLICIES + (f"server:\n  tokens:\n{listed}" if listed else ""))
        for scope in self.names:
            self.tokens[scope] = path / scope
            self.tokens[scope].write_text(f"a-token-for-{scope}-0123456789")
            self.tokens[scope].chmod(0o600)
        self.server = Server(*self.arguments, config=path / "policies.yaml")
        self.server.__enter__()
        return self

    def __exit__(self, *reason):
        self.server.__exit__(*reason)
        self.folder.__exit__(*reason)

    def call(self, method, path, body=None, scope=None):
        headers = {"Authorization": f"Bearer {self.tokens[scope].read_text()}"} if scope else None
        status, _, said = self.server.http(method, path, body, headers)
        assert status == 200, said
        return said

    def deny(self, scope=None):
        for i, ip in enumerate(("203.0.113.7", "198.51.100.9")):
            for _ in range(4 + 3 * i):
                self.call("POST", "/v1/check", {"policy": "login", "key": ip}, scope)

    def check(self, policy, key):
        return self.call("POST", "/v1/check", {"policy": policy, "key": key})

    def top(self, *more, scope=None, **screen):
        token = ["--token-file", self.tokens[scope]] if scope else []
        return Screen(WEIR, "top", "-s", self.server.url, "-i", "100ms", *token, *more, **screen)


def column(screen, title):
    """The first words of the rows below the titles."""
    lines = screen.lines()
    head = next(i for i, line in enumerate(lines) if line.startswith(title))
    rows = []
    for line in lines[head + 1:]:
        if not line:
            break
        rows.append(line.split()[0])
    return rows


@test
def policies_are_sorted_by_the_chosen_column_either_way():
    with Served() as s:
        s.deny()
        s.call("POST", "/v1/check", {"policy": "pair", "attributes": {"ip": "192.0.2.1", "user": "ann"}})
        with s.top() as top:
            top.waits_for(r"^login .* 4 +7 ", pattern=True)
            top.type(">")  # by name
            top.waits_for("POLICY ^")
            assert column(top, "POLICY") == ["login", "pair", "all", "ip", "user", "query"], top.text()
            top.type("i")
            top.waits_for("POLICY v")  # rules stay below their policy
            assert column(top, "POLICY") == ["query", "pair", "all", "ip", "user", "login"], top.text()
            top.type(">>>>>")
            top.waits_for("denied v")
            assert column(top, "POLICY")[0] == "login", top.text()
            top.type("q")
            assert top.ends() == 0


@test
def a_filter_leaves_what_has_the_text_and_escape_shows_all():
    with Served() as s, s.top() as top:
        top.waits_for("login")
        top.type("/que")
        top.waits_for(lambda: "login" not in top.text())
        assert column(top, "POLICY") == ["query"], top.text()
        top.type(ENTER)
        top.waits_for("filter: que (1 rows")
        top.type(ESC)
        top.waits_for("login")
        top.type("/USER", ENTER)  # of a rule, whatever the case: with its policy
        top.waits_for("filter: USER")
        assert column(top, "POLICY") == ["pair", "all", "ip", "user"], top.text()


@test
def a_denied_row_is_blocked_with_end_and_reason_and_the_block_is_undone():
    with Served() as s:
        s.deny()
        with s.top() as top:
            top.waits_for("POLICY")
            top.type("2")
            top.waits_for("DENIED MOST")
            wait_until(lambda: top.read(0.05) or len(column(top, "DENIED MOST")) == 2, "two rows")
            top.type(DOWN)  # the one that is denied less often
            wait_until(lambda: top.read(0.05) or " 2 " in top.selected(), "the selection")
            tag = top.selected().split()[1]
            top.type("b")
            top.waits_for(f"{tag[:12]} in login: block")
            top.type("\x7f\x7f2h", TAB, "stuffs passwords", ENTER)
            top.waits_for("done: ")
            made, = s.call("GET", "/v1/overrides")["overrides"]
            assert made["effect"] == "block" and made["reason"] == "stuffs passwords", made
            assert made["tag"].startswith(tag) and 7100e3 < made["expires_ms"] - made["at_ms"] <= 7200e3, made
            assert s.check("login", "203.0.113.7")["source"] == "blocked"
            top.waits_for(rf"{tag} .*block$", pattern=True)
            top.type("u")
            top.waits_for("taken back")
            assert s.call("GET", "/v1/overrides")["overrides"] == []
            assert s.check("login", "203.0.113.7")["source"] == "store"
            top.type("u")
            top.waits_for("nothing to take back")


@test
def other_limits_plans_and_exemptions_are_set_from_a_lookup():
    with Served() as s, s.top(columns=100) as top:
        top.waits_for("POLICY")
        top.type("L")
        top.waits_for("Look up a value")
        top.type("acme", ENTER)
        top.waits_for("query/default")
        top.type("/query", ENTER)
        top.waits_for("filter: query")
        top.type("l")
        top.waits_for("acme in query: limit")
        top.type("500", TAB, TAB, "until friday", ENTER)
        top.waits_for("limit 500")
        assert s.check("query", "acme")["limit"] == 500
        top.type("p")
        top.waits_for("< paid >")
        top.read(0.5)  # choices stay while the page is filled anew
        top.type(RIGHT)
        top.waits_for("< free >")
        top.type(TAB, "\x15", TAB, ENTER)  # without an end
        top.waits_for("plan free")
        assert s.check("query", "acme")["limit"] == 5
        top.type("e", ENTER, ENTER)
        top.waits_for("exempt")
        wait_until(lambda: s.check("query", "acme")["source"] == "exempt", "the exemption")
        top.type("3")
        top.waits_for("who and why")
        top.waits_for(r"query .*exempt", pattern=True)
        top.type("x")
        top.waits_for("in query: remove")
        top.type(ENTER)
        top.waits_for("no override and no plan is in force")
        assert s.check("query", "acme")["source"] == "store"


@test
def what_is_counted_is_reset_and_refunded_with_a_reason_in_the_audit_log():
    with Served() as s:
        s.deny()
        with s.top(columns=100) as top:
            top.waits_for("POLICY")
            top.type("L203.0.113.7", ENTER)
            top.waits_for(r"login/default +ip +2 +2 +0 ", pattern=True)
            top.type("r")
            top.waits_for("forget what is counted")
            top.type("called the desk", ENTER)
            top.waits_for(r"login/default +ip +2 +0 +2 ", pattern=True)
            top.type("u")
            top.waits_for(r"login/default +ip +2 +2 +0 ", pattern=True)
            top.type("f", ENTER, "failed order", ENTER)
            top.waits_for(r"login/default +ip +2 +1 +1 ", pattern=True)
            audit = s.call("GET", "/v1/audit")["entries"]
            assert [(e["kind"], e["effect"], e.get("cost"), e["reason"]) for e in audit] == [
                ("correction", "reset", None, "called the desk"), ("correction", "charge", 2, ""),
                ("correction", "refund", 1, "failed order")], audit
            top.type("6")
            top.waits_for("failed order")
            top.type("u")  # the selected one cannot be taken back like a setting
            top.waits_for("correct it once more")


@test
def several_attributes_are_looked_up_by_their_names():
    with Served() as s, s.top(columns=100) as top:
        s.call("POST", "/v1/check", {"policy": "pair", "attributes": {"ip": "192.0.2.1", "user": "ann"}})
        top.waits_for("POLICY")
        top.type("L192.0.2.1", ENTER)
        top.waits_for("pair: give ")
        top.type("Lip=192.0.2.1 user=ann", ENTER)
        top.waits_for(r"pair/ip +ip +1 +1 +0 ", pattern=True)
        top.type("/pair/ip", ENTER, "b", ENTER, ENTER)
        top.waits_for(r"pair/ip .*block$", pattern=True)
        made, = s.call("GET", "/v1/overrides")["overrides"]
        assert (made["policy"], made["by"]) == ("pair", ["ip"]), made


@test
def a_policy_changes_its_mode_and_goes_back():
    with Served() as s, s.top() as top:
        def mode():
            policy, = (p for p in s.call("GET", "/v1/policies")["policies"] if p["policy"] == "query")
            return policy.get("live_mode")
        top.waits_for("POLICY")
        top.type("/query", ENTER, "m")
        top.waits_for("< shadow >")
        top.type(RIGHT)
        top.waits_for("< off >")
        top.type(ENTER, "\x1530m", ENTER, "incident 42", ENTER)
        top.waits_for("off*")
        assert mode()["mode"] == "off" and mode()["expires_ms"] > 0, mode()
        assert s.check("query", "acme")["source"] == "off"
        entry = s.call("GET", "/v1/audit")["entries"][-1]
        assert entry["reason"] == "incident 42" and 1790e3 < entry["expires_ms"] - entry["at_ms"] <= 1800e3, entry
        top.type("6")
        top.waits_for("mode off")
        top.type("u")
        top.waits_for("taken back: change 1")
        assert not mode(), mode()


@test
def what_the_server_rejects_is_said_and_can_be_corrected():
    with Served() as s, s.top() as top:
        top.waits_for("POLICY")
        top.type("m", ENTER, "\x15soon", ENTER, ENTER)
        top.waits_for("'for': 'soon' is not a duration")
        top.type(UP, "\x151h", ENTER, ENTER)
        top.waits_for("done: ")
        top.type("m", ESC)
        top.waits_for(lambda: "Mode" not in top.text())
        assert len(s.call("GET", "/v1/audit")["entries"]) == 1


@test
def enter_goes_from_a_policy_to_whom_it_denies():
    with Served() as s:
        s.deny()
        for _ in range(3):
            s.call("POST", "/v1/check", {"policy": "pair", "attributes": {"ip": "192.0.2.1", "user": "ann"}})
        with s.top() as top:
            top.waits_for(r"^pair ", pattern=True)
            top.type("/pair", ENTER, ENTER)
            top.waits_for("DENIED MOST")
            top.waits_for("filter: pair/")
            assert column(top, "DENIED MOST") == ["pair/ip"], top.text()


@test
def the_selection_follows_its_row_when_the_order_changes():
    with Served() as s, s.top() as top:
        top.waits_for("POLICY")
        top.type(">>>>>>")  # by denied, the most first
        top.waits_for("denied v")
        top.type("G")
        top.waits_for(lambda: top.selected().startswith("  user") or top.selected().startswith("query"))
        top.type("/query", ENTER, ESC)
        top.type("g")
        before = top.waits_for("row") if "row" in top.text() else top.selected()
        top.type("j" * 4)
        top.waits_for(lambda: top.selected() != before)
        chosen = top.selected().split()[0]
        for _ in range(9):
            s.check("login", "203.0.113.7")
        top.waits_for(lambda: column(top, "POLICY")[0] == "login")
        assert top.selected().split()[0] == chosen, top.text()


@test
def the_screen_is_fit_to_any_size_at_once():
    with Served() as s:
        s.deny()
        with s.top("-i", "1d", rows=30, columns=120) as top:
            top.waits_for(r"denied +mode", pattern=True)
            for rows, columns in (24, 80), (10, 40), (6, 24), (50, 200), (4, 20):
                top.resize(rows, columns)  # the screen itself fails if a line is too long or scrolls
                top.waits_for("login")
                for view in "2345671":
                    top.type(view)
                    top.waits_for(lambda view=view: re.search(rf"^(1 .*)?{view} [A-Z]|{view} [A-Z]", top.text(), re.M))
                top.type("?")
                top.read(0.2)
                top.type("?")
            top.resize(24, 80)
            top.waits_for("login")
            top.type("q")
            assert top.ends() == 0


@test
def the_terminal_is_given_back_however_it_ends():
    with Served() as s:
        for end, status in (("q", 0), ("\x03", 0), ("\x04", 0), (signal.SIGTERM, -signal.SIGTERM),
                            (signal.SIGHUP, -signal.SIGHUP), (signal.SIGINT, 0)):
            with s.top() as top:
                top.waits_for("POLICY")
                if isinstance(end, str):
                    top.type(end)
                else:
                    top.signal(end)
                assert top.ends() == status, end
        with s.top() as top:  # also out of a form
            top.waits_for("POLICY")
            top.type("m")
            top.waits_for("Reason")
            top.type("\x03")
            assert top.ends() == 0


@test
def no_color_leaves_only_the_selection():
    with Served() as s:
        s.deny()
        with s.top() as top:
            top.waits_for("POLICY")
            assert top.colours, "no colours"
        with s.top(env={"NO_COLOR": "1"}) as top:
            top.waits_for("POLICY")
            top.read(0.3)
            assert not top.colours, top.colours
            assert top.selected().startswith("login"), top.text()


@test
def a_token_offers_what_its_scopes_permit():
    with Served(tokens=("admin", "view", "metrics", "check")) as s:
        s.deny("check")
        with s.top(scope="admin", columns=120) as top:
            top.waits_for("m mode")
            assert "token admin" in top.text(), top.text()
        with s.top(scope="view", columns=120) as top:
            top.waits_for("this token can look and not act")
            assert "m mode" not in top.text() and "L lookup" not in top.text()
            top.type("m")
            top.waits_for("mode: a token with scope admin is needed")
            top.type("2")
            top.waits_for("login/default")
            assert "b block" not in top.text()
            top.type("u")
            top.type("7")
            top.waits_for("a token with scope admin is needed to look up values")
            top.type("6")
            top.waits_for("no changes yet")
        with s.top(scope="metrics", columns=120) as top:
            top.waits_for(r"^login .* 4 +7", pattern=True)
            top.type("2")
            top.waits_for("a token with scope admin or view is needed to see them")
            top.type("4")
            top.waits_for("no reservations yet")


@test
def budgets_and_leases_have_their_views():
    with Served() as s, s.top(columns=100) as top:
        s.call("POST", "/v1/reserve", {"policy": "query", "key": "acme", "cost": 3, "ttl_ms": 60000})
        top.waits_for("POLICY")
        top.type("4")
        top.waits_for(r"^query +1 +1 +0 +0", pattern=True)
        top.waits_for(r"^  default, requests +3", pattern=True)
        top.type("5")
        top.waits_for("leases held")


@test
def a_server_that_is_away_is_said_so_and_found_again():
    with Served() as s, s.top() as top:
        top.waits_for("POLICY")
        port = s.server.port
        s.server.kill()
        top.waits_for("these numbers are old: cannot reach")
        assert "login" in top.text()  # what was known stays
        top.type("m", ENTER, ENTER, ENTER)
        top.waits_for("cannot reach")
        top.type(ESC)
        with Server(config=s.folder.path / "policies.yaml", listen=f"127.0.0.1:{port}"):
            top.waits_for(lambda: "these numbers" not in top.text())
            top.waits_for("up 0s" if "up 0s" in top.text() else "up ")


@test
def the_help_lists_every_key():
    with Served() as s, s.top() as top:
        top.waits_for("? help")
        for key in "?", F1:
            top.type(key)
            shown = top.waits_for("take back the last change")
            for word in "block", "exempt", "limit", "plan", "reset", "refund", "mode", "remove", "sort", "look up", "view":
                assert word in shown, word
            top.type(ESC)
            top.waits_for("POLICY")


run()
