#!/usr/bin/env python3
"""train.py - what a release is trained with: a compiler that knows what runs most makes that faster.

    train.py TREE

TREE is built to write down what runs (-Db_pgo=generate). Its server is asked by `weir bench` as
bench_server.py asks it: by RESP and HTTP, one request at a time and 16, allowed and denied, checks and
reservations, with counters in memory and in a file. One loop serves so many requests of each kind, so that
the counts are much the same each time.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from weir_server import WEIR, Server  # noqa: E402

POLICIES = """
version: 1
policies:
  limit: {limit: 1000000 per 1s, by: key, algorithm: leaky_bucket}
  sliding: {limit: 1000000 per 1s, by: key}
  address: {limit: 1000000 per 1m, by: ip, algorithm: fixed_window}
  three:
    rules:
      second: {limit: 1000000 per 1s, by: key}
      minute: {limit: 10000000 per 1m, by: key, algorithm: sliding_counter}
      hour: {limit: 100000000 per 1h, by: key, algorithm: token_bucket}
  budget:
    rules:
      requests: {limit: 10000000 per 1m, by: key, algorithm: token_bucket}
      tokens: {limit: 1000000000 per 1m, by: key, counts: tokens, algorithm: token_bucket}
      money: {limit: 1000000000 per month, by: key, counts: money}
      slots: {limit: 60000 at once, by: key}
"""
WIDE, NARROW = "10000000 per 1m", "100 per 1m"
WAYS = [
    *[["resp", "--command", "weir.limit", "--limit", limit, "--algorithm", algorithm]
      for algorithm in ("token_bucket", "sliding_window", "fixed_window", "sliding_counter")
      for limit in (WIDE, NARROW)],
    ["resp", "--command", "cl.throttle", "--limit", WIDE],
    *[["resp", "--command", f"raw:WEIR.RESERVE {policy} {{key}} TTL 60000 ID {{id}}{costs} ; WEIR.COMMIT {{id}}{used}"]
      for policy, costs, used in (("limit", "", ""), ("budget", " COST tokens 100 COST money 10", " COST tokens 50"))],
    *[[scheme, "--policy", policy] for scheme in ("resp", "http")
      for policy in ("limit", "sliding", "three")],
    *[["http", "--path", f"/v1/gate?policy={policy}&key={{key}}"]
      for policy in ("limit", "sliding", "three")],
    ["http", "--path", "/v1/gate?policy=address&ip=203.0.113.7"],
]
REQUESTS = {1: 2000, 16: 20000}


def main():
    with tempfile.TemporaryDirectory(prefix="weir-train.") as name:
        folder = Path(name)
        (folder / "policies.yaml").write_text(POLICIES)
        for store in "memory:", f"file:{folder}/store":
            with Server(config=folder / "policies.yaml", store=store, threads=1) as server:
                for scheme, *words in WAYS:
                    for pipeline, count in REQUESTS.items():
                        subprocess.run(
                            [str(WEIR), "bench", "--server", "%s://%s:%d" % (scheme, *server.address),
                             "--connections", "50", "--pipeline", str(pipeline), "--requests", str(count),
                             "--keys", "10000", *words],
                            check=True, stdout=subprocess.DEVNULL)
                assert server.stop() == 0


main()
