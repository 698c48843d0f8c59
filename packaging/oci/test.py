#!/usr/bin/env python3
"""test.py - the image, started as a container engine would start it: its root is read-only, its
user is not root, and its volume is all that it may write to.

    packaging/oci/test.py IMAGE.tar      as root, in namespaces of its own: see test.sh

The image is a docker archive. What it says of itself (user, environment, command, health check,
signal) is what the test does.
"""
import ctypes
import fcntl
import http.client
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, "tests/support")
from postgres import Postgres  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE = 60
PORT = 7878
TOKEN = "0123456789abcdef0123456789abcdef"
MOST_BYTES = 25 << 20
LIMIT = {"limit": 2, "window_ms": 3_600_000, "key": "bob"}
tests = []


def test(function):
    tests.append(function)
    return function


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def loopback_up():
    """ifr_flags of lo: IFF_UP. There may be no `ip` here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))


class Image:
    def __init__(self, path, folder):
        self.path, self.root = path, folder / "root"
        self.root.mkdir()
        with tarfile.open(path) as archive:
            read = lambda name: archive.extractfile(name)
            manifest = json.load(read("manifest.json"))[0]
            self.tags = manifest["RepoTags"]
            config = json.load(read(manifest["Config"]))
            self.config, self.layers = config["config"], config["rootfs"]["diff_ids"]
            for layer in manifest["Layers"]:
                with tarfile.open(fileobj=read(layer)) as files:
                    files.extractall(self.root)
        self.size = sum(f.lstat().st_size for f in self.root.rglob("*") if f.is_file() and not f.is_symlink())
        for name in "proc", "dev", "run", "etc/weir/tokens":  # an engine makes the places of mounts
            (self.root / name).mkdir(exist_ok=True)
        mount("--bind", self.root, self.root)
        mount("--bind", "/dev", self.root / "dev")
        mount("-t", "proc", "proc", self.root / "proc")
        mount("-o", "remount,bind,ro", self.root)

    def environment(self, env):
        return {**dict(setting.split("=", 1) for setting in self.config["Env"]), **env}

    def start(self, command, env, **kwargs):
        user, group = map(int, self.config["User"].split(":"))

        def enter():
            os.chroot(self.root)
            os.chdir(self.config["WorkingDir"])
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no_new_privs

        return subprocess.Popen([f"/usr/bin/{command[0]}", *command[1:]], env=self.environment(env), preexec_fn=enter,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)

    def run(self, *words, env=None):
        with self.start([*self.config["Entrypoint"], *words], env or {}) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def healthy(self, env=None):
        kind, *command = self.config["Healthcheck"]["Test"]
        assert kind == "CMD", kind
        with self.start(command, env or {}) as process:
            process.communicate(timeout=PATIENCE)
        return process.returncode


class Container:
    """A server by the command of the image, until it is stopped by the signal of the image."""

    def __init__(self, image, volume, env):
        if not volume.exists():
            volume.mkdir()
            os.chown(volume, 65532, 65532)
        self.image, self.env, self.place = image, env, image.root / "var/lib/weir"
        mount("--bind", volume, self.place)
        try:
            self.process = image.start([*image.config["Entrypoint"], *image.config["Cmd"]], env)
            self.wait_until_healthy()
        except BaseException:
            self.unmount()
            raise

    def wait_until_healthy(self):
        end = time.monotonic() + PATIENCE
        while self.image.healthy(self.env) != 0:
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < end, "it does not become healthy"

    def __enter__(self):
        return self

    def unmount(self):
        subprocess.run(["umount", self.place], check=True)

    def stop(self, number=None):
        self.process.send_signal(number or getattr(signal, self.image.config["StopSignal"]))
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out + err

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        self.unmount()


def ask(method, path, body=None, token=TOKEN):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)
    connection.request(method, path, json.dumps(body) if body else None, {"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, json.loads(answer) if answer[:1] == b"{" else answer


def allowed():
    status, answer = ask("POST", "/v1/check", LIMIT)
    assert status == 200, (status, answer)
    return answer["allowed"]


@test
def the_image_is_small_and_has_no_shell(image, _):
    print(f"# {image.size / 2**20:.1f} MiB")
    assert image.size < MOST_BYTES, image.size
    assert not (image.root / "usr/bin/sh").exists() and not (image.root / "bin").exists()
    files = [f for f in image.root.rglob("*") if f.is_file() and not f.is_symlink() and "proc" not in f.parts]
    assert not [f for f in files if f.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert [f.name for f in (image.root / "usr/bin").iterdir()] == ["weir"]


@test
def it_says_how_it_is_to_run(image, _):
    c = image.config
    assert c["User"] == "65532:65532" and c["StopSignal"] == "SIGTERM", c
    assert list(c["ExposedPorts"]) == [f"{PORT}/tcp"] and list(c["Volumes"]) == ["/var/lib/weir"], c
    version = image.run("--version")[1].split()[1]
    assert c["Labels"]["org.opencontainers.image.version"] == version, (c, version)
    assert all(tag.endswith(f"/weir:{version}") for tag in image.tags), image.tags
    assert "check" in image.run("help")[1]


@test
def the_archive_for_registries_has_the_same_layers(image, _):
    with tarfile.open(image.path.replace("-docker.tar", "-oci.tar")) as archive:
        blob = lambda d: json.load(archive.extractfile("blobs/" + d["digest"].replace(":", "/")))
        manifest = blob(json.load(archive.extractfile("index.json"))["manifests"][0])
        config = blob(manifest["config"])
    print(f"# {sum(layer['size'] for layer in manifest['layers']) / 2**20:.1f} MiB to download")
    assert config["rootfs"]["diff_ids"] == image.layers
    assert config["config"]["User"] == image.config["User"] and config["config"]["Env"] == image.config["Env"]


@test
def scanners_find_its_packages(image, _):
    names = {f.name for f in (image.root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libpq5", "ca-certificates", "tzdata"} <= names, names
    for name in names:
        assert (image.root / "usr/share/doc" / name / "copyright").stat().st_size > 100, name


@test
def without_a_token_it_says_how_to_give_one(image, _):
    status, _, said = image.run(*image.config["Cmd"])
    assert status == 2 and "can reach *:7878 without a token" in said and "WEIR_TOKEN_FILE" in said, said
    assert image.healthy() == 1


@test
def it_serves_with_one_variable(image, folder):
    with Container(image, folder / "one", {"WEIR_TOKEN": TOKEN}) as c:
        assert [allowed() for _ in range(3)] == [True, True, False]
        assert ask("POST", "/v1/check", LIMIT, token="0" * 32)[0] == 401
        assert ask("GET", "/")[0] == 200  # the console
        assert "no override" in image.run("override", "list", env=c.env)[1]
        status, said = c.stop()
        assert status == 0 and TOKEN not in said, said


@test
def limits_on_the_volume_outlive_a_restart_and_a_crash(image, folder):
    secret = folder / "kept" / "token"
    secret.parent.mkdir()
    os.chown(secret.parent, 65532, 65532)
    secret.write_text(TOKEN)
    secret.chmod(0o400)
    os.chown(secret, 65532, 65532)
    env = {"WEIR_TOKEN_FILE": "/var/lib/weir/token", "WEIR_SYNC": "always"}
    with Container(image, folder / "kept", env) as c:
        assert allowed()
        assert c.stop()[0] == 0
    with Container(image, folder / "kept", env) as c:
        assert allowed()
        assert not allowed()
        c.stop(signal.SIGKILL)
    with Container(image, folder / "kept", env):
        assert not allowed()
    assert sorted(f.name for f in (folder / "kept").iterdir()) == ["token", "weir-data"]


@test
def a_request_in_flight_is_answered_before_it_stops(image, folder):
    body = json.dumps(LIMIT).encode()
    head = (f"POST /v1/check HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    with Container(image, folder / "drained", {"WEIR_TOKEN": TOKEN}) as c, \
            socket.create_connection(("127.0.0.1", PORT), PATIENCE) as s:
        s.sendall(head + body)
        assert b'"allowed":true' in s.recv(4096)
        s.sendall(head + body[:5])
        c.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + PATIENCE
        while True:  # until it listens no more
            assert time.monotonic() < end
            try:
                socket.create_connection(("127.0.0.1", PORT), PATIENCE).close()
            except OSError:
                break
        s.sendall(body[5:])
        assert b'"allowed":true' in s.recv(4096)
        assert c.process.wait(PATIENCE) == 0


@test
def a_mounted_file_has_the_policies_and_another_port_is_still_checked(image, folder):
    mine = folder / "weir.yaml"
    mine.write_text("version: 1\npolicies: {login: {limit: 5 per 15m, by: ip}}\n")
    mount("--bind", mine, image.root / "etc/weir/weir.yaml")
    try:
        env = {"WEIR_TOKEN": TOKEN, "WEIR_LISTEN": "0.0.0.0:9999"}
        with Container(image, folder / "mounted", env) as c:
            assert "login" in image.run("policy", "explain", "/etc/weir/weir.yaml", "login", "ip=203.0.113.7")[1]
            assert "5 left" in image.run("check", "--server", "http://127.0.0.1:9999", "login", "203.0.113.7", "--peek",
                                         env=env)[1].replace("5 of 5", "5")
            assert c.stop()[0] == 0
    finally:
        subprocess.run(["umount", image.root / "etc/weir/weir.yaml"], check=True)


@test
def with_tls_it_is_checked_by_a_socket(image, folder):
    volume = folder / "tls"
    volume.mkdir()
    os.chown(volume, 65532, 65532)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                    "/CN=weir", "-days", "2", "-keyout", volume / "key", "-out", volume / "cert"], check=True, capture_output=True)
    for name in "key", "cert":
        os.chown(volume / name, 65532, 65532)
    env = {"WEIR_TOKEN": TOKEN, "WEIR_TLS_CERT": "cert", "WEIR_TLS_KEY": "key",
           "WEIR_LISTEN": "*:7878,unix:/var/lib/weir/weir.sock"}
    with Container(image, volume, env) as c:
        assert ask("GET", "/healthz")[0] == 400  # TLS only
        assert c.stop()[0] == 0


@test
def it_runs_as_the_manifests_of_kubernetes_say(image, folder):
    volume, tokens = folder / "claimed", folder / "tokens"
    for path, mode in (volume, 0o2775), (tokens, 0o755):
        path.mkdir()
        os.chown(path, 0, 65532)  # fsGroup
        path.chmod(mode)
    for name in "check", "admin", "metrics":
        (tokens / name).write_text(f"{name}-{TOKEN}")
        os.chown(tokens / name, 0, 65532)
        (tokens / name).chmod(0o440)
    places = {"packaging/kubernetes/base/weir.yaml": "etc/weir/weir.yaml", tokens: "etc/weir/tokens"}
    for source, place in places.items():
        mount("--bind", source, image.root / place)
    login = {"policy": "login", "key": "203.0.113.7"}
    try:
        for remaining in 4, 3:
            with Container(image, volume, {"WEIR_THREADS": "2"}) as c:
                status, answer = ask("POST", "/v1/check", login, token=f"check-{TOKEN}")
                assert status == 200 and answer["remaining"] == remaining, answer
                assert ask("GET", "/metrics", token=f"metrics-{TOKEN}")[0] == 200
                assert ask("GET", "/v1/policies", token=f"check-{TOKEN}")[0] == 403
                assert ask("GET", "/v1/policies", token=f"admin-{TOKEN}")[0] == 200
                assert c.stop()[0] == 0
        # What fsGroupChangePolicy: OnRootMismatch prevents.
        subprocess.run(["chmod", "-R", "g+rwX", volume], check=True)
        mount("--bind", volume, image.root / "var/lib/weir")
        status, _, said = image.run(*image.config["Cmd"])
        subprocess.run(["umount", image.root / "var/lib/weir"], check=True)
        assert status == 2 and "chmod 600" in said, said
    finally:
        for place in places.values():
            subprocess.run(["umount", image.root / place], check=True)


@test
def it_migrates_a_database_and_keeps_limits_there(image, folder):
    with Postgres(fsync="off") as db:
        env = {"WEIR_STORE": f"{db.url}?deadline=10s", "WEIR_TOKEN": TOKEN}  # however busy the machine is
        status, out, err = image.run("migrate", env=env)
        assert status == 0, out + err
        for expected in (True, True, False), (False, False, False):
            with Container(image, folder / "unused", env) as c:
                answers = [ask("POST", "/v1/check", LIMIT) for _ in range(3)]
                assert tuple(answer["allowed"] for _, answer in answers) == expected, answers
                assert c.stop()[0] == 0
        assert list((folder / "unused").iterdir()) == []


@test
def all_stores_are_there(image, _):
    for store in "postgres://127.0.0.1:1/weir", "redis://127.0.0.1:1":
        status, out, err = image.run("doctor", store)
        assert status != 0 and "refused" in out + err, (store, out, err)


def main(path):
    loopback_up()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        mount("-t", "tmpfs", "tmpfs", scratch)
        image = Image(path, Path(scratch))
        for number, function in enumerate(tests, 1):
            try:
                function(image, Path(scratch))
                print(f"ok {number} - {function.__name__}")
            except Exception as problem:  # pylint: disable=broad-except
                failed += 1
                where = traceback.extract_tb(problem.__traceback__)[-1]
                print(f"not ok {number} - {function.__name__}\n# {where.line}\n# {type(problem).__name__}: {problem}")
        subprocess.run(["umount", "-R", image.root], check=True)
        subprocess.run(["umount", scratch], check=True)
    print(f"1..{len(tests)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
