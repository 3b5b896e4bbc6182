"""Describes the present activity of an experiment in one sentence.

The functions are pure. Their cost grows with the number of open jobs, not with the number of trials.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from nnimgr.rules.facts import ExperimentStatus, PausedBy, TrialStatus
from nnimgr.rules.fold_jobs import silence
from nnimgr.rules.phrases import against_limit, trial_count, without_own_names
from nnimgr.rules.state import ExperimentState

__all__ = ["happening", "sentence_of"]

E = ExperimentStatus
_REASONS = 2  # number of different reasons shown for waiting trials
_UNITS = ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))
_NAMED = 3  # number of trials shown by id while a stop waits for them


def happening(
    state: ExperimentState,
    at: datetime,
    *,
    searching: bool,
    outstanding: int,
    service_trouble: str | None,
    wanted: int = 0,
) -> str:
    """Return one sentence about the activity of the experiment at the time ``at``.

    ``searching``: the tuner runs. ``outstanding``: number of parameter sets that were requested from the
    tuner and have not arrived. ``service_trouble``: reason why the training service is not open, else None.
    ``wanted``: number of trials for which programs wait, if programs ask for the trials.
    """
    match state.status:
        case E.INITIALIZED:
            parts = ["it is being started"]
        case E.RUNNING:
            parts = [_progress(state, at), *_work(state), *_wishes(state, searching, outstanding)]
            if state.asked and not wanted:
                parts.append("no program asks for a trial")
        case E.DRAINING if state.stop_requested:
            parts = [_awaited(state)]
        case E.DRAINING:
            parts = [_progress(state, at), *_work(state), f"no more trials are created: {state.reason}"]
        case _:
            return sentence_of(state.status, state.reason)
    if service_trouble is not None:
        parts.append(f"the training service is not open: {service_trouble}")
    return "; ".join(parts)


def sentence_of(status: ExperimentStatus, reason: str) -> str:
    """Return one sentence about an experiment that has ended or is not open, from its status and the
    reason.
    """
    match status:
        case E.DONE:
            return f"finished: {reason}"
        case E.ERROR:
            return f"ended by an error: {reason}"
        case _:
            return reason or f"it is {status}"


def _work(state: ExperimentState) -> Iterator[str]:
    silent = state.counts.get(TrialStatus.UNKNOWN, 0)
    if silent:
        yield f"{trial_count(silent)} {_are(silent)} on machines that do not answer"
    starting = sum(job.started_at is None for job in state.jobs.values() if job.placed and not job.closed)
    if starting:
        yield f"{trial_count(starting)} {_are(starting)} being started"
    alike: dict[str, list[str]] = {}  # reasons of jobs that wait, without the names of their own pods
    for job in state.jobs.values():
        if job.placed is None and not job.closed and job.waiting:
            alike.setdefault(without_own_names(job.waiting, job.trial_id), []).append(job.waiting)
    frequent = sorted(alike.items(), key=lambda each: -len(each[1]))
    for reason, found in frequent[:_REASONS]:
        shown = f"each {reason}" if len(found) > 1 and reason.startswith("waits ") else reason
        yield f"{trial_count(len(found))} cannot start yet: {found[0] if len(found) == 1 else shown}"
    if others := sum(len(found) for _, found in frequent[_REASONS:]):
        yield f"{trial_count(others)} cannot start yet for other reasons"
    drained = sum(machine.draining and not machine.removing for machine in state.machines.values())
    if drained and not any("drained" in reason for reason in alike):
        machines = "1 machine" if drained == 1 else f"{drained} machines"
        yield f"{machines} {_are(drained)} drained (see: nnictl machine ls {state.id})"
    by_user = [name for name in state.paused if state.trials[name].paused_by is PausedBy.USER]
    if by_scheduler := len(state.paused) - len(by_user):
        yield f"{trial_count(by_scheduler)} {_are(by_scheduler)} paused by the scheduler"
    if paused := len(by_user):
        which = "it" if paused == 1 else "one"
        command = f"nnictl trial resume {state.id} -T {by_user[0]}"
        waits = by_scheduler and len(state.paused) == len(state.trials)
        them = "it" if paused == 1 else "them"
        decides = f", and the scheduler waits for {them}" if waits else ""
        yield (
            f"{trial_count(paused)} {_are(paused)} paused by a user{decides} "
            f'(to continue {which}: "{command}")'
        )
    if runs := len(state.confirming):
        which = (
            "1 run that confirms the best trials has"
            if runs == 1
            else (f"{runs} runs that confirm the best trials have")
        )
        yield f"{which} not ended"
    if queued := len(state.queued):
        yield f"{trial_count(queued)} {'waits' if queued == 1 else 'wait'} for a slot"


def _wishes(state: ExperimentState, searching: bool, outstanding: int) -> Iterator[str]:
    if state.free_slots <= len(state.queued):
        return
    if not searching:
        yield "the tuner is being started"
    elif outstanding:
        what = "a parameter set" if outstanding == 1 else f"{outstanding} parameter sets"
        yield f"the tuner was asked for {what}"


def _progress(state: ExperimentState, at: datetime) -> str:
    limits = state.limits
    waiting = sum(job.placed is None and not job.closed for job in state.jobs.values())
    busy = max(0, limits.trial_concurrency - state.free_slots - waiting)
    slots = limits.trial_concurrency
    parts = [f"{busy} of {slots} slots busy"]
    if busy > slots:  # a user has lowered the limit: trials that run continue
        free = "all of them have ended" if slots == 1 else f"fewer than {slots} of them run"
        following = f" (the next one starts when {free})" if state.drain is None or state.queued else ""
        parts = [f"{trial_count(busy)} run{following}"]
    if state.asked and busy < slots:  # few users choose the number of slots of a study
        parts = [f"{trial_count(busy)} {_are(busy)} running" if busy else "no trial is running"]
    if limits.max_trial_number is not None:
        finished = max(0, state.counted - state.searching)
        progress = against_limit(finished, limits.max_trial_number, "finished", created=state.counted)
        parts.append(f"{progress}{state.left_out}")
    if limits.max_experiment_duration is not None:
        parts.append(f"{_elapsed(state.active_for(at), limits.max_experiment_duration)} used")
    if limits.stop_when.total_trial_time is not None:
        elapsed = _elapsed(state.trial_time_for(at), limits.stop_when.total_trial_time)
        parts.append(f"{elapsed} of trial time used")
    return ", ".join(parts)


def _elapsed(duration: timedelta, limit: timedelta) -> str:
    """Return the duration and its limit in the largest unit that fits, for example "2 of 40 min"."""
    whole = limit.total_seconds()
    fitting = (each for each in _UNITS if whole >= 2 * each[0] and not whole % each[0])
    length, unit = next(fitting, _UNITS[-1])
    return f"{min(duration.total_seconds(), whole) / length:.0f} of {whole / length:g} {unit}"


def _awaited(state: ExperimentState) -> str:
    """Return a sentence that names the trials whose ends a stop of the experiment still waits for."""
    trials = [trial for trial in state.trials.values() if trial.job_id is not None]
    if not trials:
        return "the experiment is being stopped"
    named = [
        f"{trial.title} ({silence(state, trial)})" if trial.status is TrialStatus.UNKNOWN else trial.title
        for trial in trials[:_NAMED]
    ]
    if len(trials) == 1:
        return f"the stop waits for trial {named[0]} to end"
    rest = f" and {len(trials) - _NAMED} more" if len(trials) > _NAMED else ""
    return f"the stop waits for {len(trials)} trials to end: {', '.join(named)}{rest}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
