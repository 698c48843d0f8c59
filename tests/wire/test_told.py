#!/usr/bin/env python3
"""test_told.py - what strangers have sent, or a stranger's server tells, never steers a terminal.

    test_told.py TREE      from the root of the source
"""
import http.server
import json
import os
import pty
import subprocess
import sys
import threading

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, WEIR, Server, run, test  # noqa: E402

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\x7f"  # clears the screen, names the window, and more
SHOWN = b"\x1b", b"\x07", b"\x7f", b"\xc2\x9b"
ENTRY = {"id": 1, "at_ms": 0, "kind": EVIL, "policy": EVIL, "rule": EVIL, "by": [EVIL], "tag": EVIL,
         "effect": EVIL, "plan": EVIL, "who": EVIL, "reason": EVIL}
RULE = {"rule": EVIL, "allowed": True, "limit": 5, "remaining": 4, "retry_after_ms": 0, "reset_after_ms": 0}
SIDE = {"checks": 1, "denied": 1, "denied_percent": 1.0, "identities": 1, "denied_identities": 1}
TOLD = {
    "/v1/overrides": {"overrides": [ENTRY], "stale": False},
    "/v1/plans": {"plans": [ENTRY], "stale": False},
    "/v1/audit": {"entries": [ENTRY], "last": 1},
    "/v1/check": {**RULE, "policy": EVIL, "source": EVIL, "delay_ms": 0, "shadow": False,
                  "rules": [RULE, RULE]},
    "/v1/alerts": {"now_ms": 1, "alerts": [{
        "alert": EVIL, "condition": EVIL, "state": EVIL, "value": 1, "over": 1, "window_ms": 1,
        "firing": [{"policy": EVIL, "rule": EVIL, "tag": EVIL}]}]},
    "/v1/shadow": {"limits": [{"policy": EVIL, "rule": EVIL, "kind": EVIL, "limit": 1, "window_ms": 1,
                               "since_ms": 0, "shadow": SIDE, "enforced": SIDE}]},
    "/v1/history": {"since_ms": 0, "until_ms": 60000, "step_ms": 60000, "checks": [
        {"policy": EVIL, "rule": EVIL, "points": [[0, 1, 1, 1, 1]]}], "series": [
        {"policy": EVIL, "rule": EVIL, "points": [[0, 1, 1, 1, 1]]}]},
    "/v1/top": {"top": [{"policy": EVIL, "rule": EVIL, "tag": EVIL, "denied": 3, "error": 0,
                         "last_ms": 0}]},
}


class Stranger(http.server.BaseHTTPRequestHandler):
    """An untrusted server that sends arbitrary data."""

    status = 200

    def do_GET(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.status == 200:
            body = TOLD[self.path.split("?")[0]]
        else:
            body = {"title": EVIL, "detail": EVIL, "code": EVIL}
        text = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Told:
    """What commands print that ask such a server."""

    def __init__(self, status=200):
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (Stranger,), {"status": status}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def words(self, *words):
        return [str(WEIR), *words, "--server", f"http://127.0.0.1:{self.server.server_port}"]

    def piped(self, *words):
        done = subprocess.run(self.words(*words), capture_output=True, timeout=PATIENCE)
        return done.stdout + done.stderr

    def on_a_terminal(self, *words):
        master, slave = pty.openpty()
        with subprocess.Popen(self.words(*words), stdout=slave, stderr=slave, stdin=subprocess.DEVNULL,
                              env={**os.environ, "NO_COLOR": "1"}) as process:
            os.close(slave)
            said = b""
            try:
                while piece := os.read(master, 65536):
                    said += piece
            except OSError:  # the other side is closed
                pass
            process.wait(PATIENCE)
        os.close(master)
        return said


COMMANDS = (("override", "list"), ("plan", "list"), ("audit",), ("alerts",), ("shadow",), ("history",),
            ("check", "login", "1.1.1.1"))


def is_harmless(said):
    return said and not any(sign in said for sign in SHOWN)


@test
def tables_of_server_data_have_no_control_characters():
    with Told() as told:
        for command in COMMANDS:
            said = told.piped(*command)
            assert is_harmless(said) and b"?[2J" in said, (command, said)


@test
def errors_of_a_server_have_no_controls_either():
    with Told(status=400) as told:
        for command in (*COMMANDS, ("override", "set", "login", "1.1.1.1", "--block"),
                        ("mode", "login", "off"), ("plan", "set", "tenant=acme", "paid"), ("top",)):
            said = told.piped(*command)
            assert is_harmless(said) and b"?[2J" in said, (command, said)


@test
def json_is_passed_on_unchanged_except_on_a_terminal():
    with Told() as told:
        for command in (("override", "list", "--json"), ("history", "--json"), ("shadow", "--json"),
                        ("alerts", "--json")):
            # As JSON has them, escapes are harmless; what it leaves as it is is not.
            assert b"\x7f" in told.piped(*command), command
            assert is_harmless(told.on_a_terminal(*command)), command


@test
def names_and_reasons_that_would_steer_a_terminal_are_not_even_kept():
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text("version: 1\npolicies:\n  query: {limit: 1 per 1d, by: tenant, "
                          "plans: {paid: 5 per 1d}}\n")
        with Server(config=config) as server:
            for name in ("\x1b[31m", "a b", "", "x" * 65, "\x9b", "tenant,ip", "ä"):
                for body in ({"attributes": {name: "acme"}}, {"tag": "0" * 32, "by": [name]}):
                    status, _, said = server.http("PUT", "/v1/plans", {**body, "plan": "paid"})
                    assert status == 400 and "cannot name an attribute" in said["detail"], (name, said)
                    assert is_harmless(json.dumps(said, ensure_ascii=False).encode()), said
            for member in "who", "reason":
                for text in "a\x1b[31m", "a\x9b", "a\nb", "a\x7f":
                    status, _, said = server.http("PUT", "/v1/plans", {
                        "attributes": {"tenant": "acme"}, "plan": "paid", member: text})
                    assert status == 400 and "one line of text" in said["detail"], (text, said)
            assert server.http("GET", "/v1/audit")[2]["entries"] == []
            tool = [str(WEIR), "plan", "set", "\x1b[31m=acme", "paid", "--server", server.url]
            done = subprocess.run(tool, capture_output=True, timeout=PATIENCE)
            assert done.returncode == 2 and is_harmless(done.stderr), done


run()
