#!/usr/bin/env python3
"""test_telemetry.py - metrics and spans sent to a receiver of OpenTelemetry, well and unwell.

    test_telemetry.py TREE      from the root of the source
"""
import json
import re
import sys
import time

sys.path.insert(0, "tests/support")
from certificates import make_certs  # noqa: E402
from otlp import Receiver, flat  # noqa: E402
from weir_server import Folder, Server, free_port, run, signal, test, wait_until  # noqa: E402

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
CONFIG = """
version: 1
policies:
  login: {{limit: 2 per 1h, by: ip}}
  open: {{limit: 1000000 per 1h, by: ip}}
server:
  telemetry: {{{telemetry}}}
"""


def write(folder, **telemetry):
    config = folder / "weir.yaml"
    words = ", ".join(f"{k}: {v}" for k, v in {"interval": "100ms", **telemetry}.items())
    config.write_text(CONFIG.format(telemetry=words))
    return config


def serve(folder, endpoint, env=None, **telemetry):
    return Server(config=write(folder, endpoint=endpoint, **telemetry), threads=2, env=env)


def check(server, policy="login", key="192.0.2.77", trace=None):
    headers = {"traceparent": trace} if trace else {}
    status, _, answer = server.http("POST", "/v1/check", {"policy": policy, "key": key}, headers)
    assert status == 200, answer
    return answer


def scrape(server):
    """What /metrics says: {series: value}."""
    lines = server.http("GET", "/metrics")[2].decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines
            if not line.startswith("#")}


def counted(server, name):
    return int(scrape(server)[name])


@test
def a_receiver_gets_the_metrics_that_prometheus_would():
    with Receiver() as receiver, Folder() as folder, \
            serve(folder, receiver.url, attributes="{cloud.region: here}") as server:
        begun = time.time() * 1e9
        for _ in range(5):
            check(server)
        wait_until(lambda: receiver.value("weir_checks_total", policy="login", outcome="denied",
                                          source="store") == 3, "three denials")
        assert receiver.value("weir_checks_total", policy="login", outcome="allowed",
                              source="store") == 2
        names = {re.sub(r"[{ ].*", "", re.sub(r"_(bucket|sum|count)(?=[{ ]|$)", "", series))
                 if not series.startswith("weir_store_batch_size") else "weir_store_batch_size"
                 for series in scrape(server)}
        assert names == set(receiver.metrics), names ^ set(receiver.metrics)
        kind, sums = receiver.metrics["weir_checks_total"]
        assert kind == "sum" and sums["isMonotonic"] and sums["aggregationTemporality"] == 2, sums
        point = sums["dataPoints"][0]
        assert abs(int(point["startTimeUnixNano"]) - begun) < 60e9, point
        assert int(point["timeUnixNano"]) >= int(point["startTimeUnixNano"]), point
        kind, times = receiver.metrics["weir_decision_seconds"]
        point, = times["dataPoints"]
        assert kind == "histogram" and int(point["count"]) == 5, point
        assert sum(map(int, point["bucketCounts"])) == 5, point
        assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1, point
        assert receiver.value("process_cpu_seconds_total") > 0
        resource = flat(receiver.accepted("/v1/metrics")[0]["resourceMetrics"][0]["resource"]
                        ["attributes"])
        assert resource["service.name"] == "weir" and resource["cloud.region"] == "here", resource
        assert resource["service.version"] and len(resource["service.instance.id"]) == 36, resource
        wait_until(lambda: counted(
            server, 'weir_telemetry_requests_total{signal="metrics",outcome="sent"}') > 0, "a count")


