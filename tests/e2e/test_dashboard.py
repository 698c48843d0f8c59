#!/usr/bin/env python3
"""test_dashboard.py - the console for operators in a real browser, with real servers behind it.

    test_dashboard.py TREE      from the root of the source

What npm has to fetch is kept in TREE/dashboard. WEIR_TEST_PICTURES=docs makes the pictures of the
documentation. Without npm or Chromium, or where npm reaches no registry, the browser's part is skipped.
"""
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, "tests/support")
from certificates import openssl  # noqa: E402
from npm import browser, drive, scenarios  # noqa: E402
from postgres import Postgres  # noqa: E402
from redis import Redis  # noqa: E402
from weir_server import Folder, Server, TREE, WEIR, run, test  # noqa: E402

SCRIPT = Path("tests/e2e/dashboard/drive.js").resolve()
PICTURES = ("console-overview", "console-dark", "console-policy", "console-identity", "console-phone")
SIZES = {}
POLICIES = """version: 1
policies:
  login:  {limit: 5 per 15m, by: ip}
  search: {limit: 100 per 1m, by: ip, shadow_limit: 1 per 1m}
  signup: {limit: 3 per 1h, by: ip}
  query:
    by: tenant
    limit: 1000 per 1d
    plans: {paid: 10000 per 1d}
  export: {limit: 20 per 1h, by: [tenant, ip]}
  /api/login: {limit: 5 per 15m, by: user}
alerts:
  rules:
    login-attack: {deny_rate: 20% per 5m, policy: login}
    store-away: {breaker_open: 10s}
"""
BUDGETS = POLICIES.replace("alerts:", """  model:
    by: tenant
    rules:
      running: {limit: 4 at once}
      tokens: {limit: 100000 per 1d, algorithm: fixed_window, counts: tokens}
alerts:""")
TOKENS = {"admin": "admin, check", "view": "view", "metrics": "metrics", "check": "check"}


def week():
    """Seven days of two policies, with a busy time each day and an attack on one of them."""
    now = int(time.time() * 1000) // 3600000 * 3600000
    for hour in range(7 * 24, 0, -1):
        at = now - hour * 3600000
        busy = 1 + math.sin(2 * math.pi * (at / 3600000 - 9) / 24)
        attack = 900 if 40 <= hour < 46 else 0
        yield f"{at} login (check) {int(300 * busy) + 20} {int(15 * busy) + attack} 0 0"
        yield f"{at} search (check) {int(1200 * busy) + 50} 2 {int(150 * busy)} 0"


def certify(folder):
    """A certificate that ends in five days."""
    folder.mkdir()
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "5",
            "-subj", "/CN=localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    return "--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"


def serve(folder, store, policies, *words):
    """A server with a token for each scope. Its policy file is a link, so that changes wait for a reload."""
    (folder / "linked").mkdir(parents=True)
    (folder / "policies.yaml").symlink_to("linked/policies.yaml")
    tokens = "server:\n  tokens:\n"
    for name, scopes in TOKENS.items():
        (folder / f"{name}.token").write_text(f"a-token-to-{name}-here")
        (folder / f"{name}.token").chmod(0o600)
        tokens += f"    - {{file: {name}.token, scope: [{scopes}]}}\n"
    (folder / "policies.yaml").write_text(policies + tokens)
    return Server(*words, threads=2, config=folder / "policies.yaml", store=store)


def push(policies, db):
    """Put these into the database, for checks by SQL."""
    subprocess.run([WEIR, "policy", "push", "-", db.url], input=policies, text=True, check=True, stdout=subprocess.DEVNULL)


def drive_all():
    """{scenario: what went wrong, or None}; or why there is none."""
    modules, why = browser(TREE)
    if why:
        return None, why
    with Folder() as folder, Redis() as redis, Postgres() as db:
        db.migrate()
        push(POLICIES.replace("5 per 15m, by: ip", "6 per 15m, by: ip").replace("3 per 1h", "4 per 1h"), db)
        subprocess.run([TREE / "tests/seed_history", folder / "data"], input="\n".join(week()) + "\n",
                       text=True, check=True)
        with serve(folder / "main", f"file:{folder}/data", BUDGETS) as server, \
                serve(folder / "a", redis.url, POLICIES) as a, serve(folder / "b", redis.url, POLICIES) as b, \
                serve(folder / "c", redis.url, POLICIES) as c, \
                serve(folder / "d", "memory:", POLICIES, *certify(folder / "tls")) as secured, \
                serve(folder / "e", db.url, POLICIES) as pushed:
            found = drive(SCRIPT, modules, str(folder / "main"), server.url, f"https://localhost:{secured.port}", pushed.url,
                          a.url, b.url, c.url, asked={"push": lambda: push(POLICIES, db), "stopped store": redis.kill})
        for name in PICTURES:
            picture = folder / "main" / f"{name}.png"
            if picture.exists():
                SIZES[name] = picture.stat().st_size
                shutil.copy(picture, Path(os.environ.get("WEIR_TEST_PICTURES") or TREE))
        return found, None


RESULTS, SKIPPED = drive_all()
scenarios(test, SCRIPT, RESULTS, SKIPPED)


@test
def the_pictures_are_small():
    if SKIPPED:
        return SKIPPED
    assert set(SIZES) == set(PICTURES) and all(10_000 < size < 200_000 for size in SIZES.values()), SIZES
    return None


# ---- without a browser -------------------------------------------------------------------------


@test
def a_browser_gets_the_page_and_a_program_the_list():
    with Server() as server:
        status, headers, body = server.http("GET", "/", None, {"Accept": "text/html,*/*"})
        assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8", headers
        assert b"<title>weir</title>" in body
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy, policy
        assert "frame-ancestors 'none'" in policy and headers["X-Content-Type-Options"] == "nosniff"
        assert server.http("GET", "/", None, {"Accept": "*/*"})[2]["name"] == "weir"
        assert server.http("HEAD", "/ui/app.js")[1]["Content-Type"].startswith("text/javascript")


@test
def all_files_are_there_and_ask_for_no_others():
    with Server() as server:
        for file in Path("web").iterdir():
            status, _, body = server.http("GET", f"/ui/{file.name}")
            assert status == 200 and (body == file.read_bytes() or file.suffix == ".html"), file
            text = body.decode().replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in text and "https:" not in text and "//cdn" not in text, file
        assert server.http("GET", "/ui/embed.py")[0] == 404
        assert server.http("GET", "/ui/../dev")[0] in (400, 404)
        assert server.http("POST", "/ui/app.js")[0] in (404, 405)


run()
