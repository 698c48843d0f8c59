#!/usr/bin/env python3
"""completions.py - writes what a shell completes after `weir`, from the program's own tables.

    scripts/completions.py bash|zsh|fish WEIR      to stdout
"""
import json
import re
import subprocess
import sys

FILES, FOLDERS = "files", "folders"


def kind_of(argument, words):
    """What stands in the place of an argument: FILES, FOLDERS, or a list of words, perhaps empty."""
    if words:
        return words.split()
    return {"FILE": FILES, "DIR": FOLDERS}.get(argument, [])


class Command:
    def __init__(self, table):
        self.name, self.summary, self.options = table["name"], table["summary"], table["options"]
        for option in self.options:
            option["kind"] = kind_of(option["argument"], option["words"])
            option["flags"] = ["--" + option["name"], *(["-" + option["letter"]] if option["letter"] else [])]
        self.operands = self.operands_of(table["usage"])

    @staticmethod
    def operands_of(usage):
        usage = re.sub(r"--?\w+ \w+", "", usage)  # what belongs to an option is none
        for word in re.findall(r"[\w|]+", usage):
            if word in ("FILE", "DIR"):
                return kind_of(word, "")
            if "|" in word.strip("|"):
                return word.split("|")
        return []


def read(program):
    table = json.loads(subprocess.run([program, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    return [Command(c) for c in table["commands"]]


def first_words(commands):
    return [*dict.fromkeys(c.name.split()[0] for c in commands), "help"]


def groups(commands):
    """The first words that need a second one, and those."""
    found = {}
    for first, *second in (c.name.split() for c in commands):
        if second:
            found.setdefault(first, []).append(second[0])
    return found


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


# ---- bash --------------------------------------------------------------------------------

BASH = """\
# bash completion of weir: written by scripts/completions.py from `weir help --json`.
_weir() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local first=${COMP_WORDS[1]} words='' command

    # bash takes `=` and `:` for words of their own.
    if [[ $cur == '=' ]]; then
        cur=''
    elif [[ $prev == '=' ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $cur == ':' || $prev == ':' ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "${cur#:}")
        return
    fi
    if [[ $COMP_CWORD -gt 1 && $first == help ]]; then
        first=${COMP_WORDS[2]}
        [[ $COMP_CWORD -gt 2 ]] || first=''
    fi
    if [[ $COMP_CWORD == 1 || -z $first ]]; then
        mapfile -t COMPREPLY < <(compgen -W '@FIRST@' -- "$cur")
        return
    fi
    command=$first
    case $first in
@GROUPS@    esac
    if [[ -n $words && $prev == "$first" ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    [[ ${COMP_WORDS[1]} != help ]] || return
    [[ -z $words ]] || command+=" ${COMP_WORDS[2]}"
    words=''
    if [[ $cur == -* ]]; then
        case $command in
@OPTIONS@        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    case "$command $prev" in
@VALUES@    *)
        case $command in
@OPERANDS@        esac
        ;;
    esac
    case $words in
    @files) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    @folders) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
    esac
    [[ ${COMPREPLY[0]} != *[:/] ]] || compopt -o nospace
}
complete -F _weir weir
"""


def bash_kind(kind):
    return quoted("@" + kind if isinstance(kind, str) else " ".join(kind))


def bash(commands):
    options, values, operands = "", "", ""
    for c in commands:
        flags = [flag for o in c.options for flag in o["flags"]] + ["--help", "-h"]
        options += f"        {quoted(c.name)}) words={quoted(' '.join(flags))} ;;\n"
        if c.operands:
            operands += f"        {quoted(c.name)}) words={bash_kind(c.operands)} ;;\n"
        for o in c.options:
            if o["argument"]:
                pattern = " | ".join(quoted(f"{c.name} {flag}") for flag in o["flags"])
                values += f"    {pattern}) words={bash_kind(o['kind'])} ;;\n"
    return (BASH.replace("@FIRST@", " ".join(first_words(commands)))
            .replace("@GROUPS@", "".join(f"    {name}) words='{' '.join(seconds)}' ;;\n"
                                         for name, seconds in groups(commands).items()))
            .replace("@OPTIONS@", options).replace("@VALUES@", values).replace("@OPERANDS@", operands))


# ---- zsh ---------------------------------------------------------------------------------

ZSH = """\
#compdef weir
# zsh completion of weir: written by scripts/completions.py from `weir help --json`.
_weir() {
    local -a first
    first=(
@FIRST@    )
    if (( CURRENT == 2 )); then
        _describe 'command' first
        return
    fi
    if [[ $words[2] == help ]]; then
        shift words
        (( CURRENT -= 1 ))
        if (( CURRENT == 2 )); then
            _describe 'command' first
            return
        fi
        (( CURRENT == 3 )) || return
    fi
    case $words[2] in
@GROUPS@    esac
    shift words
    (( CURRENT -= 1 ))
    case $words[1] in
@COMMANDS@    esac
}
_weir "$@"
"""


def zsh_kind(kind):
    if kind == FILES:
        return "_files"
    if kind == FOLDERS:
        return "_files -/"
    return "(" + " ".join(word.replace(":", "\\:") for word in kind) + ")" if kind else " "


def zsh_option(o):
    text = re.sub(r"([\[\]\\])", r"\\\1", o["help"])
    value = f":{o['argument'].replace(':', chr(92) + ':')}:{zsh_kind(o['kind'])}" if o["argument"] else ""
    mark = "=" if o["argument"] else ""
    names = ["--" + o["name"] + mark, *(["-" + o["letter"] + ("+" if mark else "")] if o["letter"] else [])]
    return [quoted(f"{name}[{text}]{value}") for name in names]


def zsh_arguments(command, indent):
    words = [w for o in command.options for w in zsh_option(o)]
    words.append(quoted("(- *)--help[show the help]"))
    words.append(quoted("*:argument:" + zsh_kind(command.operands)))
    return f"{indent}_arguments -s -S \\\n" + " \\\n".join(f"{indent}    {w}" for w in words) + "\n"


def zsh(commands):
    by_group = groups(commands)
    summaries = {}
    for c in commands:
        first = c.name.split()[0]
        joined = ", ".join(by_group.get(first, []))
        summaries.setdefault(first, joined or c.summary)
    summaries["help"] = "Show the help of a command."
    first = "".join(f"        {quoted(n + ':' + s.replace(':', chr(92) + ':'))}\n" for n, s in summaries.items())
    second = ""
    for name in by_group:
        second += f"    {name})\n        if (( CURRENT == 3 )); then\n            local -a second\n            second=(\n"
        second += "".join(f"                {quoted(c.name.split()[1] + ':' + c.summary.replace(':', chr(92) + ':'))}\n"
                          for c in commands if c.name.startswith(name + " "))
        second += ("            )\n            _describe 'command' second\n            return\n        fi\n"
                   "        words[2]=\"$words[2] $words[3]\"\n        words[3]=()\n        (( CURRENT -= 1 ))\n        ;;\n")
    bodies = "".join(f"    {quoted(c.name)})\n{zsh_arguments(c, ' ' * 8)}        ;;\n" for c in commands)
    return ZSH.replace("@FIRST@", first).replace("@GROUPS@", second).replace("@COMMANDS@", bodies)


# ---- fish --------------------------------------------------------------------------------

FISH = """\
# fish completion of weir: written by scripts/completions.py from `weir help --json`.

# __weir_words COUNT: so many words stand behind `weir`, before the one that is completed.
function __weir_words
    set -l tokens (commandline -opc)
    test (count $tokens) -eq (math $argv[1] + 1)
end

# __weir_at WORD...: the words behind `weir` begin so.
function __weir_at
    set -l tokens (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $tokens) -ge $last; and test "$tokens[2..$last]" = "$argv"
end

complete -c weir -f
"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_kind(kind):
    if kind == FILES:
        return "-F"
    words = "(__fish_complete_directories)" if kind == FOLDERS else " ".join(kind)
    return f"-f -a {fish_quoted(words)}" if words else "-f"


def fish(commands):
    out, by_group = FISH, groups(commands)
    for c in commands:
        first, *second = c.name.split()
        summary = fish_quoted(c.summary)
        if second:
            out += f"complete -c weir -n '__weir_words 1; and __weir_at {first}' -a {second[0]} -d {summary}\n"
        else:
            out += f"complete -c weir -n '__weir_words 0' -a {first} -d {summary}\n"
        for o in c.options:
            letter = f"-s {o['letter']} " if o["letter"] else ""
            value = f"-r {fish_kind(o['kind'])} " if o["argument"] else ""
            out += (f"complete -c weir -n '__weir_at {c.name}' {letter}-l {o['name']} {value}"
                    f"-d {fish_quoted(o['help'])}\n")
        out += f"complete -c weir -n '__weir_at {c.name}' -s h -l help -d 'Show the help.'\n"
        if c.operands:
            out += f"complete -c weir -n '__weir_at {c.name}' {fish_kind(c.operands)}\n"
    for first, seconds in by_group.items():
        out += f"complete -c weir -n '__weir_words 0' -a {first} -d {fish_quoted(', '.join(seconds))}\n"
        out += f"complete -c weir -n '__weir_words 2; and __weir_at help {first}' -a {fish_quoted(' '.join(seconds))}\n"
    out += "complete -c weir -n '__weir_words 0' -a help -d 'Show the help of a command.'\n"
    out += f"complete -c weir -n '__weir_words 1; and __weir_at help' -a {fish_quoted(' '.join(first_words(commands)))}\n"
    return out


if __name__ == "__main__":
    shell, weir = sys.argv[1:]
    sys.stdout.write({"bash": bash, "zsh": zsh, "fish": fish}[shell](read(weir)))
