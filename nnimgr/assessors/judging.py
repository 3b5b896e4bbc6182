"""Base of the built-in assessors.

It converts reported numbers to losses, and stores the reasons for verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from nnimgr.algorithm import Assessor, AssessResult, OptimizeMode, extract_scalar_reward

__all__ = ["JudgingAssessor", "Seen", "Why", "finite"]


class Why(NamedTuple):
    """Reason why an assessor judges a trial as bad.

    ``rung``: the number of reports at which trials were compared, if any. ``better``: ids of trials that are
    better.
    """

    reason: str
    rung: int | None = None
    better: tuple[str, ...] = ()


class Seen:
    """Reports of one trial as losses, so that lower is always better.

    A report that is not a finite number has the loss None.
    """

    def __init__(self) -> None:
        self.losses: list[float | None] = []
        self.best = math.inf

    @property
    def step(self) -> int:
        """Number of reports so far."""
        return len(self.losses)

    def extend(self, history: list[Any], sign: float) -> None:
        """Add the reports in ``history`` that are not stored yet.

        ``sign`` is -1 if higher numbers are better.
        """
        for value in history[self.step :] if len(history) > self.step else ():
            number = finite(value)
            loss = None if number is None else sign * number
            self.losses.append(loss)
            if loss is not None and loss < self.best:
                self.best = loss

    def cut(self, count: int) -> None:
        """Forget all reports but the first ``count``."""
        del self.losses[count:]
        self.best = min((loss for loss in self.losses if loss is not None), default=math.inf)


class JudgingAssessor(Assessor):
    """Base of the built-in assessors.

    Subclasses override ``judge``, ``learn`` if they use reports of other trials, and ``forget`` if they keep
    anything about running trials.
    """

    def __init__(self, optimize_mode: str) -> None:
        self._maximise = OptimizeMode(optimize_mode) is OptimizeMode.Maximize
        self._sign = -1.0 if self._maximise else 1.0
        self._running: dict[str, Seen] = {}
        self._verdicts: dict[str, Why] = {}

    # ---- for subclasses -----------------------------------------------------------------------------------

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        """Return the reason why the trial is bad after its last report, or None if it may continue."""
        raise NotImplementedError

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        """Called with the reports of a trial that has ended. Subclasses may learn from them."""

    def forget(self, trial_job_id: str, seen: Seen, count: int) -> None:
        """Called before ``seen`` is cut to the first ``count`` reports, since the trial makes the others
        again.
        """

    def shown(self, loss: float) -> str:
        """Convert a loss back to the reported number, as short text."""
        return f"{self._sign * loss:.4g}"

    @property
    def worse(self) -> str:
        """Word for the relation of a worse number to a better one: "below" or "above"."""
        return "below" if self._maximise else "above"

    # ---- methods of the base class Assessor ---------------------------------------------------------------

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult:
        seen = self._running.setdefault(trial_job_id, Seen())
        seen.extend(trial_history, self._sign)
        why = self.judge(trial_job_id, seen) if trial_history else None
        if why is None:
            return AssessResult.Good
        self._verdicts[trial_job_id] = why
        return AssessResult.Bad

    def trial_rolled_back(self, trial_job_id: str, reports: int) -> None:
        """Forget what the trial has reported after its first ``reports`` reports."""
        seen = self._running.get(trial_job_id)
        if seen is not None and seen.step > reports:
            self.forget(trial_job_id, seen, reports)
            seen.cut(reports)

    def why(self, trial_job_id: str) -> Mapping[str, Any]:
        """Return the reason why this trial was judged as bad, as a mapping with ``reason``, ``rung`` and
        ``better``.
        """
        return self._verdicts[trial_job_id]._asdict()

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        self._verdicts.pop(trial_job_id, None)
        seen = self._running.pop(trial_job_id, None)
        if seen is not None:
            self.learn(trial_job_id, seen, success)

    def recall(self, trial_job_id: str, trial_history: list[Any], success: bool) -> None:
        """Learn from the reports of a trial that ended before this process started."""
        self._running.setdefault(trial_job_id, Seen()).extend(trial_history, self._sign)
        self.trial_end(trial_job_id, success)


def finite(value: Any) -> float | None:
    """Return the number in a report. Return None if there is none or it is not finite."""
    try:
        found = extract_scalar_reward(value)
        number = math.nan if isinstance(found, bool) else float(found)
    except (RuntimeError, OverflowError):
        return None
    return number if math.isfinite(number) else None
