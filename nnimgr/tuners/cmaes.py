"""CMA-ES: a normal distribution that adapts its shape to where good results lie (Hansen, 2016).

The mathematics is the library cmaes'. Results are told to it in the order of their coming, a population at a
time, whoever suggested them: a trial that is late or fails holds nobody up.
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

_WIDEST = 100  # beyond so many columns only their scales are learned, since all else grows with the cube
_FARTHEST = 3.0  # deviations from the mean count no more, for results from elsewhere would tear all apart
_REFERENCE = 16  # draws at least, to learn how far a draw usually lies from the mean
_DOUBLINGS = 10  # of the population, at most
_STILL = 1e-9  # as good as no move, but for its direction
_TINY = 1e-300
_LARGEST = 1e300  # a difference of such losses is finite
_ATTEMPTS = 32  # to find a set that may be tried and lies apart from the open ones


class CmaesTuner(PointTuner):
    """Draws from the distribution, which starts in the middle of the space with a deviation of ``sigma0``.

    ``sigma0`` is a share of each parameter's range; ``population_size`` null: as many as the number of
    columns wants. An option of a choice is the largest of one column per option. When the distribution has
    converged, another one starts elsewhere with twice the population. Raises ModuleNotFoundError if there is
    no cmaes.
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
        self._distribution: Any = None  # a cmaes.CMA or cmaes.SepCMA
        self._restarts = 0
        self._told = 0  # of so many results

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
        """Points of the cube.

        Where a parameter has few values, a distribution that has become narrow would draw no other: some are
        changed by chance, one in a population as a rule, and the more the more often none was any good.
        """
        stepped = self.cube.stepped
        rare = 1.0 / (self._distribution.population_size * max(1, stepped.sum()))
        for attempt in range(_ATTEMPTS):
            point = self.cube.from_one_hot(reflected(self._distribution.ask()[None]))
            change = stepped & (rng.random(self.cube.width) < max(rare, attempt / _ATTEMPTS))
            other = self.cube.moved(self.cube.settled(point), _STILL, rng)
            yield self.cube.settled(np.where(change, other, point))[0]

    def _catch_up(self) -> None:
        """Tell the distribution of what it does not know, and start another one where it has converged."""
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
        """The points' features, as if the distribution had drawn them.

        What a point leaves without meaning is as another draw has it, since it says nothing. What lies
        farther away than any draw would, as a result from elsewhere may, counts as lying nearer.
        """
        draws = np.array([self._distribution.ask() for _ in range(max(len(points), _REFERENCE))])
        active = self.cube.features_of(self.cube.active_in(points))
        features = np.where(active, self.cube.one_hot(points), draws[: len(points)])
        away = features - self._distribution.mean
        lengths = np.abs(away / np.maximum(draws.std(axis=0), _TINY)).max(axis=1)
        found: Floats = self._distribution.mean + away * np.minimum(1.0, _FARTHEST / lengths)[:, None]
        return found
