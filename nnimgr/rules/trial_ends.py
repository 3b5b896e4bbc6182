"""Decides the next step after the end of an attempt: another attempt, a pause, or the end of the trial."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from signal import Signals
from typing import Any

from nnimgr.objectives import DEFAULT, fault_of
from nnimgr.rules import facts as f
from nnimgr.rules.causes import LOSSES, counted_as, grows, retries
from nnimgr.rules.checkpoints import continues_from, recovery_point, where_it_continues
from nnimgr.rules.confirmations import is_confirmation
from nnimgr.rules.decisions import leg_lost, resources_refused
from nnimgr.rules.experiment_status import time_is_up
from nnimgr.rules.phrases import ENDED_FIRST, shortened, without_own_names
from nnimgr.rules.retention import borrows
from nnimgr.rules.state import (
    ExperimentState,
    JobState,
    NextLeg,
    TrialState,
    next_attempt,
)
from nnimgr.rules.transitions import REMOVED, preemption_reason
from training_services.base import memory_text

RETRY_DELAY = timedelta(seconds=1)  # delay of the second new attempt, doubled for each further attempt
LONGEST_RETRY_DELAY = timedelta(minutes=5)
_LAST_STATUS = {
    f.StopKind.USER: f.TrialStatus.USER_CANCELED,
    f.StopKind.ASSESSOR: f.TrialStatus.EARLY_STOPPED,
    f.StopKind.DURATION: f.TrialStatus.EARLY_STOPPED,
    f.StopKind.RULE: f.TrialStatus.EARLY_STOPPED,
    f.StopKind.SYSTEM: f.TrialStatus.SYS_CANCELED,
    f.StopKind.CUT: f.TrialStatus.SYS_CANCELED,
}
_STAYS = (
    None,
    f.StopKind.RESIZE,
    f.StopKind.GROW,
    f.StopKind.SHRINK,
    f.StopKind.PREEMPT,
)  # targets of trials that get another attempt at once
_DAMAGED = "the metrics file "  # beginning of what a keeper says about a file that it cannot read to its end
_SHELL_SAYS = {126: "command cannot be executed", 127: "command not found"}
# sh: 1: NAME: not found, bash: line 1: NAME: cannot execute: required file not found
_NAMED_BY_THE_SHELL = re.compile(r"(?:^|: )([^:]+): (?:cannot execute: )?[^:]+$")
_FUTILE = 2  # after so many retries without a new checkpoint, the reason of a preempted trial says so
_REMEDY = "the trial may have to save its state more often; maxRetries.preempted limits its attempts"
_FUNCTION = "-m nni.run "  # in the command of trials that run a Python function or class
_SAID_BY_OLDER_KEEPERS = "the last line of its stderr: "


def take_results(trial: TrialState) -> Iterator[f.Fact]:
    """Yield the facts by which new results of a multi-phase trial's parameter sets are sent to the tuner."""
    for index in trial.untold:
        held = trial.sets[index]
        assert held.parameters is not None and held.result is not None
        yield f.ResultTaken(
            trial_id=trial.id,
            index=index,
            parameter_id=held.parameter_id,
            parameters=held.parameters,
            text=held.result,
        )


def settle(state: ExperimentState, trial: TrialState, now: datetime) -> f.Fact:
    """Return the fact that decides the next step of a trial whose attempt has ended or whose pause has
    ended.
    """
    job = _last_job(state, trial)
    end = job.ended if job else None
    if job is not None and job.unproven:
        return _given_up(trial, job)
    if trial.next_leg is not None and trial.target in (*_STAYS, f.StopKind.LEG) and not _finished(job):
        return leg_lost(state, trial) or _next_leg(state, trial, trial.next_leg, due_at=now)
    if trial.status is f.TrialStatus.PAUSED:
        return _again(state, trial, "its pause has ended", due_at=now)
    if (interrupted := _interrupted_for(trial, job)) is not None:
        return _again(state, trial, interrupted, due_at=now)
    never = end is not None and end.reason is f.EndReason.NEVER_STARTED
    if never and (refused := _refused(trial, end)) is not None:
        return refused
    if trial.stranded and trial.target is None:
        return _again(state, trial, _unusable(state, trial), due_at=now)
    if job is not None and end is not None and end.reason is f.EndReason.EXITED and job.cause not in LOSSES:
        if not (job.left and end.exit_code == 0):
            return _exited(state, trial, end, job.cause, now)
    if trial.target not in _STAYS:
        reason = trial.target_reason
        if job is not None and job.lost is not None:
            reason += f"; {job.lost if job.placed is not None else _not_running(trial)}"
        return _interrupted(state, trial, trial.target, reason)
    if job is not None and any(seat.place.keeper_id in state.forsaken for seat in job.seats()):
        return _again(state, trial, REMOVED, due_at=now)
    if job is None or end is None or job.cause in LOSSES:
        return _retry(state, trial, job, now)
    if end.reason is f.EndReason.CHECKPOINT_LOST:
        return _again(state, trial, _missing(trial, end), due_at=now)
    if job.cause is None:
        why = trial.target_reason or "its stop was taken back while its attempt was ending"
        if job.stop is None:
            why = "it has exited with code 0 after it was asked to save its state"
        return _again(state, trial, why, due_at=now)
    reason = end.message or "its command could not be started"
    return _failed(state, trial, reason, job.cause, failure=without_own_names(reason, trial.id))


