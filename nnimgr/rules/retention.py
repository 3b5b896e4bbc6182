"""Which checkpoints of a trial stay, and what they hold, as far as this follows from the state alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nnimgr.rules import facts as f
from nnimgr.rules.state import CheckpointState, ExperimentState, TrialState, job_id_of

__all__ = [
    "best_checkpoints",
    "borrowed",
    "borrows",
    "has_files",
    "held_by",
    "loans",
    "needed_copies",
    "on_hosts",
    "pinned",
]


def pinned(state: ExperimentState, trial_id: str) -> set[tuple[int, int]]:
    """Return (attempt, number) of the checkpoints of a trial that users have pinned. The trial may have
    ended.
    """
    return {(each.origin.attempt, each.origin.number) for each in state.pins.get(trial_id, ())}


def borrowed(state: ExperimentState, trial_id: str) -> set[tuple[int, int]]:
    """Return (attempt, number) of the trial's checkpoints from which legs continue or will continue."""
    return {(point.origin.attempt, point.origin.number) for _, point in loans(state, trial_id)}


def borrows(checkpoint: CheckpointState) -> bool:
    """Return whether a trial that continues from the checkpoint borrows it from another trial."""
    return checkpoint.origin.trial_id is not None


def loans(state: ExperimentState, trial_id: str) -> Iterator[tuple[TrialState, CheckpointState]]:
    """Yield each trial that continues or will continue from a checkpoint of this trial, which may have ended,
    and its record of the checkpoint.

    A trial that has saved a state of its own no longer needs the one that it began with.
    """
    for name in state.borrowing:
        borrower = state.trials[name]
        origin = None if borrower.checkpoints else borrower.origin
        coming = None if borrower.next_leg is None else borrower.next_leg.checkpoint
        for point in (origin, coming):
            if point is not None and (point.origin.trial_id or name) == trial_id:
                yield borrower, point


def best_checkpoints(state: ExperimentState, checkpoints: Sequence[CheckpointState]) -> list[f.Origin]:
    """Return the ``keepBest`` checkpoints with the best results, the best first.

    The result of a checkpoint is the last intermediate result before it. A checkpoint without a number as its
    result is never among them. Of two equal results, the newer checkpoint is better.
    """
    most = state.limits.checkpoints_best
    if not most:
        return []
    sign = 1 if state.minimises else -1
    ranked = [
        (sign * value, -age, each.origin)
        for age, each in enumerate(checkpoints)
        if (value := each.latest_value) is not None and math.isfinite(value)
    ]
    ranked.sort(key=lambda entry: entry[:2])
    return [origin for _, _, origin in ranked[:most]]


def needed_copies(state: ExperimentState, trial: TrialState) -> list[f.Origin]:
    """Return the checkpoints whose copies are needed: the newest one of which the server has a copy.

    With a storage, also the newest one that the storage has, and the one that it gets next. So the storage
    always has a copy, however long a transfer takes.
    """
    copied = [each.origin for each in trial.checkpoints if each.kept is not None]
    needed = copied[-1:]
    if state.limits.stores_copies:
        stored = [
            index
            for index, each in enumerate(copied)
            if each.number in state.stored.get(job_id_of(state.id, trial.id, each.attempt), ())
        ]
        newest = stored[-1] if stored else -1
        needed += copied[max(newest, 0) : newest + 2]
    return needed


def has_files(state: ExperimentState, keeper_id: str, instance: str) -> bool:
    """Return whether the experiment still has files in this directory of a host."""
    keeper, machine = state.keepers.get(keeper_id), state.machines.get(keeper_id)
    if keeper is None or keeper.vanished or keeper.instance != instance:
        return False
    return machine is None or not machine.gone


def on_hosts(state: ExperimentState, trial: TrialState) -> list[CheckpointState]:
    """Return the checkpoints of a live trial whose files are on hosts, each once."""
    own = trial.origin is not None and trial.origin.origin.trial_id is None
    points = (*trial.checkpoints, *state.pins.get(trial.id, ()), *((trial.origin,) if own else ()))
    named = {(each.origin.attempt, each.origin.number): each for each in points if each is not None}
    return [each for each in named.values() if has_files(state, each.origin.keeper_id, each.instance)]


def held_by(state: ExperimentState, trial: TrialState) -> int:
    """Return the bytes of a live trial's checkpoints on hosts; 0 if the experiment does not limit them."""
    if state.limits.checkpoints_limit is None:
        return 0
    return sum(each.size for each in on_hosts(state, trial))
