"""c_lists.py - the X-macro lists of the C source: what there is of algorithms, verbs, modes, …

    lists = CLists(Path("."))
    lists.algorithms            {"fixed_window": 1, …}

Tests read them here instead of typing them again.
"""
import re
from pathlib import Path

WHERE = {  # a list, its header, its macro
    "algorithms": ("include/weir.h", "WEIR_ALGORITHMS"),
    "sources": ("include/weir.h", "WEIR_SOURCES"),
    "on_errors": ("include/weir.h", "WEIR_ON_ERRORS"),
    "verbs": ("src/store/store.h", "STORE_VERBS"),
    "wire_verbs": ("src/store/remote/wire_verb.h", "WIRE_VERBS"),
    "modes": ("src/policy/policy.h", "POLICY_MODES"),
    "subjects": ("src/store/ledger.h", "LEDGER_SUBJECT_LIST"),
    "effects": ("src/store/ledger.h", "LEDGER_EFFECT_LIST"),
}


def macro(text, name):
    """The whole definition of a list, with its last line."""
    return re.search(rf"#define {name}\(X\)[ \t]*\\\n(?:.*\\\n)*.*\n", text).group()


def rows(text, name):
    """The entries of a list, each as the words between its parentheses."""
    entries = re.findall(r"X\((\w+), ([^)]*)\)", macro(text, name).split("\n", 1)[1])
    return [[entry, *(word.strip().strip('"') for word in rest.split(","))]
            for entry, rest in entries]


class CLists:
    def __init__(self, root):
        def read(name):
            file, list_name = WHERE[name]
            return rows(Path(root, file).read_text(), list_name)

        algorithms = read("algorithms")
        self.algorithms = {text: int(value) for _, value, text, _, _ in algorithms}
        self.with_burst = {row[2] for row in algorithms if row[3] == "true"}
        self.with_precision = {row[2] for row in algorithms if row[4] == "true"}
        self.sources = {text for _, _, text in read("sources")}
        self.on_errors = {text for _, _, text in read("on_errors")}
        self.verbs = {name.lower() for name, *_ in read("verbs")}
        self.wire_verbs = {name.lower(): int(value) for name, value in read("wire_verbs")}
        self.modes = {text for _, text in read("modes")}
        self.subjects = {text for _, text in read("subjects")}
        self.effects = {text for _, text in read("effects")}
