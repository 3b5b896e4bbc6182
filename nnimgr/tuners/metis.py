"""Metis: Bayesian optimisation that measures doubtful results again (Li and others, USENIX ATC 2018)."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from nnimgr.tuners.acquisition import Search
from nnimgr.tuners.cube import Floats
from nnimgr.tuners.gaussian import Posterior
from nnimgr.tuners.gaussian_tuner import GaussianTuner

__all__ = ["MetisTuner"]

_NU, _ALPHA = 2.5, 1e-6  # fixed settings of the Gaussian process
_WARM_UP = 10_000
_DOUBT = 1.5  # number of standard deviations below its mean at which a set may still be the best set
_ODD = 3.0  # a set is tried again if its result differs this many standard deviations from its prediction
_OFTEN = 3  # most times that the same parameter set is tried
_SAME = 1e-9  # rounding moves a point by less than this distance


class MetisTuner(GaussianTuner):
    """Tuner that tries an uncertain parameter set or the set with the best expected result, or repeats a
    set.

    With the probability ``exploration_probability``, it tries the most uncertain of the sets that may still
    be the best. Otherwise, or always with ``no_candidates``, it tries the set with the best expected result.
    If ``no_resampling`` is False, a set whose result does not fit the other results is first tried again.
    ``selection_num_starting_points``: the number of sets from which the search for a new set starts.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        no_resampling: bool = True,
        no_candidates: bool = False,
        selection_num_starting_points: int = 600,
        cold_start_num: int = 10,
        exploration_probability: float = 0.9,
        seed: int | None = None,
    ) -> None:
        super().__init__("Metis", optimize_mode, seed, cold_start_num, _NU, _ALPHA)
        self._resampling = not no_resampling
        self._exploration = 0.0 if no_candidates else exploration_probability
        self._starts = selection_num_starting_points

    def promising(self, search: Search, model: Posterior, rng: Random) -> dict[str, Any] | None:
        again = self._doubtful(model) if self._resampling else None
        if again is not None:
            return again
        elite = self.elite()
        lowest = float(model.predict(self.cube.one_hot(elite))[0].min())

        def exploitation(mean: Floats, deviation: Floats) -> Floats:
            return -mean

        def exploration(mean: Floats, deviation: Floats) -> Floats:
            behind = mean - _DOUBT * deviation - lowest  # below 0 if the set may be the best set
            return np.where(behind < 0.0, deviation, -behind)

        goal = exploration if rng.random() < self._exploration else exploitation
        return search.best(goal, elite, warm_up=_WARM_UP, starts=self._starts)

    def _doubtful(self, model: Posterior) -> dict[str, Any] | None:
        """Return the parameter set whose result differs most from the model's prediction.

        Return None if no result differs much, or if each set whose result differs was tried often enough.
        """
        points = self.points[self.modelled()]
        odd = np.abs(model.left_out())
        for at in np.argsort(-odd, kind="stable"):
            if odd[at] < _ODD:
                break
            tried = np.concatenate([self.points, self.pending])
            parameters = self.cube.decode(points[at])
            same = np.abs(tried - points[at]).max(axis=1) < _SAME
            if same.sum() < _OFTEN and self.allows(parameters):
                return parameters
        return None
