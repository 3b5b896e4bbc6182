"""Copies of TensorBoard's event files from other machines, refreshed while a TensorBoard reads them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

from nnimgr.tensorboard.trials import FOLDERS, DistantFiles, LoggedTrial
from training_services.base import ServiceError, TrialFile
from trial_keeper.machine.untrusted_files import check_path

__all__ = ["MOST_BYTES", "MOST_FILES", "Copies"]

MOST_FILES = 2000  # most files of all trials together
MOST_BYTES = 2 << 30


class Copies:
    """Copies of the event files of trials, in ``folder``. Each run of TensorBoard has a folder of its own.

    If a file has grown, the new part is appended to its copy, because TensorBoard remembers its position in a
    file. ``notice``: a sentence if files are missing or incomplete, otherwise None.
    """

    def __init__(self, folder: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_files, self._most_bytes = most_files, most_bytes
        self._seen: dict[str, tuple[int, datetime]] = {}  # path of a copy -> size and time of its original
        self._sizes: dict[str, int] = {}  # path of a copy -> its size
        self.notice: str | None = None

    async def refresh(self, trials: Sequence[LoggedTrial]) -> bool:
        """Copy new and changed files of trials. Return False if no trial's files could be read."""
        failures, truncated = [], False
        distant = [(trial, trial.distant) for trial in trials if trial.distant is not None]
        for trial, files in distant:
            try:
                truncated |= not await self._bring(trial, files)
            except FileNotFoundError:  # the trial has written nothing yet
                continue
            except (ServiceError, OSError) as error:
                failures.append(f"The files of trial {trial.sequence} cannot be read: {error}.")
        notices = failures[:1]
        if len(failures) > 1:
            notices.append(f"The files of {len(failures) - 1} more trials cannot be read either.")
        if truncated:
            size = f"{self._most_bytes >> 20} MiB"
            notices.append(
                f"Some files are left out: a TensorBoard gets at most {self._most_files} files and {size} "
                "from other machines. Start it with fewer trials."
            )
        self.notice = " ".join(notices) or None
        return not distant or len(failures) < len(distant)

    async def _bring(self, trial: LoggedTrial, files: DistantFiles) -> bool:
        """Copy new and changed files of a trial. Return False if files were left out because of a limit."""
        listing = await files.listing()
        complete = listing.complete
        for file in listing.files:
            target = _target(trial.run, file.path)
            if target is None or self._seen.get(target) == (file.size, file.modified_at):
                continue
            if target not in self._sizes and len(self._sizes) >= self._most_files:
                complete = False
                continue
            try:
                complete &= await self._copy(files, file, target)
            except (FileNotFoundError, ValueError):  # the trial has removed it, or its name is not a text
                continue
        return complete

    async def _copy(self, files: DistantFiles, file: TrialFile, target: str) -> bool:
        """Append to a copy the part of its file that it lacks. Return False if the size limit was reached."""
        path = self._folder / target
        have = self._sizes.get(target, 0)
        if file.size < have:  # the trial has replaced the file by a shorter one
            have = 0
        room = self._most_bytes - sum(self._sizes.values()) + self._sizes.get(target, 0)
        await asyncio.to_thread(path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        descriptor = await asyncio.to_thread(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        at, full = 0, False
        try:
            await asyncio.to_thread(os.ftruncate, descriptor, have)
            os.lseek(descriptor, have, os.SEEK_SET)
            self._sizes[target] = have
            async with aclosing(files.read(file.path)) as chunks:
                async for chunk in chunks:
                    new = chunk[max(0, have - at) : max(0, room - at)]
                    at += len(chunk)
                    self._sizes[target] += await asyncio.to_thread(os.write, descriptor, new) if new else 0
                    if full := at > room:
                        break
        finally:
            os.close(descriptor)
        if not full:
            self._seen[target] = (file.size, file.modified_at)
        return not full


def _target(run: str, path: str) -> str | None:
    """Return the path of a file's copy in the folder of the copies, or None if it is not to be copied."""
    for folder, suffix in FOLDERS.items():
        if path.startswith(f"{folder}/"):
            below = path.removeprefix(f"{folder}/")
            try:
                check_path(below)
            except ValueError:
                return None
            return f"{run}{suffix}/{below}"
    return None
