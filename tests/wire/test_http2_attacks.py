#!/usr/bin/python3
"""test_http2_attacks.py - clients of HTTP/2 that mean harm: what they cost has a bound, and others are
served meanwhile.

    test_http2_attacks.py TREE      from the root of the source
"""
import fcntl
import json
import select
import socket
import struct
import sys
import termios
import time

sys.path.insert(0, "tests/support")
from http2_client import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING,  # noqa: E402
                          PREFACE, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, Client, begin,
                          field, frame, frames_in, goaway_error, head, read_until)
from weir_server import PATIENCE, Folder, Server, run, test  # noqa: E402

REFUSED_STREAM, ENHANCE_YOUR_CALM = 7, 11
POLICIES = """
version: 1
policies:
  login: {limit: 1000000 per 1h, by: user}
"""
BODY = json.dumps({"policy": "login", "key": "k"}).encode()
MOST_MEMORY = 48 * 1024 * 1024  # that one attacker may make it grow by


class Attacked:
    """A server with one thread, so that an attack and the others share it."""

    def __init__(self, policies=POLICIES):
        self.folder = Folder()
        config = self.folder.path / "weir.yaml"
        config.write_text(policies)
        self.server = Server(config=config, threads=1)

    def __enter__(self):
        self.server.__enter__()
        self.other = Client(self.server)
        assert self.other.request("POST", "/v1/check", BODY).status == 200
        self.memory = self.status("VmRSS")
        return self

    def status(self, name):
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

    def seconds(self):
        with open(f"/proc/{self.server.pid}/stat", encoding="ascii") as line:
            words = line.read().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / 100

    def others_are_served(self):
        began = time.monotonic()
        assert self.other.request("POST", "/v1/check", BODY).status == 200
        assert self.server.check("login", "k")["allowed"]
        assert time.monotonic() - began < PATIENCE / 3

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.others_are_served()
                grown = self.status("VmHWM") - self.memory
                assert grown < MOST_MEMORY, f"{grown} bytes more"
        finally:
            self.other.close()
            self.server.__exit__()
            self.folder.__exit__()


def flood(attacked, pieces, most=50):
    """Send the pieces until the server says that it ends the connection, and why; at most so many."""
    rest = b""
    with begin(attacked.server) as sock:
        for number, piece in enumerate(pieces):
            try:
                sock.sendall(piece)
                while select.select([sock], [], [], 0.002)[0]:
                    more = sock.recv(65536)
                    found, rest = frames_in(rest + more)
                    errors = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in found if kind == GOAWAY]
                    if errors or not more:
                        return errors[0] if errors else None
            except ConnectionError:
                return None
            assert number < most, "the server lets all of it pass"
            if number % 10 == 0:
                attacked.others_are_served()
    return None


def streams(first=1):
    while first < 2**31:
        yield first
        first += 2


def together(make, count=400):
    """Pieces of so many frames each."""
    numbers = streams()
    while True:
        yield b"".join(make(next(numbers)) for _ in range(count))


@test
def streams_that_are_opened_and_reset_end_the_connection():
    def rapid(stream):
        return (frame(HEADERS, END_HEADERS | END_STREAM, stream, head("/healthz", "GET")) +
                frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))
    with Attacked() as attacked:
        assert flood(attacked, together(rapid)) == ENHANCE_YOUR_CALM


@test
def a_flood_of_settings_ends_the_connection():
    with Attacked() as attacked:
        assert flood(attacked, together(lambda _: frame(SETTINGS, 0, 0))) == ENHANCE_YOUR_CALM


@test
def a_flood_of_pings_ends_the_connection():
    with Attacked() as attacked:
        assert flood(attacked, together(lambda _: frame(PING, 0, 0, bytes(8)))) == \
            ENHANCE_YOUR_CALM


@test
def a_flood_of_priorities_of_empty_data_or_of_unknown_frames_ends_the_connection():
    floods = (lambda _: frame(PRIORITY, 0, 1, struct.pack(">IB", 3, 1)),
              lambda _: frame(DATA, 0, 1),
              lambda _: frame(0x77, 0, 0, b"x"))
    with Attacked() as attacked:
        for make in floods:
            opening = frame(HEADERS, END_HEADERS, 1, head("/v1/check"))
            pieces = together(make)
            assert flood(attacked, (opening if i == 0 else next(pieces) for i in range(500))) == \
                ENHANCE_YOUR_CALM


