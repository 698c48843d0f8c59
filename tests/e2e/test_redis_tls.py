#!/usr/bin/env python3
"""test_redis_tls.py - weir with a Redis, a Sentinel and a cluster that speak TLS and nothing else.

    test_redis_tls.py TREE      from the root of the source
"""
import os
import shutil
import socket
import sys
import threading

sys.path.insert(0, "tests/support")
from certificates import make_certs, openssl  # noqa: E402
from proxy import Proxy  # noqa: E402
from redis import Cluster, Redis, Watched  # noqa: E402
from weir_server import TREE, Folder, run, test, wait_until  # noqa: E402
from shared_store import (PATIENT, UNWELL, Fixture, Gang, a_promoted_replica_counts_on,  # noqa: E402
                          asked, comes_back, conforms, falls_back,
                          library_and_server_share_a_limit, never_half_charged,
                          overrides_hold_everywhere, says, used, weir, witness)

# What takes long and adds nothing for a sanitizer is for plain builds.
SANITIZED = "asan" in str(TREE) or "tsan" in str(TREE)
FOLDER = Folder()
CERTS, OTHER, ELSEWHERE, EXPIRED = (FOLDER.path / name for name in
                                    ("certs", "other", "elsewhere", "expired"))
FEW = "version: 1\npolicies: {few: {limit: 5 per 1d, by: user}, open: {limit: 1000 per 1d, by: user, on_error: allow}}\n"


AUTHORITY = """
[ca]
default_ca = ca
database = {folder}/issued
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
serial = {folder}/serial
default_md = sha256
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
[req]
distinguished_name = any
"""


def make_expired(folder):
    """The same, but what the server has was valid in 2020."""
    shutil.copytree(CERTS, folder)
    config = folder / "config"
    config.write_text(AUTHORITY.format(folder=folder))
    (folder / "issued").touch()
    (folder / "serial").write_text("1000\n")
    openssl("req", "-new", "-config", config, "-key", folder / "server.key", "-subj", "/CN=old",
            "-out", folder / "csr")
    said = openssl("ca", "-batch", "-config", config, "-in", folder / "csr", "-notext", "-out",
                   folder / "old.pem", "-startdate", "20200101000000Z", "-enddate", "20201231000000Z")
    assert (folder / "old.pem").exists(), said
    (folder / "old.pem").replace(folder / "server.pem")


make_certs(CERTS)
make_certs(OTHER)
make_certs(ELSEWHERE, "redis.example", "192.0.2.1")
make_expired(EXPIRED)
CLIENT = f"tls_cert={CERTS}/client.pem&tls_key={CERTS}/client.key"


class Home(Fixture):
    """A Redis of its own that requires TLS, and servers that share it."""

    def __init__(self, parameters=PATIENT, tls=CERTS, **options):
        self.redis = Redis(tls=tls, **options)
        super().__init__(f"{self.redis.url}&{parameters}")

    def __exit__(self, kind, *rest):
        try:
            super().__exit__(kind, *rest)
        finally:
            self.redis.__exit__()


class Through(Fixture):
    """The same, through a proxy."""

    def __init__(self, parameters=UNWELL):
        self.redis = Redis(tls=CERTS)
        self.proxy = Proxy(self.redis.address)
        super().__init__(f"rediss://127.0.0.1:{self.proxy.port}?tls_ca={CERTS}/ca.pem&{parameters}")

    def __exit__(self, kind, *rest):
        self.proxy.mode = "pass"
        try:
            super().__exit__(kind, *rest)
        finally:
            self.proxy.close()
            self.redis.__exit__()


def cluster_url(cluster, parameters=PATIENT):
    return "rediss+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.masters) + \
        f"?tls_ca={CERTS}/ca.pem&{parameters}"


def five_of_a_thousand(home):
    """A thousand connections ask at once."""
    home.config.write_text(FEW)
    with Gang([home.serve() for _ in range(4)], 1000) as gang:
        for n in range(3):
            allowed, denied, without = gang.ask(1, "WEIR.CHECK", "few", f"ann-{n}")
            assert (allowed, denied, without) == (5, 995, 0), (allowed, denied, without)


