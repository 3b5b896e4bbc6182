"""The keeper as one file, for hosts that have nothing but a Python: same content, same bytes, same name."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import zipfile

import trial_keeper
from trial_keeper.interpreter import SDK

_MAIN = b"""import sys

if sys.version_info < (3, 8):
    sys.exit("A trial keeper needs Python 3.8 or newer; %s is %s." % (sys.executable, sys.version.split()[0]))

from trial_keeper.__main__ import main

main()
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552
_NO_REFERENCES = 2


def content(*, compiled: bool = False) -> bytes:
    """The zip: run it with ``python -S -E <file> <directory>``. Not compressed: it starts faster.

    ``compiled``: also what this Python compiles it to, packed, for hosts that start it for every trial. Other
    versions of Python compile the source themselves, which takes as long as the rest of a keeper's start.
    """
    packing = zipfile.ZIP_DEFLATED if compiled else zipfile.ZIP_STORED
    root = os.path.dirname(os.path.dirname(os.path.abspath(str(trial_keeper.__file__))))
    modules = sorted(name for name in os.listdir(f"{root}/trial_keeper") if name.endswith(".py"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "__main__.py", _MAIN, packing)
        for name in [
            *(f"trial_keeper/{module}" for module in modules),
            *(f"nni/{name}" for name in SDK.values()),
        ]:
            with open(os.path.join(root, name), "rb") as file:
                source = file.read()
            _add(archive, name, source, packing)
            if compiled and name.startswith("trial_keeper/"):
                _add(archive, f"{name}c", _compiled(name, source), packing)
    return buffer.getvalue()


def build(directory: str) -> str:
    """Write it into ``directory`` as ``trial-keeper-<hash>.pyz`` unless it is there; its path."""
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
    archive.writestr(entry, text, packing)


def _compiled(name: str, source: bytes) -> bytes:
    """The content of a .pyc file that is not checked against the source, which lies beside it."""
    code = compile(source, name, "exec", dont_inherit=True)
    # The oldest way to write it down is the only one whose bytes depend on nothing but the code.
    body = marshal.dumps(code, _NO_REFERENCES)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + body
