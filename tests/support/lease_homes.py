"""lease_homes.py - for tests of leased quotas: stores that servers share, and that can fail over."""
import lease_trial
import postgres_fixture
from postgres import Postgres
from redis import Cluster, Redis, Watched
from shared_store import PATIENT, Fixture, RedisFixture


class Home(RedisFixture):
    """A Redis that loses nothing when it is killed."""

    policies = lease_trial.POLICIES

    def __init__(self):
        redis = Redis(appendonly="yes", appendfsync="always")
        super().__init__(redis, redis.url, PATIENT)


class PostgresHome(postgres_fixture.Fixture):
    policies = lease_trial.POLICIES


class PairHome(Fixture):
    """A Postgres that can be crashed, and its standby, which has all that was answered."""

    policies = lease_trial.POLICIES

    def __init__(self):
        self.primary = Postgres(max_connections=100, fsync="off")
        self.standby = None
        try:
            self.standby = Postgres(of=self.primary, max_connections=100, fsync="off")
            self.primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.primary.psql("SELECT pg_reload_conf()")
            self.primary.migrate()
            hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
            super().__init__(f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write&"
                             f"{PATIENT}")
        except BaseException:
            self.close()
            raise

    def close(self):
        for server in (self.standby, self.primary):
            if server:
                server.close()

    def __exit__(self, *raised):
        try:
            super().__exit__(*raised)
        finally:
            self.close()


class WatchedHome(Fixture):
    """A master whose replica has all that was answered, and a Sentinel that promotes it."""

    policies = lease_trial.POLICIES

    def __init__(self):
        self.watched = Watched()
        super().__init__(f"redis+sentinel://127.0.0.1:{self.watched.sentinel.port}/main?"
                         f"{PATIENT}&wait_replicas=1")

    def __exit__(self, *raised):
        try:
            super().__exit__(*raised)
        finally:
            self.watched.__exit__()


class ClusterHome(Fixture):
    """Three masters, each with a replica, that have the keys of different users."""

    policies = lease_trial.POLICIES

    def __init__(self):
        self.cluster = Cluster(replicas=1)
        ports = ",".join(f"127.0.0.1:{node.port}" for node in self.cluster.masters)
        super().__init__(f"redis+cluster://{ports}?{PATIENT}")

    def __exit__(self, *raised):
        try:
            super().__exit__(*raised)
        finally:
            self.cluster.__exit__()
