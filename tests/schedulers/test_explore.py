"""Changes of parameter sets in population based training."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from nnimgr.schedulers.explore import Explorer, parse_mutations
from nnimgr.search_space import SearchSpaceError, contains, parse

MIXED: dict[str, dict[str, Any]] = {
    "uniform": {"_type": "uniform", "_value": [0, 1]},
    "log": {"_type": "loguniform", "_value": [1e-5, 1]},
    "step": {"_type": "quniform", "_value": [0, 10, 0.5]},
    "normal": {"_type": "normal", "_value": [0, 1]},
    "qnormal": {"_type": "qlognormal", "_value": [0, 1, 0.5]},
    "integer": {"_type": "randint", "_value": [-5, 100]},
    "choice": {"_type": "choice", "_value": ["a", "b", None]},
    "nested": {
        "_type": "choice",
        "_value": [{"_name": "x", "inner": {"_type": "uniform", "_value": [0, 1]}}, {"_name": "y"}],
    },
}


def changed(spec: dict[str, Any], value: Any, *, resample: float = 0.0) -> set[Any]:
    """Return the values to which a parameter can be changed."""
    explorer, space = Explorer(resample=resample, factors=(1.2, 0.8)), parse({"p": spec})
    return {explorer.changed(space, {"p": value}, Random(seed))["p"] for seed in range(50)}


def test_a_number_is_multiplied_and_stays_in_its_bounds() -> None:
    assert changed(MIXED["uniform"], 0.5) == {0.6, 0.4}
    assert changed(MIXED["uniform"], 0.75) == {0.8999999999999999, 0.6000000000000001}
    assert max(changed(MIXED["uniform"], 0.9)) == 1.0
    assert changed(MIXED["normal"], -2.0) == {-2.4, -1.6}


def test_a_number_with_steps_moves_by_one_at_least() -> None:
    assert changed(MIXED["step"], 0.5) == {0.0, 1.0}
    assert changed(MIXED["step"], 5.0) == {4.0, 6.0}
    assert changed(MIXED["integer"], 1) == {0, 2}
    assert changed(MIXED["integer"], 50) == {40, 60}
    assert changed(MIXED["integer"], 99) == {79, 99}
    assert changed(MIXED["integer"], -3) == {-4, -2}
    assert all(type(value) is int for value in changed(MIXED["integer"], 50))


def test_a_choice_moves_to_a_neighbour() -> None:
    assert changed(MIXED["choice"], "b") == {"a", None}
    assert changed(MIXED["choice"], "a") == {"a", "b"}


def test_a_parameter_may_be_drawn_again() -> None:
    assert len(changed(MIXED["uniform"], 0.5, resample=1.0)) == 50
    assert changed(MIXED["choice"], "other") == {"a", "b", None}  # it was outside of the space


def test_sets_stay_in_the_space() -> None:
    space, explorer = parse(MIXED), Explorer(resample=0.2, factors=(1.2, 0.8))
    parameters = {"uniform": 1.0, "log": 1e-5, "step": 10.0, "normal": 0.3, "qnormal": 0.0}
    parameters |= {"integer": 99, "choice": None, "nested": {"_name": "x", "inner": 0.9}}  # type: ignore[dict-item]
    for seed in range(200):
        parameters = explorer.changed(space, parameters, Random(seed))
        assert contains(space, parameters) == []


def test_other_parameters_are_kept_and_none_is_added() -> None:
    explorer = Explorer(resample=0.5, factors=(2,))
    found = explorer.changed(parse({"x": MIXED["uniform"], "absent": MIXED["choice"]}), {"y": 1}, Random(1))
    assert found == {"y": 1}
    assert explorer.changed(parse({"x": MIXED["uniform"]}), [1, 2], Random(1)) == {}


def test_mutations_may_be_lists() -> None:
    assert parse_mutations({"x": [1, 2], "y": MIXED["log"]}) == parse(
        {"x": {"_type": "choice", "_value": [1, 2]}, "y": MIXED["log"]}
    )
    with pytest.raises(SearchSpaceError, match="must hold at least one option"):
        parse_mutations({"x": []})
