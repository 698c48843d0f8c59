"""otlp.py - a receiver of OTLP by HTTP for tests: it takes what the protocol allows, and no more.

The shapes are those of the messages of OpenTelemetry, in JSON: names in camelCase, integers of 64
bits as texts, enums as numbers, ids of traces in hex.
"""
import http.server
import json
import re
import socketserver
import ssl
import threading
import time

INT64, NUMBER = r"-?[0-9]{1,20}", (int, float)


def text(pattern=r"(?s).*"):
    def is_text(value, where):
        assert isinstance(value, str) and re.fullmatch(pattern, value), f"{where}: {value!r}"
    return is_text


def kind_of(*kinds):
    def is_kind(value, where):
        assert isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)), \
            f"{where}: {value!r}"
    return is_kind


def many(item):
    def is_list(value, where):
        assert isinstance(value, list), f"{where}: {value!r}"
        for i, one in enumerate(value):
            item(one, f"{where}[{i}]")
    return is_list


def message(needs=(), **fields):
    def is_message(value, where):
        assert isinstance(value, dict), f"{where}: {value!r}"
        for name, one in value.items():
            assert name in fields, f"{where} has no field {name}"
            fields[name](one, f"{where}.{name}")
        for name in needs:
            assert name in value, f"{where} lacks {name}"
    return is_message


ATTRIBUTES = many(message(("key", "value"), key=text(".+"), value=message(
    ("stringValue",), stringValue=text())))
RESOURCE = message(("attributes",), attributes=ATTRIBUTES)
SCOPE = message(("name",), name=text(), version=text())
TIMES = {"startTimeUnixNano": text(INT64), "timeUnixNano": text(INT64)}
POINTS = many(message(("timeUnixNano",), attributes=ATTRIBUTES, asInt=text(INT64),
                      asDouble=kind_of(*NUMBER), **TIMES))
HISTOGRAMS = many(message(
    ("startTimeUnixNano", "timeUnixNano", "count", "sum", "bucketCounts", "explicitBounds"),
    attributes=ATTRIBUTES, count=text(INT64), sum=kind_of(*NUMBER),
    bucketCounts=many(text(INT64)), explicitBounds=many(kind_of(*NUMBER)), **TIMES))
METRIC = message(
    ("name", "description"), name=text(), description=text(), unit=text(),
    gauge=message(("dataPoints",), dataPoints=POINTS),
    sum=message(("dataPoints", "aggregationTemporality", "isMonotonic"), dataPoints=POINTS,
                aggregationTemporality=kind_of(int), isMonotonic=kind_of(bool)),
    histogram=message(("dataPoints", "aggregationTemporality"), dataPoints=HISTOGRAMS,
                      aggregationTemporality=kind_of(int)))
SPAN = message(
    ("traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"),
    traceId=text(r"[0-9a-f]{32}"), spanId=text(r"[0-9a-f]{16}"),
    parentSpanId=text(r"[0-9a-f]{16}"), flags=kind_of(int), name=text(), kind=kind_of(int),
    startTimeUnixNano=text(INT64), endTimeUnixNano=text(INT64), attributes=ATTRIBUTES)
REQUESTS = {
    "/v1/metrics": message(("resourceMetrics",), resourceMetrics=many(message(
        ("resource", "scopeMetrics"), resource=RESOURCE, scopeMetrics=many(message(
            ("scope", "metrics"), scope=SCOPE, metrics=many(METRIC)))))),
    "/v1/traces": message(("resourceSpans",), resourceSpans=many(message(
        ("resource", "scopeSpans"), resource=RESOURCE, scopeSpans=many(message(
            ("scope", "spans"), scope=SCOPE, spans=many(SPAN)))))),
}


def flat(attributes):
    return {a["key"]: a["value"]["stringValue"] for a in attributes}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the tests


class Receiver:
    """`answers` are given first, as (status, headers, body), then 200 and {}. While `is_stuck`,
    nothing is answered."""

    def __init__(self, port=0, answers=(), certificate=None, is_stuck=False):
        self.answers, self.problems, self.bodies = list(answers), [], []
        self.requests = []  # (when, path, status, headers, JSON)
        self.is_free = threading.Event()
        if not is_stuck:
            self.is_free.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                now = time.monotonic()
                receiver.is_free.wait(60)
                status, headers, answer = receiver.judge(self.path, self.headers, body, now)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": len(answer)}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.is_free.set()
        self.server.shutdown()
        self.server.server_close()
        if kind is None:
            assert not self.problems, self.problems

    def judge(self, path, headers, body, now):
        self.bodies.append(body.decode())
        try:
            decoded = json.loads(body)
            REQUESTS[path.removeprefix("/base")](decoded, path)
            assert headers["Content-Type"] == "application/json", headers
        except Exception as problem:  # pylint: disable=broad-except
            self.problems.append(f"{problem!r}")
            return 400, {}, "{}"
        answer = self.answers.pop(0) if self.answers else (200, {}, "{}")
        self.requests.append((now, path, answer[0], headers, decoded))
        return answer

    def accepted(self, path):
        return [r[4] for r in list(self.requests) if r[1].endswith(path) and r[2] == 200]

    @property
    def spans(self):
        """All that were accepted, with their attributes as a dictionary."""
        return [{**span, "attributes": flat(span["attributes"])}
                for body in self.accepted("/v1/traces") for resource in body["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    @property
    def metrics(self):
        """The last that were accepted: {name: (kind, metric)}; {}: none yet."""
        looks = self.accepted("/v1/metrics")
        found = {}
        for metric in looks[-1]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"] if looks else ():
            kind, = set(metric) & {"gauge", "sum", "histogram"}
            found[metric["name"]] = kind, metric[kind]
        return found

    def value(self, name, **labels):
        """Of the last look; None: there is no such point."""
        for point in self.metrics.get(name, (None, {"dataPoints": ()}))[1]["dataPoints"]:
            if flat(point.get("attributes", ())) == labels:
                return float(point["asDouble"]) if "asDouble" in point else int(point["asInt"])
        return None
