"""lint.py - how a check of the tree is tested: on this one, on a clean one, on one with each problem."""
import subprocess
import sys
import tempfile
from pathlib import Path


def check(script, root):
    done = subprocess.run([sys.executable, script, root], stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


def check_files(script, files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check(script, root)


def results(script, good, bad):
    status, said = check(script, script.parents[2])
    yield "this_tree_is_clean", status == 0, said
    status, said = check_files(script, good)
    yield "a_clean_tree_is_clean", status == 0 and not said, said
    for name, file, text, expected in bad:
        status, said = check_files(script, {**good, file: text})
        yield name, status == 1 and said.startswith(expected) and said.count("\n") == 1, said


def run(script, good, bad):
    """Print TAP; 1 if something failed. `bad` has a name, a file, its content, and what must be said of it."""
    failed = 0
    print(f"1..{2 + len(bad)}")
    for number, (name, passed, said) in enumerate(results(script.resolve(), good, bad), 1):
        print("ok" if passed else "not ok", number, "-", name)
        if not passed:
            failed += 1
            print("".join(f"# {line}\n" for line in said.splitlines() or ["nothing was said"]), end="")
    return 1 if failed else 0
