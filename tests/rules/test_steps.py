"""Each type of fact changes the state in one place."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import CHECKPOINT_STEPS
from nnimgr.rules.decisions import DECISION_STEPS
from nnimgr.rules.fold_jobs import JOB_STEPS
from nnimgr.rules.fold_trials import EXPERIMENT_STEPS
from nnimgr.rules.growth import GROWTH_STEPS
from nnimgr.rules.phases import PHASE_STEPS
from nnimgr.rules.pins import PIN_STEPS
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.steps import Steps


def test_each_type_of_fact_has_one_step() -> None:
    trials = [*EXPERIMENT_STEPS, *JOB_STEPS, *PHASE_STEPS, *GROWTH_STEPS]
    found = Counter(kind for kind, _ in [*trials, *CHECKPOINT_STEPS, *DECISION_STEPS, *PIN_STEPS])
    assert found == Counter(get_args(f.Fact))


def test_a_second_step_for_one_type_is_refused() -> None:
    steps = Steps()

    def step(state: ExperimentState, fact: f.TunerExhausted, r: f.Recorded) -> None:
        """Change nothing."""

    steps.of(f.TunerExhausted)(step)
    with pytest.raises(ValueError, match="TunerExhausted has two steps"):
        steps.of(f.TunerExhausted)(step)
