#!/usr/bin/env python3
"""test_unanswered.py - checks without an answer are counted, logged, told and alerted of; and the log.

    test_unanswered.py TREE      from the root of the source
"""
import json
import os
import pty
import re
import subprocess
import sys

sys.path.insert(0, "tests/support")
from weir_server import PATIENCE, WEIR, Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  login: {limit: 5 per 15m, by: ip}
alerts:
  rules:
    nothing: {unanswered: 3 per 1m}
"""


def serve(folder, *words, **more):
    (folder / "policies.yaml").write_text(POLICIES)
    return Server(*words, config=folder / "policies.yaml", store="memory:", threads=2, **more)


def errors(server, headers=None):
    """{(code, protocol): count} of those that are not 0."""
    text = server.http("GET", "/metrics", None, headers)[2].decode()
    found = re.findall(r'^weir_unanswered_checks_total\{code="(\w+)",protocol="(\w+)"\} (\d+)$', text, re.M)
    assert len(found) == 57, text  # those that never were, too
    return {(code, protocol): int(n) for code, protocol, n in found if n != "0"}


@test
def a_renamed_policy_is_seen_by_all_that_watch():
    with Folder() as folder, serve(folder) as server:
        status, _, body = server.http("GET", "/v1/gate?policy=logn&ip=192.0.2.1")
        assert (status, body["code"]) == (404, "no_such_policy"), body
        for _ in range(5):
            server.http("GET", "/v1/gate?policy=logn&ip=192.0.2.1")
        server.check("logn", "192.0.2.1")
        server.http("POST", "/v1/check", {"checks": [{"policy": "logn", "key": "192.0.2.1"}]})
        said = server.resp("WEIR.CHECK", "logn", "192.0.2.1")
        assert said.startswith(b"-NO_SUCH_POLICY there is no policy 'logn'"), said
        assert errors(server) == {("no_such_policy", "http"): 8,
                                  ("no_such_policy", "resp"): 1}, errors(server)

        line = server.wait_for("unanswered")
        assert line["level"] == "warn" and line["code"] == "no_such_policy", line
        assert "there is no policy 'logn': did you mean 'login'?" in line["message"], line
        told = server.http("GET", "/v1/stats")[2]["unanswered"]
        assert (told["total"], told["recent"]) == (9, 9), told
        assert {(r["code"], r["protocol"], r["recent"]) for r in told["reasons"]} == {
            ("no_such_policy", "http", 8), ("no_such_policy", "resp", 1)}, told
        assert "192.0.2.1" not in json.dumps(told) + json.dumps(line)

        alert = server.wait_for("alert")
        assert (alert["condition"], alert["code"]) == ("unanswered", "no_such_policy"), alert
        assert alert["value"] > 3 and "had no answer in 1m: no_such_policy" in alert["message"], alert
        top = subprocess.run([WEIR, "top", "-s", server.url, "-i", "100ms"], capture_output=True,
                             text=True, timeout=PATIENCE, check=False).stdout
        assert "9 checks without an answer in 5m: there is no policy 'logn'" in top, top


@test
def one_check_is_called_one():
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text(POLICIES.replace("3 per 1m", "0 per 1m"))
        with Server(config=config, threads=1) as server:
            server.http("GET", "/v1/gate?policy=logn&ip=192.0.2.1")
            assert server.wait_for("alert")["message"] == "1 check had no answer in 1m: no_such_policy"
            top = subprocess.run([WEIR, "top", "-s", server.url, "-i", "100ms"], capture_output=True,
                                 text=True, timeout=PATIENCE, check=False).stdout
            assert "\n1 check without an answer in 5m: " in top, top


@test
def each_way_to_get_no_answer_is_counted_and_no_other():
    with Folder() as folder, serve(folder) as server:
        for path, body, code in (
                ("/v1/check", {"policy": "login"}, "invalid_attribute"),
                ("/v1/check", {"policy": "login", "key": "not an address"}, "invalid_attribute"),
                ("/v1/check", {"policy": "login", "key": "192.0.2.1", "cost": -1}, "invalid_cost"),
                ("/v1/check", {"policy": "login", "key": "192.0.2.1", "now": 1}, "clock_not_trusted"),
                ("/v1/check", {"polcy": "login"}, "invalid_request")):
            before = errors(server)
            status, _, said = server.http("POST", path, body)
            assert status == 400 and said["code"] == code, said
            now = errors(server)
            assert now.pop((code, "http")) == before.pop((code, "http"), 0) + 1 and now == before, now
        before = errors(server)
        server.http("POST", "/v1/peek", {"policy": "none", "key": "a"})
        server.http("POST", "/v1/refund", {"policy": "none", "key": "a"})
        server.http("GET", "/v1/chek?policy=none")
        server.resp("WEIR.PEEK", "none", "a")
        server.resp("PIN")
        assert errors(server) == before
        for words, code in ((("WEIR.CHECK", "login", "192.0.2.1", "COST", "x"), b"INVALID_REQUEST"),
                            (("WEIR.CHECK", "login", "not-an-ip"), b"INVALID_ATTRIBUTE"),
                            (("WEIR.LIMIT", "k", "best", "1", "1"), b"INVALID_REQUEST")):
            said = server.resp(*words)
            assert said.startswith(b"-" + code + b" "), said
        server.resp("CL.THROTTLE", "k", "x", "1", "1")
        assert {k: n for k, n in errors(server).items() if k[1] == "resp"} == {
            ("invalid_request", "resp"): 3, ("invalid_attribute", "resp"): 1}


@test
def requests_without_a_token_are_counted_too():
    with Folder() as folder:
        (folder / "token").write_text("a-token-for-metrics")
        (folder / "token").chmod(0o600)
        with serve(folder, "--token-file", f"metrics:{folder}/token") as server:
            metrics = {"Authorization": "Bearer a-token-for-metrics"}
            server.check("login", "192.0.2.1")
            server.http("GET", "/v1/gate?policy=login", None, metrics)
            assert server.resp("WEIR.CHECK", "login", "192.0.2.1").startswith(b"-NOAUTH ")
            assert errors(server, metrics) == {("unauthorized", "http"): 1, ("forbidden", "http"): 1,
                                               ("unauthorized", "resp"): 1}


@test
def the_command_line_has_the_same_codes():
    with Folder() as folder, serve(folder) as server:
        for where in ("--server", server.url), ("--config", folder / "policies.yaml"):
            done = subprocess.run([WEIR, "check", "--json", *where, "logn", "192.0.2.1"],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            said = json.loads(done.stdout)["error"]
            assert done.returncode == 2 and said["code"] == "no_such_policy", done
            assert "there is no policy 'logn'" in said["detail"] and said["detail"] in done.stderr


@test
def a_flood_of_nonsense_is_a_few_lines():
    with Folder() as folder, serve(folder) as server:
        for i in range(300):
            server.http("GET", f"/v1/gate?policy=none{i}%0A%1B[31m{'x' * 500}&ip=192.0.2.1")
        assert errors(server) == {("no_such_policy", "http"): 300}
        told = server.http("GET", "/v1/stats")[2]["unanswered"]
        assert told["recent"] == 300 and len(told["reasons"]) == 8, told
        assert all(len(r["detail"]) <= 160 and r["detail"].isprintable() for r in told["reasons"])
        server.wait_for("unanswered")
        assert server.stop() == 0
        lines = server.log.events("unanswered")
        assert 0 < len(lines) <= 20 and all(line["message"].isprintable() for line in lines), lines


@test
def the_alert_may_not_name_a_policy():
    with Folder() as folder:
        (folder / "policies.yaml").write_text(POLICIES.replace("3 per 1m", "3 per 1m, policy: login"))
        done = subprocess.run([WEIR, "policy", "lint", folder / "policies.yaml"], text=True,
                              capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 1 and "cannot be combined with unanswered" in done.stderr, done



# ---- the log itself ------------------------------------------------------------------------------


@test
def the_ready_line_says_what_is_served():
    with Folder() as folder, serve(folder) as server:
        line = server.wait_for("ready")
        assert (line["store"], line["policies"], line["config"]) == (
            "memory:", 1, str(folder / "policies.yaml")), line
        assert line["message"].endswith(f"store memory:, 1 policy of {folder}/policies.yaml"), line


@test
def first_hits_are_written_if_asked_for_and_levels_are_heeded():
    for words, events in (((), {"listening", "ready", "denied", "stopped"}),
                          (("--log-level", "debug"), {"listening", "ready", "first-hit", "denied"}),
                          (("--log-level", "warn"), set())):
        with Folder() as folder:
            (folder / "policies.yaml").write_text(POLICIES)
            log = folder / "log"
            command = [WEIR, "serve", "-c", folder / "policies.yaml", "--store", "memory:", "--log", log,
                       "--listen", f"unix:{folder}/socket", *words]
            with subprocess.Popen(command) as process:
                def ask():
                    return subprocess.run([WEIR, "check", "--server", f"unix:{folder}/socket", "login",
                                           "192.0.2.1", "--repeat", "6"], capture_output=True,
                                          timeout=PATIENCE, check=False).returncode == 1
                wait_until(ask, "an answer")
                process.terminate()
                assert process.wait(PATIENCE) == 0
            seen = {json.loads(line)["event"] for line in log.read_text().splitlines()}
            assert events <= seen, (words, seen)
            assert ("first-hit" in seen) == ("debug" in words), seen
            assert words != ("--log-level", "warn") or not seen, seen


@test
def on_a_terminal_lines_are_for_people():
    with Folder() as folder:
        main, other = pty.openpty()
        command = [WEIR, "serve", "--store", "memory:", "--listen", f"unix:{folder}/socket"]
        with subprocess.Popen(command, stderr=other, stdin=subprocess.DEVNULL) as process:
            os.close(other)
            text = b""
            while b" ready: weir " not in text:
                text += os.read(main, 4096)
            process.terminate()
            process.wait(PATIENCE)
        os.close(main)
        assert re.search(rb"^20\d\d-\S+Z info  ready: weir 0.1.0 is serving .* store=memory: ", text,
                         re.M) and b"{" not in text, text


run()
