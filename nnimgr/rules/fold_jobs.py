"""Functions that apply facts about jobs, keepers and machines to the state of an experiment."""

from __future__ import annotations

from datetime import UTC

from nnimgr.rules import facts as f
from nnimgr.rules.causes import cause_of
from nnimgr.rules.checkpoint_limit import recount
from nnimgr.rules.checkpoints import drop_origin, give_up_host
from nnimgr.rules.gangs import (
    about_members,
    barrier_reason,
    failing_keeper,
    is_silent,
    number_of_members,
    set_places,
)
from nnimgr.rules.growth import forget_rooms
from nnimgr.rules.indexes import reindex
from nnimgr.rules.metric_notes import note_on_final, note_on_intermediate
from nnimgr.rules.phases import take_final, waiting_reason
from nnimgr.rules.state import (
    ExperimentState,
    JobState,
    KeeperState,
    MachineState,
    TrialState,
    trial_of_job,
)
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import (
    job_touched,
    meter_trial_time,
    move,
    note,
    preemption_reason,
    stopping_reason,
    trial_touched,
)

JOB_STEPS = Steps()

_FINAL = f.MetricType.FINAL

# ---- jobs -------------------------------------------------------------------------------------------------


def _attach(state: ExperimentState, job_id: str, fact: f.Fact) -> tuple[TrialState, JobState]:
    """Return the trial and the job that a JobPlaced or JobWaiting fact is about.

    Create the job if this is the first such fact about it.
    """
    trial_id, attempt = trial_of_job(job_id)
    trial = trial_touched(state, trial_id, fact)
    job = state.jobs.get(job_id)
    if job is None:
        base = 0 if trial.origin is None else trial.origin.origin.position
        job = state.jobs[job_id] = JobState(
            id=job_id, trial_id=trial_id, attempt=attempt, base=base, recorded=base
        )
        trial.job_id, trial.due_at = job_id, None
    state.touched.jobs[job_id] = job
    return trial, job


@JOB_STEPS.of(f.JobPlaced)
def _placed(state: ExperimentState, fact: f.JobPlaced, r: f.Recorded) -> None:
    trial, job = _attach(state, fact.job_id, fact)
    job.placed, job.waiting, job.placed_at = fact, None, r.at
    set_places(job, fact)
    forget_rooms(state)
    trial.preempted_by, trial.is_reshaping = None, False
    trial.reason = _starting_reason(state, job)
    reindex(state, trial)


def _starting_reason(state: ExperimentState, job: JobState) -> str:
    number = number_of_members(state, job)
    return "is being started" if number is None else f"is being started with {number}"


@JOB_STEPS.of(f.JobWaiting)
def _waiting(state: ExperimentState, fact: f.JobWaiting, r: f.Recorded) -> None:
    trial, job = _attach(state, fact.job_id, fact)
    job.waiting = trial.reason = fact.reason
    job.waits_since = job.waits_since or r.at
    if trial.preempted_by is not None:
        trial.reason = f"{preemption_reason(trial)}; {fact.reason}"
    reindex(state, trial)


