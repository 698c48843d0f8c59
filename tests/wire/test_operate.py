#!/usr/bin/env python3
"""test_operate.py - what operators do before and around a server: check, diff, reload, find the file.

    test_operate.py TREE      from the root of the source
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, "tests/support")
from weir_server import Folder, PATIENCE, WEIR, Server, run, test, wait_until  # noqa: E402

POLICIES = """version: 1
policies:
  login: {limit: 5 per 15m, by: ip}
  query: {limit: 10 per 1d, by: tenant, plans: {paid: 20 per 1d}}
  both:
    rules:
      ip:   {limit: 3 per 1h, by: ip}
      user: {limit: 4 per 1h, by: user}
"""
TOKEN = "a-token-of-the-tests"


def weir(*words, status=0, cwd=None, env=None):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    done = subprocess.run([str(WEIR), *map(str, words)], capture_output=True, text=True, cwd=cwd,
                          timeout=PATIENCE, env={**kept, **(env or {})}, check=False)
    assert done.returncode == status, (words, done)
    return done.stdout + done.stderr


def write(folder, text, name="policies.yaml"):
    (folder / name).write_text(text)
    return folder / name


# ---- weir serve --check ---------------------------------------------------------------------------

@test
def a_check_shows_the_settings_and_starts_nothing():
    with Folder() as folder:
        token = write(folder, TOKEN, "token")
        token.chmod(0o600)
        config = write(folder, POLICIES + "server: {threads: 3, tokens: [{file: token, scope: [check, admin]}]}\n")
        said = weir("serve", "--check", "-c", config, "--store", f"file:{folder}/data")
        for words in ("policies            3, with 4 rules", f"config              {config} (--config)",
                      f"store               file:{folder}/data (--store)", "listen              127.0.0.1:7878 (default)",
                      f"token               check,admin:{token} (file)", "threads             3 (file)", "\nok\n"):
            assert words in said, (words, said)
        assert sorted(p.name for p in folder.iterdir()) == ["policies.yaml", "token"]
        said = weir("serve", "--check", "--store", "postgres://ann:sesame@db/weir?password=sesame", cwd=folder / "..",
                    env={"WEIR_CONFIG": str(config)})
        assert "store               postgres://ann:***@db/weir (--store)\n" in said and "sesame" not in said, said


@test
def a_check_reports_all_problems_at_once():
    with Folder() as folder:
        config = write(folder, "version: 1\npolicies:\n  a: {limt: 5 per 1m}\n  b: {limit: 5 per 1 minute}\n"
                               "server: {thread: 2}\n")
        said = weir("serve", "--check", "-c", config, "--listen", "0.0.0.0:0", "--token-file", f"check:{folder}/none",
                    "--store", "fil:data", "--tls-cert", folder / "none", "--tls-key", folder / "none", status=2)
        for words in (":3:7: unknown key 'limt'", ":4:14:", ":5:10: unknown key 'thread'", "did you mean 'file:'",
                      f"{folder}/none"):
            assert words in said, (words, said)
        assert "\nok\n" not in said
        said = weir("serve", "--check", "-c", folder / "missing.yaml", "--listen", "0.0.0.0:0", status=2)
        assert "missing.yaml" in said and "without a token: add one" in said, said


# ---- the default policy file ----------------------------------------------------------------------

@test
def without_a_config_the_file_in_the_folder_is_used_and_reported():
    with Folder() as folder:
        assert "config              none" in weir("serve", "--check", cwd=folder)
        write(folder, POLICIES)
        assert "config              policies.yaml, found in the working directory" in weir("serve", "--check", cwd=folder)
        write(folder, POLICIES, "weir.yaml")
        assert "config              weir.yaml, found" in weir("serve", "--check", cwd=folder)
        assert "found" not in weir("serve", "--check", "-c", "policies.yaml", cwd=folder)
        kept = {name: value for name, value in os.environ.items() if name != "WEIR_CONFIG"}
        with Server(command=["env", "-C", str(folder), *(f"-u{name}" for name in os.environ if name not in kept)]) as server:
            assert "weir.yaml of the working directory" in server.wait_for("config")["message"]
            assert server.check("login", "203.0.113.7")["limit"] == 5


# ---- tokens ----------------------------------------------------------------------------------------

@test
def a_missing_token_error_says_how_to_send_or_create_one():
    with Folder() as folder:
        for name in "check", "admin":
            write(folder, f"{TOKEN}-{name}", name).chmod(0o600)
        config = write(folder, POLICIES + "server:\n  tokens:\n" + "".join(
            f"    - {{file: {name}, scope: {name}}}\n" for name in ("check", "admin")))
        with Server(config=config) as server:
            said = weir("override", "list", "--server", server.url, status=2)
            assert "weir: give a token: --token-file FILE, or set WEIR_TOKEN_FILE" in said, said
            said = weir("override", "list", "--server", server.url, "--token-file", folder / "check", status=2)
            assert "scope admin" in said and "give another token: --token-file" in said, said
            assert "no override" in weir("override", "list", "--server", server.url,
                                         env={"WEIR_TOKEN_FILE": str(folder / "admin")})
    said = weir("serve", "--listen", "0.0.0.0:0", status=2, cwd="/")
    make, use = [line.split(":  ", 1)[1] for line in said.splitlines()[1:]]
    assert use.startswith("weir serve --listen 0.0.0.0:0 --token-file"), said
    with Folder() as folder:  # the two lines do what they say
        subprocess.run(make, shell=True, check=True, cwd=folder, timeout=PATIENCE)
        assert (folder / "weir.token").stat().st_mode & 0o777 == 0o600
        assert "\nok\n" in weir(*use.split()[1:], "--check", cwd=folder)


# ---- weir policy diff, weir reload -----------------------------------------------------------------

@test
def a_diff_shows_what_a_reload_would_change_and_the_reload_does_it():
    with Folder() as folder:
        config, new = write(folder, POLICIES), write(folder, "# a comment moves all lines\n" + POLICIES, "new.yaml")
        with Server(config=config) as server:
            def diff(*words, status):
                return weir("policy", "diff", new, "--server", server.url, *words, status=status)

            assert diff(status=0) == "no policy would change\n"
            assert json.loads(diff("--json", status=0)) == {"file": str(new), "same": True, "changes": []}
            new.write_text(POLICIES.replace("5 per 15m", "7 per 30m").replace("paid: 20", "paid: 30")
                           .replace("      user: {limit: 4 per 1h, by: user}\n",
                                    "      host: {limit: 9 per 1s, by: host}\n")
                           .replace("  query:", "  search: {limit: 1 per 1s}\n  query:")
                           .replace("  both:\n", "  both:\n    mode: shadow\n"))
            said = diff(status=1)
            for words in ("changed  login/default\n    limit: 5 -> 7\n    window_ms: 900000 -> 1800000\n",
                          "added    search\n", "changed  query/default\n    plans: ",
                          '"limit":20', '"limit":30', "changed  both\n    mode: enforce -> shadow\n",
                          "removed  both/user (4 per 1h)\n", "added    both/host (9 per 1s)\n"):
                assert words in said, (words, said)
            told = json.loads(diff("--json", status=1))
            assert not told["same"]
            login = next(c for c in told["changes"] if c["policy"] == "login")
            assert (login["was"]["limit"], login["is"]["limit"], login["rule"]) == (5, 7, "default")
            os.replace(new, config)
            expected = "added both/host, search; removed both/user; changed login/default, query/default"
            assert weir("reload", "--server", server.url).startswith("reloaded: ")
            new.write_text(config.read_text())
            assert diff(status=0) == "no policy would change\n"
            lines = [line["message"] for line in server.log.events("reloaded")]
            assert any(expected in line for line in lines), lines
            assert "reloaded: no policy has changed\n" == weir("reload", "--server", server.url)
            new.write_text("version: 1\npolicies: {x: {limt: 1}}\n")
            assert "unknown key 'limt'" in diff(status=2)
            os.replace(new, config)
            assert "unknown key 'limt'" in weir("reload", "--server", server.url, status=2)
        new.write_text(POLICIES)
        assert "cannot reach" in weir("policy", "diff", new, "--server", "http://127.0.0.1:1", status=2)


@test
def a_reload_that_changes_much_names_some_of_it():
    with Folder() as folder:
        config = write(folder, "version: 1\npolicies:\n  a: {limit: 1 per 1s}\n")
        with Server(config=config) as server:
            config.write_text("version: 1\npolicies:\n" + "".join(f"  p{i}: {{limit: 1 per 1s}}\n" for i in range(25)))
            said = json.loads(weir("reload", "--json", "--server", server.url))["changes"]
            if said != "no policy has changed":  # unless the change of the file was noticed before
                assert said == "added " + ", ".join(f"p{i}" for i in range(10)) + " and 15 more; removed a", said
            wait_until(lambda: any("and 15 more; removed a" in line["message"] for line in server.log.events("reloaded")))


run()