def _interrupted_for(trial: TrialState, job: JobState | None) -> str | None:
    """Return why the trial gets another attempt, if the last one was stopped for another experiment, or did
    not begin because the trial gets other resources.
    """
    end = job.ended if job else None
    if trial.preempted_by is not None and trial.target in (None, f.StopKind.PREEMPT):
        if job is not None and end is not None and job.cause is f.Cause.PREEMPTED:
            has_saved = trial.checkpoints or trial.origin is not None
            begins_again = "" if has_saved else f"; {where_it_continues(trial, None)}"
            return f"it {preemption_reason(trial)}{begins_again}"
    never = end is not None and end.reason is f.EndReason.NEVER_STARTED
    if trial.target is f.StopKind.RESIZE and (job is None or job.placed is None or never):
        return trial.target_reason
    return None


def _given_up(trial: TrialState, job: JobState) -> f.TrialEnded:
    """Return the end of a trial whose attempt may still run, so that no further attempt runs beside it."""
    kind = trial.target if trial.target is not None and trial.target in _LAST_STATUS else f.StopKind.CUT
    return _stopped(trial, kind, f"{trial.target_reason}; {job.lost}")


def _refused(trial: TrialState, end: f.JobEnded | None) -> f.DecisionRefused | None:
    """Return the fact by which a trial goes back to its previous resources, because its attempt with new ones
    could never be started.
    """
    if trial.target is not None or end is None:
        return None
    return resources_refused(trial, end.message or "the attempt could not be started")


def _unusable(state: ExperimentState, trial: TrialState) -> str:
    """Return why the checkpoint that the trial waits for cannot be used any more."""
    keeper_id = "" if trial.origin is None else trial.origin.origin.keeper_id
    keeper = state.keepers.get(keeper_id)
    if keeper is not None and keeper.vanished:
        return f"its checkpoint was only on {keeper_id}, which has ended"
    return "its checkpoint cannot be used any more"


def _missing(trial: TrialState, end: f.JobEnded) -> str:
    """Return why the attempt could not continue from its checkpoint, and what follows if it was the last."""
    reason = end.message or "its checkpoint is missing"
    if not trial.checkpoints:
        reason += "; no other checkpoint is left: the trial will start from the beginning"
    return reason


def _finished(job: JobState | None) -> bool:
    """Return whether the attempt has ended with success, and not only because it was asked to leave."""
    end = job.ended if job is not None else None
    if job is None or end is None or end.reason is not f.EndReason.EXITED:
        return False
    return end.exit_code == 0 and not job.left


def _next_leg(state: ExperimentState, trial: TrialState, leg: NextLeg, *, due_at: datetime) -> f.AttemptDue:
    """Return the attempt with which the trial's next leg begins."""
    origin = leg.checkpoint.origin
    if borrows(leg.checkpoint):
        origin = replace(origin, position=trial.frames)
    return f.AttemptDue(
        trial_id=trial.id,
        attempt=next_attempt(trial),
        due_at=due_at,
        reason=f"{leg.reason}; {continues_from(leg.checkpoint)}",
        lost=False,
        origin=origin,
        previous=trial.attempt,
        rolled_back=max(0, trial.intermediates - origin.reports),
        leg=trial.leg + 1,
        parameters=leg.parameters,
        resources=_next_resources(trial),
        seats=_next_seats(state, trial),
        most_members=_most_members(state, trial),
    )


