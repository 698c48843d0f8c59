#!/usr/bin/env python3
"""test_lifecycle.py - how a server comes, changes its mind, hands over and goes.

    test_lifecycle.py TREE      from the root of the source
"""
import contextlib
import datetime
import os
import re
import resource
import signal
import socket
import stat
import sys
import threading
import time

sys.path.insert(0, "tests/support")
from asker import Asker, Successor, adopt_orphans, handed_over  # noqa: E402
from weir_server import (Folder, PATIENCE, Server, WEIR, command, free_port, run, test,  # noqa: E402
                    wait_until)

FIVE = "version: 1\npolicies:\n  login: {limit: 5 per 1h, by: ip}\n"
SEVEN = FIVE.replace("5 per", "7 per")
BAD = FIVE.replace("limit:", "limt:")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def hear(connection):
    """What comes until the connection is closed."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


def hear_answer(connection):
    """One HTTP answer, of a connection that stays open."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: *(\d+)", head)[1])
    while len(body) < length:
        body += connection.recv(65536)
    return head, body


# ---- going ------------------------------------------------------------------------------------

BODY = b'{"policy":"login","key":"203.0.113.7"}'
FIRST_HALF = (b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              b"Content-Length: %d\r\n\r\n" % len(BODY)) + BODY[:10]


def is_refused(server):
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


@test
def sigterm_ends_idle_connections_and_finishes_what_has_begun():
    with Server(config="examples/policies.yaml") as server:
        with server.connect() as idle, server.connect() as slow:
            idle.sendall(HEALTH)
            assert b"200 OK" in hear_answer(idle)[0]
            slow.sendall(FIRST_HALF)
            with Asker(server.address, "resp") as other:  # by now the first half has been read
                other.exchange(command("PING"), other.read_resp)
            server.signal(signal.SIGTERM)
            assert hear(idle) == b""
            assert server.process.poll() is None
            wait_until(lambda: is_refused(server), "new connections to be refused")
            slow.sendall(BODY[10:])
            answer = hear(slow)
            assert b"200 OK" in answer and b'"allowed":true' in answer, answer
            assert b"Connection: close" in answer, answer
        assert server.process.wait(PATIENCE) == 0
        wait_until(lambda: server.log.events("stopped"))


@test
def sigterm_waits_for_an_unfinished_request_up_to_the_drain_timeout():
    with Server("--drain-timeout", "1500ms", "--request-timeout", "1h") as server:
        with server.connect() as slow:
            slow.sendall(FIRST_HALF)
            with Asker(server.address, "resp") as other:
                other.exchange(command("PING"), other.read_resp)
            began = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.process.wait(PATIENCE) == 0
            assert 1.5 <= time.monotonic() - began < 5
            try:
                assert slow.recv(1) == b""
            except ConnectionResetError:
                pass


@test
def sigterm_finishes_requests_of_connections_that_wait_to_be_accepted():
    with Server("--request-timeout", "1h", config="examples/policies.yaml") as server:
        server.signal(signal.SIGSTOP)
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(server.connect()) for _ in range(50)]
            for connection in waiting:
                connection.sendall(FIRST_HALF)
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGCONT)
            wait_until(lambda: is_refused(server), "new connections to be refused")
            for connection in waiting:
                connection.sendall(BODY[10:])
                assert b" 200 " in hear(connection).split(b"\r\n")[0]
        assert server.process.wait(PATIENCE) == 0


@test
def sigterm_under_load_answers_all_that_was_counted():
    """Pipelines in flight are cut somewhere: what was answered before the cut was counted, and
    nothing behind it."""
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text("version: 1\npolicies:\n  all: {limit: 100000 per 1d, by: user}\n")
        arguments = {"config": config, "store": f"file:{folder}/data", "threads": 2}
        heard = {}

        def flood(user, address):
            with Asker(address, "resp") as asker:
                asker.arrive()
                while True:
                    try:
                        asker.socket.sendall(command("WEIR.CHECK", "all", user) * 100)
                        for _ in range(100):
                            assert asker.read_resp()[0] == 1
                            heard[user] = heard.get(user, 0) + 1
                    except (ConnectionError, EOFError):
                        return

        with Server(**arguments) as server:
            threads = [threading.Thread(target=flood, args=(f"u{i}", server.address), daemon=True)
                       for i in range(8)]
            for thread in threads:
                thread.start()
            wait_until(lambda: sum(heard.values()) > 3000 and len(heard) == 8, "some load")
            assert server.stop() == 0
            for thread in threads:
                thread.join(PATIENCE)
        with Server(**arguments) as server, Asker(server.address, "resp") as asker:
            counted = {user: 100000 - asker.ask("all", {"user": user}, "peek")[1] for user in heard}
        assert counted == heard, (counted, heard)


