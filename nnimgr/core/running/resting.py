"""Decide when the process of a built-in tuner may end, because its experiment only waits for trials.

The search starts another process from the log, as after a crash, when the next parameter set is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

REST_AFTER_S = 10.0  # without a request for a parameter set
QUICK_S = 0.1  # a tuner that needs longer to start keeps its process: trials would wait for the next one

__all__ = ["QUICK_S", "REST_AFTER_S", "RestTimer"]


class RestTimer:
    """Call ``rest`` when the tuner was not asked for anything for a while and owes nothing (``idle``)."""

    def __init__(self, *, idle: Callable[[], bool], rest: Callable[[], None]) -> None:
        self._idle, self._rest = idle, rest
        self._began_at = self._used_at = 0.0  # on the loop's clock
        self._timer: asyncio.TimerHandle | None = None

    def began(self) -> None:
        """Note that a process of the tuner is being started."""
        self.stop()
        self._began_at = asyncio.get_running_loop().time()

    def ready(self) -> None:
        """Start the timer, unless the process took long to start."""
        loop = asyncio.get_running_loop()
        self._used_at = loop.time()
        if self._used_at - self._began_at <= QUICK_S:
            self._timer = loop.call_later(REST_AFTER_S, self._look)

    def used(self) -> None:
        """Note that the tuner was asked for something. The timer itself is set anew only when it goes off."""
        self._used_at = asyncio.get_running_loop().time()

    def stop(self) -> None:
        """Stop the timer: the process has ended, or is to stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._used_at + REST_AFTER_S - loop.time()
        if left <= 0 and self._idle():
            self._timer = None
            self._rest()
        else:
            self._timer = loop.call_later(left if left > 0 else REST_AFTER_S, self._look)
