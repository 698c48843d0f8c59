"""postgres_fixture.py - for tests: servers that share a Postgres.

    class Mine(Fixture):
        policies = "version: 1\npolicies: {few: {limit: 5 per 1d, by: user}}\n"

    with Mine() as fixture:
        one, other = fixture.serve(), fixture.serve()

All fixtures of a process have databases of their own in one Postgres, which close_cluster() ends.
"""
import itertools
import subprocess

from postgres import Postgres
from weir_server import PATIENCE, WEIR, Folder, Server

PATIENT = "deadline=20s"  # for those who ask a database that is well, on a busy machine
numbers = itertools.count(1)
database = None


def cluster():
    global database
    if not database:
        database = Postgres(fsync="off", max_connections=60)
        database.psql("CREATE ROLE limiter LOGIN")
    return database


def close_cluster():
    if database:
        database.close()


def weir(*words, **more):
    return subprocess.run([WEIR, *words], capture_output=True, text=True, check=False,
                          timeout=PATIENCE, **more)


class Fixture:
    """A database with the schema, and servers that have it for their store. They come as a role
    that may do only what a server does."""

    policies = ""

    def __init__(self, parameters=PATIENT, migrated=True):
        self.db, self.name = cluster(), f"fixture{next(numbers)}"
        self.folder = Folder()
        self.config = self.folder.path / "policies.yaml"
        self.config.write_text(self.policies)
        self.db.psql(f"CREATE DATABASE {self.name}")
        self.owner = self.db.url_of(self.name)
        self.url = f"{self.db.url_of(self.name, 'limiter')}?{parameters}"
        self.servers = []
        if migrated:
            assert weir("migrate", self.owner).returncode == 0
            self.sql("GRANT weir_server TO limiter")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        statuses = [server.stop() for server in self.servers if kind is None]
        for server in self.servers:
            server.__exit__()
        self.folder.__exit__()
        assert not any(statuses), [server.log.other for server in self.servers]

    def serve(self, *arguments, **more):
        more = {"store": self.url, "config": self.config, **more}
        self.servers.append(Server(*arguments, **more))
        return self.servers[-1]

    def sql(self, text):
        return self.db.psql(text, database=self.name)

    def value(self, text):
        return self.db.value(text, database=self.name)


__all__ = ["Fixture", "PATIENT", "close_cluster", "cluster", "weir"]
