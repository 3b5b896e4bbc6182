"""Which checkpoints of a trial stay, as far as this follows from the state alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnimgr.rules import facts as f
from nnimgr.rules.state import CheckpointState, ExperimentState

__all__ = ["best_checkpoints", "pinned"]


def pinned(state: ExperimentState, trial_id: str) -> set[tuple[int, int]]:
    """Return (attempt, number) of the checkpoints of a trial that users have pinned. The trial may have
    ended.
    """
    return {(each.origin.attempt, each.origin.number) for each in state.pins.get(trial_id, ())}


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
