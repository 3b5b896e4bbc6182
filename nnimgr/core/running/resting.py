"""Decides when the process of a built-in tuner may end because its experiment only waits for trials.

The next request for a parameter set starts another process, which rebuilds the tuner's state from the log, as
after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

REST_AFTER_S = 10.0  # time without a request for a parameter set
QUICK_S = 0.1  # a tuner that starts more slowly keeps its process, because trials would wait for a restart

__all__ = ["QUICK_S", "REST_AFTER_S", "RestTimer"]


class RestTimer:
    """Timer that calls ``rest`` after a time without requests to the tuner, if no request is pending
    (``idle``).
    """

    def __init__(self, *, idle: Callable[[], bool], rest: Callable[[], None]) -> None:
        self._idle, self._rest = idle, rest
        self._began_at = self._used_at = 0.0  # in the time of the event loop
        self._timer: asyncio.TimerHandle | None = None

    def began(self) -> None:
        """Record that a process of the tuner is being started, and stop the timer."""
        self.stop()
        self._began_at = asyncio.get_running_loop().time()

    def ready(self) -> None:
        """Start the timer once the tuner's process is ready, unless its start took long."""
        loop = asyncio.get_running_loop()
        self._used_at = loop.time()
        if self._used_at - self._began_at <= QUICK_S:
            self._timer = loop.call_later(REST_AFTER_S, self._look)

    def used(self) -> None:
        """Record the time of a request to the tuner. The timer checks this time when it expires."""
        self._used_at = asyncio.get_running_loop().time()

    def stop(self) -> None:
        """Stop the timer, because the tuner's process has ended or must continue."""
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