@test
def a_head_without_an_end_ends_the_connection():
    """It is nghttp2 that bounds these: it takes 8 frames."""
    def pieces():
        yield frame(HEADERS, 0, 1, head("/healthz", "GET"))
        while True:
            yield frame(CONTINUATION, 0, 1, field("x", "y" * 100))
    with Attacked() as attacked:
        assert flood(attacked, pieces()) is not None


@test
def a_head_that_unpacks_to_much_is_not_kept():
    """A field of 3 KiB in the table, named again by one byte: 16 KiB become 48 MiB."""
    big = b"\x40" + b"\x01a" + b"\x7f" + bytes([(3000 - 127) & 127 | 128, (3000 - 127) >> 7]) + \
        b"v" * 3000
    bomb = frame(HEADERS, 0, 1, head("/healthz", "GET") + big) + \
        frame(CONTINUATION, END_HEADERS, 1, b"\xbe" * 16000)
    with Attacked() as attacked, begin(attacked.server) as sock:
        before = attacked.seconds()
        sock.sendall(bomb)
        assert goaway_error(sock) == ENHANCE_YOUR_CALM
        assert attacked.seconds() - before < 1


@test
def ten_thousand_idle_streams_take_little_memory():
    with Attacked() as attacked:
        numbers = streams()

        def pieces():
            while True:
                yield b"".join(frame(HEADERS, END_HEADERS, next(numbers), head("/v1/check"))
                               for _ in range(1000))
        with begin(attacked.server) as sock:
            try:
                for _, piece in zip(range(10), pieces()):
                    sock.sendall(piece)
                    attacked.others_are_served()
            except ConnectionError:
                pass
            assert goaway_error(sock) is not None


@test
def errors_that_make_the_server_reset_streams_end_the_connection():
    """MadeYouReset. Of the GUARD_MOST_UNKNOWN that a connection begins with, a stream takes 66 where the frame and the
    reset cost GUARD_ERROR each, and 34 where nghttp2 tells of the reset only."""
    def overflows(stream):
        return (frame(HEADERS, END_HEADERS, stream, head("/v1/check")) +
                frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 2**31 - 1)))

    def is_longer_than_it_says(stream):
        return (frame(HEADERS, END_HEADERS, stream, head("/v1/check", fields=[("content-length", "1")])) +
                frame(DATA, 0, stream, b"xx"))
    with Attacked() as attacked:
        assert flood(attacked, together(overflows, 1), most=25) == ENHANCE_YOUR_CALM
        assert flood(attacked, together(is_longer_than_it_says, 1), most=45) == ENHANCE_YOUR_CALM


def frames_until_pong(sock):
    sock.sendall(frame(PING, 0, 0, bytes(8)))
    return read_until(sock, lambda kind, flags, *_: kind == GOAWAY or kind == PING and flags & 1)


@test
def a_connection_has_256_streams_at_most():
    with Attacked() as attacked, begin(attacked.server) as sock:
        sock.sendall(b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * i, head("/v1/check")) for i in range(300)))
        found = frames_until_pong(sock) + frames_until_pong(sock)  # the first may overtake what was said before
        refused = [(stream, struct.unpack(">I", payload)[0]) for kind, _, stream, payload in found if kind == RST_STREAM]
        assert refused == [(1 + 2 * i, REFUSED_STREAM) for i in range(256, 300)], refused


@test
def a_client_that_does_not_know_the_bound_yet_stays():
    """As an Envoy with many calls at hand, which takes its own bound of 1024 on a new connection. No stream ends
    meanwhile, as the window is 0."""
    with Attacked() as attacked, begin(attacked.server, window=0) as sock:
        sock.sendall(b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * i, head("/v1/check")) +
                              frame(DATA, END_STREAM, 1 + 2 * i, BODY) for i in range(1024)))
        found = frames_until_pong(sock) + frames_until_pong(sock)
        assert [sum(kind == what for kind, *_ in found) for what in (HEADERS, RST_STREAM)] == [256, 768], found[-1]


