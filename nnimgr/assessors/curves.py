"""Extrapolation of a learning curve by least squares. Uses numpy and scipy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["extrapolated"]

Floats = NDArray[np.float64]

_MOST_POINTS = 60  # most points of a curve that are used for the fit
_MOST_TRIES = 25  # most iterations for the shape of each kind of curve
_LEAST_POINTS = 4  # number of a curve's parameters, plus one

# Kinds of curves c + a g(x): function g for a given shape, lowest and highest shape. x is 1 at the last step.
_KINDS: tuple[tuple[Callable[[Floats, float], Floats], float, float], ...] = (
    (lambda x, shape: x**-shape, 0.05, 3.0),  # power law
    (lambda x, shape: np.exp(-shape * x), 0.1, 20.0),  # exponential
    (lambda x, shape: 1 / np.log(math.e + shape * x), 0.1, 1000.0),  # inverse logarithm
    (lambda x, shape: 1 / (1 + shape * x), 0.1, 1000.0),  # hyperbola
)


def extrapolated(curve: Sequence[float | None], step: int) -> float | None:
    """Return the expected value at a step (counted from 1) beyond the start of a curve, or None.

    None in the curve is an unknown value. The result is the mean over kinds of curves, weighted by how well
    each fits. It is None if there are too few points. The cost does not depend on the length of the curve.
    """
    known = [at for at, value in enumerate(curve) if value is not None]
    if len(known) < _LEAST_POINTS:
        return None
    if len(known) > _MOST_POINTS:
        known = [known[round(at)] for at in np.linspace(0, len(known) - 1, _MOST_POINTS)]
    y = np.array([curve[at] for at in known], np.float64)
    scale = float(np.ptp(y))
    if scale == 0:
        return float(y[0])
    x = (np.array(known) + 1.0) / len(curve)
    target = np.array([step / len(curve)])
    errors, expected = [], []
    for shaped, low, high in _KINDS:
        found = minimize_scalar(
            lambda log, shaped=shaped: _fitted(shaped(x, math.exp(log)), y)[2],
            bounds=(math.log(low), math.log(high)),
            method="bounded",
            options={"maxiter": _MOST_TRIES, "xatol": 1e-3},
        )
        shape = math.exp(float(found.x))
        a, c, error = _fitted(shaped(x, shape), y)
        errors.append(max(error, 1e-12 * scale * scale))
        expected.append(c + a * float(shaped(target, shape)[0]))
    weights = (np.array(errors) / min(errors)) ** (-len(y) / 2)
    return float(np.average(expected, weights=weights))


def _fitted(g: Floats, y: Floats) -> tuple[float, float, float]:
    """Return a, c and the sum of squared errors of the best fit a g + c."""
    centred = g - g.mean()
    square = float(centred @ centred)
    a = float(centred @ y) / square if square > 0 else 0.0
    c = float(y.mean()) - a * float(g.mean())
    rest = y - (a * g + c)
    return a, c, float(rest @ rest)
