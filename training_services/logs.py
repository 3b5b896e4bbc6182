"""Reading a trial's output files on this machine, whatever the trial may have put in their place."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

__all__ = ["LOG_NAMES", "LogFile", "PlainFile"]

LOG_NAMES = ("stdout", "stderr", "trial.log")
_CHUNK = 1 << 16


class PlainFile:
    """An open file, read from its beginning. No link is followed below ``root``; only plain files count."""

    def __init__(self, root: Path, parts: Sequence[str], name: str) -> None:
        """Raises ValueError (not the name of a file), FileNotFoundError (also for a link or a pipe)."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"{name!r} is not the name of a file")
        directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts:
                inner = _open_at(directory, part, os.O_DIRECTORY)
                os.close(directory)
                directory = inner
            self._descriptor = _open_at(directory, name, os.O_NONBLOCK)
        finally:
            os.close(directory)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            raise FileNotFoundError(f"{name} is not a plain file")

    def read(self) -> bytes:
        """The next piece; empty at the end of what there is."""
        return os.read(self._descriptor, _CHUNK)

    def close(self) -> None:
        os.close(self._descriptor)


class LogFile(PlainFile):
    """One of a trial's logs."""

    def __init__(self, root: Path, parts: Sequence[str], name: str) -> None:
        """Raises ValueError (not a log's name), FileNotFoundError (also for a link or a pipe)."""
        if name not in LOG_NAMES:
            raise ValueError(f"{name!r} is not one of {', '.join(LOG_NAMES)}")
        super().__init__(root, parts, name)


def _open_at(directory: int, name: str, flags: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileNotFoundError(f"{name} cannot be read: {error.strerror}") from error
