"""weir_client - the client of weir, a durable rate limiter: over HTTP, with the standard library alone.

    weir = Weir("http://127.0.0.1:7878", on_error="allow")
    if not weir.check("login", {"ip": "203.0.113.7"})["allowed"]: ...

An answer is a dict with the members of weir's JSON. Each thread has a connection of its own, which is kept.
"""
import http.client
import json
import os
import select
import threading
from urllib.parse import urlsplit

__all__ = ["RateLimited", "Weir", "WeirError"]

# Asked twice, these change nothing more.
SAFE = {"peek", "reset", "commit", "release", "extend"}
# Mistakes of the caller, which no word of on_error answers.
MISTAKES = ("invalid_", "no_such_", "clock_", "needs_", "id_", "already_", "reservation_")


class WeirError(Exception):
    """weir rejected the request, or could not be asked: `code` is one of weir's, or unreachable, bad_answer."""

    def __init__(self, detail, code, status=0):
        super().__init__(detail)
        self.code, self.status = code, status


class RateLimited(Exception):
    """A denied check, raised by demand(); `answer` says when to come back."""

    def __init__(self, answer):
        super().__init__(f"denied by rule {answer['rule']}")
        self.answer = answer


class Weir:
    """`on_error` is what decides while weir cannot be asked: "allow", "deny", or None to raise a WeirError."""

    def __init__(self, url=None, token=None, timeout=0.25, on_error="deny", context=None):
        parts = urlsplit(url or os.environ.get("WEIR_URL", ""))
        if not parts.hostname:
            raise ValueError("no url, and no WEIR_URL")
        self.parts, self.timeout, self.on_error, self.context = parts, timeout, on_error, context
        token = token or os.environ.get("WEIR_TOKEN")
        self.headers = {"Content-Type": "application/json",
                        **({"Authorization": f"Bearer {token}"} if token else {})}
        self.local = threading.local()

    def check(self, policy, who=None, **more):
        """Check a request, and count it if it is allowed. `more`: cost, costs, plan, id, exempt, tag, now."""
        return self.ask("check", policy, who, **more)

    def peek(self, policy, who=None, **more):
        """What a check would answer; counts nothing."""
        return self.ask("peek", policy, who, **more)

    def charge(self, policy, who=None, **more):
        """Count what has happened, whatever the limits say. The answer has `used` and `over`."""
        return self.ask("charge", policy, who, **more)

    def refund(self, policy, who=None, **more):
        """Give back what was counted but did not happen."""
        return self.ask("refund", policy, who, **more)

    def reset(self, policy, who=None, **more):
        """Forget everything that is counted for an identity."""
        return self.ask("reset", policy, who, **more)

    def reserve(self, policy, who=None, *, ttl_ms, **more):
        """Hold what a call may cost; the answer has `reservation`, for commit, release, grow and extend."""
        return self.ask("reserve", policy, who, ttl_ms=ttl_ms, **more)

    def commit(self, reservation, **costs):
        """So much was used: cost or costs; without them, what was held."""
        return self.ask("commit", reservation=reservation, **costs)

    def release(self, reservation):
        """Nothing was used."""
        return self.ask("release", reservation=reservation)

    def grow(self, reservation, **costs):
        """A check of more, onto the same reservation."""
        return self.ask("grow", reservation=reservation, **costs)

    def extend(self, reservation, ttl_ms):
        """It ends so long from now, if that is later."""
        return self.ask("extend", reservation=reservation, ttl_ms=ttl_ms)

    def demand(self, policy, who=None, **more):
        """A check that raises RateLimited if it is denied."""
        answer = self.check(policy, who, **more)
        if not answer["allowed"]:
            raise RateLimited(answer)
        return answer

    def check_many(self, checks):
        """Requests as dicts of weir's JSON, each decided alone; an answer may be {"error": ...}."""
        return self._post("check", {"checks": list(checks)}, False)["answers"]

    def ask(self, verb, policy=None, who=None, **more):
        """Any verb. `policy` is a name, a list of names, or a dict with the members of a limit:
        limit, window_ms, algorithm, burst, precision_ms, start, block_for_ms, name."""
        request = {name: value for name, value in more.items() if value is not None or name == "reservation"}
        if isinstance(policy, dict):
            request.update(policy)
        elif policy is not None:
            request["policy" if isinstance(policy, str) else "policies"] = policy
        if who is not None:
            request["attributes" if isinstance(who, dict) else "key"] = who
        try:
            answer = self._post(verb, request, verb in SAFE or "id" in request)
            if not isinstance(answer.get("allowed"), bool):
                raise WeirError("not an answer", "bad_answer")
            return answer
        except WeirError as error:
            if self.on_error is None or error.code.startswith(MISTAKES):
                raise
            allowed = self.on_error == "allow" or verb not in ("check", "reserve", "grow")
            return {"allowed": allowed, "policy": request.get("policy") or request.get("name"), "rule": "default",
                    "limit": 0, "remaining": 0, "retry_after_ms": 0 if allowed else 1000, "reset_after_ms": 0,
                    "delay_ms": 0, "source": "fallback", "shadow": False, "error": error}

    def close(self):
        """The connection of this thread."""
        kept = getattr(self.local, "kept", None)
        self.local.kept = None
        if kept:
            kept.close()

    def _connect(self):
        """The kept connection, unless the server has closed it."""
        kept = getattr(self.local, "kept", None)
        if kept and kept.sock and not select.select([kept.sock], [], [], 0)[0]:
            return kept
        self.close()
        secure = self.parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        more = {"context": self.context} if secure else {}
        self.local.kept = kind(self.parts.hostname, self.parts.port, timeout=self.timeout, **more)
        return self.local.kept

    def _post(self, verb, body, is_safe):
        try:
            return self._exchange(verb, json.dumps(body))
        except WeirError as error:
            # What may have been counted is sent again only if that counts nothing more.
            if not is_safe or error.code != "unreachable":
                raise
            return self._exchange(verb, json.dumps(body))

    def _exchange(self, verb, body):
        path = f"{self.parts.path.rstrip('/')}/v1/{verb}"
        try:
            connection = self._connect()
            connection.request("POST", path, body, self.headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise WeirError(f"cannot reach weir: {error!r}", "unreachable") from error
        try:
            answer = json.loads(text)
            if response.status == 200:
                return dict(answer)
            raise WeirError(answer["detail"], answer["code"], response.status)
        except (ValueError, TypeError, KeyError) as error:
            raise WeirError("not an answer", "bad_answer", response.status) from error
