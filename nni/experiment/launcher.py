"""Access to the configurations of stopped experiments, with functions named as in NNI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nni.experiment.config import ExperimentConfig
from nni.experiment.experiment import RunMode
from nnimgr.client.errors import ClientError
from nnimgr.home import Home
from nnimgr.index import Index

__all__ = ["RunMode", "get_stopped_experiment_config", "get_stopped_experiment_config_json"]


def get_stopped_experiment_config(exp_id: str, exp_dir: str | Path | None = None) -> ExperimentConfig:
    """Return the stored configuration of an experiment.

    Raise ClientError if there is no experiment with this id.
    """
    found = get_stopped_experiment_config_json(exp_id, exp_dir)
    if found is None:
        raise ClientError(f"There is no experiment {exp_id}.", mend="See all: nnictl experiment list --all")
    return ExperimentConfig(**found)


def get_stopped_experiment_config_json(
    exp_id: str, exp_dir: str | Path | None = None
) -> dict[str, Any] | None:
    """Return the stored configuration of an experiment as plain JSON values, or None if there is no such
    experiment.

    ``exp_dir``: the parent of the experiment's directory. It is needed only if the experiment is not in
    nnimgr's list.
    """
    from nnimgr.store.overview import stored_experiment

    entry = Index(Home.find()).get(exp_id)
    if exp_dir is None and entry is None:
        return None
    directory = entry.directory if entry is not None and exp_dir is None else Path(exp_dir or "") / exp_id
    stored = stored_experiment(directory)
    return None if stored is None else {**stored.config, "searchSpace": stored.search_space}
