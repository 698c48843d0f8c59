#!/usr/bin/env python3
"""test_replay.py - a replay denies what a server denies, and says so; whatever the logs are like.

    test_replay.py TREE
"""
import contextlib
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from weir_server import PATIENCE, WEIR, Folder, Log, Server, run, test, wait_until  # noqa: E402

SCALE = int(os.environ.get("WEIR_TEST_SCALE", "100"))
START = 1714550400  # 2024-05-01T08:00:00Z

POLICIES = """version: 1
policies:
  login:
    rules:
      ip: {limit: 3 per 20s, by: ip}
      all: {limit: 40 per 10s, algorithm: fixed_window}
  api: {limit: 5 per 10s, burst: 8, by: [ip, user], algorithm: token_bucket}
  site: {limit: 60 per 1m, by: ip, algorithm: sliding_counter, plans: {bot: 4 per 1m}, shadow_limit: 20 per 1m}
  traffic: {limit: 900 per 30s, by: ip, mode: shadow}
  volume: {rules: {kilobytes: {limit: 400 per 30s, by: ip, counts: kilobytes}, calls: {limit: 50 per 10s, by: ip}}}
exempt: [{ip: 198.51.100.0/24}]
replay:
  map:
    - POST /login => login
    - /api/** => api
    - GET agent=*bot* => site plan=bot
    - GET /static/** => traffic cost=bytes/100
    - GET /big => volume cost.kilobytes=bytes/1000
    - GET => site
"""


def line(when, ip="203.0.113.1", user="-", request="GET / HTTP/1.1", status=200, size=100, agent="curl"):
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(when))
    return f'{ip} - {user} [{stamp}] "{request}" {status} {size} "-" "{agent}"\n'


def traffic(count, seed):
    """Requests of few clients, close to each other; some step back a little."""
    dice = random.Random(seed)
    when = START
    for _ in range(count):
        when += dice.choice([0, 0, 0, 1, 1, 2, -1])
        yield line(when, ip=dice.choice(["203.0.113.1", "203.0.113.2", "2001:db8::1", "198.51.100.7", "192.0.2.44"]),
                   user=dice.choice(["ann", "bob", "-"]), size=dice.randrange(9000),
                   request=dice.choice(["POST /login", "GET /api/a/b", "PUT /api/c", "GET /static/x.js",
                                        "GET /", "GET /?q=1", "GET /big", "GET /big", "DELETE /x"]) + " HTTP/1.1",
                   agent=dice.choice(["curl", "a bot 1"]))


