"""Decisions of the scheduler about trials: which are possible, and what they change.

The scheduler pauses trials, continues those that it has paused, and gives trials a next *leg*: a stretch with
other parameters, which continues from a checkpoint of any trial. It also gives trials other resources, which
need another attempt, too. It decides later than the events that it
decides about, so a decision may come too late. Then it is refused, with a reason.
"""

from __future__ import annotations

from dataclasses import replace

from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import begin_leg, checkpoint_of, is_usable
from nnimgr.rules.indexes import reindex
from nnimgr.rules.state import CheckpointState, ExperimentState, NextLeg, Resizing, TrialState, job_id_of
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import stopping_reason, trial_touched

__all__ = ["DECISION_STEPS", "NOTHING_SAVED", "begin_fork", "leg_lost", "recorded_as", "resources_refused"]

DECISION_STEPS = Steps()


NOTHING_SAVED = "the trial has saved no checkpoint"  # beginning of the reason of a refusal


def recorded_as(state: ExperimentState, decision: f.Decided | f.Verdict) -> tuple[f.Fact, ...]:
    """Return the facts to record for a decision: the decision itself, or why it is refused.

    Return no fact for a decision that is recorded already.
    """
    assert decision.cause is not None
    trial = state.trials.get(decision.trial_id)
    if trial is not None and decision.cause <= trial.decided:
        return ()
    kind = f.DecisionKind.STOP if isinstance(decision, f.Verdict) else decision.kind
    why = _refusal(state, trial, decision)
    if why is None:
        return (decision,)
    return (f.DecisionRefused(trial_id=decision.trial_id, kind=kind, cause=decision.cause, reason=why),)


def _refusal(state: ExperimentState, trial: TrialState | None, decision: f.Decided | f.Verdict) -> str | None:
    """Return why a decision is not possible; None if it is possible."""
    if trial is None:
        return "the trial has ended"
    by_user = trial.target is f.StopKind.PAUSE and trial.paused_by is f.PausedBy.USER
    if trial.is_to_end:
        return f"the trial is being stopped: {trial.target_reason}"
    if isinstance(decision, f.Verdict):
        return None
    if by_user:
        return "a user has paused the trial"
    if decision.kind is not f.DecisionKind.CONTINUE and trial.final_text is not None:
        return "the trial has reported its final result already"
    match decision.kind:
        case f.DecisionKind.PAUSE:
            if trial.target not in (None, f.StopKind.SHRINK, f.StopKind.PREEMPT):
                return f"the trial is already being interrupted: {trial.target_reason}"
            if not trial.checkpoints and trial.origin is None:
                return f"{NOTHING_SAVED}, from which it could continue later"
        case f.DecisionKind.CONTINUE:
            if trial.target is not f.StopKind.PAUSE:
                return f"the trial is {trial.status}, and is not being paused"
        case f.DecisionKind.EXPLOIT:
            return _no_exploit(state, decision)
        case f.DecisionKind.RESIZE:
            return _no_resize(state, trial, decision)
    return None


def _no_exploit(state: ExperimentState, decision: f.Decided) -> str | None:
    """Return why a trial cannot continue from the checkpoint that the decision names; None if it can."""
    if state.limits.multi_phase:
        return "the trials are multi-phase trials, which do not continue from checkpoints"
    donor, named = decision.donor or "", decision.checkpoint
    if named is None:
        return f"{NOTHING_SAVED}, and trial {donor} has saved none from which it could continue"
    source = state.trials.get(donor)
    if source is not None and source.final_text is not None:
        return f"trial {donor} has reported its final result, so it may have no step left"
    checkpoint = checkpoint_of(state, job_id_of(state.id, donor, named[0]), named[1])
    if checkpoint is None:
        return f"trial {donor} has no checkpoint {named[1]} of attempt {named[0]} any more"
    if not is_usable(state, checkpoint):
        return f"the host of checkpoint {named[1]} of trial {donor} cannot be used any more"
    return None


def _no_resize(state: ExperimentState, trial: TrialState, decision: f.Decided) -> str | None:
    """Return why a trial cannot get the resources that the decision names; None if it can."""
    for name in decision.resources or ():
        if name not in state.limits.resizable:
            return (
                f"{name} cannot be changed for single trials: the configuration does not give it as a plain "
                "number, or the training service gives all trials the same"
            )
    job = state.jobs.get(trial.job_id or "")
    if job is not None and job.placed is not None and not trial.checkpoints and trial.origin is None:
        return f"{NOTHING_SAVED}, from which it could continue with other resources"
    return None


def resources_refused(trial: TrialState, why: str) -> f.DecisionRefused | None:
    """Return the fact that the trial's new resources are not possible; None if it has no new resources."""
    before = trial.previous_resources
    if before is None:
        return None
    return f.DecisionRefused(trial_id=trial.id, kind=f.DecisionKind.RESIZE, cause=before.cause, reason=why)


