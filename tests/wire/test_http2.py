#!/usr/bin/python3
"""test_http2.py - HTTP/2 on the port of all protocols: the same routes, streams that are independent of
each other, and an end that loses no request.

    test_http2.py TREE      from the root of the source
"""
import json
import select
import signal
import ssl
import struct
import sys
import time

sys.path.insert(0, "tests/support")
from certificates import make_certs  # noqa: E402
from http2_client import (DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE,  # noqa: E402
                          RST_STREAM, SETTINGS, Client, begin, frame, frames_in, head, read_until)
from weir_server import PATIENCE, Folder, Server, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  login: {limit: 5 per 1h, by: user}
  many: {limit: 1000000 per 1h, by: user}
"""
TOKENS = "server: {tokens: [{file: check.token, scope: check}]}\n"
TOKEN = "a-token-that-is-long-enough-for-it"


def check_body(policy, key):
    return json.dumps({"policy": policy, "key": key}).encode()


def serve(folder, *arguments, policies=POLICIES, **more):
    config = folder / "weir.yaml"
    (folder / "check.token").write_text(TOKEN + "\n")
    (folder / "check.token").chmod(0o600)
    config.write_text(policies)
    return Server(*arguments, config=config, **more)


def remaining(server, policy, key):
    return server.http("POST", "/v1/peek", {"policy": policy, "key": key})[2]["remaining"]


@test
def every_kind_of_answer_is_the_same_as_by_http_1_1():
    asked = [("GET", "/healthz", None), ("GET", "/", None),
             ("GET", "/v1/policies", None), ("OPTIONS", "/v1/check", None),
             ("GET", "/nothing/here", None), ("DELETE", "/v1/check", None),
             ("POST", "/v1/check", b"{"), ("POST", "/v1/check", check_body("no such", "k")),
             ("POST", "/v1/peek", check_body("login", "k")),
             ("GET", "/v1/check?policy=login&user=k&peek=1", None),
             ("GET", "/v1/gate?policy=many&user=%41", None), ("GET", "/healthz?", None),
             ("POST", "/v1/policies/login/mode", b"{}"), ("POST", "/json", b"{}")]
    with Folder() as folder, serve(folder) as server, Client(server) as client:
        for method, path, body in asked:
            one = server.http(method, path, body)
            two = client.request(method, path, body)
            assert two.status == one[0], (path, one[0], two.status)
            kind = two.headers.get("content-type", "")
            got = json.loads(two.body) if "json" in kind and two.body else two.body
            if path != "/v1/policies" and "many" not in path:
                assert got == one[2], (path, one[2], got)
            assert (two.body == b"") == (not one[2]), path
            names = {name.lower() for name in one[1].keys()} - {"connection"}
            assert set(two.headers) == names, (path, names, two.headers)
            assert two.headers.get("allow") == one[1].get("Allow"), path
        got, only_head = client.request("GET", "/healthz"), client.request("HEAD", "/healthz")
        assert only_head.headers["content-length"] == got.headers["content-length"] == \
            str(len(got.body)) and only_head.body == b""


@test
def checks_on_a_hundred_streams_are_counted_exactly():
    with Folder() as folder, serve(folder) as server, Client(server) as client:
        streams = [client.post("/v1/check", check_body("login", "k"), flush=False)
                   for _ in range(100)]
        client.flush()
        answers = [json.loads(client.wait(stream).body) for stream in streams]
        assert sum(answer["allowed"] for answer in answers) == 5


@test
def a_request_that_is_not_whole_holds_up_no_other():
    with Folder() as folder, serve(folder) as server, Client(server) as client:
        body = check_body("login", "k")
        slow = client.begin("POST", "/v1/check")
        client.send(slow, body[:10], end=False)
        for _ in range(3):
            assert client.request("POST", "/v1/check", body).status == 200
        assert not client.answers[slow].is_ended
        client.send(slow, body[10:])
        assert json.loads(client.wait(slow).body)["remaining"] == 1


@test
def bytes_may_come_in_any_pieces():
    body = check_body("many", "k")
    said = (PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head("/v1/check")) +
            frame(DATA, 0, 1, body[:7]) + frame(DATA, END_STREAM, 1, body[7:]))
    with Folder() as folder, serve(folder) as server:
        for step in (1, 2, 3, 5, 9, 24, 25, 100, len(said)):
            with server.connect() as sock:
                for at in range(0, len(said), step):
                    sock.sendall(said[at:at + step])
                    if step < 4 and at < 4:  # so that the server sees these alone
                        server.check("many", "other")
                found = read_until(sock, lambda kind, flags, *_: kind == DATA and flags & END_STREAM)
                assert found and b'"allowed":true' in found[-1][3], (step, found)
        for said in (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                     (len(body), body), b"PUT /v1/check HTTP/1.1\r\nHost: x\r\n\r\n"):
            with server.connect() as sock:
                for at in range(len(said)):
                    sock.sendall(said[at:at + 1])
                assert sock.recv(65536).startswith(b"HTTP/1.1 ")


@test
def what_is_reset_before_its_turn_has_decided_nothing():
    body = check_body("login", "k")
    with Folder() as folder, serve(folder, threads=1) as server, begin(server) as sock:
        said = b""
        for stream in range(1, 100, 2):
            said += (frame(HEADERS, END_HEADERS, stream, head("/v1/check")) +
                     frame(DATA, END_STREAM, stream, body) +
                     frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))
        sock.sendall(said + frame(PING, 0, 0, bytes(8)))
        assert read_until(sock, lambda kind, flags, *_: kind == PING and flags & 1)
        assert remaining(server, "login", "k") == 5


@test
def bodies_may_be_long_where_they_may_by_http_1_1():
    checks = json.dumps({"checks": [{"policy": "many", "key": "k" * 200}] * 1000}).encode()
    with Folder() as folder, serve(folder) as server, Client(server) as client:
        answer = client.request("POST", "/v1/check", checks)
        assert answer.status == 200 and answer.body.count(b'"allowed":true') == 1000
        assert client.request("POST", "/v1/check", b"x" * (1024 * 1024 + 1)).status == 413
        assert client.request("POST", "/v1/usage", b"x" * (16 * 1024 + 1)).status == 413
        assert client.request("POST", "/v1/check?a", checks).status == 400
        assert client.request("GET", "/healthz").status == 200
        with_token = [("authorization", "Bearer " + TOKEN)]
    with Folder() as folder, serve(folder, policies=POLICIES + TOKENS) as server, \
            Client(server) as client:
        assert client.request("POST", "/v1/check", checks, with_token).status == 200
        stream = client.begin("POST", "/v1/check")
        client.send(stream, b"x" * (16 * 1024 + 1), end=False)
        answer = client.wait(stream)  # its end is not waited for
        assert answer.status == 401, answer.status
        assert client.request("GET", "/healthz").status == 200


@test
def a_head_that_is_too_large_is_refused():
    with Folder() as folder, serve(folder) as server, Client(server) as client:
        fields = [(f"x-{i}", "v" * 90) for i in range(60)]
        assert client.request("GET", "/healthz", headers=fields).status == 200
        assert client.request("GET", "/healthz", headers=fields + [("x", "v" * 16384)]).status == 431
        fields = [(f"x-{i}", "v") for i in range(70)]
        assert client.request("GET", "/healthz", headers=fields).status == 431
        assert client.request("GET", "/" + "a" * 8192).status == 414
        assert client.request("GET", "/healthz").status == 200


def makes_room(server, path, whole):
    with Client(server, window=1000) as client:
        stream = client.begin("GET", path, end=True)
        answer = client.answers[stream]
        wait_until(lambda: client.hear() and len(answer.body) == 1000)
        while not answer.is_ended:
            client.h2.increment_flow_control_window(5000, stream)
            client.h2.increment_flow_control_window(5000)
            client.flush()
            assert client.hear()
        assert answer.body == whole


@test
def a_long_answer_comes_as_the_client_makes_room():
    policies = POLICIES + "".join(f"  p{i}: {{limit: 5 per 1h, by: user}}\n" for i in range(500))
    with Folder() as folder, serve(folder, policies=policies) as server:
        for path, least, times in (("/v1/policies", 50000, 20), ("/", 3000, 200)):
            with Client(server) as client:
                whole = client.request("GET", path).body
                assert len(whole) > least, len(whole)
                streams = [client.begin("GET", path, end=True) for _ in range(times)]
                for stream in streams:
                    assert client.wait(stream).body == whole
            makes_room(server, path, whole)


@test
def unix_sockets_and_tls_speak_it_too():
    with Folder() as folder:
        make_certs(folder)
        with serve(folder, "--tls-cert", folder / "server.pem", "--tls-key", folder / "server.key",
                   policies=POLICIES + f"server: {{listen: ['127.0.0.1:0', 'unix:{folder}/sock']}}",
                   listen=None) as server:
            with Client(unix=folder / "sock") as client:
                assert client.request("POST", "/v1/check", check_body("login", "k")).status == 200
            trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            with Client(server, tls=trust) as client:
                assert client.sock.selected_alpn_protocol() == "h2"
                streams = [client.post("/v1/check", check_body("login", "k")) for _ in range(50)]
                answers = [json.loads(client.wait(stream).body) for stream in streams]
                assert sum(answer["allowed"] for answer in answers) == 4
            old = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            old.set_alpn_protocols(["http/1.1"])
            with old.wrap_socket(server.connect(), server_hostname="localhost") as sock:
                assert sock.selected_alpn_protocol() == "http/1.1"
            with Client(server) as client:  # without TLS, where it is needed
                client.hear_all()
                assert [error for _, error in client.goaways] == [12], client.goaways


@test
def a_server_that_stops_says_so_twice_and_answers_what_is_on_its_way():
    with Folder() as folder, serve(folder) as server, Client(server) as client:
        body = check_body("login", "k")
        slow = client.begin("POST", "/v1/check")
        client.send(slow, body[:10], end=False)
        assert client.request("GET", "/healthz").status == 200
        server.signal(signal.SIGTERM)
        wait_until(lambda: client.goaways or client.hear(), "the first GOAWAY")
        late = client.h2.get_next_available_stream_id()
        client.send(slow, body[10:])
        assert client.wait(slow).status == 200
        client.hear_all()
        assert [error for _, error in client.goaways] == [0, 0], client.goaways
        assert client.goaways[0][0] == 2**31 - 1 and client.goaways[1][0] < late, client.goaways
        assert server.process.wait(PATIENCE) == 0


@test
def an_idle_connection_is_told_before_it_is_closed():
    with Folder() as folder, serve(folder, policies=POLICIES + "server: {idle_timeout: 1s}\n") as server, \
            Client(server) as client:
        assert client.request("POST", "/v1/check", check_body("login", "k")).status == 200
        client.hear_all()
        assert [error for _, error in client.goaways] == [0]


def answered_until_told(client):
    """A client that asks until it is told to connect again: all it has asked is answered, also what it ends later."""
    body, began = check_body("many", "k"), time.monotonic()
    asked = [client.begin("POST", "/v1/check")]
    client.send(asked[0], body[:10], end=False)
    while not client.goaways:
        asked.append(client.post("/v1/check", body))
        client.wait(asked[-1])
        assert time.monotonic() - began < PATIENCE, "the server says nothing"
    took = time.monotonic() - began
    client.send(asked[0], body[10:])
    client.hear_all()
    assert all(client.answers[stream].status == 200 for stream in asked)
    assert [error for _, error in client.goaways] == [0, 0] and client.goaways[0][0] == 2**31 - 1, client.goaways
    assert client.goaways[1][0] == asked[-1], (client.goaways, asked[-1])
    return len(asked), took


@test
def a_connection_of_a_great_age_ends_and_loses_nothing():
    aged = POLICIES + "server: {max_connection_age: 2s}\n"
    with Folder() as folder, serve(folder, threads=1, policies=aged) as server:
        clients = [Client(server) for _ in range(20)]
        began = time.monotonic()
        old, watch = Client(server), Client(server)
        stream = watch.post("/grpc.health.v1.Health/Watch", bytes(5), [("content-type", "application/grpc")])
        asked, took = answered_until_told(old)
        assert took > 1.5, took
        ends = []
        for client in clients:
            client.hear_all()
            ends.append(time.monotonic() - began)
            assert [error for _, error in client.goaways] == [0, 0], client.goaways
        assert watch.wait(stream).trailers["grpc-status"] == "14"  # UNAVAILABLE: it asks elsewhere
        with Client(server) as new:
            assert new.request("POST", "/v1/check", check_body("many", "k")).status == 200
        assert remaining(server, "many", "k") == 1000000 - asked - 1


@test
def connections_that_came_together_do_not_age_together():
    aged = POLICIES + "server: {max_connection_age: 10s}\n"
    with Folder() as folder, serve(folder, threads=1, policies=aged) as server:
        clients = {}
        for _ in range(30):
            client = Client(server)
            clients[client.sock] = client
        began, ends = time.monotonic(), []
        while len(ends) < len(clients):
            assert time.monotonic() - began < PATIENCE, ends
            for sock in select.select([sock for sock in clients if not clients[sock].goaways], [], [], 1)[0]:
                assert clients[sock].hear()
                if clients[sock].goaways:
                    ends.append(time.monotonic() - began)
        assert ends[0] > 8.5 and ends[-1] - ends[0] > 0.4, ends  # a tenth of the age, less chance


@test
def an_aged_connection_of_http_1_1_is_told_with_its_next_answer_and_resp_is_not():
    body = check_body("many", "k")
    said = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    aged = POLICIES + "server: {max_connection_age: 1s}\n"
    with Folder() as folder, serve(folder, policies=aged) as server, server.connect() as sock, \
            server.connect() as resp:
        began, answers = time.monotonic(), []
        while not answers or b"Connection: close\r\n" not in answers[-1]:
            sock.sendall(said)
            answers.append(sock.recv(65536))
            resp.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert resp.recv(100) == b"+PONG\r\n"
            assert answers[-1].startswith(b"HTTP/1.1 200 "), answers[-1]
            assert time.monotonic() - began < PATIENCE, "the server does not say that it closes"
        assert time.monotonic() - began > 0.8
        assert sock.recv(1) == b""
        assert remaining(server, "many", "k") == 1000000 - len(answers)
        for _ in range(3):
            resp.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert resp.recv(100) == b"+PONG\r\n"


@test
def clients_of_other_protocols_are_served_beside_it():
    with Folder() as folder, serve(folder, threads=1) as server, Client(server) as client:
        for _ in range(3):
            assert client.request("POST", "/v1/check", check_body("many", "k")).status == 200
            assert server.check("many", "k")["allowed"]
            assert server.resp("PING") == b"+PONG\r\n"
        assert remaining(server, "many", "k") == 1000000 - 6


if __name__ == "__main__":
    assert frames_in(frame(PING, 0, 0, bytes(8)))[1] == b""
    run()
