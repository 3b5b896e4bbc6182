"""Gangs: jobs whose members run on several hosts.

The facts about members come from the training service. What happens to the job as a whole follows from them
(``due_facts``): it has started when all members have, and it is over when all are. When one member fails or
is lost, all others are stopped in the same commit. The job ends as the first one that has failed, unless a
member was lost. So whatever is decided about attempts does not have to know of members.

When the leader has ended well before that, the job has succeeded. The others have the time ``exit_barrier``
to end by themselves, and are then stopped. How they end is only worth a note.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from datetime import datetime

from nnimgr.rules import facts as f
from nnimgr.rules.causes import LOSSES, cause_of
from nnimgr.rules.commands import GatherGang, StopMembers
from nnimgr.rules.facts import TrialStatus
from nnimgr.rules.phrases import in_seconds
from nnimgr.rules.state import ExperimentState, JobState, MemberState, TrialState
from training_services.base import TRIAL_GRACE

__all__ = [
    "about_members",
    "barrier_at",
    "barrier_reason",
    "due_commands",
    "due_facts",
    "failing_keeper",
    "is_due",
    "is_growable",
    "is_growing",
    "is_silent",
    "losses",
    "number_of_members",
    "set_places",
]


def set_places(job: JobState, placed: f.JobPlaced) -> None:
    """Record the places of a gang's members, the leader's first. Do nothing for a job without members."""
    if placed.members:
        leader = MemberState(place=placed.place, cmd_seq=placed.cmd_seq)
        others = [MemberState(place=each.place, cmd_seq=each.cmd_seq) for each in placed.members]
        job.members = [leader, *others]


def about_members(state: ExperimentState, trial: TrialState, job: JobState) -> str | None:
    """Return a sentence about the number of members of a running attempt, if that may vary.

    After a previous attempt, the sentence begins with the reason for the present one.
    """
    if (number := number_of_members(state, job)) is None:
        return None
    return f"runs with {number}" if trial.again is None else f"{trial.again}; it runs with {number}"


def number_of_members(state: ExperimentState, job: JobState) -> str | None:
    """Return how many members a job has, and may have; None: all jobs have the same number."""
    members = state.limits.members
    return None if members is None else f"{job.size} of {members.least} to {members.most} members"


# ---- what is due ------------------------------------------------------------------------------------------


def is_due(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether something follows from the states of the members of the trial's open job, now or when
    the time of the exit barrier has passed.
    """
    job = state.jobs.get(trial.job_id or "")
    if job is None or not job.members:
        return False
    if _is_over(job) or _has_started(trial, job) or _is_to_gather(job):
        return True
    return bool(_to_stop(job, late=job.leader_done_at is not None))


