"""Rules of ``stopWhen``, which end an experiment: a good result, a plateau, failures, or the trials' time.

The functions are pure, and the cost of a call does not grow with the number of ended trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta

from nnimgr.rules import facts as f
from nnimgr.rules.confirmations import is_confirmation
from nnimgr.rules.indexes import is_unsettled
from nnimgr.rules.phrases import best_so_far, in_seconds, trial_count
from nnimgr.rules.state import ExperimentState, Improvement, TrialState

__all__ = ["count_end", "end_trials", "forget_improvements", "has_started", "rule_due_at", "rule_that_holds"]


def rule_that_holds(state: ExperimentState, now: datetime) -> str | None:
    """Return why no more trials are created, as a sentence with the numbers; None if no rule holds."""
    rules, best = state.limits.stop_when, state.best
    if rules.metric is not None and best is not None and _is_reached(state, rules.metric, best.value):
        return (
            f"stopWhen.metric: trial {best.sequence} has reached {best.value:.6g} (limit: {rules.metric:.6g})"
        )
    if rules.plateau is not None and best is not None and _is_flat(state, rules.plateau):
        least = f" by {rules.plateau.improvement:g}" if rules.plateau.improvement else ""
        return (
            f"the best result has not improved{least} in {trial_count(rules.plateau.trials)} "
            f"({best_so_far(best.value, best.sequence)})"
        )
    if rules.failures is not None and state.failures >= rules.failures:
        if state.failures == 1:
            return f"a trial has failed: {state.latest_failure}"
        return f"{state.failures} trials in a row have failed, the latest is {state.latest_failure}"
    if rules.total_trial_time is not None and state.trial_time_for(now) >= rules.total_trial_time:
        return f"exceeded stopWhen.totalTrialTime ({in_seconds(rules.total_trial_time)})"
    return None


def _is_reached(state: ExperimentState, wanted: float, value: float) -> bool:
    return value <= wanted if state.minimises else value >= wanted


def _is_flat(state: ExperimentState, plateau: f.Plateau) -> bool:
    """Return whether the best result has not improved enough within the last trials."""
    before, now = state.improvements[0], state.improvements[-1]
    if before.finished > state.finished - plateau.trials:
        return False
    gain = abs(now.value - before.value)
    enough = gain >= plateau.improvement or math.isclose(gain, plateau.improvement)
    return not gain or not enough


def rule_due_at(state: ExperimentState, now: datetime) -> datetime | None:
    """Return when totalTrialTime will be exceeded if the present trials continue; None if it never will."""
    limit, running = state.limits.stop_when.total_trial_time, state.trials_running
    if limit is None or not running or (left := limit - state.trial_time_for(now)) <= timedelta(0):
        return None
    return now - (-left // running)  # rounded up


def end_trials(state: ExperimentState) -> Iterator[f.TargetMoved]:
    """Yield the facts that end trials while a rule holds.

    Trials that have not started are canceled. With ``runningTrials: stop``, the others are stopped.
    Confirmations are not trials of the search, and continue.
    """
    if state.status is not f.ExperimentStatus.DRAINING or state.drain is not f.DrainReason.RULE:
        return
    stops = state.limits.stop_when.running_trials is f.RunningTrials.STOP
    for trial in state.trials.values():
        if trial.is_to_end or is_unsettled(trial) or is_confirmation(trial):
            continue
        if not has_started(state, trial):
            yield _moved(state, trial, f.StopKind.SYSTEM)
        elif stops:
            yield _moved(state, trial, f.StopKind.RULE)


def has_started(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether the trial has begun, even if it is paused, or waits for its next attempt."""
    job = state.jobs.get(trial.job_id or "")
    placed = job is not None and job.placed is not None
    return placed or trial.attempt > 1 or trial.status is f.TrialStatus.PAUSED


def _moved(state: ExperimentState, trial: TrialState, kind: f.StopKind) -> f.TargetMoved:
    return f.TargetMoved(trial_id=trial.id, kind=kind, reason=f"a rule of stopWhen holds: {state.reason}")


# ---- counting ---------------------------------------------------------------------------------------------


def count_end(state: ExperimentState, trial: TrialState, *, better: bool) -> None:
    """Count a trial that has ended. ``better``: its result is the best of all.

    A trial that a user or the system has stopped is neither a failure nor a success.
    """
    if trial.status is f.TrialStatus.FAILED:
        state.failures += 1
        state.latest_failure = f"trial {trial.sequence}: {trial.reason}"
    elif trial.status in (f.TrialStatus.SUCCEEDED, f.TrialStatus.EARLY_STOPPED):
        state.failures, state.latest_failure = 0, ""
        state.finished += 1
        if better and trial.final_value is not None:
            state.improvements.append(Improvement(state.finished, trial.final_value))
        forget_improvements(state)


def forget_improvements(state: ExperimentState) -> None:
    """Remove the improvements before the plateau's last trials, except the newest of these improvements."""
    plateau = state.limits.stop_when.plateau
    known = state.improvements
    begin = state.finished - (0 if plateau is None else plateau.trials)
    while len(known) > 1 and known[1].finished <= begin:
        del known[0]
