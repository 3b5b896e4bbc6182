"""Extrapolation of learning curves by a least-squares fit. Uses numpy and scipy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["Forecast", "extrapolated"]

Floats = NDArray[np.float64]

_MOST_POINTS = 60  # most values of a curve that are used for the fit
_MOST_TRIES = 25  # most iterations that fit the shape of each kind of curve
_PARAMETERS = 3  # of a fitted curve
_LEAST_POINTS = _PARAMETERS + 1  # least number of values

# Kinds of curves c + a g(x, shape): the function g, and the bounds of its shape. x is 1 at the last step.
_KINDS: tuple[tuple[Callable[[Floats, float], Floats], float, float], ...] = (
    (lambda x, shape: x**-shape, 0.05, 3.0),  # power law
    (lambda x, shape: np.exp(-shape * x), 0.1, 20.0),  # exponential
    (lambda x, shape: 1 / np.log(math.e + shape * x), 0.1, 1000.0),  # inverse logarithm
    (lambda x, shape: 1 / (1 + shape * x), 0.1, 1000.0),  # hyperbola
)


class Forecast(NamedTuple):
    """Value that is expected of a curve, and the standard deviation of its values so far from their fit."""

    value: float
    spread: float


def extrapolated(curve: Sequence[float | None], step: int) -> Forecast | None:
    """Return the value that is expected at a later step of a learning curve, or None if the curve has too few
    values.

    Steps are counted from 1. None in the curve is an unknown value. The result is the mean over several kinds
    of curves, weighted by how well each fits. The computing time does not depend on the length of the curve.
    """
    known = [at for at, value in enumerate(curve) if value is not None]
    if len(known) < _LEAST_POINTS:
        return None
    if len(known) > _MOST_POINTS:
        known = [known[round(at)] for at in np.linspace(0, len(known) - 1, _MOST_POINTS)]
    y = np.array([curve[at] for at in known], np.float64)
    scale = float(np.ptp(y))
    if scale == 0:
        return Forecast(float(y[0]), 0.0)
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
    spread = math.sqrt(min(errors) / (len(y) - _PARAMETERS))
    return Forecast(float(np.average(expected, weights=weights)), spread)


def _fitted(g: Floats, y: Floats) -> tuple[float, float, float]:
    """Return a, c and the sum of squared errors for the line a g + c that fits ``y`` best."""
    centred = g - g.mean()
    square = float(centred @ centred)
    a = float(centred @ y) / square if square > 0 else 0.0
    c = float(y.mean()) - a * float(g.mean())
    rest = y - (a * g + c)
    return a, c, float(rest @ rest)
