"""What an experiment is doing at this moment, in one sentence.

Pure; what it costs grows with the open jobs, not with the trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from nnimgr.rules.facts import ExperimentStatus, TrialStatus
from nnimgr.rules.fold_jobs import silence
from nnimgr.rules.state import ExperimentState

__all__ = ["best_so_far", "happening", "sentence_of", "waits"]

E = ExperimentStatus
_REASONS = 2  # of waiting trials that are told
_NAMED = 3  # trials that a stop waits for


def happening(
    state: ExperimentState, at: datetime, *, searching: bool, outstanding: int, service_trouble: str | None
) -> str:
    """``searching``: its tuner is up; ``outstanding``: suggestions that it was asked for and has not given;
    ``service_trouble``: why its training service is not open.
    """
    match state.status:
        case E.INITIALIZED:
            parts = ["it is being started"]
        case E.RUNNING:
            parts = [*_work(state), *_wishes(state, searching, outstanding), *_progress(state, at)]
        case E.DRAINING if state.stop_requested:
            parts = [_awaited(state)]
        case E.DRAINING:
            why = state.reason.removeprefix("waits for its last trials: ")
            parts = [*_work(state), f"no more trials are created: {why}"]
        case _:
            return sentence_of(state.status, state.reason)
    if service_trouble is not None:
        parts.append(f"its training service is not open: {service_trouble}")
    return "; ".join(parts)


def sentence_of(status: ExperimentStatus, reason: str) -> str:
    """Of one that does nothing more, or that no runner has."""
    match status:
        case E.DONE:
            return reason
        case E.ERROR:
            return f"ended by an error: {reason}"
        case _:
            return reason or f"it is {status}"


def best_so_far(value: float, sequence: int, at: datetime | None) -> str:
    since = "" if at is None else f", since {at:%Y-%m-%d %H:%M:%S} UTC"
    return f"the best result is {value:.6g}, of trial #{sequence}{since}"


def waits(reason: str, count: int = 1) -> str:
    """The end of a sentence on so many trials that wait for this reason, which may say so itself."""
    verb, told = "waits" if count == 1 else "wait", reason.removeprefix("waits ")
    return f"{verb}: {reason}" if told == reason else f"{verb} {told}"


def _work(state: ExperimentState) -> Iterator[str]:
    counts = state.counts
    running, silent = counts.get(TrialStatus.RUNNING, 0), counts.get(TrialStatus.UNKNOWN, 0)
    yield f"{running} of at most {state.limits.trial_concurrency} trials run"
    if silent:
        yield f"{silent} {_are(silent)} on machines that are silent"
    starting = sum(job.started_at is None for job in state.jobs.values() if job.placed and not job.closed)
    if starting:
        yield f"{starting} {_are(starting)} being started"
    reasons = Counter(
        job.waiting for job in state.jobs.values() if job.placed is None and not job.closed and job.waiting
    )
    for reason, count in reasons.most_common(_REASONS):
        yield f"{count} {waits(reason, count)}"
    if (others := reasons.total() - sum(count for _, count in reasons.most_common(_REASONS))) > 0:
        yield f"{others} {'waits' if others == 1 else 'wait'} for other reasons"
    if queued := len(state.queued):
        yield f"{queued} {_are(queued)} queued"


def _wishes(state: ExperimentState, searching: bool, outstanding: int) -> Iterator[str]:
    free = state.limits.trial_concurrency - state.open_jobs + len(state.lent) - len(state.queued)
    if free <= 0:
        return
    if not searching:
        yield "its tuner is being started"
    elif outstanding:
        what = "a parameter set" if outstanding == 1 else f"{outstanding} parameter sets"
        yield f"the tuner was asked for {what}"


def _progress(state: ExperimentState, at: datetime) -> Iterator[str]:
    limits = state.limits
    if limits.max_trial_number is not None:
        yield f"{state.counted} of {limits.max_trial_number} trials were created"
    if limits.max_experiment_duration is not None:
        active = state.active_for(at).total_seconds()
        whole = limits.max_experiment_duration.total_seconds()
        yield f"{100 * min(1.0, active / whole):.0f} % of {whole:g} s are over"


def _awaited(state: ExperimentState) -> str:
    """Name the trials whose ends the stop of the experiment waits for."""
    trials = [trial for trial in state.trials.values() if trial.job_id is not None]
    if not trials:
        return "the experiment is being stopped"
    named = [
        f"{trial.id} ({silence(state, trial)})" if trial.status is TrialStatus.UNKNOWN else trial.id
        for trial in trials[:_NAMED]
    ]
    rest = f" and {len(trials) - _NAMED} more" if len(trials) > _NAMED else ""
    noun = "trial" if len(trials) == 1 else f"{len(trials)} trials"
    return f"the stop waits for {noun} to end: {', '.join(named)}{rest}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
