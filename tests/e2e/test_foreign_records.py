#!/usr/bin/env python3
"""test_foreign_records.py - records of reservations in Redis that weir did not write: another program's,
another version's, or an attacker's. They fail no question but their own.

    test_foreign_records.py TREE      from the root of the source
"""
import random
import sys

sys.path.insert(0, "tests/support")
from held import Caller  # noqa: E402
from redis import Redis  # noqa: E402
from shared_store import RedisFixture  # noqa: E402
from weir_server import run, test  # noqa: E402

POLICIES = """
version: 1
policies:
  bucket: {limit: 9 per 1d, by: user, algorithm: token_bucket}
  month:  {limit: 9 per month, by: user}
"""


def redis_home():
    redis = Redis()
    home = RedisFixture(redis, redis.url)
    home.config.write_text(POLICIES)
    return home


class Asker:
    """Asks one thread of a server, whose breaker others would notice."""

    def __init__(self, home):
        self.caller = Caller(home.serve(threads=1).address)

    def __call__(self, verb, **body):
        return self.caller.ask(verb, body)

    def others_are_well(self, why):
        status, answer = self("check", policy="bucket", key="other")
        assert status == 200 and answer["source"] == "store", (why, answer)


def key_of(redis, part):
    """The key with this in its name, which is not a set of holds."""
    keys = [key for key in redis("KEYS", f"rl:{{*{part}*") if not key.endswith(b":h")]
    assert len(keys) == 1, keys
    return keys[0]


# Done to a record, in Redis itself. It is none any more.
SPOILT = ["return nil", "return 'x'", "return ''", "return '\\193'", "return string.sub(value, 1, -2)",
          "return cmsgpack.pack(7)", "return cmsgpack.pack({})"] + [
    f"{change}; return cmsgpack.pack(r)" for change in (
        "r.expires = 'soon'", "r.expires = 0/0", "r.expires = 1e300", "r.print = 7", "r.names = 7",
        "r.charges = 7", "r.charges[1] = 7", "c.key = 7", "c.key = 'theirs'",
        "c.key = 'rl:{history}:m:1'", "c.rule = {}", "c.rule[1] = 99", "c.rule[1] = 15",
        "c.rule[2] = -1", "c.rule[2] = 'x'", "c.rule[3] = 0", "c.rule[3] = 0/0", "c.place = 256",
        "c.place = -1", "c.place = 'x'", "c.held = -1", "c.held = 1/0", "c.used = 'x'",
        "c.counts = 7", "for i = 1, 40 do r.charges[i] = c end", "r.parts = 'x'",
        "r.parts[1] = 7", "r.parts[1] = {9, 1, 1, 1, ''}", "r.parts[1] = {1, -1, 1, 1, ''}",
        "r.parts[1] = {1, 1, 'x', 1, ''}", "r.about = string.rep('x', 70000)", "r.about = {}",
        "r.tags = string.rep('x', 70000)", "r.tag = 'x'", "r.most_ttl = {}")]
OF_THE_CALENDAR = ["c.rule[11] = c.rule[10]; return cmsgpack.pack(r)",
                   "c.rule[11] = c.rule[10] + 1; return cmsgpack.pack(r)",
                   "c.rule[9] = nil; return cmsgpack.pack(r)"]
SPOIL = """local value = redis.call('GET', KEYS[1])
local r = cmsgpack.unpack(value)
local c = r.charges[1]
local spoilt = (function() %s end)()
redis.call('DEL', KEYS[1])
redis.call(spoilt and 'SET' or 'RPUSH', KEYS[1], spoilt or 'a list')"""
VERBS = {"commit": {}, "release": {}, "grow": {"cost": 1}, "extend": {"ttl_ms": 60_000}}


@test
def what_is_no_record_is_not_known_and_stays_as_it_is():
    with redis_home() as home, home.redis.client() as redis:
        ask, dice = Asker(home), random.Random(1)
        for policy in ("bucket", "month"):
            for change in SPOILT + (OF_THE_CALENDAR if policy == "month" else []):
                redis("FLUSHDB")
                who = {"policy": policy, "key": "ann", "id": "mine", "ttl_ms": 60_000}
                assert not ask("reserve", **who)[1]["repeated"], change
                key = key_of(redis, ":reservation:")
                redis("EVAL", SPOIL % change, 1, key)
                value = redis("DUMP", key)
                verb = dice.choice(sorted(VERBS))
                status, answer = ask(verb, reservation="mine", **VERBS[verb])
                assert (status, answer.get("code")) == (404, "no_such_reservation"), (change, answer)
                ask.others_are_well(change)
                status, answer = ask("reserve", **who)
                assert (status, answer.get("code")) == (422, "id_reused"), (change, answer)
                ask.others_are_well(change)
                assert redis("DUMP", key) == value, change


@test
def what_a_record_says_of_its_charges_is_left_out_if_it_is_not_sound():
    """Another version, or a machine of the other byte order, may have written it. It is settled all
    the same."""
    with redis_home() as home, home.redis.client() as redis:
        ask, dice = Asker(home), random.Random(1)
        changes = ["''", "'x'", "string.sub(r.about, 1, -9)", "r.about .. r.about",
                   "string.reverse(r.about)", "string.rep('\\0', #r.about)",
                   "string.rep('\\255', #r.about)", "string.sub(r.about, 1, -9) .. string.rep('x', 8)"]
        changes += [f"string.sub(r.about, 1, {at} % #r.about) .. '\\{dice.randrange(256)}' .. "
                    f"string.sub(r.about, {at} % #r.about + 2)" for at in range(0, 400, 3)]
        for i, change in enumerate(changes):
            one = ask("reserve", policy="month", key=f"u{i}", cost=9, ttl_ms=60_000)[1]["reservation"]
            key = key_of(redis, ":reservation:")
            redis("EVAL", SPOIL % f"r.about = {change}; return cmsgpack.pack(r)", 1, key)
            status, answer = ask("grow", reservation=one, cost=1)
            assert status == 200 and not answer["allowed"], (change, answer)
            status, answer = ask("commit", reservation=one, cost=4)
            assert status == 200 and answer["source"] == "store" and answer["allowed"], (change, answer)
            assert ask("peek", policy="month", key=f"u{i}")[1]["remaining"] == 5, change
            redis("DEL", key)


run()