@JOB_STEPS.of(f.JobStarted)
def _started(state: ExperimentState, fact: f.JobStarted, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    meter_trial_time(state, r.at)
    job.started_at, job.pid = fact.started_at, fact.pid
    trial.started_at, trial.running_since = fact.started_at, r.at
    trial.note = None  # the note explained why the start was delayed
    trial.previous_resources = None  # the present resources are possible
    if job.stop is None:
        trial.reason = waiting_reason(trial) or about_members(state, trial, job)
    move(state, trial, f.TrialStatus.RUNNING)
    reindex(state, trial)


@JOB_STEPS.of(f.MetricReported)
def _metric(state: ExperimentState, fact: f.MetricReported, r: f.Recorded) -> None:
    job_id = fact.job_id
    if job_id in state.jobs:
        job = job_touched(state, job_id)
        job.recorded += 1
        job.left = False
        trial_id = job.trial_id
    else:  # the log of an earlier version recorded a reused result as a metric (see ResultReused)
        trial_id, _ = trial_of_job(job_id)
    trial = state.trials[trial_id]
    state.touched.trials[trial_id] = trial
    if fact.type == _FINAL:
        if state.limits.multi_phase:
            take_final(state, trial, fact)
        elif trial.final_text is None:
            trial.final_value, trial.final_text = fact.value, fact.text
        else:
            note_on_final(trial, fact, first=trial.final_text)
    else:
        note_on_intermediate(state, trial, fact)
        trial.latest_value, trial.latest_text = fact.value, fact.text
        trial.intermediates += 1


@JOB_STEPS.of(f.FrameSkipped)
def _skipped(state: ExperimentState, fact: f.FrameSkipped, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.recorded += 1
    # ``left`` stays: a paused trial can be continued, while one that counts as ended would lose its result
    trial_touched(state, job.trial_id, fact).note = fact.reason


@JOB_STEPS.of(f.StopOrdered)
def _stop_ordered(state: ExperimentState, fact: f.StopOrdered, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.stop, job.stop_at = fact, r.at
    trial = trial_touched(state, job.trial_id, fact)
    trial.reason = stopping_reason(state, trial)
    if trial.unknown_since is not None:
        trial.reason += f"; the stop cannot reach its host: {silence(state, trial)}"
    if fact.cmd_seq is None:  # the job had no place, so none of its processes runs
        _close(state, job, trial, r)
    else:
        reindex(state, trial)


@JOB_STEPS.of(f.JobEnded)
def _job_ended(state: ExperimentState, fact: f.JobEnded, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.ended, job.cause = fact, cause_of(fact, stopped=job.stop is not None)
    if trial.target is f.StopKind.PREEMPT and _gave_way(job, fact):
        job.cause = f.Cause.PREEMPTED
    if fact.reason is f.EndReason.CHECKPOINT_LOST:
        drop_origin(state, trial, failing_keeper(job))
    job.ended_at = max(fact.ended_at, job.started_at or fact.ended_at)  # a host's clock can be set back
    if job.placed is not None and not job.members:  # the ends of members have said this for each keeper
        keeper = state.keepers[job.placed.place.keeper_id]
        keeper.acked_cmd = max(keeper.acked_cmd, fact.acked_cmd)
    failed = fact.reason is f.EndReason.EXITED and fact.exit_code != 0
    if fact.message and not failed:  # for a failed trial, the message is already part of the reason
        trial.note = fact.message
    _close(state, job, trial, r)


def _gave_way(job: JobState, end: f.JobEnded) -> bool:
    """Return whether a job that was stopped for another experiment has ended because of this."""
    if end.reason is f.EndReason.EXITED:
        return job.left and end.exit_code == 0
    return end.reason in (f.EndReason.STOPPED, f.EndReason.NEVER_STARTED)


@JOB_STEPS.of(f.PreemptionWanted)
def _preemption_wanted(state: ExperimentState, fact: f.PreemptionWanted, r: f.Recorded) -> None:
    trial = trial_touched(state, state.jobs[fact.job_id].trial_id, fact)
    trial.target, trial.preempted_by = f.StopKind.PREEMPT, fact.by
    trial.target_reason = (
        f"trials of experiment {fact.by}, which has a higher priority, need the trial's resources"
    )
    reindex(state, trial)


@JOB_STEPS.of(f.JobLost)
def _job_lost(state: ExperimentState, fact: f.JobLost, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.lost, job.cause, job.ended_at, job.unproven = fact.reason, fact.cause, r.at, fact.unproven
    if job.started_at is not None and trial.running_since is not None:
        job.ended_at = job.started_at + (r.at - trial.running_since)  # by the clock of the host
    _close(state, job, trial, r)


# ---- members of gangs -------------------------------------------------------------------------------------


@JOB_STEPS.of(f.MemberStarted)
def _member_started(state: ExperimentState, fact: f.MemberStarted, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    member = job.members[fact.member]
    member.started_at, member.pid = fact.started_at, fact.pid
    reindex(state, state.trials[job.trial_id])


@JOB_STEPS.of(f.GangGathered)
def _gathered(state: ExperimentState, fact: f.GangGathered, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.gathered = True
    for member, order in zip(job.members[1:], fact.orders, strict=True):
        member.go = order
    reindex(state, state.trials[job.trial_id])


@JOB_STEPS.of(f.MembersStopped)
def _members_stopped(state: ExperimentState, fact: f.MembersStopped, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    for number, order in fact.orders:
        job.members[number].stop = order
    reindex(state, state.trials[job.trial_id])


@JOB_STEPS.of(f.MemberEnded)
def _member_ended(state: ExperimentState, fact: f.MemberEnded, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    member = job.members[fact.member]
    member.ended = fact
    keeper = state.keepers[member.place.keeper_id]
    keeper.acked_cmd = max(keeper.acked_cmd, fact.acked_cmd)
    if fact.member == 0 and not member.failed and job.first is None and job.stop is None:
        job.leader_done_at = r.at
    _member_over(state, job, fact)
    _release(state)


@JOB_STEPS.of(f.MemberLost)
def _member_lost(state: ExperimentState, fact: f.MemberLost, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.members[fact.member].lost = fact
    _member_over(state, job, fact)


def _member_over(state: ExperimentState, job: JobState, fact: f.MemberEnded | f.MemberLost) -> None:
    trial = trial_touched(state, job.trial_id, fact)
    if job.members[fact.member].failed and job.stop is None and job.leader_done_at is None:
        job.first = fact.member if job.first is None else job.first
    if trial.status is f.TrialStatus.UNKNOWN:
        _end_silence(state, job, trial)
    if job.leader_done_at is not None and job.stop is None:
        trial.reason = barrier_reason(state, job)
        if trial.status is f.TrialStatus.UNKNOWN:
            trial.reason = f"{silence(state, trial)}; {trial.reason}"
    reindex(state, trial)


# ---- the ends of jobs -------------------------------------------------------------------------------------


def _close(state: ExperimentState, job: JobState, trial: TrialState, r: f.Recorded) -> None:
    if not job.closed:
        then = "while it waited for a place" if job.placed is None else "first"
        job.lost = f"the trial ended {then}"
        job.ended_at = r.at
    trial.closed_job, trial.job_id = job.id, None
    trial.frames = job.recorded
    if trial.running_since is not None:
        meter_trial_time(state, r.at)
        trial.ran += r.at - trial.running_since
        trial.running_since = None
    trial.wants.clear()
    trial.slot_lent = trial.save_wanted = False
    state.closing_jobs[job.id] = None
    reindex(state, trial)
    _release(state)


@JOB_STEPS.of(f.JobNoted)
def _job_noted(state: ExperimentState, fact: f.JobNoted, r: f.Recorded) -> None:
    trial_id, _ = trial_of_job(fact.job_id)
    note(state, trial_id, fact.note)


def _release(state: ExperimentState) -> None:
    """Delete ended jobs whose last command was acknowledged by the keeper (the agent beside the trials)."""
    for job_id in list(state.closing_jobs):
        if state.is_acknowledged(state.jobs[job_id]):
            del state.jobs[job_id], state.closing_jobs[job_id]


# ---- keepers ----------------------------------------------------------------------------------------------


@JOB_STEPS.of(f.KeeperEnrolled)
def _enrolled(state: ExperimentState, fact: f.KeeperEnrolled, r: f.Recorded) -> None:
    known = state.keepers.get(fact.keeper_id)
    if known is None:
        state.keepers[fact.keeper_id] = KeeperState(token_sha256=fact.token_sha256)
    else:
        known.token_sha256 = fact.token_sha256
    state.touched.keepers.add(fact.keeper_id)


@JOB_STEPS.of(f.KeeperBound)
def _bound(state: ExperimentState, fact: f.KeeperBound, r: f.Recorded) -> None:
    keeper = state.keepers[fact.keeper_id]
    if keeper.instance != fact.instance:
        keeper.acked_cmd = 0
        if keeper.instance is not None:
            keeper.retired.append(keeper.instance)
    keeper.instance, keeper.boot_id = fact.instance, fact.boot_id
    state.touched.keepers.add(fact.keeper_id)
    give_up_host(state, fact.keeper_id)
    _release(state)


@JOB_STEPS.of(f.KeeperAcknowledged)
def _acknowledged(state: ExperimentState, fact: f.KeeperAcknowledged, r: f.Recorded) -> None:
    state.keepers[fact.keeper_id].acked_cmd = fact.acked_cmd
    _release(state)


@JOB_STEPS.of(f.KeeperSilent)
def _silent(state: ExperimentState, fact: f.KeeperSilent, r: f.Recorded) -> None:
    state.keepers[fact.keeper_id].silent = fact.reason
    give_up_host(state, fact.keeper_id)
    for job in state.open_jobs_at(fact.keeper_id):
        if state.trials[job.trial_id].status is not f.TrialStatus.UNKNOWN:
            trial = trial_touched(state, job.trial_id, fact)
            trial.unknown_since = r.at
            trial.reason = f"{silence(state, trial)}; {_ways_out(state, trial)}"
            move(state, trial, f.TrialStatus.UNKNOWN)
            reindex(state, trial)


@JOB_STEPS.of(f.KeeperHeard)
def _heard(state: ExperimentState, fact: f.KeeperHeard, r: f.Recorded) -> None:
    state.keepers[fact.keeper_id].silent = None
    for job in state.open_jobs_at(fact.keeper_id):
        if state.trials[job.trial_id].status is f.TrialStatus.UNKNOWN:
            _end_silence(state, job, trial_touched(state, job.trial_id, fact))


def _end_silence(state: ExperimentState, job: JobState, trial: TrialState) -> None:
    """Give an UNKNOWN trial the status that it had before, unless another host of its gang is silent."""
    if is_silent(state, job):
        return
    started = job.started_at is not None
    if job.stop is not None:
        trial.reason = stopping_reason(state, trial)
    elif job.leader_done_at is not None:
        trial.reason = barrier_reason(state, job)
    elif started:
        trial.reason = waiting_reason(trial) or about_members(state, trial, job)
    else:
        trial.reason = _starting_reason(state, job)
    move(state, trial, f.TrialStatus.RUNNING if started else f.TrialStatus.WAITING)
    reindex(state, trial)


@JOB_STEPS.of(f.KeeperGone)
def _gone(state: ExperimentState, fact: f.KeeperGone, r: f.Recorded) -> None:
    _acknowledge_nothing(state, fact.keeper_id)
    del state.keepers[fact.keeper_id]
    state.touched.keepers.add(fact.keeper_id)
    give_up_host(state, fact.keeper_id)


def _acknowledge_nothing(state: ExperimentState, keeper_id: str) -> None:
    """Delete the ended jobs of this keeper, because the keeper will acknowledge no more commands."""
    for job in state.jobs.values():
        for member in job.members:
            member.dismissed = member.dismissed or member.place.keeper_id == keeper_id
    for job_id in list(state.closing_jobs):
        job = state.jobs[job_id]
        placed = job.placed is not None and job.placed.place.keeper_id == keeper_id
        if state.is_acknowledged(job) if job.members else placed:
            del state.jobs[job_id], state.closing_jobs[job_id]


def silence(state: ExperimentState, trial: TrialState) -> str:
    """Return a sentence about an UNKNOWN trial: since when and why its host is silent."""
    assert trial.job_id is not None and trial.unknown_since is not None
    seats = state.jobs[trial.job_id].seats()
    told = (state.keepers[seat.place.keeper_id].silent for seat in seats if seat.open)
    since = trial.unknown_since.astimezone(UTC)
    return f"unknown since {since:%Y-%m-%d %H:%M:%S} UTC: {next(filter(None, told), None)}"


def _ways_out(state: ExperimentState, trial: TrialState) -> str:
    """Return a sentence that lists the events which would end the trial's UNKNOWN status."""
    job = state.jobs[trial.job_id or ""]
    if job.leader_done_at is not None and job.stop is None:
        return barrier_reason(state, job)
    lease, command = state.config.get("lease"), f"nnictl trial lost {state.id} -T {trial.id}"
    if lease is not None:
        return (
            f"the trial continues when its machine answers again; otherwise it ends when its lease ({lease}) "
            f'expires, and is retried (to retry it now: "{command}")'
        )
    return (
        "the trial continues when its machine answers again, and is retried if the machine was restarted "
        f'(if the machine will not come back: "{command}")'
    )


@JOB_STEPS.of(f.LossDeclared)
def _loss_declared(state: ExperimentState, fact: f.LossDeclared, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.declared_lost = True
    reindex(state, trial)


@JOB_STEPS.of(f.SlotLent)
def _slot_lent(state: ExperimentState, fact: f.SlotLent, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.slot_lent = True
    trial.reason = f"{trial.reason}; its slot is given to another trial meanwhile"
    reindex(state, trial)


# ---- machines ---------------------------------------------------------------------------------------------


@JOB_STEPS.of(f.MachineAdded)
def _machine_added(state: ExperimentState, fact: f.MachineAdded, r: f.Recorded) -> None:
    before = state.machines.get(fact.keeper_id)
    added = fact.machine if fact.machine is not None or before is None else before.added
    state.machines[fact.keeper_id] = MachineState(added=added)
    recount(state, fact.keeper_id)


@JOB_STEPS.of(f.MachineDrained)
def _machine_drained(state: ExperimentState, fact: f.MachineDrained, r: f.Recorded) -> None:
    state.machines.setdefault(fact.keeper_id, MachineState()).draining = True


@JOB_STEPS.of(f.MachineRemoved)
def _machine_removed(state: ExperimentState, fact: f.MachineRemoved, r: f.Recorded) -> None:
    machine = state.machines.setdefault(fact.keeper_id, MachineState())
    machine.draining = machine.removing = True
    machine.forced = machine.forced or fact.force
    give_up_host(state, fact.keeper_id)


@JOB_STEPS.of(f.MachineGone)
def _machine_gone(state: ExperimentState, fact: f.MachineGone, r: f.Recorded) -> None:
    state.machines[fact.keeper_id].gone = not fact.returns
    if (keeper := state.keepers.get(fact.keeper_id)) is not None:
        keeper.silent = None  # no more messages are expected from this keeper
    give_up_host(state, fact.keeper_id)
    _acknowledge_nothing(state, fact.keeper_id)
