#!/usr/bin/env python3
"""test_envoy.py - Envoy's rate limit service: the facts of envoyproxy/ratelimit's own tests, in both ways of
counting; reloads, overrides, metrics, and what `weir policy import envoy` makes of a file.

    test_envoy.py TREE [grpc]      from the root of the source; by JSON, or by gRPC
"""
import functools
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, "tests/support")
from grpc_clients import CORE, Asked  # noqa: E402
from weir_server import Folder, PATIENCE, WEIR, Server, run, test, tests, wait_until  # noqa: E402

BASIC = """
domain: basic
descriptors:
  - {key: key1, rate_limit: {unit: second, requests_per_unit: 50}}
  - {key: one_per_minute, rate_limit: {unit: minute, requests_per_unit: 1}}
"""
ANOTHER = """
domain: another
descriptors:
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: key4, rate_limit: {unit: day, requests_per_unit: 20}}
"""
SHARED = """
domain: share-threshold-test
descriptors:
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: files_no_share, value: files_no_share/*, rate_limit: {unit: hour, requests_per_unit: 10}}
"""
EXAMPLE = """
domain: rl
descriptors:
  - key: category
    value: account
    rate_limit: {replaces: [{name: bkthomps}, {name: fake_name}], unit: minute, requests_per_unit: 4}
  - key: source_cluster
    value: proxy
    descriptors:
      - key: destination_cluster
        value: bkthomps
        rate_limit: {replaces: [{name: bkthomps}], unit: minute, requests_per_unit: 2}
      - {key: destination_cluster, value: mock, rate_limit: {unit: minute, requests_per_unit: 1}}
      - key: destination_cluster
        value: override
        rate_limit: {replaces: [{name: banned_limit}], unit: minute, requests_per_unit: 2}
      - key: destination_cluster
        value: fake
        rate_limit: {name: fake_name, unit: minute, requests_per_unit: 2}
  - key: foo
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors:
      - {key: bar, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: bar, value: bkthomps, rate_limit: {name: bkthomps, unit: minute, requests_per_unit: 1}}
      - {key: bar, value: banned, rate_limit: {name: banned_limit, unit: minute, requests_per_unit: 0}}
      - {key: baz, value: shady, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: bay, rate_limit: {unlimited: true}}
  - key: service
    value: service_1
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
    metadata: {service_with_quota: {name: service_1}, shared: 1}
  - key: service
    value: service_2
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2}
    metadata: {service_with_quota: {name: service_2, weight: 2.5}, shared: 2}
"""
MODES = ("nothing", "count")


BY_GRPC = sys.argv[2:] == ["grpc"]


def test_by_json(function):
    """Of what is no call: the same whoever asks."""
    return function if BY_GRPC else test(function)


