#!/usr/bin/env python3
"""test_packages.py - what packaging/ says in several places is the same in all of them.

    test_packages.py TREE      from the root of the source

That packages can be built, installed and run is tested by `./dev package --test`, which takes longer.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

tests = []


def test(function):
    tests.append(function)
    return function


def text(path):
    return Path(path).read_text(encoding="utf-8")


def version():
    return re.search(r"^  version: '(.*)'", text("meson.build"), re.MULTILINE)[1]


# ---- the image ----------------------------------------------------------------------------

@test
def the_image_has_the_version_of_the_program():
    assert f"\nARG VERSION={version()}\n" in text("Containerfile")


@test
def the_image_is_built_with_the_packages_that_dev_installs():
    wanted = re.search(r"^build_packages='(.*?)'", text("dev"), re.MULTILINE | re.DOTALL)[1].split()
    installed = re.search(r"--no-install-recommends \\\n\s*install (.*?)\nCOPY", text("Containerfile"), re.DOTALL)[1]
    missing = set(wanted) - set(installed.replace("\\", " ").split())
    assert wanted and not missing, f"the Containerfile does not install {missing}"


@test
def what_the_build_reads_is_not_left_out_of_the_image():
    kept = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    used = {"meson.build", "meson_options.txt", "LICENSE", "packaging", "tests/meson.build"}
    used |= {match.split("/")[0] for match in re.findall(r"files\('\.?\.?/?(\w+)/", text("meson.build"))}
    used |= set(re.findall(r"^\s*subdir\('(\w+)'\)", text("meson.build"), re.MULTILINE)) - {"tests"}
    used |= set(re.findall(r'ROOT / "(\w+)', text("scripts/embed.py")))
    assert {"src", "docs", "lua", "sql", "web", "scripts"} <= used, used
    assert used <= kept, f".dockerignore leaves out {used - kept}"


# ---- the package for npm --------------------------------------------------------------------

@test
def the_package_for_npm_has_the_version_of_the_program():
    assert json.loads(text("packaging/npm/package.json"))["version"] == version()


@test
def the_package_for_npm_names_files_that_exist():
    package, folder = json.loads(text("packaging/npm/package.json")), Path("packaging/npm")
    for name in [package["main"], package["types"], *package["bin"].values()]:
        assert (folder / name).is_file(), name
    assert "linux-x64" in package["files"] and "/package/linux-x64" in text("packaging/npm/build.sh")


@test
def without_a_program_for_the_machine_the_package_says_so():
    code = """Object.defineProperty(process, "arch", { value: "riscv" });
              require("./packaging/npm").start().catch((e) => console.log(e.message))"""
    said = subprocess.run(["node", "-e", code], check=True, capture_output=True, text=True, timeout=60).stdout
    assert said == ("weir-server has a program for linux-x64 only, not for linux-riscv: run weir in a container\n"), said


def main():
    failed = 0
    for number, function in enumerate(tests, 1):
        try:
            function()
            print(f"ok {number} - {function.__name__}")
        except Exception as problem:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {function.__name__}\n# {type(problem).__name__}: {problem}")
    print(f"1..{len(tests)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
