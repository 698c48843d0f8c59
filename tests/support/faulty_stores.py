"""faulty_stores.py - for tests and benchmarks: shared stores that can be made to fail.

    store = FaultyPostgres()        or FaultyRedis()
    ... weir serve --store {store.url} ...
    store.kill(); store.start()     gone, and there again with what it had
    store.stop(); store.go_on()     it hangs: connections stay open, without answers
    store.forget()                  all that it counted
    store.close()
"""
import signal

from postgres import Postgres, descendants, send_signal
from redis import Redis


class FaultyPostgres:
    name = "Postgres"

    def __init__(self, **settings):
        self.db = Postgres(**settings)
        self.db.migrate()
        self.address = "127.0.0.1", self.db.port
        self.stopped = []

    def url_at(self, port):
        return f"postgres://postgres@127.0.0.1:{port}/postgres"

    @property
    def url(self):
        return self.url_at(self.db.port)

    def kill(self):
        self.db.crash()

    def start(self):
        self.db.start()

    def stop(self):
        self.stopped = descendants(self.db.pid)
        send_signal(self.stopped, signal.SIGSTOP)

    def go_on(self):
        send_signal(self.stopped, signal.SIGCONT)
        self.stopped = []
        # What runs it as another user has stopped along with it.
        self.db.process.send_signal(signal.SIGCONT)

    def forget(self):
        self.db.psql("TRUNCATE weir.states")

    def close(self):
        self.go_on()
        self.db.close()


class FaultyRedis:
    name = "Redis"

    def __init__(self, **options):
        self.redis = Redis(appendonly="yes", **options)
        self.address = self.redis.address

    def url_at(self, port):
        return f"redis://127.0.0.1:{port}"

    @property
    def url(self):
        return self.redis.url

    def kill(self):
        self.redis.kill()

    def start(self):
        self.redis.start()

    def stop(self):
        self.redis.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.redis.process.send_signal(signal.SIGCONT)

    def forget(self):
        self.redis("FLUSHALL")

    def close(self):
        self.redis.__exit__()
