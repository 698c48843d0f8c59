"""npm.py - for tests: what npm has to fetch, kept in the build tree; and browsers that it drives."""
import fcntl
import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@functools.cache  # without a registry, each try takes seconds
def fetched(source, folder):
    """The node_modules of what `source` asks for, kept in `folder`; or None and why there is none."""
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:  # several tests may share it
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetch(source, folder)


def fetch(source, folder):
    lock, kept = source / "package-lock.json", folder / "package-lock.json"
    if not (folder / "node_modules").exists() or kept.read_bytes() != lock.read_bytes():
        if not shutil.which("npm") or not shutil.which("node"):
            return None, "node or npm is not installed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
                               "--fetch-retries=0", "--fetch-timeout=20000"], cwd=folder,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder)
            return None, "npm cannot fetch it: " + done.stderr.strip().splitlines()[-1]
    return folder / "node_modules", None


def browser(tree):
    """The modules that drive a browser; or None and why there is none."""
    if not CHROMIUM:
        return None, "there is no Chromium"
    if not shutil.which("node"):
        return None, "node is not installed"
    return fetched(Path("tests/e2e/dashboard").resolve(), tree / "dashboard")


def drive(script, modules, *arguments, asked=None):
    """{scenario: what went wrong, or None}. `asked` has a function for each thing that the script wants."""
    found = {}
    with subprocess.Popen(["node", script, CHROMIUM, *arguments], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env={**os.environ, "NODE_PATH": str(modules)}) as node:
        try:
            for line in node.stdout:
                said = json.loads(line)
                if "wants" in said:
                    asked[said["wants"]]()
                    node.stdin.write("done\n")
                    node.stdin.flush()
                else:
                    found[said["name"]] = said.get("error")
        finally:
            node.kill()
    return found


def scenarios(test, script, results, skipped):
    """Each scenario of the script as a test."""
    def has_passed(name):
        if skipped:
            return skipped
        assert name in results, f"it was not run: {list(results)}"
        assert results[name] is None, results[name]
        return None

    for line in script.read_text().splitlines():
        if line.startswith('scenario("'):
            name = line.split('"')[1]
            holds = lambda name=name: has_passed(name)  # noqa: E731
            holds.__name__ = name
            test(holds)
