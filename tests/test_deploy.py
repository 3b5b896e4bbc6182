"""What is in ``deploy/``, as far as it can be tried without a cluster or systemd."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from nnimgr.api.probes import LIVE, READY
from nnimgr.server.main import _parser

DEPLOY = Path(__file__).parent.parent / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
# Stands for Python. It "installs" two commands, so that deploy/image/install needs no network here.
PYTHON = r"""#!/bin/sh
case "$2" in
venv) mkdir -p "$4/bin" "$4/lib/python3/site-packages/numpy"; cp "$0" "$4/bin/python" ;;
pip) touch "${4%python}nnimgr" "${4%python}nnictl" ;;
esac
"""
Objects = Mapping[str, dict[str, Any]]  # by kind


def rendered(folder: Path) -> Objects:
    """What kubectl would apply."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl here")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True)
    return {found["kind"]: found for found in yaml.safe_load_all(done.stdout)}


def taken(command: Sequence[str]) -> dict[str, Any]:
    """What the server makes of this command line, which exits on what it does not know."""
    return vars(_parser().parse_args(command))


def container(objects: Objects) -> dict[str, Any]:
    (found,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_the_manifests_fit_each_other_and_the_server() -> None:
    objects = rendered(KUBERNETES / "base")
    pod = objects["Deployment"]["spec"]["template"]
    server = container(objects)
    options = taken(server["command"][1:])
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert (options["port"], options["keepers_listen"]) == (ports["api"], f"0.0.0.0:{ports['keepers']}")
    environ = {entry["name"]: entry.get("value") for entry in server["env"]}
    assert environ["NNIMGR_KEEPERS_URL"] == f"https://nnimgr.$(POD_NAMESPACE).svc:{ports['keepers']}"
    probes = {server[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe")}
    assert probes == {LIVE} and server["readinessProbe"]["httpGet"]["path"] == READY
    assert objects["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert {port["port"]: port["targetPort"] for port in objects["Service"]["spec"]["ports"]} == {
        number: name for name, number in ports.items()
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    assert environ["NNIMGR_HOME"] == mounts["data"] and environ["POD_NAMESPACE"] is None
    claim = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == "data")
    assert claim["persistentVolumeClaim"]["claimName"] == objects["PersistentVolumeClaim"]["metadata"]["name"]
    assert objects["RoleBinding"]["roleRef"]["name"] == objects["Role"]["metadata"]["name"]
    account = objects["ServiceAccount"]["metadata"]["name"]
    assert objects["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert pod["spec"]["serviceAccountName"] == account


def test_the_overlays_change_what_they_say() -> None:
    behind = rendered(KUBERNETES / "overlays" / "ingress")
    server = container(behind)
    host = behind["Ingress"]["spec"]["rules"][0]["host"]
    assert taken(server["command"][1:] + server["args"])["allowed_host"][-1] == host
    assert [len(rule["ports"]) for rule in behind["NetworkPolicy"]["spec"]["ingress"]] == [1, 1]
    example = rendered(KUBERNETES / "overlays" / "example")
    assert container(example)["image"] == "registry.example.org/nnimgr:1.0"
    assert example["PersistentVolumeClaim"]["spec"]["storageClassName"] == "fast"
    namespaces = {found["metadata"].get("namespace") for found in example.values()} - {None}
    assert namespaces == {example["Namespace"]["metadata"]["name"]}


def test_the_image_and_the_unit_start_a_server_that_knows_their_options() -> None:
    lines = (DEPLOY / "image" / "Dockerfile").read_text().splitlines()
    said = {
        name: rest
        for name, _, rest in (line.partition(" ") for line in lines)
        if name in ("ENTRYPOINT", "CMD")
    }
    assert yaml.safe_load(said["ENTRYPOINT"]) == ["nnimgr"]
    assert taken(yaml.safe_load(said["CMD"]))["keepers_listen"] == "0.0.0.0:8081"
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / "nnimgr.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "nnimgr"
    assert taken(arguments)["host"] == "127.0.0.1"
    assert unit["Service"]["KillMode"] == "process"


def unreadable(root: Path) -> list[Path]:
    """What users other than the owner cannot read, in a folder of an image."""
    found = [root, *(path for path in root.rglob("*") if not path.is_symlink())]
    return [path for path in found if ~path.stat().st_mode & (0o055 if path.is_dir() else 0o044)]


def test_every_user_can_read_the_image_of_the_keeper(tmp_path: Path) -> None:
    build: list[str | Path] = [sys.executable, DEPLOY / "keeper-image" / "build.py", tmp_path / "root"]
    subprocess.run(build, check=True, capture_output=True, umask=0o077)
    assert not unreadable(tmp_path / "root")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give the image's folder to its user")
def test_every_user_can_read_the_image_of_the_server(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    install = [DEPLOY / "image" / "install", tmp_path / "root"]
    subprocess.run(install, check=True, env={**os.environ, "PYTHON": str(python)}, umask=0o077)
    assert (tmp_path / "root" / "opt" / "nnimgr" / "bin" / "nnictl").is_file()
    assert not unreadable(tmp_path / "root")