class Here(Folder):
    """A folder with policies, and `weir replay` in it."""

    def __enter__(self):
        self.write("policies.yaml", POLICIES)
        return self

    def write(self, name, content):
        path = self.path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run(self, *args, config="policies.yaml", status=0, stdin=None):
        done = subprocess.run([WEIR, "replay", "--config", self.path / config, *args], cwd=self.path, input=stdin,
                              capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == status, (done.returncode, done.stderr)
        return done.stdout if status == 0 else done.stderr.decode()

    def json(self, *args, **named):
        return json.loads(self.run("--json", *args, **named))


def compared_with_a_server(here, log, config):
    """What a replay told, and its trace, of which a server with the same policies has said each answer."""
    secret = ["--secret-file", here.path / "secret"]  # whom a rollout reaches depends on it
    with Server("--trust-client-clock", *secret, config=here.path / config) as s:
        told = here.json("--trace", "trace.jsonl", *secret, log, config=config)
        trace = [json.loads(entry) for entry in (here.path / "trace.jsonl").read_text().splitlines()]
        for first in range(0, len(trace), 500):
            some = trace[first:first + 500]
            answers = s.http("POST", "/v1/check", {"checks": [entry["request"] for entry in some]})[2]["answers"]
            for entry, answer in zip(some, answers):
                for name, value in entry["answer"].items():
                    assert answer[name] == value, (entry, answer)
    assert told["judged"] == len(trace)
    assert told["denied"] == sum(not entry["answer"]["allowed"] for entry in trace)
    return told, trace


@test
def each_denial_is_the_servers():
    """Request by request: the server is asked the same, with the same times."""
    with Here() as here:
        log = here.write("access.log", "".join(traffic(3000 * SCALE // 100, 4711)))
        told, trace = compared_with_a_server(here, log, "policies.yaml")
        assert len(trace) > 1000 * SCALE // 100 and told["denied"] > 100 * SCALE // 100
        assert told["exempt"] > 0 and told["unmapped"] > 0 and told["dirt"]["not_judged"]["count"] > 0


BUDGETS = """version: 1
policies:
  day: {limit: 12 per day, by: user, zone: Europe/Berlin}
  month: {rules: {spend: {limit: 6000 per month, counts: tokens, by: user, month_day: 31, zone: America/New_York},
                  calls: {limit: 5 per week, by: user}}}
  own: {limit: 6 per 1h, by: user, algorithm: fixed_window, start: first}
  locked: {limit: 2 per 10m, by: user, block_for: 2h}
  slow: {limit: 5 per 1h, by: user, algorithm: leaky_bucket, burst: 4}
  tiers: {limit: 3 per 1h, by: user, plans: {pro: 6 per 1h}}
  part: {limit: 1 per 1h, by: user, rollout: 50%}
  off: {limit: 1 per day, by: user, mode: 'off'}
replay:
  map:
    - /day => day cost=tokens/100
    - /month => month cost.tokens=tokens
    - /own => own
    - /locked => locked
    - /slow => slow
    - /tiers tier=pro => tiers plan=pro
    - /tiers => tiers
    - /part => part
    - /both => own,slow,day cost=tokens/1000
    - /off => off
"""


def months(count):
    """JSON lines of few users over two changes of clocks and three ends of months; some step back by up to an hour."""
    dice = random.Random(31)
    when = 1729900800  # 2024-10-26, the day before clocks change in Berlin
    for _ in range(count):
        when += dice.choice([0, 0, 0, 1, 1, 5, 20, 60]) if dice.random() < 0.995 else 3 * 86400
        path = dice.choice("day month own locked slow tiers part both off".split())
        yield json.dumps({"time": (when - dice.choice([0, 0, 0, 0, 30, 3500])) * 1000 + dice.randrange(1000), "path": "/" + path,
                          "user": f"u{dice.randrange(40 if path == 'part' else 4)}", "tokens": dice.randrange(900),
                          "tier": dice.choice(["pro", "free"])}) + "\n"


@test
def budgets_are_those_of_the_server():
    """Windows of the calendar and of the first request, lockouts, amounts, plans, shares, and several policies at once."""
    with Here() as here:
        here.write("budgets.yaml", BUDGETS)
        log = here.write("access.json", "".join(months(max(2500, 6000 * SCALE // 100))))
        told, trace = compared_with_a_server(here, log, "budgets.yaml")
        assert told["off"] > 0 and told["dirt"]["stepped_back"]["count"] > 0 and told["dirt"]["stepped_back_far"]["count"] == 0
        assert told["until_ms"] - told["since_ms"] > 86400000 * 20
        denied = {(rule["policy"], rule["rule"]) for rule in told["rules"] if rule["denied"] > 0}
        assert denied == {("day", "default"), ("month", "spend"), ("month", "calls"), ("own", "default"), ("locked", "default"),
                          ("slow", "default"), ("tiers", "default"), ("part", "default")}, denied
        assert any(len(entry["request"].get("policies", [])) == 3 for entry in trace)
        assert {entry["request"].get("plan") for entry in trace} == {None, "pro"}
        assert told["shadow_denied"] > 0  # those whom the rollout has not reached


@test
def rows_add_up():
    """The report says the same as counting the trace by hand."""
    with Here() as here:
        log = here.write("access.log", "".join(traffic(2000, 5)))
        told = here.json("--map", "POST /login => login", "--trace", "trace.jsonl", log)
        trace = [json.loads(entry) for entry in (here.path / "trace.jsonl").read_text().splitlines()]
        judged = [e for e in trace if e["request"]["policy"] == "login" and e["answer"]["source"] == "store"]
        row = next(r for r in told["rules"] if (r["policy"], r["rule"]) == ("login", "ip"))
        denied = [e for e in judged if not e["answer"]["allowed"] and e["answer"]["rule"] == "ip"]
        assert row["requests"] == len(judged)
        assert row["identities"] == len({e["request"]["attributes"]["ip"] for e in judged})
        assert row["denied"] >= len(denied) > 0  # both rules may deny, and one decides
        assert row["longest_wait_ms"] >= max(e["answer"]["retry_after_ms"] for e in denied)
        points = row["timeline"]["points"]
        assert (sum(p[0] for p in points), sum(p[1] for p in points)) == (row["requests"], row["denied"])
        assert sum(n for _, n in row["peaks"]) == row["identities"]
        assert sum(i["denied"] for i in row["most_denied"]) == row["denied"]
        assert sum(h["denied"] for h in row["worst_hours"]) == row["denied"]
        assert all("identity" not in i and re.fullmatch("[0-9a-f]{32}", i["tag"]) for i in row["most_denied"])
        raw = here.json("--map", "POST /login => login", "--raw", log)
        row = next(r for r in raw["rules"] if (r["policy"], r["rule"]) == ("login", "ip"))
        assert {i["identity"] for i in row["most_denied"]} <= {"203.0.113.1", "203.0.113.2", "2001:db8::/64", "192.0.2.44"}


@test
def tags_are_those_of_the_server():
    with Here() as here:
        log = here.write("access.log", "".join(line(START, request="POST /login HTTP/1.1") for _ in range(9)))
        with Server("--trust-client-clock", "--secret-file", here.path / "secret",
                    config=here.path / "policies.yaml") as s:
            for _ in range(5):
                s.http("POST", "/v1/check", {"policy": "login", "attributes": {"ip": "203.0.113.1"}, "now": START * 1000})
            tag = s.http("GET", "/v1/top")[2]["top"][0]["tag"]
        told = here.json("--secret-file", "secret", log)
        assert [i["tag"] for i in told["rules"][0]["most_denied"]] == [tag]


@test
def logs_are_merged_by_time():
    """However requests are spread over files, plain, gzip or zstd: the answers are the same."""
    with Here() as here:
        lines = [entry for entry in traffic(1500, 3)]
        when = [time.mktime(time.strptime(re.search(r"\[(\S*) ", entry)[1], "%d/%b/%Y:%H:%M:%S")) for entry in lines]
        lines = [entry for _, entry in sorted(zip(when, lines), key=lambda pair: pair[0])]
        whole = here.json(here.write("whole.log", "".join(lines)))
        parts = ["".join(lines[:500]), "".join(lines[500:900]), "".join(lines[900:])]
        here.write("1.gz", gzip.compress(parts[0][:300].encode()) + gzip.compress(parts[0][300:].encode()))
        here.write("2.log", parts[1])
        packed = [subprocess.run(["zstd", "-c"], input=part.encode(), capture_output=True, check=True).stdout
                  for part in (parts[2][:5000], parts[2][5000:])]
        to_pass_over = b"\x50\x2a\x4d\x18\x04\0\0\0" + b"1234"  # a frame without content
        here.write("3.zst", to_pass_over + packed[0] + packed[1])
        spread = here.json("3.zst", "1.gz", "--log", "2.log")
        assert {entry["file"]: entry["compressed"] for entry in spread["logs"]} == {
            "2.log": None, "3.zst": "zstd", "1.gz": "gzip"}
        for name in ("judged", "denied", "rules", "since_ms", "until_ms"):
            a, b = (json.dumps(told[name]) for told in (whole, spread))
            assert re.sub('"tag":"[^"]*"', "", a) == re.sub('"tag": "[^"]*"', "", b) or \
                re.sub('"tag": "[^"]*"', "", a) == re.sub('"tag": "[^"]*"', "", b), name
        many = here.run(*["2.log"] * 513, status=2)
        assert "513 logs are too many: at most 512" in many
        mixed = here.json("-", stdin="".join(lines).encode())
        assert (mixed["judged"], mixed["denied"]) == (whole["judged"], whole["denied"])


@test
def dirty_logs_are_counted():
    with Here() as here:
        good = [line(START + i) for i in range(20)]
        dirty = [good[0], "what?\n", *good[1:5], "\n", "x" * (1 << 20) + "y" * 10 + "\n", *good[5:9], good[2], "z" * 70000 + "\n",
                 *good[9:], line(START - 7200), "\xff\xfe broken\n"]
        path = here.write("dirty.log", "".join(dirty).encode("latin-1"))
        told = here.json(path)
        assert told["judged"] == 22, told
        dirt = {name: value["count"] for name, value in told["dirt"].items() if isinstance(value, dict)}
        assert dirt == {"broken_lines": 3, "too_long_lines": 1, "stepped_back": 2, "stepped_back_far": 1, "not_judged": 0,
                        "cut_files": 0}, dirt
        assert told["dirt"]["too_long_lines"]["first"] == [{"file": str(path), "line": 8}]
        assert [place["line"] for place in told["dirt"]["broken_lines"]["first"]] == [2, 14, 27]
        assert told["dirt"]["largest_step_ms"] == (7200 + 19) * 1000
        text = here.run(path).decode()
        assert "3 lines that are not of the format:" in text and f"{path}:14" in text
        packed = gzip.compress("".join(good * 50).encode())
        cut = here.json(here.write("cut.gz", packed[:len(packed) // 2]))
        assert cut["dirt"]["cut_files"]["count"] == 1 and 0 < cut["judged"] < 1000
        damaged = here.json(here.write("bad.gz", packed[:200] + b"\0" * 50 + packed[250:]))
        assert damaged["dirt"]["cut_files"]["count"] == 1
        assert here.json(here.write("empty.log", ""))["judged"] == 0
        latin = here.json("--map", "=> api", here.write("latin.log", line(START, user="J\xf6rg").encode("latin-1")))
        assert latin["dirt"]["not_judged"]["count"] == 1 and "UTF-8" in latin["dirt"]["why_not_judged"]
        utf16 = here.run(here.write("utf16.log", "".join(good).encode("utf-16")), status=2)
        assert "is UTF-16: convert it" in utf16
        noise = here.run(here.write("noise.log", random.Random(1).randbytes(100000)), status=2)
        assert "of no known format" in noise


@test
def two_policies_are_compared():
    with Here() as here:
        here.write("other.yaml", POLICIES.replace("3 per 20s", "5 per 20s").replace("5 per 10s, burst: 8", "1 per 10s, burst: 1"))
        log = here.write("access.log", "".join(traffic(1000, 8)))
        here.run("--against", "other.yaml", "--trace", "a.jsonl", log)
        here.run("--trace", "b.jsonl", log, config="other.yaml")
        sides = [[json.loads(e)["answer"]["allowed"] for e in (here.path / name).read_text().splitlines()]
                 for name in ("a.jsonl", "b.jsonl")]
        told = here.json("--against", "other.yaml", log)
        pairs = list(zip(*sides))
        comparison = told["comparison"]
        assert comparison["requests"] == len(pairs)
        assert comparison["only_config"]["requests"] == pairs.count((False, True)) > 0
        assert comparison["only_against"]["requests"] == pairs.count((True, False)) > 0
        assert comparison["both"]["requests"] == pairs.count((False, False)) > 0
        assert told["against"]["denied"] == sides[1].count(False)
        assert "only by" in here.run("--against", "other.yaml", log).decode()


def passes(here, log, share, of_identities, policy, text):
    """Does this share of the log pass with this limit?"""
    here.write("try.yaml", f"version: 1\npolicies: {{{policy}: {text}}}\n")
    row = here.json(log, config="try.yaml")["rules"][0]
    denied, whole = (row["denied_identities"], row["identities"]) if of_identities else (row["denied"], row["requests"])
    return (whole - denied) * 100 >= share * whole


@test
def a_suggested_limit_is_the_least():
    """For all algorithms and windows: it passes when it is replayed, and one less does not."""
    with Here() as here:
        dice = random.Random(77)
        when, lines = START, []
        for _ in range(1500):
            when += dice.choice([0, 0, 1, 1, 3])
            client = min(dice.randrange(30) for _ in range(3))
            lines.append(line(when, ip=f"192.0.2.{client}", size=dice.randrange(500, 4000)))
        log = here.write("access.log", "".join(lines))
        for algorithm in ("sliding_window", "fixed_window", "sliding_counter", "token_bucket", "leaky_bucket"):
            here.write("one.yaml", f"version: 1\npolicies: {{site: {{limit: 4 per 20s, by: ip, algorithm: {algorithm}}}}}\n")
            for share, of_identities in ((99.5, False), (60, True)):
                words = ["--suggest", f"{share}%"] + ["--of-identities"] * of_identities
                told = here.json(*words, log, config="one.yaml")["suggestions"]
                assert len(told) == 6 if "bucket" in algorithm else 5, told
                assert sum(s["own_window"] for s in told) == 2 if "bucket" in algorithm else 1, told
                for number, s in enumerate(told):
                    is_burst = "bucket" in algorithm and number == 1
                    for less in (0, 1):
                        limit, burst = s["limit"] - less * (not is_burst), s["limit"] - less
                        if is_burst:
                            burst = s["burst"] - less
                        if burst == 0:
                            continue
                        more = f", burst: {burst}" if is_burst else ""
                        text = f"{{limit: {limit} per {s['window_ms']}ms, by: ip, algorithm: {algorithm}{more}}}"
                        assert passes(here, log, share, of_identities, "site", text) == (less == 0), (s, less)
        yaml = here.run("--suggest", "99.5%", log, config="one.yaml").decode()
        assert passes(here, log, 99.5, False, "site", re.search(r"^  site: (.*)$", yaml, re.M)[1]), yaml
        assert "in other windows: " in yaml and ", burst: " in yaml
        costly = here.json("--suggest", "90%", "--map", "=> site cost=bytes/100", log, config="one.yaml")["suggestions"][0]
        assert costly["passed_percent"] >= 90 > costly["one_less_percent"] and costly["limit"] > 40
        # What is just below the share must not look like the share: 99.8966% of 1934.
        here.write("one.yaml", "version: 1\npolicies: {site: {limit: 1 per 1s, by: ip, algorithm: fixed_window}}\n")
        near = here.write("near.log", "".join(line(START + i) for i in range(1930)) + line(START + 2000) * 4)
        yaml = here.run("--suggest", "99.9%", near, config="one.yaml").decode()
        assert "# 99.94% of 1934 requests pass; with 2 it is 99.89%. Now: 1" in yaml, yaml
        wrong = here.run("--suggest", "90%", "-", config="one.yaml", status=2)
        assert "give files, not standard input" in wrong


@test
def suggestions_and_names_of_fields_are_bounded():
    with Here() as here:
        log = here.write("access.log", line(START) * 3)
        for rules in (16, 17):  # of 16 rules each
            here.write("many.yaml", "version: 1\npolicies:\n" + "".join(
                f"  p{i}: {{by: ip, rules: {{{', '.join(f'r{k}: {{limit: {k + 1} per 1d}}' for k in range(16))}}}}}\n"
                for i in range(rules)) + "replay: {map: [" + ", ".join(f"'/x{i} => p{i}'" for i in range(rules)) + "]}\n")
            told = here.json("--suggest", "99%", "--map", f"=> p{rules - 1}", log, config="many.yaml")
            assert told["all_rules"] == (rules == 16), told
            assert len(told["suggestions"]) == (16 if rules == 16 else 0), told  # only the last policy has requests
            text = here.run("--suggest", "99%", log, config="many.yaml").decode()
            assert ("# There are more than 256 rules: these are the first." in text) == (rules == 17), text
        aliases = ' '.join(f"f{i}=n{i}" for i in range(33))
        assert "more than 32 fields are named" in here.run("--fields", aliases, log, status=2)


@test
def a_list_of_identities_is_bounded():
    with Here() as here:
        here.write("one.yaml", "version: 1\npolicies: {site: {limit: 1 per 1h, by: ip}}\n")
        log = here.write("access.log", "".join(line(START, ip=f"10.0.{i >> 8}.{i & 255}") * 2 for i in range(1100)))
        row = here.json("--top", "5000", log, config="one.yaml")["rules"][0]
        assert len(row["most_denied"]) == 1000 and row["denied_identities"] == 1100


@test
def mistakes_in_the_section_are_listed_with_their_places():
    with Here() as here:
        bad = here.write("bad.yaml", """version: 1
policies: {a: {limit: 1 per 1s}}
replay:
  format: nope
  mapp: 3
  skip_status: 7
  map: ["POST /login login"]
""")
        places = {"4:11": "there is no format 'nope'", "5:3": "unknown key 'mapp' in replay: did you mean 'map'?",
                  "6:16": "skip_status must be", "7:9": "'login' is no method, path or comparison"}
        lint = subprocess.run([WEIR, "policy", "lint", bad], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert lint.returncode == 1
        for said in (lint.stderr, here.run("x.log", config="bad.yaml", status=2)):
            for place, text in places.items():
                assert f"{bad}:{place}: {text}" in said, (place, said)


@test
def the_section_says_how_logs_are_read():
    """And options of the command say it before it does."""
    with Here() as here:
        here.write("section.yaml", """version: 1
policies: {a: {limit: 100 per 1h, by: client}, b: {limit: 100 per 1h, by: client}}
replay:
  format: json
  fields: {time: when, status: result.code, user: who}
  time_zone: America/New_York
  skip_status: 400
  map:
    - POST path=/x header.x-plan=gold* => a client=user
    - status>=300 => b client='all'
""")
        log = here.write("a.json", "".join(json.dumps(entry) + "\n" for entry in (
            {"when": "2024-07-01 08:00:00", "who": "ann", "method": "POST", "path": "/x", "x-plan": "golden", "result": {"code": 200}},
            {"when": "2024-07-01 08:00:01", "who": "ann", "method": "POST", "path": "/x", "x-plan": "lead", "result": {"code": 200}},
            {"when": "2024-07-01 08:00:02", "who": "bob", "method": "GET", "path": "/y", "result": {"code": 302}},
            {"when": "2024-07-01 08:00:03", "who": "bob", "method": "GET", "path": "/y", "result": {"code": 404}})))
        told = here.json("--trace", "trace.jsonl", log, config="section.yaml")
        assert (told["requests"], told["judged"], told["skipped"], told["unmapped"]) == (4, 2, 1, 1), told
        asked = [json.loads(entry)["request"] for entry in (here.path / "trace.jsonl").read_text().splitlines()]
        assert asked == [{"policy": "a", "attributes": {"client": "ann"}, "now": 1719835200000},
                         {"policy": "b", "attributes": {"client": "all"}, "now": 1719835202000}], asked
        told = here.json("--skip-status", "500", "--time-zone", "UTC", "--map", "GET => a client=user", log, config="section.yaml")
        assert (told["judged"], told["skipped"], told["since_ms"]) == (3, 0, 1719820800000), told


@test
def requests_can_be_left_out_by_status():
    with Here() as here:
        log = here.write("access.log", "".join(line(START, status=s) for s in (200, 304, 399, 400, 404, 500)))
        told = here.json("--skip-status", "400", log)
        assert (told["judged"], told["skipped"], told["requests"]) == (3, 3, 6)


@test
def an_interrupt_gives_the_report_so_far():
    with Here() as here:
        read, write = os.pipe()
        with subprocess.Popen([WEIR, "replay", "--json", "-c", here.path / "policies.yaml", "-"], stdin=read,
                              stdout=subprocess.PIPE) as process:
            os.close(read)
            with contextlib.suppress(BrokenPipeError), os.fdopen(write, "wb") as pipe:
                block = "".join(line(START + i) for i in range(1000)).encode()
                for _ in range(40):  # more than the pipe holds: it is at work by now
                    pipe.write(block)
                process.send_signal(signal.SIGINT)
                for _ in range(2000):
                    pipe.write(block)
            told = json.loads(process.communicate(timeout=PATIENCE)[0])
        assert told["ended_early"] and 0 < told["judged"] < 2040000
        assert process.returncode == 0


class Following:
    """`weir replay --follow`, and what it has told last."""

    def __init__(self, here, *logs):
        self.process = subprocess.Popen([WEIR, "replay", "--json", "--follow", "-c", here.path / "policies.yaml", *logs],
                                        stdout=subprocess.PIPE)
        self.log = Log(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def has_judged(self, count):
        wait_until(lambda: self.log.lines and self.log.lines[-1]["judged"] == count, f"{count} to be judged")


@test
def a_log_is_followed():
    """What is added is judged, over a rotation by renaming and one by cutting, and half a line is waited for."""
    with Here() as here:
        path = here.write("access.log", "".join(line(START + i) for i in range(5)))
        with Following(here, path) as live:
            live.has_judged(5)
            half = line(START + 9)
            with path.open("a") as f:
                f.write(half[:40])
                f.flush()
                f.write(half[40:] + line(START + 9))
            live.has_judged(7)
            path.rename(here.path / "access.log.1")
            here.write("access.log", line(START + 10) * 3)
            live.has_judged(10)
            path.write_text(line(START + 11))
            live.has_judged(11)
            live.process.send_signal(signal.SIGINT)
            assert live.process.wait(PATIENCE) == 0
            wait_until(lambda: live.log.ended)
            last = live.log.lines[-1]
            assert last["judged"] == 11 and last["lines"] == 11 and not last["ended_early"], last
        assert "give files, not standard input" in here.run("--follow", "-", status=2)


@test
def memory_is_for_live_keys():
    """A hundred times the requests and identities: the statistics grow, and no keys. A hundred times the requests of the same
    identities: nothing grows."""
    with Here() as here:
        here.write("one.yaml", "version: 1\npolicies: {site: {limit: 5 per 1s, by: ip}}\n")

        def peak(count, identities):
            path = here.path / f"{count}.log"
            with path.open("w") as f:
                for number in range(count):
                    i = number % identities
                    f.write(line(START + number * 2, ip=f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"))
            with subprocess.Popen([WEIR, "replay", "-j", "-c", here.path / "one.yaml", path],
                                  stdout=subprocess.PIPE) as process:
                told = json.load(process.stdout)
                _, process.returncode, used = os.wait4(process.pid, 0)
            assert told["judged"] == count and process.returncode == 0
            assert told["rules"][0]["identities"] == min(count, identities)
            return used.ru_maxrss

        many = 400000 * SCALE // 100
        small, large = peak(4000, 4000), peak(many, many)
        assert peak(many, 4000) < small + 4 * 1024
        assert large < small + 64 * 1024, (small, large)  # the table of identities; keys alone would be as much again


run()
