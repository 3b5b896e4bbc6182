"""ASHA that stops trials: which trials continue at a rung, and the reasons for stopping the others."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from nnimgr.algorithm import AssessResult
from nnimgr.assessors.asha import ASHAAssessor


def good(assessor: Any, trial_id: str, *values: Any) -> bool:
    return assessor.assess_trial(trial_id, list(values)) is AssessResult.Good


def test_the_first_goes_on_and_then_the_best_third() -> None:
    assessor = ASHAAssessor(min_budget=2, eta=3)
    assert good(assessor, "a", 1.0) and good(assessor, "a", 1.0, 0.70)
    assert good(assessor, "b", 0.9, 0.70)  # equal to the best
    assert not good(assessor, "c", 5.0, 0.6)
    assert assessor.why("c") == {
        "reason": "after 2 reports, it has 0.6, and the best of 3 results is 0.7, of trial a",
        "rung": 2,
        "better": ("a",),
    }
    for number, value in enumerate([0.1, 0.2, 0.8]):
        good(assessor, f"d{number}", 0.0, value)
    assert good(assessor, "a", 1.0, 0.70, 0.0, 0.0, 0.0)  # between rungs
    assert not good(assessor, "e", 0.0, 0.69)
    assert assessor.why("e")["better"] == ("a", "d2")
    assert good(assessor, "a", 1.0, 0.70, 0.0, 0.0, 0.0, 0.1)  # the first trial at six reports


def test_rungs_end_below_the_largest_budget() -> None:
    for last, stopped in ((9, False), (10, True), (None, True)):
        assessor = ASHAAssessor("minimize", max_budget=last)
        assert good(assessor, "a", *[1.0] * 9)
        assert good(assessor, "b", *[1.0] * 8) and good(assessor, "b", *[1.0] * 8, 2.0) != stopped


def test_a_rung_that_was_jumped_over_counts_by_its_own_report() -> None:
    assessor = ASHAAssessor("minimize")
    assert good(assessor, "a", 1.0, 1.0, 1.0)
    assert not good(assessor, "b", 0.5, 0.5, 2.0, 0.0, 0.0) and assessor.why("b")["rung"] == 3
    # Values that are not numbers are ignored.
    assert good(assessor, "c", {"default": 0.4}, math.nan, "x", 9.0)


def test_an_attempt_made_anew_is_not_judged_twice() -> None:
    assessor = ASHAAssessor("minimize")
    assert good(assessor, "a", 1.0, 1.0)
    assert good(assessor, "b", 0.5) and good(assessor, "b", 9.0) and good(assessor, "b", 9.0, 9.0)
    assert good(assessor, "a", 1.0, 1.0, 1.0) and not good(assessor, "b", 9.0, 9.0, 9.0)


@pytest.mark.parametrize("concurrency", [1, 4, 100])
def test_a_third_of_the_reports_finds_as_good_a_trial(concurrency: int) -> None:
    """If curves keep their order, the best trial is never stopped, and most reports are saved."""
    random = Random(concurrency)
    assessor, spent, best = ASHAAssessor("minimize", max_budget=81), 0, math.inf
    waiting = [(f"t{number}", random.random()) for number in range(300)]
    running: dict[str, list[float]] = {}
    levels = dict(waiting)
    while waiting or running:
        while waiting and len(running) < concurrency:
            running[waiting.pop()[0]] = []
        for trial_id in list(running):
            reports = running[trial_id]
            reports.append(levels[trial_id] + 1 / (len(reports) + 1))
            spent += 1
            done = len(reports) == 81
            best = min(best, levels[trial_id]) if done else best
            if done or not good(assessor, trial_id, *reports):
                assessor.trial_end(trial_id, done)
                del running[trial_id]
    assert best == min(levels.values())
    assert spent < 300 * 81 / 5
