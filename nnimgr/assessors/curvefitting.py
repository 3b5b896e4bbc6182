"""Stopping by extrapolation: a trial is stopped if its learning curve is not expected to come near the best
result.
"""

from __future__ import annotations

import math

from nnimgr.assessors.judging import JudgingAssessor, Seen, Why
from nnimgr.libraries import need

__all__ = ["CurvefittingAssessor"]

_DEVIATIONS = 2.0  # standard deviations of noise by which an expected result must be worse than the limit


class CurvefittingAssessor(JudgingAssessor):
    """Assessor that stops a trial if its expected result at step ``epoch_num`` is worse than a limit, and the
    noise of its curve does not explain that.

    The limit is the best among the last reports of the succeeded trials, made easier by the fraction
    1 - ``threshold`` of that number. Trials are judged after ``start_step`` reports, and then at
    every ``gap``-th report, once a trial has succeeded. Raise ModuleNotFoundError if scipy is not installed.
    """

    def __init__(
        self,
        epoch_num: int = 20,
        start_step: int = 6,
        threshold: float = 0.95,
        gap: int = 1,
        optimize_mode: str = "maximize",
    ) -> None:
        super().__init__(optimize_mode)
        need("the assessor Curvefitting", "scipy")
        self.target_pos, self.start_step, self._threshold, self._gap = epoch_num, start_step, threshold, gap
        self._judged: dict[str, list[int]] = {}  # running trial -> numbers of reports when it was judged
        self._best = math.inf
        self._best_id = ""

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        step = seen.step
        if self._best == math.inf or not self.start_step <= step < self.target_pos:
            return None
        judged = self._judged.setdefault(trial_job_id, [])
        if judged and step - judged[-1] < self._gap:
            return None
        judged.append(step)
        from nnimgr.assessors.curves import extrapolated  # loads scipy

        expected = extrapolated(seen.losses, self.target_pos)
        limit = self._best + (1 - self._threshold) * abs(self._best)
        if expected is None or expected.value - _DEVIATIONS * expected.spread <= limit:
            return None
        return Why(
            f"after {step} reports {self.shown(expected.value)} is expected at step {self.target_pos}, which "
            f"is {self.worse} {self.shown(limit)}; {self._best_id} has reached {self.shown(self._best)}",
            better=(self._best_id,),
        )

    def forget(self, trial_job_id: str, seen: Seen, count: int) -> None:
        self._judged[trial_job_id] = [step for step in self._judged.get(trial_job_id, ()) if step <= count]

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        self._judged.pop(trial_job_id, None)
        last = next((loss for loss in reversed(seen.losses) if loss is not None), math.inf)
        if success and last < self._best:
            self._best, self._best_id = last, trial_job_id
