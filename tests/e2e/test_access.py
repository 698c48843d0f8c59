#!/usr/bin/env python3
"""test_access.py - access control: TLS, client certificates, and tokens with their scopes.

    test_access.py TREE      from the root of the source
"""
import http.client
import json
import signal
import ssl
import subprocess
import sys

sys.path.insert(0, "tests/support")
from certificates import make_certs, openssl, serial_of  # noqa: E402
from weir_server import Folder, PATIENCE, Server, command, run, test  # noqa: E402

POLICIES = "version: 1\npolicies:\n  login: {limit: 5 per 1h, by: ip}\n"


# ---- TLS ----------------------------------------------------------------------------------------

class Secured:
    """A server with a certificate of its own."""

    def __init__(self, *arguments, clients=False, **more):
        self.arguments, self.clients, self.more = arguments, clients, more

    def __enter__(self):
        self.folder = Folder()
        self.path = self.folder.path
        self.authority = self.path / "ca.pem"
        self.renew()
        words = ["--tls-cert", self.path / "server.pem", "--tls-key", self.path / "server.key"]
        if self.clients:
            make_certs(self.path / "clients")
            words += ["--tls-client-ca", self.path / "clients/ca.pem"]
        self.server = Server(*words, *self.arguments, config="examples/policies.yaml", **self.more)
        self.port = self.server.port
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def renew(self):
        make_certs(self.path)
        self.serial = serial_of(self.path / "server.pem")
        return self.serial

    def client(self, authority="clients"):
        """The certificate of one of its clients, as a tool is told it."""
        return ("--cert", self.path / authority / "client.pem", "--key",
                self.path / authority / "client.key")

    def tool(self, *words):
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def curl(self, *words):
        return self.tool("curl", "-sS", "--cacert", self.authority, *words,
                         f"https://localhost:{self.port}/v1/check?policy=login&ip=192.0.2.1",
                         "--resolve", f"localhost:{self.port}:127.0.0.1")

    def redis_cli(self, *words):
        return self.tool("redis-cli", "-h", "127.0.0.1", "-p", str(self.port), "--tls", "--cacert",
                         self.authority, *words)

    def connect(self):
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                                 context=context)
        connection.connect()
        return connection


def healthy(connection):
    connection.request("GET", "/healthz")
    response = connection.getresponse()
    response.read()
    return response.status == 200


def serial(connection):
    return int(connection.sock.getpeercert()["serialNumber"], 16)


@test
def curl_and_redis_cli_speak_tls_on_one_port():
    with Secured() as it:
        heard = it.curl()
        assert json.loads(heard.stdout)["remaining"] == 4, heard
        heard = it.redis_cli("WEIR.CHECK", "login", "192.0.2.1")
        assert heard.stdout.splitlines()[:3] == ["1", "5", "3"], heard
        heard = it.redis_cli("-3", "PING")
        assert heard.stdout == "PONG\n", heard


@test
def a_certificate_that_is_not_trusted_is_not_spoken_to():
    with Secured() as it:
        heard = it.tool("curl", "-sS", f"https://127.0.0.1:{it.port}/healthz")
        assert heard.returncode == 60 and "certificate" in heard.stderr, heard


@test
def plain_text_on_a_tls_port_gets_an_error():
    with Secured() as it:
        status, headers, answer = it.server.http("GET", "/v1/check?policy=login&ip=192.0.2.1")
        assert (status, answer["detail"]) == (400, "this port speaks TLS only"), (status, answer)
        assert headers["Content-Type"] == "application/problem+json", headers
        assert it.server.resp("PING") == b"-ERR this port speaks TLS only\r\n"
        heard = it.tool("redis-cli", "-h", "127.0.0.1", "-p", str(it.port), "PING")
        assert "this port speaks TLS only" in heard.stdout + heard.stderr, heard


@test
def plain_text_is_accepted_where_it_is_allowed():
    with Secured("--allow-plain") as it:
        assert it.server.http("GET", "/healthz")[0] == 200
        assert it.server.resp("PING") == b"+PONG\r\n"
        assert it.curl().returncode == 0


@test
def a_client_without_a_certificate_is_turned_away():
    with Secured(clients=True) as it:
        heard = it.curl()
        assert heard.returncode != 0 and not heard.stdout, heard
        make_certs(it.path / "strangers")
        heard = it.curl(*it.client("strangers"))
        assert heard.returncode != 0 and not heard.stdout, heard


@test
def a_client_with_a_certificate_is_welcome():
    with Secured(clients=True) as it:
        heard = it.curl(*it.client())
        assert json.loads(heard.stdout)["allowed"] is True, heard
        heard = it.redis_cli(*it.client(), "PING")
        assert heard.stdout == "PONG\n", heard


