"""Images for tests, made of folders without any tool, and brought to a node that runs on this machine.

``K8S`` names the folder of that node: its containerd listens at ``state/run/containerd.sock`` in it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # as images name them


def archive(root: Path, name: str, target: Path) -> None:
    """Write an image of one layer, all that is in ``root``, as ``docker save`` would write it."""
    layer = target.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        for path in sorted(root.iterdir()):
            tar.add(path, path.name, filter=_of_root)
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = {
        "architecture": MACHINES[os.uname().machine],
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as tar:
        for entry, content in (
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(entry)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        tar.add(layer, "layer.tar")
    layer.unlink()


def why_not() -> str | None:
    """Why no image can be brought to the node; None: it can."""
    if os.geteuid() != 0:
        return "only root can bring images to a node"
    if shutil.which("ctr") is None:
        return "containerd's ctr is not here"
    if not os.path.exists(_socket()):
        return "K8S does not name the folder of a node of this machine"
    return None


def bring(root: Path, name: str, scratch: Path) -> None:
    """Have the node know an image of what is in ``root``; ``scratch``: a folder for its archive."""
    made = scratch / "image.tar"
    archive(root, name, made)
    _ctr("import", str(made))
    made.unlink()


def take_away(name: str) -> None:
    """Have the node forget an image."""
    _ctr("rm", name)


def _ctr(*arguments: str) -> None:
    command = ["ctr", "--namespace", "k8s.io", "--address", _socket(), "images", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def _socket() -> str:
    return os.path.join(os.environ.get("K8S", "/nonexistent"), "state/run/containerd.sock")


def _of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
