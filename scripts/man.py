#!/usr/bin/env python3
"""man.py - writes a manual page, from the pages of docs/ and from the program's own tables.

    scripts/man.py weir.1|weir-serve.8|weir-policies.5 WEIR      to stdout

Usage and options come from `weir help --json`, so that they are those of this program. The rest is a
page of docs/, of whose Markdown this reads what they use: headings, paragraphs, lists, tables, code,
emphasis and links.
"""
import json
import re
import subprocess
import sys
import textwrap
from email.utils import parsedate_to_datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 76
# A page of docs/ that is a manual page, too.
MANUALS = {"cli.md": "weir(1)", "settings.md": "weir-serve(8)", "policy.md": "weir-policies(5)"}
TITLES = {
    "weir.1": "a durable rate limiter: server and command line",
    "weir-serve.8": "serve a rate limiter by HTTP and RESP",
    "weir-policies.5": "the file with the limits and settings of weir",
}


# ---- text --------------------------------------------------------------------------------

def escape(text):
    """Characters that roff takes for something else. A hyphen stays one that can be searched for."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga") \
        .replace("^", "\\(ha").replace("~", "\\(ti")


def link(found):
    text, target = found[1], found[2].partition("#")[0]
    if not text.endswith(".md") or target not in MANUALS:
        return text
    return "this page" if MANUALS[target].partition("(")[0] == sys.argv[1].rpartition(".")[0] else MANUALS[target]


def inline(text):
    """Code and strong text is bold, emphasised text is underlined, and of a link its text stays."""
    out = []
    for part in re.split(r"(`` .+? ``|`[^`]+`)", re.sub(r"\[((?:`[^`]*`|[^]`])+)\]\(([^)]+)\)", link, text)):
        if part.startswith("`"):
            out.append("\\fB" + escape(part.strip("`").strip() if part.startswith("``") else part[1:-1]) + "\\fR")
            continue
        part = re.sub(r"<(https?:[^>]+)>", r"\1", part)
        part = escape(part).replace("\\-", "-")
        part = re.sub(r"\*\*(.+?)\*\*", r"\\fB\1\\fR", part)
        out.append(re.sub(r"(?<!\*)\*([^*]+)\*", r"\\fI\1\\fR", part))
    return "".join(out)


def lines(text):
    """Of a paragraph: lines that roff fills; none of them may look like a macro."""
    for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False):
        yield "\\&" + line if line[0] in ".'" else line


def verbatim(text):
    yield from (".PP", ".RS 4", ".nf")
    for line in textwrap.dedent(text).rstrip("\n").split("\n"):
        line = escape(line)
        yield "\\&" + line if line[:1] in (".", "'") else line or "\\&"
    yield from (".fi", ".RE")


# ---- tables ------------------------------------------------------------------------------

def cells(line):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def table(rows):
    """A list of terms: columns of text are too narrow to read on a screen of 80. A cell in the middle is
    named by the head of its column; the last one is what the row is about."""
    heads = rows[0]
    for first, *middle, last in rows[1:]:
        named = [(head, cell) for head, cell in zip(heads[1:-1], middle) if cell]
        if last and len(heads) > 4:  # a grid: all columns are alike
            named.append((heads[-1], last))
            last = ""
        yield ".TP"
        yield inline(first) if "`" in first else inline(f"**{first}**")
        yield from lines(inline("; ".join(f"{head}: {cell}" if head else cell for head, cell in named))) \
            if named else ()
        if named and last:
            yield ".br"
        yield from lines(inline(last)) if last else ()


# ---- Markdown ----------------------------------------------------------------------------

def blocks(text):
    """Of a page: ('heading', level, text), ('code', text), ('table', rows), ('item', text), ('text', text)."""
    rows = text.split("\n") + [""]
    i = 0
    while i < len(rows):
        line = rows[i]
        if line.startswith("```"):
            end = next(k for k in range(i + 1, len(rows)) if rows[k].startswith("```"))
            yield "code", "\n".join(rows[i + 1:end])
            i = end + 1
        elif line.startswith("    "):
            end = i
            while end < len(rows) and (rows[end].startswith("    ") or not rows[end].strip()):
                end += 1
            yield "code", "\n".join(rows[i:end]).rstrip()
            i = end
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            yield "heading", (level, line[level:].strip())
            i += 1
        elif line.startswith("|"):
            end = i
            while rows[end].startswith("|"):
                end += 1
            found = [cells(row) for row in rows[i:end]]
            yield "table", [row for k, row in enumerate(found) if k != 1]
            i = end
        elif not line.strip() or line.startswith("!["):
            i += 1
        else:
            is_item = re.match(r"[-*] |\d+\. ", line)
            end = i + 1
            while rows[end].strip() and not re.match(r"[-*] |\d+\. |\||```|#", rows[end]):
                end += 1
            words = " ".join(row.strip() for row in rows[i:end])
            yield ("item", words[is_item.end():]) if is_item else ("text", words)
            i = end


def render(found, heading):
    """roff of blocks; `heading` says what becomes of one of a level."""
    for kind, value in found:
        if kind == "heading":
            yield from heading(*value)
        elif kind == "code":
            yield from verbatim(value)
        elif kind == "table":
            yield from table(value)
        elif kind == "item":
            yield ".IP \\(bu 2"
            yield from lines(inline(value))
        else:
            yield ".PP"
            yield from lines(inline(value))


def title(level, text):
    text = text.replace("`", "")
    return [f".SH {escape(text.upper())}" if level < 3 else f".SS {escape(text)}"]


def below(_, text):
    return [f".SS {escape(text.replace('`', ''))}"]


def page(name):
    """A page of docs/ without its title."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8").partition("\n")[2]


