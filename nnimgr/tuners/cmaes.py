"""CMA-ES (Hansen, 2016): a normal distribution that adapts its shape to the region of good results.

The library cmaes does the mathematics. It receives the results in the order of arrival, one population at a
time, also for parameter sets that it has not suggested. So a late or failed trial does not delay others.
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

# Maximum number of columns for which correlations are learned. With more columns, correlations would cost too
# much time, so only the scale of each column is learned.
_WIDEST = 100
_FARTHEST = (
    3.0  # most standard deviations from the mean; a more distant result would distort the distribution
)
_REFERENCE = 16  # least number of draws from which the usual distance from the mean is computed
_DOUBLINGS = 10  # most doublings of the population
_STILL = 1e-9  # scale of a move so small that only columns with steps change
_TINY = 1e-300
_LARGEST = 1e300  # limit of losses, so that their differences are finite
_ATTEMPTS = 32  # most candidates for a suggestion


class CmaesTuner(PointTuner):
    """Tuner that draws parameter sets from a normal distribution, which moves toward good results.

    At first, the distribution's mean is the middle of the search space, and its standard deviation is
    ``sigma0``, a share of each parameter's range. If ``population_size`` is None, it depends on the number of
    columns. A choice has one column per option; the option with the largest value is used. When the
    distribution has become narrow, another one starts at a random place with twice the population. Raise
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
        """Yield points drawn from the distribution as candidates for a suggestion.

        A narrow distribution would always draw the same value of a parameter with few values. So some of
        these values are changed at random: usually one per population, and more in each further candidate.
        """
        stepped = self.cube.stepped
        rare = 1.0 / (self._distribution.population_size * max(1, stepped.sum()))
        for attempt in range(_ATTEMPTS):
            point = self.cube.from_one_hot(reflected(self._distribution.ask()[None]))
            change = stepped & (rng.random(self.cube.width) < max(rare, attempt / _ATTEMPTS))
            other = self.cube.moved(self.cube.settled(point), _STILL, rng)
            yield self.cube.settled(np.where(change, other, point))[0]

    def _catch_up(self) -> None:
        """Pass new results to the distribution. Start another distribution if this one has converged."""
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
        """Return features of the points that look as if the distribution had drawn them.

        Columns that are not in use in a point are filled from another draw, because they carry no
        information. A point that is much farther from the mean than usual draws, such as an imported result,
        is moved nearer.
        """
        draws = np.array([self._distribution.ask() for _ in range(max(len(points), _REFERENCE))])
        active = self.cube.features_of(self.cube.active_in(points))
        features = np.where(active, self.cube.one_hot(points), draws[: len(points)])
        away = features - self._distribution.mean
        lengths = np.abs(away / np.maximum(draws.std(axis=0), _TINY)).max(axis=1)
        found: Floats = self._distribution.mean + away * np.minimum(1.0, _FARTHEST / lengths)[:, None]
        return found
