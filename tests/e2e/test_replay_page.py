#!/usr/bin/env python3
"""test_replay_page.py - the page that `weir replay --html` writes, in a real browser and by its bytes.

    test_replay_page.py TREE    from the root of the source

A picture of it is TREE/replay.png; WEIR_TEST_PICTURE=docs/replay.png makes that of the documentation.
"""
import contextlib
import json
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, "tests/support")
from npm import browser, drive, scenarios  # noqa: E402
from weir_server import PATIENCE, TREE, WEIR, Folder, run, test  # noqa: E402

SCRIPT = Path("tests/e2e/replay_page/drive.js").resolve()
PICTURE = os.environ.get("WEIR_TEST_PICTURE") or str(TREE / "replay.png")
START = 1714521600  # 2024-05-01T00:00:00Z
POLICIES = """version: 1
policies:
  login: {limit: 20 per 15m, by: ip}
  search: {limit: 30 per 1m, burst: 60, by: ip, algorithm: token_bucket}
  /static/files: {limit: 100000 per month, by: ip}
  all: {limit: 500 per 1m}
replay:
  map:
    - POST /login => login
    - /search => search
    - /static/** => /static/files cost=bytes
    - GET / => all
"""
HOSTILE = ["<script>window.hacked=1</script>", '"><img src=x onerror=window.hacked=1>', "</style><b>",
           "a" * 70 + "&" * 70, "\u202eright to left", "line\nbreak\x1b[31m", "it's"]


def line(when, ip, request, size=100):
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(when))
    return f'{ip} - - [{stamp}] "{request} HTTP/1.1" 200 {size} "-" "curl"\n'


def week():
    """Clients that come more by day, an attack on the fifth, and some that try to log in too often."""
    dice = random.Random(7)
    found = []
    for hour in range(7 * 24):
        busy = 1.15 + math.sin(2 * math.pi * (hour - 9) / 24)
        for _ in range(int(40 * busy)):
            when = START + hour * 3600 + dice.randrange(3600)
            client = f"203.0.113.{min(int(dice.expovariate(0.02)), 250)}"
            request, times = dice.choice([("POST /login", min(int(dice.paretovariate(1.1)), 60)), ("GET /search", 2),
                                          ("GET /static/a.js", 1), ("GET /", 1)])
            found += [(when + i, client, request) for i in range(times)]
        if 100 <= hour < 106:
            found += [(START + hour * 3600 + i * 9, f"198.51.100.{i % 3}", "POST /login") for i in range(400)]
    return "".join(line(when, ip, request, 9000) for when, ip, request in sorted(found))


def hostile(count):
    """JSON lines whose users are HOSTILE."""
    return "".join(json.dumps({"time": START + i, "ip": "203.0.113.1", "user": HOSTILE[i % len(HOSTILE)], "path": "/"}) + "\n"
                   for i in range(count))


class Here(Folder):
    def __enter__(self):
        self.write("policies.yaml", POLICIES)
        self.write("other.yaml", POLICIES.replace("20 per 15m", "6 per 15m").replace("burst: 60", "burst: 90")
                   .replace("  all: {limit: 500 per 1m}", "  all: {limit: 3 per 1m}\n  unused: {limit: 1 per 1s}"))
        return self

    def write(self, name, content):
        (self.path / name).write_text(content)
        return self.path / name

    def start(self, *words, config="policies.yaml", **named):
        return subprocess.Popen([WEIR, "replay", "--config", config, *words], cwd=self.path, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **named)

    def run(self, *words, status=0, **named):
        """What it said on stdout and on stderr."""
        with self.start(*words, **named) as process:
            told = [text.decode() for text in process.communicate(timeout=PATIENCE)]
        assert process.returncode == status, (process.returncode, told)
        return told

    def page(self, *words, **named):
        self.run("--html", "page.html", *words, **named)
        return (self.path / "page.html").read_text()

    def pages(self):
        """What the browser looks at."""
        log = self.write("week.log", week())
        self.run("--html", "week.html", "--top", "2", "--suggest", "99%", log)
        self.run("--html", "compared.html", "--against", "other.yaml", log)
        self.hostile("--html", "hostile.html")

    def hostile(self, *words):
        config = self.write("<script>\"config.yaml", "version: 1\npolicies: {p: {limit: 2 per 1h, by: user}}\n")
        log = self.write('"><img src=x onerror=window.hacked=1>.log', hostile(40 * len(HOSTILE)) + "<script>\n")
        self.run("--raw", *words, "./" + log.name, config=config.name)


