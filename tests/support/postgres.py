"""postgres.py - for tests: a real Postgres of its own, in a folder of its own.

    from postgres import Postgres

    with Postgres() as db:
        db.migrate()
        print(db.value("SELECT 1"))
        print(db.url)                     # for libpq: psql, pgbench, weir

    Postgres(fsync="off", max_connections=20)   # extra settings
    Postgres(of=db)                             # a standby that follows it

It listens on a free port of 127.0.0.1 and on a socket in its folder, accepts every client (trust), and is
stopped by its pid. Postgres refuses to run as root, so root hands it to the user `postgres`. The newest
server of the machine is used, or that in the folder which the environment has in WEIR_TEST_POSTGRES.
"""
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from weir_server import PATIENCE, free_port, wait_until

SQL = Path(__file__).resolve().parent.parent.parent / "sql"
SETTINGS = {
    "fsync": "on",
    "log_min_messages": "warning",
    "autovacuum_naptime": "5s",
    "max_connections": 200,
    "shared_buffers": "128MB",
}


def programs():
    """The folder of the newest server's programs; Debian keeps them out of PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[-2]))
    if found:
        return Path(found[-1])
    initdb = shutil.which("initdb")
    if not initdb:
        raise AssertionError("there is no Postgres: install postgresql")
    return Path(initdb).parent


def parent(stat):
    return int(stat.rpartition(")")[2].split()[1])


def descendants(pid):
    """All processes of a Postgres: it, and what it has started."""
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if parent(path.read_text(errors="replace")) == pid:
                children.append(int(path.parent.name))
        except OSError:  # it has ended meanwhile
            pass
    return [pid, *children]


def send_signal(pids, number):
    """A process that has ended meanwhile must not keep the others from it."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class SqlError(AssertionError):
    """What psql said; `code` is the SQLSTATE."""

    def __init__(self, text):
        super().__init__(text)
        first = next((line for line in text.splitlines() if "ERROR:" in line or "FATAL:" in line), "")
        parts = first.partition("ERROR:")[2].strip().split(":", 1)
        self.code = parts[0] if len(parts) == 2 else ""


class Postgres:
    """Made, it runs; left, it and its folder are gone."""

    def __init__(self, of=None, **settings):
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.folder = Path(tempfile.mkdtemp(prefix="weir-postgres."))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.port = free_port()
        self.settings = {**SETTINGS, **settings}
        self.process = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, self.user)
        self.folder.chmod(0o755)
        make = ("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C",
                "--no-sync") if not of else (
                    "pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
                    "-h", of.folder, "-p", of.port, "-U", "postgres")
        made = subprocess.run(self.as_user(*make), capture_output=True, text=True, check=False, cwd="/")
        if made.returncode:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise AssertionError(f"{make[0]}: {made.stdout}{made.stderr}")
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def as_user(self, program, *words):
        """The command line that runs this program as a user that Postgres accepts."""
        folder = Path(os.environ.get("WEIR_TEST_POSTGRES") or programs())
        command = [str(folder / program), *(str(word) for word in words)]
        return ["runuser", "-u", self.user, "--", *command] if os.geteuid() == 0 else command

    def start(self, **settings):
        """Start it again; settings given here stay."""
        self.settings.update(settings)
        given = {"listen_addresses": "127.0.0.1", "port": self.port,
                 "unix_socket_directories": self.folder, **self.settings}
        words = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.as_user("postgres", "-D", self.data, *words),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd="/", start_new_session=True)
        wait_until(self.answers, "Postgres to answer")

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"Postgres has ended: {self.log.read_text()[-2000:]}")
        ready = subprocess.run([programs() / "pg_isready", "-q", "-h", self.folder,
                                "-p", str(self.port)], check=False)
        return ready.returncode == 0

    @property
    def pid(self):
        """The postmaster's: what runs it as another user is a process of its own."""
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n")[0])
        except (FileNotFoundError, ValueError):
            return None

    def stop(self, mode="fast"):
        """smart, fast or immediate, as pg_ctl has them; immediate is a crash."""
        if not self.process or self.process.poll() is not None:
            return
        number = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode]
        if pid := self.pid:
            os.kill(pid, number)
        self.process.wait(PATIENCE)

    def crash(self):
        self.stop("immediate")

    def promote(self):
        """A standby becomes the server that is written to."""
        self.psql("SELECT pg_promote()")
        wait_until(lambda: self.value("SELECT pg_is_in_recovery()") == "f", "the standby to be promoted")

    def close(self):
        if self.process and self.process.poll() is None:
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def url(self):
        return self.url_of("postgres")

    def url_of(self, database, role="postgres"):
        return f"postgres://{role}@127.0.0.1:{self.port}/{database}"

    def psql(self, text, role="postgres", database="postgres", options=()):
        """Run a script and return what it prints: values only, a tab between columns."""
        done = subprocess.run(
            [programs() / "psql", "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1",
             "-v", "VERBOSITY=verbose", "-h", self.folder, "-p", str(self.port), "-U", role,
             "-d", database, *options],
            input=text if isinstance(text, bytes) else text.encode(), capture_output=True,
            check=False)
        if done.returncode:
            raise SqlError(done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def rows(self, text, **more):
        return [line.split("\t") for line in self.psql(text, **more).splitlines()]

    def value(self, text, **more):
        found = self.rows(text, **more)
        return found[0][0] if found else None

    def migrate(self, folder=SQL, database="postgres"):
        """All migrations, in order."""
        for file in sorted(folder.glob("[0-9]*.sql")):
            self.psql(file.read_bytes(), database=database)

    def rollback(self, folder=SQL, database="postgres"):
        for file in sorted((folder / "rollback").glob("[0-9]*.sql"), reverse=True):
            self.psql(file.read_bytes(), database=database)

    def pgbench(self, script, *options, role="postgres", database="postgres"):
        """Run this script by pgbench; returns its report."""
        file = self.folder / f"script-{abs(hash(script))}.sql"
        file.write_text(script)
        done = subprocess.run(
            [programs() / "pgbench", "-n", "-h", self.folder, "-p", str(self.port), "-U", role,
             "-f", file, *(str(option) for option in options), database],
            capture_output=True, text=True, check=False)
        # From 15 on, pgbench goes on after a deadlock or a serialization failure, and counts them.
        failed = re.search(r"failed transactions: [1-9]", done.stdout)
        if done.returncode or failed:
            raise AssertionError(f"pgbench: {done.stdout}{done.stderr}")
        return done.stdout


__all__ = ["Postgres", "SQL", "SqlError", "descendants", "programs"]
