"""Plays an experiment event by event to a scheduler, and returns its decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnimgr.dispatcher import messages as m
from nnimgr.scheduler import Scheduler
from nnimgr.testing.population import HostedScheduler

__all__ = ["SPACE", "Play", "said"]

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


class Play:
    """Experiment with a scheduler. Each method is an event, and returns the decisions that it has caused."""

    def __init__(self, scheduler: Scheduler, space: Mapping[str, Any] | None = None) -> None:
        self.host = HostedScheduler(lambda: scheduler, Path("none"), space or SPACE, builtin=True)
        self.number = 0
        self._reports: dict[str, int] = {}
        self._saved: dict[str, int] = {}

    def create(self, *trial_ids: str, parameters: Any = None, reports: int = 0) -> list[m.Decided]:
        """Create trials, or forks that begin with the first ``reports`` results of another trial."""
        found = []
        for trial_id in trial_ids:
            self._reports[trial_id], self._saved[trial_id] = reports, 0
            text = json.dumps(parameters or {})
            found += self._tell(m.TrialCreated, trial_id=trial_id, parameters=text, reports=reports)
        return found

    def report(self, trial_id: str, *values: Any, saves: bool = False) -> list[m.Decided]:
        found = []
        for value in values:
            before, self.number = len(self.host.decided), self.number + 1
            at = self._reports[trial_id]
            self._reports[trial_id] += 1
            item = (trial_id, 1, at, at, json.dumps(value))
            self.host.send(m.Metrics(items=(item,), numbers=(self.number,)))
            found += self.host.decided[before:]
            found += self.save(trial_id) if saves else []
        return found

    def save(self, trial_id: str) -> list[m.Decided]:
        self._saved[trial_id] += 1
        number, reports = self._saved[trial_id], self._reports[trial_id]
        return self._tell(m.CheckpointSaved, trial_id=trial_id, attempt=1, checkpoint=number, reports=reports)

    def pause(self, trial_id: str, by: str = "scheduler") -> list[m.Decided]:
        return self._tell(m.TrialPaused, trial_id=trial_id, by=by)

    def resume(self, *trial_ids: str) -> list[m.Decided]:
        return [each for trial_id in trial_ids for each in self._tell(m.TrialContinued, trial_id=trial_id)]

    def roll_back(self, trial_id: str, reports: int) -> list[m.Decided]:
        self._reports[trial_id] = reports
        fields = {"attempt": 2, "position": reports, "reports": reports}
        return self._tell(m.RolledBack, trial_id=trial_id, **fields)

    def begin_leg(self, decided: m.Decided, reports: int, leg: int = 1) -> list[m.Decided]:
        """Carry out an exploit."""
        self._reports[decided.trial_id] = reports
        return self._tell(
            m.LegBegan,
            trial_id=decided.trial_id,
            attempt=2,
            leg=leg,
            parameters=decided.parameters,
            position=9,
            reports=reports,
        )

    def refuse(self, decided: m.Decided) -> list[m.Decided]:
        cause, kind = decided.cause, decided.kind
        return self._tell(
            m.DecisionRefused, trial_id=decided.trial_id, cause=cause, kind=kind, reason="it cannot be"
        )

    def silence(self, trial_id: str) -> list[m.Decided]:
        return self._tell(m.SlotLent, trial_id=trial_id)

    def end(self, trial_id: str, status: str = "FAILED") -> list[m.Decided]:
        return self._tell(
            m.TrialFinished,
            trial_id=trial_id,
            parameter_id=None,
            parameters="{}",
            text=None,
            success=status == "SUCCEEDED",
            status=status,
        )

    def drain(self) -> list[m.Decided]:
        return self._tell(m.NoMoreTrials)

    def undrain(self) -> list[m.Decided]:
        return self._tell(m.TrialsAgain)

    def change_space(self, space: Mapping[str, Any], *constraints: str) -> list[m.Decided]:
        return self._tell(m.SpaceChanged, search_space=space, constraints=constraints)

    def _tell(self, kind: Any, /, **fields: Any) -> list[m.Decided]:
        before, self.number = len(self.host.decided), self.number + 1
        self.host.send(kind(number=self.number, **fields))
        return self.host.decided[before:]


def said(decisions: list[m.Decided]) -> list[str]:
    """Return decisions as texts such as "pause a"."""
    return [f"{each.kind} {each.trial_id}" for each in decisions]
