"""ASHA that promotes, and the parameters of ASHA that stops."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from nnimgr.tuners.asha import ASHA
from nnimgr.tuners.budgets import split
from tests.tuners.running import Life

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


def promoting(**more: Any) -> ASHA:
    return ASHA(max_budget=27, seed=1, **more)


def chains(given: list[Any]) -> list[list[int]]:
    """Return the budgets of each configuration, in order."""
    found: dict[str, list[int]] = {}
    for each in given:
        configuration, budget = split(each)
        found.setdefault(json.dumps(configuration), []).append(budget)
    return list(found.values())


@pytest.mark.parametrize("searcher", ["random", "bohb"])
@pytest.mark.parametrize("concurrency", [1, 4, 100])
@pytest.mark.parametrize("failing", [0.0, 0.2, 0.5])
def test_it_never_waits_and_promotes_the_best_third(searcher: str, concurrency: int, failing: float) -> None:
    life = Life(lambda: promoting(searcher=searcher, optimize_mode="minimize"), SPACE)
    most_open = 0

    def value(parameter_id: int, parameters: Any) -> float | None:
        nonlocal most_open
        most_open = max(most_open, len(life.open))
        return None if Random(parameter_id).random() < failing else float(parameters["x"])

    life.run(500, concurrency, value)
    assert most_open == concurrency and len(life.given) == 500
    assert all(chain == [3**step for step in range(len(chain))] for chain in chains(life.given))
    ended: dict[int, list[float]] = {1: [], 3: [], 9: [], 27: []}
    for call, arguments in life.told:
        budget = life.given[arguments[0]]["TRIAL_BUDGET"]
        if call == "trial_end":
            ended[budget].append(life.given[arguments[0]]["x"] if arguments[1] else 9.0)
        elif call == "recall" and budget > 1:
            below = sorted(ended[budget // 3])
            assert below.index(arguments[1]["x"]) < len(below) // 3
    rungs = Counter(each["TRIAL_BUDGET"] for each in life.given)
    for budget in (1, 3, 9):
        assert rungs[budget * 3] >= len(ended[budget]) // 3 - concurrency


def test_who_is_promoted() -> None:
    life = Life(lambda: promoting(optimize_mode="minimize"), SPACE)
    life.ask(3)
    for parameter_id, value in enumerate([3.0, 1.0, 2.0]):
        life.end(parameter_id, value)
    life.ask(2)
    assert [each["TRIAL_BUDGET"] for each in life.given[3:]] == [3, 1]
    assert life.given[3] == {**life.given[1], "TRIAL_BUDGET": 3}
    life.end(4, None)  # one more than a third of the four has been promoted
    assert life.ask(1) == 1 and life.given[-1]["TRIAL_BUDGET"] == 1
    life.tuner.receive_trial_result(4, life.given[4], 0.5)  # run again by a user
    life.ask(2)
    assert life.given[6] == {**life.given[4], "TRIAL_BUDGET": 3} and life.given[7]["TRIAL_BUDGET"] == 1


def test_what_was_never_tried_is_promoted_again() -> None:
    life = Life(lambda: promoting(optimize_mode="minimize"), SPACE)
    life.ask(3)
    for parameter_id in range(3):
        life.end(parameter_id, float(parameter_id))
    life.ask(1)
    promoted = life.open.pop(3)
    life.tuner.trial_end(3, False, untried=True)
    life.tuner.take_back(3, promoted)
    life.ask(1)
    assert life.given[-1] == promoted == {**life.given[0], "TRIAL_BUDGET": 3}


def test_a_finite_space_ends() -> None:
    space = {"x": {"_type": "randint", "_value": [0, 30]}}
    life = Life(promoting, space)
    life.run(10_000, 7, lambda _, parameters: parameters["x"])
    assert life.exhausted and {each["x"] for each in life.given} == set(range(30))
    assert [each["TRIAL_BUDGET"] for each in life.given if each["x"] == 29] == [1, 3, 9, 27]


@pytest.mark.parametrize("searcher", ["random", "bohb"])
def test_a_rebuilt_one_goes_on_alike(searcher: str) -> None:
    life = Life(lambda: promoting(searcher=searcher), SPACE)
    for trials in range(0, 200, 20):
        life.run(trials, 6, lambda number, parameters: None if number % 7 == 3 else parameters["x"])
        ids = list(range(trials, trials + 5))
        again: Any = life.rebuilt()
        there, here = again.generate_multiple_parameters(ids), life.tuner.generate_multiple_parameters(ids)
        assert json.dumps(there) == json.dumps(here) and len(here) == 5
        for parameter_id, parameters in zip(ids, here, strict=True):
            life.tuner.trial_end(parameter_id, False, untried=True)
            life.tuner.take_back(parameter_id, parameters)


def test_trials_that_are_stopped_early_have_the_whole_budget() -> None:
    life = Life(
        lambda: ASHA(mode="stopping", max_budget=50, seed=2), {"x": {"_type": "choice", "_value": [1, 2, 3]}}
    )
    life.run(9, 2, lambda parameter_id, _: None)
    assert life.exhausted and sorted(each["x"] for each in life.given) == [1, 2, 3]
    assert {each["TRIAL_BUDGET"] for each in life.given} == {50}
