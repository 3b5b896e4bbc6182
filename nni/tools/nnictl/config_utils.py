"""Access to the list of this user's experiments and to their stored configurations, named as in NNI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path, nni_database_path
from nnimgr.store.nni_database import NniDatabase
from nnimgr.store.overview import stored_experiment

__all__ = ["Config", "Experiments"]


class Config:
    """Stored configuration of an experiment. ``log_dir``: the parent of the experiment's directory."""

    def __init__(self, experiment_id: str, log_dir: str) -> None:
        self.experiment_id = experiment_id
        self._directory = Path(log_dir).absolute() / experiment_id
        self.config: dict[str, Any] = {}
        self.refresh_config()

    def refresh_config(self) -> None:
        """Read the configuration again from the experiment's database.

        Raise FileNotFoundError if there is no database, and StoreError if it is damaged.
        """
        if not database_path(self._directory).is_file() and nni_database_path(self._directory).is_file():
            with NniDatabase.opened(self._directory) as database:
                profile = database.profile()
            found = None if profile is None else _without_cluster_data(profile.params)
        else:
            stored = stored_experiment(self._directory)
            found = None if stored is None else {**stored.config, "searchSpace": stored.search_space}
        if found is None:
            raise StoreError(f"the database in {self._directory} holds no experiment")
        self.config = found

    def get_config(self) -> dict[str, Any]:
        """Return the configuration as it was last read."""
        return self.config


class Experiments:
    """List of the experiments in a home directory: experiment id -> entry in NNI's format.

    ``home_dir``: the directory with the list; by default, nnimgr's home directory of this user.
    """

    def __init__(self, home_dir: str | os.PathLike[str] | None = None) -> None:
        home = Home.find() if home_dir is None else Home(Path(home_dir))
        self._index = Index(home)
        self.experiment_file = str(home.index_path)
        self.experiments = self.read_file()

    def add_experiment(
        self,
        expId: str,
        port: Any,
        startTime: Any,
        platform: str,
        experiment_name: str,
        endTime: Any = "N/A",
        status: str = "INITIALIZED",
        tag: Sequence[str] = (),
        pid: int | None = None,
        webuiUrl: Sequence[str] = (),
        logDir: str | os.PathLike[str] = "",
        prefixUrl: str | None = None,
    ) -> None:
        """Add an experiment's entry to the list, or replace its entry."""
        entry = {
            "id": expId,
            "port": port,
            "startTime": startTime,
            "endTime": endTime,
            "status": status,
            "platform": platform,
            "experimentName": experiment_name,
            "tag": list(tag),
            "pid": pid,
            "webuiUrl": list(webuiUrl),
            "logDir": str(logDir),
            "prefixUrl": prefixUrl,
        }
        with self._index.changing() as entries:
            entries[expId] = entry
            self.experiments = entries

    def update_experiment(self, expId: str, key: str, value: Any) -> bool:
        """Set a field of an experiment's entry, or remove the field if the value is None.

        Return False if there is no entry.
        """
        with self._index.changing() as entries:
            self.experiments = entries
            if expId not in entries:
                return False
            if value is None:
                entries[expId].pop(key, None)
            else:
                entries[expId][key] = value
        return True

    def remove_experiment(self, expId: str) -> None:
        """Remove an experiment from the list, if it is there. The experiment's files stay."""
        with self._index.changing() as entries:
            entries.pop(expId, None)
            self.experiments = entries

    def get_all_experiments(self) -> dict[str, Any]:
        """Return the list of experiments as this object has last read or written it."""
        return self.experiments

    def read_file(self) -> dict[str, Any]:
        """Read the list of experiments from its file and return it."""
        return {entry["id"]: entry for entry in self._index.raw() if "id" in entry}


def _without_cluster_data(params: dict[str, Any]) -> dict[str, Any]:
    """Convert a configuration as NNI 2 stores it to the format in which its user wrote it (v1).

    NNI 2 stores the sections of the training service as a list of names and values.
    """
    if "clusterMetaData" not in params:
        return params
    found = {key: value for key, value in params.items() if key != "clusterMetaData"}
    for item in params["clusterMetaData"]:
        found[_section(item["key"])] = item["value"]
    return found


def _section(key: str) -> str:
    """Return the name of a section in the v1 format: "trial" for "trial_config", "machineList" for
    "machine_list".
    """
    first, *others = key.split("_")
    return "trial" if key == "trial_config" else first + "".join(map(str.title, others))
