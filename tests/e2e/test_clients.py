#!/usr/bin/env python3
"""test_clients.py - programs and libraries that people already have, against a real server.

    test_clients.py TREE      from the root of the source

What npm has to fetch is kept in TREE/clients. Without npm, or where it reaches no registry, what
needs it is skipped, and of node-redis only Debian's is tested.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from npm import fetched  # noqa: E402
from weir_server import Folder, PATIENCE, Server, TREE, command, free_port, run, test  # noqa: E402

CLIENTS = Path("tests/e2e/clients").resolve()
TOKEN = "0123456789abcdef0123"
POLICIES = """
version: 1
policies:
  login:        {limit: 5 per 15m, by: ip}
  report:       {limit: 5 per 1d, by: user}
  bulk:         {limit: 3 per 1h, by: user}
  pipelined:    {limit: 500 per 1d, by: user}
  asynchronous: {limit: 500 per 1d, by: user}
  wide:         {limit: 1000000 per 1d, by: user}
"""


class Place:
    """A folder with policies and a token, and a port, for one server after the other."""

    def __init__(self, *arguments):
        self.folder = Folder()
        self.path = self.folder.path
        (self.path / "policies.yaml").write_text(POLICIES)
        (self.path / "token").write_text(TOKEN)
        self.arguments, self.port = arguments, free_port()
        self.start()

    def start(self):
        self.server = Server(*self.arguments, config=self.path / "policies.yaml", threads=2,
                             store=f"file:{self.path}/data", listen=f"127.0.0.1:{self.port}")
        self.url = self.server.url

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def run(self, *words, **more):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, **more)
        assert done.returncode == 0, done
        return done.stdout

    def curl(self, *words, **more):
        return self.run("curl", "-sS", *words, **more)

    def redis_cli(self, *words, **more):
        return self.run("redis-cli", "-p", self.port, *words, **more)

    def metric(self, pattern):
        """The sum of all series that begin like this."""
        text = self.server.http("GET", "/metrics")[2].decode()
        return sum(int(n) for n in re.findall(rf"^{pattern}.* (\d+)$", text, re.M))


def secured():
    place = Place()
    place.server.stop()
    place.arguments = ("--token-file", f"check,admin,metrics:{place.path}/token")
    place.start()
    return place


def heads(text):
    """Status and headers of an answer that curl shows with -i."""
    status, *lines = text.partition("\n\n")[0].splitlines()
    return int(status.split()[1]), {name.lower(): value.strip() for name, _, value in
                                    (line.partition(":") for line in lines)}


# ---- curl -------------------------------------------------------------------------------------

LOGIN = '{"policy":"login","key":"203.0.113.7"}'


@test
def curl_checks_by_post_and_by_get():
    with Place() as it:
        answers = [json.loads(it.curl("--json", LOGIN, f"{it.url}/v1/check")) for _ in range(3)]
        answers += [json.loads(it.curl(f"{it.url}/v1/check?policy=login&ip=203.0.113.7"))
                    for _ in range(3)]
        assert [(a["allowed"], a["remaining"]) for a in answers] == [
            (True, 4), (True, 3), (True, 2), (True, 1), (True, 0), (False, 0)], answers
        assert 0 < answers[5]["retry_after_ms"] <= 900_000


@test
def curl_passes_the_gate_five_times_as_the_user_in_a_header():
    with Place() as it:
        for attempt in range(6):
            text = it.curl("-i", "-H", "X-User: ann",
                           f"{it.url}/v1/gate?policy=report&header.user=X-User")
            status, headers = heads(text)
            assert status == (200 if attempt < 5 else 429), text
            assert headers["x-ratelimit-remaining"] == str(max(4 - attempt, 0)), headers
        assert 0 < int(headers["retry-after"]) <= 86400, headers
        assert headers["content-type"] == "application/problem+json", headers
        assert json.loads(text.partition("\n\n")[2])["violated-policies"] == ["report"], text
        assert heads(it.curl("-i", "-H", "X-User: bob",
                             f"{it.url}/v1/gate?policy=report&header.user=X-User"))[0] == 200


@test
def curl_asks_many_times_on_one_connection():
    with Place() as it:
        said = it.curl("-o", "/dev/null", "-w", "%{http_code} %{num_connects}\n",
                       f"{it.url}/v1/check?policy=wide&user=[1-20]").splitlines()
        assert said == ["200 1"] + ["200 0"] * 19, said


@test
def curl_asks_many_times_in_parallel():
    with Place() as it:
        said = it.curl("-Z", "--parallel-immediate", "-o", "/dev/null", "-w", "%{http_code}\n",
                       f"{it.url}/v1/gate?policy=login&ip=192.0.2.1&n=[1-50]").splitlines()
        assert sorted(said) == ["200"] * 5 + ["429"] * 45, said


@test
def curl_uploads_in_chunks():
    with Place() as it:
        answer = it.curl("-H", "Transfer-Encoding: chunked", "-H", "Content-Type: application/json",
                         "-T", "-", "-X", "POST", f"{it.url}/v1/check", input=LOGIN)
        assert json.loads(answer)["remaining"] == 4, answer


def many_checks(place, length):
    """A body of about this length; how many checks are in it."""
    check = '{"policy":"wide","attributes":{"user":"%s"}}' % ("u" * 900)
    count = length // len(check)
    (place.path / "body").write_text('{"checks":[%s]}' % ",".join([check] * count))
    return count


@test
def curl_waits_for_100_before_a_large_body():
    with Place() as it:
        count = many_checks(it, 500_000)
        done = subprocess.run(["curl", "-sSv", "-H", "Expect: 100-continue", "--expect100-timeout",
                               str(PATIENCE), "--json", f"@{it.path}/body", f"{it.url}/v1/check"],
                              capture_output=True, text=True, timeout=PATIENCE, check=True)
        assert "< HTTP/1.1 100 Continue" in done.stderr, done.stderr
        answers = json.loads(done.stdout)["answers"]
        assert [a["remaining"] for a in answers] == [999_999 - i for i in range(count)]


@test
def curl_learns_that_a_body_is_too_large_before_it_sends_it():
    with Place() as it:
        many_checks(it, 3_000_000)
        said = it.curl("-i", "-H", "Expect: 100-continue", "--expect100-timeout", PATIENCE,
                       "-w", "%{size_upload}", "--json", f"@{it.path}/body", f"{it.url}/v1/check")
        assert heads(said)[0] == 413, said
        assert said.endswith("0"), said


@test
def curl_looks_by_head_and_options():
    with Place() as it:
        text = it.curl("-I", f"{it.url}/v1/policies")
        status, headers = heads(text)
        assert status == 200 and int(headers["content-length"]) > 100, text
        status, headers = heads(it.curl("-i", "-X", "OPTIONS", f"{it.url}/v1/check"))
        assert (status, headers["allow"]) == (204, "GET, HEAD, POST, OPTIONS"), headers


@test
def curl_speaks_http_1_0():
    with Place() as it:
        status, headers = heads(it.curl("-0", "-i", f"{it.url}/v1/check?policy=login&ip=192.0.2.1"))
        assert (status, headers["connection"]) == (200, "close"), headers


@test
def curl_shows_a_token():
    with secured() as it:
        url = f"{it.url}/v1/check?policy=login&ip=192.0.2.1"
        assert heads(it.curl("-i", url))[0] == 401
        assert heads(it.curl("-i", "--oauth2-bearer", TOKEN, url))[0] == 200
        assert heads(it.curl("-i", "-H", f"Authorization: Bearer {TOKEN}", url))[0] == 200


# ---- redis-cli and redis-benchmark ------------------------------------------------------------

@test
def redis_cli_checks_peeks_refunds_and_resets():
    with Place() as it:
        for words, reply in (
                ("WEIR.CHECK login 192.0.2.1", [1, 5, 4, 0, 900000, "default", "store"]),
                ("WEIR.CHECK login 192.0.2.1 COST 3", [1, 5, 1]),
                ("WEIR.CHECK login 192.0.2.1 COST 2", [0, 5, 1]),
                ("WEIR.PEEK login 192.0.2.1", [1, 5, 1]),
                ("WEIR.REFUND login 192.0.2.1", [1, 5, 2]),
                ("WEIR.RESET login 192.0.2.1", [1, 5, 5]),
                ("WEIR.CHECK login ip=192.0.2.1", [1, 5, 4]),
                ("WEIR.LIMIT user:1 token_bucket 10 60000 BURST 20", [1, 10, 19])):
            heard = json.loads(it.redis_cli("--json", *words.split()))
            assert heard[:len(reply)] == reply, (words, heard)
        heard = it.redis_cli("-3", "WEIR.CHECK", "login", "192.0.2.1").splitlines()
        assert heard[0] == "1" and heard[2] == "3" and heard[5:] == ["default", "store"], heard


@test
def redis_cli_gets_what_the_readme_of_redis_cell_promises():
    with Place() as it:
        heard = [it.redis_cli("CL.THROTTLE", "user123", 15, 30, 60).split() for _ in range(17)]
        assert heard[0] == ["0", "16", "15", "-1", "2"], heard[0]
        assert heard[15][:3] == ["0", "16", "0"] and heard[16][0] == "1", heard
        heard = it.redis_cli("CL.THROTTLE", "user456", 15, 30, 60, 1).split()
        assert heard == ["0", "16", "15", "-1", "2"], heard


@test
def redis_cli_says_hello_and_shows_errors():
    with Place() as it:
        heard = dict(line.split(" ", 1) for line in it.redis_cli("HELLO", 3).splitlines() if line)
        assert heard["server"] == "weir" and heard["proto"] == "3", heard
        heard = it.redis_cli(input="PING\nWEIR.CHECK none a\nNOPE\nECHO still-here\n")
        assert [line for line in heard.splitlines() if line] == [
            "PONG", "NO_SUCH_POLICY there is no policy 'none'", "ERR unknown command 'NOPE'",
            "still-here"], heard


@test
def redis_cli_shows_a_token():
    with secured() as it:
        assert it.redis_cli("PING").startswith("NOAUTH ")
        assert it.redis_cli("-a", TOKEN, "--no-auth-warning", "PING") == "PONG\n"
        assert it.redis_cli("--user", "ann", "--pass", TOKEN, "--no-auth-warning", "-3",
                            "PING") == "PONG\n"


@test
def redis_cli_sends_ten_thousand_in_a_pipe():
    with Place() as it:
        commands = b"".join(command("WEIR.CHECK", "wide", f"u{i % 100}") for i in range(10_000))
        (it.path / "commands").write_bytes(commands)
        with open(it.path / "commands", "rb") as stdin:
            said = it.redis_cli("--pipe", stdin=stdin)
        assert said.splitlines()[-1] == "errors: 0, replies: 10000", said
        assert it.metric('weir_decisions_total{policy="wide"') == 10_000
        assert it.redis_cli("WEIR.PEEK", "wide", "u99").split()[2] == "999900"


@test
def redis_benchmark_is_answered_as_often_as_it_asked():
    with Place() as it:
        words = "redis-benchmark", "-p", it.port, "-n", 20_000, "-c", 20, "-P", 16, "-q"
        before = it.metric('weir_requests_total{protocol="resp",status="ok"}')
        assert "requests per second" in it.run(*words, "-t", "ping_mbulk")
        after = it.metric('weir_requests_total{protocol="resp",status="ok"}')
        # It asks for CONFIG, too.
        assert 20_000 <= after - before <= 20_010, after - before

        assert "requests per second" in it.run(*words, "-r", 50, "WEIR.CHECK", "wide",
                                               "u:__rand_int__")
        assert it.metric('weir_decisions_total{policy="wide"') == 20_000
        assert "requests per second" in it.run(*words, "--threads", 2, "WEIR.CHECK", "pipelined",
                                               "u")
        decided = {outcome: it.metric(f'weir_decisions_total{{policy="pipelined",rule="default",'
                                      f'outcome="{outcome}"') for outcome in ("allowed", "denied")}
        assert decided == {"allowed": 500, "denied": 19_500}, decided


# ---- wrk --------------------------------------------------------------------------------------

@test
def wrk_has_no_socket_errors_and_only_200_and_429():
    with Place() as it:
        said = it.run("wrk", "-t", 2, "-c", 50, "-d", "2s",
                      f"{it.url}/v1/gate?policy=pipelined&user=a")
        assert "Socket errors" not in said, said
        asked = int(re.search(r"(\d+) requests in", said)[1])
        refused = int(re.search(r"Non-2xx or 3xx responses: (\d+)", said)[1])
        assert asked > 1000 and asked - refused == 500, said
        heard = {status: it.metric(f'weir_requests_total{{protocol="http",status="{status}"')
                 for status in ("200", "429", "[^24]")}
        # What was under way when the time was over is not in its count.
        assert heard["[^24]"] == 0 and refused <= heard["429"] <= refused + 50, (heard, said)
        assert it.metric('weir_decisions_total{policy="pipelined",rule="default",'
                         'outcome="allowed"') == 500


# ---- libraries ----------------------------------------------------------------------------------

@test
def hiredis_asks_one_by_one_in_a_pipeline_and_asynchronously():
    program = TREE / "tests/hiredis_client"
    if not program.exists():
        return "hiredis was not there when this was built"
    with secured() as it:
        said = it.run(program, it.port, TOKEN).splitlines()
        assert said == ["one by one: 5 allowed, 5 refused, 0 others",
                        "in a pipeline: 500 allowed, 500 refused, 0 others",
                        "asynchronously: 500 allowed, 500 refused, 0 others"], said
    return None


def speaks_with(modules, script, *words, error="NO_SUCH_POLICY there is no policy 'none'"):
    if not shutil.which("node"):
        return "node is not installed"
    with secured() as it:
        with subprocess.Popen(["node", CLIENTS / script, str(it.port), TOKEN, *words],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "NODE_PATH": str(modules)}) as client:
            try:
                heard = json.loads(client.stdout.readline() or "{}")
                assert heard == {
                    "ping": "PONG",
                    "checks": [[1, 5, 4, 0, 900000, "default", "store"],
                               [1, 5, 3, 0, heard["checks"][1][4], "default", "store"]],
                    "throttle": [0, 16, 15, -1, 2], "allowed": 500, "multi": [1, 0],
                    "error": error}, heard
                it.server.stop()
                it.start()
                client.stdin.write("\n")
                client.stdin.flush()
                heard = json.loads(client.stdout.readline() or "{}")
                assert heard["again"][:3] == [1, 5, 2], heard
                heard = json.loads(client.stdout.readline() or "{}")
                assert heard["stranger"].startswith("NOAUTH "), heard
                assert client.wait(PATIENCE) == 0
            finally:
                client.kill()
    return None


@test
def ioredis_connects_pipelines_and_reconnects_after_a_restart():
    modules, problem = fetched(CLIENTS, TREE / "clients")
    return problem or speaks_with(modules, "ioredis.js")


@test
def node_redis_connects_pipelines_and_reconnects_after_a_restart():
    modules, problem = fetched(CLIENTS, TREE / "clients")
    return problem or speaks_with(modules, "node_redis.js", "2")


@test
def node_redis_does_so_in_resp3():
    modules, problem = fetched(CLIENTS, TREE / "clients")
    return problem or speaks_with(modules, "node_redis.js", "3")


@test
def redis_py_sends_its_pipelines_as_transactions():
    python = "/usr/bin/python3"  # the one that Debian's modules are for
    if subprocess.run([python, "-c", "import redis"], cwd="/", capture_output=True,
                      check=False).returncode:
        return "redis-py is not installed"
    with secured() as it:
        heard = json.loads(it.run(python, CLIENTS / "redis_py.py", it.port, TOKEN, cwd="/"))
    aborted = heard.pop("aborted")
    assert "unknown command 'WEIR.CHOCK'" in aborted, aborted
    reset = heard["full"].pop("reset_after_ms")
    assert 0 < reset <= 900000, reset
    assert heard == {
        "ping": True, "allowed": [1] * 5 + [0] * 2, "left": 5, "pipelined": 500,
        "full": {"allowed": 1, "policy": "login", "rule": "default", "limit": 5, "remaining": 4,
                 "retry_after_ms": 0, "delay_ms": 0, "source": "store", "shadow": 0,
                 "override": 0}}, heard


@test
def the_node_redis_of_debian_does_so_as_well():
    modules = Path("/usr/share/nodejs")
    if not (modules / "redis").exists():
        return "node-redis is not installed"
    return speaks_with(modules, "node_redis.js", "2")


run()
