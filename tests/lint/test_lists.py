#!/usr/bin/env python3
"""test_lists.py - what is added to a list of the C source is missed nowhere.

    tests/lint/test_lists.py BUILD

Algorithms, verbs, modes, sources, … are X-macro lists; see tests/support/c_lists.py. Other places
must know their entries too: switches in C, the judges in Lua and SQL, openapi.json, the pages.
This test knows each of these places and compares it with the list.

It then tries it out: in a copy of the tree it adds an entry to each list, and sees that the
compiler names every switch, and that the comparison names every other place. No place may be
found by grep alone: a source file that mentions an entry is named, or stands here with a reason.
"""
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from c_lists import CLists, WHERE, macro  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
DUMMY = {
    "algorithms": 'X(DUMMY, {next}, "dummy", true, true)',
    "sources": 'X(DUMMY, {next}, "dummy")',
    "on_errors": 'X(DUMMY, {next}, "dummy")',
    "verbs": "X(DUMMY, false, false)",
    "wire_verbs": "X(DUMMY, {next})",
    "modes": 'X(DUMMY, "dummy")',
    "subjects": 'X(DUMMY_SUBJECT, "dummy")',
    "effects": 'X(DUMMY_EFFECT, "dummy")',
}

# ---- places that are not C ------------------------------------------------------------------


def numbered(text, before):
    """Of "… 1 fixed_window, 2 sliding_window, …" behind some words: the names and numbers."""
    found = re.search(before + r"((?:\s|--|,|\d+ \w+)+)", text)
    return {name: int(n) for n, name in re.findall(r"(\d+) (\w+)", found.group(1))}


def quoted(text, pattern):
    """The words between quotes in what the pattern finds, each time that it does."""
    return [set(re.findall(r"'(\w+)'", found)) for found in re.findall(pattern, text)]


def lua_algorithms(text):
    """Without the cell, and with a fixed window once, wherever it begins."""
    return {int(n) % 16 for n in re.findall(r"algorithm == (\d+)", text)} - {15}


def sql_array(text):
    names = re.search(r"array_position\(ARRAY\[([^\]]*)\]", text).group(1)
    return {name: n for n, name in enumerate(re.findall(r"'(\w+)'", names), 1)}


def all_have(texts, names):
    return all(text == names for text in texts) and bool(texts)


def without(numbers, *names):
    return {name: n for name, n in numbers.items() if name not in names}


def counted(c):
    """The algorithms of which a check is enough. Others need a reservation, and a store that has them."""
    return without(c.algorithms, "concurrency")


# A name, the list, the file, and whether the file has all of it and nothing else.
EXACT = [
    ("the script's algorithms", "algorithms", "lua/judge.lua",
     lambda text, c: lua_algorithms(text) == set(c.algorithms.values())),
    ("the algorithms that a script holds by", "algorithms", "lua/reserve.lua",
     lambda text, c: lua_algorithms(text.replace("~=", "==")) == set(c.algorithms.values())),
    ("the script's verbs", "wire_verbs", "lua/judge.lua",
     lambda text, c: numbered(text, "Verbs:") == c.wire_verbs),
    ("the numbers of weir.judge()", "algorithms", "sql/0002_judge.sql",
     lambda text, c: without(numbered(text, "algorithms   of each rule:"), "cell") == c.algorithms),
    ("the verbs of weir.judge()", "wire_verbs", "sql/0002_judge.sql",
     lambda text, c: numbered(text, "of each question:(?= 0 check)") == without(c.wire_verbs,
                                                                                "undo")),
    ("the names of weir.complete()", "algorithms", "sql/0003_policies.sql",
     lambda text, c: sql_array(text) == c.algorithms),
    ("which have a burst", "algorithms", "sql/0003_policies.sql",
     lambda text, c: all_have(quoted(text, r"is_bucket CONSTANT [^;]*;"), c.with_burst)),
    ("which have a precision", "algorithms", "sql/0003_policies.sql",
     lambda text, c: all_have(quoted(text, r"is_sliding CONSTANT [^;]*;"), c.with_precision)),
    ("which have a burst", "algorithms", "sql/0009_overrule.sql",
     lambda text, c: all_have(quoted(text, r"CASE WHEN algorithm (.*) AND next.*\n.*'burst'"),
                              c.with_burst)),
    ("which have a precision", "algorithms", "sql/0009_overrule.sql",
     lambda text, c: all_have(quoted(text, r"CASE WHEN algorithm (.*) AND next.*\n.*'precision_ms'"),
                              c.with_precision)),
    ("the traces that every store is held to", "algorithms", "tests/conformance/limits.jsonl",
     lambda text, c: set(re.findall(r'^{"algorithm":"(\w+)"', text, re.M)) == set(counted(c))),
]

