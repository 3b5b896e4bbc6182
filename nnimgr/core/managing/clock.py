"""Clock of an experiment. It never goes back, and does not jump when the machine's clock is set.

Retries and limits are instants that outlive the server. With the wall clock, setting the clock back by an
hour would delay every retry by an hour, and setting it forward would end trials.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta


def seconds_since_boot() -> float:
    """Return the seconds of a clock that nobody sets and that includes the time of suspension."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Clock that starts at ``now``, or at ``after`` (the last fact's instant) if this is later.

    ``seconds``: steady clock that makes it advance.
    """

    def __init__(
        self, now: datetime, *, after: datetime | None, seconds: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._start = now if after is None else max(now, after)
        self._seconds = seconds
        self._zero = seconds()

    def __call__(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds() - self._zero)
