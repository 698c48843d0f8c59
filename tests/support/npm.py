"""npm.py - for tests: what npm has to fetch, kept in the build tree."""
import shutil
import subprocess


def fetched(source, folder):
    """The node_modules of what `source` asks for, kept in `folder`; or None and why there is none."""
    lock, kept = source / "package-lock.json", folder / "package-lock.json"
    if not (folder / "node_modules").exists() or kept.read_bytes() != lock.read_bytes():
        if not shutil.which("npm") or not shutil.which("node"):
            return None, "node or npm is not installed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
                               "--fetch-retries=0", "--fetch-timeout=20000"], cwd=folder,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder)
            return None, "npm cannot fetch it: " + done.stderr.strip().splitlines()[-1]
    return folder / "node_modules", None
