"""Teaches a small neural network to tell two spirals apart, with nothing but Python itself.

Without an experiment (``python3 trial.py``) it uses the default parameters.
"""

from __future__ import annotations

import math
import random

import nni

DEFAULTS = {"learning_rate": 0.05, "hidden_units": 8, "batch_size": 4}
EPOCHS = 10
STEPS = 8  # times that an epoch goes through the examples
POINTS = 200

Example = tuple[tuple[float, ...], float]


def spirals(count: int, seed: int) -> list[Example]:
    """Return points of two spirals as (features, label), with some noise."""
    draw = random.Random(seed)
    found: list[Example] = []
    for at in range(count):
        label = at % 2
        turn = draw.uniform(0.3, 1.0)
        angle = 9 * turn + math.pi * label
        x = turn * math.cos(angle) + draw.gauss(0, 0.07)
        y = turn * math.sin(angle) + draw.gauss(0, 0.07)
        found.append(((x, y, 1.0), float(label)))
    return found


class Network:
    """A network with one hidden layer."""

    def __init__(self, inputs: int, hidden: int) -> None:
        draw = random.Random(0)
        self.inner = [[draw.uniform(-1, 1) for _ in range(inputs)] for _ in range(hidden)]
        self.outer = [draw.uniform(-1, 1) for _ in range(hidden)]

    def answer(self, features: tuple[float, ...]) -> tuple[list[float], float]:
        """Return the hidden values, and the probability of label 1."""
        hidden = [math.tanh(sum(map(float.__mul__, row, features))) for row in self.inner]
        total = sum(map(float.__mul__, self.outer, hidden))
        return hidden, 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def learn(self, batch: list[Example], rate: float) -> None:
        """Take one step against the error of each example in a batch."""
        steps = []
        for features, label in batch:
            hidden, answer = self.answer(features)
            steps.append((features, hidden, (answer - label) * rate))
        for features, hidden, step in steps:
            for unit, value in enumerate(hidden):
                slope = step * self.outer[unit] * (1 - value * value)
                self.outer[unit] -= step * value
                for at, feature in enumerate(features):
                    self.inner[unit][at] -= slope * feature

    def accuracy(self, examples: list[Example]) -> float:
        right = sum((self.answer(features)[1] > 0.5) == (label > 0.5) for features, label in examples)
        return right / len(examples)


def main() -> None:
    parameters = nni.get_next_parameter(default=DEFAULTS)
    train, test = spirals(POINTS, seed=1), spirals(POINTS, seed=2)
    network = Network(len(train[0][0]), parameters["hidden_units"])
    size, accuracy = parameters["batch_size"], 0.0
    for epoch in range(EPOCHS):
        for step in range(STEPS):
            random.Random(epoch * STEPS + step).shuffle(train)
            for start in range(0, len(train), size):
                network.learn(train[start : start + size], parameters["learning_rate"])
        accuracy = network.accuracy(test)
        print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)
        nni.report_intermediate_result(accuracy)
    nni.report_final_result(accuracy)


if __name__ == "__main__":
    main()
