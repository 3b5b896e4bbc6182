"""``plan``: what should hold now. Pure: it lists wishes, and granting one twice does no harm.

Its facts are what follows without an act; its commands what has to be asked of a service or the tuner. The
cost of a call grows with what is to be done, not with the number of trials: it looks only at the state's
small indexes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from signal import Signals

from nnimgr.core import facts as f
from nnimgr.core.fold_jobs import silence
from nnimgr.core.phases import is_due, parameter_record
from nnimgr.core.reuse import reuse_result
from nnimgr.core.state import (
    ExperimentState,
    JobState,
    TrialState,
    is_unsettled,
    job_id_of,
    trial_id_of,
)
from training_services.base import TRIAL_GRACE

SILENT_GRACE = timedelta(seconds=10)  # so long a silent host may still answer a stop that a user wants
SHOWN = 60  # characters of a user's text in a sentence
RETRY_DELAY = timedelta(seconds=1)  # before the second new attempt; doubled for each further one
LONGEST_RETRY_DELAY = timedelta(minutes=5)

_LAST_STATUS = {
    f.StopKind.USER: f.TrialStatus.USER_CANCELED,
    f.StopKind.ASSESSOR: f.TrialStatus.EARLY_STOPPED,
    f.StopKind.DURATION: f.TrialStatus.EARLY_STOPPED,
    f.StopKind.SYSTEM: f.TrialStatus.SYS_CANCELED,
    f.StopKind.CUT: f.TrialStatus.SYS_CANCELED,
}
_REMOVED = "its machine was removed by force"
_SHELL_SAYS = {126: "cannot be executed", 127: "was not found"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    trial_id: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    job_id: str
    grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTuner:
    """So many suggestions are wanted in all, those asked for already included. ``urgent``: a slot is free."""

    count: int
    urgent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFurther:
    """Parameter set number ``index`` is wanted for a multi-phase trial that runs."""

    trial_id: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob:
    """Parameter set number ``index`` is there: ``record`` is what its file shall hold."""

    job_id: str
    index: int
    record: str


Command = SubmitJob | CancelJob | AskTuner | AskFurther | UpdateJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    facts: tuple[f.Fact, ...]
    commands: tuple[Command, ...]
    wake_at: datetime | None  # when a limit or a retry falls due


def plan(state: ExperimentState, now: datetime, *, ahead: int = 0) -> Plan:
    """List what follows from the state at ``now``.

    ``ahead``: suggestions to hold ready beyond the free slots. When there are facts, they are to be applied
    and ``plan`` called again; commands are only listed once nothing follows any more.
    """
    consequences = tuple(_consequences(state, now))
    if consequences:
        return Plan(facts=consequences, commands=(), wake_at=None)
    return Plan(facts=(), commands=tuple(_commands(state, now, ahead)), wake_at=_wake_at(state, now))


def _consequences(state: ExperimentState, now: datetime) -> Iterator[f.Fact]:
    if state.status is f.ExperimentStatus.VIEWED or not state.id:
        return
    for trial_id in state.reported:
        yield from _results(state.trials[trial_id])
    for trial_id in state.unsettled:
        trial = state.trials[trial_id]
        if trial.reuse is not None:
            yield from reuse_result(state, trial, trial.reuse)
        else:
            yield _settle(state, trial, now)
    for keeper_id in state.forsaken:
        keeper = state.keepers.get(keeper_id)
        if keeper is not None and keeper.silent is not None:
            for job in _jobs_at(state, keeper_id):
                yield f.JobLost(job_id=job.id, reason=f"{_REMOVED} while there was {keeper.silent}")
    for trial_id in state.condemned:
        trial = state.trials[trial_id]
        if trial.job_id is None and not trial.closed_job:
            yield _end_unplaced(trial)
    yield from _aims(state, now)
    yield from _given_up(state, now)
    if (moved := _status(state, now)) is not None:
        yield moved
    elif state.interrupted and state.status is f.ExperimentStatus.RUNNING:
        yield from _run_again(state)


# ---- silent hosts -----------------------------------------------------------------------------------------


def _given_up(state: ExperimentState, now: datetime) -> Iterator[f.Fact]:
    """What is no longer waited for, of trials whose hosts are silent: a slot, or the attempt itself."""
    for trial_id in state.unknown:
        trial = state.trials[trial_id]
        if trial.job_id is None:
            continue
        job = state.jobs[trial.job_id]
        due = _given_up_at(state, trial, job)
        if trial.declared_lost and job.stop is not None:
            yield f.JobLost(job_id=job.id, reason="a user declared it lost, while its machine was silent")
        elif due is not None and due <= now:
            yield f.JobLost(
                job_id=job.id, reason=f"it may still run on its machine ({silence(state, trial)})"
            )
        elif not trial.slot_lent and _lent_at(state, trial) <= now:
            yield f.SlotLent(trial_id=trial_id)


def _silent_since(state: ExperimentState, trial: TrialState) -> datetime:
    """As far as patience goes: a server that has just started has heard of nobody yet."""
    assert trial.unknown_since is not None
    return max(trial.unknown_since, state.opened_at or trial.unknown_since)


def _given_up_at(state: ExperimentState, trial: TrialState, job: JobState) -> datetime | None:
    """When a trial that a user wants stopped is given up: no further attempt could run beside it."""
    if trial.target not in (f.StopKind.USER, f.StopKind.CUT) or job.stop_at is None:
        return None
    return max(_silent_since(state, trial), job.stop_at) + SILENT_GRACE


def _lent_at(state: ExperimentState, trial: TrialState) -> datetime:
    return _silent_since(state, trial) + state.limits.slot_held_for


# ---- trials -----------------------------------------------------------------------------------------------


def _results(trial: TrialState) -> Iterator[f.Fact]:
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


def _settle(state: ExperimentState, trial: TrialState, now: datetime) -> f.Fact:
    """What becomes of a trial whose attempt has closed, or whose pause is over."""
    if trial.status is f.TrialStatus.PAUSED:
        return f.AttemptDue(
            trial_id=trial.id,
            attempt=trial.attempt + 1,
            due_at=now,
            reason="its pause is over",
            lost=False,
        )
    job = state.touched.jobs.get(trial.closed_job or "") or state.jobs.get(trial.closed_job or "")
    end = job.ended if job else None
    if end is not None and end.reason is f.EndReason.EXITED:
        return _exited(state, trial, end, now)
    if trial.target is f.StopKind.PAUSE:
        return f.TrialPaused(trial_id=trial.id, reason=f"paused: {trial.target_reason}")
    if trial.target is not None:
        reason = f"stopped: {trial.target_reason}"
        if job is not None and job.lost is not None and job.stop is not None:
            reason += f"; {job.lost}"
        return _stopped(trial, trial.target, reason)
    if job is not None and job.placed is not None and job.placed.place.keeper_id in state.forsaken:
        return f.AttemptDue(
            trial_id=trial.id, attempt=trial.attempt + 1, due_at=now, reason=_REMOVED, lost=False
        )
    if end is not None and end.reason is f.EndReason.STOPPED:
        return f.AttemptDue(
            trial_id=trial.id,
            attempt=trial.attempt + 1,
            due_at=now,
            reason="its stop was taken back",
            lost=False,
        )
    if end is not None and end.reason is not f.EndReason.LEASE:
        return _failed(state, trial, end.message or "its command could not be started")
    return _retry(state, trial, job, now)


def _exited(state: ExperimentState, trial: TrialState, end: f.JobEnded, now: datetime) -> f.Fact:
    if end.exit_code == 0:
        reason = "exited with code 0"
        stand_in = None
        if trial.final_text is None:
            reason += " without a final result"
        elif trial.final_value is None:
            reason += f", but its final result {_fault(state)}: {_shown(trial.final_text)}"
            stand_in = _stand_in(state)
        return f.TrialEnded(
            trial_id=trial.id, status=f.TrialStatus.SUCCEEDED, reason=reason, stand_in=stand_in
        )
    if end.signal is not None:
        reason = f"was killed by signal {end.signal} ({_signal_name(end.signal)})"
    elif end.exit_code is not None:
        reason = f"exited with code {end.exit_code}"
        if end.exit_code in _SHELL_SAYS:
            what = _SHELL_SAYS[end.exit_code]
            reason += f", by which the shell says that a command {what}: {_shown(state.trial_command)}"
    else:
        reason = end.message or "ended without an exit code"
    again = trial.failed_attempts < state.limits.max_failed_attempts
    if again and trial.target is None and not _time_is_up(state, now):
        return f.AttemptDue(
            trial_id=trial.id,
            attempt=trial.attempt + 1,
            due_at=now + _pause(trial.failed_attempts),
            reason=reason,
            lost=False,
            failed=True,
        )
    if trial.failed_attempts:
        reason += f"; it has failed {trial.failed_attempts + 1} times"
    return _failed(state, trial, reason)


def _failed(state: ExperimentState, trial: TrialState, reason: str) -> f.TrialEnded:
    stand_in = _stand_in(state)
    if stand_in is not None:
        reason += f"; the tuner is given {stand_in} for a result"
    elif state.limits.on_failure is not f.OnFailure.SKIP:
        reason += "; the tuner is given no penalty, since there is no result yet"
    return f.TrialEnded(trial_id=trial.id, status=f.TrialStatus.FAILED, reason=reason, stand_in=stand_in)


def _stand_in(state: ExperimentState) -> str | None:
    """JSON text of the result that the tuner gets where there is none, if it gets one."""
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


def _fault(state: ExperimentState) -> str:
    """What is wrong with a final result in which there is no main number."""
    if not state.objectives:
        return "holds no finite number"
    return f"holds no finite number for each objective ({', '.join(state.objectives)})"


def _shown(text: str) -> str:
    """Its beginning, for a sentence."""
    line, _, more = text.strip().partition("\n")
    return line if not more and len(line) <= SHOWN else f"{line[:SHOWN]}..."


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return "a real-time signal"


def _retry(state: ExperimentState, trial: TrialState, job: JobState | None, now: datetime) -> f.Fact:
    why = (job.lost if job else None) or "its host ended it because the server was silent for too long"
    if trial.lost_attempts >= state.limits.max_lost_attempts:
        times = "once" if not trial.lost_attempts else f"{trial.lost_attempts + 1} times, at last"
        return _failed(state, trial, f"its infrastructure was lost {times}: {why}")
    due_at = now + _pause(trial.lost_attempts)
    return f.AttemptDue(trial_id=trial.id, attempt=trial.attempt + 1, due_at=due_at, reason=why)


def _jobs_at(state: ExperimentState, keeper_id: str) -> Iterator[JobState]:
    """The open jobs that are placed there."""
    for job in state.jobs.values():
        if not job.closed and job.placed is not None and job.placed.place.keeper_id == keeper_id:
            yield job


def _pause(before: int) -> timedelta:
    """Before a further attempt, when there have been so many for this cause."""
    if not before:
        return timedelta(0)
    return min(RETRY_DELAY * (1 << min(before - 1, 16)), LONGEST_RETRY_DELAY)


def _end_unplaced(trial: TrialState) -> f.Fact:
    assert trial.target is not None
    if trial.target is f.StopKind.PAUSE:
        return f.TrialPaused(trial_id=trial.id, reason=f"paused before it started: {trial.target_reason}")
    return _stopped(trial, trial.target, f"stopped before it started: {trial.target_reason}")


def _stopped(trial: TrialState, target: f.StopKind, reason: str) -> f.TrialEnded:
    """Its set is untried if nobody wanted that: a user may have, and what is cut off or failed runs again."""
    suggested = trial.source is not f.SuggestionSource.RERUN and trial.parameter_id is not None
    return f.TrialEnded(
        trial_id=trial.id,
        status=_LAST_STATUS[target],
        reason=reason,
        untried=target is f.StopKind.SYSTEM and suggested,
    )


def _aims(state: ExperimentState, now: datetime) -> Iterator[f.Fact]:
    """Targets that a limit or the experiment's end moves."""
    limit = state.limits.max_trial_duration
    if limit is not None:
        for trial_id in state.running:
            trial = state.trials[trial_id]
            if trial.running_since is None or trial.running_since + limit > now:
                break  # the oldest come first
            if trial.target is None and not trial.closed_job:
                reason = f"maxTrialDuration ({_seconds(limit)}) is over"
                yield f.TargetMoved(trial_id=trial_id, kind=f.StopKind.DURATION, reason=reason)
    if state.stop_requested and not state.detached:
        for trial in state.trials.values():
            if trial.target in (None, f.StopKind.PAUSE) and not is_unsettled(trial):
                yield f.TargetMoved(
                    trial_id=trial.id, kind=f.StopKind.CUT, reason="the experiment was stopped"
                )
        return
    for trial_id in state.superseded:
        trial = state.trials[trial_id]
        if trial.target is None and not is_unsettled(trial):
            yield _cancelled(trial, "the search space was replaced before it started")
    if _time_is_up(state, now):
        for trial_id in state.queued:
            trial = state.trials[trial_id]
            if trial.target is None:
                yield _cancelled(trial, "the experiment's time was up before it started")


