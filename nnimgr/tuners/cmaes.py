"""CMA-ES: a normal distribution that adapts its shape to the region of good results (Hansen, 2016).

The library cmaes does the mathematics. It gets the results in the order of arrival, one population at a time,
including results of sets that it has not suggested. So a late or failed trial does not delay others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from nnimgr.libraries import need
from nnimgr.tuners.cube import Floats, reflected
from nnimgr.tuners.points import PointTuner
from nnimgr.tuners.threads import one_thread

__all__ = ["CmaesTuner"]

# With more columns, only their scales are learned, because the cost of learning more grows with their cube.
_WIDEST = 100
_FARTHEST = 3.0  # limit in deviations from the mean, because distant results would distort the distribution
_REFERENCE = 16  # fewest draws from which the usual distance of a draw from the mean is computed
_DOUBLINGS = 10  # most doublings of the population
_STILL = 1e-9  # scale of a move that only changes columns with steps
_TINY = 1e-300
_LARGEST = 1e300  # differences of such losses are finite
_ATTEMPTS = 32  # attempts to find an allowed set at a distance from open sets


class CmaesTuner(PointTuner):
    """Tuner that draws from a distribution, first in the middle of the space with a deviation of ``sigma0``.

    ``sigma0`` is a share of each parameter's range. If ``population_size`` is null, the number of columns
    decides. A choice has one column per option, and the option with the largest value is taken. When the
    distribution has converged, another one starts at a random place with twice the population. Raise
    ModuleNotFoundError if cmaes is not installed.
    """

    def __init__(
        self,
        optimize_mode: str = "minimize",
        sigma0: float = 0.3,
        population_size: int | None = None,
        seed: int | None = None,
    ) -> None:
        need("the tuner CMAES", "cmaes")
        super().__init__(optimize_mode, seed)
        self._sigma, self._size = sigma0, population_size
        self._distribution: Any = None  # an instance of cmaes.CMA or cmaes.SepCMA
        self._restarts = 0
        self._told = 0  # number of results that the distribution has received

    def space_changed(self) -> None:
        super().space_changed()
        self._distribution, self._restarts, self._told = None, 0, 0

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if not self.cube.width:
            return {}
        with one_thread(), np.errstate(all="ignore"):
            self._catch_up()
            self._distribution.reseed_rng(rng.getrandbits(32))
            return self.first_of(self._asked(np.random.default_rng(rng.getrandbits(64))))

    def _asked(self, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield points of the cube.

        A narrow distribution would always draw the same value of a parameter with few values. So some columns
        are changed by chance: usually one per population, and more after each attempt without an allowed set.
        """
        stepped = self.cube.stepped
        rare = 1.0 / (self._distribution.population_size * max(1, stepped.sum()))
        for attempt in range(_ATTEMPTS):
            point = self.cube.from_one_hot(reflected(self._distribution.ask()[None]))
            change = stepped & (rng.random(self.cube.width) < max(rare, attempt / _ATTEMPTS))
            other = self.cube.moved(self.cube.settled(point), _STILL, rng)
            yield self.cube.settled(np.where(change, other, point))[0]

    def _catch_up(self) -> None:
        """Pass new results to the distribution, and start another one if it has converged."""
        if self._distribution is None:
            self._begin(self.cube.centre)
        while self.count - self._told >= (size := self._distribution.population_size):
            batch = slice(self._told, self._told + size)
            points, losses = np.array(self._points[batch]), self._losses[batch]
            seed = Random(f"{self._seed}/{self._told} told")
            self._distribution.reseed_rng(seed.getrandbits(32))
            told = self._as_drawn(points)
            self._distribution.tell(list(zip(told, np.clip(losses, -_LARGEST, _LARGEST), strict=True)))
            self._told += size
            if self._distribution.should_stop():
                self._restarts += 1
                rng = np.random.default_rng(seed.getrandbits(64))
                self._begin(self.cube.one_hot(self.cube.drawn(1, rng))[0])

    def _begin(self, mean: Floats) -> None:
        import cmaes

        wide = len(mean)
        size = self._size or 4 + int(3 * math.log(wide))
        kind = cmaes.CMA if wide <= _WIDEST else cmaes.SepCMA
        self._distribution = kind(mean, self._sigma, population_size=size << min(self._restarts, _DOUBLINGS))

    def _as_drawn(self, points: Floats) -> Floats:
        """Return the points' features as if the distribution had drawn them.

        Columns that are inactive in a point are filled from another draw, because they carry no information.
        A point farther away than any draw, such as an imported result, is moved nearer.
        """
        draws = np.array([self._distribution.ask() for _ in range(max(len(points), _REFERENCE))])
        active = self.cube.features_of(self.cube.active_in(points))
        features = np.where(active, self.cube.one_hot(points), draws[: len(points)])
        away = features - self._distribution.mean
        lengths = np.abs(away / np.maximum(draws.std(axis=0), _TINY)).max(axis=1)
        found: Floats = self._distribution.mean + away * np.minimum(1.0, _FARTHEST / lengths)[:, None]
        return found
