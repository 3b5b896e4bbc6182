"""GP: Bayesian optimisation with a Gaussian process (Snoek, Larochelle and Adams, NeurIPS 2012)."""

from __future__ import annotations

from random import Random
from typing import Any

from nnimgr.tuners.acquisition import Search, improvement
from nnimgr.tuners.cube import Floats
from nnimgr.tuners.gaussian import Posterior
from nnimgr.tuners.gaussian_tuner import GaussianTuner

__all__ = ["GPTuner"]


class GPTuner(GaussianTuner):
    """Tuner that tries the parameter set with the largest ``utility``, which is computed from the model's
    prediction.

    ``utility``: "ei" (expected improvement), "poi" (probability of improvement) or "ucb" (upper confidence
    bound). ``kappa``: the weight of uncertainty for ucb. ``xi``: the least improvement for ei and poi.
    ``kappa`` and ``xi`` apply to results that are scaled so that their usual distance from the median is 1.
    ``nu``: the smoothness of the Matérn kernel. ``alpha``: a number added to the variance of every scaled
    result.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        utility: str = "ei",
        kappa: float = 5,
        xi: float = 0,
        nu: float = 2.5,
        alpha: float = 1e-6,
        cold_start_num: int = 10,
        selection_num_warm_up: int = 100_000,
        selection_num_starting_points: int = 250,
        seed: int | None = None,
    ) -> None:
        super().__init__("GP", optimize_mode, seed, cold_start_num, nu, alpha)
        self._utility, self._kappa, self._xi = utility, kappa, xi
        self._warm_up, self._starts = selection_num_warm_up, selection_num_starting_points

    def promising(self, search: Search, model: Posterior, rng: Random) -> dict[str, Any] | None:
        target = model.lowest - self._xi

        def utility(mean: Floats, deviation: Floats) -> Floats:
            match self._utility:
                case "ucb":
                    return self._kappa * deviation - mean
                case "poi":
                    return (target - mean) / deviation  # this number grows with the probability
            return improvement(mean, deviation, target)

        return search.best(utility, self.elite(), warm_up=self._warm_up, starts=self._starts)
