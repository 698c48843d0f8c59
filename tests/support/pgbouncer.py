"""pgbouncer.py - for tests: a real pgbouncer in front of a Postgres.

    with Postgres() as db, Pgbouncer(db, pool_mode="transaction", default_pool_size=2) as pooler:
        print(pooler.url_of("postgres"))

It listens on a free port of 127.0.0.1, accepts every client of the roles that it knows, and is stopped by
its pid. It refuses to run as root, so root hands it to the user `postgres`.
"""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from weir_server import PATIENCE, free_port, wait_until

SETTINGS = {"pool_mode": "transaction", "default_pool_size": 3, "max_client_conn": 500,
            "server_login_retry": 1}


def program():
    """Debian keeps it out of the PATH of other users than root."""
    found = os.environ.get("WEIR_TEST_PGBOUNCER") or shutil.which(
        "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if not found:
        raise AssertionError("there is no pgbouncer: install pgbouncer")
    return found


class Pgbouncer:
    """Made, it runs; left, it and its folder are gone."""

    def __init__(self, db, roles=("postgres", "limiter"), **settings):
        self.db, self.port = db, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="weir-pgbouncer."))
        self.process = None
        (self.folder / "users").write_text("".join(f'"{role}" ""\n' for role in roles))
        given = {**SETTINGS, **settings}
        (self.folder / "ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={db.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = trust\n"
            f"auth_file = {self.folder}/users\nadmin_users = postgres\n"
            + "".join(f"{name} = {value}\n" for name, value in given.items()))
        if os.geteuid() == 0:
            shutil.chown(self.folder, db.user)
        self.folder.chmod(0o755)
        self.start()

    def start(self):
        command = [program(), self.folder / "ini"]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid", self.db.user, "--clear-groups", "--", *command]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd="/", start_new_session=True)
        wait_until(self.answers, "pgbouncer to answer")

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"pgbouncer has ended: {self.log}")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def pause(self):
        """It answers no more, until resume()."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def admin(self, statement):
        """A command of its console; what it prints, one line a row."""
        return self.db.psql(statement, database="pgbouncer",
                            options=("-h", "127.0.0.1", "-p", str(self.port)))

    @property
    def log(self):
        return (self.folder / "log").read_text()

    def url_of(self, database, role="postgres"):
        return f"postgres://{role}@127.0.0.1:{self.port}/{database}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
