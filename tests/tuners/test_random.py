"""Random search, and its fallback to a grid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnimgr import search_space
from nnimgr.algorithm import NoMoreTrialError, Past
from nnimgr.tuners import grid
from nnimgr.tuners.random import RandomTuner
from tests.test_search_space import CALM, raw_spaces

SMALL = {
    "c": {"_type": "choice", "_value": ["a", "b"]},
    "q": {"_type": "quniform", "_value": [0.3, 2.1, 1]},
    "m": {
        "_type": "choice",
        "_value": [{"_name": "x", "n": {"_type": "randint", "_value": [0, 2]}}, {"_name": "y"}],
    },
}
SMALL_SIZE = 2 * 3 * 3
CONTINUOUS = {"x": {"_type": "uniform", "_value": [0, 1]}, "c": {"_type": "choice", "_value": [1]}}


def random_tuner(space: Any, *, seed: int = 0) -> RandomTuner:
    tuner = RandomTuner(seed=seed)
    tuner.update_search_space(space)
    return tuner


def test_a_finite_space_is_given_completely_and_once() -> None:
    tuner = random_tuner(SMALL)
    found = {json.dumps(tuner.generate_parameters(n)) for n in range(SMALL_SIZE)}
    assert len(found) == SMALL_SIZE
    with pytest.raises(NoMoreTrialError):
        tuner.generate_parameters(SMALL_SIZE)
    assert len(tuner.generate_multiple_parameters([20, 21])) == 0
    tuner.update_search_space({**SMALL, "c": {"_type": "choice", "_value": ["a", "b", "c"]}})
    assert tuner.generate_parameters(30)["c"] == "c"


def test_a_space_that_is_continuous_in_one_option_only_never_ends() -> None:
    inner = {"_name": "u", "v": {"_type": "loguniform", "_value": [1, 100]}}
    tuner = random_tuner({"m": {"_type": "choice", "_value": [{"_name": "plain"}, inner]}})
    found = [json.dumps(tuner.generate_parameters(n)) for n in range(60)]
    assert len(set(found)) == 60


@pytest.mark.parametrize("space", [CONTINUOUS, {}])
def test_nothing_is_remembered_where_nothing_repeats(space: Any) -> None:
    tuner = random_tuner(space)
    for n in range(50):
        tuner.generate_parameters(n)
    assert not tuner._given._times
    assert tuner.needs([space]) is Past.NOTHING
    assert tuner.needs([space, SMALL]) is Past.SUGGESTIONS


@CALM
@given(raw_spaces(), st.integers(0, 5), st.integers(0, 30))
def test_a_suggestion_is_a_function_of_seed_id_and_what_was_given(
    space: dict[str, Any], seed: int, interrupted_at: int
) -> None:
    first = random_tuner(space, seed=seed)
    again = random_tuner(space, seed=seed)
    for parameter_id in range(31):
        try:
            expected = first.generate_parameters(parameter_id)
        except NoMoreTrialError:
            expected = None
        if parameter_id < interrupted_at:
            if expected is not None:
                again.recall(parameter_id, json.loads(json.dumps(expected)))
        elif expected is None:
            with pytest.raises(NoMoreTrialError):
                again.generate_parameters(parameter_id)
        else:
            assert again.generate_parameters(parameter_id) == expected


def test_seeds_differ() -> None:
    assert random_tuner(CONTINUOUS, seed=1).generate_parameters(0) != random_tuner(
        CONTINUOUS, seed=2
    ).generate_parameters(0)
    unseeded = [RandomTuner() for _ in range(2)]
    for tuner in unseeded:
        tuner.update_search_space(CONTINUOUS)
    assert unseeded[0].generate_parameters(0) != unseeded[1].generate_parameters(0)


@CALM
@given(raw_spaces(), st.integers(0, 2), st.data())
def test_points_of_a_grid_lie_in_the_space(raw: dict[str, Any], level: int, data: st.DataObject) -> None:
    space = search_space.parse(raw)
    size = grid.size(space, level)
    index = data.draw(st.integers(0, size - 1))
    assert search_space.contains(space, grid.item(space, level, index)) == []


def test_each_level_of_a_grid_halves_the_distances_and_holds_the_level_before() -> None:
    space = search_space.parse(
        {"u": {"_type": "uniform", "_value": [0, 8]}, "c": {"_type": "choice", "_value": ["a", "b"]}}
    )
    levels = [
        [tuple(grid.item(space, level, n).values()) for n in range(grid.size(space, level))]
        for level in range(3)
    ]
    assert levels[0] == [(4.0, "a"), (4.0, "b")]
    assert [u for u, c in levels[1] if c == "a"] == [2.0, 4.0, 6.0]
    assert set(levels[1]) < set(levels[2])


def test_quantiles_of_a_grid() -> None:
    space = search_space.parse(
        {
            "n": {"_type": "normal", "_value": [5, 2]},
            "l": {"_type": "lognormal", "_value": [0, 1]},
            "g": {"_type": "loguniform", "_value": [1, 100]},
            "q": {"_type": "qnormal", "_value": [0, 1, 6]},
        }
    )
    assert grid.size(space, 0) == 1
    assert grid.item(space, 0, 0) == pytest.approx({"n": 5, "l": 1, "g": 10, "q": 0})


def test_a_quantised_parameter_has_all_its_values_when_they_are_few_enough() -> None:
    space = search_space.parse({"q": {"_type": "quniform", "_value": [0, 5, 1]}})
    values = [[grid.item(space, level, n)["q"] for n in range(grid.size(space, level))] for level in range(4)]
    assert values == [[2], [1, 2, 4], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
