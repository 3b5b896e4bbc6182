"""Table of the trial statuses in which each fact is allowed, and helpers that record which objects a fact
has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, JobState, TrialState

W, R, P, U = f.TrialStatus.WAITING, f.TrialStatus.RUNNING, f.TrialStatus.PAUSED, f.TrialStatus.UNKNOWN

TRANSITIONS: Mapping[type[f.Fact], frozenset[f.TrialStatus]] = {
    f.JobStarted: frozenset({W, U}),  # becomes RUNNING
    f.JobEnded: frozenset({W, R, U}),  # status unchanged until the plan has decided
    f.JobLost: frozenset({W, R, U}),
    f.ResultReused: frozenset({W}),  # the end of the trial follows
    f.Decided: frozenset({W, R, P, U}),  # status unchanged
    f.PreemptionWanted: frozenset({W, R}),  # status unchanged
    f.FewerMembersWanted: frozenset({W, R}),  # status unchanged
    f.AttemptDue: frozenset({W, R, P, U}),  # becomes WAITING
    f.TrialPaused: frozenset({W, R, P, U}),  # becomes PAUSED
    f.TrialEnded: frozenset({W, R, P, U}),  # becomes the fact's status
    f.KeeperSilent: frozenset({W, R}),  # becomes UNKNOWN if the trial is placed
    f.KeeperHeard: frozenset({U}),  # becomes WAITING or RUNNING, as before the silence
    f.LossDeclared: frozenset({U}),
    f.SlotLent: frozenset({U}),
}


class InvalidTransition(Exception):
    """Error: the trial's status does not allow the fact."""

    def __init__(self, trial: TrialState, fact: f.Fact) -> None:
        super().__init__(f"trial {trial.id} is {trial.status} and cannot take {fact}")


def trial_touched(state: ExperimentState, trial_id: str, fact: f.Fact) -> TrialState:
    """Mark a trial as changed by the fact, and return the trial.

    Raise InvalidTransition if the trial's status forbids the fact.
    """
    trial = state.trials[trial_id]
    allowed = TRANSITIONS.get(type(fact))
    if allowed is not None and trial.status not in allowed:
        raise InvalidTransition(trial, fact)
    state.touched.trials[trial_id] = trial
    return trial


def job_touched(state: ExperimentState, job_id: str) -> JobState:
    job = state.jobs[job_id]
    state.touched.jobs[job_id] = job
    return job


def move(state: ExperimentState, trial: TrialState, status: f.TrialStatus) -> None:
    counts = state.counts
    counts[trial.status] -= 1
    if not counts[trial.status]:
        del counts[trial.status]
    counts[status] = counts.get(status, 0) + 1
    trial.status = status
    if status is not U:
        trial.unknown_since, trial.slot_lent, trial.declared_lost = None, False, False


def meter_trial_time(state: ExperimentState, at: datetime) -> None:
    """Add the running time of the trials up to ``at``. Call before a trial starts to run, or ends."""
    state.trial_time, state.trial_time_at = state.trial_time_for(at), at


# reason of a trial that a user has resumed when its attempt was already ordered to stop for the pause
TAKEN_BACK = "is being stopped for a pause that was taken back, may save its state first, and continues"


REMOVED = "its machine was removed by force"


def stopping_reason(state: ExperimentState, trial: TrialState) -> str:
    """Return the reason to show for a trial whose running attempt is ordered to stop."""
    if trial.target is None:
        job = state.jobs[trial.job_id or ""]
        if any(seat.place.keeper_id in state.forsaken for seat in job.seats()):
            return f"is being stopped, and runs again elsewhere: {REMOVED}"
        if trial.stranded:
            return "is being stopped, and starts again: the checkpoint from which it would continue is lost"
        return TAKEN_BACK
    if trial.target is f.StopKind.PAUSE:
        return f"is being paused, and may save its state first: {trial.target_reason}"
    if trial.target is f.StopKind.LEG:
        return f"is being stopped, and continues from another checkpoint: {trial.target_reason}"
    if trial.target in (f.StopKind.RESIZE, f.StopKind.SHRINK):
        return f"is being stopped, may save its state first, and continues: {trial.target_reason}"
    if trial.target is f.StopKind.GROW:
        return f"is being stopped, and continues with more members: {trial.target_reason}"
    if trial.target is f.StopKind.PREEMPT:
        return f"is being stopped, may save its state first, and continues later: {trial.target_reason}"
    return f"is being stopped: {trial.target_reason}"


def preemption_reason(trial: TrialState) -> str:
    """Return for whom the trial's last attempt was stopped."""
    return f"was stopped for trials of experiment {trial.preempted_by}, which has a higher priority"


def note(state: ExperimentState, trial_id: str, note: str) -> None:
    """Set the note (a sentence shown to users) of a trial, which may already have ended."""
    if (trial := state.trials.get(trial_id)) is not None:
        trial.note = note
        state.touched.trials[trial_id] = trial
    else:
        state.touched.notes[trial_id] = note
