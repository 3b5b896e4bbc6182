"""Check of gangs that give up members for trials that wait, and of the places of their next attempts."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.kernel import Kernel


@dataclass(slots=True)
class _Trial:
    """Recorded facts about one trial. ``seats``: keepers of the members of its last attempt, in order."""

    seats: tuple[str, ...] = ()
    lost: set[str] = field(default_factory=set)  # those where a member of this attempt was lost
    has_saved: bool = False
    wanted: f.FewerMembersWanted | None = None  # the last attempt is to give up members
    stopped: bool = False  # and has ended because of that
    due: f.AttemptDue | None = None  # next attempt


class GangSizeCheck:
    """Checks that only gangs with a checkpoint give up members, that this costs no retry, that the next
    attempt has no more members than are left, and that members keep their order.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._trials: dict[str, _Trial] = {}

    def saved(self, job: str) -> None:
        """Record that a job has reported a checkpoint."""
        self._of(job).has_saved = True

    def forget(self) -> None:
        """Forget what is recorded, because an older copy replaces the database."""
        for trial in self._trials.values():
            trial.wanted = trial.due = None
            trial.seats, trial.stopped = (), False

    def fact(self, fact: f.Fact) -> None:
        match fact:
            case f.FewerMembersWanted():
                self._wanted(fact)
            case f.MemberLost():
                self._lost(fact)
            case f.JobEnded():
                trial = self._of(fact.job_id)
                trial.stopped = trial.wanted is not None and fact.reason is f.EndReason.STOPPED
            case f.AttemptDue():
                self._due(fact)
            case f.JobPlaced():
                self._placed(fact)
            case f.TrialPaused() | f.TrialEnded():
                self._trials[fact.trial_id] = _Trial(has_saved=self._has_saved(fact.trial_id))

    def _has_saved(self, trial_id: str) -> bool:
        return trial_id in self._trials and self._trials[trial_id].has_saved

    def _of(self, job: str) -> _Trial:
        return self._trials.setdefault(trial_of_job(job)[0], _Trial())

    def _wanted(self, fact: f.FewerMembersWanted) -> None:
        trial = self._of(fact.job_id)
        self._kernel.counts["members wanted back"] += 1
        if not trial.has_saved:
            self._kernel.fail(f"{fact.job_id} is to give up members and has saved nothing")
        trial.wanted = fact

    def _lost(self, fact: f.MemberLost) -> None:
        trial = self._of(fact.job_id)
        if fact.member < len(trial.seats):
            trial.lost.add(trial.seats[fact.member])

    def _due(self, fact: f.AttemptDue) -> None:
        trial = self._trials.setdefault(fact.trial_id, _Trial())
        if trial.stopped and (fact.lost or fact.failed or fact.cause is not None):
            self._kernel.fail(f"giving up members is counted: {fact}")
        if fact.leg is not None:  # it was stopped for the leg, and waits behind the trial that wants places
            trial.wanted = None
        trial.due = fact

    def _placed(self, fact: f.JobPlaced) -> None:
        trial = self._of(fact.job_id)
        seats = tuple(place.keeper_id for place in (fact.place, *(each.place for each in fact.members)))
        due, wanted = trial.due, trial.wanted
        if wanted is not None and trial.stopped:
            self._kernel.counts["gave up members"] += 1
            if len(seats) > len(trial.seats) - len(wanted.leaving):
                self._kernel.fail(f"{fact.job_id} has {seats} after {trial.seats} without {wanted.leaving}")
        if due is not None and trial.seats:
            first = None if due.origin is None else due.origin.keeper_id  # the leader's, in any case
            given_up = () if wanted is None else {trial.seats[number] for number in wanted.leaving}
            stay = [each for each in trial.seats if each not in trial.lost and each not in given_up]
            kept = [each for each in seats if each in stay and each != first]
            others = [each for each in seats if each not in stay and each != first]
            self._kernel.counts["members kept"] += len(kept)
            if kept != [each for each in stay if each in kept] or seats[seats[0] == first :] != (
                *kept,
                *others,
            ):
                self._kernel.fail(f"members of {fact.job_id} are on {seats} after {trial.seats}: {due}")
        trial.seats, trial.lost = (seats if len(seats) > 1 else ()), set()
        trial.wanted, trial.stopped, trial.due = None, False, None
