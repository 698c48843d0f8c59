"""redis.py - for tests written in Python: real Redis servers, and a client for them.

    with Redis() as server, server.client() as ask:
        ask("SET", "a", 1)

    with Cluster() as cluster: ...         three masters
    with Watched() as watched: ...         a master, its replica, and a Sentinel for them
    with Redis(tls=certs) as server: ...   by TLS alone; Cluster and Watched likewise

`tls` is a folder that make_certs() has filled.
A server has a folder and a port of its own. It is asked until it is ready, and stopped by its pid.
What is started is `redis-server`, or what the environment has in WEIR_TEST_REDIS.
"""
import os
import shutil
import socket
import ssl
import subprocess
import time

from weir_server import PATIENCE, Folder, command, free_port, wait_until

PROGRAM = shutil.which(os.environ.get("WEIR_TEST_REDIS", "redis-server"))


class Refused(Exception):
    """An error reply. `code` is its first word."""

    @property
    def code(self):
        return str(self).split(" ", 1)[0]


class Client:
    """One connection, RESP2. Errors are raised, also those inside of what many() returns."""

    def __init__(self, address, tls=None):
        if isinstance(address, tuple):
            self.socket = socket.create_connection(address, timeout=PATIENCE)
            if tls:
                context = ssl.create_default_context(cafile=tls / "ca.pem")
                context.load_cert_chain(tls / "client.pem", tls / "client.key")
                self.socket = context.wrap_socket(self.socket, server_hostname=address[0])
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE)
            self.socket.connect(str(address))
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()

    def __call__(self, *words):
        self.socket.sendall(command(*words))
        return self.read()

    def many(self, commands):
        """All sent at once, then all replies."""
        commands = list(commands)
        self.socket.sendall(b"".join(command(*words) for words in commands))
        return [self.read() for _ in commands]

    def read(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise Refused(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if int(rest) < 0 else self.stream.read(int(rest) + 2)[:-2]
        assert kind == b"*", line
        return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]

    def info(self, section):
        lines = self("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


class Redis:
    """One server; options as in redis.conf: appendonly="yes", replicaof="127.0.0.1 6379"."""

    def __init__(self, wait=True, tls=None, **options):
        self.tls = tls
        self.folder = Folder()
        self.path = self.folder.path
        self.options = {"save": '""', "appendfsync": "everysec", "repl_diskless_sync_delay": 0,
                        **options}
        self.process = self.port = None
        self.start(wait)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.folder.__exit__()

    @property
    def address(self):
        return "127.0.0.1", self.port

    @property
    def socket_path(self):
        return self.path / "redis.sock"

    @property
    def url(self):
        return f"rediss://127.0.0.1:{self.port}?tls_ca={self.tls}/ca.pem" if self.tls else \
            f"redis://127.0.0.1:{self.port}"

    def listening(self):
        """The lines of redis.conf that say where it listens."""
        if not self.tls:
            return [f"port {self.port}", "bind 127.0.0.1"]
        auth = [] if "tls_auth_clients" in self.options else ["tls-auth-clients no"]
        return ["port 0", f"tls-port {self.port}", "bind 127.0.0.1", "tls-replication yes", *auth,
                f"tls-cert-file {self.tls}/server.pem", f"tls-key-file {self.tls}/server.key",
                f"tls-ca-cert-file {self.tls}/ca.pem", f"tls-client-cert-file {self.tls}/client.pem",
                f"tls-client-key-file {self.tls}/client.key"]

    def start(self, wait=True):
        """Start it, or start it again with its folder and port."""
        for _ in range(5):
            if not self.port:
                self.port = free_port()
                if "cluster_enabled" in self.options:
                    self.options["cluster_port"] = free_port()
            self.write_configuration()
            self.process = self.spawn()
            if not wait:
                return
            try:
                wait_until(self.is_ready, "Redis")
                return
            except ChildProcessError as error:
                if "in use" not in str(error):
                    raise
                self.port = None # another process has just taken it
        raise AssertionError("no free port is to be had")

    def spawn(self):
        with open(self.path / "log", "ab") as log:
            return subprocess.Popen([PROGRAM, str(self.path / "redis.conf")], stdout=log,
                                    stderr=log, stdin=subprocess.DEVNULL)

    def write_configuration(self):
        lines = [*self.listening(), f"dir {self.path}", "daemonize no",
                 f"unixsocket {self.socket_path}", 'logfile ""',
                 *(f"{name.replace('_', '-')} {value}" for name, value in self.options.items())]
        (self.path / "redis.conf").write_text("\n".join(lines) + "\n")

    def is_ready(self):
        if self.process.poll() is not None:
            raise ChildProcessError((self.path / "log").read_text())
        try:
            with self.client() as ask:
                if "requirepass" in self.options:
                    ask("AUTH", self.options["requirepass"])
                return ask("PING") == "PONG" and not int(ask.info("persistence")["loading"])
        except (OSError, Refused):
            return False

    def client(self):
        return Client(self.address, self.tls)

    def __call__(self, *words):
        """One command on a connection of its own."""
        with self.client() as ask:
            return ask(*words)

    def stop(self):
        """SIGTERM: a server that keeps something keeps all of it."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def restart(self):
        self.stop()
        self.start()

    def crash(self):
        self.kill()
        self.start()

    def replica(self, **options):
        """Another one that follows this one, and is sent what is written from now on."""
        other = Redis(replicaof=f"127.0.0.1 {self.port}", tls=self.tls, **options)
        try:
            with other.client() as ask:
                wait_until(lambda: ask.info("replication").get("master_link_status") == "up",
                           "the replica")
            # It is up for up to a second before it is sent the first write.
            self("SET", "is sent", "")
            wait_until(lambda: other("EXISTS", "is sent"), "the replica")
            self("DEL", "is sent")
        except BaseException:
            other.__exit__()
            raise
        return other


class Sentinel(Redis):
    """Looks after a master that it calls `main`."""

    def __init__(self, master, down_after=500):
        self.master, self.down_after = master, down_after
        super().__init__(tls=master.tls)

    def spawn(self):
        with open(self.path / "log", "ab") as log:
            return subprocess.Popen([PROGRAM, str(self.path / "redis.conf"), "--sentinel"],
                                    stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def write_configuration(self):
        (self.path / "redis.conf").write_text("\n".join([
            *self.listening(), f"dir {self.path}", 'logfile ""',
            f"sentinel monitor main 127.0.0.1 {self.master.port} 1",
            f"sentinel down-after-milliseconds main {self.down_after}",
            "sentinel failover-timeout main 5000", ""]))

    def is_ready(self):
        if self.process.poll() is not None:
            raise ChildProcessError((self.path / "log").read_text())
        try:
            return self("PING") == "PONG"
        except (OSError, Refused):
            return False

    def master_port(self):
        return int(self("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1])


class Group:
    """Servers that are stopped together."""

    def __init__(self):
        self.servers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.__exit__()

    def add(self, make):
        try:
            self.servers.append(make())
        except BaseException:
            self.__exit__()
            raise
        return self.servers[-1]


class Watched(Group):
    """A master, a replica and a Sentinel that knows both."""

    def __init__(self, tls=None, **options):
        super().__init__()
        self.master = self.add(lambda: Redis(tls=tls, **options))
        self.replica = self.add(lambda: self.master.replica(**options))
        self.sentinel = self.add(lambda: Sentinel(self.master))
        wait_until(self.knows_replica, "the Sentinel to find the replica")

    def knows_replica(self):
        return len(self.sentinel("SENTINEL", "REPLICAS", "main")) == 1

    def wait_for_promotion(self):
        wait_until(lambda: self.sentinel.master_port() == self.replica.port and
                   self.replica("ROLE")[0] == b"master", "the replica to be promoted")


SLOTS = 16384


class Cluster(Group):
    """Masters that share the slots evenly; `replicas` of each."""

    def __init__(self, masters=3, replicas=0, **options):
        super().__init__()
        options = {"cluster_enabled": "yes", "cluster_node_timeout": 5000,
                   "cluster_replica_validity_factor": 0, **options}
        if options.get("tls"):
            options["tls_cluster"] = "yes"
        self.nodes = [self.add(lambda: Redis(**options))
                      for _ in range(masters * (1 + replicas))]
        self.masters, followers = self.nodes[:masters], self.nodes[masters:]
        for i, node in enumerate(self.masters):
            node("CLUSTER", "ADDSLOTS", *range(SLOTS * i // masters, SLOTS * (i + 1) // masters))
        with self.nodes[0].client() as ask:
            for node in self.nodes[1:]:
                ask("CLUSTER", "MEET", "127.0.0.1", node.port, node.options["cluster_port"])
        wait_until(self.is_met, "the nodes to know each other")
        self.followers = {}
        for i, node in enumerate(followers):
            master = self.masters[i % masters]
            wait_until(lambda n=node, m=master: self.follow(n, m), "a node to become a replica")
            self.followers.setdefault(master, []).append(node)
        wait_until(self.is_well, "the cluster")

    @staticmethod
    def follow(node, master):
        try:
            return node("CLUSTER", "REPLICATE", master("CLUSTER", "MYID")) == "OK"
        except Refused:
            return False

    def is_met(self):
        return all(len(node("CLUSTER", "NODES").splitlines()) == len(self.nodes)
                   for node in self.nodes)

    def is_well(self):
        for node in self.nodes:
            with node.client() as ask:
                if b"cluster_state:ok" not in ask("CLUSTER", "INFO"):
                    return False
                info = ask.info("replication")
                if info["role"] == "slave" and info["master_link_status"] != "up":
                    return False
        return True

    @staticmethod
    def promote(replica):
        """A failover by hand, in which nothing is lost. A busy machine may need a second try."""
        asked = 0

        def is_master():
            nonlocal asked
            if replica("ROLE")[0] == b"master":
                return True
            if time.monotonic() > asked + 6: # it gives up after 5
                asked = time.monotonic()
                replica("CLUSTER", "FAILOVER")
            return False
        wait_until(is_master, "the failover")

    def owner(self, key):
        """The master that has a key's slot."""
        slot = self.nodes[0]("CLUSTER", "KEYSLOT", key)
        port = next(master[1] for first, last, master, *_ in self.nodes[0]("CLUSTER", "SLOTS")
                    if first <= slot <= last)
        return next(node for node in self.nodes if node.port == port)

    def keys(self, pattern="rl:{*"):
        return [key for node in self.masters for key in node("KEYS", pattern)]

    def epochs(self):
        return {line for node in self.nodes for line in node("CLUSTER", "INFO").splitlines()
                if line.startswith(b"cluster_current_epoch")}

    def move(self, slot, source, target):
        """Yields between the steps of a resharding: the slot is to move, its keys have moved."""
        ids = {node: node("CLUSTER", "MYID") for node in (source, target)}
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        yield "moving"
        while keys := source("CLUSTER", "GETKEYSINSLOT", slot, 10):
            source("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        yield "moved"
        for node in (target, source, *self.masters):
            node("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        # Who moves the next one while nodes still tell each other of this may lose both.
        wait_until(lambda: len(self.epochs()) == 1, "the nodes to agree")


__all__ = ["Client", "Cluster", "PROGRAM", "Redis", "Refused", "SLOTS", "Sentinel", "Watched"]
