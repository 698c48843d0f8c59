#!/usr/bin/env python3
"""test_descriptors.py - what scripts/descriptors.py makes of proto/ is what protoc makes of it, and its lists are those
of weir.h."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import descriptors  # noqa: E402

PROTO = ROOT / "proto"


def listed(macro):
    """{name: value} of a list in weir.h."""
    text = (ROOT / "include/weir.h").read_text().replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.startswith(f"#define {macro}(X)"))
    return {name: int(value) for name, value in re.findall(r"X\((\w+), (\d+),", line)}


def declared(enum, prefix):
    file = next(file for file, _, _ in descriptors.read(PROTO) if file.name == "weir/v1/weir.proto")
    return {name.removeprefix(prefix): value for name, value in dict(file.enums)[enum]}


def understood(text):
    try:
        descriptors.File("a.proto", text).descriptor({"a.A": descriptors.MESSAGE})
    except (SyntaxError, IndexError):
        return False
    return True


def results():
    """(name, what is wrong, or "")"""
    files = descriptors.read(PROTO)
    for file, descriptor, _ in files if shutil.which("protoc") else []:
        with tempfile.NamedTemporaryFile() as out:
            subprocess.run(["protoc", "-I", PROTO, "-o", out.name, file.name], check=True)
            same = descriptors.field(1, descriptor) == Path(out.name).read_bytes()
        yield f"{file.name}_is_what_protoc_makes_of_it", "" if same else "it is not"
    wrong = ['syntax = "proto2";', "message A { extensions 4 to 5; }", "option x = 1;", "?", "message A {",
             "message A { int64 b = 1 [packed = true]; }", "package a; message A { B b = 1; }"]
    yield "what_is_not_understood_is_an_error", "\n".join(text for text in wrong if understood(text))
    sources = {name: value + 1 for name, value in listed("WEIR_SOURCES").items()}  # 0 is none
    lists = {("Algorithm", "ALGORITHM_"): {"UNSPECIFIED": 0, **listed("WEIR_ALGORITHMS")},
             ("OnError", "ON_ERROR_"): {"UNSPECIFIED": 0, **listed("WEIR_ON_ERRORS")},
             ("Start", "START_"): listed("WEIR_STARTS"),
             ("Source", "SOURCE_"): {"UNSPECIFIED": 0, **sources}}
    for (enum, prefix), expected in lists.items():
        there = declared(enum, prefix)
        yield f"the_list_{enum}_is_that_of_the_header", "" if there == expected else f"{there}, not {expected}"


def main():
    failed = number = 0
    for number, (name, said) in enumerate(results(), 1):
        print("not ok" if said else "ok", number, "-", name)
        print("".join(f"# {line}\n" for line in said.splitlines()), end="")
        failed += bool(said)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