def _next_seats(state: ExperimentState, trial: TrialState) -> tuple[str, ...]:
    """Return the keepers where members of the trial's last attempt may continue, in the members' order.

    Members that were lost, or that the trial gives up, have no place among them.
    """
    job = _last_job(state, trial)
    if job is None:
        return ()
    given_up = job.leaving if trial.target is f.StopKind.SHRINK else ()
    return tuple(
        member.place.keeper_id
        for number, member in enumerate(job.members)
        if member.lost is None and number not in given_up and member.place.keeper_id not in state.forsaken
    )


def _most_members(state: ExperimentState, trial: TrialState) -> int | None:
    """Return how many members the next attempt has at most, if the trial gives up some for others."""
    job = _last_job(state, trial)
    return job.size - len(job.leaving) if job is not None and trial.target is f.StopKind.SHRINK else None


def _last_job(state: ExperimentState, trial: TrialState) -> JobState | None:
    """Return the job of the attempt that has ended, whose consequences are being decided."""
    return state.touched.jobs.get(trial.closed_job or "") or state.jobs.get(trial.closed_job or "")


def _next_resources(trial: TrialState) -> Mapping[str, float] | None:
    return None if trial.next_resources is None else trial.next_resources.resources


def _exited(
    state: ExperimentState, trial: TrialState, end: f.JobEnded, cause: f.Cause | None, now: datetime
) -> f.Fact:
    if cause is None:
        fault = fault_of_result(state, trial)
        unusable = trial.final_text is not None and trial.final_value is None
        return f.TrialEnded(
            trial_id=trial.id,
            status=f.TrialStatus.SUCCEEDED,
            reason=_success(state, trial) if fault is None else fault,
            stand_in=_stand_in(state, trial) if unusable else None,
        )
    reason = _sentence(state, end)
    before, most = retries(state.limits, trial, cause)
    again = most is None or before < most
    if again and trial.target in _STAYS and not time_is_up(state, now):
        reason += _memory_of_next(state, trial, cause)
        return _again(state, trial, reason, due_at=now + _pause(state, trial, before), cause=cause)
    if again and trial.target is f.StopKind.PAUSE:
        why = f"{trial.target_reason}; its attempt failed meanwhile: {reason}"
        return _interrupted(state, trial, trial.target, why)
    growth = state.limits.memory_growth
    if cause is f.Cause.OUT_OF_MEMORY and growth is not None and trial.memory_attempts:
        most_memory = memory_text(growth.after(trial.memory_attempts))
        times = trial.memory_attempts + trial.failed_attempts + 1
        reason += f"; it was tried {times} times, the last time with {most_memory} of memory"
    elif before:
        own = counted_as(state.limits, trial, cause) is f.Cause.OUT_OF_MEMORY
        reason += f"; it {'ran out of memory' if own else 'has failed'} {before + 1} times"
    message, _, _ = (end.message or "").partition(":")  # only the type of an exception, not its details
    message = without_own_names(message, trial.id)
    return _failed(state, trial, reason, cause, failure=f"{end.exit_code}/{end.signal}/{message}")


def _success(state: ExperimentState, trial: TrialState) -> str:
    reason = "its program has told the result" if state.asked else "exited with code 0"
    return f"{reason} {ENDED_FIRST}" if trial.is_to_end else reason


def _memory_of_next(state: ExperimentState, trial: TrialState, cause: f.Cause) -> str:
    """Return how much memory the next attempt gets, as a part of a reason; "" if it gets no more."""
    growth = state.limits.memory_growth
    if growth is None or not grows(state.limits, trial, cause):
        return ""
    return f"; its next attempt gets {memory_text(growth.after(trial.memory_attempts + 1))} of memory"


def _failed(
    state: ExperimentState,
    trial: TrialState,
    reason: str,
    cause: f.Cause | None,
    *,
    failure: str | None = None,
) -> f.TrialEnded:
    stand_in = _stand_in(state, trial)
    if is_confirmation(trial):
        reason += "; the run does not count for the trial that it confirms"
    elif stand_in is not None:
        reason += f"; the tuner gets the result {stand_in} instead"
    elif state.limits.on_failure is not f.OnFailure.SKIP:
        reason += "; the tuner gets no penalty (the worst result so far), since there is no result yet"
    return f.TrialEnded(
        trial_id=trial.id,
        status=f.TrialStatus.FAILED,
        reason=reason,
        stand_in=stand_in,
        failure=failure,
        cause=cause,
    )


