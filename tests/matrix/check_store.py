#!/usr/bin/env python3
"""check_store.py - is weir exact with this version of a store, and does it survive the store's failures?

    check_store.py TREE postgres|redis|cluster [TEXT]      from the root of the source

The server is that of WEIR_TEST_POSTGRES or WEIR_TEST_REDIS. Prints TAP. With TEXT, weir must refuse this
version, and say TEXT.
"""
import os
import sys

sys.path.insert(0, "tests/support")
from asker import Crowd  # noqa: E402
from faulty_stores import FaultyPostgres, FaultyRedis  # noqa: E402
from postgres import Postgres  # noqa: E402
from redis import Cluster, Redis  # noqa: E402
from shared_store import (PATIENT, UNWELL, Fixture, Gang, comes_back, conforms, falls_back, used,  # noqa: E402
                          weir, witness)
from weir_server import TREE, run, signal, test, wait_until  # noqa: E402

FEW = "version: 1\npolicies: {few: {limit: 5 per 1d, by: user}, many: {limit: 1000 per 1d, by: user}}\n"


class FaultyCluster:
    """All nodes fail together."""

    def __init__(self):
        self.cluster = Cluster(appendonly="yes")
        ports = ",".join(f"127.0.0.1:{node.port}" for node in self.cluster.nodes)
        self.url = f"redis+cluster://{ports}"

    def each(self, act):
        for node in self.cluster.nodes:
            act(node)

    def kill(self):
        self.each(lambda node: node.kill())

    def start(self):
        self.each(lambda node: node.start())
        wait_until(self.cluster.is_well, "the cluster")

    def stop(self):
        self.each(lambda node: node.process.send_signal(signal.SIGSTOP))

    def go_on(self):
        self.each(lambda node: node.process.send_signal(signal.SIGCONT))

    def close(self):
        self.cluster.__exit__()


KIND = sys.argv[2]
STORES = {"postgres": lambda: FaultyPostgres(fsync="off"), "redis": FaultyRedis, "cluster": FaultyCluster}
SCHEMES = {"postgres": "postgres:", "redis": "redis:", "cluster": "redis+cluster:"}


class Tried:
    """A store of this version, and servers that have it."""

    def __init__(self, parameters):
        self.store = STORES[KIND]()
        self.fixture = Fixture(f"{self.store.url}?{parameters}")

    def __enter__(self):
        return self.store, self.fixture

    def __exit__(self, *failure):
        try:
            self.fixture.__exit__(*failure)
        finally:
            self.store.close()


def every_conformance_trace_matches():
    with Tried(PATIENT) as (_, fixture):
        conforms(TREE, fixture.url, SCHEMES[KIND], os.environ)


def four_servers_admit_exactly_the_limit():
    question = "many", "user", "ann"
    with Tried(PATIENT) as (_, fixture):
        fixture.config.write_text(FEW)
        servers = [fixture.serve(threads=2) for _ in range(4)]
        with Gang(servers, 1000) as gang:
            counts = gang.ask(1, "WEIR.CHECK", "few", "ann")
            assert counts == (5, 995, 0), counts
        crowds = [Crowd(server.address, [question] * 400, seed=n) for n, server in enumerate(servers)]
        assert sum(crowd.end().allowed.get(question, 0) for crowd in crowds) == 1000


def a_store_that_is_killed_or_hangs_is_used_again():
    with Tried(UNWELL) as (store, fixture):
        server = fixture.serve()
        comes_back(server)
        counted, unknown = witness(server)
        assert counted > 0
        store.kill()
        falls_back(server)
        store.start()
        comes_back(server)
        kept = used(server, "open", "witness")
        assert counted <= kept <= counted + unknown, (counted, kept, unknown)
        store.stop()
        try:
            falls_back(server)
        finally:
            store.go_on()
        comes_back(server)


def it_is_refused():
    with Postgres() if KIND == "postgres" else Redis() as store, Fixture(store.url) as fixture:
        said = [fixture.refused(), weir("doctor", store.url).stdout]
        if KIND == "postgres":
            said.append(weir("migrate", store.url).stderr)
    assert all(sys.argv[3] in text for text in said), said


for function in [it_is_refused] if len(sys.argv) > 3 else [
        every_conformance_trace_matches, four_servers_admit_exactly_the_limit,
        a_store_that_is_killed_or_hangs_is_used_again]:
    test(function)
run()
