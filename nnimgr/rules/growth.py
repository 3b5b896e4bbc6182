"""Growth of gangs: a trial with fewer members than it may have gets more when there is room for them, and
gives up members when other trials wait for their places.

The training service reports how many members a running gang could have (``RoomForMembers``). When the room
has been there for ``growAfter``, and no trial waits for a place, the trial is asked to save its state
(``GrowthBegun``). With the checkpoint it is stopped, and continues with another attempt, which counts neither
as failed nor as lost. Without a checkpoint in time it stays as it is (``GrowthEnded``).

The training service also decides which members are given up (``FewerMembersWanted``). The trial is stopped
with time for a save, and continues with another attempt that has no more members than are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from nnimgr.rules import facts as f
from nnimgr.rules.experiment_status import time_is_up
from nnimgr.rules.gangs import about_members, number_of_members
from nnimgr.rules.indexes import reindex
from nnimgr.rules.phrases import in_seconds
from nnimgr.rules.state import ExperimentState, Growth, JobState, TrialState
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import job_touched, trial_touched
from training_services.base import experiment_of_job

__all__ = ["GROWTH_STEPS", "can_shrink", "forget_rooms", "grow", "growth_due_at", "why_fewer"]

GROWTH_STEPS = Steps()
_LIVE = (f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING)


def grow(state: ExperimentState, now: datetime) -> Iterator[f.GrowthBegun | f.GrowthEnded | f.TargetMoved]:
    """Yield the next step of the growth that is under way, or begin one. There is at most one at a time,
    because a single machine that is free is reported for each gang.
    """
    for trial_id in state.growing:
        trial = state.trials[trial_id]
        yield from _next_step(state, trial, state.jobs[trial.job_id or ""], now)
    if state.growing or not state.growable or state.status not in _LIVE or state.stop_requested:
        return
    due = [trial_id for trial_id in state.growable if _due_at(state, trial_id) <= now]
    if due and not _others_first(state) and not time_is_up(state, now):
        job = state.jobs[state.trials[due[0]].job_id or ""]
        assert job.room is not None
        yield f.GrowthBegun(job_id=job.id, members=job.room)


def _next_step(
    state: ExperimentState, trial: TrialState, job: JobState, now: datetime
) -> Iterator[f.GrowthEnded | f.TargetMoved]:
    growth, members = job.growth, state.limits.members
    assert growth is not None and members is not None
    overdue = now >= growth.asked_at + state.limits.save_within
    if job.room is not None and job.room <= job.size:
        yield f.GrowthEnded(job_id=job.id, reason="the room for more members is taken again")
    elif growth.saved and job.room is not None:
        number = f"{job.room} of {members.least} to {members.most} members"
        reason = f"there has been room for {number} for {in_seconds(members.grow_after)}"
        yield f.TargetMoved(trial_id=trial.id, kind=f.StopKind.GROW, reason=reason)
    elif growth.saved and overdue:
        reason = "it is not known whether there is still room for more members"
        yield f.GrowthEnded(job_id=job.id, reason=reason)
    elif overdue:
        within = in_seconds(state.limits.save_within)
        reason = f"the trial was asked to save its state, and has not done so within {within}"
        yield f.GrowthEnded(job_id=job.id, reason=reason, in_vain=True)


def _others_first(state: ExperimentState) -> bool:
    """Return whether a trial waits for a place, or places are about to become free."""
    if state.retrying or (state.queued and state.free_slots > 0):
        return True
    return any(not job.closed and (job.placed is None or job.stop is not None) for job in state.jobs.values())


def _due_at(state: ExperimentState, trial_id: str) -> datetime:
    job, members = state.jobs[state.trials[trial_id].job_id or ""], state.limits.members
    assert job.room_since is not None and members is not None
    return job.room_since + members.grow_after


def growth_due_at(state: ExperimentState) -> Iterator[datetime]:
    """Yield the times at which a growth may begin, or is given up."""
    for trial_id in state.growable:
        yield _due_at(state, trial_id)
    for trial_id in state.growing:
        growth = state.jobs[state.trials[trial_id].job_id or ""].growth
        assert growth is not None
        yield growth.asked_at + state.limits.save_within


def can_shrink(state: ExperimentState, fact: f.FewerMembersWanted) -> bool:
    """Return whether the job has these members, and may continue without them."""
    job, members = state.jobs[fact.job_id], state.limits.members
    if members is None or not fact.leaving or 0 in fact.leaving:
        return False
    return max(fact.leaving) < job.size and job.size - len(fact.leaving) >= members.least


# ---- steps of the fold ------------------------------------------------------------------------------------


def forget_rooms(state: ExperimentState, *, opened_at: datetime | None = None) -> None:
    """Forget the reported room for members: places were given, or another service will report the room.

    ``opened_at``: another runner has opened the experiment. Trials that were asked to save their state have
    time for it from now on, because what they have saved without a server is not reported yet.
    """
    if state.limits.members is None:
        return
    for job in state.jobs.values():
        if job.growth is not None and opened_at is not None:
            job.growth.asked_at = opened_at
        if job.room is not None:
            job.room = job.room_since = None
            if not job.closed:
                reindex(state, state.trials[job.trial_id])


@GROWTH_STEPS.of(f.RoomForMembers)
def _room(state: ExperimentState, fact: f.RoomForMembers, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.room, job.room_since = fact.members, r.at
    reindex(state, state.trials[job.trial_id])


@GROWTH_STEPS.of(f.GrowthBegun)
def _begun(state: ExperimentState, fact: f.GrowthBegun, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.growth = Growth(asked_at=r.at)
    trial.save_wanted = True
    number = number_of_members(state, job)
    trial.reason = f"runs with {number}; is asked to save its state, to continue with {fact.members}"
    reindex(state, trial)


@GROWTH_STEPS.of(f.GrowthEnded)
def _ended(state: ExperimentState, fact: f.GrowthEnded, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.growth, job.stays = None, fact.in_vain
    trial.note = f"stays with {number_of_members(state, job)}: {fact.reason}"
    if trial.status is f.TrialStatus.RUNNING:
        trial.reason = about_members(state, trial, job)
    reindex(state, trial)


@GROWTH_STEPS.of(f.FewerMembersWanted)
def _fewer(state: ExperimentState, fact: f.FewerMembersWanted, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.leaving, trial.target = fact.leaving, f.StopKind.SHRINK
    trial.target_reason = why_fewer(fact)
    reindex(state, trial)


def why_fewer(fact: f.FewerMembersWanted) -> str:
    """Return for whom the job gives up members."""
    own = fact.by == experiment_of_job(fact.job_id)
    who = "another trial" if own else f"a trial of experiment {fact.by}"
    *first, last = map(str, fact.leaving)
    if not first:
        return f"{who} waits for the place of member {last}"
    return f"{who} waits for places of members {', '.join(first)} and {last}"
