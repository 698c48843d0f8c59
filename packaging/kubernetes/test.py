#!/usr/bin/env python3
"""test.py - the rendered manifests fit the schemas of Kubernetes.

    packaging/kubernetes/test.py FOLDER      from the root of the source; see test.sh
"""
import copy
import json
import subprocess
import sys
from pathlib import Path

import yaml

sys.path.insert(0, "tests/support")
import npm  # noqa: E402  pylint: disable=wrong-import-position

SCHEMA = Path("packaging/kubernetes/schema")


def validate(modules, objects):
    done = subprocess.run(["node", SCHEMA / "validate.mjs", modules], input=json.dumps(objects), text=True, check=False,
                          stdout=subprocess.PIPE, timeout=300)
    return done.returncode == 0, done.stdout.strip()


def main(folder):
    objects = {path.stem: [o for o in yaml.safe_load_all(path.read_text()) if o]
               for path in sorted((folder / "rendered").glob("*.yaml"))}
    assert len(objects) == 6, list(objects)
    for name, rendered in objects.items():
        kinds = sorted(o["kind"] for o in rendered)
        print(f"# {name}: {', '.join(kinds)}")
        assert {"NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"} <= set(kinds)
        assert ("StatefulSet" if name.startswith("file") else "Deployment") in kinds
        if name.endswith("-whole"):
            assert "ServiceMonitor" in kinds and {o["metadata"]["namespace"] for o in rendered} == {"limits"}
            pods = next(o for o in rendered if o["kind"] in ("Deployment", "StatefulSet"))["spec"]["template"]["spec"]
            assert pods["containers"][0]["image"].startswith("registry.example/weir:")
            ready = pods["containers"][0]["readinessProbe"]["httpGet"]["path"]
            assert ready == ("/readyz" if name.startswith("file") else "/healthz"), ready
    modules, why = npm.fetched(SCHEMA, folder.parent / "kubernetes-schema")
    if not modules:
        print(f"kubernetes: rendered, and not compared with the schemas: {why}")
        return
    everything = [o for rendered in objects.values() for o in rendered]
    fits, said = validate(modules, everything)
    print(f"# {said}")
    assert fits
    # A check that finds nothing must be able to find something.
    for change in (lambda c: c.update(readinesProbe=c.pop("readinessProbe")), lambda c: c.update(ports=7878)):
        broken = copy.deepcopy(everything)
        change(next(o for o in broken if o["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0])
        assert not validate(modules, broken)[0]
    print("kubernetes: all well")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
