"""asker.py - for end-to-end tests: one connection that asks, in HTTP or in RESP.

What it does not hear the answer to may have been counted or not: it says so (Unanswered), and it
is for the caller to know what that means. Nothing is ever asked twice.
"""
import ctypes
import json
import os
import random
import signal
import socket
import threading
import time

from weir_server import PATIENCE, command, wait_until

PROTOCOLS = ("http", "resp")
COUNTED = "store", "cache"  # decided by what the store has counted


class Unanswered(Exception):
    """The connection ended between a question and its answer."""


def connect(address, since=None):
    """Connect, with retries until the server listens: before that, nothing is counted."""
    deadline = (since or time.monotonic()) + PATIENCE
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE)
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def http_question(path, body, close=False):
    body = json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s"
            % (path.encode(), b"Connection: close\r\n" if close else b"", len(body), body))


class Asker:
    """Connects when it has to."""

    def __init__(self, address, protocol):
        self.address, self.protocol = address, protocol
        self.socket = self.file = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()

    def leave(self):
        if self.socket:
            self.file.close()
            self.socket.close()
        self.socket = self.file = None

    def arrive(self):
        if not self.socket:
            self.socket = connect(self.address)
            self.file = self.socket.makefile("rb")

    def exchange(self, question, read):
        self.arrive()
        try:
            self.socket.sendall(question)
            return read()
        except (ConnectionError, EOFError) as error:
            self.leave()
            raise Unanswered from error

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError
        return line[:-2]

    def read_http(self):
        """(status, headers, decoded body)"""
        status, headers = int(self.line().split()[1]), {}
        while line := self.line():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self.file.read(int(headers["content-length"]))
        if len(body) < int(headers["content-length"]):
            raise EOFError
        if headers.get("connection") == "close":
            self.leave()
        return status, headers, json.loads(body)

    def read_resp(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self.read_resp() for _ in range(int(rest))]
        if kind == b"$":
            text = self.file.read(int(rest) + 2)
            if len(text) < int(rest) + 2:
                raise EOFError
            return text[:-2].decode()
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        raise AssertionError(f"the reply {line}")

    def ask(self, policy, attributes, verb="check"):
        """Is it allowed, and how many are left? Of one policy, or of a list of them."""
        if self.protocol == "http":
            which = {"policy": policy} if isinstance(policy, str) else {"policies": policy}
            status, _, answer = self.exchange(
                http_question(f"/v1/{verb}", {**which, "attributes": attributes}), self.read_http)
            assert status == 200, (status, answer)
            assert answer["source"] in COUNTED, answer
            return answer["allowed"], answer["remaining"]
        words = [f"{name}={value}" for name, value in attributes.items()]
        if not isinstance(policy, str):
            policy, *others = policy
            words += [word for other in others for word in ("POLICY", other)]
        reply = self.exchange(command(f"WEIR.{verb.upper()}", policy, *words), self.read_resp)
        assert reply[6] in COUNTED, reply
        return bool(reply[0]), reply[2]


class Crowd:
    """Threads that share out a list of questions, each on connections of its own. An answer is
    written down under the question: allowed, refused or unanswered."""

    def __init__(self, address, questions, size=16, seed=1):
        self.address, self.lock = address, threading.Lock()
        self.waiting = list(questions)
        random.Random(seed).shuffle(self.waiting)
        self.total = len(self.waiting)
        self.allowed, self.refused, self.unanswered = {}, {}, {}
        self.done, self.problems = 0, []
        self.threads = [threading.Thread(target=self.work, args=(PROTOCOLS[i % 2],), daemon=True)
                        for i in range(size)]
        for thread in self.threads:
            thread.start()

    def next_question(self):
        with self.lock:
            return self.waiting.pop() if self.waiting and not self.problems else None

    def note(self, where, question):
        with self.lock:
            where[question] = where.get(question, 0) + 1
            self.done += 1

    def work(self, protocol):
        try:
            with Asker(self.address, protocol) as asker:
                while question := self.next_question():
                    policy, attribute, value = question
                    try:
                        allowed, _ = asker.ask(policy, {attribute: value})
                        self.note(self.allowed if allowed else self.refused, question)
                    except Unanswered:
                        self.note(self.unanswered, question)
        except Exception as problem:  # pylint: disable=broad-except
            self.problems.append(problem)

    def reaches(self, share):
        """Waits until this share of all is done."""
        wait_until(lambda: self.problems or self.done >= share * self.total, f"{share} of it")

    def end(self):
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread still waits for an answer"
        assert not self.problems, self.problems
        assert self.done == self.total, (self.done, self.total)
        return self


def adopt_orphans():
    """A successor is the child of its predecessor: once that has ended, it becomes ours."""
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


class Successor:
    """The process that a server has handed over to; stopped when left."""

    def __init__(self, server, number=1):
        self.pid = int(server.wait_for("handover", number)["message"].split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)

    def stop(self, number=signal.SIGTERM):
        """Returns its status as waitpid() has it; None: it had ended before."""
        try:
            os.kill(self.pid, number)
            pids = []
            wait_until(lambda: pids.append(os.waitpid(self.pid, os.WNOHANG)) or pids[-1][0],
                       "the successor to end")
            return pids[-1][1]
        except (ProcessLookupError, ChildProcessError):
            return None


def handed_over(server, number=1):
    """SIGUSR2, and wait until the predecessor has ended and the successor serves."""
    server.signal(signal.SIGUSR2)
    successor = Successor(server, number)
    assert server.process.wait(PATIENCE) == 0
    server.wait_for("ready", number + 1)
    return successor
