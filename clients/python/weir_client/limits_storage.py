"""limits_storage.py - weir as a storage of `limits`, and so of Flask-Limiter and SlowAPI.

    import weir_client.limits_storage            # registers weir:// and weirs://
    Limiter(get_remote_address, app=app, storage_uri="weir://127.0.0.1:7878")

For the strategies fixed-window and moving-window. Limits come with the requests, under the name `limits`, so the
server needs no policy for them. With fixed-window every hit is counted, also one that is denied, as `limits` does;
windows begin at multiples of their length. With moving-window a denied hit costs nothing.
"""
import re
import time

from limits.storage.base import MovingWindowSupport, Storage

from weir_client import Weir, WeirError

# How `limits` ends its keys: 5/1/minute.
ENDING = re.compile(r"(\d+)/(\d+)/(second|minute|hour|day|month|year)$")
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "month": 86400 * 30, "year": 86400 * 30 * 12}


class WeirStorage(Storage, MovingWindowSupport):
    """Takes the options of Weir; `weirs://` is by TLS. What cannot be asked raises a WeirError."""

    STORAGE_SCHEME = ["weir", "weirs"]

    def __init__(self, uri="weir://127.0.0.1:7878", token=None, timeout=0.25, weir=None, **options):
        super().__init__(uri, **options)
        url = re.sub(r"^weir(s?)://", r"http\1://", uri)
        self.weir = weir or Weir(url, token, float(timeout), on_error=None)

    @property
    def base_exceptions(self):
        """What the newer ones can wrap."""
        return WeirError

    @staticmethod
    def _limit(key, algorithm, limit=None, expiry=None):
        """The numbers that the key does not tell are those of its ending."""
        found = ENDING.search(key)
        if not found and (limit is None or expiry is None):
            raise ValueError("a key of limits ends in its amount and its window")
        if limit is None:
            limit = int(found[1])
        if expiry is None:
            expiry = int(found[2]) * SECONDS[found[3]]
        return {"limit": limit, "window_ms": int(expiry * 1000), "algorithm": algorithm, "name": "limits"}

    def incr(self, key, expiry, elastic_expiry=False, amount=1):
        """Count a hit; how many there are now."""
        if elastic_expiry:
            raise NotImplementedError("weir has no window that every hit prolongs")
        return self.weir.charge(self._limit(key, "fixed_window", expiry=expiry), key, cost=amount)["used"]

    def get(self, key):
        """How many hits there are."""
        return self.weir.charge(self._limit(key, "fixed_window"), key, cost=0)["used"]

    def get_expiry(self, key):
        """When they are forgotten."""
        return time.time() + self.weir.peek(self._limit(key, "fixed_window"), key)["reset_after_ms"] / 1000

    def check(self):
        """Does weir answer?"""
        try:
            self.weir.peek({"limit": 1, "window_ms": 1000, "name": "limits"}, "health")
            return True
        except WeirError:
            return False

    def reset(self):
        """Not there: weir forgets key by key."""
        raise NotImplementedError("weir forgets key by key: clear()")

    def clear(self, key):
        """Forget a key; the token needs the scope for it."""
        for algorithm in ("fixed_window", "sliding_window"):
            self.weir.reset(self._limit(key, algorithm), key)

    def acquire_entry(self, key, limit, expiry, amount=1):
        """A check, which is counted if it is allowed."""
        return self.weir.check(self._limit(key, "sliding_window", limit, expiry), key, cost=amount)["allowed"]

    def get_moving_window(self, key, limit, expiry):
        """From when on hits count, so that after `expiry` none does any more; and how many count now."""
        answer = self.weir.peek(self._limit(key, "sliding_window", limit, expiry), key)
        return time.time() + answer["reset_after_ms"] / 1000 - expiry, limit - answer["remaining"]
