"""http2_client.py - for tests written in Python: a client of HTTP/2 that does what it is told, and frames
made by hand for what no library would send."""
import socket
import ssl
import struct
import time

import h2.config
import h2.connection
import h2.events
import h2.settings

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = \
    0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PATIENCE = 30


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + \
        struct.pack(">I", stream) + payload


def field(name, value):
    """One field of a head, by HPACK: a literal that enters no table, as short as 126 bytes."""
    name, value = name.encode(), value.encode()
    assert len(name) < 127 and len(value) < 127
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(path, method="POST", fields=()):
    return b"".join(field(*pair) for pair in
                    [(":method", method), (":scheme", "http"), (":path", path),
                     (":authority", "localhost"), *fields])


def frames_in(data):
    """The frames that bytes of a server consist of, and what is left."""
    found = []
    while len(data) >= 9:
        length = int.from_bytes(data[:3], "big")
        if len(data) < 9 + length:
            break
        found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9:9 + length]))
        data = data[9 + length:]
    return found, data


def begin(server, window=None):
    """A socket that has said the preface; for frames by hand."""
    sock = server.connect()
    sock.settimeout(PATIENCE)
    payload = b"" if window is None else struct.pack(">HI", 4, window)
    sock.sendall(PREFACE + frame(SETTINGS, 0, 0, payload))
    return sock


def read_until(sock, wanted):
    """Frames until one is as wanted; None: the server has closed before."""
    data, found = b"", []
    while True:
        new, data = frames_in(data)
        found += new
        if any(wanted(*one) for one in new):
            return found
        try:
            more = sock.recv(65536)
        except ConnectionError:
            more = b""
        if not more:
            return None
        data += more


def goaway_error(sock):
    """What a server says before it ends the connection; None: nothing. Reads to the end."""
    data = b""
    try:
        while True:
            more = sock.recv(65536)
            if not more:
                break
            data += more
    except ConnectionError:
        pass
    errors = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in frames_in(data)[0]
              if kind == GOAWAY]
    return errors[-1] if errors else None


class Answer:
    def __init__(self):
        self.status, self.headers, self.body, self.trailers = None, {}, b"", {}
        self.is_ended, self.reset = False, None


class Client:
    """One connection. What it has heard is in `answers`, by stream, and `goaways`."""

    def __init__(self, server=None, unix=None, tls=None, window=None):
        if unix:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(unix))
        else:
            self.sock = server.connect()
        self.sock.settimeout(PATIENCE)
        if tls:
            tls.set_alpn_protocols(["h2"])
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_inbound_headers=False))
        self.h2.initiate_connection()
        self.answers, self.goaways, self.heard, self.is_closed = {}, [], b"", False
        self.opens_windows = window is None
        self.acknowledged = 0
        if window is not None:
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()
        while window is not None and self.acknowledged < 2:
            assert self.hear()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def begin(self, method, path, headers=(), end=False, flush=True):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", method), (":scheme", "http"), (":path", path),
                                      (":authority", "localhost"), *headers], end_stream=end)
        self.answers[stream] = Answer()
        if flush:
            self.flush()
        return stream

    def send(self, stream, body, end=True, flush=True):
        while True:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0 and body:
                self.flush()
                if not self.hear() or self.answers[stream].is_ended:
                    return
                continue
            piece, body = body[:room], body[room:]
            self.h2.send_data(stream, piece, end_stream=end and not body)
            if not body:
                break
        if flush:
            self.flush()

    def post(self, path, body, headers=(), flush=True):
        stream = self.begin("POST", path, headers, flush=False)
        self.send(stream, body, flush=flush)
        return stream

    def hear(self):
        """What comes next. False: the server has closed."""
        try:
            data = self.sock.recv(65536)
        except (ConnectionError, ssl.SSLError):
            data = b""
        if not data:
            self.is_closed = True
            return False
        found, self.heard = frames_in(self.heard + data)
        for kind, flags, stream, payload in found:
            if kind == GOAWAY:  # with which the library would end all streams
                self.goaways.append((int.from_bytes(payload[:4], "big"),
                                     int.from_bytes(payload[4:8], "big")))
                continue
            for event in self.h2.receive_data(frame(kind, flags, stream, payload)):
                self.note(event)
        self.flush()
        return True

    def note(self, event):
        answer = self.answers.get(getattr(event, "stream_id", None))
        self.acknowledged += isinstance(event, h2.events.SettingsAcknowledged)
        if answer is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            answer.headers = dict(event.headers)
            answer.status = int(answer.headers.pop(":status"))
        elif isinstance(event, h2.events.DataReceived):
            answer.body += event.data
            if self.opens_windows:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            answer.trailers = dict(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            answer.is_ended = True
        elif isinstance(event, h2.events.StreamReset):
            answer.reset, answer.is_ended = event.error_code, True

    def hear_until(self, holds):
        """Until it holds, or the server has closed; a server that says other things all the time fails."""
        end = time.monotonic() + PATIENCE
        while not holds() and self.hear():
            assert time.monotonic() < end, f"waited {PATIENCE} s"

    def hear_all(self):
        self.hear_until(lambda: False)

    def wait(self, stream):
        answer = self.answers[stream]
        self.hear_until(lambda: answer.is_ended)
        assert answer.is_ended, "the server has closed before it has answered"
        return answer

    def request(self, method, path, body=None, headers=()):
        if body is None:
            return self.wait(self.begin(method, path, headers, end=True))
        stream = self.begin(method, path, headers, flush=False)
        self.send(stream, body)
        return self.wait(stream)

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
