#!/usr/bin/env python3
"""test_shadow.py - limits in shadow, and the report of what they would have denied.

    test_shadow.py TREE      from the root of the source
"""
import json
import subprocess
import sys

sys.path.insert(0, "tests/support")
from weir_server import PATIENCE, WEIR, Folder, Server, run, test  # noqa: E402

POLICIES = """
version: 1
policies:
  plain: {limit: 5 per 1d, by: user}
  whole: {limit: 2 per 1d, by: user, mode: shadow}
  some:
    by: user
    rules:
      live:  {limit: 4 per 1d}
      tried: {limit: 2 per 1d, mode: shadow}
  tight: {limit: 4 per 1d, by: user, shadow_limit: 2 per 1d}
  part:  {limit: 2 per 1d, by: user, rollout: 50%}
"""
USERS = [f"user-{number}" for number in range(40)]


def report(server, path="/v1/shadow"):
    status, _, body = server.http("GET", path)
    assert status == 200, body
    return {(trial["policy"], trial["kind"]): trial for trial in body["limits"]}


def side(trial, name):
    numbers = trial[name]
    return (numbers["checks"], numbers["denied"], numbers["identities"],
            numbers["denied_identities"])


def ask(server, policy, times):
    """Each user so often; the answers."""
    checks = [{"policy": policy, "key": user} for _ in range(times) for user in USERS]
    return server.http("POST", "/v1/check", {"checks": checks})[2]["answers"]


def near(counted, truth):
    """Identities are counted by a sketch under a random secret: of 40, one in some hundred is three off."""
    return abs(counted - truth) <= 5


class Fixture(Server):
    def __init__(self, **more):
        self.folder = Folder()
        self.config = self.folder.path / "policies.yaml"
        self.config.write_text(POLICIES)
        super().__init__(config=self.config, **more)

    def __exit__(self, *how):
        super().__exit__(*how)
        self.folder.__exit__()


@test
def before_any_check_all_limits_in_shadow_are_listed():
    with Fixture() as server:
        trials = report(server)
        assert list(trials) == [("whole", "mode"), ("some", "mode"), ("tight", "shadow_limit"),
                                ("part", "rollout")], trials
        assert all(side(trial, name) == (0, 0, 0, 0)
                   for trial in trials.values() for name in ("shadow", "enforced"))


@test
def a_policy_that_an_operator_puts_into_shadow_is_on_trial():
    with Fixture(threads=2) as server:
        assert ("plain", "mode") not in report(server)
        server.http("POST", "/v1/policies/plain/mode", {"mode": "shadow"})
        assert all(answer["allowed"] for answer in ask(server, "plain", 6))
        trial = report(server)["plain", "mode"]
        assert (trial["from"], side(trial, "shadow")[:2]) == ("operator", (240, 40)), trial
        assert report(server)["whole", "mode"]["from"] == "file"
        shown = subprocess.run([WEIR, "shadow", "-s", server.url], capture_output=True, text=True,
                               timeout=PATIENCE, check=False)
        assert "plain" in shown.stdout, shown
        server.http("POST", "/v1/policies/part/mode", {"mode": "shadow"})  # it is rolled out by the file
        ask(server, "part", 3)
        trials = report(server)
        assert ("part", "rollout") not in trials, trials
        assert side(trials["part", "mode"], "shadow")[:2] == (120, 40), trials
        server.http("POST", "/v1/policies/whole/mode", {"mode": "enforce"})
        assert ("whole", "mode") not in report(server)
        server.http("DELETE", "/v1/policies/plain/mode")
        assert ("plain", "mode") not in report(server)


@test
def a_policy_in_shadow_is_compared_with_one_that_denies_nothing():
    with Fixture(threads=2) as server:
        assert all(answer["allowed"] for answer in ask(server, "whole", 3))
        trial = report(server)["whole", "mode"]
        checks, denied, identities, denied_identities = side(trial, "shadow")
        assert (checks, denied) == (120, 40), trial
        assert near(identities, 40) and near(denied_identities, 40), trial
        assert side(trial, "enforced")[:2] == (120, 0), trial
        assert trial["shadow"]["denied_percent"] == 33.33, trial
        assert trial["denied_by_shadow_only"] == 40 and trial["denied_by_both"] == 0, trial


@test
def a_rule_in_shadow_is_beside_what_the_others_did():
    with Fixture() as server:
        answers = ask(server, "some", 6)
        assert sum(answer["allowed"] for answer in answers) == 160
        trial = report(server)["some", "mode"]
        assert side(trial, "shadow")[:2] == (240, 160), trial
        assert side(trial, "enforced")[:2] == (240, 80), trial
        assert trial["denied_by_both"] == 80 and trial["denied_by_enforced_only"] == 0, trial
        assert trial["denied_by_shadow_only"] == 80, trial


@test
def a_shadow_limit_is_beside_the_live_one():
    with Fixture() as server:
        ask(server, "tight", 5)
        trial = report(server)["tight", "shadow_limit"]
        assert side(trial, "shadow")[:2] == (200, 120), trial
        assert side(trial, "enforced")[:2] == (200, 40), trial
        assert trial["limit"] == 2 and trial["denied_by_both"] == 40, trial


@test
def a_rollout_compares_identities_inside_with_those_outside():
    with Fixture() as server:
        answers = ask(server, "part", 3)
        denied = sum(not answer["allowed"] for answer in answers)
        trial = report(server)["part", "rollout"]
        assert 0 < denied < 40, denied
        assert side(trial, "enforced")[:2] == (3 * denied, denied), trial
        assert side(trial, "shadow")[:2] == (120 - 3 * denied, 40 - denied), trial
        assert trial["rollout"] == "50%" and "denied_by_both" not in trial, trial


