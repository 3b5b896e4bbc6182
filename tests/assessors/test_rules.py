"""Assessors that compare a trial with thresholds, other trials, its own past, the best trial, or
its future.
"""

from __future__ import annotations

import math
import sys
from random import Random
from statistics import quantiles
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnimgr.algorithm import AssessResult
from nnimgr.assessors.curvefitting import CurvefittingAssessor
from nnimgr.assessors.curves import extrapolated
from nnimgr.assessors.patient import PatientAssessor
from nnimgr.assessors.percentile import PercentileAssessor
from nnimgr.assessors.threshold import ThresholdAssessor
from nnimgr.assessors.wilcoxon import WilcoxonAssessor


def good(assessor: Any, trial_id: str, *values: Any) -> bool:
    return assessor.assess_trial(trial_id, list(values)) is AssessResult.Good


def stopped_at(assessor: Any, trial_id: str, values: list[float]) -> int | None:
    """Return the step at which a trial with these reports is judged bad."""
    for step in range(1, len(values) + 1):
        if not good(assessor, trial_id, *values[:step]):
            return step
    return None


def run(assessor: Any, trial_id: str, values: list[Any], *, success: bool = True) -> None:
    for step in range(1, len(values) + 1):
        assessor.assess_trial(trial_id, values[:step])
    assessor.trial_end(trial_id, success)


# ---- Threshold --------------------------------------------------------------------------------------------


def test_threshold() -> None:
    assessor = ThresholdAssessor(lower=0.0, upper=1.0, n_warmup_steps=1, interval_steps=2)
    assert good(assessor, "a", 5.0)
    assert not good(assessor, "a", 5.0, 1.5)
    assert assessor.why("a")["reason"] == "1.5 at step 2 is above the upper threshold 1"
    assert good(assessor, "b", 0.0, 1.0, 9.0) and good(assessor, "b", 0.0, 1.0, 9.0, math.nan)
    assert not good(ThresholdAssessor("minimize", lower=0.0), "c", {"default": -0.1})
    assert good(ThresholdAssessor(lower=0.0), "c", {"loss": -0.1})


# ---- Percentile -------------------------------------------------------------------------------------------


@given(
    st.sampled_from(["maximize", "minimize"]),
    st.lists(st.floats(-5, 5), min_size=2, max_size=9),
    st.floats(-5, 5),
    st.booleans(),
)
def test_percentile_is_the_quantile(mode: str, others: list[float], value: float, rebuilt: bool) -> None:
    assessor = PercentileAssessor(mode, percentile=25, n_startup_trials=2)
    for number, other in enumerate(others):
        if rebuilt:
            assessor.recall(f"t{number}", [other], True)
        else:
            run(assessor, f"t{number}", [other])
    quarters = quantiles(others, n=4, method="inclusive")
    if mode == "minimize":
        assert good(assessor, "now", value) == (value <= quarters[0] or math.isclose(value, quarters[0]))
    else:
        assert good(assessor, "now", value) == (value >= quarters[2] or math.isclose(value, quarters[2]))


def test_percentile_waits() -> None:
    assessor = PercentileAssessor(n_startup_trials=2, n_warmup_steps=1, interval_steps=2)
    run(assessor, "a", [1.0] * 9)
    run(assessor, "b", [1.0] * 9, success=False)
    assert stopped_at(assessor, "now", [0.0] * 9) is None  # one trial has succeeded
    run(assessor, "c", [1.0] * 9)
    assert stopped_at(assessor, "late", [0.0] * 9) == 2
    assert assessor.why("late")["reason"] == (
        "its best result so far, 0, is below 1, the limit of the best 50 % of 2 other trials at this report"
    )
    assert stopped_at(assessor, "good", [0.0, 1.0, 0.0, 0.0]) is None


# ---- Patient ----------------------------------------------------------------------------------------------


def test_patience() -> None:
    assessor = PatientAssessor("minimize", patience=3, min_delta=0.1)
    assert stopped_at(assessor, "a", [5, 4, 3, 2, 1, 0, -1]) is None
    assert stopped_at(assessor, "b", [5, 4, 4.5, 3.95, 4, 1]) == 5
    assert assessor.why("b")["reason"] == "no improvement over 4 (step 2) in 3 reports"
    assert stopped_at(assessor, "c", [math.nan] * 9) is None


def test_patience_with_another_assessor() -> None:
    wrapped = {"name": "threshold", "classArgs": {"lower": 1.0}}
    assessor = PatientAssessor(patience=2, wrapped=wrapped)
    assert stopped_at(assessor, "a", [2, 2, 2, 2]) is None
    assert stopped_at(assessor, "b", [0.1, 0.2, 0.3, 0.4]) is None
    assert stopped_at(assessor, "c", [2, 2, 2, 0.5, 2]) == 4
    assert assessor.why("c")["reason"] == (
        "no improvement over 2 (step 1) in 3 reports, and 0.5 at step 4 is below the lower threshold 1"
    )
    assert not assessor.replayable
    assert PatientAssessor(wrapped={"name": "ASHA"}).replayable
    median = PatientAssessor(patience=1, wrapped={"name": "Medianstop", "classArgs": {}})
    median.recall("a", [3.0, 3.0, 3.0], True)
    assert stopped_at(median, "d", [1.0, 2.0, 2.0]) == 3


