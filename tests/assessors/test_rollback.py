"""Every built-in assessor forgets the reports that a trial makes again after a checkpoint or a new start."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from nnimgr.algorithm import AssessResult
from nnimgr.assessors.asha import ASHAAssessor
from nnimgr.assessors.curvefitting import CurvefittingAssessor
from nnimgr.assessors.medianstop import MedianstopAssessor
from nnimgr.assessors.patient import PatientAssessor
from nnimgr.assessors.percentile import PercentileAssessor
from nnimgr.assessors.threshold import ThresholdAssessor
from nnimgr.assessors.wilcoxon import WilcoxonAssessor

ASSESSORS: dict[str, Callable[[], Any]] = {
    "ASHA": lambda: ASHAAssessor("minimize", eta=2),
    "Curvefitting": lambda: CurvefittingAssessor(8, 2, gap=2, optimize_mode="minimize"),
    "Medianstop": lambda: MedianstopAssessor("minimize"),
    "Patient": lambda: PatientAssessor("minimize", patience=2),
    "Patient around ASHA": lambda: PatientAssessor(
        "minimize", patience=1, wrapped={"name": "asha", "classArgs": {"optimize_mode": "minimize", "eta": 2}}
    ),
    "Percentile": lambda: PercentileAssessor("minimize", n_startup_trials=2),
    "Threshold": lambda: ThresholdAssessor(lower=0.2, upper=0.9),
    "Wilcoxon": lambda: WilcoxonAssessor("minimize"),
}


def opinion(assessor: Any, trial_id: str, values: list[float]) -> Any:
    if assessor.assess_trial(trial_id, list(values)) is AssessResult.Good:
        return None
    return assessor.why(trial_id)


@pytest.mark.parametrize("name", ASSESSORS)
@pytest.mark.parametrize("seed", range(8))
def test_only_the_reports_that_count_decide(name: str, seed: int) -> None:
    rng = Random(seed)
    rolled_back, straight = ASSESSORS[name](), ASSESSORS[name]()
    for other in range(4):
        values = [rng.random() for _ in range(7)]
        for assessor in (rolled_back, straight):
            for step in range(1, 8):
                opinion(assessor, f"other{other}", values[:step])
            assessor.trial_end(f"other{other}", True)
    kept = [rng.random() for _ in range(seed % 4)]
    discarded = [*kept, *(rng.random() for _ in range(4))]
    again = [*kept, *(rng.random() for _ in range(6))]
    for step in range(1, len(discarded) + 1):
        opinion(rolled_back, "now", discarded[:step])
    for step in range(1, len(kept) + 1):
        opinion(straight, "now", kept[:step])
    rolled_back.trial_rolled_back("now", len(kept))
    late = [rng.random() for _ in range(7)]
    # The first look may come after as many reports as were discarded, or more.
    for step in range(len(kept) + 1 + seed % 3, len(again) + 1):
        assert opinion(rolled_back, "now", again[:step]) == opinion(straight, "now", again[:step]), step
    for assessor in (rolled_back, straight):
        assessor.trial_end("now", True)
    for step in range(1, 8):
        assert opinion(rolled_back, "late", late[:step]) == opinion(straight, "late", late[:step]), step


@pytest.mark.parametrize("name", ASSESSORS)
def test_a_trial_that_never_reported_may_start_again(name: str) -> None:
    assessor = ASSESSORS[name]()
    assessor.trial_rolled_back("now", 0)
    assert opinion(assessor, "now", [0.5]) is None
