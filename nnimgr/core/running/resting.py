"""When a built-in tuner's process may end for a while: who only waits for trials needs none.

It is made anew from the log, as after a crash, once another parameter set is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

REST_AFTER_S = 10.0  # since something was asked of it
QUICK_S = 0.1  # only a tuner that was ready within this time ends: nobody is to wait for the next one

__all__ = ["QUICK_S", "REST_AFTER_S", "RestTimer"]


class RestTimer:
    """Calls ``rest`` when the tuner has been of no use for a while, and nothing is asked of it (``idle``)."""

    def __init__(self, *, idle: Callable[[], bool], rest: Callable[[], None]) -> None:
        self._idle, self._rest = idle, rest
        self._began_at = self._used_at = 0.0  # on the loop's clock
        self._timer: asyncio.TimerHandle | None = None

    def began(self) -> None:
        """Its process is being started."""
        self.stop()
        self._began_at = asyncio.get_running_loop().time()

    def ready(self) -> None:
        """It can be asked: if that took long, it does not rest."""
        loop = asyncio.get_running_loop()
        self._used_at = loop.time()
        if self._used_at - self._began_at <= QUICK_S:
            self._timer = loop.call_later(REST_AFTER_S, self._look)

    def used(self) -> None:
        """It was asked for something. The timer is set anew only when it goes off."""
        self._used_at = asyncio.get_running_loop().time()

    def stop(self) -> None:
        """The process is to stay, or has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._used_at + REST_AFTER_S
        if due <= loop.time() and self._idle():
            self._timer = None
            self._rest()
        else:
            self._timer = loop.call_at(max(due, loop.time() + 1.0), self._look)
