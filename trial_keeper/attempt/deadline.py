"""The end of a lease, as a shim sees it: until then its attempt may run. This module imports little.

It is a separate module, so that a shim without a lease does not load it.
"""

from __future__ import annotations

import os
import time

TICKS = 10  # ticks per second: the lease file contains its time in ticks
GRACE_S = 3.0  # seconds of grace after the lease's end; the server waits at least 5 s after that end


class Deadline:
    """End of a lease. ``path``: the file with the end (``trial_keeper.actions.lease_file``)."""

    __slots__ = ("_at", "_path")

    LOOK_S = 1.0  # seconds between two checks, because a machine that wakes up may have slept past the end
    OVER = 62  # ETIME: exit status of a shim that claimed nothing, because the lease had expired

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._at = 0.0  # end of the lease at the last read of the file

    def over(self) -> bool:
        """Return whether the lease has expired.

        The file is read again only when the end that was read last has passed, because the lease may be
        longer now.
        """
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if now < self._at:
            return False
        try:
            self._at = os.stat(self._path).st_mtime / TICKS
        except OSError:  # the path belongs to another lease by now
            return True
        return now >= self._at

    def grace(self) -> float:
        """Return the number of seconds that the command may still use to end by itself."""
        left = self._at + GRACE_S - time.clock_gettime(time.CLOCK_BOOTTIME)
        return min(GRACE_S, max(0.0, left))