@test
def checks_of_recorded_traces_become_spans():
    with Receiver() as receiver, Folder() as folder, serve(folder, receiver.url) as server:
        check(server, trace=SAMPLED)
        check(server, trace=NOT_SAMPLED)
        check(server)
        server.http("POST", "/v1/peek", {"policy": "login", "key": "192.0.2.77"},
                    {"traceparent": SAMPLED})
        check(server, trace=SAMPLED[:-1])  # not valid, so none
        check(server, trace=SAMPLED)
        server.http("GET", "/v1/gate?policy=login&ip=192.0.2.77", headers={"Traceparent": SAMPLED})
        batch = {"checks": [{"policy": "open", "key": "192.0.2.77"}] * 2}
        server.http("POST", "/v1/check", batch, {"traceparent": SAMPLED})
        server.resp("WEIR.CHECK", "login", "192.0.2.77", "TRACEPARENT", SAMPLED)
        server.resp("WEIR.CHECK", "login", "192.0.2.77", "TRACEPARENT", "no trace")
        server.resp("WEIR.LIMIT", "192.0.2.77", "token_bucket", "5", "60000", "TRACEPARENT", SAMPLED)
        wait_until(lambda: len(receiver.spans) >= 7, "seven spans")
        spans = receiver.spans
        assert len(spans) == 7, spans
        assert {s["traceId"] for s in spans} == {TRACE}, spans
        assert {s["parentSpanId"] for s in spans} == {SPAN}, spans
        assert len({s["spanId"] for s in spans}) == 7, spans
        seen = [(s["attributes"]["weir.policy"], s["attributes"]["weir.outcome"]) for s in spans]
        assert sorted(seen) == [("(unnamed)", "allowed"), ("login", "allowed"), ("login", "denied"),
                                ("login", "denied"), ("login", "denied"), ("open", "allowed"),
                                ("open", "allowed")], seen
        tags = {s["attributes"]["weir.tag"] for s in spans if s["attributes"]["weir.policy"] == "login"}
        assert tags == {server.http("GET", "/v1/top")[2]["top"][0]["tag"]}, tags
        for span in spans:
            assert set(span["attributes"]) == {"weir.policy", "weir.rule", "weir.outcome",
                                               "weir.source", "weir.tag"}, span
            took = int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
            assert 0 <= took < 30e9, span
            assert abs(int(span["endTimeUnixNano"]) / 1e9 - time.time()) < 60, span
        assert "192.0.2.77" not in "".join(receiver.bodies)
        wait_until(lambda: counted(server, "weir_telemetry_spans_total") == 7, "seven counted")


@test
def two_traceparents_of_a_request_are_none():
    with Receiver() as receiver, Folder() as folder, serve(folder, receiver.url) as server:
        body = b'{"policy":"login","key":"192.0.2.77"}'
        with server.connect() as s:
            for _ in range(3):
                s.sendall(b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                          b"traceparent: %s\r\ntraceparent: %s\r\n\r\n%s"
                          % (len(body), SAMPLED.encode(), SAMPLED.encode(), body))
                answer = s.recv(65536)
                assert answer.startswith(b"HTTP/1.1 200"), answer
        check(server, policy="open", trace=SAMPLED)
        wait_until(lambda: receiver.spans, "a span")
        assert [s["attributes"]["weir.policy"] for s in receiver.spans] == ["open"], receiver.spans
        assert "trace_id" not in server.wait_for("denied")


@test
def a_share_of_denied_checks_becomes_spans():
    with Receiver() as receiver, Folder() as folder, \
            serve(folder, receiver.url, traces="{caller: false, denied: 100%}") as server:
        for _ in range(4):
            check(server, trace=SAMPLED)
        check(server)
        wait_until(lambda: len(receiver.spans) >= 3, "three spans")
        assert {s["attributes"]["weir.outcome"] for s in receiver.spans} == {"denied"}
        alone, *others = sorted(receiver.spans, key=lambda s: "parentSpanId" in s)
        assert [s["traceId"] for s in others] == [TRACE] * 2, others
        assert "parentSpanId" not in alone and alone["traceId"] not in (TRACE, "0" * 32), alone


@test
def the_log_has_the_ids_of_callers_if_it_is_to():
    with Folder() as folder, Server(config=write(folder, log_traces="true")) as server:
        for _ in range(3):
            check(server, trace=NOT_SAMPLED)
        line = server.wait_for("denied")
        assert line["trace_id"] == TRACE and line["span_id"] == SPAN, line
        for _ in range(3):
            server.resp("WEIR.CHECK", "login", "192.0.2.78", "TRACEPARENT", NOT_SAMPLED)
        line = server.wait_for("denied", 2)
        assert line["trace_id"] == TRACE and line["span_id"] == SPAN, line
    with Folder() as folder, Server(config=write(folder)) as server:
        for _ in range(3):
            check(server, trace=SAMPLED)
        assert "trace_id" not in server.wait_for("denied")


