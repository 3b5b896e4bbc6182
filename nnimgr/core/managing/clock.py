"""Clock of an experiment, which never goes back and does not jump when the machine's clock is set.

The times of retries and limits are stored, and are valid after a restart of the server. With the wall clock,
a clock that is set back by an hour would delay every retry by an hour, and a clock that is set forward would
end trials.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta


def seconds_since_boot() -> float:
    """Return the seconds since the boot, including suspension. This clock cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Clock that starts at ``now``, or at ``after`` (the last fact's time) if ``after`` is later.

    ``seconds``: function of a steady clock, by which this clock advances.
    """

    def __init__(
        self, now: datetime, *, after: datetime | None, seconds: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._start = now if after is None else max(now, after)
        self._seconds = seconds
        self._zero = seconds()

    def __call__(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds() - self._zero)
