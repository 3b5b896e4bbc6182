"""Paths of trials' files in the form for users: a folder on this machine or on another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnimgr.store.reader import ExperimentReader, TrialRow
from training_services.keepers.host import attempt_folder
from training_services.keepers.names import LOCAL, experiment_folder, host_of

__all__ = ["TrialPaths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaths:
    """Paths of the trials of one experiment, in the form for users."""

    experiment_id: str
    directory: Path
    platform: str

    def keepers(self, reader: ExperimentReader, rows: Sequence[TrialRow]) -> Mapping[str, str]:
        """Return the keepers of these trials' latest attempts by trial id; empty on the platform "local"."""
        return {} if self.platform == LOCAL else reader.keepers(rows)

    def log_path(self, row: TrialRow, keeper_id: str | None) -> str:
        """Return the folder of a trial's latest attempt, in NNI's notation for other machines.

        ``keeper_id``: the keeper that runs the attempt.
        """
        folder = attempt_folder(row.trial_id, max(1, row.attempt))
        host = None if keeper_id in (None, LOCAL) else host_of(keeper_id)
        if keeper_id is None or host is None:
            return str(self.directory.joinpath(*folder))
        return "/".join((f"{host}:~", experiment_folder(self.experiment_id, keeper_id), *folder))
