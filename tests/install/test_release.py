#!/usr/bin/env python3
"""test_release.py - the parts of a release that can be made quickly: the source and the bill of materials.

    test_release.py TREE      from the root of the source

`./dev release` makes all parts, twice, and compares them.
"""
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import TREE, finds_nothing, run  # noqa: E402



def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=100, **options).stdout


def source(folder, **env):
    return Path(output("packaging/source.sh", folder, env={**os.environ, "XZ_LEVEL": "0", **env}).strip())


@finds_nothing
def the_source_is_the_same_bytes_twice():
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first = source(one).read_bytes()
        old = os.umask(0o077)
        try:
            second = source(two, TZ="Pacific/Chatham", LC_ALL="C").read_bytes()
        finally:
            os.umask(old)
    return [] if first == second else ["they differ"]


@finds_nothing
def the_source_can_be_built_and_has_no_more():
    with tempfile.TemporaryDirectory() as folder:
        path = source(folder)
        with tarfile.open(path) as tar:
            names, owners = tar.getnames(), {m.uname or m.uid for m in tar.getmembers()}
    root = path.name.removesuffix(".tar.xz") + "/"
    wanted = ["dev", "meson.build", "src/cli/main.c", "packaging/deb/debian/control", "LICENSE", ".gitignore"]
    problems = [f"{name} is missing" for name in wanted if root + name not in names]
    problems += [f"{name} does not belong" for name in names
                 if not name.startswith(root) or re.match(r"(build[^/]*|dist|\.git)/", name.removeprefix(root))]
    return problems + ([] if owners == {0} else [f"owners are {owners}"])


def materials(*files):
    text = output("packaging/sbom.py", "1.2.3", *files, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    return text, json.loads(text)


@finds_nothing
def the_materials_are_the_same_bytes_twice():
    return [] if materials(TREE / "weir")[0] == materials(TREE / "weir")[0] else ["they differ"]


@finds_nothing
def the_materials_have_every_library():
    """By what the linker was told, and what dpkg says of a name that programs are linked with."""
    _, document = materials(TREE / "weir")
    names = {p["name"] for p in document["packages"]}
    needed = re.findall(r"\(NEEDED\).*\[(lib.*)\]", output("readelf", "-d", TREE / "weir"))
    problems = []
    for library in needed:
        found = output("sh", "-c", f"dpkg-query -S '*/{library}' | cut -d : -f 1").split()
        if not names & set(found):
            problems.append(f"{library} is in none of {sorted(names)}")
    linked = [r for r in document["relationships"] if r["relationshipType"] == "DYNAMIC_LINK"]
    return problems + ([] if len(linked) >= len(needed) - 2 else [f"only {len(linked)} are linked"])


@finds_nothing
def the_materials_are_whole():
    """What the specification of SPDX 2.3 requires of a document, and references that lead somewhere."""
    _, document = materials(TREE / "weir", "LICENSE")
    problems = [f"{k} is missing" for k in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace",
                                            "creationInfo", "packages", "relationships") if not document.get(k)]
    known = {"SPDXRef-DOCUMENT"} | {e["SPDXID"] for e in document["packages"] + document["files"]}
    problems += [f"{i} is no name" for i in known if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i)]
    for r in document["relationships"]:
        problems += [f"{r[k]} is not there" for k in ("spdxElementId", "relatedSpdxElement") if r[k] not in known]
    for package in document["packages"]:
        problems += [f"{package['name']} lacks {k}" for k in ("versionInfo", "downloadLocation") if not package.get(k)]
    if document["creationInfo"]["created"] != "2023-11-14T22:13:20Z":
        problems.append("the time is not that of the release")
    return problems


run()
