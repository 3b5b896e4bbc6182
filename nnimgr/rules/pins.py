"""Pins: checkpoints that users want to keep, also after the end of their trials."""

from __future__ import annotations

from dataclasses import replace

from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import checkpoint_of
from nnimgr.rules.indexes import reindex
from nnimgr.rules.pruning import retain
from nnimgr.rules.state import CheckpointState, ExperimentState, trial_of_job
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import trial_touched

__all__ = ["PIN_STEPS"]

PIN_STEPS = Steps()


@PIN_STEPS.of(f.CheckpointPinned)
def _pinned(state: ExperimentState, fact: f.CheckpointPinned, r: f.Recorded) -> None:
    trial_id, attempt = trial_of_job(fact.job_id)
    pins = state.pins.pop(trial_id, [])
    others = [each for each in pins if (each.origin.attempt, each.origin.number) != (attempt, fact.number)]
    known = checkpoint_of(state, fact.job_id, fact.number)
    if fact.pinned and known is not None:
        others.append(replace(known))
    elif fact.pinned and fact.origin is not None:
        others.append(CheckpointState(origin=fact.origin, instance=""))
    if others:
        state.pins[trial_id] = others
    if trial_id in state.trials:
        trial = trial_touched(state, trial_id, fact)
        retain(state, trial)
        if known is None:  # the trial has gone back to an earlier checkpoint: only the pin has kept this one
            trial.pruned += [each.origin for each in pins if each not in others]
        reindex(state, trial)
