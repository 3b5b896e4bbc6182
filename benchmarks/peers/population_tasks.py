"""Two tasks for population based training. Ours and the peers' programs load this file.

A task is made with its parameters, makes one step at a time, returns a score that is to be maximised, and has
a state that another one with other parameters can continue from. ``SPACE``: (low, high) of each parameter,
drawn on a logarithmic scale.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np


class Task:
    """Task whose state is the list ``arrays``."""

    SPACE: ClassVar[dict[str, tuple[float, float]]]
    steps = 40
    arrays: list[Any]

    def __init__(self, parameters: dict[str, float]) -> None:
        raise NotImplementedError

    def step(self) -> float:
        raise NotImplementedError

    def save(self) -> bytes:
        return np.concatenate([each.ravel() for each in self.arrays]).tobytes()

    def load(self, state: bytes) -> None:
        ends = np.cumsum([each.size for each in self.arrays])[:-1]
        parts = np.split(np.frombuffer(state), ends)
        self.arrays = [part.reshape(each.shape) for part, each in zip(parts, self.arrays, strict=True)]


class Quadratic(Task):
    """The example of the paper on PBT: gradient descent on a surrogate, whose two weights are the parameters.

    The score is 1.2 less the squared length of theta.
    """

    SPACE: ClassVar = {"h0": (0.01, 1.0), "h1": (0.01, 1.0)}

    def __init__(self, parameters: dict[str, float]) -> None:
        self._weights = np.array([parameters["h0"], parameters["h1"]])
        self.arrays = [np.array([0.9, 0.9])]

    def step(self) -> float:
        theta = self.arrays[0]
        self.arrays[0] = theta - 0.04 * self._weights * theta
        return float(1.2 - (self.arrays[0] ** 2).sum())


def _spirals(seed: int, count: int) -> tuple[Any, Any]:
    """Return points of two noisy spirals, and the spiral of each point."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(0, 2, count)
    turn = draw.uniform(0.5, 3.0, count) * np.pi
    angle = turn + kind * np.pi
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1) / 10
    return points + draw.normal(0, 0.02, points.shape), kind


class Perceptron(Task):
    """A perceptron with one hidden layer on two spirals. The score is the accuracy on other points."""

    SPACE: ClassVar = {"rate": (0.001, 10.0), "decay": (0.000001, 0.1)}
    hidden, batch, updates = 32, 64, 20

    def __init__(self, parameters: dict[str, float]) -> None:
        self._rate, self._decay = parameters["rate"], parameters["decay"]
        self._draw = np.random.default_rng()
        self.arrays = [
            self._draw.normal(0, 1, (2, self.hidden)),
            np.zeros(self.hidden),
            self._draw.normal(0, 0.2, (self.hidden, 1)),
            np.zeros(1),
        ]
        self._points, self._kinds = _spirals(1, 512)
        self._other_points, self._other_kinds = _spirals(2, 512)

    def step(self) -> float:
        for _ in range(self.updates):
            at = self._draw.integers(0, len(self._points), self.batch)
            self._update(self._points[at], self._kinds[at])
        found = self._outputs(self._other_points)[1] > 0
        return float(np.mean(found == self._other_kinds))

    def _outputs(self, points: Any) -> tuple[Any, Any]:
        first, shift, second, last = self.arrays
        hidden = np.tanh(3 * points @ first + shift)
        return hidden, (hidden @ second + last)[:, 0]

    def _update(self, points: Any, kinds: Any) -> None:
        hidden, out = self._outputs(points)
        error = (1 / (1 + np.exp(-np.clip(out, -30, 30))) - kinds)[:, None] / len(points)
        inner = error @ self.arrays[2].T * (1 - hidden**2)
        steps = [3 * points.T @ inner, inner.sum(0), hidden.T @ error, error.sum(0)]
        self.arrays = [
            weight - self._rate * (step + self._decay * weight)
            for weight, step in zip(self.arrays, steps, strict=True)
        ]


TASKS: dict[str, type[Task]] = {"quadratic": Quadratic, "perceptron": Perceptron}
