#!/usr/bin/env python3
"""compare_envoy.py - the same random requests to weir and to envoyproxy/ratelimit: the same answers?

    compare_envoy.py TREE REFERENCE [--grpc] [--requests N] [--seed N] [--store URI]      from the root of the source

Random configurations, and for each 250 random requests: nested descriptors, patterns, replaced, shared and
unlimited limits, shadow and quota mode, limits and hits that come with descriptors, hits of the request, and what
is not valid. weir counts denied requests, as the reference does. Status, codes, numbers, headers and metadata of
each answer must be the same, and times too, unless a second has ended meanwhile.

REFERENCE is a program around the packages `config`, `limiter`, `redis` and `service` of envoyproxy/ratelimit, with
a map of INCRBY and GET for its Redis client. It is not part of this source. It is called as

    REFERENCE FILE [headers] [metadata] [shadow] [quota]

with a configuration and what is switched on. It reads a RateLimitRequest as JSON from each line, and prints the
RateLimitResponse as JSON, or 400 if there is none. The main() for this is thirty lines of Go.

With --grpc, REFERENCE is the program of envoyproxy/ratelimit itself. It is served with a Redis, and both are asked by
gRPC. Its errors have the code UNKNOWN, weir's INVALID_ARGUMENT; their texts must be the same.

In a URI, DIR is a folder that is new for each configuration. Each has a domain of its own, so that a Redis may be
used again. A store that does not answer in time is answered for by on_error. The reference knows no such answers, so a
configuration in which weir gave one is not compared any further: how often is said at the end.
"""
import argparse
import http.client
import json
import os
import random
import re
import subprocess
import sys
import time

ROUND = 250  # requests of one configuration
SHOWN = 3    # differences

options = argparse.ArgumentParser()
options.add_argument("tree")
options.add_argument("reference")
options.add_argument("--grpc", action="store_true")
options.add_argument("--requests", type=int, default=5000)
options.add_argument("--seed", type=int, default=random.randrange(1 << 30))
options.add_argument("--store", default="memory:")
given = options.parse_args()
sys.argv = sys.argv[:2]  # for what the support reads
sys.path.insert(0, "tests/support")
from grpc_clients import CORE, Asked  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import Folder, Server, free_port, wait_until  # noqa: E402

R = random.Random(given.seed)
NAMES = [f"n{i}" for i in range(6)]
VALUES = [None, None, "v1", "v2", "v*", "v*x", "*", "a*b*c", "abc"]
FLAGS = {"headers": .7, "metadata": .7, "shadow": .15, "quota": .15}


def chance(share):
    return R.random() < share


# ---- configurations -------------------------------------------------------------------------

def random_limit():
    if chance(.08):
        return {"unlimited": True, **({"replaces": [{"name": R.choice(NAMES)}]} if chance(.3) else {})}
    limit = {"unit": R.choice(["hour", "day", "week", "month", "year"]),
             "requests_per_unit": R.choice([0, 1, 2, 3, 5, 8, 13, 30, 4294967295])}
    if chance(.4):
        limit["name"] = R.choice(NAMES)
    if chance(.25):
        others = [name for name in NAMES if name != limit.get("name")]
        limit["replaces"] = [{"name": name} for name in R.sample(others, R.randint(1, 2))]
    return limit


def random_descriptor(key, value, depth, shows):
    d = {"key": key}
    if value:
        d["value"] = value
        if "*" in value and chance(.4):
            d["share_threshold"] = True
    if chance(.75):
        d["rate_limit"] = random_limit()
    for flag, share in (("shadow_mode", .15), ("quota_mode", .2), ("detailed_metric", .1),
                        ("value_to_metric", .1)):
        if chance(share):
            d[flag] = True
    # The reference loses the metadata of limits that have values in their names.
    shows = shows or "detailed_metric" in d or "value_to_metric" in d
    if not shows and chance(.4):
        d["metadata"] = {R.choice("xyz"): {"p": R.randint(0, 9), "s": [1, "t", None, True]}, "w": "abc"}
    if depth < 3 and chance(.5):
        d["descriptors"] = random_descriptors(depth + 1, shows)
    return d


