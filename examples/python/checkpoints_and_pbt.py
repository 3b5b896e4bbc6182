"""Trains a population: a class whose trials save their state and continue from the state of better ones.

Run it with ``python3 checkpoints_and_pbt.py``. It takes about ten seconds. Stop it with Ctrl-C at any time,
or kill everything: run it again, and it continues where it was.
"""

from __future__ import annotations

import random
import time
from typing import Any

from nnimgr import space, tune

SPACE = {"speed": space.uniform(0.01, 0.5)}


class Climber:
    """Climbs to the top of a hill. A large speed is good far from the top, and a small one near it.

    The runner calls ``step`` until the number of ``steps`` is reached. It calls ``save`` when somebody pauses
    the trial, and after every second step.
    """

    steps = 12
    save_every = 2

    def setup(self, parameters: dict[str, Any]) -> None:
        self.speed = float(parameters["speed"])
        self.draw = random.Random(0)
        self.place = -1.0

    def step(self) -> dict[str, float]:
        time.sleep(0.1)  # a real trial trains here
        self.place += self.draw.uniform(-0.5, 1.0) * self.speed * (1 if self.place < 0 else -1)
        return {"height": -abs(self.place), "speed": self.speed}

    def save(self) -> dict[str, Any]:
        return {"place": self.place, "draw": self.draw.getstate()}

    def load(self, state: dict[str, Any]) -> None:
        self.place = state["place"]
        self.draw.setstate(state["draw"])


def main() -> None:
    results = tune(
        Climber,
        SPACE,
        maximize="height",
        trials=6,
        at_once=2,
        tuner="Random",
        scheduler={
            "name": "PBT",
            "classArgs": {"perturbation_interval": 4, "synchronous": True, "population_size": 6},
        },
        name="climbers",
    )
    best = results.best
    print(f"Trial {best.number} is the best, with {best.value:.4f} and {best.parameters}")
    for leg in best.legs:
        print(f"  leg {leg.number}: from step {leg.step} of trial {leg.origin_trial} with {leg.parameters}")
    print("Checkpoints of the best trial:", [each.step for each in best.checkpoints])


if __name__ == "__main__":
    main()
