"""Time limit of an allocation of Slurm. A restarted server reads it from a note."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

__all__ = ["TimeLimit"]

_NOTED_S = 30.0  # a change of the end by less than this is not noted


class TimeLimit:
    """End of an allocation by its time limit.

    ``notes``: folder of the server's own files about the allocation's keeper. ``limit`` returns the time
    limit with which allocations are submitted. It counts from the first call of ``begin``.
    """

    def __init__(self, notes: Path, limit: Callable[[], timedelta]) -> None:
        self._file = notes / "ends"
        self._limit = limit
        self._ends_at: float | None = None  # by the loop's clock

    def begin(self) -> None:
        """Record that the allocation has begun."""
        self.correct(asyncio.get_running_loop().time(), self._limit())

    def correct(self, at: float, left: timedelta) -> None:
        """Record what Slurm has said at the time ``at`` of the loop's clock."""
        before, self._ends_at = self._ends_at, at + left.total_seconds()
        if before is None or abs(before - self._ends_at) > _NOTED_S:
            ends = time.time() + self._ends_at - asyncio.get_running_loop().time()
            with contextlib.suppress(OSError):  # without it, a restarted server only waits too long
                self._file.write_text(f"{ends:.0f}")

    def lack(self, lead: timedelta, longest: timedelta | None) -> str | None:
        """Return why the time that is left is too short for a trial, without the subject; None: it is not.

        ``lead``: time before the limit at which trials are asked to end. ``longest``: maxTrialDuration.
        """
        left = self.left - lead
        if left <= timedelta(0):
            return "takes no more trials, because its time limit is near"
        if longest is not None and left < longest <= self._limit() - lead:
            return f"has {max(1, round(left / timedelta(minutes=1)))} min left, less than maxTrialDuration"
        return None

    @property
    def left(self) -> timedelta:
        """Time until the time limit, negative after it."""
        now = asyncio.get_running_loop().time()
        if self._ends_at is None:
            longest = self._limit().total_seconds()
            try:
                left = float(self._file.read_text()) - time.time()
            except (OSError, ValueError):
                left = longest
            self._ends_at = now + min(left, longest)
        return timedelta(seconds=self._ends_at - now)