@test
def resets_of_calls_that_were_asked_end_the_connection_only_where_they_are_very_many():
    """As by an Envoy whose calls are not answered in time. Answers wait for room, as the window is 0. nghttp2 counts the
    resets: see RESETS of connection.c. What was asked pays for its frames, so the guard lets them pass."""
    numbers, resets, ends = streams(), 0, []
    with Attacked() as attacked, begin(attacked.server, window=0) as sock:
        while not ends and resets < 40000:
            some = [next(numbers) for _ in range(200)]
            for make in (lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, head("/healthz", "GET")),
                         lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", 8))):
                sock.sendall(b"".join(make(stream) for stream in some))
                found = frames_until_pong(sock)
                assert not any(kind == RST_STREAM for kind, *_ in found), found
                ends += [one for one in found if one[0] == GOAWAY]
            resets += 200
        assert ends and resets > 2560, resets


@test
def answers_that_are_not_read_are_bounded_and_their_streams_reset():
    """With a window of 0 no byte of a body leaves: the streams wait, and then are ended."""
    policies = POLICIES + "server: {request_timeout: 1s}\n"
    with Attacked(policies) as attacked, begin(attacked.server, window=0) as sock:
        for stream in range(1, 400, 2):
            sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream, head("/", "GET")))
        attacked.others_are_served()
        before = attacked.seconds()
        found = read_until(sock, lambda kind, *_: kind == RST_STREAM)
        assert found and not any(kind == DATA for kind, *_ in found)
        assert attacked.seconds() - before < 0.5, "the server was busy with waiting"


@test
def a_client_that_does_not_read_is_not_written_to():
    """The kernel's buffers fill, and what is behind them is bounded; reading goes on, without a spin."""
    policies = POLICIES + "server: {request_timeout: 2s}\n"
    with Attacked(policies) as attacked, begin(attacked.server, window=2**31 - 1) as sock:
        sock.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65535)))
        numbers = streams()
        sock.setblocking(False)
        sent, busy, began = 0, attacked.seconds(), time.monotonic()
        try:
            while sent < 20000 and time.monotonic() - began < 3:
                if not select.select([], [sock], [], 0.1)[1]:
                    continue
                for _ in range(50):
                    sock.send(frame(HEADERS, END_HEADERS | END_STREAM, next(numbers), head("/", "GET")))
                sent += 50
                if sent % 1000 == 0:
                    attacked.others_are_served()
        except (BlockingIOError, ConnectionError):
            pass
        attacked.others_are_served()
        began, busy = time.monotonic(), attacked.seconds()
        time.sleep(1)
        assert attacked.seconds() - busy < 0.5, "the server was busy with waiting"


def unread(sock):
    return struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]


def let_it_serve(other):
    """What was sent before is read and answered: a thread that is slow may see a later request first, but not several."""
    for _ in range(5):
        assert other.request("GET", "/healthz").status == 200


def without_reading(sock, other):
    """Fill the kernel's buffers with one answer after the other, so that only a few wait behind them: what is asked
    then is read, and its answers stay with the server."""
    numbers = streams()
    sock.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) +
                 frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65535)))
    before = same = 0
    while same < 5:
        sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, next(numbers), head("/", "GET")))
        let_it_serve(other)
        same = same + 1 if unread(sock) == before else 0
        before = unread(sock)
    return numbers


@test
def answers_that_are_queued_for_a_client_that_does_not_read_are_bounded():
    """A stream that is reset leaves the head of its answer in the queue, so the bound on streams does not help."""
    with Folder() as folder:
        config = folder / "weir.yaml"
        config.write_text(POLICIES)
        with Server(config=config, threads=1, listen=f"unix:{folder}/sock") as server, \
                socket.socket(socket.AF_UNIX) as sock, Client(unix=folder / "sock") as other:
            sock.connect(str(folder / "sock"))
            sock.settimeout(PATIENCE)
            numbers = without_reading(sock, other)
            for _ in range(15):
                some = [next(numbers) for _ in range(100)]
                for make in (lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, head("/healthz", "GET")),
                             lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", 8))):
                    sock.sendall(b"".join(make(stream) for stream in some))
                    let_it_serve(other)
            sock.sendall(frame(PING, 0, 0, bytes(8)))
            assert not read_until(sock, lambda kind, flags, *_: kind == PING and flags & 1), "all of it was queued"
            assert other.request("POST", "/v1/check", BODY).status == 200


