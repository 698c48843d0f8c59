#!/usr/bin/env python3
"""test_proxies.py - the configurations of examples/proxies, with the real proxies.

    test_proxies.py TREE      from the root of the source

Clients come from 127.0.0.2 and on, or from where the proxy is, 127.0.0.1. The ports in the
configurations are replaced by free ones.
"""
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, Server, free_port, run, test, wait_until  # noqa: E402

EXAMPLES = Path("examples/proxies")
DEADLINES = re.compile(r"(?<=timeout )[12]00ms|(?<=settimeout\()0\.2")
PLACES = {"nginx": "/usr/sbin/nginx", "haproxy": "/usr/sbin/haproxy", "caddy": "/usr/bin/caddy"}


class Application(http.server.ThreadingHTTPServer):
    """What stands behind a proxy: it greets, and counts whom."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.server.greeted += 1
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        do_POST = do_GET

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.greeted = 0
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Feigned(socketserver.ThreadingTCPServer):
    """In the place of weir: it hears, and says this or, if it is None, nothing at all."""
    daemon_threads = True

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline().strip():
                pass
            if self.server.says is None:
                self.rfile.read()
            else:
                self.wfile.write(self.server.says)

    def __init__(self, says):
        self.says = says
        super().__init__(("127.0.0.1", 0), self.Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Proxy:
    """One of the proxies, with its example; in front of weir at `port`."""

    def __init__(self, name, weir_port, application, folder, policy="login", is_patient=True):
        self.port, self.application = free_port(), application
        self.folder = Path(folder)
        for path in EXAMPLES.iterdir():
            text = path.read_text()
            for written, real in ((7878, weir_port), (8000, application.server_address[1])):
                text = re.sub(rf"127\.0\.0\.1([: ]){written}\b", rf"127.0.0.1\g<1>{real}", text)
            for written, real in (("listen 8080", f"listen 127.0.0.1:{self.port}"),
                                  ("bind :8080", f"bind 127.0.0.1:{self.port}"),
                                  ("http://:8080 {", f"http://:{self.port} {{\n\tbind 127.0.0.1"),
                                  ("policy=login", f"policy={policy}")):
                text = text.replace(written, real)
            if is_patient:  # a busy machine is not a weir that hangs
                text = DEADLINES.sub(lambda deadline: "20s" if "ms" in deadline[0] else "20", text)
            if path.name == "nginx.conf":
                kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
                text = text.replace("http {\n", "http {\n" + "".join(
                    f"    {kind}_temp_path {self.folder}/{kind};\n" for kind in kinds))
            (self.folder / path.name).write_text(text)
        command = {
            "nginx": ["-p", str(self.folder), "-c", "nginx.conf", "-e", "stderr"],
            "haproxy": ["-db", "-f", "haproxy.cfg"],
            "caddy": ["run", "--config", "Caddyfile", "--adapter", "caddyfile"],
        }[name]
        self.said = open(self.folder / "said", "wb")
        self.process = subprocess.Popen(
            [shutil.which(name) or PLACES[name], *command], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=self.said, stderr=subprocess.STDOUT, env={**os.environ, "HOME": str(self.folder)})
        wait_until(self.listens, f"{name} to listen")

    def listens(self):
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "said").read_text())
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
            return True
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.said.close()

    def ask(self, path, client="127.0.0.2", headers=None, **more):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                                source_address=(client, 0))
        try:
            connection.request("POST", path, b"user=a&password=b", {
                **(headers or {}), **{name.replace("_", "-"): value for name, value in more.items()}})
            response = connection.getresponse()
            return response.status, response.headers, self.body_of(response)
        finally:
            connection.close()

    @staticmethod
    def body_of(response):
        """Some reset the connection of a bad request at once, as they have not read all of it."""
        try:
            return response.read()
        except ConnectionResetError:
            assert response.status == 400, response.status
            return b""

    def say(self, head, client="127.0.0.2"):
        """These very bytes; what is heard until the end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE,
                                      source_address=(client, 0)) as s:
            s.sendall(head)
            try:
                return s.makefile("rb").read()
            except ConnectionError:
                return b""

    def use_up(self, **more):
        """All logins that this client has; none of its others may reach the application now."""
        statuses = [self.ask("/login", **more)[0] for _ in range(6)]
        assert statuses == [200] * 5 + [429], statuses
        return self.application.greeted


