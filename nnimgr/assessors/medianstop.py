"""Median stopping: a trial whose best is worse than the median of what others had averaged by then."""

from __future__ import annotations

import math
from bisect import insort
from typing import Any

from nnimgr.algorithm import Assessor, AssessResult, OptimizeMode, extract_scalar_reward

__all__ = ["MedianstopAssessor"]


class MedianstopAssessor(Assessor):
    """Bad if, after ``start_step`` reports, a trial's best result so far is worse than the median of the
    running averages that all succeeded trials had at the same step.

    Of an even number of averages the lower middle one is taken to maximise and the upper one to minimise:
    the one that is easier to reach. A result that is no finite number is left out of best and average.
    The cost of a report does not grow with the number of reports or trials.
    """

    def __init__(self, optimize_mode: str = "maximize", start_step: int = 0) -> None:
        self._maximise = OptimizeMode(optimize_mode) is OptimizeMode.Maximize
        self._start_step = start_step
        self._running: dict[str, _Progress] = {}
        self._averages: list[list[float]] = []  # by step: those of the succeeded trials, sorted

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult:
        progress = self._running.setdefault(trial_job_id, _Progress())
        progress.extend(trial_history)
        step = len(trial_history)
        if not step or step < self._start_step or step > len(self._averages):
            return AssessResult.Good
        averages = self._averages[step - 1]
        if not averages or not progress.count:
            return AssessResult.Good
        if self._maximise:
            bad = progress.highest < averages[(len(averages) - 1) // 2]
        else:
            bad = progress.lowest > averages[len(averages) // 2]
        return AssessResult.Bad if bad else AssessResult.Good

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        progress = self._running.pop(trial_job_id, None)
        if progress is None or not success:
            return
        while len(self._averages) < len(progress.averages):
            self._averages.append([])
        for averages, average in zip(self._averages, progress.averages, strict=False):
            if average is not None:
                insort(averages, average)

    def recall(self, trial_job_id: str, trial_history: list[Any], success: bool) -> None:
        """A trial that ended under an earlier process."""
        self._running.setdefault(trial_job_id, _Progress()).extend(trial_history)
        self.trial_end(trial_job_id, success)


class _Progress:
    """What is known of a running trial, brought forward by each new report."""

    def __init__(self) -> None:
        self.highest, self.lowest = -math.inf, math.inf
        self.total, self.count = 0.0, 0
        self.averages: list[float | None] = []  # after each report; None before the first finite one

    def extend(self, history: list[Any]) -> None:
        """Take in the reports beyond those seen."""
        for value in history[len(self.averages) :] if len(history) > len(self.averages) else ():
            number = _finite(value)
            if number is not None:
                self.highest, self.lowest = max(self.highest, number), min(self.lowest, number)
                self.total += number
                self.count += 1
            self.averages.append(self.total / self.count if self.count else None)


def _finite(value: Any) -> float | None:
    try:
        number = float(extract_scalar_reward(value))
    except (RuntimeError, OverflowError):
        return None
    return number if math.isfinite(number) else None