class Parsed(HTMLParser):
    """Elements that are all closed, their names, and their attributes."""

    EMPTY = {"meta", "link", "line"}

    def __init__(self, page):
        super().__init__()
        self.open, self.names, self.attributes, self.texts = [], set(), set(), []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= set(attrs)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= set(attrs)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        self.texts.append(data)

    def text(self):
        return "".join(self.texts)


def bars(part):
    """(requests, denied) of each bar of a drawing."""
    return [tuple(int(n.replace(",", "")) for n in found)
            for found in re.findall(r"<title>[^<]*: ([\d,]+) requests, ([\d,]+) denied</title>", part)]


def drive_all():
    modules, why = browser(TREE)
    if why:
        return None, why
    with Here() as here:
        here.pages()
        return drive(SCRIPT, modules, str(here.path), PICTURE), None


RESULTS, SKIPPED = drive_all()
scenarios(test, SCRIPT, RESULTS, SKIPPED)


@test
def nothing_is_cut_off_on_any_screen():
    if SKIPPED:
        return SKIPPED
    found = {name: error for name, error in RESULTS.items() if name.startswith("nothing is cut off")}
    assert len(found) == 4 and not any(found.values()), found
    return None


@test
def the_picture_is_small():
    if SKIPPED:
        return SKIPPED
    size = Path(PICTURE).stat().st_size
    assert 10_000 < size < 150_000, size
    return None


# ---- without a browser -------------------------------------------------------------------------


