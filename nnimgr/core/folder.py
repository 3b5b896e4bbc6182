"""What lies in an experiment's folder beside its database and its trials."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Whose environment an experiment runs in: ``environ.json``, mode 0600, since it may hold secrets."""

    environ: Mapping[str, str] = field(repr=False)
    cwd: Path
    python: str

    @classmethod
    def of_creator(
        cls, *, environ: Mapping[str, str] | None, cwd: str | None, python: str | None
    ) -> Surroundings:
        """What the creator has sent; what is missing is this process's own."""
        return cls(
            environ=dict(os.environ if environ is None else environ),
            cwd=Path(cwd or os.getcwd()),
            python=python or sys.executable,
        )

    @classmethod
    def read(cls, directory: Path) -> Surroundings:
        body = json.loads((directory / "environ.json").read_text(encoding="utf-8"))
        return cls(environ=body["environ"], cwd=Path(body["cwd"]), python=body["python"])

    def write(self, directory: Path) -> None:
        """Replace the file, durably."""
        path = directory / "environ.json"
        fresh = path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"environ": dict(self.environ), "cwd": str(self.cwd), "python": self.python}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


def make_folder(directory: Path, surroundings: Surroundings) -> None:
    """Make the folder of a new experiment; ``_latest`` beside it leads there, as in NNI."""
    for name in ("log", "trials", "checkpoint"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    surroundings.write(directory)
    with contextlib.suppress(OSError):  # a convenience only
        fresh = directory.parent / f"_latest.{directory.name}"
        fresh.symlink_to(directory.name)
        fresh.replace(directory.parent / "_latest")
