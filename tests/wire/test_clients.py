#!/usr/bin/env python3
"""test_clients.py - `weir check --server`, `weir top` and `weir bench` against servers, real and feigned.

    test_clients.py TREE      from the root of the source
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from certificates import make_certs  # noqa: E402
from weir_server import PATIENCE, WEIR, Folder, Server, run, test, wait_until  # noqa: E402

NOW = "1700000000000"
POLICIES = """
version: 1
policies:
  login: {limit: 2 per 15m, by: ip}
  query: {limit: 10 per 1d, by: tenant, plans: {paid: 20 per 1d}}
  pair:
    rules:
      all: {limit: 100 per 1m}
      ip: {limit: 2 per 1m, by: ip}
      user: {limit: 1 per 1m, by: user, mode: shadow}
  paced: {limit: 10 per 1s, burst: 20, by: user, algorithm: leaky_bucket}
  closed: {limit: 0}
  gone: {limit: 1 per 1s, mode: 'off'}
exempt:
  - {ip: 10.0.0.0/8}
"""
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}


def weir(*words, env=None, stdin=None):
    return subprocess.run([str(WEIR), *map(str, words)], env={**CLEAN, **(env or {})},
                          stdin=subprocess.DEVNULL if stdin is None else None, input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=4 * PATIENCE, check=False)


def equal(actual, expected):
    assert actual == expected, f"{actual!r} is not {expected!r}"


def fails(result, pattern):
    """Trouble: status 2, a line on stderr that has the pattern and perhaps one that says what to do,
    nothing on stdout."""
    equal((result.returncode, result.stdout), (2, ""))
    assert re.fullmatch(f"weir: .*{pattern}.*\n(weir: give .*\n)?", result.stderr), result.stderr


class Policies(Folder):
    """A folder with a policy file."""

    def __enter__(self):
        path = super().__enter__()
        (path / "policies.yaml").write_text(POLICIES)
        return path / "policies.yaml"


class Feigned(threading.Thread):
    """A server that does what answer(connection, bytes) does; answer returns False to hang up."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                while data := connection.recv(65536):
                    if self.answer(connection, data) is False:
                        return
            except OSError:
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


# ---- check ----------------------------------------------------------------------------------

QUESTIONS = [
    ["login", "203.0.113.7", "--repeat", "3"],
    ["login", "ip=203.0.113.7", "--json", "--repeat", "3"],
    ["login", "10.1.2.3"],
    ["query", "acme", "--plan", "paid", "--cost", "5"],
    ["query", "acme", "--cost", "11"],
    ["query", "acme", "--cost", "0"],
    ["query", "acme", "--peek"],
    ["query", "acme", "--refund"],
    ["query", "acme", "--charge", "--cost", "12000"],
    ["pair", "ip=203.0.113.9", "user=ann", "--charge", "--cost", "100", "--json"],
    ["query", "acme", "--reset", "--json"],
    ["query", "--key", "a=b \u00e9\"\\"],
    ["pair", "ip=203.0.113.7", "user=ann", "--repeat", "3"],
    ["pair", "ip=203.0.113.7", "user=ann", "--json", "--repeat", "3"],
    ["paced", "ann", "--repeat", "3"],
    ["closed"],
    ["gone"],
    ["--limit", "5 per 1m", "bob", "--repeat", "6"],
    ["--limit", "5 per 1m", "--algorithm", "token_bucket", "--burst", "9", "bob"],
    ["--limit", "100 per 1h", "--precision", "1m", "bob", "--json"],
    ["--limit", "0", "bob", "--quiet"],
]


@test
def a_server_answers_as_a_limiter_of_ones_own():
    for question in QUESTIONS:
        with Policies() as policies, Server("--trust-client-clock", config=policies) as server:
            config = [] if "--limit" in question else ["--config", policies]
            here = weir("check", *config, *question, "--now", NOW)
            there = weir("check", "--server", server.url, *question, "--now", NOW)
            equal((there.returncode, there.stdout, there.stderr),
                  (here.returncode, here.stdout, here.stderr))


