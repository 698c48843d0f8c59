"""vectors.py - for tests of clients: the requests and answers that all of them must agree on.

    play(ask)       ask(verb, request) returns the answer as weir's JSON has it, or the code of an error as text
"""
import json
from pathlib import Path

from weir_server import Folder, Server

TABLE = json.loads(Path("tests/vectors/clients.json").read_text(encoding="utf-8"))
POLICIES = json.dumps(TABLE["policies"])  # JSON is YAML


class Served(Server):
    """`weir serve` with the policies of the table."""

    def __init__(self, *arguments, **more):
        self.folder = Folder()
        config = self.folder.path / "policies.yaml"
        config.write_text(POLICIES, encoding="utf-8")
        super().__init__(*arguments, config=config, **more)

    def __exit__(self, *_):
        super().__exit__()
        self.folder.__exit__()


def fits(want, got):
    """What is wanted must be there; more may be."""
    if want == "positive":
        return isinstance(got, int) and got > 0
    if isinstance(want, dict):
        return isinstance(got, dict) and all(name in got and fits(value, got[name]) for name, value in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(fits, want, got))
    return want == got and isinstance(got, type(want))


def play(ask):
    for vector in TABLE["vectors"]:
        got = ask(vector["verb"], vector["request"])
        assert fits(vector.get("answer", vector.get("error")), got), (vector, got)
