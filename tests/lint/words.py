#!/usr/bin/env python3
"""words.py - names and texts that users meet say each thing by the word of docs/glossary.md.

    tests/lint/words.py [ROOT]

Prints `file:line: 'word': say …` for each word that was given up and is back; exits 1 if there was one.
"""
import re
import sys
from pathlib import Path

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def strings(line):
    """Of C: what is between quotes. Comments and names inside the program are not a user's."""
    if line.lstrip().startswith(("#include", "*", "/*")):
        return ""
    return "\n".join(STRING.findall(line))


def whole(line):
    return line


def before(mark):
    """All but a comment to the end of the line."""
    return lambda line: re.sub(rf"(^|\s){mark}.*", "", line)


# What users meet: files, and what of a line they see.
SURFACES = {
    "texts": (["src/**/*.c", "src/**/*.h"], strings),
    "library": (["include/*.h"], whole),
    "openapi": (["docs/openapi.json"], whole),
    "sql": (["sql/**/*.sql", "examples/**/*.sql"], before("--")),
    "web": (["web/*.js"], before("//")),
    "page": (["web/*.html"], whole),
    "examples": (["examples/**/*.yaml", "examples/**/*.json"], whole),
    "docs": (["README.md", "docs/*.md", "packaging/**/*.md", "clients/**/*.md"], whole),
}
NAMES = set(SURFACES) - {"docs"}  # the docs may also say in other words what something is
PROSE = {"prose": (["*.md", "docs/*.md", "packaging/**/*.md", "tests/README.md", "src/**/*.c", "src/**/*.h",
                    "include/*.h", "lua/*.lua", "sql/**/*.sql"], whole)}  # comments too

# What was given up, what to say, and where.
WORDS = [
    (r"would[_-]deny|would_be_blocked\w*", "shadow_denied", set(SURFACES)),
    (r"block_rate\w*|blocked_(?:requests|windows)", "deny_rate, denied, denied_minutes", set(SURFACES)),
    (r"most_limited|windows_over_limit|weir\.limited", "most_denied, denied_minutes, denials", set(SURFACES)),
    (r"rate_limited", "denied", set(SURFACES)),
    (r"denials_(?:held|used)\w*|WEIR_ALWAYS_ASK", "deny_cache_entries, deny_cache_hits, WEIR_NO_DENY_CACHE",
     set(SURFACES)),
    (r"weir_check_errors\w*", "weir_unanswered_checks_total", set(SURFACES)),
    (r"overrides_stale", "ledger_stale", set(SURFACES)),
    (r"refused_by_\w+|refused_(?:percent|identities\w*)", "denied_…", set(SURFACES)),
    (r"\(?(?:limits )?in requests\)|'weir\.limit'", "(unnamed)", set(SURFACES)),
    (r"on trial", "in shadow", set(SURFACES)),
    (r"(?:some|any|no|every)body|whoever", "who it is: a client, a thread, an operator, a key", set(PROSE)),
    (r"weir_rulings", "weir_ledger_in_force", set(SURFACES)),
    (r"trials?|tried", "shadow", NAMES),
    (r"rulings?|overrul\w*", "change, override", NAMES),
    (r"exceptions?", "override", NAMES - {"sql"}),
    (r"refus\w*", "denied; or rejected, if it is no check", set(SURFACES)),
    (r"limited", "denied", NAMES),
    (r"subject", "kind, or identity", NAMES),
    (r"blocked", "denied, unless an operator blocks", NAMES),
    (r"scope", "policy, unless it is a token's", NAMES),
]

# A word, the file, what the line has, and why it may.
MAY = [
    (r".*", r"sql/0001_tables\.sql", r".", "older databases are renamed there"),
    (r"refus\w*", r".*", r"[Cc]onnections? (?:are )?refused|refused_connections", "a connection"),
    (r"refus\w*", r"README\.md|docs/.*\.md", r"[Cc]onnect|handshake|handover|_refus", "a connection; a test's name"),
    (r"refused", r"docs/openapi\.json", r'"max", "refused", "dropped"|^ {14}"refused": ', "a connection"),
    (r"blocked", r"src/.*|docs/openapi\.json|examples/.*", r'exempt"?, "?blocked', "the source"),
    (r"blocked", r"src/cli/.*", r"blocked by an operator", "the source"),
    (r"blocked", r"include/weir\.h", r"X\(BLOCKED|an operator blocks", "the source"),
    (r"blocked", r"sql/000[49]_\w+\.sql", r".", "the effect of an override"),
    (r"scope", r".*", r"\btokens?\b|x-scope|(?:the|a|no) scope|(?:insufficient|missing)_scope", "a token's"),
    (r"scope", r"src/server/(?:settings_read|log/decision_log)\.c", r'"scope"', "a token's; the log line's"),
    (r"scope", r"src/server/telemetry/otlp\.c", r'"scope"', "OpenTelemetry's"),
    (r"scope", r"web/.*|src/cli/replay/.*", r'scope(?:=|: )\\?"(?:col|row)', "HTML's"),
    (r"overrule", r"sql/(?:rollback/)?0009_overrule\.sql", r"VALUES \(9, 'overrule'\)", "the file's name"),
]


def may(word, file, line):
    return any(re.fullmatch(of, word, re.I) and re.fullmatch(where, file) and re.search(what, line)
               for of, where, what, _ in MAY)


def problems(root):
    for surface, (patterns, seen) in {**SURFACES, **PROSE}.items():
        words = [(re.compile(rf"(?<![a-z0-9])(?:{word})(?![a-z0-9])", re.I), say) for word, say, where in WORDS
                 if surface in where]
        for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
            file = path.relative_to(root).as_posix()
            if file == "docs/glossary.md":
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for word, say in words:
                    found = word.search(seen(line))
                    if found and not may(found[0], file, line):
                        yield f"{file}:{number}: '{found[0]}': say {say}"
                        break


root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
found = list(problems(root))
print("".join(f"{problem}\n" for problem in found), end="")
sys.exit(1 if found else 0)
