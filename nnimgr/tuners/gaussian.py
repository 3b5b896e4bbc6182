"""Gaussian processes that predict results at points of the unit cube.

scikit-learn does the mathematics. It is imported when the first model is built, because the import takes a
second.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nnimgr.tuners.cube import Floats
from nnimgr.tuners.threads import one_thread

__all__ = ["Posterior", "fitted_kernel", "most_probable", "quick"]

# Maximum number of features that have a length scale each. More features share one scale, because learning
# each scale would take much time and many results.
_WIDEST = 20
_STEPS = 25  # most steps of the optimiser that fits the kernel


@contextmanager
def quick() -> Iterator[None]:
    """Use one thread and skip checks of the inputs for models in this context, so that they are computed
    faster.
    """
    import sklearn.gaussian_process

    with one_thread(), sklearn.config_context(assume_finite=True), warnings.catch_warnings():
        # scikit-learn warns if a length scale is at its bound or the fit does not converge; both are harmless
        warnings.simplefilter("ignore")
        yield


def fitted_kernel(features: Floats, values: Floats, nu: float, alpha: float) -> Any:
    """Return a Matérn kernel plus noise, fitted to the values: the most probable length scales and amount of
    noise.

    ``features`` has the shape (n, wide), and ``values`` has the shape (n,). ``alpha`` is added to the
    variance of every value.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    wide = features.shape[1]
    lengths = np.full(wide, 0.5) if wide <= _WIDEST else 0.1 * np.sqrt(wide)
    bounds = (0.02, 20.0 * max(1.0, np.sqrt(wide / _WIDEST)))
    kernel = ConstantKernel(1.0, (0.05, 50.0)) * Matern(lengths, bounds, nu) + WhiteKernel(1e-4, (1e-8, 1.0))
    model = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=most_probable)
    return model.fit(features, values).kernel_


def most_probable(loss: Callable[..., Any], start: Floats, bounds: Floats) -> tuple[Floats, float]:
    """Return the most probable kernel parameters (logarithms of scale, lengths and noise), and their loss.

    It is an optimiser for scikit-learn's regressor, and the noise is the last parameter.

    A weak prior keeps the length scales near their start, because a few values do not determine them well.
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
    """Prediction of a Gaussian process with a given kernel, after it has observed ``values`` (n,) at
    ``features`` (n, wide).
    """

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
        """Return means and standard deviations of the predicted values without noise, each of shape (m,)."""
        mean, deviation = self._model.predict(features, return_std=True)
        return mean, np.sqrt(np.maximum(deviation**2 - self._noise, 1e-18))

    def believing(self, features: Floats) -> Posterior:
        """Return the prediction that follows if ``features`` (points of unfinished trials) give exactly their
        expected values.
        """
        if not len(features):
            return self
        values = np.concatenate([self._values, self._model.predict(features)])
        return Posterior(self._kernel, np.concatenate([self._features, features]), values, self._alpha)

    def left_out(self) -> Floats:
        """Return how far each value is from its prediction without this value, in standard deviations; shape
        (n,).
        """
        from scipy.linalg import cho_solve

        inverse = cho_solve((self._model.L_, True), np.eye(self.size))
        found: Floats = inverse @ self._values / np.sqrt(np.diag(inverse))
        return found
