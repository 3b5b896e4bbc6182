"""Trials that a TensorBoard shows, and the folders in which trials write event files."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from training_services.base import FileListing

__all__ = ["FOLDERS", "DistantFiles", "LoggedTrial"]

# Folders of event files, below the folder of an attempt, with the suffix of the run's name: in the output
# folder, in the attempt's copy of the code, and where NNI 3.0 looks.
FOLDERS = {"tensorboard": "", "code/tensorboard": "-code", "output/tensorboard": "-output"}


class DistantFiles(Protocol):
    """Files of a trial's latest attempt, which are read on another machine."""

    async def listing(self) -> FileListing:
        """Return the files. Raise FileNotFoundError or ServiceError."""

    def read(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield chunks of a file up to its current size. Raise also ValueError for an impossible path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTrial:
    """Trial that a TensorBoard shows.

    ``folders``: run name -> folder of event files on this machine, which may not exist yet. ``distant``: the
    files of a trial that ran on another machine. ``shown``: folder of the event files, for users.
    """

    trial_id: str
    sequence: int
    shown: str
    folders: dict[str, Path]
    distant: DistantFiles | None = None

    @property
    def run(self) -> str:
        """Name of the trial's run in TensorBoard."""
        return f"{self.sequence}-{self.trial_id}"

    @property
    def runs(self) -> list[str]:
        """Names of all runs that the trial may have, one for each folder."""
        return [self.run + suffix for suffix in FOLDERS.values()]
