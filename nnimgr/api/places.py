"""Where the files of trials are, in a form for users: a folder here, or on another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnimgr.store.reader import ExperimentReader, TrialRow
from training_services.keeper_host import attempt_folder
from training_services.local import KEEPER_ID as LOCAL
from training_services.ssh.config import experiment_folder, host_of

__all__ = ["Places"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Those of one experiment."""

    experiment_id: str
    directory: Path
    platform: str

    def keepers(self, reader: ExperimentReader, rows: Sequence[TrialRow]) -> Mapping[str, str]:
        """The keepers of these trials' latest attempts, unless all run on this machine."""
        return {} if self.platform == LOCAL else reader.keepers(rows)

    def log_path(self, row: TrialRow, keeper_id: str | None) -> str:
        """The folder of a trial's latest attempt, which this keeper has; as NNI names it on a machine."""
        folder = attempt_folder(row.trial_id, max(1, row.attempt))
        host = None if keeper_id in (None, LOCAL) else host_of(keeper_id)
        if keeper_id is None or host is None:
            return str(self.directory.joinpath(*folder))
        return "/".join((f"{host}:~", experiment_folder(self.experiment_id, keeper_id), *folder))
