"""PB2: parameters from a model of how much trials improve."""

from __future__ import annotations

import json
import math

import pytest

from nnimgr.schedulers.pb2 import PB2Scheduler
from tests.schedulers.play import Play

pytest.importorskip("sklearn")

SPACE = {
    "x": {"_type": "uniform", "_value": [0, 1]},
    "c": {"_type": "choice", "_value": ["a", "b"]},
}


def taught(seed: int = 1) -> Play:
    """Return an experiment in which trials with x near 0.8 improve most. One trial has one result to make."""
    play = Play(PB2Scheduler(perturbation_interval=1, quantile_fraction=0.1, seed=seed), SPACE)
    for number in range(10):
        x = number / 9
        play.create(f"t{number}", parameters={"x": x, "c": "b", "own": number})
        level = 10.0
        for _ in range(4):
            level += 1 - 4 * (x - 0.8) ** 2
            play.report(f"t{number}", level)
            play.save(f"t{number}")
    play.create("last", parameters={"x": 0.1, "c": "a", "own": "last"})
    return play


def test_the_model_finds_what_improves_trials() -> None:
    (decided,) = taught().report("last", 0.0)
    parameters = json.loads(decided.parameters or "")
    assert decided.donor == "t7" and parameters["c"] == "b" and parameters["own"] == 7
    assert 0.6 <= parameters["x"] <= 1.0


def test_the_same_events_give_the_same_parameters() -> None:
    assert taught().report("last", 0.0) == taught().report("last", 0.0)


def test_parameters_meet_the_constraints() -> None:
    play = taught()
    play.change_space(SPACE, "x < 0.79")
    (decided,) = play.report("last", 0.0)
    assert 0.5 <= json.loads(decided.parameters or "")["x"] < 0.79


def test_few_observations_change_parameters_as_in_pbt() -> None:
    play = Play(PB2Scheduler(perturbation_interval=1), SPACE)
    play.create("a", "b", parameters={"x": 0.5, "c": "a"})
    play.report("a", 0.9)
    play.save("a")
    (decided,) = play.report("b", math.nan)
    assert json.loads(decided.parameters or "")["x"] != 0.5