def behind(name, statement, weir_port=None, arguments=(), **more):
    if not shutil.which(name) and not Path(PLACES[name]).exists():
        return f"{name} is not installed"
    with Folder() as folder, Application() as application, \
            Server(*arguments, config="examples/policies.yaml") as weir:
        with Proxy(name, weir_port or weir.port, application, folder, **more) as proxy:
            statement(proxy)
    return None


def statement(function):
    """One test for each of the proxies."""
    for name in PLACES:
        def for_this(name=name):
            return function(name)
        for_this.__name__ = f"{name}_{function.__name__}"
        test(for_this)


# ---- answers ------------------------------------------------------------------------------------

@statement
def lets_five_logins_pass_and_refuses_the_sixth(name):
    def holds(proxy):
        for left in 4, 3, 2, 1, 0:
            status, headers, body = proxy.ask("/login")
            assert (status, body) == (200, b"hello"), (status, body)
            assert headers["RateLimit"].startswith(f'"login";r={left};t='), headers
            assert headers["RateLimit-Policy"] == '"login";q=5;w=900', headers
        status, headers, body = proxy.ask("/login")
        assert status == 429 and headers["Content-Type"] == "application/problem+json", headers
        assert 0 < int(headers["Retry-After"]) <= 900, headers
        assert headers.get_all("RateLimit")[0].startswith('"login";r=0;t='), headers
        assert len(headers.get_all("RateLimit")) == 1, headers
        problem = json.loads(body)
        assert (problem["status"], problem["code"]) == (429, "denied"), problem
        assert proxy.application.greeted == 5
    return behind(name, holds)


@statement
def counts_each_client_apart_and_other_pages_not_at_all(name):
    def holds(proxy):
        proxy.use_up()
        assert proxy.ask("/login", client="127.0.0.3")[0] == 200
        for path in ("/", "/nologin", "/a/login", "/log", "/?/login") * 2:
            status, headers, _ = proxy.ask(path)
            assert (status, headers["RateLimit"]) == (200, None), (path, status, headers)
    return behind(name, holds)


# ---- attacks ------------------------------------------------------------------------------------

@statement
def is_not_fooled_by_a_spoofed_address(name):
    def holds(proxy):
        for client in "127.0.0.2", "127.0.0.1":  # from elsewhere, and from where the proxy is
            statuses = [proxy.ask("/login", client, X_Forwarded_For=f"203.0.113.{i}",
                                  Forwarded=f"for=203.0.113.{i}", X_Real_IP=f"203.0.113.{i}")[0]
                        for i in range(8)]
            assert statuses == [200] * 5 + [429] * 3, (client, statuses)
            for spoofed in ("127.0.0.1", "10.0.0.1", "rubbish", "203.0.113.1, 127.0.0.1", ",", ""):
                status = proxy.ask("/login", client, X_Forwarded_For=spoofed)[0]
                assert status == 429, (client, spoofed, status)
    # What it trusts must not matter either.
    return behind(name, holds, arguments=("--trusted-proxies", "127.0.0.1"))


@statement
def knows_a_login_however_its_path_is_written(name):
    def holds(proxy):
        greeted = proxy.use_up()
        for path in ("//login", "///login", "/%6cogin", "/%6C%6fgin", "/./login", "/%2e/login",
                     "/x/../login", "/x/%2e%2e/login", "/x/.%2E//login", "/x/y/../../login",
                     "/x/.././login", "/x%2f..%2flogin", "/../login", "/LOGIN", "/LogIn", "/login/",
                     "/login/x", "/login;a=b", "/login?a=b", "/login%3Fa", "/login.php", "/login%00",
                     "/login%zz", "/login%", "/%00/../login", "/%zz/../login",
                     f"http://127.0.0.1:{proxy.port}/login", "/login#a"):
            status = proxy.ask(path)[0]
            assert status in (429, 400), (path, status)
        assert proxy.application.greeted == greeted
        assert proxy.ask("//login", client="127.0.0.3")[0] == 200
    return behind(name, holds)


