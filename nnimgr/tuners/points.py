"""Base of the tuners that treat parameter sets as points of the unit cube (see ``encoding``)."""

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

_DRAWS = 20  # most draws of allowed sets to find one that is far enough from unfinished trials
_BLIND_DRAWS = 2000  # most draws to find an allowed set
_LARGEST = 1e150  # largest scaled loss, so that its square is a finite number


class PointTuner(LearningTuner):
    """Base of tuners that store results and unfinished trials as points. Points are in the order of
    arrival.

    A result is ignored if it is not finite or its parameter set is not in the search space.
    """

    def __init__(self, optimize_mode: str = "minimize", seed: int | None = None) -> None:
        super().__init__(optimize_mode, seed)
        self.cube = Cube(self.space)
        self._points: list[Floats] = []
        self._losses: list[float] = []
        self._pending: dict[int, Floats] = {}

    @property
    def count(self) -> int:
        """Number of results in the current search space."""
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
        """Points of the unfinished trials; shape (k, width)."""
        return np.array(list(self._pending.values())).reshape(len(self._pending), self.cube.width)

    def drawn(self, rng: Random) -> dict[str, Any]:
        """Return an allowed random parameter set, far enough from those of unfinished trials if possible."""
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
        """Return the parameter set of the first point that is allowed and far enough from unfinished
        trials.

        If there is no such point, return the allowed set that is farthest from them, or else the first set.
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
    """Scale losses of any size for models that square them: the median becomes 0, and a usual distance from
    it about 1.

    Distances from the median are scaled logarithmically, so that a few terrible results do not make all good
    results look alike. The order of the losses is kept. Equal losses become zeros. The shape is (n,), with n
    at least 1.
    """
    with np.errstate(under="ignore", over="ignore"):
        losses = losses / max(1.0, float(np.abs(losses).max()) / _LARGEST)
        away = losses - np.median(losses)
        usual = float(np.median(np.abs(away))) or float(np.abs(away).mean())
        if usual < np.finfo(np.float64).tiny * 1e16:
            return np.zeros_like(losses)
        away = np.clip(away / usual, -_LARGEST, _LARGEST)
        return np.copysign(np.log1p(np.abs(away)), away)