def _cancelled(trial: TrialState, reason: str) -> f.TargetMoved:
    return f.TargetMoved(trial_id=trial.id, kind=f.StopKind.SYSTEM, reason=reason)


def _run_again(state: ExperimentState) -> Iterator[f.Fact]:
    """A trial that a stop cut off runs again as a new one, with the same parameters."""
    again = sorted(state.interrupted, key=lambda cut: cut.sequence)
    for offset, cut in enumerate(again):
        sequence = state.next_sequence + offset
        yield f.Suggested(
            trial_id=trial_id_of(state.id, sequence),
            sequence=sequence,
            source=f.SuggestionSource.RESUMED,
            parameter_id=cut.parameter_id,
            parameters=cut.parameters,
            retry_of=cut.trial_id,
        )


# ---- the experiment ---------------------------------------------------------------------------------------


def _time_is_up(state: ExperimentState, now: datetime) -> bool:
    limit = state.limits.max_experiment_duration
    return limit is not None and state.active_for(now) >= limit


def _status(state: ExperimentState, now: datetime) -> f.ExperimentMoved | None:
    """The status that the experiment should have, if it is another than it has."""
    status, drain, reason = _wanted_status(state, now)
    if (status, drain) == (state.status, state.drain):
        return None
    return f.ExperimentMoved(status=status, drain=drain, reason=reason)