@test
def a_receiver_that_is_away_slows_no_check_and_is_found_again():
    port = free_port()
    with Folder() as folder, serve(folder, f"http://127.0.0.1:{port}/base/") as server:
        line = server.wait_for("telemetry")
        assert line["level"] == "warn" and f"127.0.0.1 port {port}" in line["message"], line
        assert "refused" in line["message"] and "/base" not in line["message"], line
        check(server, trace=SAMPLED)
        server.wait_for("telemetry", 2)
        with Receiver(port) as receiver:
            wait_until(lambda: receiver.spans and receiver.metrics, "both signals")
            server.wait_for("telemetry", 4)
            assert {r[1] for r in receiver.requests} == {"/base/v1/metrics", "/base/v1/traces"}
        lines = sorted(e["message"] for e in server.log.events("telemetry"))
        assert [m.partition(":")[0] for m in lines] == [
            "metrics can be sent again", "metrics cannot be sent", "traces can be sent again",
            "traces cannot be sent"], lines
        assert counted(server, "weir_telemetry_dropped_spans_total") == 0


@test
def a_receiver_that_hangs_holds_up_neither_checks_nor_the_end():
    with Receiver(is_stuck=True) as receiver, Folder() as folder, \
            serve(folder, receiver.url, timeout="1m", traces="{all: 100%}") as server:
        begun = time.monotonic()
        body = {"checks": [{"policy": "open", "key": "192.0.2.77"}] * 1000}
        for _ in range(10):
            assert len(server.http("POST", "/v1/check", body)[2]["answers"]) == 1000
        took = time.monotonic() - begun
        assert took < 20, took  # a request alone would wait for a minute
        wait_until(lambda: counted(server, "weir_telemetry_dropped_spans_total") >= 10000 - 2 * 2048
                   - 512, "the spans that do not fit")
        begun = time.monotonic()
        assert server.stop() == 0
        took = time.monotonic() - begun
        assert took < 15, took  # two seconds on a machine that is not busy
        wait_until(lambda: server.log.ended, "the end of the log")
        line = server.log.events("telemetry")[-1]
        assert "spans were not sent before the end" in line["message"], line


@test
def what_is_left_at_the_end_is_sent():
    with Receiver() as receiver, Folder() as folder, \
            serve(folder, receiver.url, interval="1h", traces="{all: 100%}") as server:
        wait_until(lambda: receiver.metrics, "the first look")
        for _ in range(3):
            check(server, policy="open")
        assert server.stop() == 0
        ids = {s["spanId"] for s in receiver.spans}  # one under way at the end is sent again
        assert len(ids) == 3, receiver.spans
        assert receiver.value("weir_checks_total", policy="open", outcome="allowed",
                              source="store") == 3
        assert not server.log.events("telemetry"), server.log.events("telemetry")


@test
def spans_are_sent_again_when_the_receiver_asks_for_it():
    for status, headers, least in [(429, {"Retry-After": 2}, 2), (503, {}, 0.7)]:
        with Receiver(answers=[(status, headers, "{}")]) as receiver, Folder() as folder, \
                serve(folder, receiver.url, metrics="false") as server:
            check(server, trace=SAMPLED)
            wait_until(lambda: receiver.spans, "the span")
            first, second = receiver.requests
            assert first[2] == status and first[4] == second[4], receiver.requests
            assert second[0] - first[0] >= least, (first[0], second[0])
            wait_until(lambda: counted(server, "weir_telemetry_spans_total") == 1, "one counted")
            assert counted(server, "weir_telemetry_dropped_spans_total") == 0
            failed = 'weir_telemetry_requests_total{signal="traces",outcome="failed"}'
            assert counted(server, failed) == 1
            assert f"status {status}" in server.wait_for("telemetry")["message"]


@test
def what_the_receiver_will_never_take_is_dropped_and_counted():
    rejected = json.dumps({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "no"}})
    answers = [(401, {}, "{}"), (200, {}, rejected)]
    with Receiver(answers=answers) as receiver, Folder() as folder, \
            serve(folder, receiver.url, metrics="false") as server:
        check(server, trace=SAMPLED)
        wait_until(lambda: counted(server, "weir_telemetry_dropped_spans_total") == 1, "the first")
        body = {"checks": [{"policy": "open", "key": "192.0.2.77"}] * 5}
        server.http("POST", "/v1/check", body, {"traceparent": SAMPLED})
        wait_until(lambda: counted(server, "weir_telemetry_dropped_spans_total") == 3, "two of five")
        assert counted(server, "weir_telemetry_spans_total") == 3
        assert [r[2] for r in receiver.requests] == [401, 200], receiver.requests
        assert "status 401" in server.wait_for("telemetry")["message"]


