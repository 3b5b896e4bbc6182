"""Decides how long to wait for silent hosts, and which of their attempts count as lost after the wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from nnimgr.rules import facts as f
from nnimgr.rules.fold_jobs import silence
from nnimgr.rules.gangs import barrier_at, losses
from nnimgr.rules.phrases import in_seconds
from nnimgr.rules.state import (
    ExperimentState,
    JobState,
    TrialState,
)
from training_services.base import TRIAL_GRACE

SILENT_GRACE = timedelta(seconds=10)  # longest wait for a silent host after a user's stop
# most time from an experiment's stop to the end of trials, beside the time in which they save their state
STOP_LIMIT = TRIAL_GRACE + timedelta(seconds=4)


def give_up_silent(state: ExperimentState, now: datetime) -> Iterator[f.Fact]:
    """Yield the facts that are due for trials on silent hosts, because the wait for a host was too long.

    An attempt that a user has stopped or declared lost counts as lost. The slot of any other trial is lent to
    another trial.
    """
    for trial_id in state.unknown:
        trial = state.trials[trial_id]
        if trial.job_id is None:
            continue
        job = state.jobs[trial.job_id]
        due = given_up_at(state, trial, job)
        silent = {name for name, keeper in state.keepers.items() if keeper.silent is not None}
        if trial.declared_lost and job.stop is not None:
            reason = "a user declared the trial lost, while its machine was silent"
            yield from losses(job, reason, keepers=silent, stopped=True)
        elif due is not None and due <= now:
            reason = f"the trial may still run on its machine ({silence(state, trial)})"
            yield from losses(job, reason, keepers=silent, unproven=True, stopped=True)
        elif not trial.slot_lent and lent_at(state, trial) <= now:
            yield f.SlotLent(trial_id=trial_id)


def give_up_overdue(state: ExperimentState, now: datetime) -> Iterator[f.Fact]:
    """Yield the losses of the jobs that have not ended in time after the experiment's stop."""
    due = overdue_at(state)
    if due is None or due > now:
        return
    for job in state.jobs.values():
        trial = state.trials.get(job.trial_id)
        if trial is not None and trial.job_id == job.id and trial.target is not None:
            limit = in_seconds(_stop_limit(state))
            reason = f"the trial's end was not reported within {limit}; it may still run on its machine"
            yield from losses(job, reason, keepers=None, unproven=True)


def overdue_at(state: ExperimentState) -> datetime | None:
    """Return the time until which all trials must end after the experiment's stop; None without a stop.

    A restart of the server allows the full time again.
    """
    if state.stop_requested_at is None or state.detached or not state.unfinished:
        return None
    return max(state.stop_requested_at, state.opened_at or state.stop_requested_at) + _stop_limit(state)


def _stop_limit(state: ExperimentState) -> timedelta:
    """Return the most time that the experiment's stop allows: trials may need a part of it to save."""
    stops = (job.stop for job in state.jobs.values() if not job.closed)
    saves = (stop.save_within for stop in stops if stop is not None and stop.save_within is not None)
    return STOP_LIMIT + max(saves, default=timedelta(0))


def _silent_since(state: ExperimentState, trial: TrialState) -> datetime:
    """Return the start of the silence of the trial's host, but not before this server opened the experiment.

    Earlier silence does not count, because no host could reach this server earlier.
    """
    assert trial.unknown_since is not None
    return max(trial.unknown_since, state.opened_at or trial.unknown_since)


def given_up_at(state: ExperimentState, trial: TrialState, job: JobState) -> datetime | None:
    """Return the time at which an attempt on a silent host counts as lost after a user's stop, or at which a
    gang's members count as lost after its exit barrier; None if never.

    This is safe: no further attempt follows, so two attempts cannot run at the same time. A stop of the
    experiment counts as a user's stop of every trial, even of trials that a limit or the assessor stops.
    """
    wanted = trial.target in (f.StopKind.USER, f.StopKind.CUT) or (
        state.stop_requested and not state.detached
    )
    barrier = barrier_at(state, job)
    since = [at for at in (job.stop_at if wanted else None, barrier) if at is not None]
    return max(_silent_since(state, trial), min(since)) + SILENT_GRACE if since else None


def lent_at(state: ExperimentState, trial: TrialState) -> datetime:
    """Return the time at which the slot of a trial on a silent host is lent to another trial."""
    return _silent_since(state, trial) + state.limits.slot_held_for
