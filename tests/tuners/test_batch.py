"""Batch: listed parameter sets, one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from nnimgr.tuners.batch import BatchTuner

SETS: list[Any] = [{"lr": 0.1}, {"lr": 0.2, "act": "relu"}, {"lr": 0.1}, {"_name": "odd"}]


def batch(*sets: Any) -> BatchTuner:
    tuner = BatchTuner()
    tuner.update_search_space(space(*sets))
    return tuner


def space(*sets: Any) -> dict[str, Any]:
    return {"combine_params": {"_type": "choice", "_value": list(sets)}}


def rest(tuner: BatchTuner) -> list[Any]:
    return tuner.generate_multiple_parameters(list(range(100)))


def test_sets_come_as_listed_even_twice() -> None:
    assert rest(batch(*SETS)) == SETS


def test_what_was_imported_is_left_out() -> None:
    tuner = batch(*SETS)
    assert tuner.generate_parameters(0) == SETS[0]
    tuner.import_data([{"parameter": {"act": "relu", "lr": 0.2}, "value": 1}, {"parameter": {}, "value": 0}])
    assert rest(tuner) == SETS[2:]


def test_a_longer_list_brings_what_was_not_given() -> None:
    tuner = batch(*SETS)
    rest(tuner)
    tuner.update_search_space(space({"lr": 0.3}, *SETS, {"lr": 0.1}))
    assert rest(tuner) == [{"lr": 0.3}, {"lr": 0.1}]


@pytest.mark.parametrize("interrupted_at", range(5))
def test_a_rebuilt_tuner_goes_on(interrupted_at: int) -> None:
    tuner = batch(*SETS)
    imported = [{"parameter": {"lr": 0.1}, "value": 1}]
    tuner.import_data(imported)
    for parameter_id, parameters in enumerate(SETS[1:][:interrupted_at]):
        tuner.recall(parameter_id, parameters)
    assert rest(tuner) == SETS[1:][interrupted_at:]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"a": {"_type": "choice", "_value": [{}]}, "b": {"_type": "choice", "_value": [{}]}},
        {"a": {"_type": "uniform", "_value": [0, 1]}},
        {"a": {"_type": "choice", "_value": []}},
        {"a": 1},
    ],
)
def test_another_space_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="Batch needs a search space of exactly one parameter"):
        BatchTuner().update_search_space(wrong)
