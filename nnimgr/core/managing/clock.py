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
    """Return the seconds since the machine's boot, including suspension. Nobody can set this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Clock of an experiment, which only goes forward. It starts at the later of ``now`` and ``after``.

    ``after``: time of the experiment's last fact; None without facts. ``seconds``: function of the monotonic
    clock that advances this clock.
    """

    def __init__(
        self, now: datetime, *, after: datetime | None, seconds: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._start = now if after is None else max(now, after)
        self._seconds = seconds
        self._zero = seconds()

    def __call__(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds() - self._zero)