@test
def requests_that_stay_unfinished_are_reset():
    policies = POLICIES + "server: {request_timeout: 1s}\n"
    with Attacked(policies) as attacked, begin(attacked.server) as sock:
        sock.sendall(frame(HEADERS, END_HEADERS, 1, head("/v1/check")))
        began = time.monotonic()
        while True:  # bytes that come do not put it off
            sock.sendall(frame(DATA, 0, 1, b" ") + frame(PING, 0, 0, bytes(8)))
            found = read_until(sock, lambda kind, flags, *_: kind == PING and flags & 1)
            assert found, "the connection is closed"
            if any(kind == RST_STREAM for kind, *_ in found):
                break
            assert time.monotonic() - began < PATIENCE / 2, "it is not reset"
            time.sleep(0.05)
        assert time.monotonic() - began > 0.5


@test
def frames_that_are_cut_or_wrong_end_only_their_connection():
    whole = (PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head("/v1/check")) +
             frame(DATA, END_STREAM, 1, BODY))
    with Attacked() as attacked:
        for end in range(0, len(whole), 7):
            with attacked.server.connect() as sock:
                sock.sendall(whole[:end])
        wrong = [b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n", PREFACE + b"\xff" * 200,
                 PREFACE + frame(DATA, 0, 1, b"x"), PREFACE + frame(SETTINGS, 0, 0, b"12345"),
                 PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 2, head("/")),
                 PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff"),
                 PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, bytes(4)),
                 PREFACE + frame(SETTINGS, 0, 0) + frame(PING, 0, 3, bytes(8)),
                 PREFACE + frame(SETTINGS, 0, 0) + b"\xff\xff\xff" + frame(DATA, 0, 1)[3:]]
        for said in wrong:
            with attacked.server.connect() as sock:
                sock.sendall(said)
                assert goaway_error(sock) is not None, said
                attacked.others_are_served()


@test
def many_bodies_at_the_same_time_are_bounded():
    """Of a client that sends no more than the windows allow."""
    with Attacked() as attacked, begin(attacked.server) as sock:
        numbers = [1 + 2 * i for i in range(200)]
        sock.sendall(b"".join(frame(HEADERS, END_HEADERS, stream, head("/v1/check")) for stream in numbers))
        windows, data, ends, sent = {0: 65535}, b"", [], 0
        while not ends and sent < 96_000_000:
            for stream in numbers:
                if min(windows[0], windows.get(stream, 0)) >= 8000:
                    sock.sendall(frame(DATA, 0, stream, b" " * 8000))
                    windows[stream] -= 8000
                    windows[0] -= 8000
                    sent += 8000
            found, data = frames_in(data + sock.recv(65536))
            for kind, _, stream, payload in found:
                if kind == SETTINGS and payload:
                    first = dict(struct.iter_unpack(">HI", payload))[4]
                    windows.update({number: first for number in numbers})
                elif kind == WINDOW_UPDATE:
                    windows[stream] += int.from_bytes(payload, "big")
            ends = [(kind, payload) for kind, _, _, payload in found if kind in (RST_STREAM, GOAWAY)]
        assert ends and ends[0] == (RST_STREAM, struct.pack(">I", REFUSED_STREAM)), (ends, sent)


@test
def pings_of_a_client_that_asks_are_answered():
    """Some clients send one with each request: that is no flood."""
    with Attacked() as attacked:
        for _ in range(3000):
            attacked.other.h2.ping(bytes(8))
            stream = attacked.other.post("/v1/check", BODY)
            assert attacked.other.wait(stream).status == 200


if __name__ == "__main__":
    run()