def _wanted_status(
    state: ExperimentState, now: datetime
) -> tuple[f.ExperimentStatus, f.DrainReason | None, str]:
    if state.stop_requested:
        if state.detached:
            return (
                f.ExperimentStatus.STOPPED,
                None,
                f"stopped; {len(state.trials)} trials run on by themselves",
            )
        if not _is_over(state):
            return f.ExperimentStatus.DRAINING, f.DrainReason.USER, "a user stops it"
        return f.ExperimentStatus.STOPPED, None, "a user stopped it"
    if state.failed is not None:
        return f.ExperimentStatus.ERROR, None, state.failed
    drain, reason = _drain(state, now)
    if drain is None:
        return f.ExperimentStatus.RUNNING, None, "runs"
    if _is_over(state):
        return f.ExperimentStatus.DONE, None, f"done: {reason}"
    return f.ExperimentStatus.DRAINING, drain, f"waits for its last trials: {reason}"


def _is_over(state: ExperimentState) -> bool:
    """It stays so while hosts that were silent are heard again and end what they have left."""
    ended = state.status in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED)
    return state.over or (ended and not state.trials)


def _drain(state: ExperimentState, now: datetime) -> tuple[f.DrainReason | None, str]:
    if _time_is_up(state, now):
        limit = state.limits.max_experiment_duration
        assert limit is not None
        return f.DrainReason.BUDGET, f"maxExperimentDuration ({_seconds(limit)}) is over"
    if state.budget == 0 and not state.interrupted:
        return f.DrainReason.BUDGET, f"all {state.limits.max_trial_number} trials were created"
    if state.exhausted and not state.interrupted:
        return f.DrainReason.TUNER, "the tuner has no more parameter sets"
    return None, ""


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"


