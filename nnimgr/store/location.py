"""Paths of an experiment's databases: nnimgr's database, and the database that NNI has written."""

from __future__ import annotations

from pathlib import Path

__all__ = ["database_path", "has_database", "is_nnis_own", "missing_database", "nni_database_path"]


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


def missing_database(experiment_id: str, directory: Path) -> str:
    """Return one sentence, without a full stop, that says that the experiment has no database any more."""
    if directory.exists():
        return f"the database of experiment {experiment_id} is no longer in its folder {directory}"
    return f"the folder of experiment {experiment_id}, {directory}, was deleted or moved"