# ---- changing its mind ------------------------------------------------------------------------

class Reloading:
    """A server whose policy file is behind a link, so that nothing but what is tried reloads it."""

    def __enter__(self):
        self.folder = Folder()
        self.path = self.folder.path
        (self.path / "real").mkdir()
        self.real, self.link = self.path / "real/policies.yaml", self.path / "policies.yaml"
        self.real.write_text(FIVE)
        self.link.symlink_to(self.real)
        self.server = Server(config=self.link)
        assert self.limit() == 5
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def limit(self):
        return self.server.http("GET", "/v1/check?policy=login&ip=192.0.2.1")[2]["limit"]

    def reload(self, text):
        """By SIGHUP; returns the line of the log."""
        self.real.write_text(text)
        before = len(self.lines())
        self.server.signal(signal.SIGHUP)
        wait_until(lambda: len(self.lines()) > before, "a reload")
        return self.lines()[-1]

    def lines(self):
        return [line for line in list(self.server.log.lines)
                if line["event"] in ("reloaded", "reload-failed")]


@test
def sighup_brings_new_limits():
    with Reloading() as it:
        assert it.reload(SEVEN)["message"] == "(SIGHUP) changed login/default"
        assert it.limit() == 7


@test
def post_reload_brings_new_limits():
    with Reloading() as it:
        it.real.write_text(SEVEN)
        status, _, answer = it.server.http("POST", "/v1/reload")
        assert (status, answer["reloaded"], answer["reload"]["succeeded"]) == (200, True, 1), answer
        assert it.limit() == 7
        assert it.server.wait_for("reloaded")["message"] == (
            "(POST /v1/reload) changed login/default")


def brings_new_limits(server):
    assert server.wait_for("reloaded")["message"] == (
        "(the policy file has changed) changed login/default")
    assert server.http("GET", "/v1/check?policy=login&ip=192.0.2.1")[2]["limit"] == 7


def a_change_on_disk_brings_new_limits(change, **arguments):
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text(FIVE)
        with Server(config=config, **arguments) as server:
            change(config)
            brings_new_limits(server)


@test
def a_file_that_is_written_to_brings_new_limits():
    a_change_on_disk_brings_new_limits(lambda config: config.write_text(SEVEN))


@test
def a_file_that_is_replaced_brings_new_limits():
    def replace(config):
        other = config.with_name("policies.yaml.new")
        other.write_text(SEVEN)
        other.rename(config)
    a_change_on_disk_brings_new_limits(replace)


@test
def a_file_that_changes_while_the_server_starts_brings_new_limits():
    """Who starts it does not listen, so it stands between its first answer and what is behind."""
    with Folder() as folder, Manager(folder) as manager:
        manager.be_deaf()
        a_change_on_disk_brings_new_limits(lambda config: config.write_text(SEVEN),
                                           env={"NOTIFY_SOCKET": manager.path})


@test
def a_volume_of_kubernetes_that_is_swapped_brings_new_limits():
    with Folder() as folder:
        for version, text in ("..1", FIVE), ("..2", SEVEN):
            (folder / version).mkdir()
            (folder / version / "policies.yaml").write_text(text)
        (folder / "..data").symlink_to("..1")
        (folder / "policies.yaml").symlink_to("..data/policies.yaml")
        with Server(config=folder / "policies.yaml") as server:
            (folder / "..data_tmp").symlink_to("..2")
            (folder / "..data_tmp").rename(folder / "..data")
            brings_new_limits(server)


@test
def a_bad_file_keeps_the_old_limits_and_is_reported_everywhere():
    with Reloading() as it:
        problem = f"{it.link}:3:11: unknown key 'limt' in a policy: did you mean 'limit'?"
        line = it.reload(BAD)
        assert line["level"] == "error", line
        assert line["message"] == ("(SIGHUP) what could not be read keeps its old settings: "
                                   f"{problem}"), line
        assert it.limit() == 5

        status, _, answer = it.server.http("POST", "/v1/reload")
        assert (status, answer["detail"]) == (422, problem), answer
        assert answer["code"] == "invalid_policy_file", answer

        reload = it.server.http("GET", "/v1/policies")[2]["reload"]
        assert (reload["failed"], reload["problem"]) == (2, problem), reload
        metrics = it.server.http("GET", "/metrics")[2].decode()
        assert "\nweir_policy_reload_failures_total 2\n" in metrics
        assert "\nweir_policy_reloads_total 0\n" in metrics

        assert it.reload(SEVEN)["event"] == "reloaded"
        assert it.limit() == 7
        reload = it.server.http("GET", "/v1/policies")[2]["reload"]
        assert (reload["succeeded"], reload["failed"], reload["problem"]) == (1, 2, None), reload


