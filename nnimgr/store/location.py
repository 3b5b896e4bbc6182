"""Location of an experiment's database."""

from __future__ import annotations

from pathlib import Path

__all__ = ["database_path"]


def database_path(directory: Path) -> Path:
    """Return the path of the database in an experiment's folder."""
    return directory / "db" / "nnimgr.sqlite"
