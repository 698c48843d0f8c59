#!/usr/bin/python3
"""test_envoy_client.py - a client that sends what Envoy's rate limit filter sends: its headers, its 20 ms, and a
RST_STREAM when they have passed; and calls that are broken in all ways that gRPC knows.

    test_envoy_client.py TREE      from the root of the source
"""
import signal
import struct
import sys
import time

sys.path.insert(0, "tests/support")
from http2_client import DATA, END_STREAM, HEADERS, Client, frame, frames_in  # noqa: E402
from redis import Redis  # noqa: E402
from stalls import Stalls  # noqa: E402
from weir_server import Folder, Server, run, test, wait_until  # noqa: E402

PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
# As Envoy 1.3x sends them, in this order, behind the four of HTTP/2.
ENVOY = [("te", "trailers"), ("grpc-timeout", "20m"), ("content-type", "application/grpc"),
         ("x-envoy-internal", "true"), ("x-forwarded-for", "10.1.2.3"),
         ("x-request-id", "2c3b7b0e-4a52-9f8a-9c6a-1f4c8f0c2a11"),
         ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
FILE = """
domain: shop
descriptors:
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: wide, rate_limit: {unit: year, requests_per_unit: 4294967295}}
"""
OK, INVALID, DEADLINE, EXHAUSTED, UNIMPLEMENTED, INTERNAL = "0", "3", "4", "8", "12", "13"
CANCEL = 8  # of HTTP/2
MOST_LATE = 2


class Served(Server):
    def __init__(self, *arguments, defaults="", **options):
        self.folder = Folder()
        path = self.folder.path
        (path / "envoy.yaml").write_text(FILE)
        (path / "weir.yaml").write_text(f"version: 1\ndefaults: {{{defaults}}}\npolicies: {{own: {{limit: 1 per 1h}}}}\n"
                                        "server: {envoy: {config: envoy.yaml}}\n")
        super().__init__(*arguments, config=path / "weir.yaml", **options)

    def __exit__(self, *_):
        super().__exit__()
        self.folder.__exit__()


class Recorder:
    """A socket that keeps what it has received."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def recv(self, n):
        data = self.sock.recv(n)
        self.data += data
        return data

    def __getattr__(self, name):
        return getattr(self.sock, name)


class Envoy(Client):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.sock = Recorder(self.sock)

    def frames(self, stream):
        """Those with a part of its answer: (kind, does it end it?, length)."""
        return [(kind, bool(flags & END_STREAM), len(payload))
                for kind, flags, of, payload in frames_in(self.sock.data)[0] if of == stream and kind in (DATA, HEADERS)]

    def call(self, message, headers=ENVOY):
        return self.wait(self.post(PATH, framed(message), headers))


def field(number, data):
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def request(key="remote_address", value=b"192.0.2.1", domain=b"shop"):
    return field(1, domain) + field(2, field(1, field(1, key.encode()) + field(2, value)))


def without(name):
    return [pair for pair in ENVOY if pair[0] != name]


def framed(message, flag=0):
    return bytes([flag]) + struct.pack(">I", len(message)) + message


def overall(answer):
    """The first field of the message."""
    assert answer.body[:1] == b"\0" and len(answer.body) == 5 + int.from_bytes(answer.body[1:5], "big")
    assert answer.body[5] == 8, answer.body
    return {1: "OK", 2: "OVER_LIMIT"}[answer.body[6]]


def status(answer):
    return answer.trailers.get("grpc-status") or answer.headers.get("grpc-status")


# ---- what it is answered --------------------------------------------------------------------

@test
def an_answer_is_a_head_one_message_and_a_status_in_the_trailers():
    with Served() as server, Envoy(server) as envoy:
        for i in range(7):
            stream = envoy.post(PATH, framed(request()), ENVOY)
            answer = envoy.wait(stream)
            assert (answer.status, answer.headers["content-type"]) == (200, "application/grpc"), answer.headers
            assert "grpc-status" not in answer.headers and answer.trailers["grpc-status"] == "0", answer.trailers
            assert overall(answer) == ("OK" if i < 5 else "OVER_LIMIT"), i
            frames = envoy.frames(stream)
            assert [frame[:2] for frame in frames] == [(HEADERS, False), (DATA, False), (HEADERS, True)], frames
            assert frames[1][2] == len(answer.body)


@test
def an_error_is_one_head_with_all_in_it():
    with Served() as server, Envoy(server) as envoy:
        stream = envoy.post(PATH, framed(request(domain=b"")), ENVOY)
        answer = envoy.wait(stream)
        assert answer.status == 200 and answer.headers["content-type"] == "application/grpc", answer.headers
        assert answer.headers["grpc-status"] == INVALID, answer.headers
        assert answer.headers["grpc-message"] == "rate limit domain must not be empty", answer.headers
        assert [frame[:2] for frame in envoy.frames(stream)] == [(HEADERS, True)], envoy.frames(stream)


@test
def where_data_frames_end_does_not_matter():
    body, headers = framed(request("wide")), [*without("grpc-timeout"), ("grpc-timeout", "20S")]
    with Served() as server, Envoy(server) as envoy:
        for cut in range(len(body) + 1):
            stream = envoy.begin("POST", PATH, headers)
            envoy.send(stream, body[:cut], end=False)
            envoy.send(stream, body[cut:])
            assert overall(envoy.wait(stream)) == "OK", cut
        stream = envoy.begin("POST", PATH, headers)
        for i in range(len(body)):
            envoy.send(stream, body[i:i + 1], end=i == len(body) - 1)
        assert overall(envoy.wait(stream)) == "OK"


@test
def it_may_come_by_a_unix_socket():
    with Folder() as folder, Served(listen=f"unix:{folder}/weir.sock") as server:
        with Envoy(unix=folder / "weir.sock") as envoy:
            assert overall(envoy.call(request())) == "OK"
        assert server.process.poll() is None


# ---- what is broken -------------------------------------------------------------------------

@test
def broken_calls_have_the_status_that_grpc_has_for_them():
    good = request("wide")
    rows = [
        ("bad UTF-8 in a value", framed(request("wide", b"\xff\xfe")), ENVOY, INTERNAL),
        ("bad UTF-8 in a domain", framed(request(domain=b"\xc3\x28")), ENVOY, INTERNAL),
        ("a message that ends too early", framed(good)[:-1], ENVOY, INTERNAL),
        ("no length", b"\0\0", ENVOY, INTERNAL),
        ("a field that ends too early", framed(good[:-1]), ENVOY, INTERNAL),
        ("no protobuf", framed(b"\xff" * 40), ENVOY, INTERNAL),
        ("no message", b"", ENVOY, UNIMPLEMENTED),
        ("two messages", framed(good) * 2, ENVOY, UNIMPLEMENTED),
        ("a message and a half", framed(good) + framed(good)[:9], ENVOY, UNIMPLEMENTED),
        ("compressed", framed(good, flag=1), [*ENVOY, ("grpc-encoding", "gzip")], UNIMPLEMENTED),
        ("compressed, and not said how", framed(good, flag=1), ENVOY, INTERNAL),
        ("a flag that is none", framed(good, flag=2), ENVOY, INTERNAL),
        ("too long", framed(b"\x0a\x80\x80\x08" + b"x" * (1 << 17)), ENVOY, EXHAUSTED),
        ("an empty message", framed(b""), ENVOY, INVALID),
        ("65 descriptors", framed(field(1, b"shop") + field(2, b"") * 65), ENVOY, INVALID),
        ("a bad timeout", framed(good), [*without("grpc-timeout"), ("grpc-timeout", "soon")], OK),
        ("identity", framed(good), [*ENVOY, ("grpc-encoding", "identity")], OK),
        ("with the codec", framed(good), [*without("content-type"), ("content-type", "application/grpc+proto")], OK),
        ("without te", framed(good), without("te"), OK),
    ]
    with Served() as server, Envoy(server) as envoy:
        for name, body, headers, expected in rows:
            answer = envoy.wait(envoy.post(PATH, body, headers))
            assert answer.status == 200 and status(answer) == expected, (name, answer.headers, answer.trailers)
            assert b"\xff" not in answer.headers.get("grpc-message", "").encode(), name
        assert overall(envoy.call(good)) == "OK"  # all of it on one connection


@test
def other_kinds_of_requests_at_the_path_are_no_calls():
    with Served() as server, Envoy(server) as envoy:
        for kind in "application/json", "application/grpc-web", "application/grpc-web+proto", "application/grpc+json":
            answer = envoy.wait(envoy.post(PATH, framed(request()), [("content-type", kind)]))
            assert answer.status == 415, (kind, answer.status)
        assert envoy.wait(envoy.begin("GET", PATH, ENVOY, end=True)).status in (404, 405, 415)


@test
def a_call_that_is_reset_before_its_turn_has_counted_nothing():
    with Served() as server, Envoy(server) as envoy:
        for _ in range(50):
            stream = envoy.post(PATH, framed(request()), ENVOY, flush=False)
            envoy.h2.reset_stream(stream, error_code=8)
        envoy.flush()
        answers = [overall(envoy.call(request())) for _ in range(6)]
        assert answers == ["OK"] * 5 + ["OVER_LIMIT"], answers


# ---- deadlines ------------------------------------------------------------------------------

def ask_for(envoy, seconds):
    """Calls as Envoy makes them, 20 at a time, for so long: (answered in time, reset as they were not)."""
    in_time = late = 0
    end = time.monotonic() + seconds
    envoy.sock.settimeout(0.005)
    while time.monotonic() < end:
        streams = [envoy.post(PATH, framed(request("wide")), ENVOY, flush=False) for _ in range(20)]
        envoy.flush()
        sent = dict.fromkeys(streams, time.monotonic())
        while sent:
            try:
                assert envoy.hear()
            except TimeoutError:
                pass
            for stream in list(sent):
                if envoy.answers[stream].is_ended:
                    assert status(envoy.answers[stream]) in (OK, DEADLINE), envoy.answers[stream].headers
                    in_time += status(envoy.answers[stream]) == OK
                    late += status(envoy.answers[stream]) == DEADLINE  # the server had no processor
                    del sent[stream]
                elif time.monotonic() - sent[stream] > 0.02:
                    envoy.h2.reset_stream(stream, error_code=8)
                    late += 1
                    del sent[stream]
        envoy.flush()
    envoy.sock.settimeout(30)
    return in_time, late


def is_allowed(envoy):
    answer = envoy.call(request("wide"))
    return status(answer) == OK and overall(answer) == "OK"


def times_after_a_hang():
    """How many ms the first calls take for which the store does not answer: no breaker is open yet. A server that has
    no processor for that long says so instead."""
    times = []
    with Redis() as redis, Served(defaults="on_error: deny", store=redis.url) as server, Envoy(server) as envoy:
        wait_until(lambda: is_allowed(envoy), "the store")
        redis.process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            began = time.monotonic()
            answer = envoy.call(request("wide"))
            times.append((time.monotonic() - began) * 1000)
            assert status(answer) == DEADLINE or overall(answer) == "OVER_LIMIT", answer.headers
        redis.process.send_signal(signal.SIGCONT)
    return times


@test
def what_on_error_says_is_heard_before_the_deadline_and_not_earlier_than_need_be():
    stalls = Stalls(3)
    times = sorted(took for _ in range(4) for took in times_after_a_hang())
    worst = stalls.worst()  # this machine may have had other work meanwhile
    # Where no deadline is given, a store has 100 ms.
    assert 10 <= times[0] < 20 + worst and times[len(times) // 2] < 60 + worst, (times, worst)


@test
def a_store_that_hangs_is_answered_for_on_the_same_connection():
    with Redis() as redis, Served(defaults="on_error: deny", store=redis.url) as server, Envoy(server) as envoy:
        wait_until(lambda: is_allowed(envoy), "the store")
        redis.process.send_signal(signal.SIGSTOP)
        try:
            in_time, late = ask_for(envoy, 3)
            assert in_time > 200 and late <= 0.1 * (in_time + late), (in_time, late)
            assert overall(envoy.call(request("wide"))) == "OVER_LIMIT"  # which is what on_error says
        finally:
            redis.process.send_signal(signal.SIGCONT)
        wait_until(lambda: is_allowed(envoy), "the store again")
        assert not envoy.goaways  # the same connection all the time


@test
def health_follows_a_store_that_dies_and_returns_as_readyz_does():
    health, plain = "/grpc.health.v1.Health/", without("grpc-timeout")
    serving, not_serving = framed(b"\x08\x01"), framed(b"\x08\x02")

    def stands(server, envoy, ready, state):
        envoy.call(request("wide"), plain)  # what finds out
        said = envoy.wait(envoy.post(health + "Check", framed(field(1, b"ratelimit")), plain)).body
        return server.http("GET", "/readyz")[0] == ready and said == state

    with Redis() as redis, Served(defaults="on_error: deny", store=redis.url, threads=1) as server, \
            Envoy(server) as envoy, Envoy(server) as watcher:
        wait_until(lambda: stands(server, envoy, 200, serving), "the store")
        known = watcher.post(health + "Watch", framed(field(1, b"ratelimit")), plain)
        other = watcher.post(health + "Watch", framed(field(1, b"other")), plain)
        told, untold = watcher.answers[known], watcher.answers[other]
        for number, (change, ready, state) in enumerate([(None, 200, serving), (redis.kill, 503, not_serving),
                                                         (redis.start, 200, serving), (redis.kill, 503, not_serving)]):
            if change:
                change()
            wait_until(lambda ready=ready, state=state: stands(server, envoy, ready, state), f"{ready}")
            wait_until(lambda number=number: len(told.body) == 7 * (number + 1) or not watcher.hear(), "a message")
            assert told.body.endswith(state), told.body
        assert told.body == (serving + not_serving) * 2 and not told.is_ended, told.body
        assert untold.body == framed(b"\x08\x03"), untold.body


def left_of(server, value):
    """What a limit of 5 has left."""
    return server.http("POST", "/v1/peek", {"policy": "shop.remote_address", "key": value})[2]["remaining"]


def ended_in_time(envoy, streams, began, after):
    """All of these, so many seconds after they began and not sooner. This machine may have other work meanwhile, but
    what a client lets wait without a deadline ends after 10 s only."""
    for stream in streams:
        envoy.wait(stream)
    took = time.monotonic() - began
    assert after <= took < after + MOST_LATE, took


@test
def a_call_that_is_not_all_there_when_its_time_has_passed_is_told_so():
    with Served(threads=1) as server, Envoy(server) as envoy:
        assert overall(envoy.call(request("wide"))) == "OK"
        for _ in range(3):  # more in all than one connection may have at the same time
            began = time.monotonic()
            streams = [envoy.begin("POST", PATH, ENVOY, flush=False) for _ in range(100)]
            for stream in streams[::2]:
                envoy.send(stream, framed(request())[:20], end=False, flush=False)
            envoy.flush()
            ended_in_time(envoy, streams, began, 0.02)
            for stream in streams:
                answer = envoy.answers[stream]
                assert answer.status == 200 and answer.headers["grpc-status"] == DEADLINE, answer.headers
                assert answer.headers["weir-code"] == "request_timeout", answer.headers
                assert [frame[:2] for frame in envoy.frames(stream)] == [(HEADERS, True)]
            envoy.sock.sendall(b"".join(frame(DATA, END_STREAM, stream, framed(request())[20:]) for stream in streams))
        assert [overall(envoy.call(request())) for _ in range(6)] == ["OK"] * 5 + ["OVER_LIMIT"]
        metrics = server.http("GET", "/metrics")[2].decode()
        assert 'weir_requests_total{protocol="grpc",status="4"} 300' in metrics, metrics
        assert not envoy.goaways


@test
def an_answer_that_is_not_taken_when_its_time_has_passed_is_reset_and_was_counted_once():
    with Served() as server, Envoy(server, window=0) as envoy:
        began = time.monotonic()
        streams = [envoy.post(PATH, framed(request()), ENVOY) for _ in range(3)]
        ended_in_time(envoy, streams, began, 0.02)
        assert all(envoy.answers[stream].reset == CANCEL for stream in streams)
        assert left_of(server, "192.0.2.1") == 2


@test
def a_health_that_is_watched_for_a_time_ends_with_it():
    watch, timed = "/grpc.health.v1.Health/Watch", [*without("grpc-timeout"), ("grpc-timeout", "20000u")]
    with Served() as server, Envoy(server) as envoy:
        began = time.monotonic()
        stream = envoy.post(watch, framed(b""), timed)
        ended_in_time(envoy, [stream], began, 0.02)
        answer = envoy.answers[stream]
        assert answer.body == framed(b"\x08\x01") and answer.trailers["grpc-status"] == DEADLINE, answer.trailers
        with Envoy(server, window=0) as silent:  # reads not even the first
            stream = silent.post(watch, framed(b""), timed)
            assert silent.wait(stream).reset == CANCEL


@test
def times_of_many_lengths_end_each_at_its_own():
    units = [("1S", 1), ("300m", .3), ("100000u", .1), ("50000000n", .05), ("20m", .02), ("0m", 0), ("999n", 0)]
    with Served(threads=1) as server, Envoy(server) as envoy, Envoy(server) as other:
        ends, streams = {}, {}
        for client in envoy, other:
            for text, seconds in units:
                stream = client.begin("POST", PATH, [*without("grpc-timeout"), ("grpc-timeout", text)])
                streams[client, stream] = seconds, time.monotonic()
        for (client, stream), (seconds, began) in sorted(streams.items(), key=lambda pair: pair[1]):
            assert client.wait(stream).headers["grpc-status"] == DEADLINE
            ends[client, stream] = time.monotonic() - began
            assert seconds <= ends[client, stream] < seconds + MOST_LATE, (seconds, ends)
        never = envoy.begin("POST", PATH, [*without("grpc-timeout"), ("grpc-timeout", "99999999H")])
        envoy.send(never, framed(request()))
        assert overall(envoy.wait(never)) == "OK"


@test
def what_a_store_answers_after_the_time_has_passed_is_for_no_call():
    """A ms is less than a store takes: whichever is first, each call has one answer, and none is counted twice."""
    soon = [*without("grpc-timeout"), ("grpc-timeout", "1m")]
    with Redis() as redis, Served(defaults="on_error: deny", store=redis.url, threads=1) as server, \
            Envoy(server) as envoy:
        wait_until(lambda: is_allowed(envoy), "the store")
        codes = {OK: 0, DEADLINE: 0}
        for _ in range(50):
            streams = [envoy.post(PATH, framed(request("wide", b"many")), soon, flush=False) for _ in range(20)]
            envoy.flush()
            for stream in streams:
                codes[status(envoy.wait(stream))] += 1
        assert sum(codes.values()) == 1000
        used = 4294967295 - server.http("POST", "/v1/peek", {"policy": "shop.wide", "key": "many"})[2]["remaining"]
        assert 0 < used <= 1000, (used, codes)
        assert overall(envoy.call(request())) in ("OK", "OVER_LIMIT")


if __name__ == "__main__":
    run()