class Served:
    """A server with these files for Envoy."""

    def __init__(self, files, store="memory:", **settings):
        self.files, self.settings, self.store = files, settings, store

    def __enter__(self):
        self.folder = Folder()
        self.path = self.folder.__enter__()
        self.envoy = self.path / "envoy"
        self.envoy.mkdir()
        for i, text in enumerate(self.files):
            (self.envoy / f"{i}.yaml").write_text(text)
        config = self.path / "weir.yaml"
        config.write_text("version: 1\npolicies: {own: {limit: 5 per 1h, by: user}}\n"
                          f"server: {{envoy: {json.dumps({'config': 'envoy', **self.settings})}}}\n")
        self.server = Server(config=config, store=self.store).__enter__()
        self.client = Asked(CORE, self.server.port) if BY_GRPC else None
        return self

    def __exit__(self, *_):
        if self.client:
            self.client.__exit__()
        self.server.__exit__()
        self.folder.__exit__()

    def ask(self, domain, *descriptors, **more):
        """Each descriptor is "key=value key=value", or such a text and more members."""
        listed = []
        for d in descriptors:
            text, members = d if isinstance(d, tuple) else (d, {})
            entries = [dict(zip(("key", "value"), word.split("=", 1))) for word in text.split()]
            listed.append({"entries": entries, **members})
        request = {"domain": domain, "descriptors": listed, **more}
        if self.client:
            told = self.client.call("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request)
            assert told["code"] == 0, told
            return told["response"]
        status, _, body = self.server.http("POST", "/json", request)
        assert status == (429 if body["overallCode"] == "OVER_LIMIT" else 200), (status, body)
        return body


def brief(body):
    """The code of all, and of each descriptor its code and what remains."""
    short = {"OK": "ok", "OVER_LIMIT": "over"}
    return (short[body["overallCode"]],
            [(short[s["code"]], s.get("limitRemaining", 0)) for s in body["statuses"]])


def in_one_minute(steps):
    """Windows are those of the clock: try again if one ended meanwhile."""
    for _ in range(20):
        began = int(time.time() // 60)
        try:
            steps()
            return
        except AssertionError:
            if int(time.time() // 60) == began:
                raise


def within_a_window(function):
    """The same, for all of a test."""
    @functools.wraps(function)
    def steps():
        in_one_minute(function)
    return steps


# ---- what a request is ----------------------------------------------------------------------

@test_by_json
def json_has_the_statuses_and_bodies_of_envoyproxy_ratelimit():
    with Served([BASIC]) as s:
        for body in ("", "}", '{"domain": "foo"}', '{"domain": "", "descriptors": [{}]}',
                     '{"domain": "basic", "descriptors": []}', '{"domain": "basic", "what": 1}', "[]",
                     '{"domain": "basic", "descriptors": [{"entries": [{"kee": "a"}]}]}',
                     '{"domain": "basic", "descriptors": [{"limit": {"requestsPerUnit": 1}}]}',
                     '{"domain": "basic", "hitsAddend": -1, "descriptors": [{}]}',
                     '{"domain": "basic", "hitsAddend": 1, "hits_addend": 1, "descriptors": [{}]}'):
            status, headers, text = s.server.http("POST", "/json", body)
            assert (status, headers["Content-Type"], text) == \
                (400, "text/plain; charset=utf-8", b"Bad Request\n"), (body, status, text)
        status, headers, body = s.server.http("POST", "/json", '{"domain": "foo", "descriptors": [{}]}')
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert body == {"overallCode": "OK", "statuses": [{"code": "OK"}]}
        assert s.server.http("GET", "/healthcheck")[2] == b"OK"

        def second():
            asked = {"domain": "basic", "descriptors": [{"entries": [{"key": "one_per_minute"}]}]}
            assert s.server.http("POST", "/json", asked)[0] in (200, 429)
            assert s.server.http("POST", "/json", asked)[0] == 429
        in_one_minute(second)


@test_by_json
def both_forms_of_names_and_numbers_are_taken():
    with Served([ANOTHER]) as s:
        one = {"domain": "another", "hits_addend": "2", "descriptors": [
            {"entries": [{"key": "key4", "value": "a"}],
             "limit": {"requests_per_unit": "7", "unit": 4}, "hits_addend": None}]}
        status, _, body = s.server.http("POST", "/json", one)
        assert (status, brief(body)) == (200, ("ok", [("ok", 5)])), body
        assert body["statuses"][0]["currentLimit"] == {"requestsPerUnit": 7, "unit": "DAY"}


@test_by_json
def without_files_nothing_is_loaded():
    with Server() as server:
        assert server.http("POST", "/json", {"domain": "a", "descriptors": [{}]})[0] == 400


@test_by_json
def bounds_hold():
    with Served([ANOTHER]) as s:
        many = [{"entries": [{"key": "key4", "value": str(i)}]} for i in range(65)]
        assert s.server.http("POST", "/json", {"domain": "another", "descriptors": many})[0] == 400
        assert s.server.http("POST", "/json",
                             {"domain": "another", "descriptors": many[:17]})[0] == 400
        assert s.server.http("POST", "/json",
                             {"domain": "another", "descriptors": many[:16]})[0] == 200
        deep = {"entries": [{"key": "a"}] * 33}
        assert s.server.http("POST", "/json", {"domain": "another", "descriptors": [deep]})[0] == 400
        long = "x" * 70000
        assert s.server.http("POST", "/json", long)[0] in (400, 413)
    with Served([ANOTHER], denied="count") as s:
        assert s.server.http("POST", "/json",
                             {"domain": "another", "descriptors": many[:64]})[0] == 200


# ---- the tables -----------------------------------------------------------------------------

@test
def the_integration_table_holds_in_both_modes():
    for mode in MODES:
        def steps():
            with Served([BASIC, ANOTHER], denied=mode) as s:
                assert s.ask("foo", "hello=world") == {"overallCode": "OK",
                                                       "statuses": [{"code": "OK"}]}
                first = s.ask("basic", "key1=foo")["statuses"][0]
                assert first == {"code": "OK", "limitRemaining": 49, "durationUntilReset": "1s",
                                 "currentLimit": {"requestsPerUnit": 50, "unit": "SECOND"}}, first
                for i in range(25):
                    want = ("over", [("over", 0)]) if i >= 20 else ("ok", [("ok", 19 - i)])
                    assert brief(s.ask("another", "key2=a")) == want, (mode, i)
                for i in range(15):
                    left = 19 - i if i < 10 or mode == "count" else 10
                    want = ("over", [("ok", left), ("over", 0)]) if i >= 10 else \
                        ("ok", [("ok", left), ("ok", 9 - i)])
                    got = brief(s.ask("another", "key2=b", "key3=b"))
                    assert got == want, (mode, i, got)
        in_one_minute(steps)


@test
@within_a_window
def a_shared_pattern_is_one_count():
    with Served([SHARED]) as s:
        for i in range(10):
            assert brief(s.ask("share-threshold-test", "files=files/a.pdf"))[1] == [("ok", 9 - i)]
        assert brief(s.ask("share-threshold-test", "files=files/b.csv"))[0] == "over"
        for name in ("a", "b"):
            assert brief(s.ask("share-threshold-test",
                               f"files_no_share=files_no_share/{name}"))[1] == [("ok", 9)]


# limit, hits that were counted before, hits, and: is it over, what remains.
NUMBERS = [(5, 2, 5, True, 0), (10, 2, 4, False, 4), (20, 19, 3, True, 0), (20, 15, 7, True, 0),
           (10, 27, 3, True, 0), (10, 0, 10, False, 0), (10, 0, 11, True, 0), (1, 0, 1, False, 0),
           (10, 4, 1, False, 5), (10, 10, 1, True, 0), (10, 12, 1, True, 0), (10, 11, 0, True, 0),
           (15, 10, 1, False, 4), (15, 12, 1, False, 2), (15, 15, 1, True, 0), (20, 2, 3, False, 15),
           (8, 5, 2, False, 1), (20, 16, 3, False, 1), (5, 4, 2, True, 0),
           (0, 0, 1, True, 0), (4294967295, 0, 1, False, 4294967294), (3, 3, 0, False, 0),
           (3, 4, 0, True, 0), (0, 0, 0, False, 0), (0, 1, 0, True, 0)]


@test
def the_numbers_are_those_of_the_reference():
    files = ["domain: n\ndescriptors:\n" + "".join(
        f"  - {{key: k{i}, rate_limit: {{unit: year, requests_per_unit: {row[0]}}}}}\n"
        for i, row in enumerate(NUMBERS))]
    with Served(files, denied="count") as s:
        for i, (_, before, hits, is_over, left) in enumerate(NUMBERS):
            if before:
                s.ask("n", (f"k{i}=a", {"hitsAddend": before}))
            got = brief(s.ask("n", (f"k{i}=a", {"hitsAddend": hits})))
            assert got == ("over" if is_over else "ok", [("over" if is_over else "ok", left)]), \
                (NUMBERS[i], got)


@test
def the_numbers_are_those_of_the_reference_that_stops_at_the_limit():
    files = ["domain: n\ndescriptors:\n" + "".join(
        f"  - {{key: k{limit}, rate_limit: {{unit: year, requests_per_unit: {limit}}}}}\n"
        for limit in (14, 15))]
    with Served(files) as s:
        s.ask("n", *[(f"k{limit}=a", {"hitsAddend": 10}) for limit in (15, 14)])
        for hits, want in ((1, ("ok", [("ok", 4), ("ok", 3)])), (2, ("ok", [("ok", 2), ("ok", 1)])),
                           (2, ("over", [("ok", 2), ("over", 0)]))):
            assert brief(s.ask("n", "k15=a", "k14=a", hitsAddend=hits)) == want, want


# The modes of limits and whether each is over, then the code of all; `!` is all limits in shadow, `%` all
# of them quotas. A limit is plain, in (s)hadow, a (q)uota, (n)one or (u)nlimited; a capital letter is over.
MIXES = [("P n", "over"), ("n P", "over"), ("p n", "ok"), ("! P n", "ok"), ("S n", "ok"), ("S P", "over"),
         ("p n u", "ok"), ("P q", "over"), ("p Q", "over"), ("p q", "ok"), ("Q Q", "over"), ("Q q", "ok"),
         ("q Q n", "ok"), ("! Q Q", "ok"), ("! P Q", "ok"), ("% P P", "over"), ("% P p", "ok"), ("Q u", "over"),
         ("S Q", "over"), ("S q", "ok")]


@test
def all_mixes_of_modes_have_the_code_of_the_reference():
    flags = {"p": "", "s": "shadow_mode: true, ", "q": "quota_mode: true, "}
    text = "domain: m\ndescriptors:\n  - {key: u, rate_limit: {unlimited: true}}\n" + "".join(
        f"  - {{key: {key}, {flag}rate_limit: {{unit: year, requests_per_unit: 9}}}}\n"
        for key, flag in flags.items())
    for mode in MODES:
        for settings, mark in (({}, ""), ({"shadow_mode": True}, "!"), ({"quota_mode": True}, "%")):
            with Served([text], denied=mode, **settings) as s:
                for row, (mix, want) in enumerate(MIXES):
                    if (mix[0] if mix[0] in "!%" else "") != mark:
                        continue
                    words = mix.strip("!% ").split()
                    asked = [f"{word.lower()}={row}.{i}" for i, word in enumerate(words)]
                    for one, word in zip(asked, words):
                        if word.isupper():
                            s.ask("m", (one, {"hitsAddend": 10}))
                    got = brief(s.ask("m", *asked))
                    statuses = [{"n": ("ok", 0), "u": ("ok", 4294967295), "S": ("ok", 0)}.get(
                        word, ("over", 0) if word.isupper() else ("ok", 8)) for word in words]
                    if "over" in (want, *[code for code, _ in statuses]) and mode == "nothing":
                        # What is not charged has one more left.
                        assert [code for code, _ in got[1]] == [code for code, _ in statuses], (mix, got)
                    else:
                        assert got[1] == statuses, (mode, mix, got)
                    assert got[0] == want, (mode, mix, got)


@test
def units_are_aligned_to_the_epoch_and_end_when_they_say():
    seconds = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800,
               "month": 2592000, "year": 31536000}
    files = ["domain: u\ndescriptors:\n" + "".join(
        f"  - {{key: {unit}, rate_limit: {{unit: {unit}, requests_per_unit: 9}}}}\n"
        for unit in seconds)]
    for mode in MODES:
        with Served(files, denied=mode) as s:
            for unit, length in seconds.items():
                def one(unit=unit, length=length):
                    before = int(time.time())
                    status = s.ask("u", unit)["statuses"][0]
                    after = int(time.time())
                    until = int(status["durationUntilReset"].rstrip("s"))
                    assert until in {length - now % length for now in range(before, after + 1)}
                    assert status["currentLimit"]["unit"] == unit.upper()
                one()


def headers_to_descriptors(**headers):
    """What the example's routes make of headers."""
    lists = (("foo", "bar"), ("source_cluster", "destination_cluster"), ("category",))
    return [" ".join(f"{name}={headers[name]}" for name in names)
            for names in lists if all(name in headers for name in names)]


BANNED = {"foo": "bkthomps", "bar": "banned"}
MINE = {"foo": "my_foo", "bar": "bkthomps", "source_cluster": "proxy"}
THIRD = {"foo": "foo_3", "bar": "bar_3", "source_cluster": "proxy", "destination_cluster": "fake"}
REPLACES = [
    (BANNED, False),
    ({**BANNED, "source_cluster": "proxy", "destination_cluster": "mock"}, False),
    *[({**BANNED, "source_cluster": "proxy", "destination_cluster": "override"}, i < 2)
      for i in range(3)],
    *[({**MINE, "destination_cluster": "bkthomps"}, i < 2) for i in range(3)],
    *[({**MINE, "destination_cluster": "not_bkthomps"}, i < 1) for i in range(2)],
    ({**MINE, "destination_cluster": "bkthomps"}, False),
    *[({**MINE, "destination_cluster": "fake", "category": "account"}, i < 4) for i in range(5)],
    *[({"foo": "foo_2", "bar": "bkthomps"}, i < 1) for i in range(2)],
    *[(THIRD, i < 2) for i in range(3)],
    ({**MINE, "destination_cluster": "fake", "category": "account"}, False),
]


@test
def limits_are_replaced_step_by_step_as_in_the_example():
    assert len(REPLACES) == 22
    for mode in MODES:
        def steps():
            with Served([EXAMPLE], denied=mode) as s:
                for i, (headers, is_ok) in enumerate(REPLACES):
                    got = brief(s.ask("rl", *headers_to_descriptors(**headers)))
                    assert got[0] == ("ok" if is_ok else "over"), (mode, i, headers, got)
        in_one_minute(steps)


@test
def what_is_unlimited_or_in_shadow_passes():
    for mode in MODES:
        def steps():
            with Served([EXAMPLE], denied=mode) as s:
                assert s.ask("rl", "foo=a bay=b")["statuses"] == \
                    [{"code": "OK", "limitRemaining": 4294967295}]
                for i in range(6):
                    got = brief(s.ask("rl", "foo=pelle baz=shady"))
                    assert got == ("ok", [("ok", max(0, 2 - i))]), (mode, i, got)
                for i in range(3):
                    got = brief(s.ask("rl", "foo=pelle baz=shady", "foo=pelle bay=b", "foo=pelle"))
                    assert got[0] == ("ok" if i < 2 else "over"), (mode, i, got)
                    assert got[1][0] == ("ok", 0)
        in_one_minute(steps)


@test
def quotas_deny_only_together():
    for mode in MODES:
        def steps():
            with Served([EXAMPLE], denied=mode) as s:
                both = ("service=service_1", "service=service_2")
                for want in (("ok", [("ok", 0), ("ok", 1)]), ("ok", [("over", 0), ("ok", 0)]),
                             ("over", [("over", 0), ("over", 0)])):
                    got = brief(s.ask("rl", *both))
                    assert got == want, (mode, got)
                # With one that is no quota: that one alone decides.
                assert brief(s.ask("rl", *both[:1], "foo=q bar=x"))[0] == "over"
                assert brief(s.ask("rl", "foo=q bar=x"))[0] == "ok"
        in_one_minute(steps)


@test
def all_limits_may_be_quotas_or_in_shadow():
    def steps():
        with Served([ANOTHER], quota_mode=True, denied="count") as s:
            two = (("key4=a", {"hitsAddend": 21}), "key3=a")
            assert brief(s.ask("another", *two)) == ("ok", [("over", 0), ("ok", 9)])
            assert brief(s.ask("another", *two, "nothing=a"))[0] == "ok"
            assert brief(s.ask("another", ("key4=a", {"hitsAddend": 1})))[0] == "over"
        with Served([ANOTHER], shadow_mode=True) as s:
            assert brief(s.ask("another", ("key4=a", {"hitsAddend": 21}))) == ("ok", [("over", 0)])
    in_one_minute(steps)


@test
def tokens_are_looked_at_before_and_reported_after():
    for mode in MODES:
        def steps():
            with Served([EXAMPLE], denied=mode) as s:
                let_in = 0
                for _ in range(5):
                    if brief(s.ask("rl", ("service=service_2", {"hitsAddend": 0})))[0] == "ok":
                        let_in += 1
                        s.ask("rl", ("service=service_2", {"hitsAddend": 1}))
                assert let_in == 3, (mode, let_in)
        in_one_minute(steps)

    def strictly():
        with Served([EXAMPLE], peek_at_limit="deny") as s:
            for i in range(4):
                got = brief(s.ask("rl", ("service=service_2", {"hitsAddend": 0})))[0]
                assert got == ("ok" if i < 2 else "over"), (i, got)
                if got == "ok":
                    s.ask("rl", ("service=service_2", {"hitsAddend": 1}))
    in_one_minute(strictly)


@test
def two_services_share_the_load_by_their_metadata():
    def steps():
        with Served([EXAMPLE], dynamic_metadata=True) as s:
            used = []
            for _ in range(6):
                looked = s.ask("rl", ("service=service_1", {"hitsAddend": 0}),
                               ("service=service_2", {"hitsAddend": 0}))
                if looked["overallCode"] != "OK":
                    break
                name = looked["dynamicMetadata"]["metadata"]["service_with_quota"]["name"]
                used.append(name)
                s.ask("rl", (f"service={name}", {"hitsAddend": 1}))
            assert used == ["service_1"] * 2 + ["service_2"] * 3, used
    in_one_minute(steps)


@test
def metadata_of_what_has_passed_are_merged_and_the_first_has_a_say():
    def steps():
        with Served([EXAMPLE], dynamic_metadata=True) as s:
            both = ("service=service_1", "service=service_2")
            got = s.ask("rl", *both, hitsAddend=1)["dynamicMetadata"]
            assert got == {"domain": "rl", "hitsAddend": 1,
                           "descriptors": [{"entries": [text]} for text in both],
                           "metadata": {"service_with_quota": {"name": "service_1", "weight": 2.5},
                                        "shared": 1}}, got
            got = s.ask("rl", *both)["dynamicMetadata"]
            assert got["metadata"] == {"service_with_quota": {"name": "service_2", "weight": 2.5},
                                       "shared": 2}, got
            assert "metadata" not in s.ask("rl", *both)["dynamicMetadata"]
    in_one_minute(steps)


@test
def headers_are_those_of_the_closest_limit():
    def steps():
        with Served([ANOTHER], headers=True) as s:
            got = s.ask("another", "key3=a", "key4=a", "nothing=a")
            reset = got["statuses"][0]["durationUntilReset"].rstrip("s")
            assert got["responseHeadersToAdd"] == [
                {"key": "RateLimit-Limit", "value": "10"},
                {"key": "RateLimit-Remaining", "value": "9"},
                {"key": "RateLimit-Reset", "value": reset}], got
            s.ask("another", ("key4=a", {"hitsAddend": 30}))
            got = s.ask("another", "key3=a", "key4=a")
            assert [h["value"] for h in got["responseHeadersToAdd"][:2]] == ["20", "0"], got
            assert "responseHeadersToAdd" not in s.ask("another", "nothing=a")
        with Served([ANOTHER], headers={"limit": "A-Limit"}) as s:
            assert s.ask("another", "key3=a")["responseHeadersToAdd"][0]["key"] == "A-Limit"
    in_one_minute(steps)


# ---- limits that come with descriptors, refunds ---------------------------------------------

@test
def a_limit_in_the_request_counts_with_the_configured_one_of_the_same_unit():
    for mode in MODES:
        with Served([ANOTHER], denied=mode) as s:
            own = {"limit": {"requestsPerUnit": 3, "unit": "DAY"}}
            assert brief(s.ask("another", "key4=a")) == ("ok", [("ok", 19)])
            assert brief(s.ask("another", ("key4=a", own))) == ("ok", [("ok", 1)])
            assert brief(s.ask("another", "key4=a")) == ("ok", [("ok", 17)])
            assert brief(s.ask("another", ("key4=a", own)))[0] == "over"
            other = {"limit": {"requestsPerUnit": 3, "unit": "YEAR"}}
            assert brief(s.ask("another", ("key4=a", other))) == ("ok", [("ok", 2)])
            assert brief(s.ask("another", ("nowhere=x y=z", other))) == ("ok", [("ok", 2)])
            assert brief(s.ask("another", ("nowhere=x y=z", other))) == ("ok", [("ok", 1)])
            assert s.ask("unknown", ("key4=a", own))["statuses"] == [{"code": "OK"}]


@test
def negative_hits_give_back_and_are_never_denied():
    for mode in MODES:
        with Served([ANOTHER], denied=mode) as s:
            s.ask("another", ("key4=a", {"hitsAddend": 22}))
            back = {"hitsAddend": 5, "isNegativeHits": True}
            assert brief(s.ask("another", ("key4=a", back))) == ("ok", [("ok", 3)])
            assert brief(s.ask("another", ("key4=a", {**back, "hitsAddend": 99}))) == \
                ("ok", [("ok", 20)])


@test
@within_a_window
def all_or_none_is_charged_unless_denied_requests_count():
    for mode, left in (("nothing", 20), ("count", 17)):
        with Served([ANOTHER], denied=mode) as s:
            s.ask("another", ("key3=a", {"hitsAddend": 10}))
            for _ in range(3):
                assert brief(s.ask("another", "key4=a", "key3=a"))[0] == "over"
            got = brief(s.ask("another", ("key4=a", {"hitsAddend": 0})))
            assert got == ("ok", [("ok", left)]), (mode, got)


@test
def equal_descriptors_are_told_in_order():
    for mode in MODES:
        with Served([ANOTHER], denied=mode) as s:
            got = brief(s.ask("another", "key4=a", "key4=b", "key4=a", hitsAddend=2))
            assert got == ("ok", [("ok", 18), ("ok", 18), ("ok", 16)]), (mode, got)


@test
def every_algorithm_is_one_key_away():
    names = ("fixed_window", "sliding_window", "sliding_counter", "token_bucket", "leaky_bucket")
    files = ["domain: d\ndescriptors:\n" + "".join(
        f"  - {{key: {name}, rate_limit: {{unit: day, requests_per_unit: 3, algorithm: {name}}}}}\n"
        for name in names)]
    with Served(files) as s:
        told = {p["policy"]: p for p in s.server.http("GET", "/v1/policies")[2]["policies"]}
        for name in names:
            assert told[f"d.{name}"]["rules"][0]["algorithm"] == name, told[f"d.{name}"]
            got = [brief(s.ask("d", f"{name}=a"))[0] for _ in range(4)]
            assert got == ["ok"] * 3 + ["over"], (name, got)


@test
def a_bucket_says_when_it_is_worth_to_ask_again():
    files = ["domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 2, "
             "algorithm: token_bucket}}]\n"]
    with Served(files) as s:
        assert [brief(s.ask("d", "k=a"))[0] for _ in range(3)] == ["ok", "ok", "over"]
        until = s.ask("d", "k=a")["statuses"][0]["durationUntilReset"]
        assert 1700 < int(until.rstrip("s")) <= 1800, until  # one of two in an hour


@test
def an_unknown_domain_may_be_denied():
    with Served([ANOTHER], unknown_domain="deny") as s:
        assert brief(s.ask("foo", "a=b")) == ("over", [("ok", 0)])


# ---- what is known of limits as of policies --------------------------------------------------

@test
@within_a_window
def limits_are_policies_to_metrics_checks_overrides_and_modes():
    with Served([ANOTHER, EXAMPLE]) as s:
        names = {p["policy"] for p in s.server.http("GET", "/v1/policies")[2]["policies"]}
        assert {"own", "another.key4", "rl.foo.bar_banned"} <= names, names
        s.ask("another", "key4=a")
        assert s.server.http("POST", "/v1/peek", {"policy": "another.key4", "key": "a"})[2]["remaining"] \
            == 19
        assert s.server.check("another.key4", "a")["remaining"] == 18
        assert brief(s.ask("another", "key4=a")) == ("ok", [("ok", 17)])

        blocked = {"policy": "another.key4", "key": "a", "effect": "block"}
        status, _, made = s.server.http("PUT", "/v1/overrides", blocked)
        assert status in (200, 201), made
        got = s.ask("another", "key4=a", "key3=a")
        assert brief(got) == ("over", [("over", 0), ("ok", 0)]), got
        assert brief(s.ask("another", "key4=b"))[0] == "ok"

        status, _, made = s.server.http("POST", "/v1/policies/another.key3/mode", {"mode": "shadow"})
        assert status == 200, made
        for i in range(12):
            assert brief(s.ask("another", "key3=c"))[0] == "ok", i

        s.ask("nowhere", "a=b")
        metrics = s.server.http("GET", "/metrics")[2].decode()
        for line in ('weir_checks_total{policy="another.key4",outcome="allowed",source="store"} 4',
                     'weir_checks_total{policy="another.key4",outcome="denied",source="blocked"} 1',
                     'weir_checks_total{policy="another.key3",outcome="shadow_denied",source="store"} 2'):
            assert f"\n{line}\n" in metrics, (line, metrics)
        assert "\nweir_envoy_unknown_domains_total 1\n" in metrics


@test
@within_a_window
def limits_are_known_to_the_log_the_top_list_and_the_history():
    with Served([ANOTHER], store="memory:") as s:
        s.ask("another", ("key3=bad", {"hitsAddend": 10}))
        for _ in range(3):
            assert brief(s.ask("another", "key3=bad"))[0] == "over"
        denied = s.server.wait_for("denied")
        assert denied["policy"] == "another.key3", denied
        top = s.server.http("GET", "/v1/top")[2]["top"]
        assert [(row["policy"], row["denied"]) for row in top] == [("another.key3", 3)], top

        def told():  # seconds that have ended
            said = s.server.http("GET", "/v1/history?policy=another.key3")[2]
            place = said["columns"].index("denied")
            return [(row["policy"], sum(point[place] for point in row["points"])) for row in said["checks"]]
        wait_until(lambda: told() == [("another.key3", 3)], "all of it in the history")


@test
def values_in_metrics_are_bounded():
    files = ["domain: d\ndescriptors: [{key: k, detailed_metric: true, rate_limit: {unit: year, "
             "requests_per_unit: 2}}]\n"]
    with Served(files, denied="count") as s:
        for i in range(20):
            s.ask("d", *[f"k=v{i * 64 + k}" for k in range(64)])
        metrics = s.server.http("GET", "/metrics")[2].decode()
        called = {line.split('policy="')[1].split('"')[0] for line in metrics.splitlines()
                  if line.startswith("weir_checks_total{") and 'policy="d.k' in line}
        assert "d.k_v0" in called and "d.k" in called and len(called) <= 1025, len(called)


# ---- files that change ----------------------------------------------------------------------

@test_by_json
def files_are_read_again_when_they_change_and_a_bad_one_changes_nothing():
    with Served([ANOTHER]) as s:
        assert "currentLimit" not in s.ask("basic", "key1=a")["statuses"][0]
        (s.envoy / "new.yaml").write_text(BASIC)
        wait_until(lambda: "currentLimit" in s.ask("basic", "key1=a")["statuses"][0])
        (s.envoy / "bad.yaml").write_text("domain: another\n")
        failed = json.dumps(s.server.wait_for("reload-failed"))
        assert "bad.yaml:1:9: duplicate domain 'another' in config file" in failed, failed
        assert "currentLimit" in s.ask("basic", "key1=a")["statuses"][0]
        (s.envoy / "bad.yaml").unlink()
        (s.envoy / "new.yaml").unlink()
        wait_until(lambda: "currentLimit" not in s.ask("basic", "key1=a")["statuses"][0])


@test_by_json
def a_link_that_is_swapped_anywhere_on_the_way_is_seen():
    with Folder() as folder:
        for name, limit in (("one", 1), ("two", 2)):
            (folder / name / "config").mkdir(parents=True)
            (folder / name / "config" / "a.yaml").write_text(
                f"domain: d\ndescriptors: [{{key: k, rate_limit: {{unit: day, requests_per_unit: "
                f"{limit}}}}}]\n")
        (folder / "current").symlink_to("one")
        with Server("--envoy-config", folder / "current" / "config") as server:
            def limit():
                asked = {"domain": "d", "descriptors": [{"entries": [{"key": "k"}],
                                                         "hitsAddend": 0}]}
                status = server.http("POST", "/json", asked)[2]["statuses"][0]
                return status["currentLimit"]["requestsPerUnit"]
            assert limit() == 1
            (folder / "next").symlink_to("two")
            os.replace(folder / "next", folder / "current")
            wait_until(lambda: limit() == 2)


@test_by_json
def a_config_map_of_kubernetes_is_seen_when_it_is_swapped():
    def limit_of(server):
        asked = {"domain": "d", "descriptors": [{"entries": [{"key": "k"}], "hitsAddend": 0}]}
        status = server.http("POST", "/json", asked)[2]["statuses"][0]
        return status.get("currentLimit", {}).get("requestsPerUnit")

    with Folder() as folder:
        def version(name, limit):
            (folder / name).mkdir()
            (folder / name / "limits.yaml").write_text(
                f"domain: d\ndescriptors: [{{key: k, rate_limit: {{unit: day, requests_per_unit: {limit}}}}}]\n")
        version("..2026_01_01", 1)
        (folder / "..data").symlink_to("..2026_01_01")
        (folder / "limits.yaml").symlink_to("..data/limits.yaml")
        with Server("--envoy-config", folder) as server:
            assert limit_of(server) == 1
            for n in (2, 3):
                version(f"..2026_01_0{n}", n)
                (folder / "..data_tmp").symlink_to(f"..2026_01_0{n}")
                os.replace(folder / "..data_tmp", folder / "..data")
                wait_until(lambda n=n: limit_of(server) == n)


# ---- the tool -------------------------------------------------------------------------------

def tool(*words):
    return subprocess.run([str(WEIR), *map(str, words)], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


@test_by_json
def an_imported_file_counts_what_the_service_has_counted():
    with Folder() as folder:
        envoy, store = folder / "envoy.yaml", f"file:{folder}/data"
        envoy.write_text(ANOTHER + "  - {key: user, shadow_mode: true, descriptors: [{key: path, "
                         "value: /a*, rate_limit: {unit: year, requests_per_unit: 7}}]}\n")
        with Server("--envoy-config", envoy, store=store) as server:
            asked = {"domain": "another", "descriptors": [
                {"entries": [{"key": "user", "value": "u"}, {"key": "path", "value": "/a/b"}]}]}
            assert server.http("POST", "/json", asked)[0] == 200
            server.stop()
        made = tool("policy", "import", "envoy", envoy)
        assert made.returncode == 0, made.stderr
        assert '"another.key2": {limit: 20 per 1m, algorithm: fixed_window, by: [key2]}' in made.stdout
        config = folder / "weir.yaml"
        config.write_text(made.stdout)
        assert tool("policy", "lint", config).returncode == 0
        name = [line for line in made.stdout.splitlines() if "another.user.path" in line][0]
        name = name.split('"')[1]
        with Server(config=config, store=store) as server:
            answer = server.http("POST", "/v1/peek", {
                "policy": name, "attributes": {"user": "u", "path": "/a/b"}})[2]
            assert answer["remaining"] == 6, answer


@test_by_json
def what_is_wrong_is_told_by_the_tool_and_at_the_start():
    with Folder() as folder:
        bad = folder / "bad.yaml"
        bad.write_text("domain: d\ndescriptors: [{key: a, oops: 1}, {value: b}]\n")
        said = [f"{bad}:2:24: config error, unknown key 'oops'", f"{bad}:2:34: descriptor has empty key"]
        made = tool("policy", "import", "envoy", bad)
        assert made.returncode == 1 and made.stderr.splitlines() == said, made
        for words in (("serve", "--check"), ("serve",)):
            made = tool(*words, "--store", "memory:", "--listen", "127.0.0.1:0", "--envoy-config", bad)
            assert made.returncode == 2 and all(line in made.stderr for line in said), made
        assert tool("policy", "import", "envoy").returncode == 2
        for words in (("import", "envoy"), ("lint", "--envoy")):
            made = tool("policy", *words, folder / "none")
            assert made.returncode == 2 and "No such file" in made.stderr, made


@test_by_json
def files_are_linted_alone_and_in_directories():
    with Folder() as folder:
        odd = folder / "odd:1:1"
        odd.mkdir()
        (odd / "a.yaml").write_text(ANOTHER)
        (odd / "b.yml").write_text(ANOTHER.replace("key: key4", "kee: key4"))
        both = tool("policy", "lint", "--envoy", odd, odd / "a.yaml")
        assert both.returncode == 1 and both.stdout == f"{odd}/a.yaml: ok (3 policies, 3 rules)\n", both
        assert both.stderr.splitlines() == [
            f"{odd}/b.yml:2:9: duplicate domain 'another' in config file",
            f"{odd}/b.yml:6:5: descriptor has empty key",
            f"{odd}/b.yml:6:6: config error, unknown key 'kee'"], both
        merged = tool("policy", "lint", "--envoy", "--merge-domains", "--json", odd)
        told = json.loads(merged.stdout)
        assert (told["file"], told["ok"]) == (str(odd), False), told
        assert {p["text"] for p in told["problems"]} == {
            "descriptor has empty key", "config error, unknown key 'kee'",
            "duplicate descriptor composite key 'another.key2'",
            "duplicate descriptor composite key 'another.key3'"}, told
        assert {"file": f"{odd}/b.yml", "line": 6, "column": 6,
                "text": "config error, unknown key 'kee'"} in told["problems"], told


if BY_GRPC and CORE.why_not():
    tests[:] = [CORE.why_not]
run()
