"""Tunes a Python function: a small network that fits a curve. Needs nothing but nnimgr.

Run it with ``python3 function.py``. It takes a few seconds.
"""

from __future__ import annotations

import math
import random
from typing import Any

from nni.run import Trial
from nnimgr import space, tune

EPOCHS = 20
SPACE = {
    "learning_rate": space.loguniform(1e-3, 1.0),
    "units": space.randint(2, 12),
    "start": space.choice(["small", "large"]),
}


def train(parameters: dict[str, Any], trial: Trial) -> float:
    """Fit a sine with one hidden layer. Return the mean squared error after the last epoch."""
    draw = random.Random(0)
    scale = 0.1 if parameters["start"] == "small" else 1.0
    units = [[draw.gauss(0, scale) for _ in range(3)] for _ in range(parameters["units"])]
    points = [(x / 20, math.sin(x / 10)) for x in range(-40, 40)]
    error = math.inf
    for _ in trial.steps(EPOCHS):
        draw.shuffle(points)
        for x, wanted in points:
            hidden = [math.tanh(a * x + b) for a, b, _ in units]
            miss = sum(h * unit[2] for h, unit in zip(hidden, units, strict=True)) - wanted
            for h, unit in zip(hidden, units, strict=True):
                step = parameters["learning_rate"] * miss
                slope = step * unit[2] * (1 - h * h)
                unit[0] -= max(-1.0, min(1.0, slope * x))
                unit[1] -= max(-1.0, min(1.0, slope))
                unit[2] -= max(-1.0, min(1.0, step * h))
        error = sum(_miss(units, x, wanted) ** 2 for x, wanted in points) / len(points)
        trial.report(error)
    return error


def _miss(units: list[list[float]], x: float, wanted: float) -> float:
    return sum(math.tanh(a * x + b) * c for a, b, c in units) - wanted


def main() -> None:
    results = tune(train, SPACE, minimize=True, trials=12, at_once=2, assessor="Medianstop")
    print("The best parameters are", results.best_params)
    for trial in results.top(3):
        print(f"  trial {trial.number}: {trial.value:.4f} with {trial.parameters}")


if __name__ == "__main__":
    main()
