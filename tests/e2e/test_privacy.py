#!/usr/bin/env python3
"""test_privacy.py - what others on the machine get of a server's memory, where its secrets are.

    test_privacy.py TREE      from the root of the source
"""
import configparser
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from asker import adopt_orphans, handed_over  # noqa: E402
from weir_server import Server, run, test  # noqa: E402

USER = 65534 if os.geteuid() == 0 else os.geteuid()


def become_user():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)


def serve(**more):
    return Server(preexec_fn=become_user, **more)


def owner(pid):
    """Of what the kernel shows of a process: root's, if that is not to be looked into."""
    return os.stat(f"/proc/{pid}/environ").st_uid


def is_readable(pid):
    """Can another process of its user read its memory?"""
    done = subprocess.run(["dd", f"if=/proc/{pid}/mem", "of=/dev/null", "bs=1", "count=0"],
                          preexec_fn=become_user, capture_output=True, check=False)
    return done.returncode == 0


def private_server(pid):
    return owner(pid) == 0 and not is_readable(pid)


@test
def the_memory_of_a_server_cannot_be_read_by_other_processes():
    with serve() as server:
        assert server.http("GET", "/healthz")[0] == 200
        assert private_server(server.pid)
        assert server.stop() == 0


@test
def weir_dumpable_allows_debugging():
    with serve(env={"WEIR_DUMPABLE": "1"}) as server:
        assert owner(server.pid) == USER
        assert server.stop() == 0


@test
def a_successor_is_as_private():
    adopt_orphans()
    with serve() as server:
        with handed_over(server) as successor:
            assert private_server(successor.pid)


@test
def the_unit_has_no_core_files_either():
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string(Path("packaging/systemd/weir.service").read_text(encoding="utf-8"))
    assert unit["Service"]["LimitCORE"] == "0"


run()