# ---- Wilcoxon ---------------------------------------------------------------------------------------------


def test_wilcoxon_compares_with_the_best_trial() -> None:
    random = Random(0)
    parts = [random.gauss(0, 5) for _ in range(30)]  # some parts are harder than others
    noise = [random.gauss(0, 0.2) for _ in range(30)]
    assessor = WilcoxonAssessor("minimize", p_threshold=0.05, n_startup_steps=4)
    run(assessor, "worse", [part + 2 for part in parts])
    run(assessor, "best", parts)
    run(assessor, "failed", [part - 9 for part in parts], success=False)
    at = stopped_at(assessor, "bad", [part + 0.5 + other for part, other in zip(parts, noise, strict=True)])
    assert at is not None and 4 < at < 15
    told = assessor.why("bad")
    assert (
        told["better"] == ("best",)
        and f"over {at} steps it is worse than best, the best trial" in told["reason"]
    )
    assert (
        stopped_at(assessor, "like", [part - abs(other) for part, other in zip(parts, noise, strict=True)])
        is None
    )
    assert stopped_at(assessor, "same", parts) is None


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for make in (WilcoxonAssessor, CurvefittingAssessor):
        with pytest.raises(ModuleNotFoundError, match=r"needs scipy, .*pip install 'nnimgr\[tuners\]'"):
            make()


# ---- Curvefitting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "curve",
    [
        lambda x: 0.9 - 0.5 * x**-0.7,
        lambda x: 0.8 * (1 - math.exp(-0.2 * x)),
        lambda x: 2.0 + 3.0 / math.log(x + 2),
        lambda x: -5.0 / (1 + 0.3 * x),
        lambda x: 0.25,
    ],
)
def test_curves_are_extrapolated(curve: Any) -> None:
    seen = [curve(step) for step in range(1, 16)]
    found = extrapolated(seen, 50)
    assert found is not None and found.value == pytest.approx(
        curve(50), abs=0.05 * abs(curve(50) - curve(1)) + 1e-9
    )
    gaps = [None if step % 4 == 2 else value for step, value in enumerate(seen)]
    again = extrapolated(gaps, 50)
    assert again is not None and again.value == pytest.approx(
        curve(50), abs=0.06 * abs(curve(50) - curve(1)) + 1e-9
    )


def test_curves_that_are_short_or_long() -> None:
    assert extrapolated([1.0, None, None, 0.5, 0.4], 9) is None
    long = [1 / step for step in range(1, 5001)]
    found = extrapolated(long, 10_000)
    assert found is not None and abs(found.value) < 0.01


@pytest.mark.parametrize("mode", ["maximize", "minimize"])
def test_who_will_not_come_near_the_best_is_stopped(mode: str) -> None:
    sign = 1.0 if mode == "maximize" else -1.0

    def curve(end: float) -> list[float]:
        return [sign * end * (1 - 0.5**step) for step in range(1, 21)]

    assessor = CurvefittingAssessor(epoch_num=20, start_step=6, gap=3, optimize_mode=mode)
    assert stopped_at(assessor, "early", curve(0.1)) is None  # no trial has succeeded
    run(assessor, "failed", curve(9.0), success=False)
    run(assessor, "best", curve(0.9))
    run(assessor, "other", curve(0.8))
    assert stopped_at(assessor, "near", curve(0.88)) is None
    assert stopped_at(assessor, "bad", curve(0.7)) == 6
    told = assessor.why("bad")
    assert told["better"] == ("best",)
    assert told["reason"].startswith(f"after 6 reports {sign * 0.7:.4g} is expected at step 20, which is ")
    late = [0.9 * sign] * 6 + [0.0] * 9
    assert stopped_at(assessor, "late", late) in (9, 12)


def test_a_curve_is_waited_for_while_it_is_mere_noise() -> None:
    assessor = CurvefittingAssessor(epoch_num=20)
    run(assessor, "best", [209.0] * 7)
    assert stopped_at(assessor, "noise", [1.0, 199.0, 0.0, 199.0, 1.0, 209.0, 2.0]) is None
    assert stopped_at(assessor, "bad", [100.0, 101.0, 100.5, 99.5, 100.0, 100.5, 99.0]) == 6


def test_libraries_are_loaded_when_they_are_needed() -> None:
    code = "import sys; from nnimgr.assessors import curvefitting, wilcoxon; print('numpy' in sys.modules)"
    import subprocess

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
