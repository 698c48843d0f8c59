#!/usr/bin/env python3
"""test_completions.py - bash, zsh and fish themselves complete every command, option and value of weir.

    test_completions.py TREE      from the root of the source

What must be offered comes from the help that people read, not from the tables that the
completions are made of.
"""
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, "tests/support")
from weir_server import TREE, WEIR, finds_nothing, run  # noqa: E402

PATIENCE = 60
FILES = {"bash": "weir", "zsh": "_weir", "fish": "weir.fish"}

BASH = r"""
source "$1"
while IFS= read -r line; do
    words=($line)
    [[ $line != *' ' ]] || words+=('')
    COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1)) COMPREPLY=()
    compopt() { :; }
    _weir
    printf '%s ' "${COMPREPLY[@]}"
    echo
done
"""

FISH = r"""
source $argv[1]
while read -l line
    echo (complete -C $line | string replace -r '\t.*' '')
end
"""

# The completion runs in an editor line of its own; what it would offer is caught where it is added.
ZSH = r"""
autoload -Uz compinit && compinit -u -d "$WORK/dump"
bindkey '^I' complete-word
zstyle ':completion:*' verbose no
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then builtin compadd "$@"; return; fi
    local -a found
    builtin compadd -A found "$@"
    found_all+=("${found[@]}")
    builtin compadd "$@"
}
complete-and-tell() {
    typeset -ga found_all=()
    zle complete-word
    print -r -- "<${(j: :)found_all}>" >>"$WORK/told"
    BUFFER=''
    zle kill-whole-line
}
zle -N complete-and-tell
zle -C complete-word complete-word _main_complete
bindkey '^T' complete-and-tell
PS1='ready> '
"""


def offered(shell, script, completion, lines, work):
    """For each line, the set of words that the shell offers at its end."""
    (work / "script").write_text(script)
    done = subprocess.run([*shell, str(work / "script"), str(completion)], input="".join(f"{x}\n" for x in lines),
                          text=True, stdout=subprocess.PIPE, check=True, timeout=PATIENCE, cwd=work)
    answers = done.stdout.split("\n")
    assert len(answers) == len(lines) + 1, done.stdout
    return [set(answer.split()) for answer in answers[:-1]]


def bash(completion, lines, work):
    return offered(["bash", "--norc"], BASH, completion, lines, work)


def fish(completion, lines, work):
    return offered(["fish", "--no-config"], FISH, completion, lines, work)


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, command, env, folder):
        self.master, slave = os.openpty()
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=folder,
                                        start_new_session=True)
        os.close(slave)

    def write(self, text):
        os.write(self.master, text.encode())

    def wait(self, condition):
        """Reads what the shell prints, so that it never waits for us, until the condition holds."""
        end, printed = time.monotonic() + PATIENCE, b""
        while not condition(printed):
            assert time.monotonic() < end and self.process.poll() is None, printed
            if select.select([self.master], [], [], 0.02)[0]:
                printed += os.read(self.master, 65536)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def zsh(completion, lines, work):
    functions = work / "functions"
    functions.mkdir()
    shutil.copy(completion, functions / "_weir")
    (work / ".zshrc").write_text(f"fpath=({functions} $fpath)\n{ZSH}")
    told = work / "told"
    told.touch()
    env = {**os.environ, "ZDOTDIR": str(work), "WORK": str(work), "TERM": "dumb", "COLUMNS": "200"}
    terminal = Terminal(["zsh", "-o", "no_global_rcs", "-i"], env, work)
    try:
        terminal.wait(lambda printed: b"ready> " in printed)
        for done, line in enumerate(lines):
            terminal.write(line + "\x14")
            terminal.wait(lambda _, want=done + 1: told.read_text().count("\n") == want)
    finally:
        terminal.close()
    return [set(answer.strip("<>").split()) for answer in told.read_text().splitlines()]


def helps():
    """The help of each command, by name."""
    names = [c["name"] for c in json.loads(output("help", "--json"))["commands"]]
    return {name: output("help", *name.split()) for name in names}


