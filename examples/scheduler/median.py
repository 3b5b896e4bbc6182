"""Custom scheduler in one file: trials below the median wait until the better ones have ended.

Its tests are ``nnimgr.testing.SchedulerConformance`` (see ``tests/test_example_scheduler.py``).
"""

from __future__ import annotations

from statistics import median

from nnimgr.scheduler import Continue, Decisions, Pause, Scheduler, Stop, Trial


class MedianScheduler(Scheduler):
    """Scheduler that pauses a trial whose result number ``after`` is below the median of all trials.

    When only paused trials are left, the best of them continues.
    """

    def __init__(self, after: int = 5) -> None:
        self.after = after
        self.seen: dict[str, float] = {}

    def result_reported(self, trial: Trial) -> Decisions:
        number = trial.numbers[-1]
        if trial.reports != self.after or trial.decided is not None or trial.id in self.seen:
            return None
        if number is None:
            return Stop(trial, f"report {self.after}: {trial.results[-1]!r} is not a number")
        self.seen[trial.id] = number
        middle = median(self.seen.values())
        if number >= middle:
            return None
        return Pause(trial, f"report {self.after}: {number:g} is below the median {middle:g}")

    def all_paused(self) -> Decisions:
        best = max(self.experiment.trials.values(), key=lambda trial: self.seen[trial.id])
        return Continue(best, "it is the best of the trials that are left")
