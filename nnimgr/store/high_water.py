"""High-water mark: the progress of an experiment, in its own file beside the database.

A database may be replaced by an older copy or lose its write-ahead log. It then does not know about trials
that have run since, and would give their ids again. The mark shows this when the database is opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["HighWater", "HighWaterFile"]

_FORMAT = "{:020d} {:020d} {:020d}\n"


class HighWater(NamedTuple):
    """Number of the last committed fact, the runner's epoch, and the next trial's sequence number."""

    number: int
    m_epoch: int
    next_sequence: int


class HighWaterFile:
    """Open file with the mark.

    The file is not flushed. After a power loss it may be behind the database, but never ahead of it.
    """

    def __init__(self, path: Path) -> None:
        """Open the high-water file, or create it. Raise OSError if that fails."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> HighWater | None:
        """Return the mark, None if the file is empty or unreadable. Raise OSError."""
        text = os.pread(self._descriptor, 100, 0).decode("ascii", errors="replace")
        words = text.split()
        if not text.endswith("\n") or len(words) != len(HighWater._fields) or not all(map(_is_number, words)):
            return None
        return HighWater(*map(int, words))

    def note(self, mark: HighWater) -> None:
        """Replace the mark. Raise OSError."""
        os.pwrite(self._descriptor, _FORMAT.format(*mark).encode("ascii"), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
