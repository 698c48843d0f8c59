#!/usr/bin/env python3
"""test_pages.py - what web pages of others can have a browser ask of a server without tokens: nothing.

    test_pages.py TREE      from the root of the source
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from weir_server import Folder, Server, run, test  # pylint: disable=wrong-import-position

CHECK = {"policy": "login", "key": "192.0.2.1"}
POLICIES = "version: 1\npolicies: {login: {limit: 5 per 15m, by: ip}}\n"


def serve(folder, *arguments):
    config = folder / "policies.yaml"
    config.write_text(POLICIES)
    return Server(*arguments, config=config)


def refused(reply):
    return (reply[0], reply[2]["code"]) == (403, "forbidden")


CHANGES = [("POST", "/v1/check"), ("GET", "/v1/check?policy=login&ip=192.0.2.1"),
           ("POST", "/v1/refund"), ("POST", "/v1/charge"), ("POST", "/v1/reset"),
           ("POST", "/v1/reserve"), ("POST", "/v1/commit"), ("POST", "/v1/release"), ("POST", "/v1/grow"),
           ("POST", "/v1/extend"), ("POST", "/v1/usage"), ("PUT", "/v1/overrides"),
           ("DELETE", "/v1/overrides"), ("POST", "/v1/policies/login/mode"), ("PUT", "/v1/plans"),
           ("POST", "/v1/reload")]


@test
def a_page_of_another_site_is_rejected_by_its_origin():
    """Whatever else is sent: what names it JSON, what says that it comes from here."""
    with Folder() as folder, serve(folder) as server:
        host, port = server.address
        foreign = ["http://example.com", "null", "", f"https://{host}:{port}", f"http://{host}",
                   f"http://{host}:{port + 1}", f"http://{host}:{port}.example.com",
                   f"http://localhost:{port}", f"http://{host}:{port}/", f"{host}:{port}"]
        for origin in foreign:
            for method, path in CHANGES:
                body = CHECK if method != "GET" else None
                for more in {}, {"Sec-Fetch-Site": "same-origin",
                                 "Content-Type": "application/json", "X-Requested-With": "fetch"}:
                    reply = server.http(method, path, body, {"Origin": origin, **more})
                    assert refused(reply), (origin, method, path, reply)
        assert server.check("login", "192.0.2.1")["remaining"] == 4


@test
def a_page_of_the_server_itself_may_ask_and_so_may_what_is_no_browser():
    with Folder() as folder, serve(folder) as server:
        host, port = server.address
        for left, shown in ((4, {"Origin": f"http://{host}:{port}"}),
                            (3, {"Origin": f"HTTP://{host}:{port}", "Sec-Fetch-Site": "cross-site"}),
                            (2, {"Origin": "http://localhost:80", "Host": "LOCALHOST"}),
                            (1, {"Origin": "http://localhost", "Host": "localhost:80"}),
                            (0, {})):
            assert server.http("POST", "/v1/check", CHECK, shown)[2]["remaining"] == left, shown


@test
def read_only_routes_are_open_to_every_page_which_cannot_read_the_answer():
    with Folder() as folder, serve(folder) as server:
        reply = server.http("GET", "/v1/policies", None, {"Origin": "http://example.com"})
        assert reply[0] == 200
        assert not [name for name in reply[1] if name.lower().startswith("access-control-")]


@test
def a_picture_of_another_site_has_no_origin_and_is_rejected():
    with Folder() as folder, serve(folder) as server:
        for site in "cross-site", "same-site":
            for method, path in CHANGES[:2]:
                reply = server.http(method, path, CHECK if method == "POST" else None,
                                    {"Sec-Fetch-Site": site})
                assert refused(reply), reply
        assert server.check("login", "192.0.2.1")["remaining"] == 4


@test
def a_page_behind_a_proxy_may_ask_if_its_origin_is_allowed():
    """The browser's Origin is the proxy's name, and Host may be whatever the proxy makes it."""
    with Folder() as folder:
        for arguments in (["--allowed-origins", "https://weir.example,http://other.example:8080"], []):
            config = folder / "policies.yaml"
            config.write_text(POLICIES + ("" if arguments else
                              "server: {allowed_origins: [https://weir.example, "
                              "'http://other.example:8080']}\n"))
            with Server(*arguments, config=config) as server:
                for left, origin in (4, "https://weir.example"), (3, "http://other.example:8080"):
                    reply = server.http("POST", "/v1/check", CHECK, {"Origin": origin})
                    assert reply[2].get("remaining") == left, reply
                for origin in "http://weir.example", "https://weir.example:444", "null":
                    assert refused(server.http("POST", "/v1/check", CHECK, {"Origin": origin}))


@test
def json_is_taken_whatever_it_is_called_and_nothing_else_is():
    """fetch() calls a text text/plain, and `curl -d` everything a form."""
    with Folder() as folder, serve(folder) as server:
        for left, kind in ((4, "text/plain;charset=UTF-8"), (3, "application/x-www-form-urlencoded"),
                           (2, "application/octet-stream")):
            reply = server.http("POST", "/v1/check", CHECK, {"Content-Type": kind})
            assert reply[2]["remaining"] == left, reply
        reply = server.http("PUT", "/v1/overrides",
                            {"policy": "login", "key": "192.0.2.9", "effect": "exempt"},
                            {"Content-Type": "text/plain"})
        assert reply[0] in (200, 201), reply
        reply = server.http("POST", "/v1/check", "policy=login", {"Content-Type": "text/plain"})
        assert (reply[0], reply[2]["code"]) == (400, "invalid_request"), reply
        assert reply[2]["detail"].startswith("the body is not valid JSON"), reply
        reply = server.http("POST", "/v1/check", CHECK, {"Content-Encoding": "gzip"})
        assert (reply[0], reply[2]["code"]) == (415, "unsupported_media_type"), reply
        assert reply[2]["detail"] == "the body is compressed (Content-Encoding): send it uncompressed"
        identity = {"Content-Encoding": "identity"}
        assert server.http("POST", "/v1/check", CHECK, identity)[2]["remaining"] == 1


@test
def a_host_name_open_to_dns_rebinding_is_rejected():
    with Folder() as folder, serve(folder) as server:
        for name in "evil.example", "evil.example:7878", "localhost.evil.example", "localhos":
            for method, path in (("GET", "/v1/policies"), ("POST", "/v1/check"),
                                 ("POST", "/v1/reset"), ("GET", "/metrics")):
                body = CHECK if method == "POST" else None
                reply = server.http(method, path, body, {"Host": name})
                assert (reply[0], reply[2]["code"]) == (403, "forbidden"), (name, path, reply)
        for name in "localhost", "LOCALHOST:7878", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:80":
            assert server.http("GET", "/v1/policies", None, {"Host": name})[0] == 200, name
        assert server.check("login", "192.0.2.1")["remaining"] == 4


@test
def a_gate_accepts_any_host_header():
    with Folder() as folder, serve(folder) as server:
        reply = server.http("GET", "/v1/gate?policy=login&ip=192.0.2.1", None,
                            {"Host": "shop.example", "Sec-Fetch-Site": "cross-site",
                             "Origin": "https://shop.example", "Content-Encoding": "gzip"})
        assert reply[0] == 200, reply


@test
def with_a_token_any_name_will_do():
    with Folder() as folder:
        token = folder / "token"
        token.write_text("0123456789abcdef0123456789abcdef\n")
        token.chmod(0o600)
        with serve(folder, "--token-file", f"check:{token}") as server:
            shown = {"Host": "weir.internal", "Authorization": f"Bearer {token.read_text().strip()}"}
            assert server.http("POST", "/v1/check", CHECK, shown)[0] == 200
            assert server.http("POST", "/v1/check", CHECK, {"Host": "weir.internal"})[0] == 401


run()
