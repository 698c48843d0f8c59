#!/usr/bin/env python3
"""test_reservations.py - reservations by HTTP and RESP with the stores that servers share.

    test_reservations.py TREE      from the root of the source

The tests are those of tests/wire/test_reservations.py.
"""
import re
import subprocess
import sys

sys.path.insert(0, "tests/support")
from postgres import Postgres  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import TREE, run, test  # noqa: E402

# A test, and what is said of a failure.
LINE = re.compile(r"^(not )?ok \d+ - (.*)$((?:\n#.*$)*)", re.M)


def play(name, url):
    """A test for each of theirs."""
    said = subprocess.run([sys.executable, "tests/wire/test_reservations.py", TREE, url], text=True,
                          capture_output=True, check=False).stdout
    found = LINE.findall(said)
    assert len(found) > 10, said
    for failed, title, why in found:
        def has_passed(failed=failed, title=title, why=why):
            assert not failed, why
            return title.partition(" # skip ")[2] or None
        has_passed.__name__ = f"{name}_{title.partition(' # ')[0]}".replace(" ", "_")
        test(has_passed)


def patient(url):
    return url + ("&" if "?" in url else "?") + "deadline=20s"


with Postgres() as db:
    db.migrate()
    play("postgres", patient(db.url))
with Redis() as redis:
    play("redis", patient(redis.url))
run()
