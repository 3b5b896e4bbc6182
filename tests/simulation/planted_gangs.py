"""Bugs to plant in the rules of gangs. Only lives whose trials have members on several hosts show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from nnimgr.core.running import service_session
from nnimgr.rules import facts as f
from nnimgr.rules import fold_jobs, gangs, growth, plan, silent_hosts, trial_ends
from nnimgr.rules.state import ExperimentState, JobState, TrialState
from tests.simulation.planted import Plant
from training_services.base import JobEvent, JobPlaced, TrialJobSpec, member_id_of
from training_services.keepers.gangs import GangsOfJobs
from training_services.keepers.job import Job
from training_services.keepers.request import Attempt as Reported
from training_services.placement.gang_queue import GangQueue
from training_services.placement.gang_rooms import GangRooms
from training_services.placement.preemption import fewest

__all__ = ["GANGS_PLANTED"]

GANGS_PLANTED: dict[str, Plant] = {}


def planted(make: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
    GANGS_PLANTED[make.__name__] = contextmanager(make)
    return make


@planted
def over_with_one_member() -> Iterator[None]:
    """The job is over when one member has ended."""
    with patch.object(gangs, "_is_over", lambda job: any(member.over for member in job.members)):
        yield


@planted
def others_left_running() -> Iterator[None]:
    """After a failure, the other members run on."""
    to_stop = gangs._to_stop

    def only_if_stopped(job: JobState, *, late: bool) -> tuple[int, ...]:
        return () if job.stop is None else to_stop(job, late=late)

    with patch.object(gangs, "_to_stop", only_if_stopped):
        yield


@planted
def gathered_before_all_have_started() -> Iterator[None]:
    """The members are told to run the command as soon as one of them is there."""

    def early(job: JobState) -> bool:
        started = any(member.started_at is not None for member in job.members)
        return started and not job.gathered and job.stop is None and job.first is None

    with patch.object(gangs, "_is_to_gather", early):
        yield


@planted
def members_forgotten_at_adoption() -> Iterator[None]:
    """After a restart of the server, only the leader is taken over."""
    adopt = GangsOfJobs._adopt_gang

    def leader_only(self: GangsOfJobs, job: TrialJobSpec, placed: JobPlaced) -> None:
        members = tuple(
            replace(each, over=each.over or number > 0) for number, each in enumerate(job.members)
        )
        adopt(self, replace(job, members=members), placed)

    with patch.object(GangsOfJobs, "_adopt_gang", leader_only):
        yield


@planted
def go_forgotten_at_adoption() -> Iterator[None]:
    """After a restart of the server, the members do not hear that all are there."""
    spec = service_session.job_spec

    def without(*args: Any, **kwargs: Any) -> Any:
        made = spec(*args, **kwargs)
        return replace(made, members=tuple(replace(each, go=None) for each in made.members))

    with patch.object(service_session, "job_spec", without):
        yield


@planted
def seats_of_members_never_released() -> Iterator[None]:
    """Only the leader's resources become free."""
    release = GangQueue.release

    def leader_only(self: Any, job_id: str, seat: Any, *, heard: bool = True) -> bool:
        return "." not in job_id and release(self, job_id, seat, heard=heard)

    with patch.object(GangQueue, "release", leader_only):
        yield


@planted
def members_are_heard() -> Iterator[None]:
    """What any member reports is recorded as a result of the trial."""
    report = Job.report

    def heard(self: Job, attempt: Reported) -> list[JobEvent]:
        member, job_id = self.member, self.id
        self.member, self.id = (0 if member else member), self.whole
        try:
            return report(self, attempt)
        finally:
            self.member, self.id = member, job_id

    with patch.object(Job, "report", heard):
        yield


@planted
def starts_leave_one_by_one() -> Iterator[None]:
    """A member is started although only the leader's place is committed."""
    start = GangsOfJobs._start_gang

    def hasty(self: GangsOfJobs, job: TrialJobSpec, places: Sequence[Any]) -> JobPlaced:
        placed = start(self, job, places)
        for number, each in enumerate(placed.members, start=1):
            member_id = member_id_of(job.id, number)
            seat = self._placed.get(member_id)
            assert seat is not None
            seat.link.jobs.command_committed(member_id, each.cmd_seq)
            seat.desk.flush()
        return placed

    with patch.object(GangsOfJobs, "_start_gang", hasty):
        yield


@planted
def silence_of_members_ignored() -> Iterator[None]:
    """Only the leader's host can be silent."""

    def of_leader(state: ExperimentState, job: JobState) -> bool:
        placed = job.placed
        return placed is not None and state.keepers[placed.place.keeper_id].silent is not None

    with patch.object(fold_jobs, "is_silent", of_leader), patch.object(gangs, "is_silent", of_leader):
        yield


