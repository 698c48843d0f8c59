#!/usr/bin/env python3
"""tree.py - checks what the compiler cannot: who includes whom, and how files introduce themselves.

    tests/lint/tree.py [ROOT]

Prints `file:line: what is wrong` for each problem; exits 1 if there was one.
"""
import re
import sys
from pathlib import Path

# What each directory of src/ may include besides itself and weir.h.
LAYERS = {
    "base": set(),
    "limit": {"base"},
    "policy": {"base", "limit"},
    "store": {"base", "limit"},
    "engine": {"base", "limit", "policy", "store"},
    "net": {"base"},
    "proto": {"base"},
    "server": {"base", "limit", "policy", "store", "engine", "net", "proto"},
    "replay": {"base", "limit", "policy", "store", "engine"},
    # A client reads the bytes that a server writes, by TLS if need be.
    "cli": {"base", "limit", "policy", "store", "engine", "net", "proto", "server", "replay"},
}

# A library that others could replace is known to as few files as can be.
OPENSSL = {"src/base/pem.c", "src/net/tls.c", "src/store/redis/tls.c",
           "src/store/redis/tls_problem.c"}
OWNERS = {
    "hiredis/hiredis.h": {"src/store/redis/reply.c"},
    "openssl/evp.h": {"src/server/resp/known_scripts.c"},
    "openssl/err.h": OPENSSL,
    "openssl/ssl.h": OPENSSL,
    "nghttp2/nghttp2.h": {"src/server/http2/connection.h"},
    "liburing.h": {"src/net/uring.c", "src/cli/bench/ring.c"},
    "libpq-fe.h": {"src/store/postgres/connection.c", "src/store/postgres/session.c"},
    "sodium.h": {"src/base/hash.c", "src/base/secret.c"},
    "yaml.h": {"src/policy/yaml.c"},
    "zlib.h": {"src/replay/gzip.c"},
    "zstd.h": {"src/replay/zstd.c"},
}

CODE = {".c", ".h", ".cc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
UNFINISHED = re.compile(r"\b(T[O]DO|FIX[M]E|X[X]X)\b")
SKIPPED = re.compile(r"^(\.git|build.*|corpus|__pycache__|node_modules)$")


def files_of(folder):
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if not SKIPPED.match(path.name):
                yield from files_of(path)
        else:
            yield path


def check_include(root, file, quote, included):
    """One #include of a file under src/ or include/."""
    if included in OWNERS and str(file) not in OWNERS[included]:
        yield f"only {' and '.join(sorted(OWNERS[included]))} may include {included}"
    if quote == "<":
        return
    if file.parts[0] == "include":
        yield f"a public header cannot include {included}: it is not installed"
    elif included != "weir.h":
        layer, target = file.parts[1], included.split("/")[0]
        if not (root / "src" / included).is_file():
            yield f"there is no src/{included}; includes are relative to src/"
        elif layer not in LAYERS:
            yield f"src/{layer} is in no layer: add it to tests/lint/tree.py"
        elif target != layer and target not in LAYERS[layer]:
            yield f"{layer} may not include {target}"


def check_file(root, file):
    try:
        lines = (root / file).read_text().splitlines()
    except UnicodeDecodeError:
        return
    if file.suffix in CODE and not (lines and lines[0].startswith(f"/* {file.name} - ")):
        yield 1, f"the first line must begin with `/* {file.name} - `"
    for number, line in enumerate(lines, 1):
        unfinished, include = UNFINISHED.search(line), INCLUDE.match(line)
        if unfinished:
            yield number, f"{unfinished[1]}: finish it, or write an issue"
        if include and file.suffix in CODE and file.parts[0] in ("src", "include"):
            for problem in check_include(root, file, include[1], include[2]):
                yield number, problem


def problems(root):
    for path in files_of(root):
        file = path.relative_to(root)
        for number, problem in check_file(root, file):
            yield f"{file}:{number}: {problem}"


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
