"""What the steps of the fold have in common: the table of transitions, and bringing the indexes in line."""

from __future__ import annotations

from collections.abc import Mapping

from nnimgr.rules import facts as f
from nnimgr.rules.state import (
    ExperimentState,
    JobState,
    TrialState,
    is_condemned,
    is_queued,
    is_unsettled,
)

W, R, P, U = f.TrialStatus.WAITING, f.TrialStatus.RUNNING, f.TrialStatus.PAUSED, f.TrialStatus.UNKNOWN

TRANSITIONS: Mapping[type[f.Fact], frozenset[f.TrialStatus]] = {
    f.JobStarted: frozenset({W, U}),  # -> RUNNING
    f.JobEnded: frozenset({W, R, U}),  # stays until the plan has decided
    f.JobLost: frozenset({W, R, U}),
    f.AttemptDue: frozenset({W, R, P, U}),  # -> WAITING
    f.TrialPaused: frozenset({W, R, U}),  # -> PAUSED
    f.TrialEnded: frozenset({W, R, P, U}),  # -> its status
    f.KeeperSilent: frozenset({W, R}),  # -> UNKNOWN, if it has a place
    f.KeeperHeard: frozenset({U}),  # -> WAITING or RUNNING, as before
    f.LossDeclared: frozenset({U}),
    f.SlotLent: frozenset({U}),
}


class InvalidTransition(Exception):
    """A fact that the trial's status does not allow."""

    def __init__(self, trial: TrialState, fact: f.Fact) -> None:
        super().__init__(f"trial {trial.id} is {trial.status} and cannot take {fact}")


def trial_touched(state: ExperimentState, trial_id: str, fact: f.Fact) -> TrialState:
    """The trial, marked as touched, if its status allows the fact."""
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


def reindex(state: ExperimentState, trial: TrialState) -> None:
    """Bring the derived sets in line with one trial."""
    for index, member in (
        (state.queued, is_queued(trial)),
        (state.retrying, trial.due_at is not None and is_queued(trial)),
        (state.unsettled, is_unsettled(trial)),
        (state.condemned, is_condemned(state, trial)),
        (state.running, trial.running_since is not None),
        (state.unknown, trial.unknown_since is not None),
        (state.lent, trial.slot_lent),
        (state.wanting, bool(trial.wants)),
        (state.reported, bool(trial.untold)),
    ):
        if not member:
            index.pop(trial.id, None)
        elif trial.id not in index:
            index[trial.id] = None
    if trial.target is not None:
        state.superseded.pop(trial.id, None)


def note(state: ExperimentState, trial_id: str, note: str) -> None:
    """Put a sentence on a trial, which may have ended long ago."""
    if (trial := state.trials.get(trial_id)) is not None:
        trial.note = note
        state.touched.trials[trial_id] = trial
    else:
        state.touched.notes[trial_id] = note
