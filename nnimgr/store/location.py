"""Paths of an experiment's databases: nnimgr's database, and the database that NNI has written."""

from __future__ import annotations

from pathlib import Path

__all__ = ["database_path", "has_database", "is_nnis_own", "nni_database_path"]


def database_path(directory: Path) -> Path:
    """Return the path of nnimgr's database in an experiment's folder."""
    return directory / "db" / "nnimgr.sqlite"


def nni_database_path(directory: Path) -> Path:
    """Return the path of NNI's database in the folder of an experiment. The file may not exist."""
    return directory / "db" / "nni.sqlite"


def is_nnis_own(directory: Path) -> bool:
    """Return whether NNI has run the experiment in this folder, and nnimgr has no database of it yet."""
    return not database_path(directory).exists() and nni_database_path(directory).is_file()


def has_database(directory: Path) -> bool:
    """Return whether there is a database in an experiment's folder, of nnimgr or of NNI."""
    return database_path(directory).exists() or nni_database_path(directory).is_file()
