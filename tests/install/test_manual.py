#!/usr/bin/env python3
"""test_manual.py - the manual pages are whole: all commands, options, settings and keys, and well-formed.

    test_manual.py TREE      from the root of the source

What must be in them is read from the help and from docs/ by itself, and looked for in what mandoc
shows, as a reader sees it.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import TREE, finds_nothing, run  # noqa: E402

PAGES = ["weir.1", "weir-serve.8", "weir-policies.5"]


def output(*command):
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60).stdout


def weir(*args):
    return output(TREE / "weir", *args)


def shown(page):
    """The page as text on a line, without line breaks, hyphenation and overstriking."""
    text = re.sub(r".\x08", "", output("mandoc", "-T", "utf8", "-O", "width=200", TREE / "docs" / page))
    return re.sub(r"\s+", " ", text)


def commands():
    return [c["name"] for c in json.loads(weir("help", "--json"))["commands"]]


def options(name):
    """Of the help: each line of the table, as `--name ARGUMENT`."""
    for line in weir("help", *name.split()).splitlines():
        if line.startswith("  -"):
            yield from re.findall(r"--[a-z-]+(?: [A-Z][A-Za-z,.:\[\]]*)?", re.split(r"(?<=\S)  ", line[2:])[0])


def missing(text, wanted):
    return [f"{what!r} is missing" for what in wanted if what not in text]


def is_well_formed(page):
    return output("mandoc", "-T", "lint", TREE / "docs" / page).splitlines()


def has_no_markdown(page):
    source = (TREE / "docs" / page).read_text(encoding="utf-8")
    return [f"{rest!r} is left" for rest in re.findall(r"\]\(|\*\*|```|^\|.*|^#.*", source, re.MULTILINE)]


@finds_nothing
def has_all_commands():
    text = shown("weir.1")
    wanted = []
    for name in commands():
        if name != "serve":
            wanted += [f"weir {name} ", *options(name)]
    return missing(text, wanted)


@finds_nothing
def serve_has_all_options():
    return missing(shown("weir-serve.8"), options("serve"))


def rows(page):
    """The first cells of the tables of a page of docs/."""
    return [cell for cell in re.findall(r"^\| `([^`|]+)` ", Path("docs", page).read_text(encoding="utf-8"), re.MULTILINE)]


def headings(page):
    return re.findall(r"^#{2,3} (.*)$", Path("docs", page).read_text(encoding="utf-8"), re.MULTILINE)


@finds_nothing
def serve_has_all_settings():
    return missing(shown("weir-serve.8"), rows("settings.md")) or ([] if len(rows("settings.md")) > 15 else ["too few"])


@finds_nothing
def policies_has_all_keys():
    text = shown("weir-policies.5")
    return missing(text, rows("policy.md")) + missing(text.upper(), [h.upper() for h in headings("policy.md")])


@finds_nothing
def a_missing_option_is_noticed():
    return [] if missing(shown("weir.1"), ["--no-such-option"]) else ["it was not"]


for page in PAGES:
    for check in is_well_formed, has_no_markdown:
        finds_nothing(lambda page=page, check=check: check(page), f"{page} {check.__name__}")
run()
