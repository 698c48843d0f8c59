#!/usr/bin/env python3
"""test_strangers.py - what clients without a token can make a server hold, and keep from others.

    test_strangers.py TREE      from the root of the source
"""
import os
import re
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, Server, command, run, test, wait_until  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
MIB = 1 << 20

# A sanitizer's memory says nothing about the server's.
IS_MEASURED = int(os.environ.get("WEIR_TEST_SCALE", "100")) == 100
CROWD = 200 if IS_MEASURED else 20
MOST_DURING, MOST_AFTER = 40 * MIB, 20 * MIB  # resident; of these, 10 MiB without any connection

PAGE = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n"


def serve(folder, *arguments, **more):
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    return Server("--token-file", f"check,admin,metrics:{token}", *arguments,
                  config="examples/policies.yaml", **more)


def status(pid, name):
    return 1024 * int(re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])


def gauge(server, name):
    text = server.http("GET", "/metrics", None, SHOWN)[2].decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


def push(crowd, words):
    """All of it to each, as far as they take it: none of them ever reads."""
    left = {one: words for one in crowd}
    stuck = 0
    while left and stuck < 20:
        stuck += 1
        for one, rest in list(left.items()):
            try:
                left[one] = rest[one.send(rest):]
                stuck = 0
            except BlockingIOError:
                continue
            except ConnectionError:
                left[one] = b""
            if not left[one]:
                del left[one]
        if stuck:
            time.sleep(0.01)


def attack(server, words):
    crowd = []
    for _ in range(CROWD):
        crowd.append(socket.create_connection(server.address, timeout=PATIENCE))
        crowd[-1].setblocking(False)
    push(crowd, words)
    assert server.http("GET", "/healthz")[0] == 200
    during = status(server.pid, "VmHWM")
    for one in crowd:
        one.close()
    wait_until(lambda: gauge(server, "weir_connections") == 1, "all to be gone")
    return during


def get(path, more=b""):
    return b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path, more)


def post(more, body=b""):
    return b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s" % (more, body)


@test
def unread_and_unfinished_data_of_clients_takes_little_memory_and_is_freed():
    floods = {
        "pages": PAGE * 1024,
        "lists": get(b"/") * 4000,
        "no token": get(b"/metrics") * 8000,
        "commands": command("PING") * 8000,
        "bodies": post(b"Content-Length: 1000000\r\n", b" " * 999_000),
        "chunks": post(b"Transfer-Encoding: chunked\r\n", b"1\r\n \r\n" * 300_000),
        "half a command": b"*3\r\n$4\r\nECHO\r\n$60000\r\n" + b"a" * 59_000,
        "half a head": get(b"/healthz", b"X: " + b"x" * 16_000)[:-4],
    }
    for name, words in floods.items():
        with Folder() as folder, serve(folder, threads=2) as server:
            during = attack(server, words)
            if not IS_MEASURED:
                continue
            assert during < MOST_DURING, name
            wait_until(lambda: status(server.pid, "VmRSS") < MOST_AFTER, f"less memory: {name}")
            print(f"# {name}: {during / MIB:.0f} MiB, then {status(server.pid, 'VmRSS') / MIB:.0f}",
                  flush=True)


def in_kernel(server, one):
    """Bytes for a client that the kernel has taken from the server, and that are not acknowledged."""
    ports = f":{server.port:04X}", f":{one.getsockname()[1]:04X}"
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        local, remote, _, queues = line.split()[1:5]
        if local.endswith(ports[0]) and remote.endswith(ports[1]):
            return int(queues.split(":")[0], 16)
    return 0


@test
def the_kernel_holds_little_for_a_client_that_reads_nothing():
    with Folder() as folder, serve(folder, threads=1) as server, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(PATIENCE)
        one.connect(server.address)
        one.sendall(PAGE * 100)
        server.http("GET", "/healthz")  # which comes behind them
        wait_until(lambda: in_kernel(server, one) > 0, "pages")
        before = -1
        while before != (before := in_kernel(server, one)):
            server.http("GET", "/healthz")
        assert before < 256 * 1024, before