# A list, a file, and how it says each entry.
MENTIONED = [
    ("algorithms", "sql/0001_tables.sql", r"--   (\w+, *\n--   )?{}\b"),
    ("algorithms", "docs/policy.md", r"\n\| `{}` \| .* \|"),
    ("algorithms", "docs/limits.md", r"\n\| `{}` \| .* \|"),
    ("algorithms", "docs/limits.md", r"\n\*\*{}\*\* "),
    ("counted", "docs/redis.md", r"\n\|[^|]*\b{}\b[^|]*\| \d"),
    ("counted", "docs/performance.md", r"\n\| `{}` \| \d+ \|"),
    ("counted", "tests/support/sql_model.py", r'KINDS = \{{[^}}]*"{}":'),
    ("sources", "docs/limits.md", r"\n\| `{}` \| .* \|"),
    ("effects", "sql/0008_ledger.sql", r"CHECK \(effect IN \([^)]*'{}'"),
    ("subjects", "sql/0008_ledger.sql", r"CHECK \(kind IN \([^)]*'{}'"),
    # What clients ask for: a check, a look, and the other verbs but the store's own.
    ("asked", "include/weir.h", r"weir_err weir_{}\("),
    ("asked", "src/server/http/routes.c", r'"/v1/{}"'),
    ("ASKED", "src/server/resp/commands.c", r'"WEIR\.{}"'),
    ("asked", "sql/0004_check.sql", r"FUNCTION weir\.{}\("),
    ("asked", "sql/0012_comments.sql", r"FUNCTION weir\.{} IS"),
    ("asked", "docs/openapi.json", r'"/v1/{}": \{{'),
    ("asked", "docs/http.md", r"`POST /v1/{}`"),
    ("ASKED", "docs/resp.md", r"WEIR\.{}\b"),
    ("asked", "docs/sql.md", r"`weir\.{}\("),
    ("asked", "docs/library.md", r"\bweir_{}\("),
]
ASKED_OF = {"verbs": ("asked",), "algorithms": ("algorithms", "counted")}
OWN_VERBS = {"undo"}  # of stores; no client asks for them

# Lists in one line of prose, JSON, SQL or C: a text with all but one of a list has forgotten one.
PROSE = ("README.md", "docs", "examples", "include", "lua", "sql", "src", "web")
BETWEEN = r"""(?:["'`\s|\\]|\\n)*(?:,|\||\bor\b|\band\b)(?:["'`\s|\\]|\bor\b|\band\b|--)*"""


def forgotten(root, c):
    """What names most of a list and lacks the rest."""
    files = [path for top in PROSE for path in sorted([Path(root, top)] if Path(root, top).is_file()
                                                      else Path(root, top).rglob("*"))
             if path.suffix in (".c", ".h", ".js", ".html", ".json", ".lua", ".md", ".sql", ".yaml")]
    lists = [set(c.algorithms), c.sources, c.on_errors, c.modes, c.subjects, c.effects]
    said = []
    for path in files:
        text = path.read_text()
        for names in lists:
            if sum(name in text for name in names) < max(3, len(names) - 1):
                continue
            word = r"\b(?:" + "|".join(sorted(names)) + r")\b"
            for found in re.finditer(f"{word}(?:{BETWEEN}{word})+", text):
                has = set(re.findall(word, found.group()))
                if path.suffix == ".sql" and names - has == set(c.algorithms) - set(counted(c)):
                    continue
                if max(3, len(names) - 1) <= len(has) < len(names):
                    line = text.count("\n", 0, found.start()) + 1
                    said.append(f"{path.relative_to(root)}:{line}: the list lacks "
                                f"{', '.join(sorted(names - has))}")
    return said


