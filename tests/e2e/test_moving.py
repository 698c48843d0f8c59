#!/usr/bin/env python3
"""test_moving.py - the policies of docs/moving.md decide as the limiters that they replace.

    test_moving.py TREE      from the root of the source
"""
import http.client
import json
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, "tests/support")
from redis import Redis  # noqa: E402
from weir_server import Folder, Server, free_port, run, test, wait_until  # noqa: E402

PAGE = open("docs/moving.md", encoding="utf-8").read()
POLICIES = re.search(r"```yaml\n(version:.*?)```", PAGE, re.DOTALL)[1]
NOW = 1_700_000_000_000
NGINX = """
daemon off; pid nginx.pid; error_log stderr crit; worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
    limit_req_zone $binary_remote_addr zone=a:1m rate=1r/m;
    limit_req_zone $binary_remote_addr zone=b:1m rate=1r/m;
    server {{
        listen 127.0.0.1:{port};
        limit_req_status 429;
        location /plain {{ limit_req zone=a; try_files /x =204; }}
        location /nodelay {{ limit_req zone=b burst=20 nodelay; try_files /x =204; }}
    }}
}}
"""


class Nginx:
    def __init__(self, folder):
        self.port = free_port()
        (folder / "t").mkdir()
        conf = NGINX.format(port=self.port)
        (folder / "nginx.conf").write_text(conf)
        self.process = subprocess.Popen(["nginx", "-p", str(folder), "-c", "nginx.conf"],
                                        stderr=subprocess.DEVNULL)
        wait_until(self.answers, "nginx")

    def answers(self):
        assert self.process.poll() is None, "nginx ended"
        try:
            return self.get("/")
        except OSError:
            return None

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


class Weir:
    """A server by the policies of the page, asked at times that the test chooses."""

    def __init__(self, folder):
        config = folder / "policies.yaml"
        config.write_text(POLICIES)
        self.server = Server("--trust-client-clock", config=config)
        self.connection = http.client.HTTPConnection(*self.server.address, timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.server.__exit__()

    def __call__(self, policy, key, now):
        self.connection.request("POST", "/v1/check",
                                json.dumps({"policy": policy, "key": key, "now": now}))
        answer = json.loads(self.connection.getresponse().read())
        return answer["allowed"], answer


class LimitReq:
    """ngx_http_limit_req_module: thousandths of requests that are in excess of the rate."""

    def __init__(self, rate_per_second, burst):
        self.rate, self.burst, self.excess, self.last = 1000 * rate_per_second, 1000 * burst, None, 0

    def __call__(self, now):
        excess = 0
        if self.excess is not None:
            excess = max(0, self.excess - self.rate * (now - self.last) // 1000 + 1000)
        if excess > self.burst:
            return None
        self.excess, self.last = excess, now
        return excess * 1000 // self.rate  # ms that nginx would delay it


def arrivals(seed, count, pauses):
    """Times of requests: crowds, and pauses between them."""
    dice, now = random.Random(seed), NOW
    for _ in range(count):
        yield now
        now += dice.choice(pauses)


@test
def nginx_itself_allows_the_burst_and_one_more():
    if not shutil.which("nginx"):
        return "nginx is not installed"
    with Folder() as folder, Nginx(folder) as nginx:
        for path, expected in (("/plain", 1), ("/nodelay", 21)):
            statuses = [nginx.get(path) for _ in range(40)]
            assert statuses.count(429) == 40 - expected, (path, statuses)
            assert statuses[:expected] == [statuses[0]] * expected != [429] * expected, statuses
    with Folder() as folder, Weir(folder) as weir:
        for policy, expected in (("nginx-plain", 1), ("nginx-nodelay", 21)):
            assert sum(weir(policy, "192.0.2.1", NOW)[0] for _ in range(40)) == expected


@test
def limit_req_and_its_policies_decide_alike():
    with Folder() as folder, Weir(folder) as weir:
        for policy, burst in (("nginx-plain", 0), ("nginx-nodelay", 20), ("nginx-delay", 20)):
            seed, denied = random.randrange(1 << 30), 0
            nginx = LimitReq(10, burst)
            for now in arrivals(seed, 600, [0, 0, 1, 7, 50, 99, 100, 101, 300]):
                delay = nginx(now)
                allowed, answer = weir(policy, "192.0.2.2", now)
                assert allowed == (delay is not None), (policy, seed, now, delay, answer)
                denied += not allowed
                if allowed and policy == "nginx-delay":
                    assert answer["delay_ms"] == delay, (seed, now, delay, answer)
            assert 20 < denied < 580, denied


@test
def incr_with_the_minute_in_its_key_is_a_fixed_window():
    with Redis() as redis, Folder() as folder, Weir(folder) as weir:
        seed, denied = random.randrange(1 << 30), 0
        with redis.client() as ask:
            for now in arrivals(seed, 600, [0, 1, 100, 300, 900]):
                key = f"api:user:{now // 60000}"
                count = ask("INCR", key)
                ask("EXPIRE", key, 60)
                allowed, answer = weir("per-minute", "user", now)
                assert allowed == (count <= 100), (seed, now, count, answer)
                denied += not allowed
        assert 20 < denied < 580, denied


@test
def expire_at_the_first_request_allows_what_a_sliding_window_does_not():
    with Folder() as folder, Weir(folder) as weir:
        def first_hit(times):
            count, end = 0, 0
            for now in times:
                count, end = (1, now + 900_000) if now >= end else (count + 1, end)
                yield count <= 5
        times = [NOW] + [NOW + 899_000 + i for i in range(4)] + [NOW + 900_000 + i for i in range(5)]
        assert sum(first_hit(times)) == 10  # nine of them within a second and a bit
        assert sum(weir("login", "192.0.2.3", now)[0] for now in times) == 6
        seed = random.randrange(1 << 30)
        passed = [now for now in arrivals(seed, 300, [0, 1000, 60_000, 400_000])
                  if weir("login", "192.0.2.4", now)[0]]
        for i, now in enumerate(passed[5:]):
            assert now - passed[i] >= 900_000, (seed, now, passed[i])


@test
def a_sliding_window_of_upstash_is_a_sliding_counter_but_for_rounding():
    with Folder() as folder, Weir(folder) as weir:
        seed, denied = random.randrange(1 << 30), 0
        current, previous, window = 0, 0, NOW // 60000
        for now in arrivals(seed, 900, [0, 100, 300, 500, 900]):
            while window < now // 60000:
                current, previous, window = 0, current, window + 1
                if window < now // 60000:
                    previous = 0
            share = previous * (60000 - now % 60000)
            allowed, answer = weir("upstash-sliding", "user", now)
            exact = current * 60000 + share + 60000 <= 100 * 60000
            rounded = current + share // 60000 < 100
            assert allowed == exact, (seed, now, current, previous, answer)
            assert rounded or not allowed, (seed, now, current, previous, answer)
            current += allowed
            denied += not allowed
        assert 20 < denied < 880, denied


if __name__ == "__main__":
    run()
