"""Quasi-random search: the points of a Sobol sequence, which cover the search space evenly."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from nnimgr import search_space as spaces
from nnimgr.libraries import need
from nnimgr.tuners.encoding import Encoding
from nnimgr.tuners.random import RandomTuner

if TYPE_CHECKING:
    from scipy.stats.qmc import Sobol

__all__ = ["QmcTuner"]

_SEQUENCES = 50  # most sequences that are tried if a point is not allowed
_WIDEST = 21201  # most columns that scipy's Sobol sequences can have
_LENGTH = 2**30  # most points that scipy's Sobol sequences can have


class QmcTuner(RandomTuner):
    """Tuner that suggests point n of a scrambled Sobol sequence for the parameter id n.

    If that parameter set is not allowed, the same point of a sequence with another scrambling is used. Raise
    ModuleNotFoundError if scipy is not installed.
    """

    def __init__(self, optimize_mode: str = "minimize", seed: int | None = None) -> None:
        need("the tuner QMC", "scipy")
        super().__init__(optimize_mode, seed)
        self._encoding = Encoding(self.space)
        self._sequences: dict[int, Sobol] = {}

    def space_changed(self) -> None:
        self._encoding = Encoding(self.space)
        self._sequences = {}

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if 0 < self._encoding.width <= _WIDEST:
            for number in range(_SEQUENCES):
                parameters = self._point(number, parameter_id % _LENGTH)
                if self.allows(parameters):
                    return parameters
        return spaces.sample(self.space, rng)

    def _point(self, number: int, index: int) -> dict[str, Any]:
        """Return point ``index`` of the Sobol sequence whose scrambling has this number, as a
        parameter set.
        """
        from scipy.stats.qmc import Sobol

        sequence = self._sequences.get(number)
        if sequence is None:
            scrambled_by = Random(f"{self._seed}/sequence {number}").getrandbits(64)
            sequence = Sobol(self._encoding.width, scramble=True, rng=scrambled_by)
            self._sequences[number] = sequence
        if index < sequence.num_generated:
            sequence.reset()
        if index > sequence.num_generated:
            sequence.fast_forward(index - sequence.num_generated)
        return self._encoding.decode(sequence.random(1)[0])
