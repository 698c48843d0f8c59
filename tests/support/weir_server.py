"""weir_server.py - for tests written in Python: TAP, and a real weir server to talk to.

    from weir_server import Server, test, run

    @test
    def a_statement_about_it(): ...

    run()

A server has a folder and a port of its own, is stopped by its pid, and is waited for by what it
logs, never by the clock.
"""
import http.client
import json
import os
import signal
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

TREE = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path("build").resolve()
WEIR = TREE / "weir"
PATIENCE = 30  # seconds, for what must happen but may take long on a busy machine

tests = []


def test(function):
    tests.append(function)
    return function


def finds_nothing(check, name=None):
    """A test of what lists the problems that it finds."""
    def holds():
        problems = list(check())
        assert not problems, "\n".join(problems)
    holds.__name__ = name or check.__name__
    test(holds)
    return check


def run():
    """Run all tests; the plan comes last, so that a script that died has none."""
    failed = 0
    for number, function in enumerate(tests, 1):
        name = function.__name__.replace("_", " ")
        try:
            skipped = function()
            print(f"ok {number} - {name}" + (f" # skip {skipped}" if skipped else ""), flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {name}")
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="",
                  flush=True)
    print(f"1..{len(tests)}")
    sys.exit(1 if failed else 0)


def wait_until(condition, what="it"):
    deadline = time.monotonic() + PATIENCE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE} s for {what}")
        time.sleep(0.005)


class Folder:
    """One of its own, gone afterwards."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="weir-test."))

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Log(threading.Thread):
    """The JSON lines that a process writes, as they come; what is not JSON is in `other`."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.lines, self.other = stream, [], []
        self.ended = False
        self.start()

    def run(self):
        for line in self.stream:
            text = line.decode(errors="replace").rstrip("\n")
            try:
                self.lines.append(json.loads(text))
            except ValueError:
                self.other.append(text)
        self.ended = True

    def events(self, name):
        return [line for line in list(self.lines) if line.get("event") == name]


class Server:
    """`weir serve` with these arguments; ready when made, stopped when left."""

    def __init__(self, *arguments, config=None, store="memory:", listen="127.0.0.1:0", env=None,
                 threads=None, wait=True, pass_fds=(), preexec_fn=None, command=None):
        words = [str(WEIR), "serve", "--store", store]
        if listen:
            words += ["--listen", listen]
        if config:
            words += ["--config", str(config)]
        if threads:
            words += ["--threads", str(threads)]
        self.words = (command or []) + words + [str(argument) for argument in arguments]
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, pass_fds=pass_fds,
            preexec_fn=preexec_fn)
        self.log = Log(self.process.stderr)
        if wait:
            self.wait_for("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def wait_for(self, event, count=1):
        """The count-th line of this event."""
        def there():
            found = self.log.events(event)
            if len(found) < count and self.process.poll() is not None and self.log.ended:
                raise AssertionError(f"exit {self.process.returncode} before '{event}': "
                                     f"{self.log.other} {self.log.lines}")
            return len(found) >= count and found
        return wait_until(there, f"the event {event}")[count - 1]

    @property
    def address(self):
        host, _, port = self.wait_for("listening")["address"].rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def port(self):
        return self.address[1]

    @property
    def url(self):
        return "http://%s:%d" % self.address

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """SIGTERM; returns the exit status."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def http(self, method, path, body=None, headers=None):
        """One request on a connection of its own: (status, headers, body; JSON decoded)."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            data = response.read()
            kind = response.headers.get("Content-Type", "")
            return response.status, response.headers, json.loads(data) if "json" in kind else data
        finally:
            connection.close()

    def check(self, policy, key, **more):
        return self.http("POST", "/v1/check", {"policy": policy, "key": key, **more})[2]

    def connect(self):
        connection = socket.create_connection(self.address, timeout=PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # pieces leave as pieces, and at once
        return connection

    def resp(self, *words):
        """One command; the raw reply up to where the server has nothing more to say."""
        with self.connect() as s:
            s.sendall(command(*words) + command("QUIT"))
            data = b""
            while piece := s.recv(65536):
                data += piece
            return data.removesuffix(b"+OK\r\n")


def command(*words):
    out = b"*%d\r\n" % len(words)
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        out += b"$%d\r\n%s\r\n" % (len(word), word)
    return out


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


__all__ = ["Folder", "Log", "PATIENCE", "Server", "TREE", "WEIR", "command", "free_port", "run",
           "signal", "test", "wait_until"]