@test
def errors_of_a_server_are_printed_as_it_sends_them():
    with Policies() as policies, Server(config=policies) as server:
        ask = ["check", "--server", server.url]
        fails(weir(*ask, "logni", "203.0.113.7"), "there is no policy 'logni': did you mean 'login'")
        fails(weir(*ask, "login", "secret-person"), "attribute 'ip' is not an IP address")
        assert "secret-person" not in weir(*ask, "login", "secret-person").stderr
        fails(weir(*ask, "login", "203.0.113.7", "--now", NOW), "its own clock")
        fails(weir(*ask, "--limit", "5 per 1m", "--key-file", "-", stdin="a\0b"), "UTF-8")


@test
def a_unix_socket_and_the_environment_name_the_server():
    with Policies() as policies, \
            Server(config=policies, listen=f"unix:{policies.parent}/socket") as _:
        url = f"unix:{policies.parent}/socket"
        equal(weir("check", "-s", url, "login", "203.0.113.7").returncode, 0)
        equal(weir("check", "login", "203.0.113.7", env={"WEIR_SERVER": url}).returncode, 0)
        equal(weir("check", "login", "203.0.113.7", env={"WEIR_SERVER": url}).returncode, 1)
        # Who says where the counters live does not mean that server.
        equal(weir("check", "-c", policies, "login", "203.0.113.7",
                   env={"WEIR_SERVER": url}).returncode, 0)


@test
def a_token_is_read_from_its_file():
    with Policies() as policies:
        token, wrong, empty = (policies.parent / name for name in ("token", "wrong", "empty"))
        for path, text in (token, "0123456789abcdef\n"), (wrong, "x" * 16), (empty, "\n"):
            path.write_text(text)
            path.chmod(0o600)
        with Server("--token-file", f"check:{token}", config=policies) as server:
            ask = ["check", "-s", server.url, "login", "203.0.113.7"]
            fails(weir(*ask), "token")
            fails(weir(*ask, "--token-file", wrong), "token")
            fails(weir(*ask, "--token-file", empty), "contains no token")
            fails(weir(*ask, "--token-file", "/none"), "cannot read /none")
            equal(weir(*ask, "--token-file", token).returncode, 0)
            equal(weir(*ask, env={"WEIR_TOKEN_FILE": str(token)}).returncode, 0)
            fails(weir("top", "-s", server.url, "--token-file", token), "scope")


