"""Gaussian processes over points of the unit cube, and the search for the point that promises most.

The mathematics is scikit-learn's, whose import takes a second: it comes with the first model.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from nnimgr.tuners.cube import Cube, Floats

__all__ = ["Acquisition", "Posterior", "Search", "fitted_kernel", "improvement", "need_libraries", "quick"]

Acquisition = Callable[
    [Floats, Floats], Floats
]  # of means and standard deviations, shape (n,): the more, the better

_WIDEST = 20  # beyond so many features they share one length, since each takes time and results to be learned
_STEPS = 25  # of the search for a kernel
_PAIRS = 1_000_000  # of a candidate and a result, at most, when many candidates are compared
_ROUNDS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002)  # how far around a candidate each round looks
_LOOKS = 4  # at so many neighbours, in each round
_POLISHED = 3  # of the best candidates go uphill along the slope
_CHECKED = 2000  # candidates are asked about at most, whether they may be given


def need_libraries(tuner: str) -> None:
    """Raise ModuleNotFoundError, which says what to install, if a library is not there."""
    for module, package in (("scipy", "scipy"), ("sklearn", "scikit-learn")):
        if importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(
                f"the tuner {tuner} needs {package}, which this Python does not have: install it with "
                f"`pip install {package}`"
            )


@contextmanager
def quick() -> Iterator[None]:
    """One thread, which is faster for small matrices and gives the same digits anywhere, and no checks."""
    import sklearn

    with _threads().limit(limits=1), sklearn.config_context(assume_finite=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a length at its bound, or no convergence: both are good enough
        yield


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def fitted_kernel(features: Floats, values: Floats, nu: float, alpha: float) -> Any:
    """Matérn's kernel with the most probable lengths, and as much noise as there seems to be.

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
    """The parameters (scale, lengths, noise; logarithms) that the values and a weak prior make likely.

    The prior keeps lengths near those to start from, which a few values could carry anywhere.
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
    """What a Gaussian process of this kernel says, given these values; (n, wide) and (n,)."""

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
        """Of the values."""
        return float(self._values.min())

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations, shape (m,), of the function without its noise."""
        mean, deviation = self._model.predict(features, return_std=True)
        return mean, np.sqrt(np.maximum(deviation**2 - self._noise, 1e-18))

    def believing(self, features: Floats) -> Posterior:
        """As if the points had given just what is expected of them, so that nothing is left to learn there."""
        if not len(features):
            return self
        values = np.concatenate([self._values, self._model.predict(features)])
        return Posterior(self._kernel, np.concatenate([self._features, features]), values, self._alpha)

    def left_out(self) -> Floats:
        """By how many standard deviations each value differs from what all the others say; shape (n,)."""
        from scipy.linalg import cho_solve

        inverse = cho_solve((self._model.L_, True), np.eye(self.size))
        found: Floats = inverse @ self._values / np.sqrt(np.diag(inverse))
        return found


class Search:
    """Looks for the point of a cube of which an acquisition is largest, apart from pending points."""

    def __init__(
        self,
        cube: Cube,
        posterior: Posterior,
        *,
        pending: Floats,
        allows: Callable[[Any], bool],
        rng: np.random.Generator,
    ) -> None:
        self._cube, self._posterior, self._pending, self._rng = cube, posterior, pending, rng
        self._allows = allows

    def best(
        self, acquisition: Acquisition, around: Floats, *, warm_up: int, starts: int
    ) -> dict[str, Any] | None:
        """The parameter set that promises most of those that may be given; None if none was found.

        ``warm_up`` points are drawn from the whole cube and as many around good ones, ``around``; the best
        ``starts`` of them are refined.
        """
        count = max(1, min(warm_up, _PAIRS // self._posterior.size))
        near = around[self._rng.integers(len(around), size=min(count, 1000))]
        scales = np.exp(self._rng.uniform(np.log(0.005), np.log(0.3), len(near)))
        points = np.concatenate(
            [self._cube.drawn(count, self._rng), self._cube.varied(near, scales, self._rng)]
        )
        scores = self._scores(acquisition, points)
        points, scores = self._allowed(points, scores, max(1, starts))
        if not len(points):
            return None
        refined, reached = self._refined(acquisition, points, scores)
        for at in np.argsort(-reached, kind="stable")[:_POLISHED]:
            refined[at] = self._uphill(acquisition, refined[at])
        reached = self._scores(acquisition, self._exact(refined))
        # What was refined may have left what may be given; what it came from had not.
        points, scores = np.concatenate([refined, points]), np.concatenate([reached, scores])
        for at in np.argsort(-scores, kind="stable"):
            parameters = self._cube.decode(points[at])
            if self._allows(parameters):
                return parameters
        return None

    def _scores(self, acquisition: Acquisition, points: Floats) -> Floats:
        """Minus infinity where a point does not keep its distance from the pending ones."""
        found = acquisition(*self._posterior.predict(self._cube.one_hot(points)))
        return np.where(self._cube.spread(points, self._pending), found, -np.inf)

    def _allowed(self, points: Floats, scores: Floats, count: int) -> tuple[Floats, Floats]:
        """The best ``count`` points that may be given."""
        order = np.argsort(-scores, kind="stable")[:_CHECKED]
        kept: list[int] = []
        for at in order.tolist():
            if len(kept) == count:
                break
            if self._allows(self._cube.decode(points[at])):
                kept.append(at)
        return points[kept], scores[kept]

    def _exact(self, points: Floats) -> Floats:
        """As the parameter sets that the points stand for are encoded."""
        return np.array([self._cube.snapped(point) for point in points])

    def _refined(self, acquisition: Acquisition, points: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Every point, or the best neighbour that it has been found to have."""
        points, scores = points.copy(), scores.copy()
        for scale in _ROUNDS:
            for _ in range(_LOOKS):
                others = self._cube.varied(points, scale, self._rng)
                found = self._scores(acquisition, others)
                better = found > scores
                points[better], scores[better] = others[better], found[better]
        return points, scores

    def _uphill(self, acquisition: Acquisition, point: Floats) -> Floats:
        """The point moved along its continuous columns to where the acquisition is largest nearby."""
        from scipy.optimize import minimize

        free = np.flatnonzero(self._cube.active(point) & ~self._cube.stepped)
        if not len(free):
            return point
        step = 1e-6

        def loss(x: Floats) -> tuple[float, Floats]:
            trial = np.repeat(point[None], len(free) + 1, axis=0)
            trial[:, free] = x
            signs = np.where(x > 0.5, -step, step)  # inwards
            trial[np.arange(1, len(free) + 1), free] += signs
            found = acquisition(*self._posterior.predict(self._cube.one_hot(trial)))
            return -float(found[0]), -(found[1:] - found[0]) / signs

        bounds = [(0.0, 1.0)] * len(free)
        found = minimize(
            loss, point[free], jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": _STEPS}
        )
        moved = point.copy()
        moved[free] = np.clip(found.x, 0.0, 1.0)
        keeps = self._cube.spread(moved[None], self._pending)[0] and -found.fun >= -loss(point[free])[0]
        return moved if keeps else point


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """The logarithm of the improvement on ``best`` to be expected, exact far out where that itself is 0."""
    from scipy.special import log_ndtr

    z = (best - mean) / deviation
    log_density = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
    near = np.maximum(z, -5.0)
    value = np.exp(-0.5 * near * near) / np.sqrt(2 * np.pi) + near * np.exp(log_ndtr(near))
    far = log_density - 2.0 * np.log(np.maximum(-z, 1.0))
    found: Floats = np.where(z > -5.0, np.log(value), far) + np.log(deviation)
    return found
