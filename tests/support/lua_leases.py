"""lua_leases.py - asks lua/reserve.lua for leases, as a store would; other questions go to lua/judge.lua."""
import hashlib
import struct
from pathlib import Path

from lua_judge import Decision, Judge, check, packed_integer, peek, rule

SCRIPT = b"".join(Path("lua", name).read_bytes() for name in ("limits.lua", "reserve.lua"))
SHA = hashlib.sha1(SCRIPT).hexdigest()
HEAD, ROW = struct.Struct("<BBddHHH"), struct.Struct("<BBddddd")
RESERVE, SETTLE = 6, 7
DONE, DENIED, UNKNOWN = 0, 1, 2


def packed(words):
    def one(word):
        if isinstance(word, int):
            return packed_integer(word)
        return struct.pack(">BI", 0xdb, len(word)) + word
    return struct.pack(">BI", 0xdd, len(words)) + b"".join(map(one, words))


def digits(name):
    return hashlib.md5(str(name).encode()).hexdigest()


class Leases:
    """A store of the kind that lease_model.py plays with."""

    def __init__(self, client):
        self.client = client
        self.judge = Judge(client)
        self.judge.load()
        assert client("SCRIPT", "LOAD", SCRIPT).decode() == SHA

    @staticmethod
    def rule(algorithm, limit, window, burst, precision):
        return rule(algorithm, limit, window, burst, precision)

    @staticmethod
    def key(name):
        return f"rl:{{0000}}:policy:rule:{digits(name)}"

    def check(self, numbers, key, cost, now):
        return self.judge.one(check(numbers, key, cost=cost, now=now))

    def peek(self, numbers, key, cost, now):
        return self.judge.one(peek(numbers, key, cost=cost, now=now))

    def ask(self, keys, words):
        reply = self.client("EVALSHA", SHA, len(keys), *keys, packed(words))
        outcome, _, _, _, count, _, _ = HEAD.unpack_from(reply, 8)
        rows = [ROW.unpack_from(reply, 8 + HEAD.size + i * ROW.size) for i in range(count)]
        return outcome, [Decision(bool(row[1]), *map(int, row[2:6])) for row in rows]

    @staticmethod
    def record(id):
        return f"rl:{{0000}}:reservation::{digits(id)}"

    def lease(self, id, numbers, key, amount, ttl, now):
        outcome, (said,) = self.ask([self.record(id), key], [
            RESERVE, now, 1, bytes(8), ttl, ttl, 0, 0, b"", b"", 1, b"requests", 1,
            2, 0, 0, b"requests", amount, *numbers])
        assert outcome == (DONE if said.allowed else DENIED), outcome
        return said

    def settle(self, id, spent, now):
        """What became of it."""
        return self.ask([self.record(id)], [SETTLE, now, 1, 2, 1, b"requests", spent])[0]
