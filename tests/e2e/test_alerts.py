#!/usr/bin/env python3
"""test_alerts.py - alerts of the policy file: in the log, and at webhooks that are well and unwell.

    test_alerts.py TREE      from the root of the source
"""
import http.server
import json
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, "tests/support")
from certificates import make_certs  # noqa: E402
from postgres import Postgres  # noqa: E402
from weir_server import WEIR, Folder, Server, free_port, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  login: {{limit: 1 per 1h, by: ip}}
alerts:
  webhook: "{url}"
  rules:
    refusing:     {{deny_rate: 50% per 1m, policy: login, least: 10}}
    one-attacker: {{identity_denials: 5 per 1h}}
    store-away:   {{breaker_open: 1s}}
    on-our-own:   {{fallback: 0 per 1m}}
"""


class Receiver:
    """A web server that keeps what it is sent. `statuses` are answered first, then 200."""

    def __init__(self, port=None, statuses=(), certificate=None):
        self.messages, self.heads, self.statuses = [], [], list(statuses)
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                receiver.heads.append((self.path, self.headers))
                if status == 200:
                    receiver.messages.append(json.loads(body))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port or 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def got(self, alert, state="firing"):
        return [m for m in list(self.messages) if m["alert"] == alert and m["state"] == state]


def serve(folder, url, store="memory:", **more):
    config = folder / "policies.yaml"
    config.write_text(POLICIES.format(url=url))
    return Server(config=config, store=store, threads=2, **more)


def attack(server, times=20):
    for _ in range(times):
        server.check("login", "192.0.2.1")


@test
def a_webhook_gets_each_logged_alert_once():
    with Receiver() as hook, Folder() as folder, \
            serve(folder, f"http://127.0.0.1:{hook.port}/hook?key=secret") as server:
        attack(server)
        wait_until(lambda: hook.got("refusing") and hook.got("one-attacker"), "both alerts")
        message, = hook.got("refusing")
        assert message["policy"] == "login" and "rule" not in message, message
        assert message["condition"] == "deny_rate" and message["over"] == 50, message
        assert message["value"] > 50 and message["denied"] > 5 and len(message["id"]) == 16, message
        attacker, = hook.got("one-attacker")
        assert attacker["value"] > 5 and len(attacker["tag"]) == 32, attacker
        assert attacker["tag"] == server.http("GET", "/v1/top")[2]["top"][0]["tag"]
        path, heads = hook.heads[0]
        assert path == "/hook?key=secret" and heads["Content-Type"] == "application/json", heads
        assert heads["User-Agent"].startswith("weir/"), heads
        lines = {line["alert"]: line for line in server.log.events("alert")}
        assert lines["refusing"]["level"] == "warn", lines
        assert {k: v for k, v in message.items() if k != "at_ms"}.items() <= lines["refusing"].items()

        def counted():
            text = server.http("GET", "/metrics")[2].decode()
            return "\nweir_alerts_firing 2\n" in text and "\nweir_webhooks_sent_total 2\n" in text
        wait_until(counted, "two alerts and two messages in the metrics")
        attack(server)
        before = time.time()
        wait_until(lambda: time.time() > before + 2, "two more looks")
        assert len(hook.messages) == 2, hook.messages


@test
def all_alerts_are_listed_with_their_states():
    with Folder() as folder, serve(folder, "http://127.0.0.1:9/") as server:
        def listed():
            return {a["alert"]: a for a in server.http("GET", "/v1/alerts")[2]["alerts"]}

        def tool():
            done = subprocess.run([WEIR, "alerts", "-s", server.url], capture_output=True, text=True,
                                  timeout=60, check=False)
            return done.returncode, done.stdout
        wait_until(listed, "the first look")
        assert {name: a["state"] for name, a in listed().items()} == dict.fromkeys(
            ["refusing", "one-attacker", "store-away", "on-our-own"], "ok"), listed()
        assert tool()[0] == 0, tool()
        begun = time.time() * 1000
        attack(server)
        wait_until(lambda: sum(a["state"] == "firing" for a in listed().values()) == 2, "two alerts")
        refusing, attacker = listed()["refusing"], listed()["one-attacker"]
        assert refusing["value"] > refusing["over"] == 50 and refusing["window_ms"] == 60000, refusing
        assert refusing["firing"][0]["policy"] == "login" and refusing["has_webhook"], refusing
        assert begun - 1000 <= refusing["since_ms"] <= time.time() * 1000 + 1000, refusing
        assert attacker["firing_count"] == 1 and attacker["value"] > attacker["over"] == 5, attacker
        assert attacker["firing"][0]["tag"] == server.http("GET", "/v1/top")[2]["top"][0]["tag"]
        assert listed()["store-away"]["since_ms"] is None, listed()
        assert "192.0.2.1" not in json.dumps(listed())
        status, text = tool()
        rows = {line.split()[0]: line.split() for line in text.splitlines()}
        assert status == 1 and rows["refusing"][2] == "firing" and rows["store-away"][2] == "ok", text


CHATS = """
version: 1
policies:
  shut: {{limit: 0, by: ip}}