def compare(root):
    """What other places lack of the lists in C, or have beyond them."""
    c = CLists(root)
    asked = c.verbs - OWN_VERBS | {"peek"}
    names = {"algorithms": set(c.algorithms), "counted": set(counted(c)), "sources": c.sources,
             "effects": c.effects, "subjects": c.subjects, "asked": asked, "ASKED": {name.upper() for name in asked}}
    said = [f"{file}: {name} are not those of {'/'.join(WHERE[of][::-1])}"
            for name, of, file, is_same in EXACT
            if not is_same(Path(root, file).read_text(), c)]
    for of, file, pattern in MENTIONED:
        text = Path(root, file).read_text()
        said += [f"{file}: {name} is missing, as in {pattern.format(name)!r}"
                 for name in sorted(names[of]) if not re.search(pattern.format(name), text)]
    if set(c.wire_verbs) - {"peek"} != c.verbs:
        said.append(f"{WHERE['wire_verbs'][0]}: its verbs are not those of {WHERE['verbs'][0]}")
    return said + forgotten(root, c)


# ---- places in C ----------------------------------------------------------------------------

# What the compiler says that a switch lacks.
LACKED = {
    "algorithms": "WEIR_DUMMY", "verbs": "VERB_DUMMY", "sources": "WEIR_FROM_DUMMY",
    "subjects": "LEDGER_DUMMY_SUBJECT", "effects": "LEDGER_DUMMY_EFFECT",
}

# What may name one entry of a list without a switch, and why a new entry does not concern it.
NAMES_ONE = {
    "algorithms": {
        "src/limit/limit.h": "the default",
        "src/limit/bucket.c": "of the two algorithms in this file, one has a delay",
        "src/engine/override_request.c": "a limit that is only there to be counted by",
        "src/store/remote/probe.c": "the same",
        "src/server/resp/counters.c": "the same",
        "src/policy/envoy_read.c": "the one of files for Envoy that name none",
        "src/policy/envoy_policies.c": "the one of limits that come with requests of Envoy",
        "src/server/envoy/ruling.c": "the same",
    },
    "verbs": {
        "src/engine/fallback.c": "asks",
        "src/engine/prepare.c": "asks", "src/engine/usage.c": "asks", "src/engine/weir.c": "asks", "src/server/reply.c": "asks",
        "src/server/way.c": "asks", "src/server/http/gate.c": "asks",
        "src/server/resp/check.c": "asks", "src/server/resp/counters.c": "asks", "src/server/resp/scripts.c": "asks",
        "src/server/envoy/ruling.c": "asks",
        "src/store/remote/probe.c": "asks",
        "src/replay/judge.c": "asks",
        "src/store/redis/cluster.c": "asks for an undo",
        "src/store/redis/codec.c": "an undo has one number more",
    },
}
CONSTANT = {"algorithms": "WEIR_", "verbs": "VERB_"}

# A comparison with one entry says nothing of a new one: these are the only files that have any.
COMPARE = {"algorithms": {"src/limit/bucket.c"}, "verbs": {"src/store/redis/codec.c"}}


def with_dummy(source, of, root):
    """Add an entry to one list of a copy."""
    file, name = WHERE[of]
    text = source[file]
    old = macro(text, name)
    last = max((int(n) for n in re.findall(r"X\(\w+, (\d+)", old)), default=0)
    new = old.rstrip("\n") + " \\\n    " + DUMMY[of].format(next=last + 1) + "\n"
    Path(root, file).write_text(text.replace(old, new))


def commands(build, root):
    """How each C file of the tree is compiled, by its path; there to be only looked at."""
    found = {}
    for entry in json.loads(Path(build, "compile_commands.json").read_text()):
        path = Path(entry["directory"], entry["file"]).resolve()
        if path.suffix != ".c" or not path.is_relative_to(ROOT / "src"):
            continue
        file = path.relative_to(ROOT)
        if not any(word in path.read_text() for word in ("switch (", "state_is_log", "wire_verb")):
            continue
        words = [word for word in shlex.split(entry["command"]) if word != "ccache"]
        args, skip = [words[0]], False
        for word in words[1:]:
            if skip or word in ("-o", "-MF", "-MQ", "-c", "-MD") or word == entry["file"]:
                skip = word in ("-o", "-MF", "-MQ")
                continue
            if word.startswith("-I") and (ROOT / build / word[2:]).resolve() in \
                    (ROOT / top for top in ("include", "src", "tests")):
                word = f"-I{root / (ROOT / build / word[2:]).resolve().relative_to(ROOT)}"
            args.append(word)
        found[file] = args + ["-fsyntax-only", "-fdiagnostics-color=never", "-Wno-error",
                              str(root / file)]
    return found


