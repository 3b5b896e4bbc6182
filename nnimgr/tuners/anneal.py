"""Simulated annealing as in hyperopt: draws near one of the best sets, and nearer as results come in."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.tuners.cube import Floats
from nnimgr.tuners.points import PointTuner

__all__ = ["AnnealTuner"]

_RANK = 2.0  # average rank of the start among the results
_SHRINK = 0.1  # speed at which the neighbourhood becomes smaller
_NEIGHBOURS = 32  # number of draws, of which the first allowed draw at a distance from open sets is used


class AnnealTuner(PointTuner):
    """Draws from around one of the best sets, chosen geometrically by rank.

    With n results that have a parameter, its neighbourhood is the (1 + n / 10)th part of its range, and a
    choice is drawn again with that probability. With ``parallel_optimize``, open sets count as results with
    the smallest, largest or mean loss so far, by ``constant_liar_type``.
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
        """Return a point near one of these points, which are sorted best first; shape (width,).

        Each further attempt draws from a slightly larger neighbourhood.
        """
        start = _geometric(len(points), rng)
        found = points[start].copy()
        for at, column in enumerate(self.cube.columns):
            # Parents come before their dependent columns, so found[:at] decides which columns are active
            # here.
            if column.parent is not None and not self.cube.active(found)[at]:
                continue
            known = np.flatnonzero(active[:, at])
            width = min(1.0, (1.0 + attempt / 8) / (1.0 + _SHRINK * len(known)))
            if not len(known) or (column.options and rng.random() < width):
                found[at] = rng.random()
                continue
            if not active[start, at]:  # in the start, another option is chosen
                found[at] = points[known[_geometric(len(known), rng)], at]
            if not column.options:
                found[at] = _moved(found[at], width, column.steps, rng)
        settled: Floats = self.cube.settled(found[None])[0]
        return settled


def _lie(losses: Floats, liar: str) -> float:
    """Return the assumed loss of open sets."""
    lowest, highest = float(losses.min()), float(losses.max())
    match liar:
        case "min":
            return lowest
        case "max":
            return highest
    with np.errstate(all="ignore"):  # the sum may overflow
        return min(max(float(losses.mean()), lowest), highest)


def _geometric(count: int, rng: Random) -> int:
    """Return a rank below ``count``. The better a rank, the more probable it is."""
    return min(count - 1, int(math.log(1.0 - rng.random()) / math.log(1.0 - 1.0 / _RANK)))


def _moved(number: float, width: float, steps: int | None, rng: Random) -> float:
    """Return a number within half of the width around ``number``, or within one step if that is more."""
    half = width / 2 if steps is None else max(width / 2, 1.0 / steps)
    return rng.uniform(max(0.0, number - half), min(1.0, number + half))