# ---- the contract ----------------------------------------------------------------------------


def long_test(function):
    return function if SANITIZED else test(function)


@long_test
def every_conformance_trace_matches():
    with Home() as home:
        conforms(TREE, home.url, "rediss:", os.environ)


@test
def a_thousand_asks_at_a_limit_of_five():
    with Home() as home:
        five_of_a_thousand(home)


@test
def rules_are_charged_together_and_the_library_shares_them():
    with Home() as home:
        never_half_charged([home.serve(), home.serve()], asks=200)
        library_and_server_share_a_limit(home)


@test
def denials_are_cached_and_changes_of_operators_hold_on_all_servers():
    with Home() as home:
        servers = [home.serve(), home.serve()]
        overrides_hold_everywhere(servers)
        home.redis("FLUSHALL")
        for _ in range(1000):
            servers[0].check("open", "cached")
        for server in servers:
            wait_until(lambda s=server: s.check("open", "cached")["source"] == "cache", "the cache")
        servers[0].http("POST", "/v1/reset", {"policy": "open", "key": "cached"})
        wait_until(lambda: servers[1].check("open", "cached")["allowed"], "the reset to be heard")


@test
def a_cluster_by_tls():
    with Cluster(tls=CERTS) as cluster, Fixture(cluster_url(cluster)) as home:
        if not SANITIZED:
            conforms(TREE, home.url, "rediss+cluster:", os.environ)
        for node in cluster.masters:
            node("FLUSHALL")
        five_of_a_thousand(home)
        assert not [line for server in home.servers for line in server.log.lines
                    if "cannot" in str(line)], home.servers[0].log.lines
        status, found = diagnosis(home.url)
        assert status in (0, 1) and "its state" not in found, found
        assert found.count("TLSv1.3 at 127.0.0.1:") == 3, found


@test
def a_replica_that_sentinel_promotes():
    with Watched(tls=CERTS) as watched, Fixture(
            f"rediss+sentinel://127.0.0.1:{watched.sentinel.port}/main?"
            f"tls_ca={CERTS}/ca.pem&{UNWELL}") as home:
        a_promoted_replica_counts_on(home, watched)


# ---- whom to trust ---------------------------------------------------------------------------


def diagnosis(url):
    done = weir("doctor", url)
    return done.returncode, done.stdout + done.stderr


def is_refused(home, url, *texts):
    """By the server and by `weir doctor`, each with a text that says what to do."""
    for said in (home.refused(store=url), diagnosis(url)[1]):
        assert all(text in said for text in texts), said


def works(home, url):
    server = home.serve(store=url)
    assert server.check("many", "ann")["source"] == "store"
    return server


@test
def a_certificate_of_an_unknown_authority_is_refused():
    with Home() as home:
        bare = f"rediss://127.0.0.1:{home.redis.port}"
        for url in (bare, f"{bare}?tls_ca={OTHER}/ca.pem", f"{bare}?tls_ca={OTHER}/ca.pem&tls_verify=ca"):
            is_refused(home, url, "is signed by 'weir authority', which is not trusted", "tls_ca=FILE")


@test
def a_certificate_for_another_name_is_refused():
    with Home(tls=CERTS) as home:
        url = f"rediss://127.0.0.1:{home.redis.port}?tls_ca={CERTS}/ca.pem"
        is_refused(home, url + "&tls_server_name=redis.example",
                   "is for localhost, 127.0.0.1, ::1 and not for redis.example", "tls_server_name=NAME")
        is_refused(home, url + "&tls_server_name=192.0.2.1", "and not for 192.0.2.1")
        works(home, url + "&tls_server_name=localhost")
        works(home, f"rediss://localhost:{home.redis.port}?tls_ca={CERTS}/ca.pem&{PATIENT}")


