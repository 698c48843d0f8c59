#!/usr/bin/env python3
"""test_packages.py - what packaging/ says in several places is the same in all of them.

    test_packages.py TREE      from the root of the source

That packages can be built, installed and run is tested by `./dev package --test`, which takes longer.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

sys.path.insert(0, "tests/support")
from weir_server import TREE, run, test  # noqa: E402

KUBERNETES = Path("packaging/kubernetes")
LABEL = {"app.kubernetes.io/name": "weir"}


def text(path):
    return Path(path).read_text(encoding="utf-8")


def version():
    return re.search(r"^  version: '(.*)'", text("meson.build"), re.MULTILINE)[1]


# ---- the image ----------------------------------------------------------------------------

@test
def the_image_has_the_version_of_the_program():
    assert f"\nARG VERSION={version()}\n" in text("Containerfile")


@test
def the_image_is_built_with_the_packages_that_dev_installs():
    wanted = re.search(r"^build_packages='(.*?)'", text("dev"), re.MULTILINE | re.DOTALL)[1].split()
    installed = re.search(r"--no-install-recommends \\\n\s*install (.*?)\nCOPY", text("Containerfile"), re.DOTALL)[1]
    missing = set(wanted) - set(installed.replace("\\", " ").split())
    assert wanted and not missing, f"the Containerfile does not install {missing}"


@test
def what_the_build_reads_is_not_left_out_of_the_image():
    kept = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    used = {"meson.build", "meson_options.txt", "LICENSE", "packaging", "tests/meson.build"}
    used |= {match.split("/")[0] for match in re.findall(r"files\('\.?\.?/?(\w+)/", text("meson.build"))}
    used |= set(re.findall(r"^\s*subdir\('(\w+)'\)", text("meson.build"), re.MULTILINE)) - {"tests"}
    used |= set(re.findall(r'ROOT / "(\w+)', text("scripts/embed.py")))
    assert {"src", "docs", "lua", "sql", "web", "scripts"} <= used, used
    assert used <= kept, f".dockerignore leaves out {used - kept}"


# ---- the package for npm --------------------------------------------------------------------

@test
def the_package_for_npm_has_the_version_of_the_program():
    assert json.loads(text("packaging/npm/package.json"))["version"] == version()


@test
def the_package_for_npm_names_files_that_exist():
    package, folder = json.loads(text("packaging/npm/package.json")), Path("packaging/npm")
    for name in [package["main"], package["types"], *package["bin"].values()]:
        assert (folder / name).is_file(), name
    assert "linux-x64" in package["files"] and "/package/linux-x64" in text("packaging/npm/build.sh")


@test
def without_a_program_for_the_machine_the_package_says_so():
    code = """Object.defineProperty(process, "arch", { value: "riscv" });
              require("./packaging/npm").start().catch((e) => console.log(e.message))"""
    said = subprocess.run(["node", "-e", code], check=True, capture_output=True, text=True, timeout=60).stdout
    assert said == ("weir-server has a program for linux-x64 only, not for linux-riscv: run weir in a container\n"), said


# ---- Kubernetes ---------------------------------------------------------------------------

def manifests():
    """Each object, by its file; kustomizations are none."""
    return {path: yaml.safe_load(text(path)) for path in sorted(KUBERNETES.rglob("*.yaml"))
            if path.name not in ("kustomization.yaml", "weir.yaml")}


def pods():
    for path, object_ in manifests().items():
        if object_["kind"] in ("Deployment", "StatefulSet"):
            yield path, object_["spec"]["template"]


def seconds(duration):
    return int(re.fullmatch(r"(\d+)s", duration)[1])


@test
def kustomizations_name_files_that_exist():
    kustomizations = list(KUBERNETES.rglob("kustomization.yaml"))
    assert len(kustomizations) == 7, kustomizations
    for path in kustomizations:
        content = yaml.safe_load(text(path))
        named = content.get("resources", []) + [p["path"] for p in content.get("patches", []) if "path" in p]
        named += [f for g in content.get("configMapGenerator", []) for f in g["files"]]
        for name in named:
            assert (path.parent / name).exists(), (path, name)


@test
def manifests_run_the_version_of_the_program():
    images = [c["image"] for _, pod in pods() for c in pod["spec"].get("containers", []) + pod["spec"].get("initContainers", [])]
    assert len(images) == 3 and set(images) == {f"weir:{version()}"}, images
    assert f"WEIR_VERSION:-{version()}}}" in text("packaging/compose/compose.yaml")
    for page in KUBERNETES / "README.md", "packaging/compose/README.md":
        assert set(re.findall(r"weir:(\d+\.\d+\.\d+)", text(page))) == {version()}, page


@test
def selectors_select_the_pods_of_weir_and_no_others():
    found = 0
    for path, object_ in manifests().items():
        spec = object_.get("spec", {})
        for selector in [spec[k] for k in ("selector", "podSelector") if k in spec]:
            assert selector.get("matchLabels", selector) == LABEL, path
            found += 1
    for path, pod in pods():
        assert path.name == "migrate.yaml" or pod["metadata"]["labels"] == LABEL, path
    assert found == 6, found


@test
def pods_may_do_nothing_that_they_need_not():
    for path, pod in pods():
        for container in pod["spec"].get("containers", []) + pod["spec"].get("initContainers", []):
            assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                    "capabilities": {"drop": ["ALL"]}}, path
            assert "memory" in container["resources"]["limits"], path
        if path.name != "migrate.yaml":
            context = pod["spec"]["securityContext"]
            assert context["runAsNonRoot"] and context["runAsUser"] == 65532, path
            assert pod["spec"]["enableServiceLinks"] is False and pod["spec"]["automountServiceAccountToken"] is False


@test
def pods_are_stopped_after_they_have_drained():
    drain = seconds(yaml.safe_load(text(KUBERNETES / "base/weir.yaml"))["server"]["drain_timeout"])
    for path, pod in pods():
        if path.name != "migrate.yaml":
            wait = pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert pod["spec"]["terminationGracePeriodSeconds"] > wait + drain, path


@test
def probes_ask_what_there_is_to_ask():
    routes = text("src/server/http/routes.c")
    for path, pod in pods():
        if path.name == "migrate.yaml":
            continue
        container = pod["spec"]["containers"][0]
        asked = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")]
        assert asked == ["/healthz", "/healthz", "/readyz"] and all(f'"{route}"' in routes for route in asked), path


@test
def variables_of_manifests_and_compose_are_settings():
    known = set(re.findall(r'"(WEIR_[A-Z_]+)"', text("src/cli/serve_options.c")))
    used = {e["name"] for _, pod in pods() for c in pod["spec"].get("containers", []) for e in c["env"]}
    used |= set(yaml.safe_load(text("packaging/compose/compose.yaml"))["services"]["weir"]["environment"])
    used |= set(re.findall(r"(WEIR_[A-Z]+)=", text("Containerfile")))
    assert {"WEIR_STORE", "WEIR_TOKEN", "WEIR_LISTEN"} <= used <= known, used - known


@test
def policies_of_packages_are_valid():
    files = [KUBERNETES / "base/weir.yaml", "packaging/compose/weir.yaml", "packaging/oci/weir.yaml"]
    done = subprocess.run([TREE / "weir", "policy", "lint", *files], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@test
def the_files_that_compose_mounts_exist():
    folder = Path("packaging/compose")
    for service in yaml.safe_load(text(folder / "compose.yaml"))["services"].values():
        for volume in service.get("volumes", []):
            assert not volume.startswith(".") or (folder / volume.split(":")[0]).exists(), volume


run()