def _stand_in(state: ExperimentState, trial: TrialState) -> str | None:
    """Return the result that the tuner gets for a trial without a usable result, as JSON text; None: no
    result.
    """
    if is_confirmation(trial):
        return None
    objectives = state.objectives
    value: float | Mapping[str, float] | None = None
    match state.limits.on_failure:
        case f.OnFailure.PENALTY:
            value = (state.worst_of or None) if objectives else state.worst
        case f.OnFailure.VALUE:
            value = state.limits.failure_value
    if objectives and isinstance(value, float | int):
        value = dict.fromkeys(objectives, value)
    return None if value is None else json.dumps(value)


def _sentence(state: ExperimentState, end: f.JobEnded) -> str:
    """Return why an attempt failed, as a sentence with its exit code or signal and the line that its keeper
    has chosen from its stderr.
    """
    message = (end.message or "").removeprefix(_SAID_BY_OLDER_KEEPERS)
    if end.exit_code in _SHELL_SAYS:
        named = _NAMED_BY_THE_SHELL.search(message)
        what = named.group(1) if named is not None else shortened(state.trial_command)
        return f"{_SHELL_SAYS[end.exit_code]}: {what} (exit code {end.exit_code})"
    if end.signal is not None:
        reason = f"was killed by signal {end.signal} ({_signal_name(end.signal)})"
    elif end.exit_code is not None:
        reason = f"exited with code {end.exit_code}"
    else:
        return message or "ended without an exit code"
    return f"{reason}: {message}" if message else reason


def fault_of_result(state: ExperimentState, trial: TrialState) -> str | None:
    """Return why a trial that exited with code 0 has no usable result; None if its result is usable.

    A tuner that is the user's own code may use any result.
    """
    returns = _FUNCTION in state.trial_command
    remedy = "return a number from the function" if returns else "pass a float to nni.report_final_result()"
    if trial.final_text is None:
        if trial.origin is not None and trial.intermediates <= (begun := trial.origin.origin).reports:
            where = "a checkpoint" if begun.step is None else f"step {begun.step}"
            return (
                f"no result: the trial continued from {where} and reported nothing after it; if no step was "
                "left, fork it from an earlier checkpoint"
            )
        if returns:
            return f"no result: the trial has returned and reported nothing; {remedy}"
        if trial.note is not None and trial.note.startswith(_DAMAGED):
            return f"no result: {trial.note}"
        return "no result: the trial never called nni.report_final_result()"
    if trial.final_value is not None or state.traits.own:
        return None
    value = json.loads(trial.final_text)
    if state.objectives:
        fault = fault_of(value, state.objectives) or ""
        if not isinstance(value, Mapping):  # the fault begins with the value, as this sentence does
            fault = fault.rpartition(", which ")[2]
        return f"no usable result: {shortened(trial.final_text)} {fault}"
    if (kind := _special(value)) is not None:
        return f"no usable result: a value of type {kind} is not a number; {remedy}"
    shown = shortened(trial.final_text)
    number = value.get(DEFAULT) if isinstance(value, Mapping) else value
    if isinstance(number, int | float) and not isinstance(number, bool):  # such as NaN
        shown += ", which is too large" if isinstance(number, int) else ""
        return f"no usable result: the result is {shown}, so the tuner treats the trial as failed"
    if isinstance(value, Mapping):
        numbers = [key for key, number in value.items() if type(number) in (int, float)]
        if numbers and (returns or state.asked):
            mode = "minimize" if state.minimises else "maximize"
            return (
                f"no usable result: {shown} is not a number. Name the metric to optimize: "
                f'{mode}="{numbers[0]}" in Python, objectives: {{{numbers[0]}: {mode}}} in exp.yml'
            )
        example = json.dumps(value[numbers[0]]) if numbers else "0.9"
        return (
            f'no usable result: {shown} has no number under the key "{DEFAULT}"; '
            f'report {{"{DEFAULT}": {example}}}, or the number alone'
        )
    return f"no usable result: {shown} is not a number; {remedy}"


def _special(value: Any) -> str | None:
    """Return the type of a value that the trial has stored as a marked mapping, such as "ndarray"; or None.

    The mark is a key such as ``__ndarray__``.
    """
    marks = (key.strip("_") for key in value if key.startswith("__")) if isinstance(value, Mapping) else ()
    return next(iter(marks), None)


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return "a real-time signal"