def output(*args):
    return subprocess.run([WEIR, *args], check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE).stdout


def options_of(text):
    """Of a page of help: the options in its table, without those that its prose names."""
    found = set()
    for line in text.splitlines():
        if line.startswith("  -"):
            table = re.match(r"  ((?:(?:, )?(?:-\w, )?--[\w-]+(?: [A-Z][\w,.\[\]:]*)?)+)(?:  |$)", line)
            found |= set(re.findall(r"--[\w-]+", table[1]))
    return found


def expected():
    """Lines that end where a person presses the key, and what must be offered there: (line, at least, exactly)."""
    pages = helps()
    firsts = {name.split()[0] for name in pages} | {"help"}
    yield "weir ", firsts, True
    yield "weir help ", firsts, True
    for group in {name.split()[0] for name in pages if " " in name}:
        seconds = {name.split()[1] for name in pages if name.startswith(group + " ")}
        yield f"weir {group} ", seconds, True
        yield f"weir help {group} ", seconds, True
    for name, page in pages.items():
        yield f"weir {name} --", options_of(page) | {"--help"}, True
    yield "weir po", {"policy"}, True
    yield "weir serve --log-level ", {"debug", "info", "warn", "error"}, True
    yield "weir serve --log-level w", {"warn"}, True
    yield "weir check --algorithm t", {"token_bucket"}, True
    yield "weir check login --on-error ", {"local", "allow", "deny"}, True
    yield "weir mode login ", {"enforce", "shadow", "off", "file"}, True
    yield "weir policy lint pol", {"policies.yaml"}, True
    yield "weir serve --config pol", {"policies.yaml"}, True
    yield "weir store check dat", {"data"}, False


def differences(shell, completion, cases):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "policies.yaml").touch()
        (work / "data").mkdir()
        answers = shell(completion, [line for line, _, _ in cases], work)
    for (line, words, exactly), answer in zip(cases, answers):
        # zsh and fish add what ends a value (`--config=`) or a folder (`data/`).
        answer = {re.sub(r"[=/]$", "", word) for word in answer if word != "-h"}
        if answer != words if exactly else not words <= answer:
            yield f"{line!r}: offered {sorted(answer)}, not {sorted(words)}"


@finds_nothing
def completed_values_are_valid():
    """The program takes them."""
    with tempfile.TemporaryDirectory() as scratch:
        yield from rejected_values(scratch)


def rejected_values(scratch):
    table = json.loads(output("help", "--json"))
    for command in table["commands"]:
        for option in command["options"]:
            for word in option["words"].split():
                if command["name"] == "serve" and option["name"] != "store":
                    args = ["serve", "--check", "--config", "examples/policies.yaml", f"--{option['name']}", word]
                elif command["name"] == "check" and option["name"] not in ("store",):
                    rest = ["--burst", "2"] if word.endswith("bucket") else []
                    args = ["check", "--limit", "1 per 1m", f"--{option['name']}", word, *rest, "k"]
                    if option["name"] == "start":
                        args += ["--algorithm", "fixed_window"]
                    if option["name"] == "sync":
                        args += ["--store", f"file:{tempfile.mkdtemp(dir=scratch)}"]
                else:
                    continue
                done = subprocess.run([WEIR, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      timeout=PATIENCE)
                if done.returncode != 0:
                    yield f"{' '.join(args)}: {done.stdout}"


CASES = list(expected())
for name, shell in ("bash", bash), ("zsh", zsh), ("fish", fish):
    completion = TREE / "docs" / FILES[name]
    finds_nothing(lambda shell=shell, completion=completion: differences(shell, completion, CASES),
                  f"{name} completes what the help shows")
    finds_nothing(lambda shell=shell, completion=completion: [] if list(differences(
        shell, completion, [("weir ", {"serve", "new"}, False)])) else ["it was not noticed"],
                  f"{name} would be found lagging")
run()
