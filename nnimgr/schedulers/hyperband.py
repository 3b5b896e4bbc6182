"""HyperBand (Li, Jamieson, DeSalvo and others, 2018): the trials of a bracket wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nnimgr.scheduler import Continue, Decision, Decisions, Pause, Stop, Trial
from nnimgr.schedulers.ranking import NAMED, RankingScheduler, of_trials

__all__ = ["HyperBandScheduler"]


@dataclass(slots=True, eq=False)
class _Round:
    """Comparison of a bracket's trials after ``at`` results. ``size``: number of trials that take part.

    ``kept``: losses of the trials that continue, best first, once the trials were compared.
    """

    at: int
    size: int = 0
    losses: dict[str, float] = field(default_factory=dict)  # trial that has arrived -> its loss
    awaited: set[str] = field(default_factory=set)  # trials that have not arrived, and may still do so
    kept: list[float] | None = None


@dataclass(slots=True, eq=False)
class _Bracket:
    """Trials that begin together. ``room``: number of trials that may still join.

    ``rounds``: one for each number of results after which trials are compared.
    """

    number: int
    room: int
    rounds: list[_Round]
    places: dict[str, int] = field(default_factory=dict)  # live trial -> the number of its next round


class HyperBandScheduler(RankingScheduler):
    """Scheduler that compares trials in brackets. All trials of a bracket wait until the last one arrives.

    Bracket s first compares its trials after ``max_budget`` / ``eta``^s results, then after ``eta`` times
    that number, and so on, below ``max_budget``. The best 1 / ``eta`` continue, and the others are stopped.
    New trials fill one bracket after the other: from the largest s, with which the first comparison comes
    after at least ``min_budget`` results, down to 0, and again. If no more trials come, the last bracket is
    complete.

    A fork that begins with results of another trial joins no bracket, and runs to its end.

    A bracket does not wait for trials that have ended, that a user has paused, or whose host is silent. Such
    a trial is compared when it arrives.
    """

    def __init__(
        self, optimize_mode: str = "maximize", min_budget: int = 1, max_budget: int = 81, eta: int = 3
    ) -> None:
        super().__init__(optimize_mode)
        self._highest, self._eta = max_budget, eta
        self._most = 0  # the largest s
        while min_budget * eta ** (self._most + 1) <= max_budget:
            self._most += 1
        self._opened = 0
        self._last: _Bracket | None = None  # bracket that new trials join
        self._brackets: dict[str, _Bracket] = {}  # live trial -> its bracket

    # ---- events -------------------------------------------------------------------------------------------

    def trial_created(self, trial: Trial) -> Decisions:
        if trial.reports:
            bracket = _Bracket(0, 1, [])
        else:
            if self._last is None or not self._last.room:
                self._last = self._open()
            bracket = self._last
        self._brackets[trial.id] = bracket
        bracket.room -= 1
        self._enter(bracket, trial, 0)
        return None

    def result_reported(self, trial: Trial) -> Decisions:
        bracket = self._brackets[trial.id]
        self._await(bracket, trial)
        return [*self._arrive(bracket, trial)]

    def trial_paused(self, trial: Trial) -> Decisions:
        bracket = self._brackets[trial.id]
        number = bracket.places[trial.id]
        if trial.held and number and self._round(bracket, trial) is None:
            return self._continue(bracket, trial, number - 1)
        return [*self._excuse(bracket, trial)]

    def trial_silent(self, trial: Trial) -> Decisions:
        return [*self._excuse(self._brackets[trial.id], trial)]

    def trial_continued(self, trial: Trial) -> Decisions:
        self._await(self._brackets[trial.id], trial)
        return None

    def trial_ended(self, trial: Trial) -> Decisions:
        bracket = self._brackets.pop(trial.id)
        waits_at = self._round(bracket, trial)
        if waits_at is not None:
            del waits_at.losses[trial.id]  # else it would take the place of a trial that can continue
        decisions = [*self._excuse(bracket, trial)]
        del bracket.places[trial.id]
        return decisions

    def decision_refused(self, decision: Decision, reason: str) -> Decisions:
        trial = decision.trial
        if not isinstance(decision, Continue) or not trial.held:
            return None
        return [*self._excuse(self._brackets[trial.id], trial)]

    def no_more_trials(self) -> Decisions:
        bracket, self._last = self._last, None
        if bracket is None:
            return None
        bracket.room = 0
        return [*self._compare(bracket, 0)]

    # ---- brackets -----------------------------------------------------------------------------------------

    def _open(self) -> _Bracket:
        s = self._most - self._opened % (self._most + 1)
        self._opened += 1
        size = -(-(self._eta**s) * (self._most + 1) // (s + 1))
        rounds = [_Round(max(1, self._highest * self._eta**i // self._eta**s)) for i in range(s)]
        return _Bracket(self._opened, size, rounds)

    def _enter(self, bracket: _Bracket, trial: Trial, number: int) -> None:
        """Let a trial run to its round ``number``, or to its end if there is no such round."""
        bracket.places[trial.id] = number
        if number < len(bracket.rounds):
            bracket.rounds[number].size += 1
            self._await(bracket, trial)

    def _round(self, bracket: _Bracket, trial: Trial) -> _Round | None:
        """Return the round at which the trial has arrived, and which waits for other trials, or None."""
        number = bracket.places[trial.id]
        found = bracket.rounds[number] if number < len(bracket.rounds) else None
        return found if found is not None and trial.id in found.losses else None

    def _await(self, bracket: _Bracket, trial: Trial) -> None:
        """Let the bracket wait for the trial, unless it cannot arrive at present."""
        number = bracket.places[trial.id]
        if number < len(bracket.rounds) and trial.paused != "user" and not trial.silent:
            found = bracket.rounds[number]
            if trial.id not in found.losses and found.kept is None:
                found.awaited.add(trial.id)

    def _excuse(self, bracket: _Bracket, trial: Trial) -> Iterator[Decision]:
        """Let the bracket not wait for the trial. Yield the decisions that follow."""
        number = bracket.places[trial.id]
        if number < len(bracket.rounds) and trial.id in bracket.rounds[number].awaited:
            bracket.rounds[number].awaited.remove(trial.id)
            yield from self._compare(bracket, number)

    def _arrive(self, bracket: _Bracket, trial: Trial) -> Iterator[Decision]:
        """Yield the decisions that follow from a trial's results, if it has made enough for its round."""
        number = bracket.places[trial.id]
        if trial.decided is not None or number == len(bracket.rounds):
            return
        found = bracket.rounds[number]
        if trial.reports < found.at or trial.id in found.losses:
            return
        loss = found.losses[trial.id] = self.loss_at(trial, found.at)
        found.awaited.discard(trial.id)
        if found.kept is not None:
            yield from self._arrive_late(bracket, trial, found.kept, loss)
        elif self._is_complete(bracket, number):
            yield from self._compare(bracket, number)
        else:
            count = found.size if number else found.size + bracket.room
            reason = (
                f"{_where(bracket, number)}: {len(found.losses)} of {count} trials have reached it, of which "
            )
            yield Pause(trial, reason + of_trials(max(1, count // self._eta)), found.at)

    def _arrive_late(
        self, bracket: _Bracket, trial: Trial, kept: list[float], loss: float
    ) -> Iterator[Decision]:
        """Yield the decisions about a trial that arrives after the others were compared.

        ``kept``: the losses of those that continue, best first.
        """
        number = bracket.places[trial.id]
        if loss <= kept[-1]:
            self._enter(bracket, trial, number + 1)
            yield from self._arrive(bracket, trial)
            return
        better = f"the worst of the {len(kept)} that continue has {self.shown(kept[-1])}"
        reason = f"{_where(bracket, number)}: it came late with {self.shown(loss)}, and {better}"
        yield Stop(trial, reason, bracket.rounds[number].at)

    def _is_complete(self, bracket: _Bracket, number: int) -> bool:
        return not bracket.rounds[number].awaited and not (number == 0 and bracket.room)

    def _compare(self, bracket: _Bracket, number: int) -> Iterator[Decision]:
        """If all trials have arrived that may still do so, yield who continues and who is stopped."""
        if number == len(bracket.rounds) or not self._is_complete(bracket, number):
            return
        found = bracket.rounds[number]
        if found.kept is not None or not found.losses:
            return
        ranked = sorted(found.losses, key=found.losses.__getitem__)  # in the order of arrival if equal
        count = max(1, found.size // self._eta)
        best, others = ranked[:count], ranked[count:]
        found.kept = [found.losses[trial_id] for trial_id in best]
        trials, where = self.experiment.trials, _where(bracket, number)
        for trial_id in best:  # all of them, before the first one may arrive at the next round
            self._enter(bracket, trials[trial_id], number + 1)
        for trial_id in best:
            trial = trials[trial_id]
            if trial.held:
                yield self._continue(bracket, trial, number)
            else:
                yield from self._arrive(bracket, trial)  # it was not paused, and may have arrived there
        for rank, trial_id in enumerate(others, len(best) + 1):
            reason = f"{where}: rank {rank} of {len(ranked)}, only {of_trials(len(best))}"
            better = tuple(ranked[max(0, rank - 1 - NAMED) : rank - 1][::-1])
            yield Stop(trials[trial_id], reason, found.at, better)

    def _continue(self, bracket: _Bracket, trial: Trial, number: int) -> Decision:
        """Continue a paused trial, which is one of the best of a round."""
        found = bracket.rounds[number]
        assert found.kept is not None
        ranked = sorted(found.losses, key=found.losses.__getitem__)
        rank = f"rank {ranked.index(trial.id) + 1} of {len(ranked)}"
        return Continue(trial, f"{_where(bracket, number)}: {rank}, {of_trials(len(found.kept))}", found.at)


def _where(bracket: _Bracket, number: int) -> str:
    return f"bracket {bracket.number}, rung {bracket.rounds[number].at}"