@test
def client_certificates_are_required_like_tokens():
    with Secured(clients=True, listen="0.0.0.0:0") as it:
        heard = it.curl(*it.client())
        assert json.loads(heard.stdout)["allowed"] is True, heard


@test
def a_new_certificate_is_for_new_connections_and_old_ones_live_on():
    with Secured() as it:
        old = it.connect()
        first = it.serial
        assert serial(old) == first and healthy(old)
        renewed = it.renew()
        it.server.signal(signal.SIGHUP)
        it.server.wait_for("reloaded")
        new = it.connect()
        assert serial(new) == renewed != first and healthy(new)
        assert serial(old) == first and healthy(old)


@test
def a_key_of_another_certificate_leaves_the_old_ones_in_use():
    with Secured() as it:
        make_certs(it.path / "other")
        (it.path / "server.key").write_bytes((it.path / "other/server.key").read_bytes())
        it.server.signal(signal.SIGHUP)
        message = it.server.wait_for("reload-failed")["message"]
        assert message == ("(SIGHUP) what could not be read keeps its old settings: "
                           f"TLS: the key {it.path}/server.key "
                           f"does not belong to the certificate {it.path}/server.pem"), message
        connection = it.connect()
        assert serial(connection) == it.serial and healthy(connection)


NODE = """
const [host, port, ca, cert, key] = process.argv.slice(2);
const read = require("fs").readFileSync;
require("https").get({ host, port, path: "/healthz", agent: false, ca: read(ca), cert: read(cert),
                       key: read(key) },
                     (response) => response.resume().on("end", () => console.log(response.statusCode)))
    .on("error", (error) => console.log(error.code));
"""


@test
def certificates_of_the_example_are_taken_by_the_strictest_readers():
    with Secured(clients=True) as it:
        ca, server = it.authority, it.path / "server.pem"
        for words, verdict in {
                ("-purpose", "sslserver"): "OK", ("-verify_hostname", "localhost"): "OK",
                ("-verify_ip", "127.0.0.1"): "OK", ("-verify_ip", "::1"): "OK",
                ("-purpose", "sslclient"): "unsuitable certificate purpose",
                ("-verify_hostname", "other"): "hostname mismatch",
                ("-verify_ip", "127.0.0.2"): "IP address mismatch"}.items():
            said = openssl("verify", "-x509_strict", *words, "-CAfile", ca, server)
            assert verdict.lower() in said.lower(), (words, said)
        client, key = it.path / "clients/client.pem", it.path / "clients/client.key"
        said = openssl("verify", "-x509_strict", "-purpose", "sslclient", "-CAfile",
                       it.path / "clients/ca.pem", client)
        assert "OK" in said, said

        context = ssl.create_default_context(cafile=str(ca))
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 does by itself
        context.load_cert_chain(client, key)
        for host in "127.0.0.1", "localhost":
            connection = http.client.HTTPSConnection(host, it.port, timeout=PATIENCE,
                                                     context=context)
            assert healthy(connection), host
            connection.close()

        script = it.path / "ask.js"
        script.write_text(NODE)
        for host, trusted, heard in (("127.0.0.1", ca, "200\n"), ("localhost", ca, "200\n"),
                                     ("localhost", it.path / "clients/ca.pem",
                                      "UNABLE_TO_VERIFY_LEAF_SIGNATURE\n")):
            said = it.tool("node", script, host, str(it.port), trusted, client, key)
            assert said.stdout == heard, (host, said)


@test
def the_stats_tell_when_the_certificate_ends():
    with Secured() as it:
        connection = it.connect()
        connection.request("GET", "/v1/stats")
        told = json.load(connection.getresponse())["certificate_expires_ms"]
        connection.close()
        end = openssl("x509", "-in", it.path / "server.pem", "-noout", "-enddate").strip().partition("=")[2]
        assert told == ssl.cert_time_to_seconds(end) * 1000, (told, end)
    with Server() as plain:
        assert "certificate_expires_ms" not in plain.http("GET", "/v1/stats")[2]


# ---- tokens -----------------------------------------------------------------------------------

TOKENS = {scope: scope * 4 for scope in ("check", "admin", "metrics", "reset", "view")}