def random_descriptors(depth=1, shows=False):
    found = {(f"k{R.randint(0, 4)}", R.choice(VALUES)): None for _ in range(R.randint(2, 5))}
    return [random_descriptor(key, value, depth, shows) for key, value in found]


# ---- requests -------------------------------------------------------------------------------

def random_entries(level):
    entries = []
    while level:
        d = R.choice(level)
        value = (d.get("value") or R.choice(["", "z1", "z2", "v1"])).replace("*", R.choice(["", "1", "x", "bx"]))
        if chance(.2):
            value = R.choice(["v1", "v2", "v9x", "abc", ""])
        entries.append({"key": d["key"], "value": value})
        level = d.get("descriptors") if chance(.65) else None
    if chance(.05):
        entries.append({"key": "k0", "value": "extra"})
    return entries


def random_request(domain, level):
    request = {"domain": "other" if chance(.02) else domain, "descriptors": []}
    for _ in range(R.choice([1, 1, 1, 2, 2, 3, 5])):
        d = {"entries": random_entries(level)}
        if chance(.12):
            d["limit"] = {"requestsPerUnit": R.choice([0, 1, 4, 9]),
                          "unit": R.choice(["HOUR", "DAY", "MONTH", "YEAR"])}
        if chance(.2):
            d["hitsAddend"] = R.choice([0, 0, 1, 2, 7])
        request["descriptors"].append({} if chance(.02) else d)
    if chance(.2):
        request["hitsAddend"] = R.choice([0, 1, 3])
    for wrong in ({"domain": ""}, {"descriptors": []}, *([] if given.grpc else [{"unknown": 1}])):
        if chance(.01):
            request.update(wrong)
    return request


# ---- answers --------------------------------------------------------------------------------

def plain(answer, with_times):
    """What is compared of it: white space in the texts of limits differs on purpose, times may."""
    for d in answer.get("dynamicMetadata", {}).get("descriptors", []):
        if "limit" in d:
            d["limit"] = re.sub(" +", " ", d["limit"])
    if not with_times:
        for status in answer.get("statuses", []):
            status.pop("durationUntilReset", None)
        answer["responseHeadersToAdd"] = [h for h in answer.get("responseHeadersToAdd", [])
                                          if "Reset" not in h["key"]]
    return answer


def is_same(theirs, ours, with_times):
    if isinstance(theirs, str) or isinstance(ours, str):  # what is wrong with the request
        return theirs == ours
    return plain(ours, with_times) == plain(theirs, with_times)


# ---- who is asked ---------------------------------------------------------------------------

