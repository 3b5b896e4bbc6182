"""The end of a lease as a shim sees it. Lean, as ``shim`` is.

It is a module of its own so that a shim without a lease has none of it in its memory.
"""

from __future__ import annotations

import os
import time

TICKS = 10  # of the file's time in a second
GRACE_S = 3.0  # after the end; the server gives everything up no sooner than 5 s after that


class Deadline:
    """``path``: the file that says it (``trial_keeper.actions.lease_file``)."""

    __slots__ = ("_at", "_path")

    LOOK_S = 1.0  # a machine that wakes up has slept through the end
    OVER = 62  # ETIME; exit status of a shim that has not claimed because of that

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._at = 0.0  # as last seen

    def over(self) -> bool:
        """Whether it has passed. The file is looked at only after the end last seen."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if now < self._at:
            return False
        try:
            self._at = os.stat(self._path).st_mtime / TICKS
        except OSError:  # there is another one in its place
            return True
        return now >= self._at

    def grace(self) -> float:
        """What is left for the command to end by itself, in seconds."""
        left = self._at + GRACE_S - time.clock_gettime(time.CLOCK_BOOTTIME)
        return min(GRACE_S, max(0.0, left))