# What each scope is for; the rest is refused.
ROUTES = {
    ("GET", "/v1/check?policy=login&ip=192.0.2.1"): {"check"},
    ("GET", "/v1/gate?policy=login&ip=192.0.2.2"): {"check"},
    ("POST", "/v1/peek"): {"check"},
    ("POST", "/v1/refund"): {"check"},
    ("POST", "/v1/reset"): {"admin", "reset"},
    ("POST", "/v1/reload"): {"admin"},
    ("GET", "/v1/policies"): {"admin", "view"},
    ("GET", "/v1/top"): {"admin", "view"},
    ("GET", "/v1/stats"): {"admin", "metrics", "view"},
    ("GET", "/metrics"): {"metrics"},
    ("GET", "/healthz"): {*TOKENS, None, "unknown"},
    ("GET", "/readyz"): {*TOKENS, None, "unknown"},
}
COMMANDS = {
    ("WEIR.CHECK", "login", "192.0.2.3"): {"check"},
    ("WEIR.PEEK", "login", "192.0.2.3"): {"check"},
    ("WEIR.LIMIT", "k", "token_bucket", "5", "1000"): {"check"},
    ("CL.THROTTLE", "k", "15", "30", "60"): {"check"},
    ("WEIR.RESET", "login", "192.0.2.3"): {"admin", "reset"},
    ("EVALSHA", "a1de965f42e177aa339706bd580f049065eca79a", "1", "k", "1", "60"): {"check"},
    ("GET", "k"): {"check"},
    ("DECR", "k"): {"check"},
    ("SET", "k", "1"): {"admin", "reset"},
    ("DEL", "k"): {"admin", "reset"},
    ("PING",): {*TOKENS},
}


class Guarded:
    def __init__(self, **arguments):
        self.arguments = arguments

    def __enter__(self):
        self.folder = Folder()
        self.path = self.folder.path
        for scope, token in TOKENS.items():
            (self.path / scope).write_text(token + "\n")
        self.configure(*((scope, scope) for scope in TOKENS))
        self.server = Server(config=self.path / "policies.yaml", **self.arguments)
        return self

    def configure(self, *tokens, more=""):
        """With these files, each for a scope."""
        lines = "".join(f"    - {{file: {file}, scope: [{scope}]}}\n" for file, scope in tokens)
        (self.path / "policies.yaml").write_text(POLICIES + "server:\n" + more + "  tokens:\n" +
                                                 lines)

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def http(self, method, path, token):
        check = json.dumps({"policy": "login", "key": "192.0.2.9"})
        body = check if method == "POST" and path != "/v1/reload" else None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.server.http(method, path, body, headers)

    def resp(self, token, *words):
        """What is said to AUTH, and to the command behind it."""
        with self.server.connect() as s:
            s.sendall((command("AUTH", token) if token else b"") + command(*words))
            s.sendall(command("QUIT"))
            data = b""
            while piece := s.recv(65536):
                data += piece
        auth, _, rest = data.partition(b"\r\n") if token else (b"", b"", data)
        return auth, rest.removesuffix(b"+OK\r\n").rstrip(b"\r\n")


@test
def each_route_is_for_its_scope_alone():
    with Guarded() as it:
        for (method, path), scopes in ROUTES.items():
            for scope, token in TOKENS.items():
                status, headers, answer = it.http(method, path, token)
                if scope in scopes:
                    assert status == 200, (path, scope, status, answer)
                    continue
                *some, last = sorted(scopes)
                needed = f"{', '.join(some)} or {last}" if some else last
                assert status == 403, (path, scope, status, answer)
                assert answer["detail"] == (f"this needs the scope {needed}, which the token does "
                                            "not have"), answer
                assert headers["WWW-Authenticate"] == \
                    'Bearer realm="weir", error="insufficient_scope"', headers


@test
def without_a_valid_token_only_health_is_answered():
    with Guarded() as it:
        for (method, path), scopes in ROUTES.items():
            for who, token, detail, challenge in (
                    (None, None, "show a token: send the header `Authorization: Bearer TOKEN`",
                     'Bearer realm="weir"'),
                    ("unknown", "x" * 20, "there is no such token",
                     'Bearer realm="weir", error="invalid_token"')):
                status, headers, answer = it.http(method, path, token)
                if who in scopes:
                    assert status == 200, (path, who, status, answer)
                    continue
                assert (status, answer["detail"]) == (401, detail), (path, answer)
                assert headers["WWW-Authenticate"] == challenge, headers


@test
def each_command_is_for_its_scope_alone():
    with Guarded() as it:
        for words, scopes in COMMANDS.items():
            for scope, token in TOKENS.items():
                auth, reply = it.resp(token, *words)
                assert auth == b"+OK", auth
                if scope in scopes:
                    assert not reply.startswith(b"-"), (words, scope, reply)
                else:
                    needed = " or ".join(sorted(scopes))
                    assert reply.decode() == (f"-NOPERM this token may not send '{words[0]}': it "
                                              f"needs the scope {needed}"), reply


