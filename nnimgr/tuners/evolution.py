"""Evolution: the best sets are a population, in which the better one of two at random has offspring."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from nnimgr.tuners.points import PointTuner

__all__ = ["EvolutionTuner"]

_SELECTION = 8  # one of so many results is good enough for the population
_OFFSPRING = 32  # drawn of one parent, of which the first that may be tried and lies apart is given
_LEAST, _MOST = 0.02, 0.3  # how far a number moves, as a share of its range


class EvolutionTuner(PointTuner):
    """Draws ``population_size`` sets at random, then varies the better of two members of the population.

    These are the best eighth of all results, but no more than ``population_size``. A random
    number of parameters varies: numbers move by steps of random size, choices are drawn anew.
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