# ---- commands ---------------------------------------------------------------------------------------------


def _commands(state: ExperimentState, now: datetime, ahead: int) -> Iterator[Command]:
    for trial_id in state.condemned:
        trial = state.trials[trial_id]
        if trial.job_id is not None:
            yield CancelJob(job_id=trial.job_id, grace=TRIAL_GRACE)
    for keeper_id in state.forsaken:
        for job in _jobs_at(state, keeper_id):
            if job.stop is None:
                yield CancelJob(job_id=job.id, grace=TRIAL_GRACE)
    for trial_id in state.wanting:
        yield from _hand_over(state, state.trials[trial_id])
    if state.status not in (f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING) or state.stop_requested:
        return
    free = state.limits.trial_concurrency - state.open_jobs + len(state.lent)
    waiting = len(state.queued)
    if free > 0:
        for trial_id in state.queued:
            if free <= 0:
                break
            trial = state.trials[trial_id]
            if trial.target is not None or (trial.due_at is not None and trial.due_at > now):
                continue
            free -= 1
            waiting -= 1
            yield SubmitJob(trial_id=trial_id, job_id=job_id_of(state.id, trial_id, trial.attempt))
    if state.status is f.ExperimentStatus.RUNNING:
        wanted = max(0, free) + ahead - waiting
        if state.budget is not None:
            wanted = min(wanted, state.budget)
        if wanted > 0:
            yield AskTuner(count=wanted, urgent=free > 0)


