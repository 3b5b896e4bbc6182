"""The manager's image without a builder of images: ``deploy/image/install`` beside a copy of this Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

__all__ = ["build_root"]

_INSTALL = Path(__file__).parents[2] / "deploy" / "image" / "install"
_PROGRAMS = ("bash", "sh", "cat", "env", "id", "mkdir", "sleep", "tar", "touch")
_LEFT_OUT = (
    "site-packages",
    "dist-packages",
    "test",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
    "config-*",
)


def build_root(root: Path) -> None:
    """Make the folder that becomes the image's ``/``: a few programs, this Python and nnimgr.

    Raises CalledProcessError.
    """
    python = Path(os.path.realpath(sys.executable))
    library = Path(sysconfig.get_path("stdlib"))
    programs = {name: Path(os.path.realpath(shutil.which(name) or f"/bin/{name}")) for name in _PROGRAMS}
    for name, program in programs.items():
        _copy(program, root, name=Path("/bin", name))
    _copy(python, root)
    shutil.copytree(library, _inside(root, library), ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
    subprocess.run([_INSTALL, root], check=True, env={**os.environ, "PYTHON": str(python)})
    modules = [path for path in root.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    for found in _libraries([python, *programs.values(), *modules]):
        if not found.is_relative_to(root):
            _copy(Path(os.path.realpath(found)), root, name=found)


def _libraries(binaries: Iterable[Path]) -> set[Path]:
    """The shared libraries that these need, by the paths under which they are looked for."""
    told = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(?:=> |^\t)(/\S+) \(", told, re.MULTILINE)}


def _copy(source: Path, root: Path, *, name: Path | None = None) -> None:
    target = _inside(root, name or source)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")
