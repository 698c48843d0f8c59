"""sql_budget.py - for tests: steps of budgets as calls of weir.judge() and weir.judge_reservations().

    answers = play(db, rules, steps)     # as the model of budgets writes them

Each step is a statement of its own, with the step's time.
"""
import json

from sql_judge import array, complete, key_of

VERBS = {"check": 0, "peek": 1, "charge": 5, "reserve": 6, "commit": 7, "release": 7, "grow": 8,
         "extend": 9}
NUMBERS = {"fixed_window": 1, "sliding_window": 2, "sliding_counter": 3, "token_bucket": 4,
           "leaky_bucket": 5, "concurrency": 6, "calendar": 33}
ERRORS = {11: "invalid_cost", 14: "no_such_reservation", 15: "id_reused", 16: "already_settled",
            17: "reservation_expired", 19: "invalid_ttl"}
KNOWN = ("SELECT json_build_object('error', errors[1], 'repeated', repeated[1], "
         "'expired', expired[1], 'expires_in', expires_in[1], 'over', over[1], 'rows', "
         "array_to_json(array[allowed::int[]::bigint[], remaining, retry_after, reset_after])) FROM ")


def text(value):
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def texts(values):
    return "ARRAY[" + ", ".join(text(v) for v in values) + "]::text[]"


class Charges:
    """The rules of a trace on the keys of a step, as columns."""

    def __init__(self, trace, rules, step):
        self.rules, now = rules, step["now"]
        self.keys = [key_of(trace, r["name"], step.get("key") if r.get("by") else None)
                     for r in rules]
        numbers = [NUMBERS[r["algorithm"]] + 16 * (r.get("start") == "first") for r in rules]
        whole = [complete(r["algorithm"], r["limit"], r.get("window_ms", 1), r.get("burst", 0),
                          r.get("precision_ms", 0)) for r in rules]
        self.numbers = [array(numbers)] + [array(w[i] for w in whole) for i in range(1, 5)]
        self.blocks = array(r.get("block_for_ms", 0) for r in rules)
        self.calendars = [f"{r['period']} {r.get('month_day', 1)} {r.get('zone', 'UTC')}"
                          if r["algorithm"] == "calendar" else None for r in rules]
        self.bounds = " || ".join(
            f"weir.calendar_bounds({text(r['period'])}, {text(r.get('zone', 'UTC'))}, "
            f"{r.get('month_day', 1)}, {now})" if r["algorithm"] == "calendar"
            else "'{0,0,0,0,0}'::bigint[]" for r in rules)


def costs_of(rules, step, of_requests=1):
    costs = step.get("costs") or {}
    return [costs.get(r.get("counts", "requests"),
                      of_requests if r.get("counts", "requests") == "requests" else 0)
            for r in rules]


def judge(charges, step, verb, costs):
    order = sorted(charges.keys)
    columns = [array(order), *charges.numbers, array(order.index(k) + 1 for k in charges.keys),
               array(range(1, len(order) + 1)), array([len(order)]), array([verb]), array(costs),
               array([step["now"]]), charges.blocks, charges.bounds]
    return ("SELECT json_build_object('rows', array_to_json(array[allowed::int[]::bigint[], "
            f"remaining, retry_after, reset_after])) FROM weir.judge({', '.join(columns)});")


def reservation(trace, charges, step):
    verb, rules = VERBS[step["op"]], charges.rules
    is_new = step["op"] == "reserve"
    named = {} if is_new or step["op"] == "release" else step.get("costs") or {}
    costs = costs_of(rules, step)
    print_of = int(key_of(trace, step.get("key"), costs).replace("-", "")[:15], 16)
    columns = [array([verb]), array([key_of(trace, "id", step["id"])]), array([print_of]),
               array([step.get("ttl_ms", 0)]), "'{86400000000}'",
               "'{%s}'" % ("t" if step["op"] == "release" or step.get("used") else "f"),
               array([step["now"]]), array([len(named)]), texts(named), array(named.values()),
               array([len(rules) if is_new else 0])]
    if is_new:
        columns += [array(charges.keys), *charges.numbers, charges.blocks, charges.bounds,
                    texts(charges.calendars), array(costs), texts(["p"] * len(rules)),
                    texts(r["name"] for r in rules),
                    texts(r.get("counts", "requests") for r in rules),
                    "'{%s}'" % ",".join("f" * len(rules))]
    else:
        columns += ["NULL"] * 14
    return f"{KNOWN}weir.judge_reservations({', '.join(columns)});"


def statement(trace, rules, step):
    charges = Charges(trace, rules, step)
    if step["op"] in ("check", "peek", "charge"):
        return judge(charges, step, VERBS[step["op"]], costs_of(rules, step))
    return reservation(trace, charges, step)


def answer_of(line, rules, step):
    """As the model writes it."""
    said = json.loads(line)
    if said.get("error"):
        return {"error": ERRORS[said["error"]]}
    rows = list(zip(*said["rows"]))
    standing = [[max(0, rest), reset] for _, rest, _, reset in rows]
    op = step["op"]
    if op == "charge":
        return {"over": max(max(0, -rest) for _, rest, _, _ in rows), "rules": standing}
    if op in ("commit", "release"):
        if said["repeated"]:
            return {"repeated": True, "over": 0, "rules": standing}
        return {"expired": said["expired"], "over": said["over"], "rules": standing}
    if op == "extend":
        return {"expires_in_ms": said["expires_in"]}
    if said.get("repeated"):
        return {"allowed": True, "repeated": True, "rules": standing}
    allowed = all(row[0] for row in rows)
    if allowed:
        best = min(range(len(rows)), key=lambda i: rows[i][1])
    else:
        best = max((i for i in range(len(rows)) if not rows[i][0]),
                   key=lambda i: float("inf") if rows[i][2] == -1 else rows[i][2])
    answer = {"allowed": allowed, "rule": rules[best]["name"],
              "retry_after_ms": 0 if allowed else rows[best][2],
              "rules": [[bool(a), rest, wait, reset] for a, rest, wait, reset in rows]}
    if op == "reserve" and allowed:
        answer["expires_in_ms"] = said["expires_in"]
    return answer


def play_all(db, traces):
    """Of each its name, its rules and its steps; the answers to all, in order, by one session."""
    asked = [(name, rules, step) for name, rules, steps in traces for step in steps]
    lines = db.psql("\n".join(statement(*step) for step in asked)).splitlines()
    assert len(lines) == len(asked), f"{len(lines)} answers to {len(asked)} steps"
    return [answer_of(line, rules, step) for line, (_, rules, step) in zip(lines, asked)]


def play(db, trace, rules, steps):
    return play_all(db, [(trace, rules, steps)])
