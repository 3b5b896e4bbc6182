"""Evolution: the best parameter sets form a population, and the better of two random members is varied."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from nnimgr.tuners.points import PointTuner

__all__ = ["EvolutionTuner"]

_SELECTION = 8  # number of results per member of the population
# Number of variants per suggestion. The first allowed one that is far enough from unfinished trials is used.
_OFFSPRING = 32
_LEAST, _MOST = 0.02, 0.3  # share of its range by which a number moves, at least and at most


class EvolutionTuner(PointTuner):
    """Tuner that first draws ``population_size`` random parameter sets, then varies good sets.

    Each further set is a variant of the better of two random members of the population. The population is
    the best eighth of all results, but at most ``population_size``. A random number of parameters is changed:
    numbers move by steps of random size, and choices are drawn again.
    """

    def __init__(
        self, optimize_mode: str = "maximize", population_size: int = 32, seed: int | None = None
    ) -> None:
        super().__init__(optimize_mode, seed)
        self._size = population_size

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if self.count < max(1, self._size):
            return self.drawn(rng)
        elite = min(self._size, max(2, self.count // _SELECTION))
        population = np.argsort(self.losses, kind="stable")[:elite]  # the best one first
        parent = population[min(rng.randrange(len(population)), rng.randrange(len(population)))]
        generator = np.random.default_rng(rng.getrandbits(64))
        scales = np.exp(generator.uniform(np.log(_LEAST), np.log(_MOST), _OFFSPRING))
        offspring = self.cube.varied(np.repeat(self.points[[parent]], _OFFSPRING, axis=0), scales, generator)
        return self.first_of(offspring)
