"""Builds the command that starts an attendant on a machine, for any login shell and any Python 3.8 or newer.

The command contains no secret. ``sh`` looks for a Python. This Python runs a short program, which even Python
2.7 understands. It reads the attendant's zipapp from standard input if the file is not on the machine yet,
and then runs it.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass
from functools import cache

from trial_keeper import zipapp

__all__ = ["HELLO", "NO_PYTHON", "Program", "command", "program"]

# Prefix of the attendant's first line of JSON. It is needed because a login shell may print other lines.
HELLO = b"nnimgr-attendant "
NO_PYTHON = 90  # exit code of the command if the machine has no suitable Python

# The current directory, a user's home, is removed from the import path: it may contain modules.
_RUN = "import sys;sys.path=sys.path[1:];import base64;exec(base64.b64decode(sys.argv[1]))"

_BOOTSTRAP = f"""
import os, sys

LEAST = (3, 8)


def say(**fields):
    import json

    os.write(1, b"\\n{HELLO.decode()}" + json.dumps(fields).encode("ascii") + b"\\n")


def look_for_newer():
    for minor in range(30, LEAST[1] - 1, -1):
        for folder in os.environ.get("PATH", os.defpath).split(":"):
            path = "%s/python3.%d" % (folder, minor)
            if os.access(path, os.X_OK):
                os.execv(path, [path, "-S", "-E", "-c", "{_RUN}"] + sys.argv[1:])
    sys.exit({NO_PYTHON})


def take(path, digest, size):
    import hashlib

    try:
        with open(path, "rb") as file:
            there = hashlib.sha256(file.read()).hexdigest() == digest
    except IOError:
        there = False
    if not there:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    say(need=not there, python=".".join(map(str, sys.version_info[:3])), executable=sys.executable)
    if there:
        return
    content = b""
    while len(content) < size:
        chunk = os.read(0, size - len(content))
        if not chunk:
            sys.exit(1)
        content += chunk
    import zlib

    try:
        content = zlib.decompress(content)
    except zlib.error:
        content = b""
    if hashlib.sha256(content).hexdigest() != digest:
        raise IOError("the program was damaged in transit")
    own = "%s.%d" % (path, os.getpid())
    try:
        with open(own, "wb") as file:
            file.write(content)
        os.rename(own, path)
    except EnvironmentError:
        if os.path.exists(own):
            os.unlink(own)  # a full disk gets its room back
        raise


def main():
    if sys.version_info < LEAST:
        look_for_newer()
    path = os.path.expanduser("~/" + sys.argv[2])
    try:
        take(path, sys.argv[3], int(sys.argv[4]))
    except EnvironmentError as error:
        say(error="%s: %s" % (error.filename or path, error.strerror or error))
        sys.exit(1)
    sys.path.insert(0, path)
    from trial_keeper import attendant

    attendant.run(path)


main()
"""


@dataclass(frozen=True, slots=True)
class Program:
    """Zipapp with the attendant and the keeper: its SHA-256 in hex, and its compressed bytes.

    ``path``: path of the file on the machine, relative to the home directory.
    """

    digest: str
    packed: bytes

    @property
    def path(self) -> str:
        return f"nni-experiments/.nnimgr/keeper/trial-keeper-{self.digest[:16]}.pyz"


@cache
def program() -> Program:
    """Return the zipapp that machines run. It is built once per process."""
    content = zipapp.content()
    return Program(hashlib.sha256(content).hexdigest(), zlib.compress(content))


def command(program: Program, *, python_path: str | None = None) -> str:
    """Return the command line that starts the attendant. All shells parse it alike, such as bash, fish and
    csh.

    ``python_path``: a directory to search first; it must not contain characters that shells interpret.
    """
    candidates = ["python3", "python"]
    if python_path is not None:
        home = '"$HOME"' if python_path.startswith("~/") else ""
        folder = python_path[1:] if home else python_path
        candidates = [f'{home}"{folder}/{name}"' for name in candidates] + candidates
    looking = (
        f"for p in {' '.join(candidates)}; do "
        'if command -v "$p" >/dev/null 2>&1; then exec "$p" -S -E -c "$0" "$@"; fi; '
        f"done; exit {NO_PYTHON}"
    )
    text = base64.b64encode(_BOOTSTRAP.encode()).decode()
    size = len(program.packed)
    return f"exec sh -c '{looking}' '{_RUN}' {text} {program.path} {program.digest} {size}"
