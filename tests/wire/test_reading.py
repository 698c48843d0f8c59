#!/usr/bin/env python3
"""test_reading.py - all that a client has sent is read, however it came, and without waiting for more.

    test_reading.py TREE      from the root of the source

What a test sends comes while the server is stopped: so the kernel tells of it once, and all of it is
there when the server looks.
"""
import contextlib
import os
import signal
import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, Server, command, run, test, wait_until  # noqa: E402

PING, PONG = command("PING"), b"+PONG\r\n"


@contextlib.contextmanager
def stopped(server):
    """It runs on afterwards."""
    def is_stopped():
        tasks = Path(f"/proc/{server.pid}/task").glob("*/stat")
        return all(t.read_text().rpartition(")")[2].split()[0] == "T" for t in tasks)
    server.signal(signal.SIGSTOP)
    wait_until(is_stopped, "the server to stop")
    yield
    server.signal(signal.SIGCONT)


def answers(s, count):
    data = b""
    while len(data) < count * len(PONG):
        piece = s.recv(65536)
        assert piece, f"ended after {len(data)} bytes of {count} answers"
        data += piece
    assert data == PONG * count


@contextlib.contextmanager
def known(server, path=None):
    """A connection that was served before."""
    if path:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(PATIENCE)
        s.connect(str(path))
    else:
        s = server.connect()
    with s:
        s.sendall(PING)
        answers(s, 1)
        yield s


def send_all_it_takes(s, what):
    """How many bytes of them."""
    whole, sent = what * 4096, 0
    s.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += s.send(whole[sent % len(what):])
    s.settimeout(PATIENCE)
    return sent


@test
def what_came_with_the_end_is_answered_and_then_the_connection_ends():
    with Server() as server, known(server) as s:
        with stopped(server):
            s.sendall(PING)
            s.shutdown(socket.SHUT_WR)
        answers(s, 1)
        assert s.recv(1) == b""


@test
def more_than_is_read_at_once_is_answered():
    with Server() as server, known(server) as s:
        with stopped(server):
            sent = send_all_it_takes(s, PING)
            assert sent > 100_000, sent
        count, rest = divmod(sent, len(PING))
        answers(s, count)
        if rest:
            s.sendall(PING[rest:])
            answers(s, 1)


@test
def what_is_behind_a_byte_out_of_band_is_answered():
    with Server() as server, known(server) as s:
        with stopped(server):
            s.sendall(PING)
            s.send(b"!", socket.MSG_OOB)  # a read ends before it
            s.sendall(PING)
        answers(s, 2)


@test
def what_is_behind_a_message_with_a_descriptor_is_answered():
    with Folder() as folder:
        path = folder / "socket"
        with Server(listen=f"unix:{path}") as server, known(server, path) as s:
            with stopped(server), open(os.devnull, "rb") as descriptor:
                socket.send_fds(s, [PING], [descriptor.fileno()])  # a read ends behind it
                s.sendall(PING)
            answers(s, 2)


@test
def one_that_sends_without_end_does_not_keep_a_loop_for_itself():
    with Server(threads=1) as server, known(server) as busy, known(server) as other:
        is_over = threading.Event()

        def send():
            with contextlib.suppress(OSError):
                while not is_over.is_set():
                    busy.sendall(PING * 4096)

        def receive():
            with contextlib.suppress(OSError):
                while busy.recv(1 << 20):
                    pass

        threads = [threading.Thread(target=send), threading.Thread(target=receive)]
        for t in threads:
            t.start()
        try:
            for _ in range(50):
                other.sendall(PING)
                answers(other, 1)
        finally:
            is_over.set()
            busy.shutdown(socket.SHUT_RDWR)
            for t in threads:
                t.join()


@test
def a_connection_that_is_reset_is_forgotten():
    with Server() as server:
        def connections():
            text = server.http("GET", "/metrics")[2].decode()
            return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("weir_connections "))
        with known(server) as s:
            before = connections()
            with stopped(server):
                s.sendall(PING[:5])
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                s.close()
        wait_until(lambda: connections() == before - 1, "the connection to be forgotten")


if __name__ == "__main__":
    run()
