"""Problems for the comparison of tuners: functions with known minimum, and two models of scikit-learn.

All are minimised, and each value depends only on the parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Parameters = Mapping[str, Any]
SearchSpace = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem. ``space`` is a search space in NNI's format."""

    name: str
    space: SearchSpace
    loss: Callable[[Parameters], float]


def _uniform(low: float, high: float) -> dict[str, Any]:
    return {"_type": "uniform", "_value": [low, high]}


def _log(low: float, high: float) -> dict[str, Any]:
    return {"_type": "loguniform", "_value": [low, high]}


def _int(low: int, high: int) -> dict[str, Any]:
    """Return an integer parameter from ``low`` to below ``high``."""
    return {"_type": "randint", "_value": [low, high]}


def _choice(*options: Any) -> dict[str, Any]:
    return {"_type": "choice", "_value": list(options)}


def _box(dimensions: int, low: float, high: float) -> SearchSpace:
    return {f"x{index}": _uniform(low, high) for index in range(dimensions)}


def _point(parameters: Parameters) -> list[float]:
    return [float(value) for value in parameters.values()]


# ---- functions -------------------------------------------------------------------------------------------


def branin(parameters: Parameters) -> float:
    x, y = _point(parameters)
    valley = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return valley**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
_STEEPNESS = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
_WELLS = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann6(parameters: Parameters) -> float:
    point = _point(parameters)
    total = 0.0
    for weight, steepness, well in zip(_WEIGHTS, _STEEPNESS, _WELLS, strict=True):
        total += weight * math.exp(
            -sum(a * (x - p) ** 2 for a, x, p in zip(steepness, point, well, strict=True))
        )
    return -total


def ackley(parameters: Parameters) -> float:
    point = _point(parameters)
    spread = math.sqrt(sum(x * x for x in point) / len(point))
    waves = sum(math.cos(2 * math.pi * x) for x in point) / len(point)
    return -20 * math.exp(-0.2 * spread) - math.exp(waves) + 20 + math.e


def rosenbrock(parameters: Parameters) -> float:
    point = _point(parameters)
    return sum(100 * (y - x * x) ** 2 + (1 - x) ** 2 for x, y in pairwise(point))


MIXED: SearchSpace = {
    "lr": _log(1e-5, 1),
    "layers": _int(1, 9),
    "activation": _choice("relu", "tanh", "gelu", "none"),
    "dropout": {"_type": "quniform", "_value": [0, 0.9, 0.05]},
    "optimizer": _choice(
        {"_name": "sgd", "momentum": _uniform(0, 1), "nesterov": _choice(True, False)},
        {
            "_name": "adam",
            "epsilon": _log(1e-9, 1e-3),
            "schedule": _choice("constant", "cosine", "step"),
            "warmup": _int(0, 21),
        },
        {"_name": "lbfgs", "history": _int(2, 40)},
    ),
}


def mixed(parameters: Parameters) -> float:
    """Simulate a network whose best learning rate depends on the optimizer and the number of layers.

    Choices are nested once, because NNI's TPE fails if they are nested twice.
    """
    rate, layers = math.log10(parameters["lr"]), parameters["layers"]
    optimizer = parameters["optimizer"]
    loss = 0.15 * abs(layers - 5) + 4 * (parameters["dropout"] - 0.25) ** 2
    loss += {"relu": 0.3, "tanh": 0.5, "gelu": 0.0, "none": 1.5}[parameters["activation"]]
    if optimizer["_name"] == "sgd":
        best, momentum = -0.8, optimizer["momentum"]
        loss += 0.4 + 3 * (momentum - 0.9) ** 2 + (0 if optimizer["nesterov"] else 0.1)
    elif optimizer["_name"] == "adam":
        best = -2.7
        loss += 0.02 * (math.log10(optimizer["epsilon"]) + 7) ** 2
        loss += {"constant": 0.35, "cosine": 0.0, "step": 0.15}[optimizer["schedule"]]
        loss += 0.03 * abs(optimizer["warmup"] - 6)
    else:
        best = -0.3
        loss += 0.8 + 0.02 * abs(optimizer["history"] - 10)
    return float(loss + 0.5 * (rate - best + 0.08 * (layers - 5)) ** 2)


# ---- models ----------------------------------------------------------------------------------------------

BOOSTING: SearchSpace = {
    "learning_rate": _log(0.005, 1),
    "n_estimators": _int(3, 21),
    "max_depth": _int(1, 7),
    "min_samples_leaf": _int(1, 40),
    "subsample": _uniform(0.3, 1),
    "max_features": _uniform(0.1, 1),
    "loss": _choice("squared_error", "huber"),
}
VECTORS: SearchSpace = {
    "C": _log(1e-3, 1e3),
    "power": _uniform(0.3, 3),
    "kernel": _choice(
        {"_name": "rbf", "gamma": _log(1e-4, 10)},
        {"_name": "poly", "gamma": _log(1e-4, 10), "degree": _int(2, 6), "coef0": _uniform(0, 2)},
        {"_name": "sigmoid", "gamma": _log(1e-4, 10), "coef0": _uniform(-2, 2)},
    ),
}
_TRAINED, _TESTED = 160, 320  # images
_FEW, _TEST = 220, 110  # patients


@functools.cache
def _diabetes() -> tuple[Any, Any]:
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    return data.data, data.target


@functools.cache
def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data / 16, data.target


def boosting(parameters: Parameters) -> float:
    """Return the root mean squared error of gradient boosting on unseen patients."""
    from sklearn.ensemble import GradientBoostingRegressor

    x, y = _diabetes()
    model = GradientBoostingRegressor(**parameters, random_state=0).fit(x[:_FEW], y[:_FEW])
    wrong = model.predict(x[_FEW : _FEW + _TEST]) - y[_FEW : _FEW + _TEST]
    return float((wrong @ wrong / _TEST) ** 0.5)


def vectors(parameters: Parameters) -> float:
    """Return the cross entropy of a support vector machine's softmax decisions on unseen digits."""
    import numpy as np
    from sklearn.svm import SVC

    x, y = _digits()
    x = x[: _TRAINED + _TESTED] ** parameters["power"]
    kernel = dict(parameters["kernel"])
    machine = SVC(C=parameters["C"], kernel=kernel.pop("_name"), **kernel, max_iter=2000, random_state=0)
    machine.fit(x[:_TRAINED], y[:_TRAINED])
    decisions = machine.decision_function(x[_TRAINED:])
    decisions -= decisions.max(axis=1, keepdims=True)
    right = decisions[np.arange(_TESTED), y[_TRAINED : _TRAINED + _TESTED]]
    return float(np.mean(np.log(np.exp(decisions).sum(axis=1)) - right))


BRANIN = Problem("Branin", {"x": _uniform(-5, 10), "y": _uniform(0, 15)}, branin)
HARTMANN = Problem("Hartmann6", _box(6, 0, 1), hartmann6)
ROSENBROCK = Problem("Rosenbrock 4-d", _box(4, -5, 10), rosenbrock)
PROBLEMS = (
    BRANIN,
    HARTMANN,
    Problem("Ackley 10-d", _box(10, -32.768, 32.768), ackley),
    ROSENBROCK,
    Problem("mixed, conditional", MIXED, mixed),
    Problem("gradient boosting, diabetes", BOOSTING, boosting),
    Problem("support vectors, digits", VECTORS, vectors),
)
EASY = (BRANIN, HARTMANN, ROSENBROCK)  # problems on which every tuner must beat Random
