"""Base of the tuners that predict results with a Gaussian process."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr.libraries import need
from nnimgr.tuners.acquisition import Search
from nnimgr.tuners.cube import Floats
from nnimgr.tuners.gaussian import Posterior, fitted_kernel, quick
from nnimgr.tuners.points import PointTuner, calm

__all__ = ["GaussianTuner"]

Integers = NDArray[np.int64]

# Maximum number of results in the model, whose cost grows with the third power of this number.
_MOST = 400
# Maximum number of results for fitting the kernel. It is small, because a fit takes fifty times as long as a
# prediction.
_MOST_FITTED = 150
_ELITE = 5


class GaussianTuner(PointTuner):
    """Tuner that draws ``cold_start_num`` random parameter sets.

    After that, ``promising`` chooses sets with a model. Unfinished trials count as if they had given the
    expected results. If there are many results, the model uses only the best and the newest ones. Raise
    ModuleNotFoundError if scipy or scikit-learn is not installed.
    """

    def __init__(
        self, name: str, optimize_mode: str, seed: int | None, cold_start_num: int, nu: float, alpha: float
    ) -> None:
        for module in ("scipy", "sklearn"):
            need(f"the tuner {name}", module)
        super().__init__(optimize_mode, seed)
        self._cold, self._nu, self._alpha = cold_start_num, nu, alpha
        # The kernel, and the number of results to which it was fitted.
        self._kernel: tuple[int, Any] = (0, None)

    def promising(self, search: Search, model: Posterior, rng: Random) -> dict[str, Any] | None:
        """Return the parameter set to try next, or None if no allowed set was found.

        ``model`` predicts from finished results only, while ``search`` also takes account of unfinished
        trials.
        """
        raise NotImplementedError

    def space_changed(self) -> None:
        super().space_changed()
        self._kernel = (0, None)

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if self.count < max(1, self._cold) or not self.cube.width:
            return self.drawn(rng)
        with quick():
            used = self.modelled()
            features = self.cube.one_hot(self.points[used])
            model = Posterior(self._fitted(), features, calm(self.losses[used]), self._alpha)
            believing = model.believing(self.cube.one_hot(self.pending[-_MOST:]))
            search = Search(
                self.cube,
                lambda points: believing.predict(self.cube.one_hot(points)),
                size=believing.size,
                smooth=True,
                pending=self.pending,
                allows=self.allows,
                rng=np.random.default_rng(rng.getrandbits(64)),
            )
            found = self.promising(search, model, rng)
        return self.drawn(rng) if found is None else found

    def elite(self) -> Floats:
        """Return the points of the best results. The search for a new set also looks around these points."""
        return self.points[np.argsort(self.losses, kind="stable")[:_ELITE]]

    def modelled(self) -> Integers:
        """Return the indices of the results that the model uses, in the order of arrival."""
        return self._chosen(self.count, _MOST)

    def _chosen(self, count: int, most: int) -> Integers:
        """Return the indices of the best and the newest among the first ``count`` results, at most ``most``
        of them.
        """
        if count <= most:
            return np.arange(count)
        older = np.argsort(self.losses[: count - most // 2], kind="stable")[: most - most // 2]
        return np.concatenate([np.sort(older), np.arange(count - most // 2, count)])

    def _fitted(self) -> Any:
        """Return the kernel. Fit it again only when the number of results has grown by about 3 %.

        The selection of results for the fit depends only on the results so far, not on the time of earlier
        fits. So a tuner has the same kernel after a restart.
        """
        every = 1 << max(0, self.count.bit_length() - 5)
        count = max(self.count - self.count % every, 1)
        if self._kernel[0] != count:
            used = self._chosen(count, _MOST_FITTED)
            features, values = self.cube.one_hot(self.points[used]), calm(self.losses[used])
            self._kernel = (count, fitted_kernel(features, values, self._nu, self._alpha))
        return self._kernel[1]
