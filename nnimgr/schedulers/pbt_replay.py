"""PBTReplay: trains with the parameters that a member of a population has had, one set after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnimgr.scheduler import Checkpoint, Continue, Decision, Decisions, Exploit, Pause, Scheduler, Trial

__all__ = ["PBTReplayScheduler"]


class PBTReplayScheduler(Scheduler):
    """Scheduler that gives each trial the parameters of ``schedule``, each set after its number of results.

    ``schedule``: a list of {"reports", "parameters"}, in the order of ``reports``. The trial saves its state,
    and continues from it with the next parameters. An entry for 0 results is not used, because a trial begins
    with its own parameters.
    """

    def __init__(self, schedule: Sequence[Mapping[str, Any]]) -> None:
        self._schedule = [(each["reports"], dict(each["parameters"])) for each in schedule if each["reports"]]
        # trials whose next parameters were refused, or that could not be paused; they save first
        self._refused: set[str] = set()

    def result_reported(self, trial: Trial) -> Decisions:
        return None if trial.id in self._refused else self._follow(trial)

    def checkpoint_saved(self, trial: Trial) -> Decisions:
        self._refused.discard(trial.id)
        return self._follow(trial)

    def trial_paused(self, trial: Trial) -> Decisions:
        if not trial.held:
            return None
        point = trial.checkpoint
        if point is not None and self._is_due(trial):
            return self._exploit(trial, point)
        self._refused.add(trial.id)
        reason = f"report {trial.reports}: it has saved no state with which its next parameters could begin"
        return Continue(trial, reason)

    def trial_ended(self, trial: Trial) -> Decisions:
        self._refused.discard(trial.id)
        return None

    def decision_refused(self, decision: Decision, reason: str) -> Decisions:
        trial = decision.trial
        self._refused.add(trial.id)
        if isinstance(decision, Exploit) and trial.held:
            return Continue(trial, f"report {trial.reports}: its next parameters were refused: {reason}")
        return None

    def _follow(self, trial: Trial) -> Decision | None:
        """Return the decision that leads to the trial's next parameters, or None if they are not due."""
        if trial.decided is not None or trial.paused is not None or not self._is_due(trial):
            return None
        reports, _ = self._schedule[trial.leg]
        point = trial.checkpoint
        if point is not None and point.reports >= reports:
            return self._exploit(trial, point)
        return Pause(trial, f"report {reports}: it saves its state for {self._named(trial)}", reports)

    def _is_due(self, trial: Trial) -> bool:
        return trial.leg < len(self._schedule) and trial.reports >= self._schedule[trial.leg][0]

    def _exploit(self, trial: Trial, point: Checkpoint) -> Decision:
        reports, parameters = self._schedule[trial.leg]
        return Exploit(trial, f"report {reports}: {self._named(trial)}", trial, point, parameters, reports)

    def _named(self, trial: Trial) -> str:
        return f"set {trial.leg + 1} of the {len(self._schedule)} sets of the schedule"
