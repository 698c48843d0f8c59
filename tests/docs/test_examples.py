#!/usr/bin/env python3
"""test_examples.py - what README.md and docs/*.md show is what happens.

    test_examples.py TREE SANITIZERS COMPILER...      from the root of the source

Each page has a folder of its own, in which `build` is TREE, `proto` that of the source, `weir` is on the path and
pkg-config finds the library of TREE. There,

  yaml      blocks must be valid. One that begins with `version:` is a whole file, and the first
            such is policies.yaml. One that begins with `domain:` is for envoyproxy/ratelimit, and the
            first such is envoy.yaml. The others are policies, or what begins with `exempt:`.
  c         blocks that begin with /* NAME.c - are written to that file. All others are run, one
            after the other, as parts of a program that has a `weir *w` with that policies.yaml,
            or that of examples/.
  console   blocks have commands, which begin with "$ ", each with all that it prints below it.
            Hashes of 32 digits may differ. A command that names port 7878 asks a server that is
            the page's own: `weir serve` with that policies.yaml, or that of examples/, on a port
            that is free. There dates may differ, and times by less than a minute.

Besides, in all pages: what they link to, and the files and functions that they name, exist; and a
row of a table that begins with a constant in `CAPITALS` has its value next. docs/security.md has all
limits that the headers of net, proto and server name.
"""
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import Server  # noqa: E402

