"""Paths of trials' files as users see them: a folder on this machine or on another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnimgr.store.jobs import JobRow
from nnimgr.store.reader import ExperimentReader, TrialRow
from training_services.keepers.host import attempt_folder
from training_services.keepers.names import ASK, LOCAL, experiment_folder, host_of

__all__ = ["TrialPaths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaths:
    """Paths of the trials of one experiment, as users see them."""

    experiment_id: str
    directory: Path
    platform: str

    def keepers(self, reader: ExperimentReader, rows: Sequence[TrialRow]) -> Mapping[str, str]:
        """Return the id of the keeper of each trial's latest attempt, by trial id.

        The result is empty on the platform "local", which has only one keeper.
        """
        return {} if self.platform == LOCAL else reader.keepers(rows)

    def log_path(self, row: TrialRow | JobRow, keeper_id: str | None, *, member: int = 0) -> str:
        """Return the path of the folder of an attempt: ``HOST:~/...`` on another machine, as in NNI.

        Return "" if programs of the user run the trials, because nnimgr has no folder of these trials.

        ``row``: the attempt, or a trial, whose latest attempt counts. ``keeper_id``: the keeper that runs the
        attempt, or this ``member`` of it.
        """
        if self.platform == ASK:
            return ""
        folder = attempt_folder(row.trial_id, max(1, row.attempt), member)
        host = None if keeper_id in (None, LOCAL) else host_of(keeper_id)
        if keeper_id is None or host is None:
            return str(self.directory.joinpath(*folder))
        return "/".join((f"{host}:~", experiment_folder(self.experiment_id, keeper_id), *folder))
