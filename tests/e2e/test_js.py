#!/usr/bin/env python3
"""test_js.py - the client for JavaScript: builds it, and runs its tests against real servers.

    test_js.py TREE [NAME...]      from the root of the source; only tests of these names

The tests are clients/js/test/NAME.test.mjs. What npm has to fetch is kept in TREE/js, and the
compiled package too. Where npm reaches no registry, Debian's esbuild compiles the package, and what
needs more than Node.js and the package is skipped.
"""
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, "tests/support")
from npm import fetched  # noqa: E402
from postgres import Postgres  # noqa: E402
from redis import Redis  # noqa: E402
from vectors import TABLE  # noqa: E402
from weir_server import TREE, WEIR, Folder  # noqa: E402

PATIENT = "deadline=20s"  # for a store on a busy machine
CLIENT, KEPT = Path("clients/js").resolve(), TREE / "js"
OF_NPM = {"published", "size", "types"}  # they look at the package with programs of npm
SQL_POLICIES = {**TABLE["policies"]["policies"], "word": {"limit": "5 per 15m", "by": "user"}}


def skip(names, why):
    for number, name in enumerate(names, 1):
        print(f"ok {number} - {name} # skip {why}")
    print(f"1..{len(names)}", flush=True)


def more(name, variable):
    """What the lock file in this folder has: a variable with its place, or with why it is missing."""
    modules, why = fetched(CLIENT / "test" / name, TREE / f"js_{name}")
    return {variable: str(modules)} if modules else {f"WHY_NO_{variable}": why}


def compile_without_npm():
    """The package without types. esbuild checks none."""
    shutil.rmtree(KEPT / "dist", ignore_errors=True)
    sources = sorted(CLIENT.glob("src/**/*.ts"))
    for form, folder in (("esm", KEPT / "dist"), ("cjs", KEPT / "dist/cjs")):
        subprocess.run(["esbuild", *sources, f"--format={form}", f"--outdir={folder}", f"--outbase={CLIENT}/src",
                        "--target=es2022", "--log-level=warning"], check=True)
    (KEPT / "dist/cjs/package.json").write_text('{"type":"commonjs"}\n')
    (KEPT / "dist/package.json").write_text('{"type":"module"}\n')


def compiled():
    """Compiles the package: what the tests need to know, or None and why it cannot be."""
    modules, why = fetched(CLIENT, KEPT)
    if modules:
        found = {"NODE_MODULES": str(modules)}
        subprocess.run(["node", CLIENT / "build.mjs", KEPT / "dist"], env={**os.environ, **found}, check=True)
        return found, None
    if not shutil.which("node") or not shutil.which("esbuild"):
        return None, why
    compile_without_npm()
    return {}, why


def migrate(db):
    db.psql(subprocess.run([WEIR, "migrate", "--print"], capture_output=True, text=True, check=True).stdout)


def database(stack):
    """A Postgres with the functions of weir and a pushed policy, and npm's pg."""
    modules, why = fetched(Path("tests/e2e/sql_clients"), TREE / "js_pg")
    if not modules:
        return {"WHY_NO_POSTGRES": why}
    db = Postgres(fsync="off")
    stack.callback(db.close)
    config = stack.enter_context(Folder()) / "policies.yaml"
    config.write_text(json.dumps({**TABLE["policies"], "policies": SQL_POLICIES}))
    db.psql("CREATE ROLE edge LOGIN")
    migrate(db)
    subprocess.run([WEIR, "policy", "push", config, db.url], stdout=subprocess.DEVNULL, check=True)
    db.psql("SELECT weir.expose('public'); GRANT weir_caller TO edge")
    return {"DATABASE_URL": db.url_of("postgres", "edge"), "OPERATOR_URL": db.url, "PG": str(modules)}


def redis(stack):
    """A Redis, npm's limiters that keep their counters in one, and stores to keep them in instead."""
    found = more("redis_url", "REDIS_PEERS")
    if "REDIS_PEERS" not in found:
        return found
    server, store = stack.enter_context(Redis()), stack.enter_context(Redis())
    db = stack.enter_context(Postgres(fsync="off"))
    migrate(db)
    stores = [f"file:{stack.enter_context(Folder())}/data", f"{store.url}?{PATIENT}", f"{db.url}?{PATIENT}"]
    return {"REDIS_URL": server.url, "STORES": " ".join(["memory:", *stores]), **found}


def checkout(name, suite):
    """The tests of another limiter that npm does not have: their folder and which commit it is, or why there is none."""
    def git(*words):
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        return done.stderr.strip().splitlines()[-1] if done.returncode else None

    kept = {at: TREE / "js_checkouts" / f"{name.replace('/', '+')}-{at}" for at in (suite["commit"], suite["tag"])}
    if not kept[suite["commit"]].exists():
        part = TREE / "js_checkouts/part"
        shutil.rmtree(part, ignore_errors=True)
        source = f"{os.environ.get('WEIR_PEERS', 'https://github.com')}/{suite['repository']}"
        why = git("clone", "--quiet", source, part)
        if why:
            return {"why": f"git cannot fetch it: {why}"}
        at = next((at for at in kept if not git("-C", part, "checkout", "--quiet", at)), None)
        if not at:
            return {"why": f"{source} has neither {' nor '.join(kept)}"}
        shutil.rmtree(kept[at], ignore_errors=True)
        part.rename(kept[at])
    at = next(at for at in kept if kept[at].exists())
    return {"folder": str(kept[at].resolve()), "at": at}


def checked_out():
    suites = json.loads((CLIENT / "test/suites/suites.json").read_text())
    return {"CHECKOUTS": json.dumps({name: checkout(name, suite) for name, suite in suites.items()
                                     if "repository" in suite})}


def main(names):
    names = names or sorted(path.name.removesuffix(".test.mjs") for path in CLIENT.glob("test/*.test.mjs"))
    found, why = compiled()
    without = names if found is None else sorted(OF_NPM & set(names)) if why else []
    if without:
        skip(without, why)
    names = [name for name in names if name not in without]
    if not names:
        return 0
    env = {**os.environ, "WEIR": str(WEIR), "PACKAGE": str(KEPT / "dist"), **found}
    with ExitStack() as stack:
        env.update(more("peers", "PEERS") if {"middleware", "stores", "suites"} & set(names) else {})
        env.update({**more("suites", "SUITE_MODULES"), **checked_out()} if os.environ.get("SUITES") else {})
        env.update(more("runtimes", "RUNTIMES") if {"runtimes", "wire"} & set(names) else {})
        env.update(more("convex", "CONVEX") if {"runtimes", "seeds"} & set(names) else {})
        env.update(more("published", "PUBLISHED") if "published" in names else {})
        env.update(redis(stack) if "redis_url" in names else {})
        env.update(database(stack) if {"memory", "postgres", "seeds", "vectors"} & set(names) else {})
        # Each prints TAP with a plan of its own.
        return max(subprocess.run(["node", "--test-reporter=tap", CLIENT / f"test/{name}.test.mjs"], env=env,
                                  check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
