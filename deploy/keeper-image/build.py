#!/usr/bin/env python3
"""Makes the root folder of the image ``nnimgr-keeper``: ``python3 build.py <folder>``.

The image brings a trial keeper into images without Python, whatever their C library. It holds one folder,
``/nnimgr-keeper``, with the keeper in one file, the Python that runs this script (without the modules that a
keeper never imports), all shared libraries of that Python, and their loader. Any tool that makes an image of
a folder does the rest, for example::

    python3 deploy/keeper-image/build.py root
    docker build -t registry.example.com/nnimgr-keeper:1 -f - root <<< $'FROM scratch\\nCOPY . /'

An init container of this image copies the keeper to an empty folder (``INSTALL``), and the trial's container
starts it from there (``KEEPER``). Both commands name the loader first, so that they depend on no shell, no
variable and no file of the trial's image.
"""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = "/nnimgr/keeper"  # folder of the installed keeper, empty at first
FOLDER = "nnimgr-keeper"

# Modules that a keeper, which imports only its own package, never needs.
LEFT_OUT = {
    "__pycache__", "curses", "dbm", "dist-packages", "distutils", "ensurepip", "idlelib", "lib-dynload",
    "lib2to3", "msilib", "pydoc_data", "site-packages", "sqlite3", "test", "tests", "tkinter", "turtle.py",
    "turtledemo", "unittest", "venv", "wsgiref", "xmlrpc",
}  # fmt: skip
EXTENSIONS_LEFT_OUT = (
    "_codecs_", "_crypt", "_ctypes_test", "_curses", "_dbm", "_gdbm", "_sqlite3", "_test", "_tkinter", "_xx",
    "audioop", "nis", "ossaudiodev", "readline", "spwd", "xx",
)  # fmt: skip
LOADER = "ld.so"
LOADED_BY_NAME = ("libnss_dns.so.2", "libnss_files.so.2")  # the C library loads these by name when needed
_EPOCH = (1980, 1, 1, 0, 0, 0)

_INSTALL = b'''"""Copies this folder to the given one: what an init container of this image does."""

import os
import shutil
import sys

if len(sys.argv) != 2:
    sys.exit("usage: install.py <empty folder>")
here = os.path.dirname(os.path.abspath(__file__))
for entry in os.scandir(here):  # the given folder itself may be another user's
    target = os.path.join(sys.argv[1], entry.name)
    if entry.is_dir():
        shutil.copytree(entry.path, target, dirs_exist_ok=True)
    else:
        shutil.copy(entry.path, target)
'''


def python(folder: str) -> list[str]:
    """Return the command that starts the Python in ``folder``."""
    loader = [f"{folder}/lib/{LOADER}", "--inhibit-cache", "--library-path", f"{folder}/lib"]
    return [*loader, f"{folder}/bin/python3", "-I", "-S"]


INSTALL = [*python(f"/{FOLDER}"), f"/{FOLDER}/install.py", INSTALLED]
KEEPER = [*python(INSTALLED), f"{INSTALLED}/trial_keeper.pyz"]  # followed by wrap and its two folders


def build(root: Path) -> None:
    """Make ``<root>/nnimgr-keeper``.

    Raises:
        SystemExit: This Python cannot be packed.
    """
    target = root / FOLDER
    dynload = target / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "lib-dynload"
    dynload.mkdir(parents=True)
    (target / "bin").mkdir()
    program = os.path.realpath(sys.executable)
    _copy(program, target / "bin" / "python3")
    standard = Path(sysconfig.get_path("stdlib"))
    programs = [program]
    for path in sorted((standard / "lib-dynload").glob("*.so")):
        if not path.name.startswith(EXTENSIONS_LEFT_OUT):
            _copy(str(path), dynload / path.name)
            programs.append(str(path))
    for name, library in sorted(_libraries(programs).items()):
        _copy(library, target / "lib" / name)
    _pack(standard, target / "lib" / f"python{sys.version_info[0]}{sys.version_info[1]}.zip")
    sys.path.insert(0, str(ROOT))
    from trial_keeper import zipapp

    (target / "trial_keeper.pyz").write_bytes(zipapp.content())
    (target / "install.py").write_bytes(_INSTALL)


def _libraries(programs: list[str]) -> dict[str, str]:
    """Return the shared libraries of all programs and the loader, by the names under which they are
    loaded.
    """
    found = {}
    for program in programs:
        told = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        for line in told.splitlines():
            name, arrow, rest = line.strip().partition(" => ")
            if rest == "not found":
                sys.exit(f"{program} needs {name}, which is not here.")
            if arrow:
                found[name] = rest.partition(" (")[0]
            elif name.startswith("/"):
                found[LOADER] = name.partition(" (")[0]
    if LOADER not in found:
        sys.exit(f"{sys.executable} has no loader: a Python that is linked statically cannot be packed.")
    for name in LOADED_BY_NAME:
        beside = os.path.join(os.path.dirname(found["libc.so.6"]), name)
        if os.path.exists(beside):
            found[name] = beside
    return found


def _pack(standard: Path, target: Path) -> None:
    """Pack the compiled standard library. It is not compressed, because the first modules cannot unpack."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive, tempfile.TemporaryDirectory() as folder:
        compiled = f"{folder}/compiled"
        for path in sorted(_modules(standard)):
            name = str(path.relative_to(standard))
            py_compile.compile(
                str(path), compiled, name, doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )  # fmt: skip
            archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), Path(compiled).read_bytes())
    target.chmod(0o644)


def _modules(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in LEFT_OUT or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _modules(path)
        elif path.suffix == ".py":
            yield path


def _copy(source: str, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o755)


def main() -> None:
    """Build into the given folder, which must not contain an earlier build."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} <folder>")
    root = Path(sys.argv[1])
    if (root / FOLDER).exists():
        sys.exit(f"{root / FOLDER} is there already.")
    os.umask(0o022)  # pods of every user read these files
    build(root)
    sys.stdout.write(f"{root / FOLDER}\n")


if __name__ == "__main__":
    main()