def is_growable(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether the trial may be asked to save its state, so that it continues with more members."""
    job = state.jobs.get(trial.job_id or "")
    if state.limits.members is None or job is None or job.room is None or job.room <= job.size:
        return False
    undisturbed = trial.status is TrialStatus.RUNNING and trial.target is None and job.stop is None
    has_saved = bool(trial.checkpoints) or trial.origin is not None
    whole = not any(member.over for member in job.members)
    return undisturbed and has_saved and whole and job.growth is None and not job.stays


def is_growing(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether the trial was asked to save its state, so that it continues with more members."""
    job = state.jobs.get(trial.job_id or "")
    return job is not None and job.growth is not None and job.first is None and trial.target is None


def due_facts(state: ExperimentState, trial: TrialState, job: JobState) -> Iterator[f.Fact]:
    """Yield what has happened to a gang's job, as far as it follows from its members."""
    if _is_over(job):
        yield _outcome(state, job)
    elif _has_started(trial, job):
        started_at = job.members[0].started_at
        assert started_at is not None
        yield f.JobStarted(job_id=job.id, started_at=started_at, pid=job.members[0].pid)


def due_commands(
    state: ExperimentState, job: JobState, now: datetime, *, stops: bool
) -> Iterator[GatherGang | StopMembers]:
    """Yield the commands to the members of a gang's job that are due. ``stops``: the job is about to be
    stopped.
    """
    if _is_to_gather(job) and not stops:
        yield GatherGang(job_id=job.id)
    barrier = barrier_at(state, job)
    if members := _to_stop(job, late=barrier is not None and barrier <= now):
        yield StopMembers(job_id=job.id, members=members, grace=TRIAL_GRACE)


def barrier_at(state: ExperimentState, job: JobState) -> datetime | None:
    """Return when the members that are left are stopped, because the leader has ended well; None: never.

    This is at once if the leader has saved its state as it was asked to: the trial continues without them.
    """
    if job.leader_done_at is None or job.left:
        return job.leader_done_at
    return job.leader_done_at + state.limits.exit_barrier


def barrier_reason(state: ExperimentState, job: JobState) -> str:
    """Return what a gang's trial waits for, whose leader has ended well."""
    left = ", ".join(_name(job, number) for number, member in enumerate(job.members) if not member.over)
    limit = in_seconds(state.limits.exit_barrier)
    return f"the leader has ended with exit code 0; waits at most {limit} for the end of {left}"


def _is_over(job: JobState) -> bool:
    return all(member.over for member in job.members)


def _has_started(trial: TrialState, job: JobState) -> bool:
    """Return whether the job has just started. A start is not believed while a member's host is silent."""
    if job.started_at is not None or job.first is not None or trial.status is f.TrialStatus.UNKNOWN:
        return False
    return all(member.started_at is not None for member in job.members)


def _is_to_gather(job: JobState) -> bool:
    """Return whether the members are to run the trial's command: all are there, and none is to stop."""
    if job.started_at is None or job.gathered or job.stop is not None:
        return False
    return not any(member.over for member in job.members)


def _to_stop(job: JobState, *, late: bool) -> tuple[int, ...]:
    """Return the members that are to be stopped. A stop of the job is an order to the leader alone.

    If the leader saves its state first, the others go on meanwhile, because it may need them for that.
    ``late``: the time of the exit barrier has passed.
    """
    leader = job.members[0]
    if job.stop is None and job.first is None and not late:
        return ()
    saves = job.stop is not None and job.stop.save_within is not None and job.first is None
    if saves and not leader.over and not any(member.failed for member in job.members):
        return ()
    return tuple(
        number
        for number, member in enumerate(job.members)
        if not member.over and member.stop is None and not (number == 0 and job.stop is not None)
    )


# ---- how a gang ends --------------------------------------------------------------------------------------


def _outcome(state: ExperimentState, job: JobState) -> f.JobEnded | f.JobLost:
    """Return how the job has ended, whose members are all over.

    After the good end of the leader, nothing else counts. Otherwise a loss comes before a failure that was
    committed earlier: members fail at once when the host of another one is gone, and its loss is proved
    later.
    """
    ended = {number: member.ended for number, member in enumerate(job.members) if member.ended is not None}
    if job.leader_done_at is not None:
        notes = [] if job.left else _after_the_leader(state, job)  # if it has left, the trial continues
        said = [ended[0].message, *notes]
        return _ended(job, ended[0], reason=ended[0].reason, message="; ".join(filter(None, said)) or None)
    lost = {number: member.lost for number, member in enumerate(job.members) if member.lost is not None}
    if lost:
        number = min(lost, key=lambda each: (not lost[each].unproven, each))
        return _lost(job, number, lost[number])
    if job.left and 0 in ended and not job.members[0].failed:
        # The leader has saved its state as it was asked to, and has left. Others fail because it has gone.
        return _ended(job, ended[0], reason=ended[0].reason, message=ended[0].message)
    if job.first is not None:
        taken = (number for number, end in ended.items() if cause_of(end, stopped=False) in LOSSES)
        number = next(taken, job.first)
        return _failed(job, number, ended[number])
    end = ended[0]
    # After an order to stop, members fail because others have gone: such a failure says nothing.
    stopped = job.stop is not None and end.reason is f.EndReason.EXITED and end.exit_code != 0
    return _ended(job, end, reason=f.EndReason.STOPPED if stopped else end.reason, message=end.message)


def _after_the_leader(state: ExperimentState, job: JobState) -> Iterator[str]:
    """Yield what has happened to members that have not ended well after the good end of the leader."""
    limit = in_seconds(state.limits.exit_barrier)
    for number, member in enumerate(job.members):
        end, lost = member.ended, member.lost
        if not member.failed:
            continue
        if lost is not None:
            what = f"was lost after the leader had ended: {lost.reason}"
        elif member.stop is not None and job.stop is None:
            what = f"was stopped, because it had not ended {limit} after the leader"
        elif end is not None and end.reason is f.EndReason.EXITED:
            how = f"exit code {end.exit_code}" if end.exit_code is not None else "no exit code"
            how = how if end.signal is None else f"signal {end.signal}"
            what = f"failed after the leader had ended ({how})"
            what += f": {end.message}" if end.message else ""
        else:
            what = f"was ended after the leader ({end.reason if end else None})"
        yield f"{_name(job, number)} {what}"


def _lost(job: JobState, number: int, lost: f.MemberLost) -> f.JobLost:
    reason = f"{lost.reason} ({_name(job, number)})"
    return f.JobLost(job_id=job.id, reason=reason, cause=lost.cause, unproven=lost.unproven)


def _failed(job: JobState, number: int, end: f.MemberEnded) -> f.JobEnded:
    """Return the end of a job of which the failure of member ``number`` is the reason."""
    name = _name(job, number)
    message = name if end.message is None else f"{end.message} ({name})"
    return _ended(job, end, reason=end.reason, message=message)


def _ended(job: JobState, end: f.MemberEnded, *, reason: f.EndReason, message: str | None) -> f.JobEnded:
    leader = job.members[0].ended
    return f.JobEnded(
        job_id=job.id,
        reason=reason,
        exit_code=end.exit_code,
        signal=end.signal,
        metrics=job.recorded - job.base if leader is None else leader.metrics,
        acked_cmd=0 if leader is None else leader.acked_cmd,
        ended_at=end.ended_at if leader is None else leader.ended_at,
        message=message,
        cause=end.cause,
    )


def _name(job: JobState, number: int) -> str:
    return f"member {number} on {job.members[number].place.keeper_id}"


def failing_keeper(job: JobState) -> str:
    """Return the keeper where the attempt has ended that a JobEnded fact is about; "" if it had no place."""
    if job.members:
        return job.members[job.first or 0].place.keeper_id
    return "" if job.placed is None else job.placed.place.keeper_id


# ---- hosts that do not answer -----------------------------------------------------------------------------


def is_silent(state: ExperimentState, job: JobState) -> bool:
    """Return whether a host is silent on which the open job, or one of its members, may run."""
    silent = (state.keepers[each.place.keeper_id].silent for each in job.seats() if each.open)
    return any(reason is not None for reason in silent)


def losses(
    job: JobState,
    reason: str,
    *,
    keepers: Container[str] | None,
    unproven: bool = False,
    stopped: bool = False,
) -> Iterator[f.JobLost | f.MemberLost]:
    """Yield the loss of an open job, or of a gang's members that are open on these keepers; None: on all.

    ``stopped``: leave out members whose stop was not ordered yet, because a host that answers again after
    the experiment's end hears only of stops that were ordered before.
    """
    if not job.members:
        yield f.JobLost(job_id=job.id, reason=reason, unproven=unproven)
    for number, member in enumerate(job.members):
        told = member.stop is not None or (number == 0 and job.stop is not None)
        if (
            not member.over
            and (keepers is None or member.place.keeper_id in keepers)
            and (told or not stopped)
        ):
            yield f.MemberLost(job_id=job.id, member=number, reason=reason, unproven=unproven)
