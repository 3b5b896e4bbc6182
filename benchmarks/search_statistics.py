"""Comparison of medians over seeds, with bootstrap intervals. Lower losses are better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 10_000
TAIL = 2.5  # per cent that a 95 % interval leaves out at each end


@dataclass(frozen=True, slots=True)
class Interval:
    value: float
    low: float
    high: float

    @property
    def below(self) -> bool:
        """True if the whole interval is below 0."""
        return self.high < 0

    @property
    def above(self) -> bool:
        return self.low > 0

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """d = (our median - theirs) / Random's interquartile range: for each problem, and their mean."""

    problems: tuple[Interval, ...]
    mean: Interval

    @property
    def below(self) -> int:
        return sum(each.below for each in self.problems)

    @property
    def above(self) -> int:
        return sum(each.above for each in self.problems)


def compare(cases: Sequence[tuple[Sequence[float], Sequence[float], Sequence[float]]]) -> Comparison:
    """Compare the losses. ``cases``: for each problem our, their and Random's losses, one per seed.

    Our and their seeds are drawn with replacement, independently of each other. Random's range is the unit,
    and is not drawn.
    """
    rng = np.random.default_rng(0)
    values, drawn = [], []
    for case in cases:
        ours, theirs, chance = (np.asarray(losses, np.float64) for losses in case)
        low, high = np.quantile(chance, [0.25, 0.75])
        values.append(float(np.median(ours) - np.median(theirs)) / (high - low))
        middles = (np.median(_resampled(losses, rng), axis=1) for losses in (ours, theirs))
        drawn.append(np.subtract(*middles) / (high - low))
    means = np.mean(drawn, axis=0)
    each = tuple(_interval(value, draws) for value, draws in zip(values, drawn, strict=True))
    return Comparison(each, _interval(float(np.mean(values)), means))


def median(values: Sequence[float]) -> Interval:
    """Return the median of values, one per seed, with its interval."""
    taken = np.asarray(values, np.float64)
    draws = np.median(_resampled(taken, np.random.default_rng(0)), axis=1)
    return _interval(float(np.median(taken)), draws)


def _resampled(values: Floats, rng: np.random.Generator) -> Floats:
    found: Floats = values[rng.integers(0, len(values), (DRAWS, len(values)))]
    return found


def _interval(value: float, draws: Floats) -> Interval:
    low, high = np.percentile(draws, [TAIL, 100 - TAIL])
    return Interval(value, float(low), float(high))
