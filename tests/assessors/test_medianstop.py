"""Median stopping, compared with a naive implementation of its definition."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnimgr.algorithm import AssessResult
from nnimgr.assessors.medianstop import MedianstopAssessor

VALUES = st.lists(st.one_of(st.floats(-10, 10), st.just(math.nan)), min_size=1, max_size=8)


def naive(mode: str, start_step: int, completed: list[list[float]], history: list[float]) -> bool:
    """Return whether the trial continues."""
    step = len(history)
    finite = [value for value in history if math.isfinite(value)]
    averages = []
    for values in completed:
        known = [value for value in values[:step] if math.isfinite(value)]
        if len(values) >= step and known:
            averages.append(sum(known) / len(known))
    if step < start_step or not averages or not finite:
        return True
    averages.sort()
    if mode == "maximize":
        return max(finite) >= averages[(len(averages) - 1) // 2]
    return min(finite) <= averages[len(averages) // 2]


@settings(deadline=None)
@given(
    st.sampled_from(["maximize", "minimize"]),
    st.integers(0, 4),
    st.lists(st.tuples(VALUES, st.booleans()), max_size=6),
    VALUES,
    st.booleans(),
)
def test_it_is_the_rule(
    mode: str, start_step: int, trials: list[tuple[list[float], bool]], history: list[float], rebuilt: bool
) -> None:
    assessor = MedianstopAssessor(optimize_mode=mode, start_step=start_step)
    for number, (values, success) in enumerate(trials):
        if rebuilt:
            assessor.recall(f"t{number}", values, success)
            continue
        for step in range(1, len(values) + 1):
            assessor.assess_trial(f"t{number}", values[:step])
        assessor.trial_end(f"t{number}", success)
    completed = [values for values, success in trials if success]
    for step in range(1, len(history) + 1):
        good = assessor.assess_trial("now", history[:step]) is AssessResult.Good
        assert good == naive(mode, start_step, completed, history[:step])


def test_reports_may_be_seen_in_bulk_and_as_mappings() -> None:
    assessor = MedianstopAssessor()
    assessor.assess_trial("a", [{"default": 1}, {"default": 3, "loss": 0}])
    assessor.trial_end("a", True)
    assert assessor.assess_trial("b", [{"default": 0.5}, {"default": 1.9}]) is AssessResult.Bad
    assert assessor.assess_trial("c", [{"default": 0.5}, {"default": mean([1, 3])}]) is AssessResult.Good


def test_a_failed_trial_and_an_unknown_one_leave_no_trace() -> None:
    assessor = MedianstopAssessor()
    assessor.assess_trial("a", [1.0])
    assessor.trial_end("a", False)
    assessor.trial_end("never seen", True)
    assert assessor.assess_trial("b", [0.0]) is AssessResult.Good


def test_it_says_which_modes_there_are() -> None:
    arguments: dict[str, Any] = {"optimize_mode": "best"}
    with pytest.raises(ValueError, match="best"):
        MedianstopAssessor(**arguments)