@test
def by_tls_the_receiver_must_be_the_right_one():
    with Folder() as folder:
        for name in ("right", "wrong", "other"):
            (folder / name).mkdir()
        make_certs(folder / "right", "127.0.0.1")
        make_certs(folder / "wrong", "127.0.0.1")
        make_certs(folder / "other", "otlp.example")
        pairs = {name: (folder / name / "server.pem", folder / name / "server.key")
                 for name in ("right", "wrong", "other")}
        with Receiver(certificate=pairs["right"]) as receiver:
            with serve(folder, receiver.url, ca="right/ca.pem", traces="{all: 100%}") as server:
                wait_until(lambda: receiver.metrics, "metrics by TLS")
                body = {"checks": [{"policy": "open", "key": "192.0.2.77"}] * 512}
                server.http("POST", "/v1/check", body)
                wait_until(lambda: len(receiver.spans) == 512, "a long body by TLS")
                assert max(map(len, receiver.bodies)) > 128 * 1024
            before = len(receiver.bodies)
            for config in ({"ca": "wrong/ca.pem"}, {}):
                with serve(folder, receiver.url, **config) as server:
                    message = server.wait_for("telemetry")["message"]
                    assert "certificate" in message, message
            assert len(receiver.bodies) == before
        with Receiver(certificate=pairs["other"]) as receiver, \
                serve(folder, receiver.url, ca="other/ca.pem") as server:
            assert "IP address mismatch" in server.wait_for("telemetry")["message"]
            assert not receiver.bodies


@test
def a_reload_applies_and_a_mistake_changes_nothing():
    with Receiver() as receiver, Folder() as folder:
        (folder / "keys").write_text("api-key: one\n")
        (folder / "keys").chmod(0o600)
        config = folder / "weir.yaml"
        config.write_text(CONFIG.format(telemetry=""))
        with Server(config=config) as server:
            check(server, trace=SAMPLED)
            write(folder, endpoint=receiver.url, headers_file="keys")
            server.wait_for("reloaded")
            wait_until(lambda: receiver.metrics, "metrics")
            assert receiver.requests[-1][3]["api-key"] == "one"
            check(server, trace=SAMPLED)
            wait_until(lambda: len(receiver.spans) == 1, "the second span")
            (folder / "keys").write_text("api-key one\n")
            server.signal(signal.SIGHUP)
            line = server.wait_for("reload-failed")
            assert "each line must be" in line["message"] and "one" not in line["message"], line
            seen = len(receiver.requests)
            wait_until(lambda: len(receiver.requests) > seen, "metrics as before")
            assert receiver.requests[-1][3]["api-key"] == "one"
            (folder / "keys").write_text("api-key: two\n")
            server.signal(signal.SIGHUP)
            wait_until(lambda: receiver.requests[-1][3]["api-key"] == "two", "the new key")
            write(folder)
            wait_until(lambda: len(server.log.events("reloaded")) >= 3, "the last reload")
            seen = len(receiver.requests)
            check(server, policy="open", trace=SAMPLED)
            assert server.stop() == 0
            assert len(receiver.requests) == seen, receiver.requests[seen:]


@test
def the_variables_of_opentelemetry_are_enough():
    with Receiver() as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{receiver.url}/base",
               "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20key", "OTEL_SERVICE_NAME": "gate",
               "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,k8s.pod.name=weir-0",
               "OTEL_METRIC_EXPORT_INTERVAL": "100", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        with Server(env=env) as server:
            server.resp("WEIR.LIMIT", "k", "token_bucket", "5", "60000", "TRACEPARENT", SAMPLED)
            wait_until(lambda: receiver.metrics and receiver.spans, "both signals")
            head, body = receiver.requests[0][3:]
            assert head["api-key"] == "a key", head
            resource = flat(body["resourceMetrics"][0]["resource"]["attributes"])
            assert resource["service.name"] == "gate", resource
            assert resource["k8s.pod.name"] == "weir-0", resource
            assert "http/json" in server.wait_for("telemetry")["message"]
        seen = len(receiver.requests)
        with Server(env={**env, "OTEL_SDK_DISABLED": "true"}) as server:
            server.stop()
        assert len(receiver.requests) == seen
        with Server(env={**env, "OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://a:4317"}) as server:
            assert "OTEL_EXPORTER_OTLP_ENDPOINT is ignored" in server.wait_for("telemetry")["message"]


run()
