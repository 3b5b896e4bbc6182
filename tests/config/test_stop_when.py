"""The field ``stopWhen``: its rules, and their errors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nnimgr.rules.terms import Plateau, RunningTrials, StopWhen
from tests.config.loading import GOAL, MINIMAL, Faults, Load


def test_all_rules(load: Load) -> None:
    loaded = load(
        MINIMAL + GOAL + "stopWhen: {metric: 1, plateau: {trials: 20}, totalTrialTime: 1.5h, failures: 3,"
        " running_trials: stop}\n"
    )
    assert loaded.config.limits().stop_when == StopWhen(
        metric=1,
        plateau=Plateau(trials=20),
        total_trial_time=timedelta(minutes=90),
        failures=3,
        running_trials=RunningTrials.STOP,
    )


def test_without_rules(load: Load) -> None:
    assert load(MINIMAL + GOAL).config.limits().stop_when == StopWhen()


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("{}", "stopWhen: give at least one rule: 'metric', 'plateau', 'totalTrialTime' or 'failures'"),
        ("{runningTrials: stop}", "stopWhen: give at least one rule"),
        ("{metric: .inf}", "stopWhen.metric: must be a finite number, not inf"),
        ("{metric: good}", "stopWhen.metric: must be a finite number, not 'good'"),
        (f"{{metric: {10**400}}}", "stopWhen.metric: must be a finite number, not 1000"),
        ("{plateau: {improvement: 1}}", "stopWhen.plateau.trials: required, but not given"),
        ("{plateau: {trials: 2, improvement: -1}}", "stopWhen.plateau.improvement: must be at least 0"),
        ("{plateau: 20}", "stopWhen.plateau: must be a mapping of keys to values, not 20"),
        ("{totalTrialTime: 0}", "stopWhen.totalTrialTime: 0 is not longer than zero"),
        ("{failures: 0}", "stopWhen.failures: must be greater than 0, not 0"),
        ("{failures: 2, runningTrials: kill}", "stopWhen.runningTrials: unknown value 'kill'"),
    ],
)
def test_faults(faults: Faults, rules: str, fault: str) -> None:
    (found,) = faults(MINIMAL + GOAL + f"stopWhen: {rules}\n")
    assert fault in found
