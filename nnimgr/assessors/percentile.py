"""Stopping by percentile: a trial is stopped if it is not among a given percentage of the best trials at its
step.
"""

from __future__ import annotations

import math

from nnimgr.assessors.judging import JudgingAssessor, Seen, Why
from nnimgr.assessors.order import Place

__all__ = ["PercentileAssessor"]


class PercentileAssessor(JudgingAssessor):
    """Assessor that stops a trial if its best result is not among the best ``percentile`` percent at the same
    step.

    The result is compared with those of all succeeded trials at that step. Trials are judged once
    ``n_startup_trials`` trials have succeeded, after ``n_warmup_steps`` reports, and then at every
    ``interval_steps``-th report.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        percentile: float = 50.0,
        n_startup_trials: int = 5,
        n_warmup_steps: int = 0,
        interval_steps: int = 1,
    ) -> None:
        super().__init__(optimize_mode)
        self._share = percentile / 100
        self._startup, self._warmup, self._interval = n_startup_trials, n_warmup_steps, interval_steps
        self._succeeded = 0
        self._limits: list[Place] = []  # for each step, the succeeded trials' reports

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        step = seen.step
        if self._succeeded < self._startup or step > len(self._limits) or not self._looks_at(step):
            return None
        others = self._limits[step - 1]
        if not others or seen.best == math.inf:
            return None
        limit = self._limit(others)
        if seen.best <= limit:
            return None
        return Why(
            f"its best result so far, {self.shown(seen.best)}, is {self.worse} {self.shown(limit)}, "
            f"the limit of the best {100 * self._share:g} % of {len(others)} other trials at this report"
        )

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        if not success:
            return
        self._succeeded += 1
        while len(self._limits) < seen.step:
            self._limits.append(Place(lambda number: math.floor(self._share * (number - 1)) + 1))
        for others, loss in zip(self._limits, seen.losses, strict=False):
            if loss is not None:
                others.add(loss)

    def _looks_at(self, step: int) -> bool:
        return step > self._warmup and (step - self._warmup - 1) % self._interval == 0

    def _limit(self, others: Place) -> float:
        """Return the percentile of the numbers, interpolated between the two nearest ones."""
        at = self._share * (len(others) - 1)
        return others.number + (at - math.floor(at)) * (others.next - others.number)