class ByJson:
    """The reference by its standard input, weir at /json."""

    def __init__(self, server, path, flags):
        self.connection = http.client.HTTPConnection(*server.address)
        self.reference = subprocess.Popen([given.reference, path, *flags], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reference.stdin.close()
        self.reference.wait()
        self.connection.close()

    def theirs(self, request):
        self.reference.stdin.write(json.dumps(request) + "\n")
        self.reference.stdin.flush()
        said = self.reference.stdout.readline().strip()
        return "Bad Request\n" if said == "400" else json.loads(said)

    def ours(self, request):
        self.connection.request("POST", "/json", json.dumps(request))
        response = self.connection.getresponse()
        said = response.read().decode()
        if response.status == 400:
            return said
        told = json.loads(said)
        assert response.status == (429 if told["overallCode"] == "OVER_LIMIT" else 200), (response.status, said)
        return told


class ByGrpc:
    """Both as servers. There is one Redis for all rounds, as each has a domain of its own."""
    METHOD = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
    FLAGS = {"headers": "LIMIT_RESPONSE_HEADERS_ENABLED", "metadata": "RESPONSE_DYNAMIC_METADATA",
             "shadow": "SHADOW_MODE", "quota": "QUOTA_MODE"}
    redis = None

    def __init__(self, server, path, flags):
        files = path.parent / "runtime/ratelimit/config"
        files.mkdir(parents=True, exist_ok=True)
        (files / "all.yaml").write_bytes(path.read_bytes())
        ByGrpc.redis = ByGrpc.redis or Redis()
        port = free_port()
        env = {"RUNTIME_ROOT": str(path.parent / "runtime"), "RUNTIME_SUBDIRECTORY": "ratelimit",
               "RUNTIME_WATCH_ROOT": "false", "DISABLE_STATS": "true", "LOG_LEVEL": "error",
               "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{self.redis.port}", "HOST": "127.0.0.1",
               "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(port), "PORT": str(free_port()),
               "DEBUG_PORT": str(free_port()), **{self.FLAGS[flag]: "true" for flag in flags}}
        self.reference = subprocess.Popen([given.reference], env={**os.environ, **env}, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL)
        self.their_client, self.our_client = Asked(CORE, port), Asked(CORE, server.port)
        wait_until(lambda: self.their_client.call("grpc.health.v1.Health/Check", {"service": "ratelimit"})["code"] == 0,
                   "the reference")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.their_client.__exit__()
        self.our_client.__exit__()
        self.reference.kill()
        self.reference.wait()

    def ask(self, client, request, wrong):
        told = client.call(self.METHOD, request)
        assert told["code"] in (0, wrong), told
        return told["message"] if told["code"] else told["response"]

    def theirs(self, request):
        return self.ask(self.their_client, request, 2)

    def ours(self, request):
        return self.ask(self.our_client, request, 3)


def fallbacks(server):
    metrics = server.http("GET", "/metrics")[2].decode()
    return sum(float(line.split()[-1]) for line in metrics.splitlines()
               if line.startswith("weir_checks_total{") and 'source="fallback"' in line)


class Tally:
    requests = over = timed = different = left_out = 0


def compare_round(folder, number, tally):
    domain, level = f"d{time.time_ns()}", random_descriptors()
    flags = [flag for flag, share in FLAGS.items() if chance(share)]
    (folder / "envoy.yaml").write_text(json.dumps({"domain": domain, "descriptors": level}))
    settings = {"config": "envoy.yaml", "denied": "count", "headers": "headers" in flags,
                "dynamic_metadata": "metadata" in flags, "shadow_mode": "shadow" in flags,
                "quota_mode": "quota" in flags}
    (folder / "weir.yaml").write_text("version: 1\npolicies: {own: {limit: 1 per 1h}}\n"
                                      f"server: {{envoy: {json.dumps(settings)}}}\n")
    store = given.store.replace("DIR", str(folder / f"data{number}"))
    requests = [random_request(domain, level) for _ in range(ROUND)]
    with Server(config=folder / "weir.yaml", store=store) as server, \
            (ByGrpc if given.grpc else ByJson)(server, folder / "envoy.yaml", flags) as asked:
        for request in requests:
            began = time.time()
            theirs, ours = asked.theirs(request), asked.ours(request)
            ended = time.time()
            if began // 3600 != ended // 3600:
                break  # windows have ended
            with_times = int(began) == int(ended)
            if not is_same(theirs, ours, with_times):
                if fallbacks(server) > 0:
                    tally.left_out += 1
                    break
                tally.different += 1
                if tally.different <= SHOWN:
                    print("DIFFERENT", flags, json.dumps(request), f"\n theirs {theirs}\n ours   {ours}\n",
                          json.dumps(level), flush=True)
            tally.requests += 1
            tally.timed += with_times
            tally.over += "OVER_LIMIT" in str(ours)


def main():
    tally, number = Tally(), 0
    with Folder() as folder:
        while tally.requests < given.requests:
            compare_round(folder, number, tally)
            number += 1
    if ByGrpc.redis:
        ByGrpc.redis.__exit__()
    print(f"{tally.requests} requests of {number} configurations, {tally.over} with limits exceeded, {tally.timed} with "
          f"times compared: {tally.different} different; {tally.left_out} configurations left after the store was too slow; "
          f"seed {given.seed}")
    return 1 if tally.different else 0


if __name__ == "__main__":
    sys.exit(main())
