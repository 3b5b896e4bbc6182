"""The high-water mark: how far an experiment has come, in a file of its own beside the database.

A database may be replaced by an older copy, or lose its write-ahead log. It does not know what was done in
the meantime: trials have run under ids that it would give again. The mark shows that when it is opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["HighWater", "HighWaterFile"]

_FORMAT = "{:020d} {:020d} {:020d}\n"


class HighWater(NamedTuple):
    """``number`` of the last committed fact, the runner's ``m_epoch``, and the next trial's sequence."""

    number: int
    m_epoch: int
    next_sequence: int


class HighWaterFile:
    """The open file. It is not flushed: after a power loss it may lag behind the database, never lead."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> HighWater | None:
        """Return the mark; None if there is none, or none that can be read. Raises OSError."""
        text = os.pread(self._descriptor, 100, 0).decode("ascii", errors="replace")
        words = text.split()
        if not text.endswith("\n") or len(words) != len(HighWater._fields) or not all(map(_is_number, words)):
            return None
        return HighWater(*map(int, words))

    def note(self, mark: HighWater) -> None:
        """Replace the mark. Raises OSError."""
        os.pwrite(self._descriptor, _FORMAT.format(*mark).encode("ascii"), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