@test
def a_page_in_pieces_is_the_page():
    """As much as fits goes at once, without a copy; the rest when there is room: in order."""
    files = [b"/", b"/ui/app.js", b"/healthz", b"/ui/style.css"]
    with Folder() as folder, serve(folder) as server:
        wanted = {path: server.http("GET", path.decode(), None, {"Accept": "text/html"})[2]
                  for path in files}
        assert wanted[b"/ui/style.css"] == Path("web/style.css").read_bytes()
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(PATIENCE)
            one.connect(server.address)
            order = files * 100
            one.sendall(b"".join(get(path, b"Accept: text/html\r\n") for path in order))
            reader = one.makefile("rb")
            for path in order:
                length = 0
                assert reader.readline() == b"HTTP/1.1 200 OK\r\n", path
                while (line := reader.readline()) != b"\r\n":
                    if line.startswith(b"Content-Length: "):
                        length = int(line.split()[1])
                body = reader.read(length)
                if path != b"/healthz":
                    assert body == wanted[path], path


def answer_to(server, words):
    """Until the server closes, or waits for more."""
    with server.connect() as one:
        one.sendall(words)
        data = b""
        while piece := one.recv(65536):
            data += piece
            if data.endswith(b"100 Continue\r\n\r\n"):
                break
        return data


@test
def a_body_that_will_be_refused_is_not_waited_for():
    long, chunked = b"Content-Length: 1000000\r\n", b"Transfer-Encoding: chunked\r\n"
    expects = b"Expect: 100-continue\r\nContent-Length: 100\r\n"
    shown = b"Authorization: Bearer %s\r\n" % TOKEN.encode()
    with Folder() as folder, serve(folder) as server:
        for body in long, chunked, expects:
            for head, wanted in (
                    (post(body), b"401 Unauthorized"),
                    (post(body).replace(b"check", b"chekc"), b"404 Not Found"),
                    (post(body + shown).replace(b"check", b"stats"), b"405 Method Not Allowed"),
                    (post(body + shown + b"Origin: http://evil.example\r\n"), b"403 Forbidden"),
            ):
                answer = answer_to(server, head)
                assert answer.startswith(b"HTTP/1.1 " + wanted + b"\r\n"), (head, answer)
                assert b"\r\nConnection: close\r\n" in answer, answer
        assert answer_to(server, post(expects + shown)) == b"HTTP/1.1 100 Continue\r\n\r\n"


@test
def a_body_is_as_long_as_its_path_needs():
    shown = b"Authorization: Bearer %s\r\n" % TOKEN.encode()
    too_large = b"HTTP/1.1 413 Content Too Large\r\n"
    with Folder() as folder, serve(folder) as server:
        for path in b"/healthz", b"/v1/overrides", b"/":
            head = get(path, shown + b"Content-Length: 16385\r\n")
            assert answer_to(server, head).startswith(too_large), path
            chunks = get(path, shown + b"Transfer-Encoding: chunked\r\n")
            chunks += b"4000\r\n" + b" " * 0x4000 + b"\r\n1\r\n \r\n"
            assert answer_to(server, chunks).startswith(too_large), path
            whole = get(path, shown + b"Connection: close\r\nContent-Length: 16384\r\n")
            assert answer_to(server, whole + b" " * 16384).startswith(b"HTTP/1.1 200 OK"), path
        head = post(shown + b"Connection: close\r\nContent-Length: 1048576\r\n")
        words = b'{"policy":"login","key":"192.0.2.1"}'
        assert answer_to(server, head + words.ljust(1048576)).startswith(b"HTTP/1.1 200 OK")


@test
def a_client_without_a_token_may_not_send_a_long_command():
    with Folder() as folder, serve(folder) as server:
        long = command("ECHO", "x" * 20_000)
        assert answer_to(server, long[:17_000]) == (
            b"-ERR the command is too long for a client without a token\r\n")
        with server.connect() as one:
            one.sendall(command("AUTH", TOKEN) + long[:17_000])
            assert one.recv(100) == b"+OK\r\n"
            one.sendall(long[17_000:])
            assert one.recv(100).startswith(b"$20000\r\nxxx")


def samples(server, name):
    text = server.http("GET", "/metrics", None, SHOWN)[2].decode()
    return {labels: int(value) for labels, value in
            re.findall(rf"^{name}(?:{{(.*)}})? (\d+)$", text, re.M)}


