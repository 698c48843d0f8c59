#!/usr/bin/env python3
"""test_reload_log.py - reloads of policies in the audit log: by what, what has changed, and what has failed.

    test_reload_log.py TREE      from the root of the source
"""
import signal
import subprocess
import sys

sys.path.insert(0, "tests/support")
from redis import Redis  # noqa: E402
from weir_server import Folder, Server, WEIR, run, test, wait_until  # noqa: E402

POLICIES = """version: 1
policies:
  login: {limit: 2 per 1h, by: ip}
  search: {limit: 9 per 1h, by: ip}
server:
  tokens:
    - {file: ops.token, scope: [admin, check]}
"""
TOKEN = "a-token-for-operators"


class Fixture:
    """A server whose policy file is a link, so that changes wait for a reload, unless it is `watched`."""

    def __init__(self, store=None, watched=False):
        self.folder = Folder()
        self.config = self.folder.path / "policies.yaml"
        if not watched:
            (self.folder.path / "linked").mkdir()
            self.config.symlink_to("linked/policies.yaml")
        self.token = self.folder.path / "ops.token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)
        self.store = store or f"file:{self.folder.path}/store"
        self.write(2)
        self.start()

    def write(self, limit):
        self.config.write_text(POLICIES.replace("limit: 2 ", f"limit: {limit} "))

    def start(self):
        self.server = Server(config=self.config, store=self.store)

    def again(self):
        self.server.kill()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.__exit__()

    def ask(self, method, path, body=None):
        status, _, said = self.server.http(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
        return status, said

    def log(self, *columns):
        """Of each reload its effect, who and reason, or these columns."""
        entries = self.ask("GET", "/v1/audit?n=1000")[1]["entries"]
        return [tuple(e[c] for c in columns or ("effect", "who", "reason")) for e in entries if e["kind"] == "reload"]

    def reload(self, status=200, **body):
        assert self.ask("POST", "/v1/reload", body or None)[0] == status

    def weir(self, *words):
        return subprocess.run([WEIR, *words, "--server", self.server.url, "--token-file", self.token],
                              capture_output=True, text=True, timeout=30, check=True).stdout


START = ("loaded", "start of the server", "2 policies")
CHANGED = "changed login/default"


@test
def a_reload_says_by_what_it_was_made_and_what_it_changed():
    with Fixture() as f:
        f.write(3)
        f.reload()
        f.write(4)
        f.reload(who="ann")
        f.write(5)
        f.server.signal(signal.SIGHUP)
        wait_until(lambda: len(f.log()) == 4, "the reload")
        f.config.write_text(f.config.read_text().replace("  search", "  find"))
        f.reload()
        assert f.log() == [START, ("loaded", "token ops", CHANGED), ("loaded", "ann (token ops)", CHANGED),
                           ("loaded", "SIGHUP", CHANGED), ("loaded", "token ops", "added find; removed search")], f.log()
        instance, = set(f.log("instance"))
        assert instance[0].endswith(f" 127.0.0.1:{f.server.port}") and len(instance[0].split()[0]) > 0, instance
        before = f.log("id", "at_ms")
        f.again()
        assert f.log("id", "at_ms") == before


@test
def a_change_of_the_file_is_named():
    with Fixture(watched=True) as f:
        f.write(3)
        wait_until(lambda: len(f.log()) == 2, "the reload")
        assert f.log()[1] == ("loaded", "the policy file has changed", CHANGED), f.log()


@test
def the_command_names_its_user_and_shows_the_log():
    with Fixture() as f:
        f.write(3)
        f.weir("reload")
        said = f.weir("audit").splitlines()
        assert len(said) == 3 and " loaded " in said[2] and f" 127.0.0.1:{f.server.port} " in said[2], said
        assert said[2].endswith(f" (token ops): {CHANGED}") and "token ops (token" not in said[2], said
        assert said[0].index("effect") == said[2].index("loaded"), said


@test
def a_reload_that_changes_nothing_is_not_a_change():
    with Fixture() as f:
        f.reload()
        f.config.write_text("# other lines\n" + f.config.read_text())
        f.reload()
        f.again()
        assert f.log() == [START], f.log()


@test
def a_start_with_other_policies_is_a_change_and_one_with_the_same_is_none():
    with Fixture() as f:
        f.again()
        assert f.log() == [START], f.log()
        f.write(3)
        f.again()
        assert f.log() == [START, ("loaded", "start of the server", "2 policies, others than in the last run")], f.log()
        f.again()
        f.write(4)
        f.reload()
        assert len(f.log()) == 3 and f.log()[2][2] == CHANGED, f.log()
        f.again()
        assert len(f.log()) == 3, f.log()


@test
def a_failed_reload_is_written_once_and_again_after_a_good_one():
    with Fixture() as f:
        good = f.config.read_text()
        f.config.write_text(good.replace(" per 1h", ""))
        for _ in range(3):
            f.reload(422)
        assert [e[:2] for e in f.log()] == [START[:2], ("failed", "token ops")], f.log()
        assert all(f"policies.yaml:{line}" in f.log()[1][2] for line in (3, 4)) and "\n" not in f.log()[1][2], f.log()
        f.config.write_text(good)
        f.reload()
        f.config.write_text(good + "bad")
        f.reload(422)
        assert [e[0] for e in f.log()] == ["loaded", "failed", "failed"], f.log()
        f.config.write_text(good)
        f.again()  # with the policies that a failed reload has left in force
        assert len(f.log()) == 3, f.log()


@test
def what_a_store_that_is_away_cannot_take_is_one_entry_later():
    with Redis(appendonly="yes") as redis, Fixture(store=redis.url) as f:
        assert f.log() == [START], f.log()
        redis.stop()
        wait_until(lambda: f.server.http("GET", "/readyz")[2]["ledger_stale"], "that the store is missed")
        f.write(3)
        f.reload()
        f.write(4)
        f.reload(who="ann")
        assert len([e for e in f.server.log.events("audit") if "will be in the audit log later" in e["message"]]) == 1
        redis.start()
        wait_until(lambda: len(f.log()) == 2, "the entry")
        assert f.log()[1] == ("loaded", "ann (token ops)", CHANGED), f.log()
        redis.stop()
        f.again()  # with the policies of the last run, which cannot be asked for yet
        redis.start()
        f.write(5)
        wait_until(lambda: f.server.http("GET", "/readyz")[2]["ledger_stale"] is False, "the store")
        f.reload()
        assert f.log()[2:] == [("loaded", "token ops", "2 policies, others than in the last run")], f.log()


@test
def policies_that_load_beside_a_part_that_fails_are_written_too():
    with Fixture() as f:
        f.write(3)
        f.token.write_text("short")
        f.reload(422)
        assert [(effect, "ops.token" in reason) for effect, _, reason in f.log()] == [
            ("loaded", False), ("loaded", False), ("failed", True)], f.log()


@test
def in_memory_a_start_is_not_written():
    with Fixture(store="memory:") as f:
        assert f.log() == []
        f.write(3)
        f.reload()
        assert f.log() == [("loaded", "token ops", CHANGED)], f.log()


@test
def a_reload_is_not_undone_and_takes_no_other_members():
    with Fixture() as f:
        assert f.ask("POST", "/v1/undo", {"id": 1})[1]["detail"] == "change 1 is a reload: change the policy file back"
        assert f.ask("POST", "/v1/reload", {"reason": "x"})[1]["detail"] == "the body of a reload may have 'who' only"
        assert f.ask("POST", "/v1/reload", {"who": "b" * 129})[0] == 400
        assert f.ask("GET", "/v1/overrides")[1]["overrides"] == []
        assert f.ask("GET", "/v1/stats")[1]["reloads"] == {"count": 0, "failures": 0}


@test
def reloads_that_change_something_all_the_time_do_not_fill_the_log():
    with Fixture() as f:
        for i in range(70):
            f.write(3 + i)
            f.reload()
        assert len(f.log()) in (60, 70, 71), len(f.log())  # 70 or more only if an hour has ended meanwhile
        assert len([e for e in f.server.log.events("audit") if "at most 60 an hour" in e["message"]]) <= 1
        f.again()  # what could not be written is found by the next start
        assert f.log()[-1][2] == "2 policies, others than in the last run", f.log()[-1]


run()