@test
def a_name_for_all_servers_and_less_to_verify():
    with Redis(tls=ELSEWHERE, wait=False) as redis, Fixture("unused") as home:
        wait_until(lambda: not socket.socket().connect_ex(redis.address), "Redis")
        url = f"rediss://127.0.0.1:{redis.port}?tls_ca={ELSEWHERE}/ca.pem&{PATIENT}"
        is_refused(home, url, "is for redis.example, 192.0.2.1 and not for 127.0.0.1")
        works(home, url + "&tls_server_name=redis.example")
        works(home, url + "&tls_server_name=192.0.2.1")
        works(home, url + "&tls_verify=ca")
        server = works(home, f"rediss://127.0.0.1:{redis.port}?tls_verify=none&{PATIENT}")
        says(server, "any host on the way can pose as Redis")
        assert "any host on the way" in diagnosis(f"rediss://127.0.0.1:{redis.port}?tls_verify=none")[1]


@test
def an_expired_certificate_is_refused():
    with Redis(tls=EXPIRED, wait=False) as redis, Fixture("unused") as home:
        wait_until(lambda: not socket.socket().connect_ex(redis.address), "Redis")
        is_refused(home, redis.url, "has expired, on 2020-12-31 00:00 UTC", "renew it")


@long_test
def a_server_without_tls_and_one_with_it_are_told_apart():
    with Redis() as plain, Home() as home:
        is_refused(home, f"rediss://127.0.0.1:{plain.port}", "does not use TLS on this port",
                   "use redis:// instead of rediss://")
        url = f"redis://127.0.0.1:{home.redis.port}"
        assert "use rediss:// instead of redis://" in diagnosis(url)[1]
        says(home.serve(store=url), "use rediss:// instead of redis://")


