"""Stopping without progress: a trial is stopped only if it has not improved for a number of reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nnimgr.algorithm import Assessor, AssessResult
from nnimgr.assessors.judging import JudgingAssessor, Seen, Why

__all__ = ["PatientAssessor"]


class PatientAssessor(JudgingAssessor):
    """Assessor that stops a trial if its last ``patience`` reports are not better than its best earlier
    report.

    A report is better if it differs by more than ``min_delta``. ``wrapped`` describes another built-in
    assessor, ``{"name": ..., "classArgs": {...}}``. If it is given, a trial is stopped only if that assessor
    also judges it as bad. Exceptions of that assessor's constructor are passed on.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        patience: int = 3,
        min_delta: float = 0.0,
        wrapped: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(optimize_mode)
        self._patience, self._delta = patience, min_delta
        self._wrapped: Any = None if wrapped is None else _made(wrapped)
        # running trial -> number of reports read, best loss, and step of the best loss
        self._marks: dict[str, tuple[int, float, int]] = {}

    @property
    def replayable(self) -> bool:  # type: ignore[override]
        """True if there is a wrapped assessor that must get all reports again after a restart."""
        return self._wrapped is not None and bool(self._wrapped.replayable)

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult:
        # Call the wrapped assessor at each report, because it learns from reports. Its verdict counts only
        # if this assessor judges the trial as bad, too.
        bad = self._wrapped is not None and not self._wrapped.assess_trial(trial_job_id, trial_history).value
        own = super().assess_trial(trial_job_id, trial_history)
        if self._wrapped is None or own is AssessResult.Good:
            return own
        if not bad:
            return AssessResult.Good
        mine, theirs = self._verdicts[trial_job_id], self._wrapped.why(trial_job_id)
        better = tuple(theirs["better"])
        self._verdicts[trial_job_id] = Why(f"{mine.reason}, and {theirs['reason']}", theirs["rung"], better)
        return AssessResult.Bad

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        taken, best, at = self._marks.get(trial_job_id, (0, math.inf, 0))
        for step, loss in enumerate(seen.losses[taken:], taken + 1):
            if loss is not None and (best == math.inf or loss < best - self._delta):
                best, at = loss, step
        self._marks[trial_job_id] = seen.step, best, at
        if best == math.inf or seen.step - at < self._patience:
            return None
        return Why(f"no improvement over {self.shown(best)} (step {at}) in {seen.step - at} reports")

    def forget(self, trial_job_id: str, seen: Seen, count: int) -> None:
        self._marks.pop(trial_job_id, None)

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        self._marks.pop(trial_job_id, None)

    def trial_rolled_back(self, trial_job_id: str, reports: int) -> None:
        super().trial_rolled_back(trial_job_id, reports)
        if self._wrapped is not None:
            self._wrapped.trial_rolled_back(trial_job_id, reports)

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        super().trial_end(trial_job_id, success)
        if self._wrapped is not None:
            self._wrapped.trial_end(trial_job_id, success)

    def recall(self, trial_job_id: str, trial_history: list[Any], success: bool) -> None:
        super().recall(trial_job_id, trial_history, success)
        if self._wrapped is not None:
            self._wrapped.recall(trial_job_id, trial_history, success)


def _made(wrapped: Mapping[str, Any]) -> Assessor:
    from nnimgr.dispatcher import registry

    builtin = registry.find("assessor", wrapped["name"])
    made: Assessor = registry.load(builtin.target)(**(wrapped.get("classArgs") or {}))
    return made
