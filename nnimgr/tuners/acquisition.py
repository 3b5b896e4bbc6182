"""Search for the point that is most promising according to a model of the results so far.

Points are parameter sets as rows of numbers from 0 to 1 (see ``encoding``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnimgr.tuners.cube import Cube, Floats

__all__ = ["Acquisition", "Search", "improvement"]

# Function that returns scores for means and standard deviations of points, shape (n,). Higher is better.
Acquisition = Callable[[Floats, Floats], Floats]

_PAIRS = 1_000_000  # limit of the number of candidates times the number of results
_NEAR = 1000  # most candidates that are drawn near good points
# Distance of a candidate's neighbours in each round of the search.
_ROUNDS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
_LOOKS = 4  # number of neighbours of a candidate in each round
_POLISHED = 3  # number of best candidates that are improved along the slope
_STEPS = 25  # most steps along the slope
_CHECKED = 2000  # most candidates for which the search checks whether they are allowed


class Search:
    """Search for the point with the highest score that is not too close to a pending point.

    Pending points are the parameter sets of unfinished trials. ``predict`` returns means and standard
    deviations for points, shape (n,). ``size``: the cost of a prediction per point, such as the number of
    results. ``smooth``: the predictions have a slope, so that the search may follow it.
    """

    def __init__(
        self,
        cube: Cube,
        predict: Callable[[Floats], tuple[Floats, Floats]],
        *,
        size: int,
        smooth: bool,
        pending: Floats,
        allows: Callable[[Any], bool],
        rng: np.random.Generator,
    ) -> None:
        self._cube, self._predict, self._size, self._smooth = cube, predict, size, smooth
        self._pending, self._allows, self._rng = pending, allows, rng

    def best(
        self, acquisition: Acquisition, around: Floats, *, warm_up: int, starts: int
    ) -> dict[str, Any] | None:
        """Return the allowed parameter set with the highest score (``acquisition``), or None if no allowed
        set was found.

        The candidates are ``warm_up`` points drawn from the whole space, and the same number drawn near the
        good points ``around``. The best ``starts`` candidates are then improved step by step.
        """
        count = max(1, min(warm_up, _PAIRS // self._size))
        near = around[self._rng.integers(len(around), size=min(count, _NEAR))]
        scales = np.exp(self._rng.uniform(np.log(0.005), np.log(0.3), len(near)))
        points = np.concatenate(
            [self._cube.drawn(count, self._rng), self._cube.varied(near, scales, self._rng)]
        )
        scores = self._scores(acquisition, points)
        points, scores = self._allowed(points, scores, max(1, starts))
        if not len(points):
            return None
        refined, reached = self._refined(acquisition, points, scores)
        for at in np.argsort(-reached, kind="stable")[: _POLISHED if self._smooth else 0]:
            refined[at] = self._uphill(acquisition, refined[at])
        reached = self._scores(acquisition, self._exact(refined))
        # An improved point may not be allowed, so the original point stays a candidate.
        points, scores = np.concatenate([refined, points]), np.concatenate([reached, scores])
        for at in np.argsort(-scores, kind="stable"):
            parameters = self._cube.decode(points[at])
            if self._allows(parameters):
                return parameters
        return None

    def _scores(self, acquisition: Acquisition, points: Floats) -> Floats:
        """Return the scores of points. A point that is too close to a pending point gets minus infinity."""
        found = acquisition(*self._predict(points))
        return np.where(self._cube.spread(points, self._pending), found, -np.inf)

    def _allowed(self, points: Floats, scores: Floats, count: int) -> tuple[Floats, Floats]:
        """Return the best ``count`` points whose parameter sets are allowed, and their scores."""
        order = np.argsort(-scores, kind="stable")[:_CHECKED]
        kept: list[int] = []
        for at in order.tolist():
            if len(kept) == count:
                break
            if self._allows(self._cube.decode(points[at])):
                kept.append(at)
        return points[kept], scores[kept]

    def _exact(self, points: Floats) -> Floats:
        """Decode each point to its parameter set, and return the points that encode these sets exactly."""
        return np.array([self._cube.snapped(point) for point in points])

    def _refined(self, acquisition: Acquisition, points: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Improve each point by repeated moves to random neighbours with higher scores.

        Return the points and their scores.
        """
        points, scores = points.copy(), scores.copy()
        for scale in _ROUNDS:
            for _ in range(_LOOKS):
                others = self._cube.varied(points, scale, self._rng)
                found = self._scores(acquisition, others)
                better = found > scores
                points[better], scores[better] = others[better], found[better]
        return points, scores

    def _uphill(self, acquisition: Acquisition, point: Floats) -> Floats:
        """Move a point along its continuous columns to the nearby place with the highest score, and return
        it.
        """
        from scipy.optimize import minimize

        free = np.flatnonzero(self._cube.active(point) & ~self._cube.stepped)
        if not len(free):
            return point
        step = 1e-6

        def loss(x: Floats) -> tuple[float, Floats]:
            trial = np.repeat(point[None], len(free) + 1, axis=0)
            trial[:, free] = x
            signs = np.where(x > 0.5, -step, step)  # toward the inside, so that the step stays in the cube
            trial[np.arange(1, len(free) + 1), free] += signs
            found = acquisition(*self._predict(trial))
            return -float(found[0]), -(found[1:] - found[0]) / signs

        bounds = [(0.0, 1.0)] * len(free)
        found = minimize(
            loss, point[free], jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": _STEPS}
        )
        moved = point.copy()
        moved[free] = np.clip(found.x, 0.0, 1.0)
        keeps = self._cube.spread(moved[None], self._pending)[0] and -found.fun >= -loss(point[free])[0]
        return moved if keeps else point


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement on the loss ``best``.

    The result is exact even if the expected improvement is too small for a float.
    """
    from scipy.special import log_ndtr

    z = (best - mean) / deviation
    log_density = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
    near = np.maximum(z, -5.0)
    value = np.exp(-0.5 * near * near) / np.sqrt(2 * np.pi) + near * np.exp(log_ndtr(near))
    far = log_density - 2.0 * np.log(np.maximum(-z, 1.0))
    found: Floats = np.where(z > -5.0, np.log(value), far) + np.log(deviation)
    return found
