"""postgres_fixture.py - for tests: servers that share a Postgres.

    class Mine(Fixture):
        policies = "version: 1\npolicies: {few: {limit: 5 per 1d, by: user}}\n"

    with Mine() as fixture:
        one, other = fixture.serve(), fixture.serve()

All fixtures of a process have databases of their own in one Postgres, which close_cluster() ends.
"""
import itertools

import shared_store
from postgres import Postgres
from shared_store import PATIENT, weir

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


class Fixture(shared_store.Fixture):
    """A database with the schema, and servers that have it for their store. They come as a role
    that may do only what a server does."""

    def __init__(self, parameters=PATIENT, migrated=True):
        self.db, self.name = cluster(), f"fixture{next(numbers)}"
        super().__init__(f"{self.db.url_of(self.name, 'limiter')}?{parameters}")
        self.db.psql(f"CREATE DATABASE {self.name}")
        self.owner = self.db.url_of(self.name)
        if migrated:
            done = weir("migrate", self.owner)
            assert done.returncode == 0, done
            self.sql("GRANT weir_server TO limiter")

    def sql(self, text):
        return self.db.psql(text, database=self.name)

    def value(self, text):
        return self.db.value(text, database=self.name)


__all__ = ["Fixture", "PATIENT", "close_cluster", "cluster", "weir"]