def named(build, root):
    """The files with switches that the compiler names, by the entry that they lack; and errors."""
    def run(args):
        return subprocess.run(args, cwd=build, stderr=subprocess.PIPE, text=True).stderr

    with ThreadPoolExecutor(2) as pool:
        said = "".join(pool.map(run, commands(build, root).values()))
    found = {}
    for file, lacks in re.findall(r"^(\S+?):\d+:.*enumeration value .(\w*_DUMMY\w*)\W", said, re.M):
        file = str(Path(file).resolve().relative_to(root.resolve()))
        found.setdefault(lacks, set()).add(file)
    return found, re.findall(r"^.*: error: .*$", said, re.M)


def mentions(of, before=""):
    """The source files that name an entry of a list outside comments, with this before it."""
    file, name = WHERE[of]
    entries = re.findall(r"X\((\w+),", macro((ROOT / file).read_text(), name))
    word = re.compile(rf"{before}\b{CONSTANT[of]}({'|'.join(entries)})\b")
    return {str(path.relative_to(ROOT)) for path in sorted((ROOT / "src").rglob("*.[ch]"))
            if word.search(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S))}


# ---- tests ------------------------------------------------------------------------------------


def results(build, scratch):
    said = compare(ROOT)
    yield "the_lists_are_the_same_everywhere", "\n".join(said)

    for top in ("include", "src", "tests", "lua", "sql", "docs", "examples", "web"):
        shutil.copytree(ROOT / top, scratch / top, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", scratch)
    source = {file: (ROOT / file).read_text() for file, _ in WHERE.values()}

    for of in WHERE:
        for file, text in source.items():
            (scratch / file).write_text(text)
        with_dummy(source, of, scratch)
        lacks = compare(scratch)
        wanted = [f"{file}: {name} are" for name, list_name, file, _ in EXACT if list_name == of]
        wanted += [f"{file}: dummy is missing, as in {pattern.format('dummy')!r}"
                   for list_name, file, pattern in MENTIONED
                   if list_name in ASKED_OF.get(of, (of,))]
        wanted += [f"{file}: DUMMY is" for list_name, file, _ in MENTIONED
                   if list_name == "ASKED" and of == "verbs"]
        if of == "verbs":
            wanted.append(WHERE["wire_verbs"][0])
        silent = [w for w in wanted if not any(line.startswith(w) for line in lacks)]
        prose = [line for line in lacks if "the list lacks dummy" in line]
        yield f"the_comparison_names_each_place_that_lacks_a_new_one_of_the_{of}", \
            "".join(f"silent: {w}\n" for w in silent) or \
            ("" if lacks and (prose or of not in ("algorithms", "modes", "on_errors", "sources"))
             else "nothing was said")

    for file, text in source.items():
        (scratch / file).write_text(text)
    for of in WHERE:
        with_dummy(source, of, scratch)
        source[WHERE[of][0]] = (scratch / WHERE[of][0]).read_text()
    found, errors = named(build, scratch)
    yield "a_new_entry_is_no_error", "\n".join(errors)
    for of, lacked in LACKED.items():
        yield f"the_compiler_names_what_lacks_a_new_one_of_the_{of}", \
            "" if found.get(lacked) else "it is silent"
    for of, reasons in NAMES_ONE.items():
        at_all, by_compiler = mentions(of), found.get(LACKED[of], set())
        said = [f"{file}: the compiler does not name it" for file in
                sorted(at_all - by_compiler - set(reasons))]
        said += [f"{file}: mentions none any more" for file in sorted(set(reasons) - at_all)]
        said += [f"{file}: compares with one entry of a list: make it a switch, or a column of it"
                 for file in sorted(mentions(of, r"(?:[=!<>]=|[<>]) ") - COMPARE[of])]
        yield f"grep_finds_no_file_that_knows_{of}_and_that_the_compiler_does_not_name", \
            "\n".join(said)


def main(build):
    failed = number = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, said) in enumerate(results(Path(build).resolve(), Path(scratch)), 1):
            print("not ok" if said else "ok", number, "-", name, flush=True)
            print("".join(f"# {line}\n" for line in said.splitlines()), end="")
            failed += bool(said)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