@test
def a_file_that_is_gone_keeps_the_old_limits():
    with Reloading() as it:
        it.real.unlink()
        it.server.signal(signal.SIGHUP)
        message = it.server.wait_for("reload-failed")["message"]
        assert message == ("(SIGHUP) what could not be read keeps its old settings: "
                           f"{it.link}: cannot read it: "
                           "No such file or directory: check the path"), message
        assert it.limit() == 5


# ---- with systemd -------------------------------------------------------------------------------

# Descriptors are moved to 3 and on, and LISTEN_PID is this process's, as systemd has it.
ACTIVATE = """
import fcntl, os, sys
count = int(os.environ["LISTEN_FDS"])
aside = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1].split(",")]
for i, fd in enumerate(aside):
    os.dup2(fd, 3 + i)
    os.close(fd)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


def activated(*listening, **more):
    fds = [listener.fileno() for listener in listening]
    return Server(command=[sys.executable, "-c", ACTIVATE, ",".join(map(str, fds))], listen=None,
                  env={"LISTEN_FDS": str(len(fds)), **more.pop("env", {})}, pass_fds=fds, **more)


def tcp_listener(host="127.0.0.1"):
    listener = socket.create_server((host, 0))
    return listener, listener.getsockname()


@test
def sockets_of_systemd_are_served_and_outlive_the_server():
    with Folder() as folder, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(folder / "socket"))
        local.listen()
        listener, address = tcp_listener()
        with listener, socket.create_connection(address, timeout=PATIENCE) as early:
            early.sendall(HEALTH)
            with activated(listener, local) as server:
                assert b"200 OK" in hear_answer(early)[0]
                names = [line["address"] for line in server.log.events("listening")]
                assert names == ["%s:%d" % address, f"unix:{folder}/socket"], names
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(PATIENCE)
                    s.connect(str(folder / "socket"))
                    s.sendall(command("PING", "hello") + command("QUIT"))
                    assert hear(s) == b"$5\r\nhello\r\n+OK\r\n"
                assert server.stop() == 0
            assert (folder / "socket").exists()
            with socket.create_connection(address, timeout=PATIENCE) as between:
                between.sendall(HEALTH)
                with activated(listener, local):
                    assert b"200 OK" in hear_answer(between)[0]


@test
def a_socket_of_systemd_that_others_can_reach_needs_a_token():
    listener, (_, port) = tcp_listener("0.0.0.0")
    with listener, activated(listener, wait=False) as server:
        assert server.process.wait(PATIENCE) == 2
        wait_until(lambda: server.log.ended)
        assert server.log.other == [
            f"weir: the socket 0.0.0.0:{port} that was handed over can be reached from other "
            "machines: give a token file, or bind it to loopback"], server.log.other


class Manager:
    """Hears what a service tells systemd."""

    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def hear(self):
        return self.socket.recv(4096).decode().splitlines()

    def be_deaf(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    other.sendto(b"X=1", self.path)


@test
def systemd_is_notified_of_ready_reloading_and_stopping():
    with Folder() as folder, Manager(folder) as manager, \
            Server(env={"NOTIFY_SOCKET": manager.path}) as server:
        assert manager.hear() == ["READY=1"]
        before = time.monotonic_ns() // 1000
        server.signal(signal.SIGHUP)
        reloading, at = manager.hear()
        assert reloading == "RELOADING=1"
        name, _, us = at.partition("=")
        assert name == "MONOTONIC_USEC" and before <= int(us) <= time.monotonic_ns() // 1000, at
        assert manager.hear() == ["READY=1"]
        server.signal(signal.SIGTERM)
        assert manager.hear() == ["STOPPING=1"]
        assert server.process.wait(PATIENCE) == 0


@test
def systemd_watchdog_is_notified():
    with Folder() as folder, Manager(folder) as manager, \
            Server(command=["sh", "-c", 'WATCHDOG_PID=$$ exec "$0" "$@"'],
                   env={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "100000"}):
        assert manager.hear() == ["READY=1"]
        assert [manager.hear() for _ in range(3)] == [["WATCHDOG=1"]] * 3


# ---- handing over -------------------------------------------------------------------------------

HANDOVERS = 4


@test
def during_a_handover_no_connection_is_refused_reset_or_unanswered():
    answers = {b"http": 0, b"resp": 0}
    problems, over = [], threading.Event()

    def come_and_go(address, name, question, begins, ends):
        while not over.is_set():
            try:
                with socket.create_connection(address, timeout=PATIENCE) as s:
                    s.sendall(question)
                    answer = hear(s)
                assert answer.startswith(begins) and answer.endswith(ends), answer
                answers[name] += 1
            except (OSError, AssertionError) as problem:
                problems.append(repr(problem))

    with Folder() as folder, Server(config="examples/policies.yaml", store=f"file:{folder}/data",
                                    threads=2) as server:
        kinds = [(server.address, b"http", b"GET /v1/check?policy=login&ip=192.0.2.1 HTTP/1.1\r\n"
                  b"Host: localhost\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"}\n"),
                 (server.address, b"resp", command("PING") + command("QUIT"), b"+PONG\r\n",
                  b"+OK\r\n")]
        threads = [threading.Thread(target=come_and_go, args=kinds[i % 2], daemon=True)
                   for i in range(6)]
        for thread in threads:
            thread.start()
        pid = server.pid
        try:
            for number in range(1, HANDOVERS + 1):
                so_far = sum(answers.values())
                os.kill(pid, signal.SIGUSR2)
                pid = Successor(server, number).pid
                server.wait_for("ready", number + 1)
                wait_until(lambda before=so_far: sum(answers.values()) > before + 500, "answers")
            assert server.process.wait(PATIENCE) == 0
            over.set()
            for thread in threads:
                thread.join(PATIENCE)
            assert not problems, (len(problems), answers, problems[:3])
            assert min(answers.values()) > 200, answers
            assert server.log.other == [], server.log.other
            assert f"process_id:{pid}\r\n".encode() in server.resp("INFO")
        finally:
            over.set()
            os.kill(pid, signal.SIGKILL)


@test
def idle_clients_that_do_not_hang_up_hold_up_no_handover():
    """There are no answers until the predecessor has ended."""
    def at(line):
        return datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))

    with Folder() as folder, Server(store=f"file:{folder}/data", threads=2) as server:
        with contextlib.ExitStack() as idle:
            for _ in range(20):
                one = idle.enter_context(server.connect())
                one.sendall(HEALTH)
                assert b"200 OK" in hear_answer(one)[0]
            with handed_over(server):
                pause = at(server.wait_for("ready", 2)) - at(server.wait_for("draining"))
                assert pause.total_seconds() < 1, pause


@test
def the_successor_is_what_has_the_name_now_and_serves_the_same_addresses():
    """A new version is put in the place of the old file; here it is a script that tells."""
    with Folder() as folder:
        program, path = folder / "weir", folder / "socket"
        program.symlink_to(WEIR)
        (folder / "newer").write_text(f'#!/bin/sh\necho newer >&2\nexec {WEIR} "$@"\n')
        (folder / "newer").chmod(0o755)
        words = [str(program)]
        with Server(listen=f"127.0.0.1:0,unix:{path}", store=f"file:{folder}/data",
                    command=["sh", "-c", 'shift; exec "$0" "$@"', *words]) as server:
            program.unlink()
            program.symlink_to(folder / "newer")
            with handed_over(server) as successor:
                assert "newer" in server.log.other, server.log.other
                names = [line["address"] for line in server.log.events("listening")]
                assert names[:2] == names[2:] and names[1] == f"unix:{path}", names
                with Asker(server.address, "resp") as asker:
                    assert asker.exchange(command("PING"), asker.read_resp) == "PONG"
                assert successor.stop() == 0
            assert not path.exists()


@test
def the_successor_settles_what_the_predecessor_has_reserved():
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text("version: 1\npolicies:\n  jobs:\n    rules:\n      all: {limit: 10 per 1d}\n"
                          "      running: {limit: 2 at once}\n")

        def ask(verb, **body):
            status, _, said = server.http("POST", f"/v1/{verb}", body)
            assert status == 200, said
            return said, [rule["remaining"] for rule in said["rules"]]

        with Server(config=config, store=f"file:{folder}/data", threads=2) as server:
            for name in "ab":
                ask("reserve", policy="jobs", id=name, ttl_ms=600_000)
            ask("commit", reservation="a")
            with handed_over(server) as successor:
                server.wait_for("ready", 2)
                assert ask("reserve", policy="jobs", id="b", ttl_ms=600_000)[0]["repeated"]
                assert ask("peek", policy="jobs")[1] == [8, 1]
                assert ask("commit", reservation="a")[0]["repeated"]
                assert ask("release", reservation="b")[1] == [9, 2]
                assert successor.stop() == 0


@test
def systemd_is_notified_of_the_new_main_pid():
    with Folder() as folder, Manager(folder) as manager, \
            Server(store=f"file:{folder}/data", env={"NOTIFY_SOCKET": manager.path}) as server:
        assert manager.hear() == ["READY=1"]
        with handed_over(server) as successor:
            assert manager.hear() == [f"MAINPID={successor.pid}"]
            assert manager.hear() == ["READY=1"]
            assert successor.stop() == 0
            assert manager.hear() == ["STOPPING=1"]


@test
def a_successor_that_cannot_serve_changes_nothing():
    with Reloading() as it:
        it.real.write_text(BAD)
        it.server.signal(signal.SIGUSR2)
        line = it.server.wait_for("handover-failed")
        assert line["message"] == ("the new program ended with status 2: its own message says why: "
                                   "this process goes on"), line
        assert it.server.log.other == [
            f"weir: {it.link}:3:11: unknown key 'limt' in a policy: did you mean 'limit'?"]
        assert it.limit() == 5
        it.real.write_text(SEVEN)
        with handed_over(it.server):
            assert it.limit() == 7


def reaches(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(str(path))
        s.sendall(command("PING"))
        return s.recv(100) == b"+PONG\r\n"


@test
def a_successor_that_cannot_serve_leaves_the_unix_socket():
    with Folder() as folder:
        config, path = folder / "policies.yaml", folder / "socket"
        config.write_text(FIVE)
        with Server(config=config, listen=f"127.0.0.1:0,unix:{path}") as server:
            config.write_text(BAD)
            server.signal(signal.SIGUSR2)
            server.wait_for("handover-failed")
            assert reaches(path)


@test
def a_successor_that_cannot_open_the_store_changes_nothing():
    with Folder() as folder:
        with Server(config="examples/policies.yaml", store=f"file:{folder}/data") as server:
            server.check("login", "203.0.113.7")
            secret = folder / "data/secret"
            good = secret.read_bytes()
            secret.write_bytes(b"junk")
            server.signal(signal.SIGUSR2)
            server.wait_for("handover-failed")
            assert server.check("login", "203.0.113.7")["remaining"] == 3
            secret.write_bytes(good)
            with handed_over(server):
                assert server.check("login", "203.0.113.7")["remaining"] == 2


@test
def a_server_with_unwritable_files_is_not_replaced_and_reports_the_loss():
    def survive():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    with Folder() as folder, Server("--sync", "always", config="examples/policies.yaml",
                                    store=f"file:{folder}/data", preexec_fn=survive) as server:
        # With room for a snapshot, it would recover.
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, 0))
        server.check("login", "203.0.113.7")
        assert server.http("GET", "/readyz")[0] == 503
        server.signal(signal.SIGUSR2)
        line = server.wait_for("handover-failed")
        assert line["message"].startswith("the store has failed"), line
        assert server.http("GET", "/healthz")[0] == 200
        assert server.stop() == 0
        line = server.wait_for("stopped")
        assert line["level"] == "error" and "is not stored" in line["message"], line


@test
def an_address_that_is_gone_from_the_settings_is_closed_by_the_handover():
    with Folder() as folder:
        config, ports = folder / "policies.yaml", [free_port(), free_port()]
        server = "server: {listen: [%s], threads: 2}\n"
        config.write_text(FIVE + server % ", ".join(f"'127.0.0.1:{port}'" for port in ports))
        with Server(config=config, listen=None) as old:
            files = len(os.listdir(f"/proc/{old.pid}/fd"))
            config.write_text(FIVE + server % f"'127.0.0.1:{ports[0]}'")
            with handed_over(old) as new:
                socket.create_connection(("127.0.0.1", ports[0]), PATIENCE).close()
                try:
                    socket.create_connection(("127.0.0.1", ports[1]), PATIENCE).close()
                    raise AssertionError("the port is still open")
                except ConnectionRefusedError:
                    pass
                assert len(os.listdir(f"/proc/{new.pid}/fd")) <= files


# ---- where it listens ---------------------------------------------------------------------------

@test
def a_unix_socket_is_for_its_user_and_group_and_goes_with_the_server():
    with Folder() as folder:
        path = folder / "socket"
        with Server(listen=f"unix:{path}") as server:
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            for question, answer in ((HEALTH, b"HTTP/1.1 200 OK"), (command("PING"), b"+PONG")):
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(PATIENCE)
                    s.connect(str(path))
                    s.sendall(question)
                    assert s.recv(65536).startswith(answer)
            assert server.stop() == 0
        assert not path.exists()


@test
def a_unix_socket_that_a_killed_server_left_is_replaced():
    with Folder() as folder:
        path = folder / "socket"
        with Server(listen=f"unix:{path}") as server:
            server.kill()
        assert path.exists()
        with Server(listen=f"unix:{path}"):
            assert reaches(path)


@test
def a_unix_socket_that_another_server_has_made_since_is_left_to_it():
    with Folder() as folder:
        path = folder / "socket"
        with Server(listen=f"unix:{path}") as server:
            path.unlink()
            with Server(listen=f"unix:{path}"):
                assert server.stop() == 0
                assert reaches(path)


def refused(message, **arguments):
    with Server(wait=False, **arguments) as server:
        assert server.process.wait(PATIENCE) == 2
        wait_until(lambda: server.log.ended)
        assert (server.log.other, server.log.lines) == (
        [f"weir: {line}" for line in message.split("\n")], []), server.log.other


@test
def too_few_open_files_are_reported():
    refused("40 open files are too few to serve clients: raise the limit (LimitNOFILE= or ulimit -n)",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))


@test
def a_second_server_in_the_same_place_is_rejected():
    with Folder() as folder:
        path, port = folder / "socket", free_port()
        with Server(listen=f"127.0.0.1:{port},unix:{path}", store=f"file:{folder}/data") as server:
            refused(f"{folder}/data is in use by process {server.pid}: stop it first, or send requests to it", store=f"file:{folder}/data")
            refused(f"cannot listen on 127.0.0.1:{port}: the port is in use by weir (process "
                    f"{server.pid}); stop it, or choose another port", listen=f"127.0.0.1:{port}")
            refused(f"cannot listen on unix:{path}: another program is listening there; stop it, or choose another path", listen=f"unix:{path}")
            assert server.resp("PING") == b"+PONG\r\n"


@test
def public_addresses_need_a_token():
    with Folder() as folder:
        refused("other machines can reach 0.0.0.0:0 without a token: add one "
                "(--token-file check:FILE, WEIR_TOKEN_FILE=FILE, or `tokens` in the file), require "
                "client certificates (--tls-client-ca), or listen on 127.0.0.1\n"
                "make a token:  (umask 077; head -c 32 /dev/urandom | base64 >weir.token)\n"
                "and then:  weir serve --listen 0.0.0.0:0 --token-file "
                "check,admin,metrics:weir.token", listen="0.0.0.0:0")
        (folder / "token").write_text("0123456789abcdef\n")
        with Server("--token-file", f"check:{folder}/token", listen="0.0.0.0:0") as server:
            assert server.wait_for("listening")["address"].startswith("0.0.0.0:")
            with Asker(("127.0.0.1", server.port), "resp") as asker:
                reply = asker.exchange(command("AUTH", "0123456789abcdef"), asker.read_resp)
                assert reply == "OK"


FORBID = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", "trace=io_uring_setup", "-e",
          "inject=io_uring_setup:error=EPERM"]


@test
def where_io_uring_is_forbidden_it_is_not_used():
    with Server("--io", "uring", command=FORBID, wait=False) as server:
        server.process.wait(PATIENCE)
        assert server.process.returncode == 2
        wait_until(lambda: server.log.ended)
        assert server.log.other == [
            "weir: io_uring: it is not allowed here: see kernel.io_uring_disabled and the seccomp profile of "
            "the container; --io epoll does without"], server.log.other
    with Server("--io", "auto", "--log-level", "debug", command=FORBID) as server:
        assert server.resp("PING") == b"+PONG\r\n"
        assert "not allowed here" in server.wait_for("io")["message"]
        with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii") as children:
            os.kill(int(children.read()), signal.SIGTERM)  # the tracer ends with it
        assert server.process.wait(PATIENCE) == 0


adopt_orphans()
run()
