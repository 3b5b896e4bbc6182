"""Base of the built-in assessors. It converts reports to losses once, and gives reasons for verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from nnimgr.algorithm import Assessor, AssessResult, OptimizeMode, extract_scalar_reward

__all__ = ["JudgingAssessor", "Seen", "Why", "finite"]


class Why(NamedTuple):
    """Reason for a bad verdict. ``rung`` and ``better`` are as in ``Assessor``."""

    reason: str
    rung: int | None = None
    better: tuple[str, ...] = ()


class Seen:
    """Reports of a trial as losses; lower losses are better.

    A report that is not a finite number has no loss.
    """

    def __init__(self) -> None:
        self.losses: list[float | None] = []
        self.best = math.inf

    @property
    def step(self) -> int:
        """Number of reports."""
        return len(self.losses)

    def extend(self, history: list[Any], sign: float) -> None:
        """Add the new reports."""
        for value in history[self.step :] if len(history) > self.step else ():
            number = finite(value)
            loss = None if number is None else sign * number
            self.losses.append(loss)
            if loss is not None and loss < self.best:
                self.best = loss


class JudgingAssessor(Assessor):
    """Base of the built-in assessors. Override ``judge`` and, if other trials' reports matter, ``learn``."""

    def __init__(self, optimize_mode: str) -> None:
        self._maximise = OptimizeMode(optimize_mode) is OptimizeMode.Maximize
        self._sign = -1.0 if self._maximise else 1.0
        self._running: dict[str, Seen] = {}
        self._verdicts: dict[str, Why] = {}

    # ---- for subclasses -----------------------------------------------------------------------------------

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        """Return why the trial is bad after its last report, or None if the trial is good."""
        raise NotImplementedError

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        """Learn from a trial that has ended."""

    def shown(self, loss: float) -> str:
        """Return the reported number for a loss as short text."""
        return f"{self._sign * loss:.4g}"

    @property
    def worse(self) -> str:
        """Word that relates a worse number to a better one: "below" or "above"."""
        return "below" if self._maximise else "above"

    # ---- the contract -------------------------------------------------------------------------------------

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult:
        seen = self._running.setdefault(trial_job_id, Seen())
        seen.extend(trial_history, self._sign)
        why = self.judge(trial_job_id, seen) if trial_history else None
        if why is None:
            return AssessResult.Good
        self._verdicts[trial_job_id] = why
        return AssessResult.Bad

    def why(self, trial_job_id: str) -> Mapping[str, Any]:
        """Return the reason of the verdict on a trial that was judged bad, in the form of
        ``Assessor.why``.
        """
        return self._verdicts[trial_job_id]._asdict()

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        self._verdicts.pop(trial_job_id, None)
        seen = self._running.pop(trial_job_id, None)
        if seen is not None:
            self.learn(trial_job_id, seen, success)

    def recall(self, trial_job_id: str, trial_history: list[Any], success: bool) -> None:
        """Learn from a trial that ended before this process started."""
        self._running.setdefault(trial_job_id, Seen()).extend(trial_history, self._sign)
        self.trial_end(trial_job_id, success)


def finite(value: Any) -> float | None:
    """Return the finite number in a report, or None."""
    try:
        found = extract_scalar_reward(value)
        number = math.nan if isinstance(found, bool) else float(found)
    except (RuntimeError, OverflowError):
        return None
    return number if math.isfinite(number) else None