@test
def failed_authentication_is_counted_and_logged_by_tag_at_a_limited_rate():
    other = "fedcba9876543210fedcba9876543210"
    with Folder() as folder:
        (folder / "other").write_text(other + "\n")
        config = folder / "policies.yaml"
        config.write_text(Path("examples/policies.yaml").read_text() + "\nserver:\n  tokens:\n"
                          "    - {file: token, scope: [check, admin, metrics]}\n"
                          "    - {file: other, scope: [metrics]}\n")
        (folder / "token").write_text(TOKEN + "\n")
        with Server(config=config) as server:
            assert set(samples(server, "weir_auth_failures_total").values()) == {0}
            for times, shown, wanted in ((30, {}, 401), (20, {"Authorization": "Bearer x"}, 401),
                                         (10, {"Authorization": f"Bearer {other}"}, 403)):
                for _ in range(times):
                    assert server.http("GET", "/v1/policies", None, shown)[0] == wanted
            server.http("POST", "/v1/check", " " * 100_000)  # by its head alone
            for words, start in ((command("PING"), b"-NOAUTH"),
                                 (command("HELLO", "3"), b"-NOAUTH"),
                                 (command("AUTH", "x" * 20), b"-WRONGPASS"),
                                 (command("HELLO", "3", "AUTH", "a", "b"), b"-WRONGPASS"),
                                 (command("AUTH", other) + command("WEIR.CHECK", "login", "x"),
                                  b"+OK\r\n-NOPERM")):
                assert answer_to(server, words + command("QUIT")).startswith(start)
            assert samples(server, "weir_auth_failures_total") == {
                'protocol="http",reason="no_token"': 31,
                'protocol="http",reason="unknown_token"': 20,
                'protocol="http",reason="missing_scope"': 10,
                'protocol="resp",reason="no_token"': 2,
                'protocol="resp",reason="unknown_token"': 2,
                'protocol="resp",reason="missing_scope"': 1}
            # The next second has another line, which tells how many there were without one.
            def both():
                server.http("GET", "/v1/policies")
                return [line for line in server.log.events("auth-failed")
                        if line["reason"] == "no_token" and "left_out" in line]
            line = wait_until(both, "a line that tells of others")[0]
            lines = server.log.events("auth-failed")
            assert {line["reason"] for line in lines} >= {"no_token", "unknown_token",
                                                          "missing_scope"}
            assert line["left_out"] > 0 and line["level"] == "warn", line
            assert len({line["peer"] for line in lines}) == 1, lines
            assert re.fullmatch("[0-9a-f]{32}", line["peer"]), line
            assert line["peer_class"] == "loopback", line
            assert "127.0.0.1" not in str(lines) and other not in str(lines), lines


