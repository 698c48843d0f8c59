#!/usr/bin/env python3
"""test_openapi.py - docs/openapi.json says what the server does.

    test_openapi.py TREE      from the root of the source

Every operation in it is called with its own examples, and every problem that it may have is
provoked where that can be done from outside; status, content type, headers and body must be as
described. What a schema says must be of the kind that is checked here: a word that is not known
fails, so that nothing is described in vain.
"""
import json
import re
import sys
import urllib.parse
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import Folder, Server, run, test  # noqa: E402

DOC = json.loads(Path("docs/openapi.json").read_text())
METHODS = ("get", "post", "put", "patch", "delete")
NOTES = {"description", "default", "example", "examples", "format", "title", "summary"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
TOKEN = {"check": "a-token-to-check-with", "admin": "a-token-to-administer",
         "metrics": "a-token-for-metrics", "view": "a-token-for-a-screen"}


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        place = DOC
        for word in node["$ref"].removeprefix("#/").split("/"):
            place = place[word]
        node = place
    return node


# ---- schemas --------------------------------------------------------------------------------


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def check_object(value, schema, at):
    known = schema.get("properties", {})
    yield from (f"{at} has no {name}" for name in schema.get("required", ()) if name not in value)
    for name, member in value.items():
        others = schema.get("additionalProperties", True)
        if name in known:
            yield from problems(member, known[name], f"{at}.{name}")
        elif others is False:
            yield f"{at} has {name}, which is not described"
        elif others is not True:
            yield from problems(member, others, f"{at}.{name}")


def check_word(word, wanted, value, schema, at):
    """What one keyword has against a value."""
    if word == "type":
        names = wanted if isinstance(wanted, list) else [wanted]
        if not any(is_type(value, name) for name in names):
            yield f"{at} is not {' or '.join(names)}: {value!r}"
    elif word == "const":
        if value != wanted:
            yield f"{at} is {value!r} and not {wanted!r}"
    elif word == "enum":
        if value not in wanted:
            yield f"{at} is {value!r}, none of {wanted}"
    elif word in ("minimum", "maximum"):
        if is_type(value, "integer") and (value < wanted if word == "minimum" else value > wanted):
            yield f"{at} is {value}: {word} is {wanted}"
    elif word in ("minLength", "maxLength"):
        if isinstance(value, str) and (len(value) < wanted if word == "minLength"
                                       else len(value) > wanted):
            yield f"{at} is {value!r}: {word} is {wanted}"
    elif word in ("minItems", "maxItems", "maxProperties"):
        if isinstance(value, (list, dict)) and (len(value) < wanted if word == "minItems"
                                                else len(value) > wanted):
            yield f"{at} has {len(value)}: {word} is {wanted}"
    elif word in ("minLength", "maxLength"):
        if isinstance(value, str) and (len(value) < wanted if word == "minLength" else len(value) > wanted):
            yield f"{at} has {len(value)} characters: {word} is {wanted}"
    elif word == "oneOf":
        if sum(not list(problems(value, choice, at)) for choice in wanted) != 1:
            yield f"{at} is not exactly one of the {len(wanted)} that it may be: {value!r}"
    elif word == "items":
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield from problems(item, wanted, f"{at}[{i}]")
    elif word == "properties":
        if isinstance(value, dict):
            yield from check_object(value, schema, at)
    elif word == "additionalProperties":
        if isinstance(value, dict) and "properties" not in schema:
            yield from check_object(value, schema, at)
    elif word not in NOTES | {"required"}:
        yield f"{at}: the schema has {word}, which this test does not know"


def problems(value, schema, at="it"):
    schema = resolve(schema)
    for word, wanted in schema.items():
        yield from check_word(word, wanted, value, schema, at)


# ---- calls ----------------------------------------------------------------------------------


def operations():
    for path, item in DOC["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method.upper(), item, item[method]


def target_of(path, item, operation, but=None):
    """The path with the examples of its parameters."""
    whole, query = path, {}
    for parameter in item.get("parameters", []) + operation.get("parameters", []):
        parameter = resolve(parameter)
        example = parameter.get("example")
        if parameter["in"] == "path":
            name = (but or {}).get(parameter["name"], example)
            path = path.replace("{%s}" % parameter["name"], name)
        elif isinstance(example, dict):
            query.update(example)
        elif example is not None and parameter["in"] == "query":
            query[parameter["name"]] = example
    query.update((name, value) for name, value in (but or {}).items()
                 if f"{{{name}}}" not in whole)
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


def bodies_of(operation):
    """Pairs of a name and an example."""
    body = resolve(operation.get("requestBody"))
    if not body:
        return [("without a body", None)]
    examples = body["content"]["application/json"]["examples"]
    return [(name, example["value"]) for name, example in examples.items()]


def expect(reply, operation, status, what):
    """The reply is as this status of the operation is described."""
    got, headers, body = reply
    assert got == status, f"{what}: {got} {body}"
    described = resolve(operation["responses"][str(status)])
    content = described.get("content")
    if content is None:
        assert body == b"" and "Content-Type" not in headers, f"{what}: {headers} {body}"
    else:
        assert list(content) == [headers["Content-Type"]], f"{what}: {headers['Content-Type']}"
        if isinstance(body, bytes):
            body = body.decode()
        wrong = list(problems(body, *(kind["schema"] for kind in content.values())))
        assert not wrong, f"{what}: " + "; ".join(wrong)
    if "problem" in headers.get("Content-Type", ""):
        assert body["status"] == status, f"{what}: {body}"
    has_no_rate = isinstance(body, dict) and ("answers" in body or body.get("source") == "off")
    for name in described.get("headers", {}):
        there = name in headers
        if name == "Retry-After" and status == 200:
            assert not there or body["retry_after_ms"] > 0, f"{what}: {headers}"
        elif name != "WWW-Authenticate" or status == 401:
            assert there != has_no_rate, f"{what}: {name} in {headers}"


def change_first(server, operation, body):
    """The example of an undo, about a change that there is."""
    if operation["operationId"] != "undo":
        return body
    made = {"attributes": {"tenant": "acme"}, "plan": "paid"}
    shown = {"Authorization": f"Bearer {TOKEN['admin']}"}
    return {**body, "id": server.http("PUT", "/v1/plans", made, shown)[2]["id"]}


def reserve(server, operation, body, headers=None):
    """The example, about reservations that there are, and that no other operation has settled."""
    body = change_first(server, operation, body)
    body = json.loads(json.dumps(body).replace("job-", operation["operationId"] + "-"))
    for asked in (body or {}).get("checks", [body or {}]):
        if asked.get("reservation"):
            made = {"policy": "query", "key": "acme", "ttl_ms": 60_000, "id": asked["reservation"], "cost": 3}
            assert server.http("POST", "/v1/reserve", made, headers)[0] == 200, made
    return body


def serve():
    return Server("--envoy-config", "examples/envoy.yaml", config="examples/policies.yaml")


@test
def the_examples_are_as_their_schemas_say():
    for path, method, _, operation in operations():
        for name, body in bodies_of(operation):
            if body is not None:
                schema = resolve(operation["requestBody"])["content"]["application/json"]["schema"]
                assert not list(problems(body, schema)), f"{method} {path} {name}"


# The least that says what is asked for.
LEAST = {
    "check": {"policy": "login", "key": "203.0.113.7"},
    "peek": {"policy": "login", "key": "203.0.113.7"},
    "refund": {"policy": "login", "key": "203.0.113.7"},
    "charge": {"policy": "login", "key": "203.0.113.7"},
    "reset": {"policy": "login", "key": "203.0.113.7"},
    "reserve": {"policy": "login", "key": "203.0.113.7", "ttl_ms": 1000},
    "commit": {"reservation": None},
    "release": {"reservation": None},
    "grow": {"reservation": None},
    "extend": {"reservation": None, "ttl_ms": 1000},
    "usage": {"policy": "login", "key": "203.0.113.7"},
    "lookup": {"key": "203.0.113.7"},
    "undo": {"id": 1},
    "reload": {},
    "correct": {"policy": "login", "key": "203.0.113.7", "effect": "reset"},
    "envoy": {"domain": "shop", "descriptors": [{}]},
    "setOverride": {"policy": "login", "key": "203.0.113.7", "effect": "block"},
    "removeOverride": {"policy": "login", "key": "203.0.113.7"},
    "setPlan": {"attributes": {"tenant": "acme"}, "plan": "paid"},
    "removePlan": {"attributes": {"tenant": "acme"}},
    "setMode": {"mode": "shadow"},
    "removeMode": {},
}


OF_RESERVATIONS = ("/v1/commit", "/v1/release", "/v1/grow", "/v1/extend")


def members_with_defaults(schema):
    schema = resolve(schema)
    for name, member in schema.get("properties", {}).items():
        if "default" in resolve(member):
            yield name
        yield from members_with_defaults(member)
    for inner in schema.get("oneOf", []) + ([schema["items"]] if "items" in schema else []):
        yield from members_with_defaults(inner)


@test
def fields_with_a_default_are_optional():
    """Programs that write clients take a member with a `default` for one that is always there."""
    with serve() as server:
        asked = set()
        for path, method, item, operation in operations():
            body = resolve(operation.get("requestBody"))
            if not body:
                continue
            name, schema = operation["operationId"], body["content"]["application/json"]["schema"]
            assert not list(members_with_defaults(schema)), (name, list(members_with_defaults(schema)))
            wrong = list(problems(LEAST[name], schema))
            assert not wrong, (name, wrong)
            least = change_first(server, operation, LEAST[name])
            status, _, said = server.http(method, target_of(path, item, {}), least)
            assert status == 200, (name, said)
            asked.add(name)
        assert asked == set(LEAST), asked ^ set(LEAST)


@test
def every_operation_answers_its_examples_as_described():
    with serve() as server:
        for path, method, item, operation in operations():
            for name, body in bodies_of(operation):
                target = target_of(path, item, operation)
                body = reserve(server, operation, body)
                expect(server.http(method, target, body), operation, 200, f"{method} {target} {name}")


@test
def every_route_of_the_server_is_described():
    with serve() as server:
        listed = {(route["path"], method) for route in server.http("GET", "/")[2]["routes"]
                  for method in route["methods"] if method not in ("HEAD", "OPTIONS")}
    assert listed == {(path, method) for path, method, _, _ in operations()}, listed


@test
def head_is_served_wherever_get_is_and_has_no_body():
    with serve() as server:
        for path, method, item, operation in operations():
            if method != "GET" or path == "/metrics":  # the memory of the process changes
                continue
            target = target_of(path, item, operation, {"peek": "true"} if "check" in path else None)
            status, headers, body = server.http("GET", target)
            head = raw(server, f"HEAD {target} HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert head.startswith(f"HTTP/1.1 {status} "), head
            assert head.endswith("\r\n\r\n") and head.count("\r\n\r\n") == 1, head
            if path not in ("/v1/stats", "/v1/gate"):  # the counts have gone on
                assert re.search(rf"Content-Length: +{headers['Content-Length'].strip()}\r", head)


def raw(server, request):
    with server.connect() as s:
        s.sendall(request.replace("HTTP/1.1\r\n", "HTTP/1.1\r\nHost: localhost\r\n").encode())
        data = b""
        while piece := s.recv(65536):
            data += piece
        return data.decode()


@test
def options_and_405_tell_which_methods_there_are():
    with serve() as server:
        for route in server.http("GET", "/")[2]["routes"]:
            allow = ", ".join(route["methods"])
            if "PUT" in route["methods"]:  # a gate asks, whatever the method
                continue
            status, headers, body = server.http("OPTIONS", route["path"])
            assert (status, headers["Allow"], body) == (204, allow, b""), (status, headers, body)
            status, headers, body = server.http("PUT", route["path"])
            assert (status, headers["Allow"]) == (405, allow) and body["code"] == "method_not_allowed"


@test
def error_answers_match_their_description():
    with serve() as server:
        for path, method, item, operation in operations():
            what = f"{method} {path}"
            target = target_of(path, item, operation)
            if path in OF_RESERVATIONS:
                ttl = {"ttl_ms": 1000} if path == "/v1/extend" else {}
                expect(server.http(method, path, {"reservation": "none-such", **ttl}), operation, 404,
                       what)
            elif "404" in operation["responses"]:
                example = next((body for _, body in bodies_of(operation) if "checks" not in (body or ())), None)
                reply = (server.http(method, path, example) if "reservation" in (example or ()) else
                         server.http(method, path, {**example, "policy": "logn"})
                         if "requestBody" in operation and "{" not in path else
                         server.http(method, target_of(path, item, operation, {"policy": "logn"}),
                                     example))
                expect(reply, operation, 404, what)
                wanted = "no such reservation" if "reservation" in (example or ()) else "'login'"
                assert wanted in reply[2]["detail"], reply
            if "requestBody" in operation:
                expect(server.http(method, target, "{"), operation, 400, what)
                expect(server.http(method, target, {"policy": 1}), operation, 400, what)
                expect(server.http(method, target, "{}", {"Content-Encoding": "gzip"}), operation,
                       415, what)
                expect(server.http(method, target, " " * (1024 * 1024 + 1)), operation, 413, what)
            elif "404" in operation["responses"]:
                expect(server.http(method, path + "?cost=much"), operation, 400, what)
        operation = DOC["paths"]["/v1/top"]["get"]
        expect(server.http("GET", "/v1/top?n=0"), operation, 400, "n=0")


@test
def a_gate_denies_as_documented():
    with serve() as server:
        operation = DOC["paths"]["/v1/gate"]["get"]
        for _ in range(5):
            expect(server.http("GET", "/v1/gate?policy=login&ip=192.0.2.1"), operation, 200, "gate")
        expect(server.http("GET", "/v1/gate?policy=login&ip=192.0.2.1"), operation, 429, "gate")
        status, _, body = server.http("GET", "/v1/gate?policy=login&ip=192.0.2.1&deny_status=403")
        assert (status, body["status"]) == (403, 403), body


@test
def a_token_of_one_of_the_scopes_is_needed_and_enough():
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text(Path("examples/policies.yaml").read_text() + "server:\n  tokens:\n" +
                          "".join(f"    - {{file: {scope}, scope: {scope}}}\n" for scope in TOKEN))
        for scope, token in TOKEN.items():
            (folder / scope).write_text(token + "\n")
            (folder / scope).chmod(0o600)
        with Server("--envoy-config", "examples/envoy.yaml", config=config) as server:
            for path, method, item, operation in operations():
                body = bodies_of(operation)[0][1]
                target = target_of(path, item, operation)
                if operation.get("security") == []:
                    assert server.http(method, target, body)[0] == 200, target
                    continue
                expect(server.http(method, target, body), operation, 401, target)
                expect(server.http(method, target, body, {"Authorization": "Bearer " + "x" * 20}),
                       operation, 401, target)
                body = reserve(server, operation, body, {"Authorization": f"Bearer {TOKEN['check']}"})
                for scope, token in TOKEN.items():
                    shown = {"Authorization": f"Bearer {token}"}
                    expect(server.http(method, target, body, shown), operation,
                           200 if scope in operation["x-scope"] else 403, f"{target} {scope}")


@test
def a_reload_that_fails_is_described_and_seen_in_the_policies():
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text("version: 1\npolicies:\n  login: {limit: 5 per 1m, by: ip}\n")
        with Server(config=config) as server:
            operation = DOC["paths"]["/v1/reload"]["post"]
            expect(server.http("POST", "/v1/reload"), operation, 200, "reload")
            config.write_text("version: 1\npolicies:\n  login: {limt: 5 per 1m, by: ip}\n")
            reply = server.http("POST", "/v1/reload")
            expect(reply, operation, 422, "reload of a bad file")
            assert "policies.yaml:3:11: " in reply[2]["detail"], reply
            policies = server.http("GET", "/v1/policies")
            expect(policies, DOC["paths"]["/v1/policies"]["get"], 200, "policies")
            assert policies[2]["reload"]["problem"] == reply[2]["detail"]
            assert [p["policy"] for p in policies[2]["policies"]] == ["login"]
            assert server.check("login", "192.0.2.1")["allowed"] is True


@test
def all_codes_of_the_source_are_described():
    source = Path("src/server/http/problem.h").read_text()
    codes = re.findall(r'^    X\(\w+, \d+, "(\w+)"\)', source, re.MULTILINE)
    assert codes == DOC["components"]["schemas"]["Code"]["enum"]
    page = Path("docs/http.md").read_text()
    assert not [code for code in codes if f"`{code}`" not in page]


@test
def the_schema_check_finds_deviations():
    answer = DOC["components"]["schemas"]["Answer"]
    good = {"allowed": True, "policy": None, "rule": "default", "limit": 1, "remaining": 0,
            "retry_after_ms": 0, "reset_after_ms": 1, "delay_ms": 0, "source": "store",
            "shadow": False}
    assert not list(problems(good, answer))
    for bad in ({**good, "allowed": 1}, {**good, "limit": True}, {**good, "extra": 1},
                {**good, "source": "moon"}, {**good, "remaining": -1}, {**good, "policy": 3},
                {k: v for k, v in good.items() if k != "rule"}, {**good, "rules": []}, [good]):
        assert list(problems(bad, answer)), bad
    assert list(problems(1, {"type": "integer", "multipleOf": 2}))


run()
