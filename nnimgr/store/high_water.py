"""High-water mark: a copy of the experiment's progress, in a file of its own beside the database.

A database may be replaced by an older copy or lose its write-ahead log. It then lacks trials that have run
since, and their ids would be used again. The mark shows this when the database is opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["HighWater", "HighWaterFile"]

_FORMAT = "{:020d} {:020d} {:020d}\n"


class HighWater(NamedTuple):
    """Progress of an experiment: number of the last committed fact, and sequence number of the next trial.

    ``m_epoch``: number that grows each time a server opens the experiment.
    """

    number: int
    m_epoch: int
    next_sequence: int


class HighWaterFile:
    """Open file that contains the high-water mark (the experiment's progress).

    The file is not flushed to disk. After a power loss it may be behind the database, but never ahead of it.
    """

    def __init__(self, path: Path) -> None:
        """Open the file of the high-water mark, or create it. Raise OSError if that fails."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> HighWater | None:
        """Return the high-water mark; None if the file is empty or damaged. Raise OSError if it cannot be
        read.
        """
        text = os.pread(self._descriptor, 100, 0).decode("ascii", errors="replace")
        words = text.split()
        if not text.endswith("\n") or len(words) != len(HighWater._fields) or not all(map(_is_number, words)):
            return None
        return HighWater(*map(int, words))

    def note(self, mark: HighWater) -> None:
        """Replace the high-water mark in the file. Raise OSError."""
        os.pwrite(self._descriptor, _FORMAT.format(*mark).encode("ascii"), 0)

    def close(self) -> None:
        """Close the file of the high-water mark."""
        os.close(self._descriptor)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
