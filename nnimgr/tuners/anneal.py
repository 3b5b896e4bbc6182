"""Simulated annealing as in hyperopt. It draws near good parameter sets, and nearer as more results
arrive.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.tuners.cube import Floats
from nnimgr.tuners.points import PointTuner

__all__ = ["AnnealTuner"]

_RANK = 2.0  # average rank, counted from 1, of the result near which a set is drawn
_SHRINK = 0.1  # speed at which the neighbourhood becomes smaller
_NEIGHBOURS = (
    32  # most draws for a suggestion; the first allowed set far enough from unfinished trials is used
)


class AnnealTuner(PointTuner):
    """Tuner that draws each parameter set near one of the best sets so far.

    Better sets are chosen more often. If n results contain a parameter, a number is drawn from 1 / (1 + n /
    10) of its range around the good value. A choice is drawn again with the probability 1 / (1 + n / 10).
    With ``parallel_optimize``, unfinished trials count as results whose loss is the smallest, largest or mean
    loss so far (``constant_liar_type``).
    """

    def __init__(
        self,
        optimize_mode: str = "minimize",
        parallel_optimize: bool = False,
        constant_liar_type: str = "min",
        seed: int | None = None,
    ) -> None:
        super().__init__(optimize_mode, seed)
        self._liar = constant_liar_type if parallel_optimize else None

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if not self.count:
            return self.drawn(rng)
        points, losses = self.points, self.losses
        if self._liar is not None and len(pending := self.pending):
            lie = _lie(losses, self._liar)
            points, losses = np.concatenate([points, pending]), np.append(losses, [lie] * len(pending))
        points = points[np.argsort(losses, kind="stable")]
        active = self.cube.active_in(points)
        return self.first_of(self._near(points, active, attempt, rng) for attempt in range(_NEIGHBOURS))

    def _near(self, points: Floats, active: NDArray[np.bool_], attempt: int, rng: Random) -> Floats:
        """Return a random point near one of these points, which are sorted best first; shape (width,).

        ``attempt``: the number of points drawn before for the same suggestion. A higher number allows a
        slightly larger distance.
        """
        start = _geometric(len(points), rng)
        found = points[start].copy()
        for at, column in enumerate(self.cube.columns):
            # Nested choices come before the columns of their options, so found[:at] decides whether this
            # column is active.
            if column.parent is not None and not self.cube.active(found)[at]:
                continue
            known = np.flatnonzero(active[:, at])
            width = min(1.0, (1.0 + attempt / 8) / (1.0 + _SHRINK * len(known)))
            if not len(known) or (column.options and rng.random() < width):
                found[at] = rng.random()
                continue
            if not active[start, at]:  # the column is not in use in the start, so take it from another result
                found[at] = points[known[_geometric(len(known), rng)], at]
            if not column.options:
                found[at] = _moved(found[at], width, column.steps, rng)
        settled: Floats = self.cube.settled(found[None])[0]
        return settled


def _lie(losses: Floats, liar: str) -> float:
    """Return the loss that is assumed for unfinished trials."""
    lowest, highest = float(losses.min()), float(losses.max())
    match liar:
        case "min":
            return lowest
        case "max":
            return highest
    with np.errstate(all="ignore"):  # the sum may overflow
        return min(max(float(losses.mean()), lowest), highest)


def _geometric(count: int, rng: Random) -> int:
    """Return a random rank from 0 to ``count`` - 1. Lower ranks, which are better, are more probable."""
    return min(count - 1, int(math.log(1.0 - rng.random()) / math.log(1.0 - 1.0 / _RANK)))


def _moved(number: float, width: float, steps: int | None, rng: Random) -> float:
    """Return a random number at most ``width`` / 2 away from ``number``, or at most one step away if a step
    is larger.
    """
    half = width / 2 if steps is None else max(width / 2, 1.0 / steps)
    return rng.uniform(max(0.0, number - half), min(1.0, number + half))
