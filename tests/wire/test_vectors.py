#!/usr/bin/env python3
"""test_vectors.py - the table of requests and answers that all clients share, by HTTP and RESP without a client.

    test_vectors.py TREE      from the root of the source
"""
import http.client
import json
import sys

sys.path.insert(0, "tests/support")
from redis import Client, Refused  # noqa: E402
from vectors import Served, play  # noqa: E402
from weir_server import run, test  # noqa: E402

OPTIONS = {"cost": "COST", "plan": "PLAN", "name": "NAME", "id": "ID", "ttl_ms": "TTL",
           "start": "START", "block_for_ms": "BLOCK_FOR"}
FLAGS = {"allowed", "shadow", "repeated", "expired"}


def words(verb, request):
    """The command of RESP that asks the same."""
    if "window_ms" in request:
        out = ["WEIR.LIMIT", request["key"], request["algorithm"], request["limit"], request["window_ms"]]
    elif "reservation" in request:
        out = [f"WEIR.{verb}", request["reservation"]]
    else:
        first, *others = request.get("policies") or [request["policy"]]
        out = [f"WEIR.{verb}", first]
        attributes = request.get("attributes")
        out += [f"{name}={value}" for name, value in attributes.items()] if attributes else [request["key"]]
        for other in others:
            out += ["POLICY", other]
    for name, word in OPTIONS.items():
        if name in request:
            out += [word, request[name]]
    for name, amount in request.get("costs", {}).items():
        out += ["COST", name, amount]
    return [*out, "FULL"]


def named(values):
    """Names and values in turn as a dict, with flags as JSON has them."""
    out = {}
    for name, value in zip(values[::2], values[1::2]):
        name = name.decode()
        if name == "rules":
            value = [named(rule) for rule in value]
        elif isinstance(value, bytes):
            value = value.decode()
        out[name] = value == 1 if name in FLAGS else value
    return out


@test
def by_http():
    with Served() as server:
        def ask(verb, request):
            status, body = post(server, verb, request)
            return body if status == 200 else body["code"]
        play(ask)


def post(server, verb, request):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", f"/v1/{verb}", json.dumps(request), {"Content-Type": "application/json"})
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


@test
def by_http_in_batches():
    with Served() as server:
        def ask(verb, request):
            _, body = post(server, verb, {"checks": [request]})
            answer = body["answers"][0]
            return answer["error"]["code"] if "error" in answer else answer
        play(ask)


def by_resp(asking):
    with Served() as server, Client(("127.0.0.1", server.port)) as client:
        def ask(verb, request):
            try:
                return asking(client, verb, request)
            except Refused as refused:
                return refused.code.lower()
        play(ask)


@test
def by_the_words_of_resp():
    by_resp(lambda client, verb, request: named(client(*words(verb, request))))


@test
def by_json_in_resp():
    by_resp(lambda client, verb, request: json.loads(client("WEIR.JSON", verb, json.dumps(request))))


if __name__ == "__main__":
    run()
