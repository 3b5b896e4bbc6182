"""Paths of trials' files as users see them: a folder on this machine or on another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnimgr.rules.facts import SuggestionSource
from nnimgr.store.jobs import JobRow
from nnimgr.store.reader import ExperimentReader, TrialRow
from training_services.keepers.host import attempt_folder
from training_services.keepers.names import ASK, LOCAL, experiment_folder, host_of, why_no_files

__all__ = ["TrialPaths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaths:
    """Paths of the trials of one experiment, as users see them."""

    experiment_id: str
    directory: Path
    platform: str

    def places(self, reader: ExperimentReader, rows: Sequence[TrialRow]) -> Mapping[str, tuple[int, str]]:
        """Return the number and the keeper's id of each trial's latest attempt with a place, by trial id.

        The platform "local" has only one keeper, so trials without a second attempt are left out there,
        unless they may have been imported.
        """
        customized = SuggestionSource.CUSTOMIZED  # of imported trials, too
        ids = [
            row.trial_id
            for row in rows
            if self.platform != LOCAL or row.attempt > 1 or row.source is customized
        ]
        return reader.places(ids) if ids else {}

    def log_path_of_trial(self, trial_id: str, place: tuple[int, str] | None) -> str:
        """Return the path of the folder of a trial's latest attempt. ``place``: see ``places``."""
        attempt, keeper_id = place or (1, None)
        return self._path(trial_id, attempt, keeper_id, member=0)

    def log_path(self, row: JobRow, keeper_id: str | None, *, member: int = 0) -> str:
        """Return the path of the folder of an attempt. ``keeper_id``: the keeper that runs the attempt, or
        this ``member`` of it.
        """
        return self._path(row.trial_id, row.attempt, keeper_id, member=member)

    def _path(self, trial_id: str, attempt: int, keeper_id: str | None, *, member: int) -> str:
        """Return the path of a folder: ``HOST:~/...`` on another machine, as in NNI.

        Return "" if nnimgr has no folder of the trial, for example because a program of the user runs it.
        """
        if self.platform == ASK or why_no_files(keeper_id) is not None:
            return ""
        folder = attempt_folder(trial_id, attempt, member)
        host = None if keeper_id in (None, LOCAL) else host_of(keeper_id)
        if keeper_id is None or host is None:
            return str(self.directory.joinpath(*folder))
        return "/".join((f"{host}:~", experiment_folder(self.experiment_id, keeper_id), *folder))