def _retry(state: ExperimentState, trial: TrialState, job: JobState | None, now: datetime) -> f.Fact:
    cause = (job.cause if job else None) or f.Cause.INFRASTRUCTURE
    why = (job.lost if job else None) or "its host ended the trial because the server was silent for too long"
    if job is not None and job.ended is not None and job.ended.reason is not f.EndReason.LEASE:
        why = _sentence(state, job.ended)
    before, most = retries(state.limits, trial, cause)
    if most is not None and before >= most:
        times = "once" if not before else f"{before + 1} times, the last time"
        what = "it was preempted" if cause is f.Cause.PREEMPTED else "it was lost"
        return _failed(state, trial, f"{what} {times}: {why}", cause)
    if cause is f.Cause.PREEMPTED and before >= _FUTILE:
        why += f"; {before + 1} attempts have ended so without a new checkpoint ({_REMEDY})"
    return _again(state, trial, why, due_at=now + _pause(state, trial, before), cause=cause)


def _again(
    state: ExperimentState,
    trial: TrialState,
    reason: str,
    *,
    due_at: datetime,
    cause: f.Cause | None = None,
) -> f.AttemptDue:
    """Return the trial's next attempt, which continues from its newest usable checkpoint.

    ``cause``: cause of the previous attempt's failure or loss; None: the retry is not counted.
    """
    counted = None if cause is None else counted_as(state.limits, trial, cause)
    point = recovery_point(state, trial)
    if trial.checkpoints or trial.origin is not None:
        reason += f"; {where_it_continues(trial, point)}"
    return f.AttemptDue(
        trial_id=trial.id,
        attempt=next_attempt(trial),
        due_at=due_at,
        reason=reason,
        lost=counted is f.Cause.INFRASTRUCTURE,
        failed=counted is f.Cause.USER_ERROR,
        cause=cause,
        origin=None if point is None else point.origin,
        previous=trial.attempt,
        rolled_back=max(0, trial.intermediates - (0 if point is None else point.origin.reports)),
        resources=_next_resources(trial),
        seats=_next_seats(state, trial),
        most_members=_most_members(state, trial),
    )


def _pause(state: ExperimentState, trial: TrialState, before: int) -> timedelta:
    """Return the pause before the next attempt. ``before``: number of previous retries for the same cause.

    There is none after an attempt that has saved its state: the trial makes progress in spite of failures.
    """
    point = recovery_point(state, trial)
    saved = point is not None and not borrows(point) and point.origin.attempt == trial.attempt
    if saved or not before:
        return timedelta(0)
    return min(RETRY_DELAY * (1 << min(before - 1, 16)), LONGEST_RETRY_DELAY)


def end_unplaced(state: ExperimentState, trial: TrialState) -> f.Fact:
    assert trial.target is not None
    state_then = (
        "the trial was paused before" if trial.status is f.TrialStatus.PAUSED else _not_running(trial)
    )
    return _interrupted(state, trial, trial.target, f"{trial.target_reason}; {state_then}")


def _not_running(trial: TrialState) -> str:
    """Return what to say about a stopped trial whose attempt had no place. An earlier one may have run."""
    return "the trial had not started" if trial.attempt == 1 else "the trial waited for its next attempt"


def _interrupted(state: ExperimentState, trial: TrialState, target: f.StopKind, reason: str) -> f.Fact:
    """Return the pause or the end of a trial that was stopped.

    A trial that a stop of the experiment interrupts is paused if it can continue from a checkpoint after the
    experiment's resume.
    """
    leg = trial.next_leg
    point = recovery_point(state, trial) if leg is None else leg.checkpoint
    parked = target is f.StopKind.CUT and state.stop_requested and point is not None
    if target is f.StopKind.PAUSE or parked:
        reason += f"; {where_it_continues(trial, point) if leg is None else continues_from(leg.checkpoint)}"
        by = trial.paused_by if target is f.StopKind.PAUSE else f.PausedBy.USER
        return f.TrialPaused(trial_id=trial.id, reason=reason, parked=parked, by=by)
    return _stopped(trial, target, reason)


def _stopped(trial: TrialState, target: f.StopKind, reason: str) -> f.TrialEnded:
    """Return the fact that a stopped trial has ended.

    A parameter set is marked as untried only if the system stopped the trial, for example after a change of
    the search space: a user may not want the parameters any more. Interrupted trials and reruns get their
    parameters again in another way.
    """
    suggested = trial.source is not f.SuggestionSource.RERUN and trial.parameter_id is not None
    return f.TrialEnded(
        trial_id=trial.id,
        status=_LAST_STATUS[target],
        reason=reason,
        untried=target is f.StopKind.SYSTEM and suggested,
    )