ROOT = Path.cwd()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FOLDERS = "src|include|tests|docs|examples"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HASH = re.compile(r"\b[0-9a-f]{32}\b")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
NAMED_FILE = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w./*-]*[\w*]|`[a-z_0-9]+\.(?:c|h|cc|sh)`")
NAMED_FUNCTION = re.compile(r"`([a-z][a-z0-9_]*)\(\)`")
NAMED_CONSTANT = re.compile(r"^\| `([A-Z][A-Z0-9_]+)` \| ([\d,]+) ?(KiB|MiB|ms|s|min|bytes|)", re.MULTILINE)
LIMIT = re.compile(r"\b[A-Z]+(?:_[A-Z]+)*_(?:MAX|MOST)_[A-Z_]+(?= =)")
DEFINITION = re.compile(r"\b([A-Z][A-Z0-9_]+) =(?!=)\s*(?=([^,}]+))|#define ([A-Z][A-Z0-9_]+) ([^/\n]+)")
PORT = re.compile(r"\b7878\b")
UNITS = {"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "ms": 1, "s": 1000, "min": 60000}

# What is never twice the same in an answer of a server: a pattern, and what one number of it counts.
PASSING = [(re.compile(r'(?<=_after_ms":)\d+'), 60000), (re.compile(r"(?<=\(integer\) )\d{5,}"), 60000),
           (re.compile(r"(?<=^Retry-After: )\d+"), 60), (re.compile(r"(?<=;t=)\d+"), 60)]
DATES = re.compile(r"(?<=^Date: ).*|(?<=^X-RateLimit-Reset: )\d+")
WAIT = re.compile(r"(?<= in )(?:(\d+)m)?\d+(?:\.\d+)?s\b")

PROGRAM = """
#include <assert.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

{functions}
int main(void)
{{
    weir_options options = {{ .policy_file = "{policies}" }};
    weir_diag diag;
    weir *w;

    if (weir_open(&w, &options, &diag))
        errx(2, "%s", diag.text);
    {calls}
    weir_close(w);
    return 0;
}}
"""


class Page:
    def __init__(self, path, setup, scratch):
        self.name = path.stem.lower()
        self.path = path
        self.text = path.read_text()
        self.blocks = BLOCK.findall(self.text)
        self.folder = Path(scratch, self.name)
        self.setup = setup
        self.server = None
        self.prepare()

    def all(self, kind):
        return [text for name, text in self.blocks if name == kind]

    def prepare(self):
        """The folder that the examples run in."""
        self.folder.mkdir()
        (self.folder / "build").symlink_to(self.setup.tree)
        (self.folder / "examples").symlink_to(ROOT / "examples")
        (self.folder / "proto").symlink_to(ROOT / "proto")
        self.policies = "examples/policies.yaml"
        for text in self.all("yaml"):
            if text.startswith("version:"):
                (self.folder / "policies.yaml").write_text(text)
                self.policies = "policies.yaml"
                break
        for text in reversed([text for text in self.all("yaml") if text.startswith("domain:")]):
            (self.folder / "envoy.yaml").write_text(text)
        self.fragments = []
        for text in self.all("c"):
            named = re.match(r"/\* (\w+\.c) - ", text)
            if named:
                (self.folder / named[1]).write_text(text)
            else:
                self.fragments.append(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.server:
            self.server.kill()

    def port(self):
        """The port of the page's server, which is started on first use."""
        if not self.server:
            self.server = Server(config=self.folder / self.policies, env=self.setup.env,
                                 store=f"file:{self.folder}/weir-data")
        return str(self.server.port)

    def ask(self, command):
        """The output of a command, as if the server were on the default port."""
        port = self.port()
        command = PORT.sub(port, command.replace("localhost:7878", "127.0.0.1:7878"))
        printed = self.run(command)[1].replace("\r\n", "\n")
        return printed.replace(f"127.0.0.1:{port}", "localhost:7878").replace(port, "7878")

    def run(self, command):
        done = subprocess.run(["sh", "-c", command], cwd=self.folder, env=self.setup.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=100)
        return done.returncode, done.stdout

    # Each test is a generator of what is wrong.

    def yaml(self):
        for text in self.all("yaml"):
            if text.startswith("exempt:"):
                text = f"version: 1\npolicies: {{some: {{limit: 0}}}}\n{text}"
            elif not text.startswith(("version:", "domain:")):
                text = "version: 1\npolicies:\n" + "".join(f"  {line}\n" for line in text.splitlines())
            (self.folder / "block.yaml").write_text(text)
            status, output = self.run("weir policy lint block.yaml" if not text.startswith("domain:")
                                      else "weir policy import envoy block.yaml")
            if status:
                yield f"{output}{text}"

    def c(self):
        functions = "".join(f"static void example_{i}(weir *w)\n{{\n(void)w;\n{text}}}\n\n"
                            for i, text in enumerate(self.fragments))
        calls = "\n    ".join(f"example_{i}(w);" for i in range(len(self.fragments)))
        (self.folder / "fragments.c").write_text(
            PROGRAM.format(functions=functions, calls=calls, policies=self.policies))
        status, output = self.run("cc fragments.c -o fragments $(pkg-config --cflags --libs weir) && "
                                  "./fragments")
        if status:
            yield output

    def console(self):
        shown, printed = [], []
        for block in self.all("console"):
            is_served = False
            for line in block.splitlines():
                if line.startswith("$ "):
                    is_served = bool(PORT.search(line))
                    said = self.ask(line[2:]) if is_served else self.run(line[2:])[1]
                    printed += [line, *(steady(text, is_served) for text in said.splitlines())]
                    shown.append(line)
                else:
                    shown.append(steady(line, is_served))
        yield from difflib.unified_diff(shown, printed, "shown", "printed", lineterm="", n=1)

    def links(self):
        for target, anchor in LINK.findall(self.text):
            path = (self.path.parent / target).resolve() if target else self.path
            if not path.exists():
                yield f"there is no {target}"
            elif anchor and anchor[1:] not in anchors(path):
                yield f"{path.name} has no heading for {anchor}"

    def files(self):
        for name in {found.strip("`") for found in NAMED_FILE.findall(self.text)}:
            if "NAME" in name:
                continue
            pattern = name if "/" in name else f"**/{name}"
            places = [ROOT] if "/" in name else [ROOT / folder for folder in FOLDERS.split("|")]
            if not any(True for place in places for _ in place.glob(pattern)):
                if not (self.folder / name).exists():
                    yield f"there is no {name}"

    def functions(self):
        for name in sorted(set(NAMED_FUNCTION.findall(self.text))):
            if name not in self.setup.functions:
                yield f"there is no {name}()"

    def constants(self):
        for name, number, unit in NAMED_CONSTANT.findall(self.text):
            values = {self.setup.value_of(text) for text in self.setup.definitions(name)}
            if values != {int(number.replace(",", "")) * UNITS[unit]}:
                yield f"{name} is {' or '.join(map(str, values)) or 'not there'}, and not {number} {unit}"


