#!/usr/bin/env python3
"""chat.py - a handler that streams from a language model, within budgets that weir keeps.

    weir serve --config examples/policies/ai.yaml &
    WEIR=http://127.0.0.1:7878 examples/llm/chat.py 8080 &
    curl -N 'http://127.0.0.1:8080/chat?user=ann' -d 'Tell me a story of 200 words'

Before the call, what most answers need is reserved. If an answer gets longer, the reservation grows,
piece by piece, and the stream stops where the budget does. At the end, what was really used is
committed, also if the client has left. If this process is killed, its reservation expires: weir then
counts all that it held as used, and its slot is free.
"""
import http.client
import http.server
import json
import os
import re
import sys
import time
import urllib.parse
import uuid

WEIR = urllib.parse.urlsplit(os.environ.get("WEIR", "http://127.0.0.1:7878"))
TTL_MS = int(os.environ.get("CHAT_TTL_MS", "30000"))  # the longest silence of a worker that lives
WORD_MS = int(os.environ.get("CHAT_WORD_MS", "5"))  # how fast the model is
ANSWER = 64  # tokens that most answers need
PIECE = 32  # by how much a reservation grows
PRICE = 3  # micro-dollars a token


def weir(verb, **body):
    """Ask weir; asked again if there is no answer, which is safe because of the ids."""
    for attempt in range(3):
        connection = http.client.HTTPConnection(WEIR.hostname, WEIR.port, timeout=5)
        try:
            connection.request("POST", f"/v1/{verb}", json.dumps(body))
            return json.load(connection.getresponse())
        except OSError:
            time.sleep(0.1 * attempt)
        finally:
            connection.close()
    return {"allowed": False, "retry_after_ms": 1000}


def model(prompt):
    """Not a language model, but as slow as one: it yields the words that it was asked for."""
    for i in range(int(re.search(r"\d+", prompt)[0])):
        time.sleep(WORD_MS / 1000)
        yield f"word{i}"


def costs(tokens):
    return {"tokens": tokens, "micro-dollars": tokens * PRICE}


class Call:
    """One call of the model, and the reservation that pays for it."""

    def __init__(self, user, prompt):
        self.id, self.prompt = uuid.uuid4().hex, prompt
        self.used = len(prompt.split())
        self.held = self.used + ANSWER
        self.answer = weir("reserve", id=self.id, policy="chat", attributes={"user": user},
                           costs=costs(self.held), ttl_ms=TTL_MS)
        self.renew_at = time.monotonic() + TTL_MS / 2000

    def has_more(self):
        """Is there room for one more token? Near the end of a budget, smaller pieces fit."""
        piece = PIECE
        while self.used == self.held and piece > 0:
            if weir("grow", reservation=self.id, costs={"requests": 0, **costs(piece)}).get("allowed"):
                self.held += piece
            piece //= 2
        return self.used < self.held

    def words(self):
        for word in model(self.prompt):
            if not self.has_more():
                yield "[your budget is used up]"
                return
            self.used += 1
            if time.monotonic() > self.renew_at:
                weir("extend", reservation=self.id, ttl_ms=TTL_MS)
                self.renew_at = time.monotonic() + TTL_MS / 2000
            yield word

    def commit(self):
        weir("commit", reservation=self.id, costs=costs(self.used))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # pylint: disable=invalid-name
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        prompt = self.rfile.read(int(self.headers["Content-Length"])).decode()
        call = Call(query["user"][0], prompt)
        if not call.answer.get("allowed"):
            self.send_response(429)
            if call.answer.get("retry_after_ms", -1) > 0:
                self.send_header("Retry-After", str(-(-call.answer["retry_after_ms"] // 1000)))
            self.end_headers()
            self.wfile.write(f"denied by {call.answer.get('rule')}\n".encode())
            return
        try:
            self.send_response(200)
            self.end_headers()
            for word in call.words():
                self.wfile.write(f"{word}\n".encode())
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has left: what it has used is used
        finally:
            call.commit()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
