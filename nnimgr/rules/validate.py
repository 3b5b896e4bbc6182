"""Checks the counters and indexes of an experiment's state, for tests."""

from __future__ import annotations

from nnimgr.rules.facts import JobPlaced, TrialStatus
from nnimgr.rules.gangs import is_silent
from nnimgr.rules.indexes import INDEXES
from nnimgr.rules.retention import held_by
from nnimgr.rules.state import ExperimentState, JobState, MemberState


def _validate_members(state: ExperimentState, job: JobState) -> None:
    """Raise AssertionError if the members of a gang's job do not agree with the job."""
    if not job.members:
        assert job.first is None and not job.gathered, f"job {job.id} has no members"
        return
    assert job.placed is not None and len(job.members) == 1 + len(job.placed.members), f"members of {job.id}"
    assert not job.gathered or job.started_at is not None, f"gang {job.id} was gathered before it started"
    if job.started_at is not None:
        assert all(member.started_at is not None for member in job.members), f"gang {job.id} has started"
    if not job.closed and state.trials[job.trial_id].status is TrialStatus.UNKNOWN:
        assert is_silent(state, job), f"gang {job.id} is on no silent host"


def validate(state: ExperimentState) -> None:
    """Raise AssertionError at the first counter or index that does not match the trials and jobs."""
    live: dict[TrialStatus, int] = {}
    for trial in state.trials.values():
        live[trial.status] = live.get(trial.status, 0) + 1
        assert not trial.status.terminal, f"the state has the ended trial {trial.id}"
        assert trial.job_id is None or trial.closed_job is None, f"trial {trial.id} has two jobs"
        if trial.job_id is not None:
            job = state.jobs[trial.job_id]
            assert not job.closed, f"trial {trial.id} holds the closed job {job.id}"
            assert (job.trial_id, job.attempt) == (trial.id, trial.attempt), (
                f"job {job.id} is of another trial"
            )
        assert trial.job_id is not None or not trial.wants, (
            f"trial {trial.id} wants parameters and has no job"
        )
    for status, number in live.items():
        assert state.counts.get(status) == number, f"{number} trials are {status}, counts say otherwise"
    for status, number in state.counts.items():
        assert number > 0 and (status in live or status.terminal), f"counts[{status}] is {number}"
    for job_id, numbers in state.stored.items():
        assert set(numbers) <= set(state.copies.get(job_id, ())), f"the storage has copies of {job_id}"
    held = sum(held_by(state, trial) for trial in state.trials.values())
    assert state.held == held + sum(left.size for left in state.left.values()), "bytes of checkpoints"
    for name, holds in INDEXES.items():
        ids = {trial.id for trial in state.trials.values() if holds(state, trial)}
        assert set(getattr(state, name)) == ids, f"{name}: {set(getattr(state, name)) ^ ids}"
    for trial in state.trials.values():
        unknown = trial.status is TrialStatus.UNKNOWN
        assert unknown == (trial.unknown_since is not None), f"trial {trial.id} is {trial.status}"
        assert trial.job_id is not None or not trial.slot_lent, (
            f"trial {trial.id} lends a slot and has no job"
        )
    for job in state.jobs.values():
        _validate_members(state, job)
    open_jobs = {job.id for job in state.jobs.values() if not job.closed}
    assert set(state.closing_jobs) == set(state.jobs) - open_jobs, "closing_jobs"
    for job_id in open_jobs:
        assert state.trials[state.jobs[job_id].trial_id].job_id == job_id, f"job {job_id} has no trial"
    # The numbers of commands start from 1 in a recreated keeper directory. Its first job may be recorded
    # before the fact KeeperBound, which records the directory. After a keeper has gone, what it has not
    # carried out is never sent, and the next keeper there may get these numbers again.
    placed: list[JobPlaced | MemberState] = [
        job.placed for job in state.jobs.values() if job.placed is not None and not job.members
    ]
    placed += [member for job in state.jobs.values() for member in job.members if not member.dismissed]
    commands = [(each.place.keeper_id, each.place.instance, each.cmd_seq) for each in placed]
    assert len(commands) == len(set(commands)), "a command number was given twice"
    created = sum(state.counts.values())
    # A restored older database lacks the trials that were created after the copy of the database.
    agrees = created <= state.next_sequence if state.missing else created == state.next_sequence
    assert state.number >= 0 and agrees, "sequence numbers"
