"""ASHA as an assessor: it compares trials after certain numbers of reports (rungs), and stops those that are
not among the best.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import ClassVar

from nnimgr.assessors.judging import JudgingAssessor, Seen, Why

__all__ = ["ASHAAssessor"]

_NAMED = 3  # most better trials that the reason for a verdict lists

_Entry = tuple[float, int, str]  # loss, order of arrival, trial


class ASHAAssessor(JudgingAssessor):
    """Assessor that stops a trial at a rung if its last result is not among the best 1 / ``eta`` of the
    trials there.

    Rungs are at ``min_budget`` reports, at ``eta`` times that number, and so on, below ``max_budget`` (None:
    no limit). The trial itself is counted, and at least one trial counts as best.

    Verdicts depend on the order of reports, so that a restarted assessor gets all reports again.
    """

    replayable: ClassVar[bool] = True

    def __init__(
        self,
        optimize_mode: str = "maximize",
        min_budget: int = 1,
        max_budget: int | None = None,
        eta: int = 3,
    ) -> None:
        super().__init__(optimize_mode)
        self._first, self._end, self._eta = min_budget, max_budget, eta
        self._rungs: dict[
            int, list[_Entry]
        ] = {}  # number of reports -> trials that were compared there, best first
        self._next: dict[str, int] = {}  # running trial -> number of reports at its next rung
        self._entries = 0

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        while (rung := self._next.setdefault(trial_job_id, self._first)) <= seen.step:
            if self._end is not None and rung >= self._end:
                return None
            self._next[trial_job_id] = rung * self._eta
            loss = _at(rung, seen)
            why = None if loss is None else self._enter(rung, loss, trial_job_id)
            if why is not None:
                return why
        return None

    def forget(self, trial_job_id: str, seen: Seen, count: int) -> None:
        """Remove the trial from the rungs that it has not reached any more."""
        rung = self._first
        while rung <= count:
            rung *= self._eta
        reached, self._next[trial_job_id] = self._next.get(trial_job_id, rung), rung
        while rung < reached:
            loss = _at(rung, seen)
            if loss is not None:
                entries = self._rungs[rung]
                at = bisect_left(entries, (loss,))
                while entries[at][2] != trial_job_id:
                    at += 1
                del entries[at]
            rung *= self._eta

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        self._next.pop(trial_job_id, None)

    def _enter(self, rung: int, loss: float, trial_job_id: str) -> Why | None:
        entries = self._rungs.setdefault(rung, [])
        self._entries += 1
        insort(entries, (loss, self._entries, trial_job_id))
        kept = max(1, len(entries) // self._eta)
        last = entries[kept - 1]
        if loss <= last[0]:
            return None
        better = tuple(trial for _, _, trial in entries[max(0, kept - _NAMED) : kept][::-1])
        number = len(entries)
        which = f"the best of {number} results"
        if kept > 1:
            which = f"it is not among the best {kept} of {number}: the worst of these {kept}"
        after = "1 report" if rung == 1 else f"{rung} reports"
        return Why(
            f"after {after}, it has {self.shown(loss)}, and {which} is {self.shown(last[0])}, "
            f"of trial {last[2]}",
            rung,
            better,
        )


def _at(rung: int, seen: Seen) -> float | None:
    """Return the trial's loss at a rung; None if it had reported no number until then."""
    return next((loss for loss in reversed(seen.losses[:rung]) if loss is not None), None)
