"""Model of BOHB: kernel density estimates of good configurations and of all others. Uses numpy."""

from __future__ import annotations

import math
from bisect import bisect_right
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.search_space import Space
from nnimgr.tuners.bohb_arguments import ModelArguments
from nnimgr.tuners.encoding import Encoding

__all__ = ["Model"]

Floats = NDArray[np.float64]

_LEAST = 1e-32  # lower limit of a density
_REDRAWS = 100  # draws of a point outside of the cube before the point is moved to the surface


class Model:
    """Model that learns from the results in one search space, separately for each budget, and suggests
    configurations.
    """

    def __init__(self, space: Space, arguments: ModelArguments) -> None:
        self._encoding = Encoding(space)
        self._arguments = arguments
        self._results: dict[float, _Results] = {}

    def learn(self, budget: float, configuration: Any, loss: float) -> None:
        """Add a configuration's result; lower losses are better.

        Ignore a configuration outside of the search space.
        """
        point = self._encoding.encode(configuration)
        if point is not None:
            self._results.setdefault(budget, _Results()).add(point, loss)

    def suggest(self, rng: Random) -> dict[str, Any] | None:
        """Return the most promising of some configurations drawn near good ones.

        Return None if there are too few results.
        """
        if not (halves := self._halves()):
            return None
        arguments = self._arguments
        generator = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
        good, bad = (_Density(self._encoding, points, arguments.min_bandwidth) for points in halves)
        drawn = good.draw(generator, arguments.num_samples, arguments.bandwidth_factor)
        drawn = np.array([self._encoding.snapped(point) for point in drawn])
        ratio = np.log(np.maximum(good.at(drawn), _LEAST)) - np.log(np.maximum(bad.at(drawn), _LEAST))
        return self._encoding.decode(drawn[int(np.argmax(ratio))])

    def _halves(self) -> tuple[Floats, Floats] | None:
        """Return the good points and the other points of the largest budget that has enough of both.

        Return None if no budget has enough results.
        """
        least = self._arguments.min_points_in_model or 0
        least = max(least, self._encoding.width + 1)
        for budget in sorted(self._results, reverse=True):
            results = self._results[budget]
            good = max(least, len(results.points) * self._arguments.top_n_percent // 100)
            if len(results.points) - good >= least:
                points = np.array(results.points)
                return points[results.order[:good]], points[results.order[good:]]
        return None


class _Results:
    """Results with one budget: points in the order of arrival, and the indices of the points, best first
    (``order``).
    """

    def __init__(self) -> None:
        self.points: list[Floats] = []
        self.order: list[int] = []
        self._losses: list[float] = []  # losses, in the same order as ``order``

    def add(self, point: Floats, loss: float) -> None:
        at = bisect_right(self._losses, loss)
        self._losses.insert(at, loss)
        self.order.insert(at, len(self.points))
        self.points.append(point)


class _Density:
    """Probability density estimated from points, with one kernel for each point.

    A kernel is a product over the columns. A number's factor is a normal distribution around the point. A
    choice's factor prefers the point's option. A column that is not in use in the point has no factor.
    """

    def __init__(self, encoding: Encoding, points: Floats, min_bandwidth: float) -> None:
        """Estimate the density from ``points`` of shape (n, width), with n at least 1."""
        self._points = points
        self._active = np.array([encoding.active(point) for point in points])
        self._options = np.array([column.options for column in encoding.columns])
        count, width = points.shape
        narrow = count ** (-1 / (4 + width))
        self._widths = np.maximum(1.06 * points.std(axis=0) * narrow, min_bandwidth)
        # For each choice, the probability that a kernel gives to all options except that of its point.
        most = (self._options - 1) / np.maximum(self._options, 1)
        self._leaks = np.maximum(most * narrow, np.minimum(min_bandwidth, most))

    def draw(self, generator: np.random.Generator, count: int, factor: float) -> Floats:
        """Draw ``count`` points from the density, with kernels widened by ``factor``; shape (count,
        width).
        """
        at = generator.integers(len(self._points), size=count)
        near, active = self._points[at], self._active[at]
        shape = near.shape
        even = generator.random(shape)
        moved = near + self._widths * factor * generator.standard_normal(shape)
        for _ in range(_REDRAWS):
            outside = (moved < 0) | (moved > 1)
            if not outside.any():
                break
            again = near + self._widths * factor * generator.standard_normal(shape)
            moved = np.where(outside, again, moved)
        kept = np.where(generator.random(shape) < self._leaks, even, near)
        return np.where(active, np.where(self._options > 0, kept, moved), even)

    def at(self, points: Floats) -> Floats:
        """Return the density at each of these points; shape (m,)."""
        logs = np.zeros((len(points), len(self._points)))
        for column, options in enumerate(self._options):
            mine, theirs = points[:, column, None], self._points[None, :, column]
            if options == 0:
                z = (mine - theirs) / self._widths[column]
                log = -0.5 * z * z - math.log(self._widths[column] * math.sqrt(2 * math.pi))
            elif options == 1:
                continue
            else:
                leak = self._leaks[column]
                same = np.abs(mine - theirs) < 0.5 / options
                log = np.where(same, math.log(1 - leak), math.log(leak / (options - 1)))
            logs += np.where(self._active[None, :, column], log, 0.0)
        found: Floats = np.exp(logs).mean(axis=1)
        return found