def sections(text):
    """What stands before the first heading of the second level, under '', and below each, under it."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


# ---- commands ----------------------------------------------------------------------------

def usage(command):
    for line in command["usage"].split("\n"):
        yield f"\\fBweir {escape(command['name'])}\\fR {escape(line)}"


def option_names(option):
    names = [f"\\fB\\-{option['letter']}\\fR"] if option["letter"] else []
    names.append(f"\\fB\\-\\-{escape(option['name'])}\\fR")
    return ", ".join(names) + (f" \\fI{escape(option['argument'])}\\fR" if option["argument"] else "")


def options(command):
    together = []
    for option in command["options"]:
        together.append(option_names(option))
        if not option["shares_line"]:
            yield ".TP"
            yield ", ".join(together)
            yield from lines(inline(option["help"]))
            together = []


def notes(command):
    for part in command["notes"].strip().split("\n\n"):
        if part:
            yield ".PP"
            yield from lines(inline(part.replace("\n", " ")))


def synopsis(command):
    for number, line in enumerate(usage(command)):
        if number:
            yield ".br"
        yield line


def describe(command):
    yield ".PP"
    yield from synopsis(command)
    yield from options(command)


def without_usage(found):
    """The usage of the docs is replaced by that of the program."""
    found = list(found)
    return found[1:] if found and found[0][0] == "code" and found[0][1].lstrip().startswith("weir ") else found


def commands_of(heading, commands):
    """A heading names commands, or groups of them: 'weir store check, weir store repair'."""
    names = [name.strip().removeprefix("weir ") for name in heading.split(",")]
    return [c for c in commands if any(c["name"] == n or c["name"].startswith(n + " ") for n in names)]


# ---- pages -------------------------------------------------------------------------------

def weir_1(commands):
    parts = sections(page("cli.md"))
    yield from (".SH SYNOPSIS", "\\fBweir\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...")
    yield ".SH DESCRIPTION"
    yield from lines("weir is a durable rate limiter. A program asks it before it does something that must not happen "
                     "too often, and weir says whether it may, how much is left, and when to try again. The server is "
                     "described in weir-serve(8), the file with the limits in weir-policies(5).")
    yield ".SS Commands"
    for command in commands:
        yield from (".TP", f"\\fBweir {escape(command['name'])}\\fR")
        yield from lines(inline(command["summary"]))
    yield ".SH USE"
    yield from list(render(without_usage(blocks(parts.pop(""))), below))
    told = []
    for heading, text in parts.items():
        found = commands_of(heading, commands)
        yield f".SH {escape(heading)}"
        if heading == "weir serve":
            yield "See weir-serve(8)."
        else:
            for command in found:
                yield from describe(command)
            yield from render(without_usage(blocks(text)), below)
        told += [c["name"] for c in found]
    for command in commands:
        if command["name"] not in told:
            yield f".SH weir {escape(command['name'])}"
            yield from lines(inline(command["summary"]))
            yield from describe(command)
            yield from notes(command)
    yield from (".SH ENVIRONMENT", ".TP", "\\fBWEIR_SERVER\\fR, \\fBWEIR_TOKEN_FILE\\fR")
    yield "The server that commands ask, and the file with the token for it."
    yield from (".TP", "\\fBWEIR_CONFIG\\fR", "The policy file.")


def weir_serve_8(commands):
    command = next(c for c in commands if c["name"] == "serve")
    parts = sections(page("cli.md"))
    yield ".SH SYNOPSIS"
    yield from synopsis(command)
    yield ".SH DESCRIPTION"
    yield from list(render(without_usage(blocks(parts["weir serve"])), below))
    yield ".SH OPTIONS"
    yield from options(command)
    yield ".SH SETTINGS"
    yield from render(blocks(page("settings.md")), below)
    yield from (".SH FILES", ".TP", "\\fI/etc/weir/policies.yaml\\fR", "Policies and settings, if systemd starts weir.")
    yield from (".TP", "\\fI/var/lib/weir\\fR", "Its store.")


def weir_policies_5(_):
    yield ".SH DESCRIPTION"
    yield from render(blocks(page("policy.md")), title)


def date():
    """Of the release: the same each time that it is built."""
    log = (ROOT / "packaging/deb/debian/changelog").read_text(encoding="utf-8")
    return parsedate_to_datetime(re.search(r"^ -- .*>  (.*)$", log, re.MULTILINE)[1]).strftime("%Y-%m-%d")


def write(name, weir):
    table = json.loads(subprocess.run([weir, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    body = {"weir.1": weir_1, "weir-serve.8": weir_serve_8, "weir-policies.5": weir_policies_5}[name]
    base, section = name.rsplit(".", 1)
    yield ".\\\" Written by scripts/man.py from docs/ and `weir help --json`."
    yield f'.TH {base.upper()} {section} {date()} "weir {table["version"]}"'
    yield from (".SH NAME", f"{escape(base)} \\- {TITLES[name]}")
    yield from body(table["commands"])
    yield ".SH SEE ALSO"
    others = [f".BR {escape(n.rsplit('.', 1)[0])} ({n[-1]})" for n in TITLES if n != name]
    yield from [other + "," for other in others[:-1]] + others[-1:]


def main():
    last = ""
    for line in write(*sys.argv[1:]):
        if line != ".PP" or not last.startswith((".SH", ".SS")):  # a heading begins a paragraph itself
            print(line)
        last = line


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main()
