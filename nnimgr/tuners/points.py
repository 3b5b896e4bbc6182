"""Base of tuners that treat a search space as a unit cube: keeps results and open sets as points."""

from __future__ import annotations

import math
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np

from nnimgr import search_space as spaces
from nnimgr.tuners.cube import Cube, Floats
from nnimgr.tuners.learning import LearningTuner

__all__ = ["PointTuner", "calm"]

_DRAWS = 20  # most draws to find a set at a distance from the open sets
_BLIND_DRAWS = 2000  # most draws to find an allowed set, when a model would otherwise be asked again
_LARGEST = 1e150  # squares of numbers below this are finite


class PointTuner(LearningTuner):
    """Base class that keeps sets in the space with a finite result as points of ``cube``, by arrival."""

    def __init__(self, optimize_mode: str = "minimize", seed: int | None = None) -> None:
        super().__init__(optimize_mode, seed)
        self.cube = Cube(self.space)
        self._points: list[Floats] = []
        self._losses: list[float] = []
        self._pending: dict[int, Floats] = {}

    @property
    def count(self) -> int:
        """Number of results in this space."""
        return len(self._losses)

    @property
    def points(self) -> Floats:
        """Points of the results; shape (count, width)."""
        return np.array(self._points).reshape(self.count, self.cube.width)

    @property
    def losses(self) -> Floats:
        """Losses of the results; shape (count,)."""
        return np.array(self._losses)

    @property
    def pending(self) -> Floats:
        """Points of the open sets; shape (k, width)."""
        return np.array(list(self._pending.values())).reshape(len(self._pending), self.cube.width)

    def drawn(self, rng: Random) -> dict[str, Any]:
        """Return an allowed random set, if possible at a distance from the open sets."""
        pending = self.pending
        best, farthest, looks = None, -math.inf, 0
        for _ in range(_BLIND_DRAWS):
            parameters = spaces.sample(self.space, rng)
            if not self.allows(parameters):
                continue
            point = self.cube.encode(parameters)
            if point is None or self.cube.spread(point[None], pending)[0]:
                return parameters
            away = float(self.cube.nearest(point[None], pending)[0])
            if away > farthest:
                best, farthest = parameters, away
            looks += 1
            if looks == _DRAWS:
                break
        return parameters if best is None else best

    def first_of(self, candidates: Iterable[Floats]) -> dict[str, Any]:
        """Return the set of the first point that is allowed and at a distance from the open sets.

        If there is none, return the allowed set that is farthest from them, or else the first set.
        """
        pending = self.pending
        first: dict[str, Any] | None = None
        best, farthest = None, -math.inf
        for point in candidates:
            parameters = self.cube.decode(point)
            first = parameters if first is None else first
            if not self.allows(parameters):
                continue
            if self.cube.spread(point[None], pending)[0]:
                return parameters
            away = float(self.cube.nearest(point[None], pending)[0])
            if away > farthest:
                best, farthest = parameters, away
        assert first is not None
        return first if best is None else best

    def space_changed(self) -> None:
        self.cube = Cube(self.space)
        self._points, self._losses, self._pending = [], [], {}
        for parameters, loss in self.results:
            self.learned(parameters, loss)
        for parameter_id, parameters in self.open.items():
            self.opened(parameter_id, parameters)

    def opened(self, parameter_id: int, parameters: Any) -> None:
        point = self.cube.encode(parameters)
        if point is not None:
            self._pending[parameter_id] = point

    def closed(self, parameter_id: int, parameters: Any) -> None:
        self._pending.pop(parameter_id, None)

    def learned(self, parameters: Any, loss: float) -> None:
        point = self.cube.encode(parameters) if math.isfinite(loss) else None
        if point is not None:
            self._points.append(point)
            self._losses.append(loss)


def calm(losses: Floats) -> Floats:
    """Scale losses of any size for models that square them. The median becomes 0, a usual distance from it
    1.

    Distances from the median are taken as logarithms, so that a few terrible results do not make all good
    results look alike. The order is kept. Equal losses give zeros. Shape (n,), n at least 1.
    """
    with np.errstate(under="ignore", over="ignore"):
        losses = losses / max(1.0, float(np.abs(losses).max()) / _LARGEST)
        away = losses - np.median(losses)
        usual = float(np.median(np.abs(away))) or float(np.abs(away).mean())
        if usual < np.finfo(np.float64).tiny * 1e16:
            return np.zeros_like(losses)
        away = np.clip(away / usual, -_LARGEST, _LARGEST)
        return np.copysign(np.log1p(np.abs(away)), away)
