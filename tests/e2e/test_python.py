#!/usr/bin/env python3
"""test_python.py - the client for Python, its storage for `limits`, and Flask-Limiter on top, with real servers.

    test_python.py TREE      from the root of the source

`limits` and Flask-Limiter are Debian's; where another Python comes first that has none, Debian's runs this.
"""
import contextlib
import importlib.util
import io
import os
import re
import socketserver
import sys
import threading
import time
from pathlib import Path

DEBIAN = "/usr/bin/python3"
if not importlib.util.find_spec("limits") and os.path.exists(DEBIAN) and sys.executable != DEBIAN:
    os.execv(DEBIAN, [DEBIAN, *sys.argv])

sys.path[:0] = ["tests/support", "clients/python"]
from vectors import Served, play  # noqa: E402
from weir_client import RateLimited, Weir, WeirError  # noqa: E402
from weir_server import Folder, free_port, run, test, wait_until  # noqa: E402

PATIENT = {"timeout": 30}


OF_LIMITS = ("limit", "window_ms", "algorithm", "name", "start", "block_for_ms")


@test
def the_answers_that_all_clients_share():
    with Served() as server:
        weir = Weir(server.url, **PATIENT)

        def ask(verb, request):
            request = dict(request)
            policy = request.pop("policy", None) or request.pop("policies", None)
            if "window_ms" in request:
                policy = {name: request.pop(name) for name in OF_LIMITS if name in request}
            who = request.pop("attributes", None) or request.pop("key", None)
            try:
                return weir.ask(verb, policy, who, **request)
            except WeirError as error:
                return error.code
        play(ask)


@test
def each_verb_has_a_method():
    with Served() as server:
        weir = Weir(server.url, **PATIENT)
        assert weir.check("query", "a", cost=3)["remaining"] == 7
        assert weir.peek("query", {"tenant": "a"})["remaining"] == 7
        assert weir.charge("query", "a", cost=9)["over"] == 2
        assert weir.refund("query", "a", cost=9)["remaining"] == 7
        assert weir.reset("query", "a")["remaining"] == 10
        held = weir.reserve("query", "b", ttl_ms=60_000, cost=6)["reservation"]
        assert weir.grow(held, cost=1)["allowed"] and weir.extend(held, 90_000)["allowed"]
        assert weir.commit(held, cost=2)["remaining"] == 8
        other = weir.reserve("query", "b", ttl_ms=60_000, cost=6)["reservation"]
        assert weir.release(other)["remaining"] == 8
        assert [a["remaining"] for a in weir.check_many([{"policy": "query", "key": "c"}] * 2)] == [9, 8]
        weir.demand("query", "b", cost=8)
        try:
            weir.demand("query", "b")
            raise AssertionError("it was not denied")
        except RateLimited as denied:
            assert denied.answer["retry_after_ms"] > 0


@test
def threads_are_allowed_exactly_what_the_limit_says():
    with Served() as server:
        weir, allowed = Weir(server.url, **PATIENT), []

        def go_on():
            for _ in range(25):
                allowed.append(weir.check("query", "all")["allowed"])
            weir.close()
        threads = [threading.Thread(target=go_on) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(allowed), sum(allowed)) == (200, 10), sum(allowed)


class Nonsense(socketserver.BaseRequestHandler):
    TEXT = b""

    def handle(self):
        if self.TEXT is None:  # silent until the client gives up
            self.request.settimeout(30)
            while self.request.recv(65536):
                pass
            return
        self.request.recv(65536)
        self.request.sendall(self.TEXT)


def answering(text):
    kind = type("Own", (Nonsense,), {"TEXT": text})
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@test
def away_silent_or_wrong_on_error_decides_in_time():
    places = [answering(text) for text in (
        None, b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"ok\":true}",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops",
        b"HTTP/1.1 503 Away\r\nContent-Length: 38\r\n\r\n{\"code\":\"store_failed\",\"detail\":\"away\"}")]
    ports = [free_port()] + [place.server_address[1] for place in places]
    for port in ports:
        for word in ("allow", "deny"):
            began = time.monotonic()
            answer = Weir(f"http://127.0.0.1:{port}", timeout=0.1, on_error=word).check("login", "a")
            assert time.monotonic() - began < 5
            assert (answer["source"], answer["allowed"]) == ("fallback", word == "allow"), answer
        try:
            Weir(f"http://127.0.0.1:{port}", timeout=0.1, on_error=None).check("login", "a")
            raise AssertionError("it did not raise")
        except WeirError as error:
            assert error.code
    for place in places:
        place.shutdown()
        place.server_close()


