"""Stopping at a threshold: a trial is stopped if its result is outside a given range."""

from __future__ import annotations

from nnimgr.assessors.judging import JudgingAssessor, Seen, Why

__all__ = ["ThresholdAssessor"]


class ThresholdAssessor(JudgingAssessor):
    """Assessor that stops a trial if its last result is less than ``lower`` or greater than ``upper``.

    Trials are judged after ``n_warmup_steps`` reports, and then at every ``interval_steps``-th report.
    ``optimize_mode`` has no effect.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        lower: float | None = None,
        upper: float | None = None,
        n_warmup_steps: int = 0,
        interval_steps: int = 1,
    ) -> None:
        super().__init__(optimize_mode)
        self._lower, self._upper = lower, upper
        self._warmup, self._interval = n_warmup_steps, interval_steps

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        step, loss = seen.step, seen.losses[-1]
        if loss is None or step <= self._warmup or (step - self._warmup - 1) % self._interval:
            return None
        value = self._sign * loss
        if self._lower is not None and value < self._lower:
            return Why(f"{value:.4g} at step {step} is below the lower threshold {self._lower:g}")
        if self._upper is not None and value > self._upper:
            return Why(f"{value:.4g} at step {step} is above the upper threshold {self._upper:g}")
        return None
