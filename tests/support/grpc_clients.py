"""grpc_clients.py - for tests: calls by gRPC, by four implementations that others wrote.

    with Asked(CORE, server.port) as asked:
        asked.call("weir.v1.Weir/Check", {"policy": "login", "key": "a"})

An answer is {"code": …, "message": …, "response": {…}, "trailers": {…}}, with the messages as JSON. What cannot be
asked on this machine has a `why_not`.
"""
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import npm
from weir_server import TREE

DEBIAN = "/usr/bin/python3"  # the one that Debian's modules are for
GO_SOURCES = Path("/usr/share/gocode")
CLIENTS = Path("tests/e2e/grpc").resolve()
PROTO = Path("proto").resolve()
CODES = ["ok", "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
         "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
         "internal", "unavailable", "data_loss", "unauthenticated"]


def made(name, make):
    """A file of the tree, which several tests may want at once."""
    path = TREE / name
    with open(f"{path}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(path)
    return path


def descriptors():
    """All of proto/, as protoc has it."""
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    return made("descriptors.pb", lambda path: subprocess.run(
        ["protoc", "-I", PROTO, "--include_imports", "-o", path, *files], check=True))


def go_program():
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GO_SOURCES), "CGO_ENABLED": "0", "GOFLAGS": "",
           "GOCACHE": str((TREE / "go").resolve())}
    return made("ask_go", lambda path: subprocess.run(["go", "build", "-o", path, CLIENTS / "ask.go"], env=env,
                                                      check=True))


class Core:
    """python3-grpcio, which is grpc-core."""
    name = "grpc-core"

    def why_not(self):
        probe = [DEBIAN, "-c", "import grpc, google.protobuf"]
        return None if subprocess.run(probe, capture_output=True, check=False).returncode == 0 and \
            shutil.which("protoc") else "python3-grpcio, python3-protobuf or protoc is not installed"

    def words(self, address):
        return [DEBIAN, CLIENTS / "ask.py", address, descriptors()], {}


class Go:
    name = "grpc-go"

    def why_not(self):
        there = (GO_SOURCES / "src/google.golang.org/grpc").exists()
        return None if shutil.which("go") and there and shutil.which("protoc") else \
            "go, golang-google-grpc-dev or protoc is not installed"

    def words(self, address):
        return [go_program(), address, descriptors()], {}


class Node:
    name = "grpc-js"

    def why_not(self):
        return npm.fetched(CLIENTS, TREE / "grpc_clients")[1]

    def words(self, address):
        modules, _ = npm.fetched(CLIENTS, TREE / "grpc_clients")
        return ["node", CLIENTS / "ask.mjs", address, PROTO], {"NODE_PATH": str(modules)}


CORE, GO, NODE = Core(), Go(), Node()


class Asked:
    """One of these, talking to a port of this machine."""

    def __init__(self, client, port, host="127.0.0.1"):
        words, env = client.words(f"{host}:{port}")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **env})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()

    def say(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        told = self.process.stdout.readline()
        assert told, f"the client has ended: {self.process.wait()}"
        return json.loads(told)

    def call(self, method, request=None, **more):
        return self.say({"method": method, "request": request or {}, **more})


class Buf:
    """`buf curl`, which is connect-go: one process a call. Without a schema it asks the server by reflection."""
    name = "buf curl"

    def why_not(self):
        return npm.fetched(CLIENTS, TREE / "grpc_clients")[1]

    def asked(self, port, schema=PROTO):
        modules, _ = npm.fetched(CLIENTS, TREE / "grpc_clients")
        return BufAsked(modules / ".bin/buf", port, schema)


class BufAsked:
    def __init__(self, program, port, schema):
        self.program, self.port, self.schema = program, port, schema

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, *words):
        schema = ["--schema", str(self.schema)] if self.schema else []
        return subprocess.run([self.program, "curl", "--protocol", "grpc", "--http2-prior-knowledge", *schema,
                               *words], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "BUF_CACHE_DIR": str(TREE / "buf")})

    def call(self, method, request=None, metadata=None, **_):
        headers = [word for key, value in (metadata or {}).items() for word in ("-H", f"{key}: {value}")]
        done = self.run(*headers, "-d", json.dumps(request or {}), f"http://127.0.0.1:{self.port}/{method}")
        if done.returncode == 0:
            return {"code": 0, "message": "", "response": json.loads(done.stdout), "trailers": {}}
        assert done.returncode % 8 == 0 and done.stderr.lstrip().startswith("{"), (done.returncode, done.stderr)
        error = json.loads(done.stderr)
        assert done.returncode // 8 == CODES.index(error["code"]), (done.returncode, error)
        return {"code": done.returncode // 8, "message": error.get("message", ""), "response": {}, "trailers": {}}


BUF = Buf()
STACKS = [CORE, GO, NODE, BUF]


def asked_by(stack, port):
    return stack.asked(port) if stack is BUF else Asked(stack, port)
