#!/usr/bin/env python3
"""test_again.py - requests like one before, but for their key and id, mean what they mean by themselves.

    test_again.py TREE      from the root of the source

Two servers are asked the same. One may remember; the other is asked in ever other letters, so that
no request is like one before.
"""
import random
import re
import sys
import time

sys.path.insert(0, "tests/support")
from weir_server import Folder, Server, command, run, test, wait_until  # noqa: E402

POLICIES = """
version: 1
policies:
  user: {limit: 3 per 1d, by: user}
  address: {limit: 3 per 1d, by: ip, ipv6_prefix: 64}
  mail: {limit: 3 per 1d, by: email, algorithm: token_bucket}
  key: {limit: 3 per 1d, by: key, algorithm: fixed_window}
  all: {limit: 1000000 per 1d}
  two: {limit: 3 per 1d, by: [user, ip]}
  tried: {limit: 3 per 1d, by: user, mode: shadow}
  spared: {limit: 3 per 1d, by: user, exempt: [{user: root}]}
  slots: {limit: 3 at once, by: user}
  several:
    rules:
      first: {limit: 5 per 1d, by: user}
      second: {limit: 3 per 2d, by: user}
      third: {limit: 4 per 3d, by: user, algorithm: token_bucket}
  queues:
    by: user
    algorithm: leaky_bucket
    rules:
      hour: {limit: 4 per 1d}
      day: {limit: 3 per 2d}
      week: {limit: 9 per 3d, burst: 5}
  locks:
    retry_after: soonest
    rules:
      strict: {limit: 3 per 1d, by: user, block_for: 2d}
      wide: {limit: 4 per 2d, by: user, algorithm: fixed_window}
      never: {limit: 0 per 1d, by: user, mode: off}
      exact: {limit: 3 per 3d, by: user, algorithm: sliding_counter}
"""
VALUES = ["a", "ab", "abc", "alice", "bob", "root", "1.2.3.4", "::ffff:1.2.3.4", "2001:db8::1",
          "2001:db8::2", "2001:db8:1::1", "Alice@Example.org", " alice@example.org ", "x=y", "user=z",
          "ip=1.2.3.4", "COST", "c29tZQ==", "\u00e4\u00f6\u00fc", "k" * 43, "k" * 44, "k" * 45, "k" * 60,
          "k" * 99, "k" * 100, "k" * 4096, "k" * 4097, "", b"\xff", b"a\0b", b"abcdefg\x80", b"a\r\n$1\r\n"]


