"""A search whose trials this program runs itself: ask for parameters, try them, tell the result.

Run it with ``python3 ask_tell.py``. It takes a few seconds. Run it twice at the same time, and both programs
share one search: it is found by its name. A program that is killed loses only the trial that it was running.
"""

from __future__ import annotations

import math
from typing import Any

from nnimgr import Study, space

SPACE = {
    "angle": space.uniform(5, 85),  # degrees
    "speed": space.uniform(5, 30),  # metres per second
}
TARGET = 40.0  # metres


def throw(parameters: dict[str, Any]) -> float:
    """Throw a ball. Return how far from the target it lands, in metres."""
    angle = math.radians(parameters["angle"])
    return abs(float(parameters["speed"]) ** 2 * math.sin(2 * angle) / 9.81 - TARGET)


def main() -> None:
    study = Study(SPACE, minimize=True, name="throws")
    # One trial. An exception in the block would end it as FAILED, with the exception as its reason.
    with study.ask() as trial:
        trial.tell(throw(trial.params))
    # Many trials, each told together with the request for the next one.
    study.optimize(throw, trials=40)
    # Several trials at once, for a program that computes them together.
    trials = study.ask(8)
    study.tell(trials, [throw(trial.params) for trial in trials])
    print(f"The best of {len(study.results)} throws misses by {study.best_value:.3f} m: {study.best_params}")
    study.stop()


if __name__ == "__main__":
    main()
