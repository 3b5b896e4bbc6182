"""Population based training, PBT (Jaderberg, Dalibard, Osindero and others, 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nnimgr import search_space as spaces
from nnimgr.scheduler import Checkpoint, Continue, Decision, Decisions, Exploit, Pause, Trial
from nnimgr.schedulers.explore import Explorer, parse_mutations
from nnimgr.schedulers.ranking import NAMED, RankingScheduler
from nnimgr.search_space import Space

__all__ = ["Member", "PBTScheduler"]

_DRAWS = 100  # most changed parameter sets that are drawn until one meets the constraints


@dataclass(slots=True, eq=False)
class Member:
    """Member of a population. ``loss`` is that of result number ``mark``, at which it was last compared.

    ``mark`` is also where its present leg has begun. ``waits``: it has arrived at a comparison that is not
    made before all others have. ``retried``: the mark at which a refused decision was made again.
    """

    trial: Trial
    population: Population
    mark: int = 0
    loss: float | None = None
    waits: bool = False
    next_loss: float | None = None  # loss with which the next leg begins
    retried: int | None = None


@dataclass(slots=True, eq=False)
class Population:
    """Trials that are compared with each other. ``room``: number of trials that may still join; None: any
    number.
    """

    room: int | None
    members: dict[str, Member] = field(default_factory=dict)
    arrived: int = 0  # number of members that wait for the others


class PBTScheduler(RankingScheduler):
    """Scheduler that trains a population: the worst trials continue from checkpoints of the best ones.

    After every ``perturbation_interval`` results, and not before ``burn_in`` results, a trial is compared
    with the others. If it is among the worst ``quantile_fraction``, it continues from the newest checkpoint
    of one of the best ``quantile_fraction``, if that state is better, with changed parameters: each is drawn
    again with ``resample_probability``, or else multiplied by one of ``perturbation_factors``. This begins
    when at least half of the trials have been compared.

    ``mutations`` names the parameters that may be changed, each as in a search space or as a list of values.
    None: all parameters of the search space.

    ``synchronous``: all trials wait for each other at each comparison. ``population_size``: number of trials
    in a population; further trials form the next one. None: all trials are one population.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        perturbation_interval: int = 5,
        burn_in: int = 0,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: Sequence[float] = (1.2, 0.8),
        mutations: Mapping[str, Any] | None = None,
        synchronous: bool = False,
        population_size: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(optimize_mode)
        self.seed = seed
        self._interval, self._burn_in, self._share = perturbation_interval, burn_in, quantile_fraction
        self._waits, self._size = synchronous, population_size
        self._mutations = None if mutations is None else parse_mutations(mutations)
        self.explorer = Explorer(resample=resample_probability, factors=perturbation_factors)
        self._members: dict[str, Member] = {}
        self._last: Population | None = None  # population that new trials join

    # ---- for subclasses -----------------------------------------------------------------------------------

    def compared(self, member: Member, before: float | None, since: int) -> None:
        """Called when a trial was compared. ``before``, ``since``: its loss and mark at its last comparison
        in this leg.
        """

    def explored(self, member: Member, donor: Member, checkpoint: Checkpoint) -> dict[str, Any] | None:
        """Return the changed parameters with which a trial continues from a donor's checkpoint.

        None: no set was found that meets the constraints.
        """
        rng = self.experiment.generator(f"explore/{member.trial.id}")
        for _ in range(_DRAWS):
            found = self.explorer.changed(self.space, donor.trial.parameters, rng)
            if self.experiment.feasible(found):
                return found
        return None

    @property
    def space(self) -> Space:
        """Space of the parameters that may be changed."""
        if self._mutations is None:
            return spaces.parse(self.experiment.search_space)
        return self._mutations

    # ---- events -------------------------------------------------------------------------------------------

    def trial_created(self, trial: Trial) -> Decisions:
        if self._last is None or self._last.room == 0:
            self._last = Population(self._size)
        population = self._last
        if population.room is not None:
            population.room -= 1
        member = Member(trial, population, mark=trial.reports)
        self._members[trial.id] = population.members[trial.id] = member
        return None

    def result_reported(self, trial: Trial) -> Decisions:
        member = self._members[trial.id]
        reports = trial.reports
        if trial.decided is not None or reports - member.mark < self._interval or reports < self._burn_in:
            return None
        since, before = member.mark, member.loss
        member.mark, member.loss = reports, self.loss_at(trial, reports)
        self.compared(member, before, since)
        if not self._waits:
            return self._exploit(member, self._ranked(member.population))
        self._wait(member, True)
        population = member.population
        count = len(population.members) + (population.room or 0)
        which = f"{population.arrived} of {count}" if population.arrived < count else f"all {count}"
        reason = f"report {reports}: {which} trials of its population have come to be compared"
        return Pause(trial, reason, reports)

    def trial_paused(self, trial: Trial) -> Decisions:
        member = self._members[trial.id]
        if trial.held and not member.waits:
            reason = f"report {member.mark}: its population was compared while it was being paused"
            return Continue(trial, reason, member.mark)
        return self._compare_all(member.population)

    def trial_rolled_back(self, trial: Trial) -> Decisions:
        member = self._members[trial.id]
        member.mark = min(member.mark, trial.reports)
        return None

    def leg_began(self, trial: Trial) -> Decisions:
        member = self._members[trial.id]
        member.mark, member.loss = trial.reports, member.next_loss
        return None

    def trial_silent(self, trial: Trial) -> Decisions:
        return self._compare_all(self._members[trial.id].population)

    def trial_ended(self, trial: Trial) -> Decisions:
        member = self._members.pop(trial.id)
        self._wait(member, False)
        del member.population.members[trial.id]
        return self._compare_all(member.population)

    def decision_refused(self, decision: Decision, reason: str) -> Decisions:
        member = self._members[decision.trial.id]
        if isinstance(decision, Pause):
            return self._compare_all(member.population)
        if not isinstance(decision, Exploit) or decision.checkpoint is None:
            return None
        if member.retried != member.mark:  # the checkpoint may have been deleted, because its trial has saved
            member.retried = member.mark
            if again := self._exploit(member, self._ranked(member.population)):
                return again
        if not decision.trial.held:
            return None
        return Continue(
            decision.trial, f"report {member.mark}: its exploit was refused: {reason}", member.mark
        )

    def no_more_trials(self) -> Decisions:
        population, self._last = self._last, None
        if population is None:
            return None
        population.room = 0
        return self._compare_all(population)

    # ---- comparisons --------------------------------------------------------------------------------------

    def _wait(self, member: Member, waits: bool) -> None:
        member.population.arrived += waits - member.waits
        member.waits = waits

    def _compare_all(self, population: Population) -> list[Decision]:
        """If all trials of a synchronous population have come that may still do so, compare them."""
        if not population.arrived or population.room != 0 or not self._waits:
            return []
        members = population.members.values()
        if any(not _has_come(member) and not _is_absent(member.trial) for member in members):
            return []
        ranked = self._ranked(population)
        decisions: list[Decision] = []
        for member in [member for member in members if member.waits]:
            self._wait(member, False)
            exploits = self._exploit(member, ranked)
            if not exploits and member.trial.held:
                reason = f"report {member.mark}: the {len(ranked)} trials of its population were compared"
                exploits = [Continue(member.trial, reason, member.mark)]
            decisions += exploits
        return decisions

    def _ranked(self, population: Population) -> list[Member]:
        """Return the members that were compared at least once, best first."""
        found = [member for member in population.members.values() if member.loss is not None]
        return sorted(found, key=lambda member: math.inf if member.loss is None else member.loss)

    def _exploit(self, member: Member, ranked: list[Member]) -> list[Decision]:
        """Return the decision that a trial continues from a better one's checkpoint, or no decision."""
        if member.trial.paused == "user" or 2 * len(ranked) < len(member.population.members):
            return []
        count = min(math.ceil(self._share * len(ranked)), len(ranked) // 2)
        rank = next(rank for rank, each in enumerate(ranked) if each is member)
        if rank < len(ranked) - count:
            return []
        donors = []
        for donor in ranked[:count]:
            if donor.trial.silent:
                continue
            point = donor.trial.checkpoint
            if point is None or not point.reports:
                if self._is_unsaved(member.population):
                    return self._exploit_nothing(member, donor)
                continue
            if not self.experiment.feasible(donor.trial.parameters):
                continue  # a user has changed the constraints
            loss = self.loss_at(donor.trial, point.reports)
            if member.loss is not None and loss < member.loss:
                donors.append((donor, point, loss))
        if not donors:
            return []
        donor, point, loss = self.experiment.generator(f"donor/{member.trial.id}").choice(donors)
        member.next_loss = loss
        reason = (
            f"report {member.mark}: rank {rank + 1} of {len(ranked)} with {self.shown(member.loss or 0.0)}; "
            f"trial {donor.trial.id} has {self.shown(loss)} at report {point.reports}"
        )
        parameters = self._parameters_of(member, donor, point)
        better = tuple(each.trial.id for each in ranked[max(0, rank - NAMED) : rank][::-1])
        return [Exploit(member.trial, reason, donor.trial, point, parameters, member.mark, better)]

    def _is_unsaved(self, population: Population) -> bool:
        """Return whether no trial of an asynchronous population has saved its state.

        Trials of a synchronous one cannot even be paused then, of which users hear.
        """
        members = population.members.values()
        return not self._waits and not any(member.trial.checkpoints for member in members)

    def _exploit_nothing(self, member: Member, donor: Member) -> list[Decision]:
        """Return the decision that the trial would continue from a state that the donor has not saved.

        It is refused, so that users hear why no trial ever continues from another one.
        """
        reason = f"report {member.mark}: it would continue from trial {donor.trial.id}, which saves nothing"
        return [Exploit(member.trial, reason, donor.trial, None, donor.trial.parameters, member.mark)]

    def _parameters_of(self, member: Member, donor: Member, point: Checkpoint) -> Callable[[], Any]:
        """Return a function that returns the parameters with which a trial continues."""

        def parameters() -> Any:
            found = self.explored(member, donor, point)
            return donor.trial.parameters if found is None else found

        return parameters


def _has_come(member: Member) -> bool:
    """Return whether the comparison need not wait: the trial is paused there, or its pause was refused."""
    return member.waits and (member.trial.held or member.trial.decided is None)


def _is_absent(trial: Trial) -> bool:
    return trial.silent or trial.paused == "user"
