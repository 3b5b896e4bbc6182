"""Median stopping: a trial is stopped if it is worse than the median of the other trials' averages at the
same step.
"""

from __future__ import annotations

import math

from nnimgr.assessors.judging import JudgingAssessor, Seen, Why
from nnimgr.assessors.order import Place

__all__ = ["MedianstopAssessor"]


class MedianstopAssessor(JudgingAssessor):
    """Assessor that stops a trial if its best result is worse than a median, once it has ``start_step``
    reports.

    The median is over the running averages of all succeeded trials at the same step. If the number of
    averages is even, the worse one of the two in the middle is used. Results that are not finite numbers are
    ignored. The time to judge a report is constant; the time to process a trial's end grows with the
    logarithm of the number of trials.
    """

    def __init__(self, optimize_mode: str = "maximize", start_step: int = 0) -> None:
        super().__init__(optimize_mode)
        self._start_step = start_step
        self._medians: list[Place] = []  # for each step, the median of the succeeded trials' averages

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        if seen.step < self._start_step or seen.step > len(self._medians):
            return None
        averages = self._medians[seen.step - 1]
        if not averages or seen.best == math.inf:
            return None
        median = averages.number
        if seen.best <= median:
            return None
        count = len(averages)
        if seen.step == 1:
            limit = f"the median of {count} other trials' first results"
            limit = "the first result of another trial" if count == 1 else limit
        else:
            first = f"first {seen.step} results"
            limit = f"the median of {count} other trials' averages over their {first}"
            limit = f"the average of another trial's {first}" if count == 1 else limit
        return Why(
            f"its best result so far, {self.shown(seen.best)}, is {self.worse} {self.shown(median)}, {limit}"
        )

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        if not success:
            return
        while len(self._medians) < seen.step:
            self._medians.append(Place(_middle))
        total, count = 0.0, 0
        for averages, loss in zip(self._medians, seen.losses, strict=False):
            if loss is not None:
                total, count = total + loss, count + 1
            if count:
                averages.add(total / count)


def _middle(number: int) -> int:
    return number // 2 + 1
