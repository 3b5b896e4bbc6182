"""Scripted life of an experiment with a full configuration, whose turns can be stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from nnimgr.rules import facts as f
from nnimgr.rules.state import Touched
from nnimgr.traits import traits_of
from tests.rules.driver import Life


def full_config(directory: Path) -> dict[str, Any]:
    """Return a canonical configuration without its search space."""
    return {
        "experimentName": "lab",
        "experimentType": "hpo",
        "trialCommand": "true",
        "trialCodeDirectory": str(directory),
        "trialConcurrency": 2,
        "maxTrialNumber": 10,
        "maxExperimentDuration": "1h",
        "useAnnotation": False,
        "debug": False,
        "logLevel": "info",
        "experimentWorkingDirectory": str(directory),
        "tuner": {"name": "Random", "classArgs": {"optimize_mode": "minimize"}},
        "trainingService": {
            "platform": "local",
            "trialCommand": "true",
            "trialCodeDirectory": str(directory),
        },
    }


SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


class StoredLife(Life):
    """A life with a full configuration. Its turns can be stored."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.turns: list[tuple[list[f.Recorded], Touched]] = []
        self._config = config
        super().__init__(trial_concurrency=2, max_trial_number=10)

    def take(self, *facts: f.Fact, after: timedelta = timedelta(0)) -> list[f.Fact]:
        full = [
            dataclasses.replace(fact, config=self._config, search_space=SPACE, traits=traits_of(self._config))
            if isinstance(fact, f.ExperimentCreated)
            else fact
            for fact in facts
        ]
        start = len(self.log)
        taken = super().take(*full, after=after)
        if taken:
            self.turns.append((self.log[start:], self.touched))
        return taken


def several_sets(life: Life) -> None:
    """Make trial 2 a multi-phase trial.

    Its first attempt is lost; its second attempt has results for 2 of 3 sets.
    """
    life.take(f.ConfigChanged(changes={}, limits=dataclasses.replace(life.state.limits, multi_phase=True)))
    life.start(0)
    life.end(0, 1)
    life.start(2)
    life.final(2, 0.99, 2)
    life.want(2, 1)
    life.further_set(2, 1)
    life.take(f.JobLost(job_id=life.job(2), reason="gone"))
    life.start(2, 2)
    life.final(2, 0.75, 2, attempt=2)
    life.final(2, 0.98, 2, attempt=2)
    life.want(2, 1, attempt=2)
    life.take(f.MetricReported(life.job(2, 2), 3, "PERIODICAL", 0, "3", 7.0, "7.0"))
    life.final(2, 0.5, 3, attempt=2)
    life.want(2, 2, attempt=2)
    life.further_set(2, 2, '{"x": 3}')
    life.want(2, 3, attempt=2)
    life.further_set(2, 3, None)
    life.end(2, attempt=2)
