"""Gaussian processes over points of the unit cube.

scikit-learn does the mathematics. Its import takes a second, so it is imported with the first model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nnimgr.tuners.cube import Floats
from nnimgr.tuners.threads import one_thread

__all__ = ["Posterior", "fitted_kernel", "quick"]

# with more features, all have the same length scale, because each scale takes time and results to learn
_WIDEST = 20
_STEPS = 25  # steps of the search for a kernel


@contextmanager
def quick() -> Iterator[None]:
    """Run models in one thread in this context, without repeated checks of their inputs."""
    import sklearn.gaussian_process

    with one_thread(), sklearn.config_context(assume_finite=True), warnings.catch_warnings():
        # these warnings are not useful: a length at its bound, or a search without convergence, is good
        # enough
        warnings.simplefilter("ignore")
        yield


def fitted_kernel(features: Floats, values: Floats, nu: float, alpha: float) -> Any:
    """Return Matérn's kernel with the most probable lengths and amount of noise.

    ``features`` (n, wide) and ``values`` (n,); ``alpha`` is added to the variance of every value.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    wide = features.shape[1]
    lengths = np.full(wide, 0.5) if wide <= _WIDEST else 0.1 * np.sqrt(wide)
    bounds = (0.02, 20.0 * max(1.0, np.sqrt(wide / _WIDEST)))
    kernel = ConstantKernel(1.0, (0.05, 50.0)) * Matern(lengths, bounds, nu) + WhiteKernel(1e-4, (1e-8, 1.0))
    model = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=_most_probable)
    return model.fit(features, values).kernel_


def _most_probable(loss: Callable[..., Any], start: Floats, bounds: Floats) -> tuple[Floats, float]:
    """Return the parameters (logarithms of scale, lengths, noise) that are most probable, and their loss.

    A weak prior keeps the lengths near their start, because few values could move them anywhere.
    """
    from scipy.optimize import minimize

    spread = np.full(len(start), 1.5)
    spread[-1] = 4.0

    def penalised(theta: Floats) -> tuple[float, Floats]:
        value, slope = loss(theta, eval_gradient=True)
        away = (theta - start) / spread
        return float(value) + 0.5 * float(away @ away), slope + away / spread

    found = minimize(
        penalised, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": _STEPS}
    )
    return found.x, float(found.fun)


class Posterior:
    """Posterior of a Gaussian process with this kernel, given features (n, wide) and values (n,)."""

    def __init__(self, kernel: Any, features: Floats, values: Floats, alpha: float) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor

        self._kernel, self._features, self._values, self._alpha = kernel, features, values, alpha
        self._model = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(features, values)
        self._noise = float(kernel.k2.noise_level)

    @property
    def size(self) -> int:
        return len(self._values)

    @property
    def lowest(self) -> float:
        """Smallest observed value."""
        return float(self._values.min())

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return means and standard deviations, shape (m,), of the function without its noise."""
        mean, deviation = self._model.predict(features, return_std=True)
        return mean, np.sqrt(np.maximum(deviation**2 - self._noise, 1e-18))

    def believing(self, features: Floats) -> Posterior:
        """Return the posterior as if the points had their expected values as results."""
        if not len(features):
            return self
        values = np.concatenate([self._values, self._model.predict(features)])
        return Posterior(self._kernel, np.concatenate([self._features, features]), values, self._alpha)

    def left_out(self) -> Floats:
        """Return each value's distance in standard deviations from the prediction without it; shape (n,)."""
        from scipy.linalg import cho_solve

        inverse = cho_solve((self._model.L_, True), np.eye(self.size))
        found: Floats = inverse @ self._values / np.sqrt(np.diag(inverse))
        return found
