"""ASHA (Li, Jamieson, Rostamizadeh and others, 2020): it compares trials after certain numbers of results
(rungs), and continues only the best of them. No trial waits for another one.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from nnimgr.scheduler import Continue, Decision, Decisions, Pause, Stop, Trial
from nnimgr.schedulers.ranking import NAMED, RankingScheduler, of_trials

__all__ = ["ASHAScheduler"]

_Entry = tuple[float, int, str]  # loss, order of arrival, trial


class _Rung:
    """Trials that have made ``at`` results, best first, and those of them that continue from there."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.entries: list[_Entry] = []
        self.promoted: set[str] = set()
        self._losses: dict[str, tuple[float, int]] = {}

    def add(self, loss: float, arrival: int, trial_id: str) -> int:
        """Add a trial, and return its rank, from 0."""
        entry = loss, arrival, trial_id
        insort(self.entries, entry)
        self._losses[trial_id] = loss, arrival
        return bisect_left(self.entries, entry)

    def remove(self, trial_id: str) -> None:
        del self.entries[self.rank(trial_id)]
        del self._losses[trial_id]

    def rank(self, trial_id: str) -> int:
        """Return the rank of a trial, from 0."""
        return bisect_left(self.entries, (*self._losses[trial_id], trial_id))

    def better(self, rank: int) -> tuple[str, ...]:
        """Return a few trials with the next better ranks."""
        return tuple(trial_id for _, _, trial_id in self.entries[max(0, rank - NAMED) : rank][::-1])


class ASHAScheduler(RankingScheduler):
    """Scheduler that pauses a trial at a rung, unless it is among the best 1 / ``eta`` of the trials there.

    Rungs are at ``min_budget`` results, at ``eta`` times that number, and so on, below ``max_budget`` (None:
    no limit). A paused trial continues when it has become one of the best, because others have come. If no
    trial continues any more, the best one of the highest rung does. A fork is compared at the rungs that lie
    after the checkpoint with which it begins.

    ``stop``: stop trials in place of pausing them. The best trial at a rung then always continues.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        min_budget: int = 1,
        max_budget: int | None = None,
        eta: int = 3,
        stop: bool = False,
    ) -> None:
        super().__init__(optimize_mode)
        self._first, self._end, self._eta, self._stops = min_budget, max_budget, eta, stop
        self._rungs: dict[int, _Rung] = {}
        self._next: dict[str, int] = {}  # trial -> its next rung
        self._at: dict[str, _Rung] = {}  # trial -> the last rung that it has reached
        self._waiting: set[str] = set()  # trials that are not promoted from there
        self._arrivals = 0

    # ---- events -------------------------------------------------------------------------------------------

    def trial_created(self, trial: Trial) -> Decisions:
        rung = self._first
        while rung <= trial.reports:  # a fork is not compared with results that it has not made itself
            rung *= self._eta
        self._next[trial.id] = rung
        return None

    def result_reported(self, trial: Trial) -> Decisions:
        decisions: list[Decision] = []
        while trial.decided is None and not decisions and (rung := self._reached(trial)) is not None:
            decisions += self._arrive(trial, rung)
        return decisions

    def trial_paused(self, trial: Trial) -> Decisions:
        if trial.id in self._waiting or not trial.held:
            return None
        rung = self._at[trial.id]
        reason = f"{_place(rung, trial)}, and it was promoted while it was being paused"
        return Continue(trial, reason, rung.at)

    def trial_continued(self, trial: Trial) -> Decisions:
        self._pass(trial)
        return None

    def decision_refused(self, decision: Decision, reason: str) -> Decisions:
        if isinstance(decision, Pause):
            self._pass(decision.trial)
        return None

    def trial_ended(self, trial: Trial) -> Decisions:
        self._next.pop(trial.id, None)
        rung = self._at.pop(trial.id, None)
        if rung is not None and trial.id in self._waiting:
            self._waiting.remove(trial.id)
            if trial.status != "EARLY_STOPPED":
                rung.remove(trial.id)  # else it would take the place of a trial that can continue
        return None

    def all_paused(self) -> Decisions:
        trials = self.experiment.trials
        live = (rung for rung in self._rungs.values() if rung.promoted or self._best_waiting(rung))
        rung = max(live, key=lambda rung: rung.at)
        if not rung.promoted:
            return self._continue(trials[self._best_waiting(rung)], rung, 1)
        return [self._leave(trial) for trial in trials.values() if trial.id in self._waiting]

    # ---- rungs --------------------------------------------------------------------------------------------

    def _reached(self, trial: Trial) -> int | None:
        """Return the rung that the trial has reached and at which it was not compared yet, or None."""
        rung = self._next[trial.id]
        if rung > trial.reports or (self._end is not None and rung >= self._end):
            return None
        return rung

    def _arrive(self, trial: Trial, at: int) -> list[Decision]:
        """Compare a trial with the others at a rung. Return the decisions about it and about the others."""
        self._next[trial.id] = at * self._eta
        self._pass(trial)
        rung = self._at[trial.id] = self._rungs.setdefault(at, _Rung(at))
        self._arrivals += 1
        rank = rung.add(self.loss_at(trial, at), self._arrivals, trial.id)
        kept = self._kept(rung)
        decisions: list[Decision] = []
        if rank < kept:
            rung.promoted.add(trial.id)
        else:
            self._waiting.add(trial.id)
            reason = f"{_place(rung, trial)}, only {of_trials(kept)}"
            if not kept:
                reason = (
                    f"{_place(rung, trial)} so far; when {self._eta} have reached it, the best one continues"
                )
            decision = Stop if self._stops else Pause
            decisions.append(decision(trial, reason, at, rung.better(rank)))
        return decisions if self._stops else [*decisions, *self._promote(rung)]

    def _kept(self, rung: _Rung) -> int:
        """Return how many of the trials at a rung continue."""
        kept = len(rung.entries) // self._eta
        return max(1, kept) if self._stops else kept

    def _promote(self, rung: _Rung) -> list[Decision]:
        """Promote the trial that has become the last one of the best. All better ones are promoted already.

        Return the decision to continue it, if it is paused.
        """
        kept = self._kept(rung)
        last = rung.entries[kept - 1][2] if kept else ""
        if last not in self._waiting or self._at[last] is not rung:
            return []
        trial = self.experiment.trials[last]
        if trial.held:
            return [self._continue(trial, rung, kept)]
        self._pass(trial)  # ``trial_paused`` continues it
        return []

    def _best_waiting(self, rung: _Rung) -> str:
        """Return the best trial that waits at a rung; "" if none does."""
        return next((trial_id for _, _, trial_id in rung.entries if trial_id in self._waiting), "")

    def _continue(self, trial: Trial, rung: _Rung, kept: int) -> Decision:
        self._pass(trial)
        return Continue(trial, f"{_place(rung, trial)}, {of_trials(kept)}", rung.at)

    def _leave(self, trial: Trial) -> Decision:
        """Stop a paused trial, because no trials come that could let it continue."""
        rung = self._at[trial.id]
        best = of_trials(max(1, self._kept(rung)))
        reason = f"{_place(rung, trial)}, only {best}, and no more trials come"
        return Stop(trial, reason, rung.at, rung.better(rung.rank(trial.id)))

    def _pass(self, trial: Trial) -> None:
        """Let a trial continue beyond the rung at which it waits, if it does."""
        if trial.id in self._waiting:
            self._waiting.remove(trial.id)
            self._at[trial.id].promoted.add(trial.id)


def _place(rung: _Rung, trial: Trial) -> str:
    return f"rung {rung.at}: rank {rung.rank(trial.id) + 1} of {len(rung.entries)}"
