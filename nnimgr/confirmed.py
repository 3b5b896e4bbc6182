"""Results of confirmed trials (``confirmBest``): mean, standard deviation and 95 % interval of their runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Confirmations", "ConfirmedTrial", "Run", "confirmations_of"]

# Quantiles 0.975 of Student's t distribution with 1, 2, ... degrees of freedom. scipy has them, too, but the
# server must not import numpy.
_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281, 2.201, 2.1788, 2.1604),
    *(2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.093, 2.086, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555),
    *(2.0518, 2.0484, 2.0452),
)


Confirmable = tuple[str, int, str, float | None]  # id, number, parameters and result of a trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Confirmation of the trial ``confirms``. ``value``: its result, if it has a usable one."""

    confirms: str
    ended: bool
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedTrial:
    """Trial that was run again. ``value``: its result in the search.

    ``open``: number of runs that have not ended. ``unusable``: number of runs that have ended without a
    usable result. ``mean``, ``deviation``: mean and sample standard deviation of the usable results.
    ``low``, ``high``: 95 % confidence interval of the mean, by Student's t distribution. None: there are too
    few results.
    """

    trial_id: str
    sequence: int
    parameters: str  # JSON text
    value: float | None
    usable: int
    unusable: int
    open: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmations:
    """All runs that confirm the best trials. ``trials``: the best mean comes first; without a mean, last.

    ``top``, ``runs``: as in the configuration. ``made``: number of runs that were created. ``open``: number
    of these that have not ended.
    """

    top: int
    runs: int
    made: int
    open: int
    trials: tuple[ConfirmedTrial, ...]


def confirmations_of(
    rule: Mapping[str, Any], trials: Iterable[Confirmable], runs: Sequence[Run], *, mode: str
) -> Confirmations:
    """Return the confirmations of these trials.

    ``rule``: ``confirmBest`` of the configuration. ``mode``: "minimize" or "maximize".
    """
    found = [_confirmed(*trial, [run for run in runs if run.confirms == trial[0]]) for trial in trials]
    sign = 1 if mode == "minimize" else -1
    found.sort(key=lambda each: (each.mean is None, sign * (each.mean or 0.0), each.sequence))
    unfinished = sum(not run.ended for run in runs)
    return Confirmations(
        top=rule["top"], runs=rule["runs"], made=len(runs), open=unfinished, trials=tuple(found)
    )


def _confirmed(
    trial_id: str, sequence: int, parameters: str, value: float | None, runs: Sequence[Run]
) -> ConfirmedTrial:
    values = [run.value for run in runs if run.value is not None]
    ended = sum(run.ended for run in runs)
    mean = statistics.mean(values) if values else None
    deviation = _deviation(values)
    half = math.inf
    if deviation is not None:
        half = _T[len(values) - 2] * deviation / math.sqrt(len(values))
    return ConfirmedTrial(
        trial_id=trial_id,
        sequence=sequence,
        parameters=parameters,
        value=value,
        usable=len(values),
        unusable=ended - len(values),
        open=len(runs) - ended,
        mean=mean,
        deviation=deviation,
        low=_finite(mean, -half),
        high=_finite(mean, half),
    )


def _deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None with fewer than two values, or if it is too large."""
    if len(values) < 2:
        return None
    try:
        return statistics.stdev(values)
    except OverflowError:
        return None


def _finite(mean: float | None, distance: float) -> float | None:
    """Return the number at this distance from the mean; None if there is none, or it is not finite."""
    found = math.nan if mean is None else mean + distance
    return found if math.isfinite(found) else None
