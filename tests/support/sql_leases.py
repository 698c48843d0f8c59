"""sql_leases.py - asks weir.judge_reservations() for leases, and weir.judge() all else, in one session."""
import json
import subprocess

from postgres import programs
from sql_judge import CHECK, NUMBERS, PEEK, array, complete, judge, key_of

LEASE = ("SELECT json_build_array(errors[1], allowed[1]::int, remaining[1], retry_after[1], "
         "reset_after[1], delay[1]) FROM weir.judge_reservations('{{6}}', '{{{id}}}', '{{0}}', "
         "'{{{ttl}}}', '{{{ttl}}}', '{{f}}', '{{{now}}}', '{{0}}', NULL, NULL, '{{1}}', '{{{key}}}', {rule}, "
         "'{{0}}', '{{0,0,0,0,0}}', ARRAY[NULL]::text[], '{{{amount}}}', '{{p}}', '{{r}}', "
         "'{{requests}}', '{{f}}');")
SETTLE = ("SELECT errors[1] FROM weir.judge_reservations('{{11}}', '{{{id}}}', '{{0}}', '{{0}}', "
          "'{{0}}', '{{f}}', '{{{now}}}', '{{1}}', '{{requests}}', '{{{spent}}}', '{{0}}', "
          "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);")


class Leases:
    """A store of the kind that lease_model.py plays with."""

    def __init__(self, db):
        self.session = subprocess.Popen(
            [programs() / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", db.folder,
             "-p", str(db.port), "-U", "postgres", "-d", "postgres"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)

    def close(self):
        self.session.stdin.close()
        self.session.wait()

    def ask(self, statement):
        self.session.stdin.write(statement + "\n")
        self.session.stdin.flush()
        line = self.session.stdout.readline()
        if not line:
            raise AssertionError(f"{self.session.stderr.read()}: {statement}")
        return json.loads(line)

    @staticmethod
    def rule(algorithm, limit, window, burst, precision):
        return complete(algorithm, limit, window, burst, precision)

    @staticmethod
    def key(name):
        return key_of("lease", name)

    def judge(self, verb, rule, key, cost, now):
        (allowed,), *numbers = self.ask(judge([(verb, cost, now, [(key, rule)])]))
        return (bool(allowed), *(number for number, in numbers))

    def check(self, rule, key, cost, now):
        return self.judge(CHECK, rule, key, cost, now)

    def peek(self, rule, key, cost, now):
        return self.judge(PEEK, rule, key, cost, now)

    def lease(self, id, rule, key, amount, ttl, now):
        numbers = ", ".join([array([NUMBERS[rule[0]]]), *(array([n]) for n in rule[1:])])
        error, allowed, *said = self.ask(LEASE.format(
            id=key_of("id", id), ttl=ttl, now=now, key=key, rule=numbers, amount=amount))
        assert error == 0, error
        return (bool(allowed), *said)

    def settle(self, id, spent, now):
        """What became of it."""
        return self.ask(SETTLE.format(id=key_of("id", id), now=now, spent=spent))
