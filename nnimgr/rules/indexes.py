"""Indexes of the state: sets of unfinished trials that need an action or a check.

The table ``INDEXES`` has one predicate per index. Each function that applies a fact to a trial calls
``reindex``. ``rebuild`` fills all indexes after a snapshot was loaded. ``nnimgr.rules.validate`` compares the
indexes with the predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from nnimgr.rules import gangs
from nnimgr.rules.facts import StopKind, SuggestionSource, TrialStatus
from nnimgr.rules.retention import held_by
from nnimgr.rules.state import ExperimentState, Touched, TrialState

__all__ = ["INDEXES", "is_queued", "is_unsettled", "rebuild", "reindex"]


def is_queued(trial: TrialState) -> bool:
    """Return whether the trial waits for a slot."""
    waits = trial.status is TrialStatus.WAITING and trial.reuse is None and not trial.stranded
    return waits and trial.job_id is None and trial.closed_job is None


def is_unsettled(trial: TrialState) -> bool:
    """Return whether the plan has to decide the next step of the trial.

    This is the case if the trial reuses a result, if its attempt has ended, if its pause has ended, if its
    next leg can begin, if it gets other resources, or if the checkpoint from which it waits to continue has
    become unusable.
    """
    if trial.closed_job is not None or (trial.reuse is not None and trial.status is TrialStatus.WAITING):
        return True
    if trial.stranded and trial.job_id is None and trial.target is None:
        return True
    if trial.target is StopKind.RESIZE and trial.job_id is None:
        return True
    if trial.next_leg is not None and trial.job_id is None and trial.target in (None, StopKind.LEG):
        return True
    return trial.status is TrialStatus.PAUSED and trial.target is None


def _is_condemned(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether the trial must be stopped, or was declared lost, and no stop was ordered yet."""
    if trial.declared_lost and trial.job_id is not None:
        return state.jobs[trial.job_id].stop is None
    if trial.target is None or trial.closed_job is not None:
        return False
    if trial.job_id is None:
        if trial.target in (StopKind.LEG, StopKind.RESIZE):
            return False  # the next attempt begins at once
        return trial.status is not TrialStatus.PAUSED or trial.target is not StopKind.PAUSE
    return state.jobs[trial.job_id].stop is None


def _borrows(trial: TrialState) -> bool:
    """Return whether the trial may have to continue from a checkpoint that its own list does not hold."""
    lent = trial.origin is not None and trial.origin.origin.trial_id is not None
    return trial.next_leg is not None or (lent and not trial.checkpoints)


INDEXES: Mapping[str, Callable[[ExperimentState, TrialState], bool]] = {
    "queued": lambda state, trial: is_queued(trial),
    "retrying": lambda state, trial: trial.due_at is not None and is_queued(trial),
    "unsettled": lambda state, trial: is_unsettled(trial),
    "condemned": _is_condemned,
    "running": lambda state, trial: trial.running_since is not None and not trial.ran,
    "continued": lambda state, trial: trial.running_since is not None and bool(trial.ran),
    "paused": lambda state, trial: trial.status is TrialStatus.PAUSED,
    "confirming": lambda state, trial: trial.source is SuggestionSource.CONFIRMATION,
    "stranded": lambda state, trial: trial.stranded,
    "hoarding": lambda state, trial: bool(trial.pruned),
    "borrowing": lambda state, trial: _borrows(trial),
    "saving": lambda state, trial: trial.save_wanted,
    "unknown": lambda state, trial: trial.unknown_since is not None,
    "lent": lambda state, trial: trial.slot_lent,
    "wanting": lambda state, trial: bool(trial.wants),
    "reported": lambda state, trial: bool(trial.untold),
    "gangs": gangs.is_due,
    "growable": gangs.is_growable,
    "growing": gangs.is_growing,
    "superseded": lambda state, trial: trial.superseded and trial.target is None,
}
"""Predicate of each index, by the name of the index's field in the state.

A predicate returns whether the index holds this live trial.
"""

_OLDEST_FIRST: Mapping[str, Callable[[TrialState], datetime | None]] = {
    "running": lambda trial: trial.running_since,
    "unknown": lambda trial: trial.unknown_since,
}


def reindex(state: ExperimentState, trial: TrialState) -> None:
    """Add one trial to the indexes that must hold it, and remove it from the other indexes. Count the bytes
    of its checkpoints again.

    The trial keeps its position in each index that already holds it.
    """
    live = trial.id in state.trials
    for name, holds in INDEXES.items():
        index: dict[str, None] = getattr(state, name)
        if live and holds(state, trial):
            index.setdefault(trial.id)
        else:
            index.pop(trial.id, None)
    held = held_by(state, trial) if live else 0
    state.held += held - trial.held
    trial.held = held


def rebuild(state: ExperimentState) -> None:
    """Fill all indexes again from the trials and jobs of the state."""
    for name, holds in INDEXES.items():
        held = [trial for trial in state.trials.values() if holds(state, trial)]
        since = _OLDEST_FIRST.get(name)
        if since is not None:
            held.sort(key=lambda trial: since(trial) or trial.created_at)
        setattr(state, name, dict.fromkeys(trial.id for trial in held))
    state.closing_jobs = dict.fromkeys(job.id for job in state.jobs.values() if job.closed)
    state.touched = Touched()