@test
def a_wrong_token_is_left_to_on_error_and_a_mistake_is_raised():
    with Folder() as folder:
        (folder / "token").write_text("0123456789abcdef0123\n", encoding="ascii")
        with Served("--token-file", f"check:{folder / 'token'}") as server:
            assert Weir(server.url, "0123456789abcdef0123", **PATIENT).check("login", "192.0.2.9")["source"] == "store"
            assert Weir(server.url, "wrong", **PATIENT).check("login", "a")["error"].code == "unauthorized"
            try:
                Weir(server.url, "0123456789abcdef0123", **PATIENT).check("logn", "a")
                raise AssertionError("it did not raise")
            except WeirError as error:
                assert (error.code, error.status) == ("no_such_policy", 404)


@test
def a_server_that_comes_back_is_used_again():
    with Served() as first:
        weir = Weir(first.url, on_error="allow", **PATIENT)
        assert weir.check("login", "192.0.2.9")["source"] == "store"
    assert weir.check("login", "192.0.2.9")["source"] == "fallback"
    with Served(listen=f"127.0.0.1:{first.port}"):
        wait_until(lambda: weir.check("login", "192.0.2.9")["source"] == "store", "an answer")


def has(*modules):
    missing = [name for name in modules if not importlib.util.find_spec(name)]
    return f"Python has no {missing[0]}" if missing else None


@test
def limits_counts_by_both_strategies():
    why = has("limits")
    if why:
        return why
    import limits  # pylint: disable=import-outside-toplevel
    import weir_client.limits_storage  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    with Served() as server:
        storage = limits.storage.storage_from_string(f"weir://127.0.0.1:{server.port}", timeout=30)
        assert storage.check()
        item = limits.parse("5 per 2 hours")
        for strategy in (limits.strategies.FixedWindowRateLimiter, limits.strategies.MovingWindowRateLimiter):
            limiter = strategy(storage)
            name = strategy.__name__
            assert limiter.test(item, name, "ann")
            assert [limiter.hit(item, name, "ann") for _ in range(7)] == [True] * 5 + [False] * 2
            assert not limiter.test(item, name, "ann")
            assert limiter.hit(item, name, "bob", cost=5) and not limiter.hit(item, name, "bob")
            reset, remaining = limiter.get_window_stats(item, name, "ann")[:2]
            assert remaining == 0 and 0 < reset - time.time() <= 7201, (reset, remaining)
            limiter.clear(item, name, "ann")
            assert limiter.get_window_stats(item, name, "ann")[1] == 5
    assert not storage.check()
    return None


@test
def flask_limiter_denies_with_429_over_two_apps():
    why = has("limits", "flask", "flask_limiter")
    if why:
        return why
    import flask  # pylint: disable=import-outside-toplevel,import-error
    import flask_limiter  # pylint: disable=import-outside-toplevel,import-error
    import weir_client.limits_storage  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import

    def make(uri, strategy):
        app = flask.Flask("own")
        limiter = flask_limiter.Limiter(flask_limiter.util.get_remote_address, app=app, storage_uri=uri,
                                        storage_options={"timeout": 30}, strategy=strategy, headers_enabled=True)
        app.route("/")(limiter.limit("5 per day")(lambda: "hello"))
        return app.test_client()

    with Served() as server:
        for strategy in ("fixed-window", "moving-window"):
            apps = [make(f"weir://127.0.0.1:{server.port}", strategy) for _ in range(2)]
            heard = [apps[i % 2].get("/", environ_base={"REMOTE_ADDR": strategy}) for i in range(8)]
            assert [r.status_code for r in heard] == [200] * 5 + [429] * 3, [r.status_code for r in heard]
            assert heard[0].headers["X-RateLimit-Remaining"] == "4", heard[0].headers
    return None


@test
def what_the_pages_show_runs():
    why = has("limits")
    if why:
        return why
    for page, want in (("docs/python.md", ["True 4", "True"]), ("clients/python/README.md", [""])):
        blocks = re.findall(r"```python\n(.*?)```", Path(page).read_text(encoding="utf-8"), re.S)
        with Served() as server:
            for block, line in zip(blocks, want, strict=True):
                source = block.replace("7878", str(server.port)).replace('on_error="allow"', "timeout=30, on_error=None")
                heard = io.StringIO()
                with contextlib.redirect_stdout(heard):
                    exec(compile(source, page, "exec"), {})  # pylint: disable=exec-used
                assert heard.getvalue().strip() == line, (page, heard.getvalue())
    return None


@test
def the_version_is_that_of_the_server():
    assert f"version: '{version('clients/python/pyproject.toml')}'" in Path("meson.build").read_text(encoding="utf-8")


def version(path):
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("version"))


if __name__ == "__main__":
    run()
