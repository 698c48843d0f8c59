"""proxy.py - for tests: a way to a store that can be made bad.

    proxy = Proxy(("127.0.0.1", 5432))
    ... postgres://127.0.0.1:{proxy.port}/ ...
    proxy.mode = "cut"      drops all bytes, and keeps the connections open
    proxy.mode = "slow"     answers take `delay` seconds longer
    proxy.mode = "reset"    answers break off in the middle, and the connection is reset
    proxy.mode = "half"     answers stop in the middle, and go on when the mode is another
    proxy.mode = "drip"     answers come byte by byte
    proxy.mode = "join"     answers wait for those of the next 50 ms, and come in one piece
    proxy.mode = "pass"
    proxy.round_trips       for each connection, so often something was sent after an answer
"""
import socket
import struct
import threading
import time

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what is not sent yet is not sent


class Proxy:
    def __init__(self, target, delay=1.0):
        self.target, self.delay, self.mode = target, delay, "pass"
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.is_over, self.halves, self.round_trips = False, 0, []
        self.sockets = set()
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.is_over:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.connect, args=(near,), daemon=True).start()

    def connect(self, near):
        self.wait_while_cut()
        try:
            far = socket.create_connection(self.target)
        except OSError:
            near.close()
            return
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets.add(one)
        with self.lock:
            talk = {"number": len(self.round_trips), "is_answered": True}
            self.round_trips.append(0)
        threading.Thread(target=self.pump, args=(near, far, False, talk), daemon=True).start()
        self.pump(far, near, True, talk)

    def wait_while_cut(self):
        while self.mode == "cut" and not self.is_over:
            time.sleep(0.01)

    def pump(self, source, to, is_answer, talk):
        try:
            while data := source.recv(1 << 16):
                self.round_trips[talk["number"]] += talk["is_answered"] and not is_answer
                talk["is_answered"] = is_answer
                self.wait_while_cut()
                if is_answer and self.mode == "slow":
                    time.sleep(self.delay)
                if is_answer and self.mode == "reset":
                    to.sendall(data[:len(data) // 2])
                    to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    break
                if is_answer and self.mode == "join":
                    time.sleep(0.05)
                    try:
                        data += source.recv(1 << 16, socket.MSG_DONTWAIT)
                    except BlockingIOError:
                        pass
                if is_answer and self.mode == "half":
                    to.sendall(data[:len(data) // 2])
                    data = data[len(data) // 2:]
                    self.halves += 1
                    while self.mode == "half" and not self.is_over:
                        time.sleep(0.01)
                for piece in ([data[i:i + 1] for i in range(len(data))]
                              if is_answer and self.mode == "drip" else [data]):
                    to.sendall(piece)
        except OSError:
            pass  # the one or the other is gone
        for one in (source, to):
            self.sockets.discard(one)
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def close(self):
        self.is_over = True
        self.listener.close()
        for one in list(self.sockets):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
