"""Limit of the bytes that the checkpoints of an experiment hold on hosts (``checkpoints.limit``).

Only an experiment with a limit counts these bytes (``ExperimentState.held``), and remembers what its ended
trials have left (``ExperimentState.left``). If the limit is exceeded, the checkpoints of ended trials are
deleted, those of the trial that ended first before all others.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnimgr.rules import facts as f
from nnimgr.rules.indexes import reindex
from nnimgr.rules.retention import borrowed, has_files, on_hosts, pinned
from nnimgr.rules.state import (
    ExperimentState,
    LeftCheckpoints,
    TrialState,
    job_id_of,
    trial_of_job,
)
from training_services.base import shown_bytes

__all__ = ["delete_left", "excess_of", "is_deleted", "keep_to_limit", "leave_files", "recount"]


def keep_to_limit(state: ExperimentState) -> Iterator[f.CheckpointsPruned]:
    """Yield the facts that allow to delete checkpoints of ended trials, until the limit is kept.

    Pinned checkpoints, and those from which other trials continue, stay.
    """
    excess = _excess(state)
    for job_id, left in state.left.items():
        if excess <= 0:
            return
        trial_id, attempt = trial_of_job(job_id)
        needed = borrowed(state, trial_id) | pinned(state, trial_id)
        up_to = 0
        for number, size in left.sizes:
            if excess > 0 and (attempt, number) not in needed:
                up_to, excess = number, excess - size
        if up_to:
            keep = tuple(sorted(number for of, number in needed if of == attempt and number < up_to))
            yield f.CheckpointsPruned(job_id=job_id, keeper_id=left.keeper_id, up_to=up_to, keep=keep)


def excess_of(state: ExperimentState) -> str | None:
    """Return a sentence about a limit that is exceeded although nothing more can be deleted; else None."""
    limit = state.limits.checkpoints_limit
    if limit is None or state.held <= limit:
        return None
    return (
        f"the checkpoints of the experiment hold {shown_bytes(state.held)}, more than checkpoints.limit "
        f"({shown_bytes(limit)}), and nothing more can be deleted: the rest is pinned, or belongs to trials "
        "that have not ended"
    )


def is_deleted(state: ExperimentState, job_id: str, number: int) -> bool:
    """Return whether a checkpoint of an ended trial was deleted because of the limit, or with its host."""
    if state.limits.checkpoints_limit is None:
        return False
    left = state.left.get(job_id)
    return left is None or all(each != number for each, _ in left.sizes)


def leave_files(state: ExperimentState, trial: TrialState) -> None:
    """Remember the checkpoints that an ended trial leaves on hosts. Call this while the trial is in the
    state.
    """
    if state.limits.checkpoints_limit is None:
        return
    for each in sorted(on_hosts(state, trial), key=lambda each: (each.origin.attempt, each.origin.number)):
        job_id = job_id_of(state.id, trial.id, each.origin.attempt)
        left = LeftCheckpoints(keeper_id=each.origin.keeper_id, instance=each.instance)
        state.left.setdefault(job_id, left).sizes.append((each.origin.number, each.size))
        state.held += each.size


def delete_left(state: ExperimentState, fact: f.CheckpointsPruned) -> None:
    """Forget checkpoints of an ended trial that are deleted on their host."""
    left = state.left.get(fact.job_id)
    if left is None or left.keeper_id != fact.keeper_id:
        return
    stay = [entry for entry in left.sizes if entry[0] > fact.up_to or entry[0] in fact.keep]
    state.held -= left.size - sum(size for _, size in stay)
    left.sizes = stay
    if not stay:
        del state.left[fact.job_id]


def recount(state: ExperimentState, keeper_id: str) -> None:
    """Count the bytes on this host again, because the host may have lost its files, or is used again."""
    if state.limits.checkpoints_limit is None:
        return
    for trial in list(state.trials.values()):
        if trial.checkpoints or trial.held or trial.origin is not None or trial.id in state.pins:
            reindex(state, trial)
    for job_id, left in list(state.left.items()):
        if left.keeper_id == keeper_id and not has_files(state, keeper_id, left.instance):
            state.held -= left.size
            del state.left[job_id]


def _excess(state: ExperimentState) -> int:
    limit = state.limits.checkpoints_limit
    return 0 if limit is None else state.held - limit