@test
def without_a_valid_token_commands_are_rejected():
    with Guarded() as it:
        noauth = b"-NOAUTH Authentication required: send AUTH with a token first"
        for words in COMMANDS:
            assert it.resp(None, *words)[1] == noauth
            wrong, reply = it.resp("x" * 20, *words)
            assert wrong == b"-WRONGPASS invalid username-password pair or user is disabled.", wrong
            assert reply == noauth
        assert it.resp(None, "HELLO", "3")[1].startswith(b"-NOAUTH HELLO must be called")
        assert it.resp(None, "HELLO", "3", "AUTH", "default", TOKENS["check"])[1].startswith(b"%7")
        assert it.resp(None, "HELLO", "3", "AUTH", "default", "x" * 20)[1].startswith(b"-WRONGPASS")


@test
def tokens_are_read_again_at_a_reload():
    with Guarded() as it:
        (it.path / "check").write_text("n" * 20 + "\n")
        where = "GET", "/v1/check?policy=login&ip=192.0.2.1"
        with it.server.connect() as old:
            old.sendall(command("AUTH", TOKENS["check"]))
            assert old.recv(100) == b"+OK\r\n"
            it.server.signal(signal.SIGHUP)
            it.server.wait_for("reloaded")
            old.sendall(command("WEIR.CHECK", "login", "192.0.2.1"))
            assert old.recv(100).startswith(b"-NOAUTH ")
        assert it.http(*where, "n" * 20)[0] == 200
        assert it.http(*where, TOKENS["check"])[0] == 401
        assert it.resp("n" * 20, "PING") == (b"+OK", b"+PONG")
        assert it.resp(TOKENS["check"], "PING")[0].startswith(b"-WRONGPASS")


@test
def which_tokens_there_are_is_read_again_at_a_reload():
    with Guarded() as it:
        where = "GET", "/v1/check?policy=login&ip=192.0.2.1"
        (it.path / "other").write_text("o" * 20 + "\n")
        it.configure(("admin", "admin"), ("other", "check"))
        it.server.signal(signal.SIGHUP)
        it.server.wait_for("reloaded")
        assert it.http(*where, TOKENS["check"])[0] == 401
        assert it.http(*where, "o" * 20)[0] == 200
        it.configure()  # on loopback, where no token is needed
        assert it.http("POST", "/v1/reload", TOKENS["admin"])[0] == 200
        assert it.http(*where, None)[0] == 200


@test
def a_reload_never_opens_a_public_address_to_clients_without_a_token():
    with Guarded(listen="0.0.0.0:0") as it:
        it.configure()
        status, _, answer = it.http("POST", "/v1/reload", TOKENS["admin"])
        assert (status, answer["code"]) == (422, "reload_failed"), answer
        assert "without a token: add one" in answer["detail"], answer
        assert it.http("GET", "/v1/check?policy=login&ip=192.0.2.1", None)[0] == 401


@test
def a_mistake_in_the_settings_rejects_the_whole_file():
    with Guarded() as it:
        config = it.path / "policies.yaml"
        config.write_text(POLICIES.replace("login", "signin") + "server: {threds: 2}\n")
        status, _, answer = it.http("POST", "/v1/reload", TOKENS["admin"])
        assert (status, answer["code"]) == (422, "invalid_policy_file"), answer
        assert "unknown key 'threds'" in answer["detail"], answer
        assert it.http("GET", "/v1/check?policy=login&ip=192.0.2.1", TOKENS["check"])[0] == 200


@test
def settings_that_a_reload_cannot_change_are_reported():
    with Guarded() as it:
        it.configure(*((scope, scope) for scope in TOKENS), more="  max_connections: 100\n")
        it.server.signal(signal.SIGHUP)
        message = it.server.wait_for("settings")["message"]
        assert message.startswith("`max_connections` under `server:` has changed"), message


@test
def a_bad_token_file_keeps_the_old_tokens_and_is_not_shown():
    with Guarded() as it:
        (it.path / "check").write_text("short\n")
        it.server.signal(signal.SIGHUP)
        message = it.server.wait_for("reload-failed")["message"]
        assert f"{it.path}/check" in message and "16 to 512" in message, message
        assert "short" not in message, message
        status, _, answer = it.http("POST", "/v1/reload", TOKENS["admin"])
        assert (status, answer["code"]) == (422, "reload_failed"), answer
        assert it.http("GET", "/v1/check?policy=login&ip=192.0.2.1", TOKENS["check"])[0] == 200


run()
