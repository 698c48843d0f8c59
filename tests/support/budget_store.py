"""budget_store.py - for tests: random steps against a store, each answer compared with the model.

    compare("memory:", make_rules, steps=50)

The rules of each trace are one policy. Traces go on in turn, so that their times mix. A store that
survives is closed and opened again on the way, and once its server is killed.
"""
import random

from asker import Asker, http_question
from budget_model import Model
from weir_server import Folder, Server


DAYS = {"day": 86400000, "week": 7 * 86400000, "month": 31 * 86400000, "quarter": 92 * 86400000,
        "year": 366 * 86400000}


def duration(ms):
    return f"{ms}ms"


def limit_of(rule):
    return f"{rule['limit']} per {rule.get('period') or duration(rule['window_ms'])}"


def rule_text(rule):
    """A rule of the model as the policy file has it."""
    words = [f"limit: {limit_of(rule)}"]
    if rule["algorithm"] != "calendar":
        words.append(f"algorithm: {rule['algorithm']}")
    words += [f"{name}: {rule[name]}"
              for name in ("burst", "start", "zone", "month_day", "counts") if name in rule]
    if "block_for_ms" in rule:
        words.append(f"block_for: {duration(rule['block_for_ms'])}")
    if rule.get("by"):
        words.append(f"by: {rule['by']}")
    return "{" + ", ".join(words) + "}"


def policies_text(traces):
    lines = ["version: 1", "policies:"]
    for i, rules in enumerate(traces):
        lines += [f"  p{i}:", "    rules:"]
        lines += [f"      {rule['name']}: {rule_text(rule)}" for rule in rules]
    return "\n".join(lines) + "\n"


class Asked:
    """One server, asked step by step."""

    def __init__(self, store, config):
        self.store, self.config = store, config
        self.open()

    def open(self):
        self.server = Server("--trust-client-clock", store=self.store, config=self.config)
        self.asker = Asker(self.server.address, "http")

    def kill(self):
        self.asker.leave()
        self.server.process.kill()
        self.server.process.wait()
        self.server.__exit__()

    def close(self):
        self.asker.leave()
        try:
            assert self.server.stop() == 0, self.server.log.other
        finally:
            self.server.__exit__()

    def ask(self, verb, body):
        status, _, answer = self.asker.exchange(http_question(f"/v1/{verb}", body),
                                                self.asker.read_http)
        assert status == 200, (status, body, answer)
        return answer


def rules_in(answer):
    rules = answer.get("rules") or [answer]
    return [[r["allowed"], r["remaining"], r["retry_after_ms"], r["reset_after_ms"]] for r in rules]


def answer_of(said, op):
    """As the model writes it."""
    rows = said.get("rules") or [said]
    if op == "charge":
        assert all(r["over"] <= r["used"] for r in rows), said
        return {"over": said["over"], "rules": [[r["remaining"], r["reset_after_ms"]] for r in rows]}
    return {"allowed": said["allowed"], "rule": said["rule"],
            "retry_after_ms": said["retry_after_ms"], "rules": rules_in(said)}


def compare_step(asked, number, model, step):
    has_user = any(rule.get("by") for rule in model.rules)
    body = {"policy": f"p{number}", "costs": step["costs"], "now": step["now"],
            "attributes": {"user": step["key"]} if has_user else {}}
    want, got = model.step(step), asked.ask(step["op"], body)
    assert got["source"] == "store", got
    have = answer_of(got, step["op"])
    assert have == want, f"p{number} {model.rules}\n{step}\nwant {want}\nhave {have}"
    key = model.key_of(0, step["key"])
    if step["op"] == "charge" and len(model.rules) == 1 and not key.is_blocked(step["now"]):
        assert got["used"] == key.state.used(step["now"]), (model.rules, step, got)


def random_step(dice, rules, now):
    longest = max(rule.get("block_for_ms", rule.get("window_ms", DAYS[rule.get("period", "day")]))
                  for rule in rules)
    most = max(rule["limit"] for rule in rules)
    now += dice.choice((0, 0, 1, dice.randrange(1000), dice.randrange(longest + 2),
                        dice.randrange(2 * longest + 2) if dice.random() < 0.2 else 3))
    costs = {name: dice.choice((0, 1, 1, 1, 2, dice.randrange(most + 2)))
             for name in sorted({rule.get("counts", "requests") for rule in rules})
             if dice.random() < 0.9}
    return {"now": now, "op": dice.choice(("check", "check", "check", "peek", "charge")),
            "key": dice.choice("ab"), "costs": costs}


def compare(store, traces, seed, steps, begins, survives=False):
    """`begins` has the time at which each of the traces begins."""
    dice = random.Random(seed)
    models, nows = [Model(rules) for rules in traces], list(begins)
    with Folder() as folder:
        config = folder / "policies.yaml"
        config.write_text(policies_text(traces))
        if store == "file:":
            store += str(folder / "store")
        asked = Asked(store, config)
        try:
            for i in range(steps):
                if survives and i in (steps // 3, steps // 2):
                    (asked.kill if i == steps // 2 else asked.close)()
                    asked.open()
                for number, model in enumerate(models):
                    step = random_step(dice, model.rules, nows[number])
                    nows[number] = step["now"]
                    compare_step(asked, number, model, step)
        finally:
            asked.close()
