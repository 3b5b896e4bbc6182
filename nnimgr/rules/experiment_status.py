"""Decides the status of an experiment, and the reason for the status."""

from __future__ import annotations

from datetime import datetime

from nnimgr.rules import facts as f
from nnimgr.rules.confirmations import missing_runs, outcome
from nnimgr.rules.phrases import (
    NO_SCRIPT,
    STOPPED_BY_USER,
    TUNER_EXHAUSTED,
    against_limit,
    in_seconds,
    trial_count,
)
from nnimgr.rules.state import (
    ExperimentState,
)
from nnimgr.rules.stop_rules import rule_that_holds

_NO_COMMAND = ("126/", "127/")  # the shell could not execute the command, or did not find it


def time_is_up(state: ExperimentState, now: datetime) -> bool:
    """Return whether the experiment has exceeded maxExperimentDuration."""
    limit = state.limits.max_experiment_duration
    return limit is not None and state.active_for(now) >= limit


def move_status(state: ExperimentState, now: datetime, *, wanted: int) -> f.ExperimentMoved | None:
    """Return the fact that changes the experiment's status, or the limit that is its reason. Return None if
    neither changes.

    ``wanted``: number of jobs for which programs wait, if programs ask for them.
    """
    status, drain, reason = _wanted_status(state, now, wanted)
    changes = (status, drain) != (state.status, state.drain)
    # A changed limit changes the reason too. Other reasons name values that change all the time.
    at_limit = drain is f.DrainReason.BUDGET or (status is f.ExperimentStatus.DONE and state.budget == 0)
    if not (changes or (at_limit and reason != state.reason)):
        return None
    return f.ExperimentMoved(status=status, drain=drain, reason=reason)


def _wanted_status(
    state: ExperimentState, now: datetime, wanted: int
) -> tuple[f.ExperimentStatus, f.DrainReason | None, str]:
    if state.stop_requested:
        if state.detached:
            placed = sum(job.placed is not None and not job.closed for job in state.jobs.values())
            verb = "was" if placed == 1 else "were"
            left = f"{trial_count(placed)} {verb} left running without a server"
            reason = left if placed else _stopped(state)
            return f.ExperimentStatus.STOPPED, None, reason
        if not _is_over(state):
            return f.ExperimentStatus.DRAINING, f.DrainReason.USER, "a user stops it"
        return f.ExperimentStatus.STOPPED, None, _stopped(state)
    if state.failed is not None:
        return f.ExperimentStatus.ERROR, None, state.failed
    if state.fails_fast and state.budget != 0:
        if _is_over(state):
            return f.ExperimentStatus.STOPPED, None, _failing(state)
        return f.ExperimentStatus.DRAINING, f.DrainReason.FAILURES, _failing(state)
    drain, reason = _drain(state, now)
    if drain is None:
        return f.ExperimentStatus.RUNNING, None, "runs"
    # Where programs ask for the trials, the tuner is asked only for a program that waits.
    asks_again = drain is f.DrainReason.TUNER and state.asks_again and (not state.asked or wanted > 0)
    if _is_over(state) and not asks_again and (time_is_up(state, now) or not missing_runs(state)):
        failed = f"; {_first_failures(state)}" if state.fails_fast else ""
        return f.ExperimentStatus.DONE, None, reason + failed + outcome(state)
    return f.ExperimentStatus.DRAINING, drain, reason


def _stopped(state: ExperimentState) -> str:
    """Return the reason for the status STOPPED. If the experiment had ended before, include the earlier
    reason.
    """
    match state.status:
        case f.ExperimentStatus.DONE:
            return f"it was stopped after it was DONE: {state.reason}"
        case f.ExperimentStatus.ERROR:
            return f"it was stopped after it had ended with ERROR: {state.reason}"
    return STOPPED_BY_USER


def _failing(state: ExperimentState) -> str:
    if state.drain is f.DrainReason.FAILURES:
        return state.reason  # trials that have failed since do not change the sentence
    if state.first_failure.startswith(_NO_COMMAND):
        remedy = "correct trialCommand, then start a new experiment"
    elif NO_SCRIPT in state.first_failure_reason:
        remedy = (
            f"add the file to the trial's code, then continue: nnictl resume {state.id}; "
            "if trialCommand is wrong, start a new experiment instead"
        )
    else:
        remedy = (
            f"correct the trial's code, then continue: nnictl resume {state.id}; "
            "if trialCommand is wrong, start a new experiment instead"
        )
    return f"{_first_failures(state)}; {remedy}"


def _first_failures(state: ExperimentState) -> str:
    since = " since the resume" if state.resumed else ""
    which = (
        f"the first trial{since} failed"
        if state.first_failures == 1
        else f"the first {state.first_failures} trials{since} all failed alike"
    )
    return f"{which}: {state.first_failure_reason}"


def _is_over(state: ExperimentState) -> bool:
    """Return whether the experiment has no trial or job left to wait for.

    An ended experiment stays ended when a silent host returns and reports the ends of attempts that were
    still running there.
    """
    ended = state.status in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED)
    return state.over or (ended and not state.unfinished)


def _drain(state: ExperimentState, now: datetime) -> tuple[f.DrainReason | None, str]:
    if time_is_up(state, now):
        limit = state.limits.max_experiment_duration
        assert limit is not None
        return f.DrainReason.BUDGET, f"exceeded maxExperimentDuration ({in_seconds(limit)})"
    if (rule := rule_that_holds(state, now)) is not None:
        return f.DrainReason.RULE, rule
    if state.budget == 0 and not state.interrupted:
        most = state.limits.max_trial_number
        assert most is not None
        if _is_over(state):
            return f.DrainReason.BUDGET, f"{against_limit(state.counted, most, 'trials')}{state.left_out}"
        return f.DrainReason.BUDGET, f"maxTrialNumber ({most}) is reached"
    if state.exhausted and not state.interrupted:
        return f.DrainReason.TUNER, TUNER_EXHAUSTED
    return None, ""
