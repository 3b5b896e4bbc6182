"""Reads files of trials in folders of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from training_services.base import FileListing, TrialFile
from trial_keeper.machine.untrusted_files import Listed, PlainFile, list_files, shown_name

__all__ = [
    "LOG_NAMES",
    "FolderFiles",
    "LogFile",
    "check_log_name",
    "folder_file",
    "folder_listing",
    "is_log",
    "listing_of",
]

_PIECE = 1 << 18

LOG_NAMES = ("stdout", "stderr", "trial.log")


def check_log_name(name: str) -> None:
    """Raise ValueError if the name is not the name of a trial's log, such as ``stdout``."""
    if name not in LOG_NAMES:
        raise ValueError(f"{name!r} is not one of {', '.join(LOG_NAMES)}")


def is_log(path: str) -> bool:
    """Return whether this file in an attempt's folder is the log of the trial, or of one of its processes."""
    *folders, name = path.split("/")
    of_process = len(folders) == 2 and folders[0] == "ranks" and folders[1].isdecimal()
    return name in LOG_NAMES and (of_process or not folders)


class LogFile(PlainFile):
    """Log file of a trial on this machine, opened for reading."""

    def __init__(self, root: Path, parts: Sequence[str], name: str) -> None:
        """Open the log file for reading.

        Raises ValueError (unknown name of a log), FileNotFoundError (also for a link or a pipe).
        """
        check_log_name(name)
        super().__init__(str(root), parts, name)


async def folder_file(
    root: Path, parts: Sequence[str], path: str, *, tail: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the content of a file in chunks, up to its current size, or only its last ``tail`` lines.

    ``parts`` is the path from ``root`` to the job's folder, and ``path`` the file's path in it. Raises
    ValueError (invalid path), FileNotFoundError (also for a link or a pipe).
    """
    file = await asyncio.to_thread(PlainFile, str(root), parts, path)
    try:
        left = file.size
        if tail is not None:
            left -= await asyncio.to_thread(file.seek_tail, tail)
        while left > 0 and (piece := await asyncio.to_thread(file.read, min(_PIECE, left))):
            left -= len(piece)
            yield piece
    finally:
        file.close()


async def folder_listing(root: Path, parts: Sequence[str]) -> FileListing:
    """Return the list of regular files in the folder with the path ``parts`` below ``root``.

    Raises FileNotFoundError.
    """
    found, complete = await asyncio.to_thread(list_files, str(root), parts)
    return listing_of(found, complete=complete)


def listing_of(found: Iterable[Listed], *, complete: bool) -> FileListing:
    """Convert a list of files to a ``FileListing``. A name that is not valid text is shown escaped."""
    files = tuple(
        TrialFile(
            shown_name(path),
            size,
            datetime.fromtimestamp(modified, UTC),
        )
        for path, size, modified in found
    )
    return FileListing(files, complete)


class FolderFiles:
    """Reader of jobs' files (see ``KeeperFiles``) in an experiment's directory on this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(
        self, parts: Sequence[str], path: str, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file in chunks; ``follow`` is ignored."""
        return folder_file(self._directory, parts, path, tail=tail)

    async def listing(self, parts: Sequence[str]) -> FileListing:
        return await folder_listing(self._directory, parts)