class Reader:
    """Replies of RESP, as lists and texts."""

    def __init__(self, socket):
        self.file = socket.makefile("rb")

    def next(self):
        line = self.file.readline().removesuffix(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self.next() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        assert kind in b"+-:" and kind, line
        return line


def in_other_letters(word, number):
    """One of many ways to write the name of a command."""
    out, letters = "", 0
    for letter in word:
        if letter.isalpha():
            letter = letter.lower() if number >> letters & 1 else letter.upper()
            letters += 1
        out += letter
    return out


def without_made(name):
    """An id that the server has made is like any other."""
    return "made" if name and re.fullmatch(b"[0-9a-f]{32}", name) else name


def without_times(reply):
    """How long is said in ms, and time goes on meanwhile; tags and ids are made with a secret."""
    if not isinstance(reply, list):
        return reply
    if len(reply) == 10:  # a reservation that is held: its id, and when it expires
        return [*reply[:3], *reply[5:7], without_made(reply[7]), reply[9]]
    if len(reply) == 8:  # … or settled
        return reply[:3] + reply[4:]
    if isinstance(reply[0], list):
        return [without_times(each) for each in reply]
    if len(reply) in (5, 7):
        return reply[:3] + reply[5:]
    names = reply[::2]
    if b"reset_after_ms" not in names:
        return reply
    return [(name, without_times(value) if name == b"rules" and value else
             about(value[1:]) if name == b"delay_ms" else
             without_made(value) if name == b"reservation" else value)
            for name, value in zip(names, reply[1::2])
            if name not in (b"retry_after_ms", b"reset_after_ms", b"expires_in_ms", b"tag")]


def about(ms):
    """A delay in millions of ms: those of one key are hours apart, and time goes on meanwhile."""
    return b"%d" % round(int(ms) / 1000000)


def reservations(chance):
    """Runs of one command about reservations, with several keys and ids."""
    policy = chance.choice(["user", "key", "mail", "tried", "spared", "several", "slots", "all", "none"])
    by = chance.choice(["", "", "user="]).encode()
    behind = chance.choice([["TTL", "60000"], ["COST", "2", "TTL", "60000"], ["TTL", "0"],
                            ["TTL", "60000", "COST", "requests", "2"], ["TTL", "60000", "FULL"], []])
    ids = [f"r{n}" for n in range(20)] + ["local.x", "a b", "x" * 64, "x" * 65, "x" * 100, "", b"a\0b"]
    settle = chance.choice([["WEIR.COMMIT"], ["WEIR.COMMIT"], ["WEIR.RELEASE"]])
    used = chance.choice([[], [], ["COST", "1"], ["COST", "requests", "2"], ["COST", "other", "1"],
                          ["FULL"], ["COST", "1", "COST", "requests", "1"]])
    way = chance.choice(["reserve", "reserve", "reserve without id", "check", "settle", "settle", "extend",
                         "grow"])
    for _ in range(chance.randrange(1, 6)):
        value, name = chance.choice(VALUES[:12] + VALUES[-8:]), chance.choice(ids)
        value = by + (value if isinstance(value, bytes) else value.encode())
        if way == "reserve":
            yield ["WEIR.RESERVE", policy, value, *behind, "ID", name]
        elif way == "reserve without id":
            yield ["WEIR.RESERVE", policy, value, *behind]
        elif way == "check":
            yield ["WEIR.CHECK", policy, value, "ID", name, "COST", "1"]
        elif way == "settle":
            yield [*settle, name, *used]
        elif way == "extend":
            yield ["WEIR.EXTEND", name, "TTL", "70000"]
        else:
            yield ["WEIR.GROW", name, "COST", "1"]


def length_of_run(chance):
    """Mostly short, at times more than are answered together."""
    return chance.randrange(1, 6) if chance.randrange(6) else chance.randrange(10, 50)


def commands(chance):
    """Runs of one command with several keys."""
    ways = [("WEIR.CHECK", policy, None) for policy in
            ("user", "address", "mail", "key", "all", "two", "tried", "spared", "several", "queues", "locks",
             "none")]
    ways += [("WEIR.CHECK", "user", "user="), ("WEIR.CHECK", "address", "ip="),
             ("WEIR.CHECK", "user", "ip="), ("WEIR.CHECK", "several", "user="),
             ("WEIR.CHECK", "user", "no way="), ("WEIR.PEEK", "user", None)]
    limits = [("token_bucket", "3", "86400000"), ("sliding_window", "3", "86400000"),
              ("fixed_window", "3", "86400001", "START", "first"), ("no_such", "3", "86400000"),
              ("token_bucket", "3", "86400000", "COST", "2"), ("token_bucket", "3", "86400000", "FULL"),
              ("sliding_window", "3", "86400002", "NAME", "mine"), ("token_bucket", "x", "86400000"),
              ("leaky_bucket", "3", "86400000", "EXEMPT"), ("token_bucket", "0", "86400000")]
    cells = [("2", "3", "86400"), ("2", "3", "86400", "2"), ("2", "3", "86400", "0"), ("2", "3")]
    while True:
        kind = chance.randrange(5)
        if kind > 2:
            yield from reservations(chance)
            continue
        way = chance.choice((ways, limits, cells)[kind])
        behind = chance.choice([[], [], ["COST", "2"], ["COST", "0"], ["FULL"], ["PLAN", "p"],
                                ["EXEMPT"], ["b=c"], ["TAG"]]) if kind == 0 else []
        for _ in range(length_of_run(chance)):
            value = chance.choice(VALUES)
            value = value if isinstance(value, bytes) else value.encode()
            if kind == 0:
                yield [way[0], way[1], (way[2] or "").encode() + value, *behind]
            elif kind == 1:
                yield ["WEIR.LIMIT", value, *way]
            else:
                yield ["CL.THROTTLE", value, *way]


def send_in_pieces(socket, data, chance):
    """Mostly whole, sometimes cut anywhere."""
    while data:
        n = len(data) if chance.random() < 0.7 else chance.randrange(1, len(data) + 1)
        socket.sendall(data[:n])
        data = data[n:]


class Both:
    """The server that may remember, the one that cannot, and a connection to each."""

    def __init__(self, *arguments, store=False):
        self.folder = Folder()
        self.config = self.folder.path / "policies.yaml"
        self.config.write_text(POLICIES)
        self.servers = [Server(*arguments, config=self.config, threads=1,
                               store=f"file:{self.folder.path}/{name}" if store else "memory:")
                        for name in ("a", "b")]
        self.sockets = [server.connect() for server in self.servers]
        self.readers = [Reader(socket) for socket in self.sockets]
        self.asked = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for socket, server in zip(self.sockets, self.servers):
            socket.close()
            server.__exit__()
        self.folder.__exit__()

    def ask(self, words, chance=random.Random(1)):
        """Some commands together; each has the same answer from both."""
        plain, other = b"", b""
        for line in words:
            self.asked += 1
            plain += command(*line)
            other += command(in_other_letters(line[0], self.asked), *line[1:])
        send_in_pieces(self.sockets[0], plain, chance)
        self.sockets[1].sendall(other)
        for line in words:
            found, expected = [without_times(reader.next()) for reader in self.readers]
            assert found == expected, (line, found, expected)

    def one(self, *words):
        """… of the server that remembers."""
        self.sockets[0].sendall(command(*words))
        return self.readers[0].next()

    def counted(self):
        """What metrics say of all checks, of both."""
        return [sorted(line for line in server.http("GET", "/metrics")[2].decode().splitlines()
                       if line.startswith(("weir_checks_total", "weir_decisions_total",
                                           "weir_unanswered_checks_total", "weir_used_total",
                                           "weir_reservation_events_total", "weir_given_back_total",
                                           "weir_overrun_total")))
                for server in self.servers]


# ---- HTTP ----------------------------------------------------------------------------------------

KEYS = VALUES[:-4] + ["a%20b", "a+b", "%61", "a%", "a&policy=key", "a\\u0062", 'a\\"b', "a/b", "a b", "~@:._-"]
TARGETS = ["/v1/gate?policy=user&key={key}", "/v1/gate?key={key}&policy=address&deny_status=403",
           "/v1/gate?policy=several&key={key}", "/v1/gate?policy=queues&key={key}",
           "/v1/gate?policy=locks&key={key}", "/v1/gate?policy=user&user={key}",
           "/v1/gate?key={key}&algorithm=token_bucket&limit=3&window_ms=86400000",
           "/v1/check?policy=mail&key={key}", "/v1/gate?policy=none&key={key}",
           "/v1/gate?policy=user&key={key}&cost=2", "/v1/gate?policy=tried&key={key}"]
BODIES = ['{{"policy":"user","key":"{key}"}}', '{{"policy":"queues","key":"{key}"}}',
          '{{"key":"{key}","policy":"several"}}',
          '{{"policy":"user","attributes":{{"user":"{key}"}}}}', '{{"policy":"user","key":"{key}","tag":true}}',
          '{{"key":"{key}","limit":3,"window_ms":86400000,"algorithm":"token_bucket"}}',
          '{{"policy":"user","key":"{key}","cost":2}}', '{{"policy":"user","key":"{key}"']


def requests(chance):
    """Runs of one request with several keys: (its first line, its body)."""
    while True:
        way = chance.choice(TARGETS + BODIES)
        for _ in range(chance.randrange(1, 6)):
            key = chance.choice(KEYS)
            if way in TARGETS:
                method = chance.choice(["GET"] * 8 + ["HEAD", "POST"])
                yield f"{method} {way.format(key=key)} HTTP/1.1", ""
            else:
                path = chance.choice(["/v1/check"] * 4 + ["/v1/peek"])
                yield f"POST {path} HTTP/1.1", way.format(key=key)


def as_bytes(line, body, more):
    body = body.encode()
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{line}\r\nHost: localhost\r\n{more}{length}\r\n".encode() + body


def answer_of(data):
    """The first line, the lines of the head and the body, without times and tags; None: not all there."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    kept = sorted(re.sub(rb";t=\d+", b"", line) for line in lines[1:] if not line.startswith(
        (b"Date:", b"X-RateLimit-Reset:", b"Retry-After:", b"Content-Length:")))
    body = re.sub(rb'(?<="delay_ms":)\d+', lambda delay: about(delay[0]), body)
    return lines[0], kept, re.sub(rb'"(retry_after_ms|reset_after_ms|tag)":[^,}]*', b"", body)


def ask_http(server, socket, data, chance):
    """One request on a connection, again on another if that was ended."""
    send_in_pieces(socket, data, chance)
    found = b""
    while b"\r\n\r\n" not in found:
        piece = socket.recv(65536)
        assert piece, found
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", head)[1])
    while len(body) < length and not data.startswith(b"HEAD"):
        body += socket.recv(65536)
    ended = b"Connection: close" in head
    return head + b"\r\n\r\n" + body, server.connect() if ended else socket


def compare_http(seed):
    chance = random.Random(seed)
    print(f"# seed {seed}")
    with Both() as both:
        source = requests(chance)
        for n in range(1000):
            line, body = next(source)
            answers = []
            for i, more in enumerate(("", f"X-Once: {n}\r\n")):
                found, both.sockets[i] = ask_http(both.servers[i], both.sockets[i],
                                                  as_bytes(line, body, more), chance)
                answers.append(answer_of(found))
            assert answers[0] == answers[1], (line, body, answers)
        counted = both.counted()
        assert counted[0] == counted[1], counted


@test
def a_remembered_request_of_http_is_answered_and_counted_as_any_other():
    compare_http(time.time_ns() % 1000000)


@test
def requests_of_http_that_come_together_are_told_apart():
    with Both() as both:
        keys = ["a", "bb", "ccc", "dddd", "a", "bb", "a"] * 3
        both.sockets[0].sendall(b"".join(
            as_bytes(f"GET /v1/gate?policy=user&key={key} HTTP/1.1", "", "") for key in keys))
        data = b""
        while data.count(b"\r\n\r\n") < len(keys):
            data += both.sockets[0].recv(65536)
        left = [int(n) for n in re.findall(rb"X-RateLimit-Remaining: (\d+)", data)]
        wanted, seen = [], {}
        for key in keys:
            seen[key] = seen.get(key, 0) + 1
            wanted.append(max(3 - seen[key], 0))
        if len(left) < len(keys):  # those that were denied have a body behind their head
            data += both.sockets[0].recv(65536)
            left = [int(n) for n in re.findall(rb"X-RateLimit-Remaining: (\d+)", data)]
        assert left[:15] == wanted[:15], (left, wanted)


def next_response(file):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline()
        assert line, head
        head += line
    return head + file.read(int(re.search(rb"Content-Length: (\d+)", head)[1]))


@test
def pipelined_requests_of_http_are_answered_and_counted_as_one_by_one():
    chance = random.Random(seed := time.time_ns() % 1000000)
    print(f"# seed {seed}")
    with Both() as both:
        files = [socket.makefile("rb") for socket in both.sockets]
        for _ in range(60):
            batch = []
            for _ in range(chance.randrange(1, 5)):
                way = chance.choice(TARGETS[:7] + BODIES[:4])
                for _ in range(length_of_run(chance)):
                    key = chance.choice(VALUES[:11])
                    batch.append(("GET " + way.format(key=key) + " HTTP/1.1", "") if way in TARGETS
                                 else ("POST /v1/check HTTP/1.1", way.format(key=key)))
            both.sockets[0].sendall(b"".join(as_bytes(*each, "") for each in batch))
            for n, each in enumerate(batch):
                both.sockets[1].sendall(as_bytes(*each, f"X-Once: {n}\r\n"))
                found = [answer_of(next_response(file)) for file in files]
                assert found[0] == found[1], (each, found)
        counted = both.counted()
        assert counted[0] == counted[1], counted


@test
def a_token_of_http_is_asked_for_each_time():
    with Folder() as folder:
        (folder / "token").write_text("a-token-of-this-test\n")
        (folder / "token").chmod(0o600)
        with Both("--token-file", f"check:{folder}/token") as both:
            def status(key, token=None):
                more = f"Authorization: Bearer {token}\r\n" if token else ""
                data = as_bytes(f"GET /v1/gate?policy=user&key={key} HTTP/1.1", "", more)
                with both.servers[0].connect() as socket:
                    return ask_http(both.servers[0], socket, data, random.Random(1))[0][9:12]
            for key in "a", "b", "c":
                assert status(key, "a-token-of-this-test") == b"200"
            assert status("a") == b"401" and status("b", "a-token-of-this-tesT") == b"401"
            (folder / "token").write_text("another-token-of-this-test\n")
            both.servers[0].signal(1)
            both.servers[0].wait_for("reloaded")
            assert status("d", "a-token-of-this-test") == b"401"
            assert status("d", "another-token-of-this-test") == b"200"


def compare(store, seed):
    chance = random.Random(seed)
    print(f"# seed {seed}")
    with Both(store=store) as both:
        source = commands(chance)
        for _ in range(100):
            both.ask([next(source) for _ in range(chance.randrange(1, 60))], chance)
        counted = both.counted()
        assert counted[0] == counted[1], counted
        assert any("weir_checks_total" in line for line in counted[0]), counted


@test
def a_remembered_command_is_answered_and_counted_as_any_other():
    compare(False, time.time_ns() % 1000000)


@test
def the_same_with_counters_in_a_file():
    compare(True, time.time_ns() % 1000000)


@test
def denials_that_come_together_are_all_counted_and_told():
    wait_until(lambda: time.time() % 300 < 293, "the next time that counts are halved")
    with Both() as both:
        for _ in range(3):  # keys that take turns, and one alone
            both.ask([["WEIR.CHECK", "key", key] for key in ["x", "y"] * 8 + ["hot"] * 100 + ["x"]])
        counted = both.counted()
        assert counted[0] == counted[1], counted
        for server in both.servers:
            top = server.http("GET", "/v1/top")[2]["top"]
            assert [(each["denied"], each["error"]) for each in top] == [(297, 0), (24, 0), (21, 0)], top
            server.stop()
            wait_until(lambda log=server.log: log.ended, "the end of the log")
            lines = server.log.events("denied")
            told = sum("tag" in line for line in lines) + sum(line.get("left_out", 0) for line in lines)
            assert told == 297 + 24 + 21, lines


@test
def other_policies_are_seen_at_once():
    with Both() as both:
        for _ in range(3):
            assert both.one("WEIR.CHECK", "user", "a")[1] == b":3"
        both.config.write_text(POLICIES.replace("user: {limit: 3", "user: {limit: 7"))
        assert both.servers[0].http("POST", "/v1/reload")[0] == 200
        assert both.one("WEIR.CHECK", "user", "a")[1:3] == [b":7", b":3"]
        assert both.one("WEIR.CHECK", "user", "b")[1:3] == [b":7", b":6"]
        both.config.write_text(POLICIES.replace("  user: {limit", "  person: {limit"))
        assert both.servers[0].http("POST", "/v1/reload")[0] == 200
        assert both.one("WEIR.CHECK", "user", "a").startswith(b"-NO_SUCH_POLICY"), \
            both.one("WEIR.CHECK", "user", "a")


@test
def what_operators_change_is_seen_at_once():
    with Both() as both:
        for key in "a", "b":
            assert both.one("WEIR.CHECK", "user", key)[0] == b":1"
        blocked = {"policy": "user", "key": "a", "effect": "block"}
        status, _, answer = both.servers[0].http("PUT", "/v1/overrides", blocked)
        assert status == 200, answer
        assert both.one("WEIR.CHECK", "user", "a")[0] == b":0"
        assert both.one("WEIR.CHECK", "user", "b")[0] == b":1"


@test
def a_remembered_reservation_is_of_its_own_key_and_id():
    with Both() as both:
        def reserve(key, name):
            return both.one("WEIR.RESERVE", "user", key, "TTL", "60000", "ID", name)
        for n in range(3):
            assert reserve("a", f"a{n}")[2:3] == [b":%d" % (2 - n)]
        assert reserve("b", "b1")[2] == b":2"
        assert reserve("b", "b1")[9] == b":1" and reserve("a", "a1")[9] == b":1"  # repeated
        assert reserve("a", "b1").startswith(b"-ID_REUSED"), reserve("a", "b1")
        for n in range(3):
            assert both.one("WEIR.RELEASE", f"a{n}")[2] == b":%d" % (n + 1)
        assert both.one("WEIR.RELEASE", "b1")[2] == b":3"


@test
def reservations_that_come_together_are_all_counted():
    with Both() as both:
        def reserve(policy, n):
            return ["WEIR.RESERVE", policy, f"k{n}", "TTL", "60000", "ID", f"{policy}{n}"]
        for n in range(0, 60, 3):  # pairs of two policies, some repeated, one that is used in part
            both.ask([reserve("user", n), ["WEIR.COMMIT", f"user{n}"],
                      reserve("key", n), ["WEIR.COMMIT", f"key{n}"], ["WEIR.COMMIT", f"key{n}"],
                      reserve("several", n), reserve("several", n), ["WEIR.COMMIT", f"several{n}"],
                      reserve("key", n + 1), ["WEIR.RELEASE", f"key{n + 1}"],
                      reserve("key", n + 2), ["WEIR.COMMIT", f"key{n + 2}", "COST", "2"]])
        counted = both.counted()
        assert counted[0] == counted[1], counted
        events = dict(re.findall(r'weir_reservation_events_total\{policy="key",event="(\w+)"\} (\d+)',
                                 "\n".join(counted[0])))
        assert events["reserved"] == "60" and events["committed"] == "40", events
        assert events["released"] == events["repeated"] == "20", events


@test
def a_command_of_a_transaction_waits_for_exec():
    with Both() as both:
        for _ in range(2):
            both.ask([("WEIR.LIMIT", "a", "token_bucket", "9", "86400000")])
        both.ask([("MULTI",), ("WEIR.LIMIT", "a", "token_bucket", "9", "86400000"),
                  ("WEIR.LIMIT", "b", "token_bucket", "9", "86400000"), ("EXEC",),
                  ("WEIR.LIMIT", "a", "token_bucket", "9", "86400000")])


@test
def who_has_shown_no_token_may_not_repeat_what_others_may():
    with Folder() as folder:
        (folder / "token").write_text("a-token-of-this-test\n")
        (folder / "token").chmod(0o600)
        with Both("--token-file", f"check:{folder}/token") as both:
            limit = ("WEIR.LIMIT", "a", "token_bucket", "9", "86400000")
            assert both.one(*limit).startswith(b"-NOAUTH")
            assert both.one("AUTH", "a-token-of-this-test") == b"+OK"
            for _ in range(3):
                assert both.one(*limit)[0] == b":1"
            with both.servers[0].connect() as stranger:
                stranger.sendall(command(*limit) * 2)
                reader = Reader(stranger)
                assert reader.next().startswith(b"-NOAUTH")
                assert reader.next().startswith(b"-NOAUTH")
            (folder / "token").write_text("another-token-of-this-test\n")
            both.servers[0].signal(1)
            both.servers[0].wait_for("reloaded")
            assert both.one(*limit).startswith(b"-NOAUTH")


run()