@planted
def silence_is_loss() -> Iterator[None]:
    """Members on silent hosts are lost at once, as if that were a proof."""

    def hasty(state: ExperimentState, now: Any) -> Iterator[f.Fact]:
        silent = {name for name, keeper in state.keepers.items() if keeper.silent is not None}
        for trial_id in state.unknown:
            job_id = state.trials[trial_id].job_id
            if job_id is not None:
                yield from gangs.losses(state.jobs[job_id], "silent", keepers=silent)

    give_up = silent_hosts.give_up_silent

    def both(state: ExperimentState, now: Any) -> Iterator[f.Fact]:
        lost = list(hasty(state, now))
        yield from lost or give_up(state, now)

    with patch.object(plan, "give_up_silent", both):
        yield


@planted
def consequences_are_reasons() -> Iterator[None]:
    """A member that fails after an order to stop is why the trial has failed."""
    over = fold_jobs._member_over

    def blamed(state: ExperimentState, job: JobState, fact: f.MemberEnded | f.MemberLost) -> None:
        stop, job.stop = job.stop, None
        try:
            over(state, job, fact)
        finally:
            job.stop = stop

    with patch.object(fold_jobs, "_member_over", blamed):
        yield


@planted
def fewer_than_the_least() -> Iterator[None]:
    """A gang begins with fewer members than it must have."""
    init = GangQueue.__init__

    def small(self: Any, experiment_id: str, ledger: Any, wants: Any, **more: Any) -> None:
        init(self, experiment_id, ledger, replace(wants, least=max(1, wants.least - 1)), **more)

    with patch.object(GangQueue, "__init__", small):
        yield


@planted
def growth_counts_as_a_failure() -> Iterator[None]:
    """An attempt that was stopped so that its trial gets more members counts as failed."""
    again = trial_ends._again

    def counted(state: ExperimentState, trial: TrialState, reason: str, **more: Any) -> f.AttemptDue:
        fact = again(state, trial, reason, **more)
        return replace(fact, failed=fact.failed or trial.target is f.StopKind.GROW)

    with patch.object(trial_ends, "_again", counted):
        yield


@planted
def growth_without_a_checkpoint() -> Iterator[None]:
    """A trial is stopped for a growth although it has not saved its state when it was asked."""
    step = growth._next_step

    def hasty(state: Any, trial: Any, job: JobState, now: Any) -> Iterator[Any]:
        assert job.growth is not None
        saved, job.growth.saved = job.growth.saved, True
        yield from list(step(state, trial, job, now))
        job.growth.saved = saved

    with patch.object(growth, "_next_step", hasty):
        yield


@planted
def two_members_on_one_host() -> Iterator[None]:
    """Members of a gang are placed beside each other, although nobody has allowed it."""
    init = GangQueue.__init__

    def together(self: Any, experiment_id: str, ledger: Any, wants: Any, **more: Any) -> None:
        init(self, experiment_id, ledger, replace(wants, same_host=True), **more)

    with patch.object(GangQueue, "__init__", together):
        yield


@planted
def barrier_forgotten() -> Iterator[None]:
    """After the good end of the leader, members that hang are waited for without end."""
    with patch.object(gangs, "barrier_at", lambda state, job: None):
        yield


@planted
def leader_is_not_enough() -> Iterator[None]:
    """A member that fails or is stopped after the good end of the leader makes the trial fail."""
    over = fold_jobs._member_over

    def blamed(state: ExperimentState, job: JobState, fact: f.MemberEnded | f.MemberLost) -> None:
        if fact.member != 0 and job.members[fact.member].failed:
            job.leader_done_at = None
        over(state, job, fact)

    with patch.object(fold_jobs, "_member_over", blamed):
        yield


@planted
def stopped_in_vain() -> Iterator[None]:
    """Jobs are stopped for a gang although not all that it needs comes free."""

    def hasty(units: Sequence[Any], fits: Any) -> Any:
        found = fewest(units, fits)
        return list(units) if found is None else found

    with patch("training_services.placement.gang_preemption.fewest", hasty):
        yield


@planted
def giving_up_members_counts_as_a_failure() -> Iterator[None]:
    """An attempt that was stopped so that its trial gives up members counts as failed."""
    again = trial_ends._again

    def counted(state: ExperimentState, trial: TrialState, reason: str, **more: Any) -> f.AttemptDue:
        fact = again(state, trial, reason, **more)
        return replace(fact, failed=fact.failed or trial.target is f.StopKind.SHRINK)

    with patch.object(trial_ends, "_again", counted):
        yield


@planted
def members_given_up_without_a_checkpoint() -> Iterator[None]:
    """A gang gives up members although it has saved nothing."""

    def can_shrink(self: Any, job_id: str) -> bool:
        return job_id in self._running and self._can_stop(job_id)

    with patch.object(GangRooms, "_can_shrink", can_shrink):
        yield


@planted
def order_of_members_forgotten() -> Iterator[None]:
    """The members of the next attempt are numbered anew."""
    with patch.object(trial_ends, "_next_seats", lambda state, trial: ()):
        yield