def _hand_over(state: ExperimentState, trial: TrialState) -> Iterator[Command]:
    """The parameter sets that a running trial waits for."""
    if trial.job_id is None or state.jobs[trial.job_id].stop is not None:
        return
    for index in trial.wants:
        if is_due(state, trial, index):
            yield AskFurther(trial_id=trial.id, index=index)
        else:
            yield UpdateJob(job_id=trial.job_id, index=index, record=parameter_record(trial, index))


def _wake_at(state: ExperimentState, now: datetime) -> datetime | None:
    due: list[datetime] = []
    limit = state.limits.max_trial_duration
    if limit is not None:
        for trial_id in state.running:
            trial = state.trials[trial_id]
            if trial.target is None and trial.running_since is not None:
                due.append(trial.running_since + limit)
                break
    limit = state.limits.max_experiment_duration
    if limit is not None and state.active_since is not None and not _time_is_up(state, now):
        due.append(state.active_since + limit - state.active)
    for trial_id in state.unknown:
        trial = state.trials[trial_id]
        if trial.job_id is not None:
            at = _given_up_at(state, trial, state.jobs[trial.job_id])
            due += [] if at is None else [at]
            due += [] if trial.slot_lent else [_lent_at(state, trial)]
    # Trials with a retry to wait for are few; those that wait for a slot alone have no due_at.
    due += [
        at for trial_id in state.retrying if (at := state.trials[trial_id].due_at) is not None and at > now
    ]
    return min(due) if due else None