@test
def an_alert_of_a_server_that_expects_tls():
    """Redis hangs up without a word, other servers say first that this is not TLS."""
    def answer():
        with listener.accept()[0] as asker:
            asker.recv(100)
            asker.sendall(b"\x15\x03\x01\x00\x02\x02\x46")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        status, text = diagnosis(f"redis://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert status == 2 and "the server uses TLS on this port: use rediss://" in text, text


@test
def a_client_certificate_that_is_required():
    for options in ({}, {"tls_protocols": '"TLSv1.2"'}):
        with Home(tls_auth_clients="yes", **options) as home:
            is_refused(home, home.url, "a client certificate", "tls_cert=FILE and tls_key=FILE")
            is_refused(home, f"{home.url}&tls_cert={OTHER}/client.pem&tls_key={OTHER}/client.key",
                       "the server rejects the client certificate", "unknown ca")
            works(home, f"{home.url}&{CLIENT}")


@test
def files_that_cannot_be_used_are_named():
    with Home() as home:
        for parameters, text in (
                ("tls_ca=/nonexistent/ca.pem", "cannot read the CA /nonexistent/ca.pem"),
                (f"tls_ca={CERTS}", "is not a file"),
                (f"tls_ca={CERTS}/ca.key", "has no certificates in PEM"),
                (f"tls_cert={CERTS}/client.pem", "give both"),
                (f"tls_cert={CERTS}/client.pem&tls_key={OTHER}/client.key", "does not belong to"),
                ("tls_verify=never", "full, ca or none"), ("tls_verify=ca", "needs tls_ca")):
            is_refused(home, f"rediss://127.0.0.1:{home.redis.port}?{parameters}", text)
        is_refused(home, f"redis://127.0.0.1:{home.redis.port}?tls_ca={CERTS}/ca.pem",
                   "only rediss:// uses TLS")
        key = home.folder.path / "client.key"
        shutil.copy(CERTS / "client.key", key)
        key.chmod(0o644)
        server = works(home, f"{home.url}&tls_cert={CERTS}/client.pem&tls_key={key}")
        says(server, "can be read by every user of this machine")


@test
def certificates_that_are_replaced_are_used_for_the_next_connection():
    with Folder() as folder:
        mine = folder / "mine"
        shutil.copytree(CERTS, mine)
        with Home(UNWELL, tls=mine, tls_auth_clients="yes") as home:
            server = home.serve(store=f"{home.url}&tls_cert={mine}/client.pem&tls_key={mine}/client.key")
            comes_back(server)
            for name in ("ca.pem", "client.pem", "client.key", "server.pem", "server.key"):
                shutil.copy(OTHER / name, mine / name)
            home.redis.crash()
            comes_back(server)


# ---- other ways there ------------------------------------------------------------------------


@test
def a_user_a_password_and_a_database():
    with Home() as home:
        home.redis("ACL", "SETUSER", "limiter", "on", ">s@cret", "~rl:*", "&rl:news", "+@all")
        server = works(home, f"rediss://limiter:s%40cret@127.0.0.1:{home.redis.port}/3?"
                             f"tls_ca={CERTS}/ca.pem&{PATIENT}")
        with home.redis.client() as ask:
            assert ask.info("keyspace").keys() == {"db3"}
            assert b"user=limiter" in ask("CLIENT", "LIST")
        said = home.refused(store=f"rediss://limiter:wrong@127.0.0.1:{home.redis.port}?tls_ca={CERTS}/ca.pem")
        assert "WRONGPASS" in said and "wrong@" not in said, said
        assert server.http("GET", "/readyz")[0] == 200


@test
def an_address_of_ipv6():
    if not socket.has_ipv6 or socket.socket(socket.AF_INET6).connect_ex(("::1", 1)) != 111:
        return "no ::1 here"
    with Home() as home:
        home.redis("CONFIG", "SET", "bind", "127.0.0.1 ::1")
        works(home, f"rediss://[::1]:{home.redis.port}?tls_ca={CERTS}/ca.pem&{PATIENT}")
    return None


# ---- what managed services do ----------------------------------------------------------------


RIGHTS = "~rl:* &rl:news +@all -info -config -script|flush -flushall -cluster|info -cluster|nodes".split()


@test
def a_user_who_may_ask_for_no_statistics():
    with Home(appendonly="yes") as home:
        home.redis("ACL", "SETUSER", "limiter", "on", ">pass", *RIGHTS)
        url = f"rediss://limiter:pass@127.0.0.1:{home.redis.port}?tls_ca={CERTS}/ca.pem&{PATIENT}"
        server = works(home, url)
        says(server, "cannot read statistics of Redis: the user may not use INFO")
        assert server.http("GET", "/v1/stats")[2]["store"]["keys"] in (None, -1)
        home.redis("FLUSHALL")
        wait_until(lambda: home.redis("EXISTS", "rl:secret"), "the secret to be put back")
        status, text = diagnosis(url)
        assert status == 0 and "unseen  server      INFO may not be asked for" in text, text
        home.redis("ACL", "SETUSER", "limiter", "+info")
        status, text = diagnosis(url)
        assert status == 0 and "unseen  durability  CONFIG may not be asked for" in text, text


@test
def clients_say_who_they_are():
    with Home() as home:
        works(home, home.url)
        with home.redis.client() as ask:
            clients = ask("CLIENT", "LIST").decode().splitlines()
            version = tuple(map(int, ask.info("server")["redis_version"].split(".")[:2]))
        named = [line for line in clients if " name=weir " in line]
        assert len(named) >= 4, clients  # a link, the feed, its clock, statistics
        if version >= (7, 2):
            assert all("lib-name=weir lib-ver=0." in line for line in named), named


def one_endpoint(kind, **options):
    """A cluster of which only one address is given, and whose nodes are named by `kind`."""
    with Cluster(tls=CERTS, cluster_preferred_endpoint_type=kind, **options) as cluster:
        first = cluster.masters[0]
        url = f"rediss+cluster://localhost:{first.port}?tls_ca={CERTS}/ca.pem&{PATIENT}"
        hosts = {master[0] for _, _, master, *_ in first("CLUSTER", "SLOTS")}
        with Fixture(url) as home:
            server = home.serve()
            for n in range(50):
                assert server.check("many", f"u{n}")["source"] == "store"
            assert all(node("DBSIZE") > 1 for node in cluster.masters)
            text = diagnosis(url)[1]
            assert "16384 of 16384" in text and text.count("it runs at localhost:") == 3, text
        return hosts


@long_test
def a_cluster_that_gives_no_hosts():
    with Redis() as redis:
        if int(redis.client().info("server")["redis_version"].split(".")[0]) < 7:
            return "before Redis 7 nodes always give addresses"
    assert one_endpoint("unknown-endpoint") == {None}
    assert one_endpoint("hostname", cluster_announce_hostname="localhost") == {b"localhost"}
    return None


# ---- a way that is bad -----------------------------------------------------------------------


@test
def a_handshake_that_is_cut_or_slow():
    with Through() as home:
        home.proxy.mode = "reset"
        said = diagnosis(home.url)[1]
        assert "during the TLS handshake" in said, said
        home.proxy.mode = "half"
        said = diagnosis(home.url)[1]
        assert "no TLS handshake within 1000 ms" in said, said
        home.proxy.mode = "cut"
        said = diagnosis(home.url)[1]
        assert "no TLS handshake within 1000 ms" in said, said
        home.proxy.mode = "drip"
        assert "it runs" in diagnosis(home.url)[1]


@long_test
def a_server_starts_while_no_handshake_ends():
    with Through() as home:
        home.proxy.mode = "half"
        server = home.serve()
        says(server, "no TLS handshake within")
        falls_back(server)
        home.proxy.mode = "pass"
        comes_back(server)


@test
def connections_that_break_are_made_again():
    with Through() as home:
        server = home.serve()
        comes_back(server)
        counted, unknown = witness(server)
        for _ in range(3):
            home.proxy.mode = "reset"
            falls_back(server)
            home.proxy.mode = "pass"
            comes_back(server)
        assert counted <= used(server, "open", "witness") <= counted + unknown
        for _ in range(3):
            home.redis("CLIENT", "KILL", "TYPE", "normal")
            comes_back(server)


@test
def half_a_record_is_waited_for_without_a_spinning_loop():
    with Through() as home:
        server = home.serve(threads=1)
        comes_back(server)
        home.proxy.mode = "half"
        begin = home.proxy.halves
        wait_until(lambda: asked(server)[0] == "fallback" and home.proxy.halves > begin, "on_error")
        before = cpu_seconds(server)
        falls_back(server)
        wall = 0.5
        threading.Event().wait(wall)  # the measure itself: what is used in this time
        assert cpu_seconds(server) - before < wall, "a loop that turns without end"
        home.proxy.mode = "pass"
        comes_back(server)
        home.proxy.mode = "drip"
        wait_until(lambda: all(asked(server, user="drip")[0] == "store" for _ in range(10)), "drops")


@test
def records_that_come_together_are_all_read():
    """The reply to WAIT is a record of its own, which the socket no longer has when it is due."""
    with Through("wait_replicas=1&deadline=5s") as home, home.redis.replica():
        server = home.serve(threads=1)
        comes_back(server)
        home.proxy.mode = "join"
        for _ in range(10):
            assert asked(server, user="join")[0] == "store"  # long before the deadline


def cpu_seconds(server):
    fields = open(f"/proc/{server.process.pid}/stat", encoding="ascii").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@test
def answers_of_many_records():
    """One turn's answers are larger than a record, and larger than what is read at once."""
    with Home() as home:
        home.config.write_text(
            "version: 1\npolicies:\n  many: {limit: 1000 per 1d, by: user}\n  wide:\n    rules:\n" +
            "".join(f"      r{n}: {{limit: {1000 + n} per 1d, by: user}}\n" for n in range(16)))
        server = home.serve(threads=1)
        checks = [{"policy": "wide", "key": f"u{n}"} for n in range(1000)]
        for _ in range(3):
            answers = server.http("POST", "/v1/check", {"checks": checks})[2]["answers"]
            assert {answer["source"] for answer in answers} == {"store"}, answers[0]
        for n in range(300):
            server.http("PUT", "/v1/overrides", {
                "policy": "many", "key": f"k{n}", "effect": "block", "for": "1h", "who": "ann",
                "reason": "x" * 200})
        assert home.serve().check("many", "k299")["source"] == "blocked"  # by LRANGE of some 100 KB


try:
    run()
finally:
    FOLDER.__exit__()