@test
def other_numbers_begin_anew_and_others_go_on():
    with Fixture() as server:
        ask(server, "whole", 3)
        ask(server, "tight", 1)
        server.config.write_text(POLICIES.replace("whole: {limit: 2", "whole: {limit: 3"))
        server.http("POST", "/v1/reload")
        assert side(report(server)["whole", "mode"], "shadow") == (0, 0, 0, 0)
        assert side(report(server)["tight", "shadow_limit"], "shadow")[0] == 40
        ask(server, "whole", 1)
        assert side(report(server)["whole", "mode"], "shadow")[:2] == (40, 0)
        server.config.write_text(POLICIES.replace("mode: shadow}\n  some", "mode: enforce}\n  some"))
        server.http("POST", "/v1/reload")
        assert ("whole", "mode") not in report(server)


@test
def a_named_limit_of_requests_can_be_in_shadow():
    def bring(server, limit, times, name="sign-in"):
        checks = [{"name": name, "key": user, "limit": limit, "window_ms": 3600000}
                  for _ in range(times) for user in USERS]
        return server.http("POST", "/v1/check", {"checks": checks})[2]["answers"]

    def trials(server, path="/v1/shadow?policy=sign-in"):
        return {trial["limit"]: trial for trial in server.http("GET", path)[2]["limits"]}

    with Fixture(threads=1) as server:
        bring(server, 2, 1)
        assert trials(server) == {}
        said = subprocess.run([WEIR, "mode", "sign-in", "shadow", "--named", "--server", server.url],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert said.returncode == 0, said
        assert trials(server) == {}  # its numbers come with the next request
        assert all(answer["allowed"] for answer in bring(server, 2, 2))
        bring(server, 3, 1)  # the same name and window: it goes on with the same counts
        seen = trials(server)
        assert set(seen) == {2, 3}, seen
        assert side(seen[2], "shadow")[:2] == (80, 40) and side(seen[2], "enforced")[:2] == (80, 0), seen
        assert side(seen[3], "shadow")[:2] == (40, 0), seen
        trial = seen[2]
        assert (trial["policy"], trial["rule"], trial["kind"], trial["from"], trial["line"]) == \
            ("sign-in", "default", "mode", "operator", None), trial
        assert near(trial["shadow"]["identities"], 40) and trial["window_ms"] == 3600000, trial
        assert trials(server, "/v1/shadow?policy=whole").keys() == {2}
        bring(server, 2, 1)  # beside the other numbers, not anew
        assert side(trials(server)[2], "shadow")[0] == 120
        for limit in 4, 5, 6, 7:  # more than four kinds of numbers are not counted of one name
            bring(server, limit, 1)
        assert set(trials(server)) == {2, 3, 4, 5}
        assert "sign-in default: 2 per 1h, since" in subprocess.run(
            [WEIR, "shadow", "sign-in", "--server", server.url], capture_output=True, text=True,
            timeout=PATIENCE, check=True).stdout
        server.http("DELETE", "/v1/policies/sign-in/mode")
        assert trials(server) == {}


@test
def a_name_that_becomes_a_policy_is_on_trial_as_the_policy():
    with Fixture() as server:
        server.http("POST", "/v1/policies/sign-in/mode", {"mode": "shadow", "named": True})
        brought = {"name": "sign-in", "key": "u", "limit": 7, "window_ms": 86400000}
        server.http("POST", "/v1/check", brought)
        assert report(server)["sign-in", "mode"]["limit"] == 7
        server.config.write_text(POLICIES + "  sign-in: {limit: 8 per 1d, by: user}\n")
        server.http("POST", "/v1/reload")
        trials = server.http("GET", "/v1/shadow?policy=sign-in")[2]["limits"]
        assert [(trial["limit"], trial["shadow"]["checks"]) for trial in trials] == [(8, 0)], trials


@test
def peeks_and_other_policies_are_not_counted():
    with Fixture() as server:
        server.http("POST", "/v1/peek", {"policy": "whole", "key": "u"})
        server.check("plain", "u")
        assert all(side(trial, "shadow")[0] == 0 for trial in report(server).values())
        assert list(report(server, "/v1/shadow?policy=tight")) == [("tight", "shadow_limit")]
        for query, command in (("", "weir replay --config FILE LOG"),
                               ("?policy=tight", 'weir replay --config FILE --map "* => tight" LOG'),
                               ("?policy=$(x)", "weir replay --config FILE LOG")):
            assert server.http("GET", "/v1/shadow" + query)[2]["replay"] == command
        assert server.http("GET", "/v1/history?policy=tight")[2]["replay"] == \
            'weir replay --config FILE --map "* => tight" LOG'
        assert server.http("GET", "/v1/shadow?n=3")[0] == 400


@test
def the_tool_prints_it():
    with Fixture() as server:
        ask(server, "tight", 5)

        def weir(*words):
            return subprocess.run([WEIR, "shadow", "--server", server.url, *words], text=True,
                                  capture_output=True, timeout=PATIENCE, check=False)
        said = weir()
        assert said.returncode == 0 and not said.stderr, said
        lines = {line.split()[0]: line.split() for line in said.stdout.splitlines()}
        assert lines["shadow_limit"][1:4] == ["200", "120", "60.00%"], said.stdout
        assert "tight default: 2 per 1d" in said.stdout, said.stdout
        assert "denied by both 40, only in shadow 80, only enforced 0" \
            in said.stdout
        assert json.loads(weir("--json").stdout)["limits"][2]["shadow"]["denied"] == 120
        assert json.loads(weir("--json", "tight").stdout)["policy"] == "tight"
        assert weir("plain").stdout == "no limit is in shadow\n"
        assert weir("a", "b").returncode == 2


run()
