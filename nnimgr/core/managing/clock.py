"""An experiment's time: it never goes back, and no setting of the machine's clock makes it jump.

Retries and limits are instants that outlive the server. Were they compared with the wall clock, a clock that
is set back by an hour would hold every retry for that hour, and one that is set forward would end trials.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta


def seconds_since_boot() -> float:
    """Seconds of a clock that nobody sets; it goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """``now`` and then on by ``seconds``; begins at ``after``, the last fact's instant, if that is later."""

    def __init__(
        self, now: datetime, *, after: datetime | None, seconds: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._start = now if after is None else max(now, after)
        self._seconds = seconds
        self._zero = seconds()

    def __call__(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds() - self._zero)
