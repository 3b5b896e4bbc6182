"""Rate at which an experiment creates trials, and the time until its end at that rate.

These functions only compute: they read no clock and no database.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

__all__ = ["CREATIONS", "Forecast", "forecast", "trials_per_s"]

CREATIONS = 31  # number of latest creations of trials from which the rate is computed
_LEAST = 3  # fewest creations, after all slots were filled once, from which a rate is computed


class Forecast(NamedTuple):
    """Time until the experiment's end, and the limit that will end it."""

    remaining: timedelta
    limit: Literal["maxTrialNumber", "maxExperimentDuration"]


def trials_per_s(
    latest: Sequence[datetime], *, created: int, ended: int, slots: int, now: datetime
) -> float | None:
    """Return the rate at which an experiment creates trials; None if it has created too few trials.

    ``latest``: times of the latest creations, newest first. ``created``, ``ended``: number of all trials, and
    of those that have ended. The first ``slots`` trials are left out, because they are created at once. So
    are those that were created without the end of another one, for example because users want more slots.
    """
    steps = min(len(latest) - 1, created - slots, ended)
    if steps < _LEAST:
        return None
    newest, oldest = latest[0], latest[steps]
    passed = max(newest - oldest, (now - oldest) * steps / (steps + 1)).total_seconds()
    return steps / passed if passed > 0 else None


def forecast(pace: float | None, *, unfinished: int | None, time_left: timedelta | None) -> Forecast | None:
    """Return when the experiment will probably end, and by which limit; None if that cannot be predicted.

    ``pace``: trials created per second. ``unfinished``: number of trials that must still end before
    maxTrialNumber is reached; None without that limit. ``time_left``: time up to maxExperimentDuration; None
    without that limit.
    """
    found = []
    if unfinished is not None and pace is not None:
        found.append(Forecast(timedelta(seconds=unfinished / pace), "maxTrialNumber"))
    if time_left is not None:
        found.append(Forecast(max(time_left, timedelta()), "maxExperimentDuration"))
    return min(found, default=None)
