"""Grid search: order, refinement, and the end of a finite grid."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnimgr import search_space
from nnimgr.algorithm import NoMoreTrialError
from nnimgr.tuners.gridsearch import GridSearchTuner
from tests.test_search_space import CALM, raw_spaces

FINITE = {
    "c": {"_type": "choice", "_value": ["a", None]},
    "r": {"_type": "randint", "_value": [2, 4]},
    "q": {"_type": "qloguniform", "_value": [1, 10, 3]},
    "m": {
        "_type": "choice",
        "_value": [{"_name": "x", "n": {"_type": "choice", "_value": [0, 1]}}, {"_name": "y"}],
    },
}
FINITE_SIZE = 2 * 2 * 4 * 3


def grid_search(space: Any) -> GridSearchTuner:
    tuner = GridSearchTuner()
    tuner.update_search_space(space)
    return tuner


def all_of(tuner: GridSearchTuner) -> list[Any]:
    return tuner.generate_multiple_parameters(list(range(1000)))


def test_a_finite_space_is_given_completely_and_once() -> None:
    found = all_of(grid_search(FINITE))
    assert len({json.dumps(point) for point in found}) == len(found) == FINITE_SIZE
    assert {point["q"] for point in found} == {1, 3, 6, 9}
    assert [point["m"] for point in found[:3]] == [
        {"_name": "x", "n": 0},
        {"_name": "x", "n": 1},
        {"_name": "y"},
    ]


def test_a_continuous_parameter_is_halved_again_and_again() -> None:
    tuner = grid_search(
        {"x": {"_type": "uniform", "_value": [0, 8]}, "c": {"_type": "choice", "_value": [1, 2]}}
    )
    found = [tuple(tuner.generate_parameters(n).values()) for n in range(14)]
    xs = [x for x, _ in found]
    assert xs == [4, 4, 2, 2, 6, 6, 1, 1, 3, 3, 5, 5, 7, 7]
    assert [c for _, c in found] == [1, 2] * 7


def test_the_middle_of_a_normal_distribution_comes_first() -> None:
    tuner = grid_search({"x": {"_type": "normal", "_value": [10, 2]}})
    first, lower, upper = (tuner.generate_parameters(n)["x"] for n in range(3))
    assert first == 10
    assert (lower, upper) == pytest.approx((10 - 2 * 0.6745, 10 + 2 * 0.6745), abs=1e-3)


def test_what_was_imported_is_left_out() -> None:
    tuner = grid_search({"r": {"_type": "randint", "_value": [0, 4]}})
    assert tuner.generate_parameters(0) == {"r": 0}
    tuner.import_data([{"parameter": {"r": 2}, "value": 1}, {"parameter": {"r": 0}, "value": 1}])
    assert all_of(tuner) == [{"r": 1}, {"r": 3}]


def test_a_changed_space_brings_what_is_new_in_it() -> None:
    tuner = grid_search({"r": {"_type": "randint", "_value": [0, 3]}})
    all_of(tuner)
    with pytest.raises(NoMoreTrialError):
        tuner.generate_parameters(9)
    tuner.update_search_space({"r": {"_type": "randint", "_value": [-1, 4]}})
    assert all_of(tuner) == [{"r": -1}, {"r": 3}]


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one parameter"):
        grid_search({})


@CALM
@given(raw_spaces().filter(bool), st.integers(0, 20))
def test_points_lie_in_the_space_and_a_rebuilt_tuner_goes_on(
    raw: dict[str, Any], interrupted_at: int
) -> None:
    space = search_space.parse(raw)
    first, again = grid_search(raw), grid_search(raw)
    points = first.generate_multiple_parameters(list(range(21)))
    for left, right in pairwise(points):
        assert json.dumps(left) != json.dumps(right)
    assert all(search_space.contains(space, point) == [] for point in points)
    for parameter_id, point in enumerate(points[:interrupted_at]):
        again.recall(parameter_id, json.loads(json.dumps(point)))
    rest = again.generate_multiple_parameters(list(range(21))[interrupted_at:])
    assert json.dumps(rest) == json.dumps(points[interrupted_at:])


@pytest.mark.parametrize("bounds", [[1.0, 1.0 + 2**-51], [0.0, 5e-324 * 3]])
def test_a_range_of_few_numbers_has_an_end(bounds: list[float]) -> None:
    tuner = grid_search({"x": {"_type": "uniform", "_value": bounds}})
    found: list[float] = []
    with pytest.raises(NoMoreTrialError):
        while len(found) < 100:
            found.append(tuner.generate_parameters(len(found))["x"])
    assert 1 <= len(found) <= 9 and len(set(found)) == len(found)
