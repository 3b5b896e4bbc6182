"""Functions for the ids and directories of experiments, named as in NNI."""

from __future__ import annotations

from pathlib import Path

from nnimgr.home import Home
from nnimgr.index import Index, check_experiment_id, new_experiment_id

__all__ = ["create_experiment_directory", "generate_experiment_id", "is_valid_experiment_id"]


def generate_experiment_id() -> str:
    """Return a new experiment id that no experiment of this user has yet."""
    return new_experiment_id(Index(Home.find()).entries())


def is_valid_experiment_id(experiment_id: str) -> bool:
    """Return whether a text has the form of an experiment id."""
    try:
        check_experiment_id(experiment_id)
    except ValueError:
        return False
    return True


def create_experiment_directory(experiment_id: str) -> Path:
    """Create the default directory of an experiment if it does not exist. Return the directory's path."""
    path = Home.find().path / experiment_id
    path.mkdir(parents=True, exist_ok=True)
    return path
