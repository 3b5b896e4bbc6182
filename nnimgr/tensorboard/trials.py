"""Trials that a TensorBoard shows, and the folders in which trials write TensorBoard's event files."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from training_services.base import FileListing

__all__ = ["FOLDERS", "DistantFiles", "LoggedTrial"]

# Folders of TensorBoard's event files: path below an attempt's folder -> suffix of the run's name. They are
# in the output folder, in the attempt's copy of the code, and where NNI 3.0 looks.
FOLDERS = {"tensorboard": "", "code/tensorboard": "-code", "output/tensorboard": "-output"}


class DistantFiles(Protocol):
    """Files of a trial's latest attempt that are on another machine."""

    async def listing(self) -> FileListing:
        """Return a list of the trial's files. Raise FileNotFoundError or ServiceError."""

    def read(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield chunks of the file ``path`` up to its current size.

        Raise FileNotFoundError, ServiceError, or ValueError if the path is not possible.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTrial:
    """Trial that a TensorBoard shows.

    ``folders``: name of a run in TensorBoard -> folder of its event files on this machine, which may not
    exist yet. ``distant``: the trial's files if it ran on another machine. ``shown``: folder of the event
    files, as shown to users.
    """

    trial_id: str
    sequence: int
    shown: str
    folders: dict[str, Path]
    distant: DistantFiles | None = None

    @property
    def run(self) -> str:
        """Name of the trial's main run in TensorBoard."""
        return f"{self.sequence}-{self.trial_id}"

    @property
    def runs(self) -> list[str]:
        """Names of all runs in TensorBoard that the trial may have, one for each folder of event files."""
        return [self.run + suffix for suffix in FOLDERS.values()]
