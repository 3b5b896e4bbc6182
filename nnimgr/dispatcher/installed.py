"""Finds tuners, assessors and schedulers that installed packages provide.

They are entry points of the groups ``nnimgr.tuners``, ``nnimgr.assessors`` and ``nnimgr.schedulers``. The
name of the entry point is the algorithm's name, and its object is the algorithm's class. The packages of the
experiment's Python are searched, and their metadata is read without importing anything.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nnimgr.dispatcher.registered import Registered, registry_file

__all__ = ["GROUPS", "Interpreter", "InterpreterError", "installed"]

GROUPS = {
    "tuner": "nnimgr.tuners",
    "assessor": "nnimgr.assessors",
    "scheduler": "nnimgr.schedulers",
}
ANSWER_S = 30.0

_QUESTION = "import json, sys; print(json.dumps(sys.path))"


class InterpreterError(ValueError):
    """Error: a Python interpreter does not report where its packages are. The message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """Python interpreter that runs an experiment's algorithms, and its environment variables.

    If a field is None, the interpreter or the environment of this process is used.
    """

    python: str | None = None
    environ: Mapping[str, str] | None = None

    @property
    def registry_file(self) -> Path:
        """Path of the file in which the interpreter's user has registered algorithms."""
        return registry_file(self.environ, python=self.python)

    @property
    def is_this(self) -> bool:
        """True if the interpreter finds the same modules as this process."""
        environ = os.environ if self.environ is None else self.environ
        own = environ.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
        return own and self.python in (None, sys.executable)

    def folders(self) -> list[str]:
        """Return the folders where the interpreter looks for modules and packages.

        Blocks if the interpreter is not this process's own. Raise InterpreterError.
        """
        if self.is_this:
            return sys.path
        import subprocess  # its import, like that of importlib.metadata, would slow the start of every child

        environ = os.environ if self.environ is None else self.environ
        python = self.python or sys.executable
        try:
            done = subprocess.run(
                [python, "-c", _QUESTION], env=dict(environ), cwd="/", capture_output=True, timeout=ANSWER_S
            )
            # Only the last line counts, because Python may print other lines at its start.
            found = json.loads(done.stdout.splitlines()[-1])
            return [folder for folder in found if isinstance(folder, str)]
        except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, TypeError) as error:
            raise InterpreterError(
                f"the Python {python} cannot report where its packages are: {type(error).__name__}: {error}"
            ) from error


def installed(folders: Iterable[str]) -> list[Registered]:
    """Return the algorithms that the packages in these folders provide.

    If several packages use a name, the first package provides the algorithm.
    """
    from importlib.metadata import distributions

    roles = {group: role for role, group in GROUPS.items()}
    found: dict[tuple[str, str], Registered] = {}
    for package in distributions(path=list(folders)):
        for point in package.entry_points:
            role = roles.get(point.group)
            if role is None:
                continue
            name, version = package.metadata["Name"], package.version
            entry = Registered(
                role=role,
                name=point.name,
                class_name=f"{point.module}.{point.attr}",
                package=f"{name} {version}",
                version=version,
            )
            found.setdefault((role, point.name.lower()), entry)
    return list(found.values())
