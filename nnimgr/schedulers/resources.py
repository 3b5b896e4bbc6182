"""Gives resources that ended trials have left free to the best trials, once no more trials come.

Ray's ResourceChangingScheduler is its peer. While trials are still created, they use what is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.scheduler import Decision, Decisions, Resize, Trial
from nnimgr.schedulers.ranking import RankingScheduler

__all__ = ["ResourcesScheduler"]


class ResourcesScheduler(RankingScheduler):
    """Scheduler that multiplies the resources of the best trials by whole numbers, when no more trials come.

    ``total``: what the trials may use together, by the names of fields such as trialGpuNumber. ``most``: how
    many times its configured resources a trial may get. A trial continues from a checkpoint for this, which
    costs time, so it gets at least twice what it has. No trial is asked for the same resources twice.
    """

    def __init__(
        self, optimize_mode: str = "maximize", total: Mapping[str, float] | None = None, most: int = 4
    ) -> None:
        super().__init__(optimize_mode)
        self._total, self._most = dict(total or {}), most
        self._asked: dict[str, list[Mapping[str, float]]] = {}  # trial -> resources that were decided for it

    def no_more_trials(self) -> Decisions:
        return self._share_out()

    def checkpoint_saved(self, trial: Trial) -> Decisions:
        return self._share_out()

    def trial_ended(self, trial: Trial) -> Decisions:
        self._asked.pop(trial.id, None)
        return self._share_out()

    def _share_out(self) -> list[Decision]:
        """Return decisions that give what is free to the best trials, the best one first."""
        trials = self.experiment.trials.values()
        fields = [field for field in self._total if field in self.experiment.resources]
        if self.experiment.more_trials or not fields:
            return []
        active = [trial for trial in trials if trial.paused is None]
        free = {field: self._total[field] - sum(_held(each, field) for each in active) for field in fields}
        able = [each for each in active if each.decided is None and each.checkpoint and each.numbers]
        able = [each for each in able if not each.silent]
        able.sort(key=lambda each: self.loss_at(each, each.reports))
        found: list[Decision] = []
        for rank, trial in enumerate(able, 1):
            wanted = self._wanted(trial, free)
            if wanted is None:
                continue
            self._asked.setdefault(trial.id, []).append(wanted)
            for field, value in wanted.items():
                free[field] -= value - trial.resources[field]
            reason = f"no more trials come, and it is number {rank} of {len(able)} trials that run"
            found.append(Resize(trial, reason, wanted))
        return found

    def _wanted(self, trial: Trial, free: Mapping[str, float]) -> dict[str, float] | None:
        """Return the most that the trial can get of what is free; None if that is less than twice of what it
        has.
        """
        for factor in range(self._most, 1, -1):
            wanted = {field: factor * trial.resources[field] for field in free}
            fits = all(
                value - trial.resources[field] <= free[field]
                and value <= self._most * self.experiment.resources[field]
                and (field != "trialGpuNumber" or value < 1 or value == int(value))
                for field, value in wanted.items()
            )
            if fits and wanted not in self._asked.get(trial.id, ()):
                return wanted
        return None


def _held(trial: Trial, field: str) -> float:
    """Return what a trial has of a resource, or gets by a decision that is not carried out yet."""
    decided: Any = trial.decided
    coming = decided.resources.get(field, 0) if isinstance(decided, Resize) else 0
    return max(trial.resources[field], coming)