def steady(line, is_served):
    """The line without what differs from one run to the next."""
    line = HASH.sub("HASH", line)
    if is_served:
        line = DATES.sub("...", line)
        line = WAIT.sub(lambda found: f"{int(found[1] or 0) + 1}m", line)
        for pattern, whole in PASSING:
            line = pattern.sub(lambda found, whole=whole: str(-(-int(found[0]) // whole) * whole), line)
    return line


def unlisted_limits(text):
    """Limits of what strangers send that a page does not have."""
    for layer in ("net", "proto", "server", "replay", "cli/replay"):
        for header in sorted((ROOT / "src" / layer).glob("*.h")):
            for name in LIMIT.findall(header.read_text()):
                if f"`{name}`" not in text:
                    yield f"{header.relative_to(ROOT)} has {name}"


def anchors(path):
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Setup:
    """What all pages share."""

    def __init__(self, tree, sanitizers, compiler, scratch):
        self.tree, self.defined = Path(tree).resolve(), {}
        self.code = "".join(path.read_text() for folder in ("src", "include", "tests")
                            for path in (ROOT / folder).rglob("*.[ch]"))
        self.code += "".join(path.read_text() for suite in ("cli", "crash", "e2e", "wire")
                             for path in (ROOT / "tests" / suite).glob("test_*") if path.suffix != ".c")
        self.code += "".join(path.read_text() for path in (ROOT / "sql").glob("*.sql"))
        self.functions = set(re.findall(r"\b(\w+)\(", self.code))  # called or made
        compiler = [shutil.which(word) or word for word in compiler]  # not the `cc` made below
        flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        if sanitizers != "none":
            flags.append(f"-fsanitize={sanitizers}")
        bin_folder = Path(scratch, "bin")
        bin_folder.mkdir()
        (bin_folder / "cc").write_text(f'#!/bin/sh\nexec {" ".join([*compiler, *flags])} "$@"\n')
        (bin_folder / "cc").chmod(0o755)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
        # curl and redis-cli shall write what they write to a terminal.
        Path(scratch, ".curlrc").write_text("silent\nshow-error\n")
        self.env.update(HOME=str(scratch), FAKETTY="1",
                        PATH=f"{bin_folder}:{self.tree}:{os.environ['PATH']}",
                        PKG_CONFIG_PATH=str(self.tree / "meson-uninstalled"),
                        LD_LIBRARY_PATH=str(self.tree))

    def definitions(self, name):
        """What stands behind the name in an enum, or behind a #define of it."""
        if not self.defined:  # all of them at once: the code is long
            for found in DEFINITION.finditer(self.code):
                self.defined.setdefault(found[1] or found[3], []).append(found[2] or found[4])
        return self.defined.get(name, [])

    def value_of(self, definition):
        text = re.sub(r"/\*.*?\*/|\(int64_t\)", "", definition, flags=re.DOTALL).strip()
        for name in set(re.findall(r"[A-Z][A-Z0-9_]+", text)):
            text = re.sub(rf"\b{name}\b", str(self.value_of(self.definitions(name)[0])), text)
        return eval(text)  # pylint: disable=eval-used


WRONG = """
```console
$ echo right
wrong
```
```yaml
login: {limt: 5 per 1m}
```
```c
assert(!w);
```
[x](none.md) `src/base/none.c` `no_such_function()`

| `WEIR_MAX_RULES` | 17 |
"""
UNTRUE = """
```console
$ curl 'localhost:7878/v1/check?policy=legacy-export'
{"allowed":true}
```
"""


def tests(pages, setup, scratch):
    """Pairs of a test's name and what is wrong."""
    for page in pages:
        with page:
            for kind, name in (("yaml", "has_valid_yaml"), ("c", "has_c_that_runs"),
                               ("console", "prints_what_it_shows")):
                if page.all(kind):
                    yield f"{page.name}_{name}", getattr(page, kind)()
            yield f"{page.name}_links_to_what_there_is", page.links()
            yield f"{page.name}_names_files_that_exist", page.files()
            yield f"{page.name}_names_functions_that_exist", page.functions()
            if NAMED_CONSTANT.search(page.text):
                yield f"{page.name}_has_the_values_of_constants", page.constants()
    yield "security_has_all_limits", unlisted_limits((ROOT / "docs/security.md").read_text())

    unseen = ["it was not noticed"]
    yield "an_unlisted_limit_would_be_noticed", [] if any(unlisted_limits("")) else unseen
    for name, text, kinds in (("page", WRONG, ("console", "yaml", "c", "links", "files", "functions",
                                                "constants")),
                              ("server", UNTRUE, ("console",))):
        path = Path(scratch, f"{name}.md")
        path.write_text(text)
        with Page(path, setup, scratch) as bad:
            for kind in kinds:
                problems = list(getattr(bad, kind)())
                yield f"wrong_{kind}_of_a_{name}_would_be_noticed", [] if problems else unseen
    same = steady('"retry_after_ms":899001', True) == steady('"retry_after_ms":900000', True)
    other = steady('"retry_after_ms":840000', True) == steady('"retry_after_ms":900000', True)
    yield "times_may_differ_by_less_than_a_minute", [] if same and not other else unseen


def main(tree, sanitizers, *compiler):
    failures = count = 0
    with tempfile.TemporaryDirectory() as scratch:
        setup = Setup(tree, sanitizers, compiler, scratch)
        pages = [Page(path, setup, scratch) for path in PAGES]
        for count, (name, problems) in enumerate(tests(pages, setup, scratch), 1):
            problems = list(problems)
            print("not ok" if problems else "ok", count, "-", name, flush=True)
            failures += bool(problems)
            for line in "\n".join(problems).splitlines():
                print("#", line)
    print(f"1..{count}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
