#!/usr/bin/env python3
"""test_deb.py - the packaging for Debian agrees with the program, without building a package.

    test_deb.py TREE      from the root of the source

`./dev package --test deb` builds the packages and installs them on bare roots.
"""
import fnmatch
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import TREE, finds_nothing, run  # noqa: E402

DEBIAN = Path("packaging/deb/debian")
UNITS = Path("packaging/systemd")


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60, **options).stdout


def read(name):
    return (DEBIAN / name).read_text(encoding="utf-8")


def libdir():
    """Where meson puts libraries: without dpkg-dev it does not know the name of the architecture."""
    options = json.loads(output("meson", "introspect", "--buildoptions", TREE))
    return next(option["value"] for option in options if option["name"] == "libdir")


def staged():
    """What `meson install` puts where, as it is seen by debian/*.install."""
    with tempfile.TemporaryDirectory() as folder:
        output("meson", "install", "--no-rebuild", "-C", TREE, "--destdir", folder)
        files = [str(path.relative_to(folder)) for path in Path(folder).rglob("*") if not path.is_dir()]
    libraries = f"usr/local/{libdir()}/"
    return [file.replace(libraries, "usr/lib/any-linux-gnu/", 1).replace("usr/local/", "usr/", 1) for file in files]


def patterns():
    return [(name, line) for name in sorted(p.name for p in DEBIAN.glob("*.install"))
            for line in read(name).split()]


def covers(pattern, file):
    return fnmatch.fnmatch(file, pattern) or fnmatch.fnmatch(file, pattern + "/*")


@finds_nothing
def the_version_is_that_of_the_program():
    version = output(TREE / "weir", "--version").split()[1]
    said = re.match(r"weir \(([\d.]+)-\d+\)", read("changelog"))[1]
    return [] if said == version else [f"debian/changelog says {said}, the program {version}"]


@finds_nothing
def every_installed_file_is_in_one_package():
    problems = []
    for file in staged():
        owners = {name for name, pattern in patterns() if covers(pattern, file)}
        if len(owners) != 1:
            problems.append(f"{file} is in {sorted(owners) or 'no package'}")
    return problems


@finds_nothing
def every_pattern_has_a_file():
    files = [*staged(), "etc/weir/policies.yaml"]
    return [f"{name}: {pattern} matches nothing" for name, pattern in patterns()
            if not any(covers(pattern, file) for file in files)]


@finds_nothing
def the_symbols_are_those_of_the_library():
    exported = {line.split()[2] for line in output("nm", "-D", "--defined-only", TREE / "libweir.so").splitlines()}
    said = set(re.findall(r"^ (\w+)@Base", read("libweir1.symbols"), re.MULTILINE))
    return [f"{name} is only in {'the library' if name in exported else 'debian/libweir1.symbols'}"
            for name in sorted(exported ^ said)]


@finds_nothing
def the_soname_is_in_the_name_of_the_package():
    number = re.search(r"soname: \[libweir\.so\.(\d+)\]", output("readelf", "-d", TREE / "libweir.so"))[1]
    return [] if f"Package: libweir{number}\n" in read("control") else [f"there is no package libweir{number}"]


@finds_nothing
def build_depends_are_those_of_the_build():
    """All libraries that `./dev build` installs, and no other."""
    listed = re.search(r"^build_packages='([^']*)'", Path("dev").read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    section = re.search(r"^Build-Depends:\n((?: .*\n)+)", read("control"), re.MULTILINE)[1]
    said = re.findall(r"^ ([\w.+-]+)", section, re.MULTILINE)
    ours, theirs = ({n for n in names if n.startswith("lib") and n != "libc6-dev"} for names in (listed, said))
    return [f"{name} is only in {'dev' if name in ours else 'debian/control'}" for name in sorted(ours ^ theirs)]


@finds_nothing
def the_default_configuration_is_valid():
    args = ["serve", "--check", "--config", str(UNITS / "policies.yaml")]
    done = subprocess.run([TREE / "weir", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False)
    wanted = [r"^store +file:/var/lib/weir\b", r"^listen +127\.0\.0\.1:7878\b"]
    is_right = done.returncode == 0 and all(re.search(w, done.stdout, re.MULTILINE) for w in wanted)
    return [] if is_right else [done.stdout]


@finds_nothing
def the_unit_starts_what_is_packaged():
    unit = (UNITS / "weir.service").read_text(encoding="utf-8")
    start = "ExecStart=/usr/local/bin/weir serve --config /etc/weir/policies.yaml\n"
    wanted = [start, "User=weir\n", "StateDirectory=weir\n"]
    return [f"the unit lacks {w!r}" for w in wanted if w not in unit]


@finds_nothing
def a_new_symbol_is_noticed():
    name = "weir_check@Base"
    assert name in read("libweir1.symbols")
    original = read
    try:
        globals()["read"] = lambda file: original(file).replace(name, "weir_gone@Base")
        return [] if len(the_symbols_are_those_of_the_library()) == 2 else ["it was not"]
    finally:
        globals()["read"] = original


run()