@test
def drawings_say_what_the_numbers_say():
    with Here() as here:
        log = here.write("week.log", week())
        page, told = here.page(log), json.loads(here.run("--json", log)[0])
        sections = re.findall(r'<section id="rule-\d+">.*?</section>', page, re.S)
        rules = sorted(told["rules"], key=lambda r: -r["denied"])
        assert len(sections) == len(rules) == 4 and rules[0]["denied"] > 1000
        for section, rule in zip(sections, rules):
            drawn = {kind: bars(svg) for kind, svg in re.findall(r'<svg class="(\w+)"(.*?)</svg>', section, re.S)}
            assert sum(n for n, _ in drawn["requests"]) == rule["requests"], rule["policy"]
            assert sum(n for _, n in drawn["denied"]) == rule["denied"], rule["policy"]
            assert len(drawn["requests"]) <= 120
            assert ("peaks" in drawn) == bool(rule["by"]), rule["policy"]
            if rule["by"]:
                peaks = re.search(r'<svg class="peaks".*?</svg>', section, re.S)[0]
                counts = [(kind, int(n.replace(",", ""))) for kind, n in
                          re.findall(r'<rect class="(\w+)".*?: ([\d,]+) identities', peaks)]
                assert sum(n for _, n in counts) == rule["identities"]
                for kind, least in re.findall(r'<rect class="(\w+)"[^>]*><title>([\d,]+)', peaks):
                    assert (kind == "over") == (int(least.replace(",", "")) > rule["limit"]), (kind, least)
                over = sum(n for upper, n in rule["peaks"] if upper > rule["limit"] * 17 // 16)
                assert over == sum(n for kind, n in counts if kind == "over"), (counts, rule["peaks"])
                assert f'limit {rule["limit"]:,}' in section
            for identity in rule["most_denied"]:
                assert f'{identity["denied"]:,}' in section and f'{identity["peak"]:,}' in section
        # The least that "over" may be and the line agree: nothing that is within the limit is right of it.
        line_at = float(re.search(r'<line x1="([\d.]+)"', sections[0])[1])
        for kind, x in re.findall(r'<rect class="(\w+)" x="([\d.]+)"', sections[0]):
            assert (float(x) >= line_at - 0.2) == (kind == "over"), (kind, x, line_at)


@test
def what_is_suggested_is_in_the_page():
    """In its rule's section, with the windows that were tried, and as a mark among the peaks."""
    with Here() as here:
        log = here.write("week.log", week())
        told = here.run("--html", "page.html", "--suggest", "99%", "--json", log)[0]
        all_of = json.loads(told)["suggestions"]
        page = (here.path / "page.html").read_text()
        Parsed(page)
        plain = here.page(log)
        assert "uggested" not in re.sub(r"<style>.*?</style>", "", plain, flags=re.S)
        for section in re.findall(r'<section id="rule-\d+">.*?</section>', page, re.S):
            policy = re.search(r"<h2><bdi>(.*?)</bdi>", section)[1]
            wanted = [s for s in all_of if s["policy"] == policy]
            shown = re.search(r'<table class="suggested">.*?</table>', section, re.S)
            assert bool(shown) == bool(wanted) == (policy != "/static/files"), policy  # no limits of the calendar
            if not wanted:
                continue
            rows = re.findall(r'<tr><th scope="row">([\d,]+) per (\w+)(?:, burst ([\d,]+))?</th>(.*?)</tr>', shown[0])
            assert len(rows) == len(wanted), (rows, wanted)
            for (limit, window, burst, shares), s in zip(rows, wanted):
                assert int(limit.replace(",", "")) == s["limit"], (policy, limit, s)
                assert window == {1000: "1s", 60000: "1m", 900000: "15m", 3600000: "1h", 86400000: "1d"}[s["window_ms"]]
                assert not burst or int(burst.replace(",", "")) == s["burst"] != s["limit"]
                passes, *less = (float(n) for n in re.findall(r">([\d.]+)&nbsp;%<", shares))
                assert abs(passes - s["passed_percent"]) < 0.01 and passes >= 99
                assert less == [] or (less[0] < 99 and abs(less[0] - s["one_less_percent"]) < 0.01)
            own = f'{wanted[0]["limit"]:,}'
            marks = re.findall(r'<div class="mark">.*?>(\w+) ([\d,]+)</span>', section)
            assert policy == "all" or ("suggested", own) in marks, marks
            assert section.count("<line ") == len(marks)
        assert here.run("--suggest", "99%", "--html", "page.html", log)[0] == here.run("--suggest", "99%", log)[0]
        shown = here.run("--suggest", "60%", "--of-identities", "--html", "-", log)[0]
        assert shown.startswith("<!doctype html>") and shown.count("that let 60% of identities pass") == 3
        text, said = here.run("--suggest", "99%", "--html", "no/such/page.html", log, status=2)
        assert "login: {limit: " in text and said.count("cannot write no/such/page.html") == 2


@test
def peaks_of_the_calendar_are_of_its_windows():
    """Two months, and no window of 32 days that is filled by both."""
    with Here() as here:
        days = [1716940800 + i * 86400 for i in range(10)]  # 29 May to 7 June
        log = here.write("months.log", "".join(line(when, "203.0.113.1", "GET /static/a", 100) for when in days))
        rule = json.loads(here.run("--json", log)[0])["rules"][0]
        assert rule["largest_peak"] == 700 and rule["cost"] == 1000, rule
        assert "100000 per month" in here.run(log)[0] and "in one month" in here.page(log)


@test
def peaks_of_all_sizes_fit_into_a_drawing():
    """From 1 to 2^40, in at most 64 bars."""
    with Here() as here:
        here.write("one.yaml", "version: 1\npolicies: {p: {limit: 1000 per 1s, by: user, algorithm: fixed_window}}\n"
                               "replay: {map: ['=> p cost=bytes']}\n")
        log = here.write("a.json", "".join(json.dumps({"time": START + i, "user": f"u{i}", "bytes": 1 << i // 8 | i % 8}) + "\n"
                                           for i in range(8 * 41)))
        page = here.page(log, config="one.yaml")
        drawn = re.search(r'<svg class="peaks".*?</svg>', page, re.S)[0]
        counts = [int(n) for n in re.findall(r": ([\d,]+) identities", drawn)]
        assert 20 < len(counts) <= 64 and sum(counts) == 8 * 41, counts


@test
def hostile_logs_make_no_elements():
    with Here() as here:
        here.hostile("--html", "page.html", "--top", "100")
        page = (here.path / "page.html").read_text()
        parsed = Parsed(page)
        assert parsed.names == {
            "html", "head", "meta", "link", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "h3",
            "p", "dl", "div", "dt", "dd", "small", "table", "thead", "tbody", "tr", "th", "td", "a", "bdi", "code", "figure",
            "figcaption", "svg", "rect", "line", "span", "time", "details", "summary", "ul", "li"}, parsed.names
        names = {name for name, _ in parsed.attributes}
        assert names <= {"lang", "charset", "name", "content", "http-equiv", "rel", "href", "class", "scope", "id", "viewbox",
                         "preserveaspectratio", "role", "aria-label", "colspan", "x", "y", "width", "height", "x1", "x2", "y1", "y2",
                         "style"}, names
        for name, value in parsed.attributes:
            assert name != "href" or re.fullmatch(r"data:,|#rule-\d+", value), value
            assert name != "style" or re.fullmatch(r"(left|right):[\d.]+%", value), value
        shown = parsed.text()
        for name in HOSTILE[:3]:
            assert name in shown, name
        assert "line?break?[31m" in shown and "&&" not in shown  # what is long is a tag
        assert "<bdi>\u202eright to left</bdi>" in page


@test
def the_page_is_bounded():
    """Many rules, identities and logs: what is too much is told, not shown."""
    with Here() as here:
        here.write("many.yaml", "version: 1\npolicies:\n" + "".join(
            f"  p{i}:\n    by: user\n    rules:\n" + "".join(f"      r{k}: {{limit: 1 per 1h}}\n" for k in range(15))
            for i in range(40)) + "replay:\n  map:\n" + "".join(f"    - /{i} => p{i}\n" for i in range(40)))
        folder = here.path / ("&" * 200)
        folder.mkdir()
        logs = [folder / f"{'&' * 40}{i}.log" for i in range(60)]
        for i, log in enumerate(logs):
            log.write_text("".join(json.dumps({"time": START + n, "user": f"{n // 2}-" + "<" * 30, "path": f"/{i}"}) + "\n"
                                   for n in range(120)))
        page = here.page("--raw", "--top", "1000", *(log.relative_to(here.path) for log in logs), config="many.yaml")
        assert page.count("<section id=\"rule-") == 40
        assert "100 more rules had requests." in page and "10 more logs were read." in page and "Denied in all: 60 identities." in page
        assert len(page.encode()) < 2_000_000, len(page)
        assert "&" * 190 in Parsed(page).text() and "&" * 240 not in Parsed(page).text()


@test
def an_interrupt_gives_the_page_so_far():
    with Here() as here:
        read, write = os.pipe()
        with here.start("--html", "page.html", "-", stdin=read) as process:
            os.close(read)
            block = "".join(line(START + i, "203.0.113.1", "POST /login") for i in range(1000)).encode()
            with contextlib.suppress(BrokenPipeError), os.fdopen(write, "wb") as pipe:
                for _ in range(40):  # more than the pipe holds: it is at work by now
                    pipe.write(block)
                assert not (here.path / "page.html").exists()
                process.send_signal(signal.SIGINT)
                for _ in range(2000):
                    pipe.write(block)
            text = process.communicate(timeout=PATIENCE)[0].decode()
        assert process.returncode == 0 and "the report so far" in text
        page = (here.path / "page.html").read_text()
        assert "this is the report so far" in page.replace("\n", " ") and page.endswith("</html>\n")
        Parsed(page)


def no_room():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@test
def without_room_the_old_page_stays():
    with Here() as here:
        log = here.write("week.log", week())
        old = here.page(log)
        names = sorted(p.name for p in here.path.iterdir())
        text, said = here.run("--html", "page.html", log, status=2, preexec_fn=no_room)
        assert "cannot write page.html: File too large" in said, said
        assert re.search(r"\d+ denied \(", text)
        assert (here.path / "page.html").read_text() == old
        assert sorted(p.name for p in here.path.iterdir()) == names
        text, said = here.run("--html", "/dev/full", log, status=2)
        assert "cannot write /dev/full: No space left on device" in said and "denied" in text


@test
def a_path_that_is_wrong_is_told_and_the_text_is_printed():
    with Here() as here:
        log = here.write("a.log", line(START, "203.0.113.1", "POST /login"))
        for path, why in (("no/such/page.html", "No such file or directory"), (".", "Is a directory"), ("", "No such file")):
            text, said = here.run("--html", path, log, status=2)
            assert f"cannot write {path}: {why}" in said and "1 judged" in text, (path, said)
            assert said.count("cannot write") == 2 and "another attempt" in said.splitlines()[0]
        assert "exclude each other" in here.run("--html", "-", "--json", log, status=2)[1]
        assert "exclude each other" in here.run("--against", "other.yaml", "--suggest", "99%", log, status=2)[1]


@test
def a_page_goes_where_it_is_told():
    with Here() as here:
        log = here.write("a.log", line(START, "203.0.113.1", "POST /login"))
        shown = here.run("--html", "-", log)[0]
        assert shown.startswith("<!doctype html>") and shown.endswith("</html>\n")
        assert here.run("--html", "/dev/stdout", "--json", log)[0].count("<!doctype html>") == 1
        (here.path / "real.html").write_text("old")
        (here.path / "real.html").chmod(0o640)
        (here.path / "link.html").symlink_to("real.html")
        told = json.loads(here.run("--json", "--html", "link.html", log)[0])
        assert told["judged"] == 1 and (here.path / "link.html").is_symlink()
        assert (here.path / "real.html").read_text() == shown
        assert (here.path / "real.html").stat().st_mode & 0o777 == 0o640
        empty = here.page(here.write("empty.log", ""))
        assert "No rule had a request." in empty
        Parsed(empty)


run()