@test
def untrusted_proxies_are_counted_and_logged_once_a_minute():
    gate = "/v1/gate?policy=login"
    for headers in {"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}:
        with Folder() as folder, serve(folder) as server:
            assert server.http("GET", gate, None, SHOWN)[0] == 200
            server.http("GET", gate + "&ip=192.0.2.2", None, {**SHOWN, **headers})
            assert samples(server, "weir_untrusted_proxy_requests_total") == {"": 0}
            for _ in range(20):
                server.http("GET", gate, None, {**SHOWN, **headers})
            assert samples(server, "weir_untrusted_proxy_requests_total") == {"": 20}
            line = server.wait_for("untrusted-proxy")
            assert "trusted_proxies" in line["message"] and line["peer_class"] == "loopback", line
            assert len(server.log.events("untrusted-proxy")) == 1
            assert "192.0.2.1" not in str(server.log.lines)
        with Folder() as folder, serve(folder, "--trusted-proxies", "127.0.0.1") as server:
            assert server.http("GET", gate, None, {**SHOWN, **headers})[0] == 200
            assert samples(server, "weir_untrusted_proxy_requests_total") == {"": 0}


@test
def an_ip_that_is_a_list_stands_for_the_client_that_trusted_proxies_report():
    """What a client has put into its X-Forwarded-For before that does not make it another."""
    with Folder() as folder, serve(folder, "--trusted-proxies", "172.16.0.0/12,2001:db8:1::/48") as server:
        def left(value, name="key"):
            body = {"policy": "login", "key": value} if name == "key" else {
                "policy": "login", "attributes": {"ip": value}}
            answer = server.http("POST", "/v1/check", body, SHOWN)[2]
            return answer["remaining"] if answer["source"] == "store" else answer["source"]

        client = "203.0.113.7"
        assert left(client) == 4
        assert left(f"{client}, 172.16.0.1") == 3
        assert left(f"198.51.100.1, {client},172.17.2.3 ,\t172.16.0.1", "ip") == 2
        assert left(f"unknown, {client}:4711, 2001:db8:1::7", "ip") == 1
        reply = server.http("GET", f"/v1/gate?policy=login&ip=1.1.1.1,%20{client},%20172.16.0.1", None,
                            SHOWN)
        assert reply[1]["X-RateLimit-Remaining"] == "0", reply[1]
        assert left(f"1.1.1.1, {client}", "ip") == 0
        assert left("172.16.0.3, 172.16.0.2, 172.16.0.1") == 4  # all trusted: the leftmost
        assert left("172.16.0.3") == 3
        assert left("10.0.0.9, 172.16.0.1") == "exempt"  # by the client's address
        assert left("10.0.0.9, 198.51.100.3, 172.16.0.1") == 4
        words = command("AUTH", TOKEN) + command("WEIR.PEEK", "login", f"ip=1.1.1.1, {client}")
        assert answer_to(server, words + command("QUIT")).startswith(b"+OK\r\n*7\r\n:0\r\n:5\r\n:0\r\n")
        reply = server.http("POST", "/v1/check", {"policy": "login", "key": f"{client}, rubbish"}, SHOWN)
        assert (reply[0], reply[2]["code"]) == (400, "invalid_attribute"), reply


@test
def an_ip_that_is_a_list_is_rejected_where_no_proxy_is_known():
    with Folder() as folder, serve(folder) as server:
        reply = server.http("POST", "/v1/check",
                            {"policy": "login", "attributes": {"ip": "203.0.113.7, 10.0.0.1"}}, SHOWN)
        assert (reply[0], reply[2]["code"]) == (400, "invalid_attribute"), reply
        assert reply[2]["detail"] == (
            "policy 'login': attribute 'ip' is a list of addresses: give only the client's, or set trusted_proxies, so that the server can find it in the list"), reply


@test
def a_client_with_a_token_is_served_during_attacks():
    """They fill all places: silent, or with what all may ask, or with what they may not."""
    with Folder() as folder, serve(folder, "--max-connections", "40", threads=2) as server:
        friend = server.connect()
        friend.sendall(command("AUTH", TOKEN))
        assert friend.recv(100) == b"+OK\r\n"
        for words in b"", get(b"/healthz"), get(b"/v1/stats"), command("PING"):
            crowd = []
            for _ in range(60):
                crowd.append(server.connect())
                crowd[-1].sendall(words)
                if words:
                    crowd[-1].recv(4096)
            for _ in range(10):
                began = time.monotonic()
                assert server.http("GET", "/v1/policies", None, SHOWN)[0] == 200
                assert time.monotonic() - began < 1
            assert gauge(server, "weir_connections") <= 41
            for one in crowd:
                one.close()
        friend.sendall(command("PING"))
        assert friend.recv(100) == b"+PONG\r\n"
        friend.close()
        assert gauge(server, "weir_dropped_connections_total") >= 4 * 20


def come_from(server, port=0):
    """A port that is left by a reset can be used again at once; and of this address, no other
    client has one."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.settimeout(PATIENCE)
    one.bind(("127.0.0.9", port))
    one.connect(server.address)
    return one


def loop_of(one):
    """Numbers of connections are dealt out by each loop for itself."""
    one.sendall(command("AUTH", TOKEN) + command("CLIENT", "ID"))
    heard = b""
    while heard.count(b"\r\n") < 2:
        heard += one.recv(100)
    return int(heard.split(b":")[1]) % 2


@test
def connections_that_fill_one_loop_do_not_block_another_loop():
    """The kernel deals out connections by their ports: the same port comes to the same loop."""
    with Folder() as folder, serve(folder, "--max-connections", "10", threads=2) as server:
        ports = {0: set(), 1: set()}  # the kernel may give one that is free again
        while min(len(ports[0]), len(ports[1])) < 10:
            with come_from(server) as one:
                ports[loop_of(one)].add(one.getsockname()[1])
        wait_until(lambda: gauge(server, "weir_connections") == 1, "all to be gone")
        for full in 0, 1:
            crowd = [come_from(server, port) for port in sorted(ports[full])[:10]]
            for port in sorted(ports[1 - full])[:5]:
                with come_from(server, port) as one:
                    assert loop_of(one) == 1 - full
            for one in crowd:
                one.close()


run()
