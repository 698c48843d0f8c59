#!/usr/bin/env python3
"""sbom.py - writes a bill of materials, as SPDX 2.3 in JSON: what a program is linked with.

    packaging/sbom.py VERSION FILE...      the FILEs of a release; to stdout

The libraries are those that the dynamic linker finds, and their versions and sources are those of
dpkg. The same files and packages make the same bytes: the time is $SOURCE_DATE_EPOCH.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(path):
    """The files that are loaded with a program, also by its libraries."""
    return {Path(found).resolve() for found in re.findall(r"(?:=> |^\t)(/\S+) \(0x", run("ldd", path), re.MULTILINE)}


def directly(path):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", path)))


def packages_of(paths):
    """The package of each file, by the name that dpkg has: a merged /usr has two for one file."""
    names = {name: path for path in paths for name in (str(path), str(path).removeprefix("/usr"))}
    said = subprocess.run(["dpkg-query", "-S", *names], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    found = {names[name]: package for package, name in (line.split(": ") for line in said.splitlines())}
    for path in paths:
        if path not in found:
            raise SystemExit(f"sbom.py: no package has {path}")
    return found


def described(packages):
    fields = ["Package", "Version", "Architecture", "source:Package", "source:Version", "Homepage"]
    said = run("dpkg-query", "-W", "-f", "\\t".join(f"${{{f}}}" for f in fields) + "\\n", *packages)
    rows = [dict(zip(fields, line.split("\t"))) for line in said.splitlines()]
    return {row["Package"]: row for row in rows}


def identity(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def library_entry(d):
    url = f"pkg:deb/debian/{d['Package']}@{d['Version']}?arch={d['Architecture']}"
    return {
        "SPDXID": identity("Package-" + d["Package"]), "name": d["Package"], "versionInfo": d["Version"],
        "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "homepage": d["Homepage"] or "NOASSERTION", "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
        "sourceInfo": f"built from {d['source:Package']} {d['source:Version']}",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
    }


def file_entry(path):
    data = Path(path).read_bytes()
    return {
        "SPDXID": identity("File-" + Path(path).name), "fileName": "./" + Path(path).name,
        "checksums": [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, data).hexdigest()}
                      for name in ("sha1", "sha256")],
        "licenseConcluded": "Apache-2.0", "copyrightText": "NOASSERTION",
    }


def main():
    version, *paths = sys.argv[1:]
    programs = [path for path in paths if is_elf(path)]
    loaded = {library for path in programs for library in libraries(path)}
    near = set().union(*(directly(path) for path in programs))
    packages, owners = {}, packages_of(sorted(loaded))
    for library in sorted(loaded):
        name = owners[library].partition(":")[0]
        # One that the program itself names, and not only one of its libraries, wins.
        packages[name] = packages.get(name, False) or any(library.name.startswith(n) for n in near)
    files = [file_entry(path) for path in paths]
    weir = {
        "SPDXID": "SPDXRef-Package-weir", "name": "weir", "versionInfo": version, "supplier": "NOASSERTION",
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
    }
    facts = described(sorted(set(owners.values())))
    entries = {name: library_entry(facts[name]) for name in packages}
    digest = hashlib.sha256(json.dumps([files, list(entries.values())]).encode()).hexdigest()
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", weir["SPDXID"])]
    relations += [(weir["SPDXID"], "CONTAINS", file["SPDXID"]) for file in files]
    for name, is_near in packages.items():
        relations.append((weir["SPDXID"], "DYNAMIC_LINK", entries[name]["SPDXID"]) if is_near else
                         (entries[name]["SPDXID"], "RUNTIME_DEPENDENCY_OF", weir["SPDXID"]))
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"weir-{version}", "documentNamespace": f"https://spdx.org/spdxdocs/weir-{version}-{digest[:32]}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
            "creators": ["Tool: weir-packaging/sbom.py"],
        },
        "packages": [weir, *entries.values()],
        "files": files,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations],
    }
    json.dump(document, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
