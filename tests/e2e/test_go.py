#!/usr/bin/env python3
"""test_go.py - Go with a Redis client of Debian's: the program of docs/go.md, and the answers that all clients share.

    test_go.py TREE      from the root of the source
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from vectors import TABLE, Served  # noqa: E402
from weir_server import TREE, Folder, Server, run, test  # noqa: E402

SOURCES = Path("/usr/share/gocode")  # of golang-*-dev
WHY_NOT = None if shutil.which("go") and (SOURCES / "src/github.com/gomodule/redigo").exists() else \
    "go or its redigo is not installed"


def built(source, folder):
    """The program of this source."""
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(SOURCES), "CGO_ENABLED": "0", "GOFLAGS": "",
           "GOCACHE": str((TREE / "go").resolve())}
    subprocess.run(["go", "build", "-o", folder / "program", source], env=env, check=True)
    return folder / "program"


def said(program, server):
    return subprocess.run([program], env={**os.environ, "WEIR_ADDRESS": f"127.0.0.1:{server.port}"}, check=True,
                          capture_output=True, text=True, timeout=60).stdout


@test
def the_program_of_the_page_prints_what_the_page_says():
    if WHY_NOT:
        return WHY_NOT
    page = Path("docs/go.md").read_text(encoding="utf-8")
    source, output = re.search(r"```go\n(.*?)```.*?```\n(.*?)```", page, re.S).groups()
    policy = re.search(r"policy `(.*?)` it prints", page)[1]
    with Folder() as folder:
        (folder / "main.go").write_text(source, encoding="utf-8")
        (folder / "policies.yaml").write_text(f"version: 1\npolicies:\n  {policy}\n", encoding="utf-8")
        with Server(config=folder / "policies.yaml") as server:
            assert said(built(folder / "main.go", folder), server) == output
    return None


@test
def the_answers_that_all_clients_share():
    if WHY_NOT:
        return WHY_NOT
    with Folder() as folder, Served() as server:
        assert said(built("tests/e2e/go/vectors.go", folder), server) == f"{len(TABLE['vectors'])}\n"
    return None


if __name__ == "__main__":
    run()