def begin_fork(state: ExperimentState, trial: TrialState, origin: f.Origin) -> None:
    """Let a new trial begin with a checkpoint of another trial, which may have ended."""
    assert origin.trial_id is not None
    trial.forked = True
    found = checkpoint_of(state, job_id_of(state.id, origin.trial_id, origin.attempt), origin.number)
    if found is None:
        keeper = state.keepers.get(origin.keeper_id)
        instance = keeper.instance if keeper is not None else None
        found = CheckpointState(origin=origin, instance=instance or "")
    begin_leg(trial, replace(found, origin=origin, final_value=None, final_text=None))


def leg_lost(state: ExperimentState, trial: TrialState) -> f.DecisionRefused | None:
    """Return the fact that the trial's next leg cannot begin, because its checkpoint has become unusable."""
    leg = trial.next_leg
    if leg is None or is_usable(state, leg.checkpoint):
        return None
    origin = leg.checkpoint.origin
    reason = f"the host of the checkpoint of trial {origin.trial_id or trial.id} cannot be used any more"
    return f.DecisionRefused(trial_id=trial.id, kind=f.DecisionKind.EXPLOIT, cause=leg.cause, reason=reason)


# ---- steps of the fold ------------------------------------------------------------------------------------


@DECISION_STEPS.of(f.Decided)
def _decided(state: ExperimentState, fact: f.Decided, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.decided = fact.cause
    match fact.kind:
        case f.DecisionKind.PAUSE:
            trial.target, trial.paused_by = f.StopKind.PAUSE, f.PausedBy.SCHEDULER
            trial.target_reason = f"the scheduler paused it: {fact.reason}"
        case f.DecisionKind.CONTINUE:
            trial.target, trial.target_reason = None, ""
            trial.note = f"the scheduler continues the trial: {fact.reason}"
        case f.DecisionKind.EXPLOIT:
            _exploit(state, trial, fact)
        case f.DecisionKind.RESIZE:
            coming = trial.next_resources
            known = trial.resources if coming is None else coming.resources
            _resize(trial, fact.cause, {**known, **(fact.resources or {})}, fact.reason)
    if trial.job_id is not None and state.jobs[trial.job_id].stop is not None:
        trial.reason = stopping_reason(state, trial)
    reindex(state, trial)


def _exploit(state: ExperimentState, trial: TrialState, fact: f.Decided) -> None:
    assert fact.donor is not None and fact.checkpoint is not None and fact.parameters is not None
    attempt, number = fact.checkpoint
    checkpoint = checkpoint_of(state, job_id_of(state.id, fact.donor, attempt), number)
    assert checkpoint is not None
    if fact.donor != trial.id:
        origin = replace(checkpoint.origin, trial_id=fact.donor)
        checkpoint = replace(checkpoint, origin=origin, final_value=None, final_text=None)
    trial.next_leg = NextLeg(
        cause=fact.cause, checkpoint=checkpoint, parameters=fact.parameters, reason=fact.reason
    )
    waits = trial.status is f.TrialStatus.PAUSED
    trial.target = None if waits else f.StopKind.LEG
    trial.target_reason = "" if waits else f"the scheduler gives it other parameters: {fact.reason}"


def _resize(trial: TrialState, cause: int, resources: dict[str, float], reason: str) -> None:
    """Let the trial's next attempt have these resources. Unless the trial is paused, or is being interrupted
    anyway, its present attempt is stopped for this.
    """
    trial.next_resources = Resizing(cause=cause, resources=resources, reason=reason)
    if trial.target is None:
        trial.target = f.StopKind.RESIZE
        trial.target_reason = f"the scheduler gives it other resources: {reason}"


@DECISION_STEPS.of(f.DecisionRefused)
def _refused(state: ExperimentState, fact: f.DecisionRefused, r: f.Recorded) -> None:
    trial = state.trials.get(fact.trial_id)
    if trial is None:
        return
    state.touched.trials[trial.id] = trial
    trial.decided = max(trial.decided, fact.cause)
    if trial.final_text is None:  # else there is nothing that the scheduler could change any more
        trial.note = f"the scheduler cannot {fact.kind} the trial: {fact.reason}"
    if trial.next_leg is not None and trial.next_leg.cause == fact.cause:
        trial.next_leg = None
        if trial.target is f.StopKind.LEG:
            trial.target, trial.target_reason = None, ""
    before = trial.previous_resources
    if fact.kind is f.DecisionKind.RESIZE and before is not None and before.cause == fact.cause:
        trial.previous_resources = None
        _resize(trial, before.cause, before.resources, f"the others are not possible: {fact.reason}")
    reindex(state, trial)
