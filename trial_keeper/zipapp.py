"""The keeper as one zip file, for hosts that have only Python. Equal content gives equal bytes and names."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import zipfile

import trial_keeper
from trial_keeper.machine.interpreter import SDK

_MAIN = b"""import sys

if sys.version_info < (3, 8):
    sys.exit("A trial keeper needs Python 3.8 or newer; %s is %s." % (sys.executable, sys.version.split()[0]))

from trial_keeper.__main__ import main

main()
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552
_NO_REFERENCES = 2
_LEVEL = 9  # of compression, the highest: a ConfigMap has to hold the compressed file


def content(*, compiled: bool = False) -> bytes:
    """Return the zip file, to run with ``python -S -E <file> <directory>``.

    The file is uncompressed for a faster start. ``compiled``: compress the file, and add the bytecode of this
    Python, for hosts that start a keeper for every trial. Other versions of Python compile the source
    themselves, which doubles the start time of a keeper.
    """
    packing = zipfile.ZIP_DEFLATED if compiled else zipfile.ZIP_STORED
    root = os.path.dirname(os.path.dirname(os.path.abspath(str(trial_keeper.__file__))))
    modules = sorted(
        os.path.relpath(f"{folder}/{name}", root)
        for folder, _, names in os.walk(f"{root}/trial_keeper")
        for name in names
        if name.endswith(".py")
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "__main__.py", _MAIN, packing)
        for name in [
            *modules,
            *(f"nni/{name}" for name in SDK.values()),
        ]:
            with open(os.path.join(root, name), "rb") as file:
                source = file.read()
            _add(archive, name, source, packing)
            if compiled and name.startswith("trial_keeper/"):
                _add(archive, f"{name}c", _compiled(name, source), packing)
    return buffer.getvalue()


def build(directory: str) -> str:
    """Write the zip file to ``directory`` as ``trial-keeper-<hash>.pyz`` unless present; return its path."""
    made = content()
    path = os.path.join(directory, f"trial-keeper-{hashlib.sha256(made).hexdigest()[:16]}.pyz")
    if not os.path.exists(path):
        own = f"{path}.{os.getpid()}"
        with open(own, "wb") as file:
            file.write(made)
        os.rename(own, path)
    return path


def _add(archive: zipfile.ZipFile, name: str, text: bytes, packing: int) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text, packing, _LEVEL)


def _compiled(name: str, source: bytes) -> bytes:
    """Return a .pyc file that Python does not check against the source beside it."""
    code = compile(source, name, "exec", dont_inherit=True)
    # Later marshal formats encode object references, so equal code could give different bytes.
    body = marshal.dumps(code, _NO_REFERENCES)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + body