@statement
def lets_no_flood_of_headers_switch_the_limit_off(name):
    def holds(proxy):
        many = {f"X-Header-{i}": "a" for i in range(70)}
        large = {f"X-Header-{i}": "a" * 3000 for i in range(4)}
        larger = {f"X-Header-{i}": "a" * 7000 for i in range(3)}
        for headers in many, large:
            assert proxy.ask("/login", client="127.0.0.3", headers=headers)[0] == 200
        greeted = proxy.use_up()
        for headers in many, large, larger, {"Expect": "a miracle"}, {"Cookie": "a" * 20000}:
            try:
                status = proxy.ask("/login", headers=headers)[0]
            except ConnectionError:  # it did not hear to the end
                status = 431
            assert 400 <= status < 500, (list(headers)[0], status)
        assert proxy.application.greeted == greeted
    return behind(name, holds)


@statement
def lets_no_odd_bytes_switch_the_limit_off(name):
    def holds(proxy):
        greeted = proxy.use_up()
        host = b"Host: 127.0.0.1:%d\r\n" % proxy.port
        for line in [b"X-A: a%cb\r\n" % c for c in (0, 1, 8, 9, 11, 12, 27, 127, 128, 255)] + [
                b"X-A: a\rb\r\n", b"X-A: a\nX-B: b\r\n", b"X-A: a\r\n b\r\n", b"X A: b\r\n",
                b"X-A : b\r\n", b": b\r\n", b"X-A\r\n", b"X-\x01A: b\r\n", b"X-\xc3\xa4: b\r\n",
                b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"Host: other\r\n",
                b"Connection: X-Forwarded-For\r\n", b"Upgrade: websocket\r\nConnection: upgrade\r\n"]:
            heard = proxy.say(b"GET /login HTTP/1.1\r\n" + host + line
                              + b"Connection: close\r\n\r\n0\r\n\r\n")
            assert b"hello" not in heard and proxy.application.greeted == greeted, (line, heard)
        for first in (b"GET /login HTTP/1.0\r\n", b"GET\t/login HTTP/1.1\r\n", b"GET /login\r\n",
                      b"GET  /login HTTP/1.1\r\n", b"BREW /login HTTP/1.1\r\n",
                      b"GET /login\x01 HTTP/1.1\r\n", b"GET /login\xff HTTP/1.1\r\n",
                      b"\r\nGET /login HTTP/1.1\r\n", b"HEAD /login HTTP/1.1\r\n",
                      b"OPTIONS /login HTTP/1.1\r\n"):
            heard = proxy.say(first + host + b"Connection: close\r\n\r\n")
            assert b"hello" not in heard and proxy.application.greeted == greeted, (first, heard)
    return behind(name, holds)


# ---- weir is away, or does not understand ------------------------------------------------------------

def all_pass(proxy):
    for _ in range(8):
        status, headers, body = proxy.ask("/login")
        assert (status, headers["RateLimit"], body) == (200, None, b"hello"), (status, headers, body)


@statement
def lets_logins_pass_while_weir_is_away(name):
    return behind(name, all_pass, weir_port=free_port())  # no server is there


@statement
def lets_logins_pass_while_weir_hangs(name):
    with Feigned(None) as hung:
        return behind(name, all_pass, weir_port=hung.port, is_patient=False)


def answer(status):
    return b"HTTP/1.1 %d Feigned\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status


@statement
def lets_logins_pass_while_weir_fails(name):
    def holds(proxy):
        for failing.says in answer(500), answer(503):
            all_pass(proxy)

    with Feigned(b"") as failing:
        return behind(name, holds, weir_port=failing.port)


def none_passes(proxy):
    greeted = proxy.application.greeted
    for _ in range(3):
        status, _, body = proxy.ask("/login")
        assert status == 500 and body != b"hello", (status, body)
    assert proxy.application.greeted == greeted
    assert proxy.ask("/")[0] == 200


@statement
def answers_500_if_weir_does_not_take_the_question(name):
    def holds(proxy):
        for strict.says in answer(400), answer(404), answer(414), answer(431):
            none_passes(proxy)

    with Feigned(b"") as strict:
        behind(name, holds, weir_port=strict.port)
    return behind(name, none_passes, policy="unknown")


@statement
def answers_500_if_weir_wants_a_token(name):
    with Folder() as folder:
        token = folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        return behind(name, none_passes, arguments=("--token-file", f"check:{token}"))


@statement
def counts_again_when_weir_is_back(name):
    def holds(proxy):
        all_pass(proxy)
        with Server(config="examples/policies.yaml", listen=f"127.0.0.1:{port}"):
            proxy.use_up()
        all_pass(proxy)

    port = free_port()
    return behind(name, holds, weir_port=port)


run()