alerts:
  webhook: "{url}/slack"
  format: slack
  rules:
    on-slack:   {{deny_rate: 50% per 1m}}
    on-discord: {{deny_rate: 50% per 1m, webhook: "{url}/discord", format: discord}}
    on-pager:   {{identity_denials: 5 per 1h, webhook: "{url}/v2/enqueue", format: pagerduty, routing_key: R0123}}
    on-pager-2: {{unanswered: 0 per 1m, webhook: "{url}/v2/enqueue", format: pagerduty, routing_key: R0123}}
    plain:      {{deny_rate: 50% per 1m, webhook: "{url}/json"}}
"""


@test
def chats_and_pagers_get_what_they_take():
    with Receiver() as hook, Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text(CHATS.format(url=f"http://127.0.0.1:{hook.port}"))
        with Server(config=config) as server:
            for _ in range(30):
                server.check("shut", "192.0.2.1")
            server.check("none", "192.0.2.1")
            wait_until(lambda: len(hook.messages) >= 5, "all messages")
            tag = server.http("GET", "/v1/top")[2]["top"][0]["tag"]
        # In the order of their arrival, as the paths are.
        said = {}
        for (path, _), message in zip(hook.heads, hook.messages):
            said.setdefault(path, []).append(message)
        slack, = said["/slack"]
        assert list(slack) == ["text"], slack
        assert slack["text"].startswith("[firing] on-slack: shut denies 100% of its"), slack
        discord, = said["/discord"]
        assert list(discord) == ["content"], discord
        assert discord["content"].startswith("[firing] on-discord: shut denies 100%"), discord
        plain, = said["/json"]
        assert plain["alert"] == "plain" and plain["policy"] == "shut", plain
        pages = {page["payload"]["class"]: page for page in said["/v2/enqueue"]}
        page = pages["identity_denials"]
        assert (page["routing_key"], page["event_action"]) == ("R0123", "trigger"), page
        assert tag in page["dedup_key"] and len(page["dedup_key"]) <= 255, page
        payload = page["payload"]
        assert payload["severity"] == "warning" and payload["source"] == socket.gethostname(), payload
        assert "was denied" in payload["summary"] and payload["custom_details"]["tag"] == tag, payload
        assert pages["unanswered"]["payload"]["severity"] == "critical", pages
        assert "R0123" not in json.dumps(server.log.events("alert")), "a secret is in the log"


@test
def a_receiver_that_is_down_gets_it_when_it_is_back():
    port = free_port()
    with Folder() as folder, serve(folder, f"http://127.0.0.1:{port}/") as server:
        attack(server)
        waiting = server.wait_for("webhook")
        assert "not delivered yet" in waiting["message"] and "refused" in waiting["message"], waiting
        with Receiver(port, statuses=[500, 429]) as hook:
            wait_until(lambda: hook.got("refusing") and hook.got("one-attacker"), "both alerts")
            assert len(hook.messages) == 2, hook.messages


@test
def a_webhook_receiver_that_hangs_delays_no_check():
    with Folder() as folder:
        with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes, and never answers
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            with serve(folder, url) as server:
                attack(server)
                server.wait_for("alert")
                held, _ = silent.accept()
                assert server.check("login", "192.0.2.9")["allowed"]
                assert not server.log.events("webhook"), "a decision waited for the webhook"
                assert server.stop() == 0
                assert "not delivered before the end" in server.log.events("webhook")[-1]["message"]
                held.close()


@test
def a_tls_receiver_must_match_its_host_name():
    with Folder() as folder:
        make_certs(folder)
        pem = folder / "hook.pem"
        pem.write_text((folder / "server.key").read_text() + (folder / "server.pem").read_text())
        with Receiver(certificate=pem) as hook:
            url = f"https://localhost:{hook.port}/"
            with serve(folder, url, env={"SSL_CERT_FILE": str(folder / "ca.pem")}) as server:
                attack(server)
                wait_until(lambda: hook.got("refusing"), "an alert by TLS")
            told = len(hook.messages)
            with serve(folder, url, env={"SSL_CERT_FILE": "/dev/null"}) as server:
                attack(server)
                assert "certificate" in server.wait_for("webhook")["message"]
            assert len(hook.messages) == told


@test
def the_breaker_and_the_fallback_are_logged_and_so_is_their_end():
    with Postgres(fsync="off") as db, Receiver() as hook, Folder() as folder:
        db.migrate()
        url = f"http://127.0.0.1:{hook.port}/"
        with serve(folder, url, store=db.url + "?deadline=2s") as server:
            server.check("login", "192.0.2.1")
            db.crash()

            def both():
                server.check("login", "192.0.2.1")
                return hook.got("store-away") and hook.got("on-our-own")
            wait_until(both, "both alerts")
            assert hook.got("store-away")[0]["condition"] == "breaker_open"
            assert hook.got("on-our-own")[0]["policy"] == "login"
            db.start()

            def over():
                server.check("login", "192.0.2.1")
                return hook.got("store-away", "resolved")
            wait_until(over, "the end of it")


run()
