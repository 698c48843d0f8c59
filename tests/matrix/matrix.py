#!/usr/bin/env python3
"""matrix.py - weir with every version of its stores that can be had.

    matrix.py TREE [--write] [NAME...]      from the root of the source

Each version is fetched once, into build-matrix/, and runs check_store.py; a pgbouncer runs
tests/e2e/test_pooler.py. With NAMEs, only rows whose name contains one of them are run. --write puts the
table into docs/stores.md. The exit status is 0 if no row has failed.
"""
import datetime
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fetch import NotThere, debian, npm_postgres  # noqa: E402

CACHE = Path("build-matrix").resolve()
PAGE = Path("docs/stores.md")
BEGIN, END = "<!-- matrix: written by ./dev matrix --write -->\n", "<!-- end of matrix -->\n"
TIMEOUT = 900  # seconds, for all checks of one row on a busy machine
COLUMNS = "conformance", "exactness, 4 servers", "killed, hangs"


class Row:
    def __init__(self, name, fetch, source, kind, refused=None):
        self.name, self.fetch, self.source, self.kind, self.refused = name, fetch, source, kind, refused
        self.version, self.cells, self.problem, self.output = "", [], None, ""

    def run(self, tree):
        try:
            program = self.fetch()
        except (NotThere, subprocess.TimeoutExpired) as problem:
            self.problem = f"not fetched: {problem}"
            return
        asked = program / "postgres" if self.kind == "postgres" else program
        said = subprocess.run([asked, "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"\d+\.\d+(\.\d+)?", said)
        self.version = found[0] if found else "?"
        variable = {"postgres": "WEIR_TEST_POSTGRES", "pooler": "WEIR_TEST_PGBOUNCER"}.get(
            self.kind, "WEIR_TEST_REDIS")
        words = ["tests/e2e/test_pooler.py", tree] if self.kind == "pooler" else [
            "tests/matrix/check_store.py", tree, self.kind, *([self.refused] if self.refused else [])]
        with subprocess.Popen(words, env={**os.environ, variable: str(program)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as checks:
            try:
                self.output = checks.communicate(timeout=TIMEOUT)[0]
            except subprocess.TimeoutExpired:
                checks.send_signal(signal.SIGINT)  # it then ends what it has started
                self.output = checks.communicate()[0]
                self.problem = f"took more than {TIMEOUT} s"
        self.judge(re.findall(r"^(ok|not ok) \d+ - (.*)$", self.output, re.MULTILINE),
                   checks.returncode == 0 and "\n1.." in self.output)

    def judge(self, results, is_whole):
        words = [outcome == "ok" for outcome, _ in results]
        if self.kind == "pooler":
            self.cells = [f"{sum(words)} of {len(words)} tests pass"] + [""] * 2
        elif self.refused:
            self.cells = ["rejected at the start" if words == [True] else "**not rejected**"] + [""] * 2
        else:
            self.cells = ["passes" if word else "**fails**" for word in words]
        if not is_whole or not all(words):
            self.problem = self.problem or "fails"

    def cell(self, index):
        return self.cells[index] if index < len(self.cells) else "" if index else self.problem or ""


def redis(suite, package):
    return lambda: debian(CACHE, suite, package, f"usr/bin/{package}")


def rows():
    for major in range(12, 19):
        yield Row(f"Postgres {major}", lambda major=major: npm_postgres(CACHE, major), "npm", "postgres",
                  "is too old: weir needs 13 or newer" if major < 13 else None)
    for suite in "bookworm", "trixie", "sid":
        yield Row(f"pgbouncer of {suite}", lambda suite=suite: debian(
            CACHE, suite, "pgbouncer", "usr/sbin/pgbouncer"), f"Debian {suite}", "pooler")
    yield Row("Redis 6.0", redis("bullseye", "redis-server"), "Debian bullseye", "redis", "is too old")
    for name, suite, package in (("Redis 7.0", "bookworm", "redis-server"),
                                 ("Redis 8.0", "trixie", "redis-server"),
                                 ("Redis of sid", "sid", "redis-server"),
                                 ("Valkey 8.0", "bookworm-backports", "valkey-server"),
                                 ("Valkey 8.1", "trixie", "valkey-server"),
                                 ("Valkey of sid", "sid", "valkey-server")):
        yield Row(name, redis(suite, package), f"Debian {suite}", "redis")
        yield Row(f"{name}, cluster", redis(suite, package), f"Debian {suite}", "cluster")


def title(row):
    """With the version that was run in place of what it was looked for by."""
    name, comma, rest = row.name.partition(",")
    return f"{name.split()[0]} {row.version}{comma}{rest}" if row.version else row.name


def table(done):
    lines = ["| store | from | " + " | ".join(COLUMNS) + " |", "|---" * (2 + len(COLUMNS)) + "|"]
    lines += ["| " + " | ".join([title(row), row.source, *(row.cell(i) for i in range(len(COLUMNS)))]) + " |"
              for row in done]
    return "\n".join(lines) + "\n"


def write(text):
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{PAGE} has no place for it"
    today = datetime.date.today().isoformat()
    PAGE.write_text(f"{before}{BEGIN}\nRun on {today}:\n\n{text}\n{END}{after}")


def main():
    tree, *words = sys.argv[1:]
    names = [word for word in words if word != "--write"]
    chosen = [row for row in rows() if not names or any(name in row.name for name in names)]
    if not chosen:
        sys.exit("matrix: no row has such a name")
    CACHE.mkdir(exist_ok=True)
    for row in chosen:
        row.run(tree)
        print(f"{title(row):32} {row.problem or 'well'}", flush=True)
        if row.problem and row.output:
            print("".join(f"    {line}\n" for line in row.output.splitlines()
                          if not line.startswith("ok ")), end="", flush=True)
    print(f"\n{table(chosen)}")
    if "--write" in words:
        write(table(chosen))
    sys.exit(1 if any(row.problem for row in chosen) else 0)


if __name__ == "__main__":
    main()