@test
def an_unreachable_or_foreign_server_is_reported():
    with Feigned(lambda c, _: c.sendall(b"+PONG\r\n")) as redis, \
            Feigned(lambda *_: False) as mute, \
            Feigned(lambda c, _: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as web:
        ask = ["check", "login", "203.0.113.7", "--server"]
        fails(weir(*ask, f"http://{redis.address}"), "it is not HTTP")
        fails(weir(*ask, f"http://{mute.address}"), "closed the connection without an answer")
        fails(weir(*ask, f"http://{web.address}"), "is it a weir server")
    fails(weir(*ask, "unix:/none/socket"), "No such file or directory: is the server running")
    for url in "localhost:7878", "http://", "http://h:x", "http://h:0", "http://h/v1", "ftp://h", \
               "http://token@h", "http://[::1", "unix:":
        fails(weir(*ask, url), "is not a server URL")
    fails(weir(*ask, "http://h", "--store", "memory:"), "--store is a setting of the server")
    fails(weir("check", "login", "k", "--token-file", "f"), "--token-file is for a server")


@test
def a_tls_server_must_match_its_host_name():
    with Policies() as policies:
        make_certs(policies.parent)
        cert, key = policies.parent / "server.pem", policies.parent / "server.key"
        with Server("--tls-cert", cert, "--tls-key", key, config=policies) as server:
            ask = ["check", "login", "203.0.113.7", "--repeat", "2", "--server"]
            trust = {"SSL_CERT_FILE": str(policies.parent / "ca.pem")}
            equal(weir(*ask, f"https://127.0.0.1:{server.port}", env=trust).returncode, 0)
            equal(weir(*ask, f"https://localhost:{server.port}", env=trust).returncode, 1)
            fails(weir(*ask, f"https://127.0.0.2:{server.port}", env=trust), "Connection refused")
            fails(weir(*ask, f"https://127.0.0.1:{server.port}"), "unable to get local issuer")
            shown = weir("top", "-s", f"https://127.0.0.1:{server.port}", "-i", "100ms", env=trust)
            assert "login/default" in shown.stdout, shown.stderr
        with Server("--tls-cert", cert, "--tls-key", key, config=policies,
                    listen="127.0.0.2:0") as server:
            fails(weir(*ask, f"https://127.0.0.2:{server.port}", env=trust), "IP address mismatch")
    with Feigned(lambda c, _: c.sendall(b"-ERR what\r\n")) as other:
        fails(weir(*ask, f"https://{other.address}"), "by TLS: wrong version number")


# ---- top ------------------------------------------------------------------------------------

def screen(server, *actions, rows=24, columns=80):
    """What `weir top` draws on a terminal; each action is a key or a signal, and is heeded at once,
    however long it is until the next look."""
    terminal, other_end = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    modes, drawn, waiting = termios.tcgetattr(terminal), b"", list(actions)
    top = subprocess.Popen([WEIR, "top", "-i", "1d", "-s", server.url], stdin=other_end,
                           stdout=other_end, stderr=other_end, env={**CLEAN, "TERM": "xterm"})
    os.close(other_end)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                drawn += os.read(terminal, 65536)
            except OSError:
                break
        if waiting and drawn.count(b"q quits") > len(actions) - len(waiting):
            action = waiting.pop(0)
            if isinstance(action, bytes):
                os.write(terminal, action)
            else:
                top.send_signal(action)
    else:
        top.kill()
    status = top.wait()
    assert termios.tcgetattr(terminal) == modes, "the terminal is not as it was"
    os.close(terminal)
    return drawn.decode(), status


def denied_often(server):
    for _ in range(5):
        server.check("login", "203.0.113.7")


@test
def top_shows_rules_rates_and_hashed_identities():
    with Policies() as policies, Server(config=policies) as server:
        denied_often(server)
        shown = weir("top", "-s", server.url, "--interval", "100ms")
        equal((shown.returncode, shown.stderr), (0, ""))
        assert re.search(r"^login +[\d.]+ +[\d.]+ +0 +2 +3$", shown.stdout, re.M), shown.stdout
        assert re.search(r"^login/default +[0-9a-f]{32} +3 ", shown.stdout, re.M), shown.stdout
        assert "203.0.113.7" not in shown.stdout
        assert max(map(len, shown.stdout.splitlines())) <= 80


@test
def top_counts_checks_and_shows_which_rules_deny():
    with Policies() as policies, Server(config=policies) as server:
        for i in range(10):
            attributes = {"ip": f"192.0.2.{i % 2}", "user": "u"}
            server.http("POST", "/v1/check", {"policy": "pair", "attributes": attributes})
        shown = weir("top", "-s", server.url, "-i", "100ms")
        rows = [line.split() for line in shown.stdout.splitlines()]
        pair, = (i for i, row in enumerate(rows) if row[:1] == ["pair"])
        equal(rows[pair][-2:], ["4", "6"])  # allowed, those that shadow would deny included; denied
        equal([(row[0], row[-1]) for row in rows[pair + 1:pair + 4]],
              [("all", "0"), ("ip", "6"), ("user", "0")])
        equal(len([row for row in rows if row[:1] == ["closed"]]), 1)  # though it had no checks


@test
def top_polls_at_the_given_interval():
    with Policies() as policies, Server(config=policies) as server:
        shown = weir("top", "-s", server.url, "-i", "100ms", "-n", "3")
        equal(shown.stdout.count("DENIED MOST"), 3)
        lines = weir("top", "-s", server.url, "-i", "100ms", "-n", "2", "--json").stdout.splitlines()
        equal([sorted(json.loads(line)) for line in lines], [["stats", "top"]] * 2)


@test
def top_fits_the_terminal_and_leaves_it_as_it_was():
    with Policies() as policies, Server(config=policies) as server:
        denied_often(server)
        for rows, columns in (24, 80), (10, 50), (50, 200):
            drawn, status = screen(server, b"x", b"q", rows=rows, columns=columns)
            equal(status, 0)
            assert drawn.endswith("\033[?25h\033[?1049l"), drawn[-40:]
            page = re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", drawn.split("\033[H")[-1])
            lines = page.replace("\r", "").split("\n")
            assert len(lines) <= rows and max(map(len, lines)) <= columns, page
            assert re.search(r"^login +[\d.]+ ", page, re.M), page
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            drawn, status = screen(server, number)
            assert drawn.endswith("\033[?25h\033[?1049l"), drawn[-40:]
            equal(status, 0 if number == signal.SIGINT else -number)


@test
def top_waits_for_a_restarting_server():
    with Policies() as policies, Server(config=policies) as server:
        port = server.port
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(WEIR, [str(WEIR), "top", "-i", "100ms", "-s", server.url], CLEAN)
        drawn = b""

        def appears(text):
            nonlocal drawn
            if select.select([terminal], [], [], 0.05)[0]:
                drawn += os.read(terminal, 65536)
            return text in drawn

        wait_until(lambda: appears(b"POLICY"), "the screen")
        server.kill()
        wait_until(lambda: appears(b"cannot reach"), "the trouble")
        with Server(config=policies, listen=f"127.0.0.1:{port}"):
            drawn = b""
            wait_until(lambda: appears(b"up 0s"), "the next life")
            os.write(terminal, b"q")
            wait_until(lambda: appears(b"\033[?1049l"), "the end")
            equal(os.waitpid(pid, 0)[1], 0)
        os.close(terminal)


@test
def top_reports_why_it_fails():
    fails(weir("top", "-s", "http://127.0.0.1:1"), "is the server running")
    fails(weir("top", "-s", "resp://127.0.0.1:1"), "give http://")
    fails(weir("top", "-i", "1"), "--interval: '1' is not a duration")
    fails(weir("top", "-i", "1ms"), "--interval is from")
    fails(weir("top", "login"), "takes options only")


# ---- bench ----------------------------------------------------------------------------------

def bench(*words, status=0):
    result = weir("bench", "--json", *words)
    equal((result.returncode, result.stderr), (status, ""))
    return json.loads(result.stdout)


def by_both_ways(*words):
    """By epoll, and by io_uring where the machine has it."""
    return [bench("--io", io, *words) for io in ("epoll", "auto")]


def resp_replies(data, reply=b":1\r\n"):
    """A reply for each command in these bytes, which begins them."""
    return reply * data.count(b"*")


@test
def bench_counts_what_a_limit_admits():
    with Policies() as policies, Server(config=policies) as server:
        resp = "resp://%s:%d" % server.address
        for words in ["-s", resp], ["-s", server.url], ["-s", resp, "--command", "cl.throttle"]:
            for io in "epoll", "auto":
                r = bench(*words, "-n", "3000", "-k", "10", "-l", "7 per 1h", "-c", "8", "-P", "4",
                          "-t", "2", "--io", io, "--key", io + words[-1] + "#")
                equal((r["requests"], r["allowed"], r["denied"], r["errors"]), (3000, 70, 2930, 0))
        r = bench("-s", resp, "--policy", "login", "--key", "198.1##.1##.1##", "-k", "50", "-n", "999")
        equal((r["allowed"], r["denied"]), (100, 899))


@test
def bench_keeps_a_whole_histogram():
    with Server() as server:
        r = bench("-s", server.url, "-n", "2000")
        latency, counts = r["latency_us"], r["histogram"]
        order = [latency[name] for name in ("min", "p50", "p90", "p99", "p99.9", "max")]
        equal(order, sorted(order))
        equal(sum(count for _, count in counts), 2000)
        ends = [end for end, _ in counts]
        equal(ends, sorted(set(ends)))
        assert ends[-1] >= latency["max"] and ends[-1] <= latency["max"] * 1.01
        equal(sum(count for end, count in counts if end <= latency["p50"]) >= 1000, True)


@test
def bench_sends_keys_of_its_format():
    seen = set()

    def answer(connection, data):
        seen.update(re.findall(rb"\$8\r\n(\S+)\r\n", data))
        connection.sendall(resp_replies(data))

    with Feigned(answer) as server:
        r = bench("-s", f"resp://{server.address}", "--command", "raw:SET {key} v", "--key", "user-###",
                  "-k", "200", "-n", "5000", "-c", "1", "-P", "10")
        equal((r["request"], r["allowed"], r["errors"]), ("SET", 5000, 0))
        assert len(seen) == 200 and all(re.fullmatch(rb"user-[01]\d\d", key) for key in seen), seen


@test
def bench_sends_an_id_that_no_other_request_has():
    seen = []

    def answer(connection, data):
        seen.extend(re.findall(rb"\$18\r\na-([0-9a-f]{16})\r\n.*?\$18\r\nb-([0-9a-f]{16})\r\n", data,
                               re.S))
        connection.sendall(resp_replies(data))

    with Feigned(answer) as server:
        for _ in range(2):
            r = bench("-s", f"resp://{server.address}", "--command",
                      "raw:SET a-{id} {key} ; DEL b-{id}", "-n", "1000", "-c", "2", "-t", "2")
            equal((r["allowed"], r["errors"]), (1000, 0))
        assert len(seen) >= 2000 and all(a == b for a, b in seen), seen[:10]
        equal(len(set(seen)), len(seen))


@test
def bench_measures_reservations():
    with Folder() as folder:
        policies = folder / "policies.yaml"
        policies.write_text("version: 1\npolicies: {jobs: {limit: 100000 per 1h, by: user}}\n")
        server = Server(config=policies)
    with server:
        r = bench("-s", f"resp://127.0.0.1:{server.port}", "--command",
                  "raw:WEIR.RESERVE jobs {key} TTL 60000 ID {id} COST 3 ; WEIR.COMMIT {id} COST 2",
                  "--key", "ann", "-k", "1", "-n", "500", "-c", "4", "-P", "4")
        equal((r["allowed"], r["errors"]), (500, 0))
        peek = server.http("POST", "/v1/peek", {"policy": "jobs", "key": "ann"})[2]
        # One more was sent before all others.
        equal(peek["remaining"], 100000 - 501 * 2)


# A server stops for a while. A generator that waits for it would send one slow request, and none
# of those that should have come meanwhile: here they are late, and seen to be.
@test
def a_stall_is_not_hidden_from_an_open_loop():
    stalled = []

    def answer(connection, data):
        if not stalled and answer.count > 50:
            stalled.append(True)
            time.sleep(0.5)
        answer.count += 1
        connection.sendall(resp_replies(data))

    answer.count = 0
    with Feigned(answer) as server:
        r = bench("-s", f"resp://{server.address}", "--command", "ping", "-c", "1", "-r", "200",
                  "-d", "1500ms")
    late = sum(count for end, count in r["histogram"] if end >= 100e3)
    assert late >= 70, late  # of the 100 in half a second, those with at least 100 ms left to wait
    assert r["latency_us"]["max"] >= 490e3
    assert 290 <= r["requests"] + r["lost"] <= 301, r["requests"]


@test
def a_rate_is_kept():
    with Server() as server:
        r = bench("-s", server.url, "-r", "500", "-d", "1s", "-t", "2", "-c", "4")
        assert 499 <= r["requests"] + r["lost"] <= 501, r
        equal((r["rate"], r["errors"]), (500, 0))


@test
def errors_are_counted_and_reported():
    def answer(connection, data):
        for _ in range(data.count(b"*")):
            answer.count += 1
            connection.sendall(b"-ERR every tenth\r\n" if answer.count % 10 == 0 else b"+OK\r\n")

    answer.count = 0
    with Feigned(answer) as server:
        r = bench("-s", f"resp://{server.address}", "--command", "ping", "-n", "100", "-c", "1", status=1)
        equal((r["allowed"], r["errors"]), (90, 10))
        text = weir("bench", "-s", f"resp://{server.address}", "--command", "ping", "-n", "100", "-c", "1")
        assert "ERR every tenth" in text.stdout, text.stdout


@test
def a_connection_that_ends_is_made_again():
    def answer(connection, _):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n.")
        return False

    def endless(connection, _):
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nno length")
        return False

    def hang_up(connection, _):
        hang_up.count += 1
        return False if hang_up.count > 1 else connection.sendall(b"+OK\r\n")

    for how in answer, endless:
        with Feigned(how) as server:
            for r in by_both_ways("-s", f"http://{server.address}", "--path", "/{key}", "-n", "50", "-c", "2"):
                equal((r["allowed"], r["errors"], r["lost"]), (50, 0, 0))
                assert r["reconnects"] >= 40, r
    for io in "epoll", "auto":
        hang_up.count = 0
        with Feigned(hang_up) as server:
            fails(weir("bench", "-s", f"resp://{server.address}", "--command", "ping", "-n", "20", "-c", "2",
                       "--io", io), "gave no answer")


@test
def answers_in_pieces_are_put_together():
    def answer(connection, data):
        for byte in resp_replies(data, b"*2\r\n:1\r\n$5\r\nh\r\nlo\r\n"):
            connection.sendall(bytes([byte]))

    with Feigned(answer) as server:
        for r in by_both_ways("-s", f"resp://{server.address}", "-n", "40", "-c", "2", "-P", "4", "-l",
                              "5 per 1m"):
            equal((r["allowed"], r["errors"]), (40, 0))


@test
def a_token_is_shown_on_every_connection():
    with Policies() as policies:
        token = policies.parent / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        with Server("--token-file", f"check:{token}", config=policies) as server:
            for url in server.url, "resp://%s:%d" % server.address:
                r = bench("-s", url, "--token-file", token, "-n", "100", "-c", "5")
                equal((r["allowed"], r["errors"]), (100, 0))
                fails(weir("bench", "-s", url, "-n", "1"), "answers with an error: ")


@test
def bench_prints_csv():
    with Server() as server:
        names, values = weir("bench", "-s", server.url, "-n", "100", "--csv", "--label", "x",
                             "--warmup", "10ms").stdout.splitlines()
        row = dict(zip(names.split(","), values.split(",")))
        equal(len(names.split(",")), len(values.split(",")))
        equal((row["label"], row["request"], row["errors"]), ("x", "POST /v1/check", "0"))


@test
def bench_can_be_interrupted_and_still_reports():
    with Server() as server, subprocess.Popen(
            [str(WEIR), "bench", "-s", server.url, "-d", "1h"], env=CLEAN, stdout=subprocess.PIPE,
            text=True) as process:
        wait_until(lambda: server.http("GET", "/v1/stats")[2]["requests"]["http"] > 1000, "its load")
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=PATIENCE)[0]
        equal(process.returncode, 0)
        assert "latency    p50" in out, out


@test
def bench_reports_errors_before_it_starts():
    with Policies() as policies, Server(config=policies) as server:
        resp = "resp://%s:%d" % server.address
        fails(weir("bench", "-s", server.url, "--policy", "none"), "there is no policy 'none'")
        fails(weir("bench", "-s", resp, "--policy", "login"), "is not an IP address")
        fails(weir("bench", "-s", server.url, "--path", "/none"), "answers with an error: ")
    fails(weir("bench", "-s", "http://127.0.0.1:1"), "is the server running")
    fails(weir("bench", "-s", "https://h"), "does not support TLS")
    fails(weir("bench", "-s", "http://h", "--command", "ping"), "--command is for RESP")
    fails(weir("bench", "-s", "resp://h", "--path", "/"), "--path is for HTTP")
    fails(weir("bench", "-s", "http://h", "--path", "x"), "--path must begin with '/'")
    fails(weir("bench", "-s", "resp://h", "--command", "frob"), "is not one of cl.throttle")
    fails(weir("bench", "-s", "resp://h", "--command", "weir.check"), "needs a policy")
    fails(weir("bench", "-s", "resp://h", "--command", "raw:"), "followed by 1 to")
    fails(weir("bench", "--policy", "p", "--limit", "5 per 1m"), "exclude each other")
    fails(weir("bench", "--key", "k#", "-k", "11"), "not enough for 11 keys")
    fails(weir("bench", "-t", "2", "-c", "1"), "cannot be more than --connections")
    fails(weir("bench", "-r", "1000000000"), "--rate is at most")
    fails(weir("bench", "-r", "10", "--io", "uring"), "--io uring is for loads without --rate")
    fails(weir("bench", "--io", "poll"), "'poll' is not one of epoll, uring, auto")
    fails(weir("bench", "now"), "takes options only")


run()
