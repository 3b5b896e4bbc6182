"""The end of a lease as a shim sees it. Has few imports, like ``shim``.

This is a separate module, so that a shim without a lease does not load it.
"""

from __future__ import annotations

import os
import time

TICKS = 10  # units of the file's time per second
GRACE_S = 3.0  # wait after the end; the server gives attempts up at least 5 s after the end


class Deadline:
    """The end of a lease. ``path``: the file that holds it (``trial_keeper.actions.lease_file``)."""

    __slots__ = ("_at", "_path")

    LOOK_S = 1.0  # a machine that wakes up may have slept past the end
    OVER = 62  # ETIME; exit status of a shim that has not claimed because the lease had ended

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._at = 0.0  # the end that was read last

    def over(self) -> bool:
        """Return whether the lease has ended. The file is read only after the end that was read last."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if now < self._at:
            return False
        try:
            self._at = os.stat(self._path).st_mtime / TICKS
        except OSError:  # the path belongs to another lease now
            return True
        return now >= self._at

    def grace(self) -> float:
        """Return how many seconds the command has left to end by itself."""
        left = self._at + GRACE_S - time.clock_gettime(time.CLOCK_BOOTTIME)
        return min(GRACE_S, max(0.0, left))
