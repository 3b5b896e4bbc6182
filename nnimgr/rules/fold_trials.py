"""The steps of the fold that concern the experiment and its trials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nnimgr.builtins import meant
from nnimgr.objectives import numbers_of
from nnimgr.rules import facts as f
from nnimgr.rules.state import (
    ATTEMPTS_OF_AN_EPOCH,
    AddedTrial,
    Best,
    ExperimentState,
    Interrupted,
    ParameterSet,
    TrialState,
    is_queued,
)
from nnimgr.rules.transitions import Step, move, note, reindex, trial_touched

MAX_CRASHES = 3
MOST_REQUEST_KEYS = 1000

# ---- the experiment ---------------------------------------------------------------------------------------


def _created(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.id, state.created_at = fact.experiment_id, r.at
    state.config, state.search_space, state.limits = dict(fact.config), fact.search_space, fact.limits


def _opened(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.m_epoch, state.opened_at = fact.m_epoch, r.at
    if fact.next_sequence is not None:
        state.next_sequence = max(state.next_sequence, fact.next_sequence)
        state.missing += fact.missing
        for trial in state.trials.values():
            trial.forgotten = ATTEMPTS_OF_AN_EPOCH * fact.m_epoch
    if fact.resumed:
        state.stop_requested = state.detached = False
        state.stop_requested_at = None
        state.failed = None
        state.crashes = {}
    elif state.active_since is not None and not state.jobs and state.last_at is not None:
        # Nothing ran while no server did: that time does not count.
        state.active_since = r.at


def _config_changed(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.config.update(fact.changes)
    state.config = {key: value for key, value in state.config.items() if value is not None}
    state.limits = fact.limits
    if "tuner" in fact.changes:
        state.tuner_number, state.exhausted = r.number, False
        state.crashes.pop("tuner", None)
    if fact.search_space is not None:
        state.search_space, state.space_number = fact.search_space, r.number
        state.exhausted = False
        for trial in state.trials.values():
            job = state.jobs.get(trial.job_id or "")
            if trial.source is f.SuggestionSource.ALGORITHM and (
                is_queued(trial) or (job is not None and job.placed is None)
            ):
                state.superseded[trial.id] = None


def _moved(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.status, state.reason, state.drain = fact.status, fact.reason, fact.drain
    if fact.status in (f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING):
        state.ended_at = None
        if state.active_since is None:
            state.active_since = r.at
        return
    state.ended_at = r.at
    if state.active_since is not None:
        state.active += r.at - state.active_since
        state.active_since = None


def _stop_requested(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.stop_requested = True
    state.stop_requested_at = r.at
    state.detached = fact.detach


def _failed(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    if fact.trial_id is not None:
        note(state, fact.trial_id, fact.sentence)
    if fact.idle or not (fact.fatal or fact.hopeless):
        return
    state.crashes[fact.role] = state.crashes.get(fact.role, 0) + 1
    if fact.hopeless or state.crashes[fact.role] > MAX_CRASHES:
        state.failed = fact.sentence


def _recovered(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.crashes.pop(fact.role, None)


# ---- trials -----------------------------------------------------------------------------------------------


def _suggested(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = TrialState(
        id=fact.trial_id,
        sequence=fact.sequence,
        source=fact.source,
        parameter_id=fact.parameter_id,
        parameters=fact.parameters,
        created_at=r.at,
        retry_of=fact.retry_of,
        reuse=fact.reuse,
        reason="waits for a free slot",
    )
    if state.limits.multi_phase:
        trial.sets.append(ParameterSet(parameter_id=trial.parameter_id, parameters=trial.parameters))
    state.trials[trial.id] = state.touched.trials[trial.id] = trial
    state.counts[trial.status] = state.counts.get(trial.status, 0) + 1
    state.next_sequence = fact.sequence + 1
    if fact.source is f.SuggestionSource.ALGORITHM:
        state.next_parameter_id = max(state.next_parameter_id, fact.parameter_id + 1)
        state.exhausted = False  # NNI's tuners may offer more after they had none
        if fact.fed_to is not None and fact.fed_to < state.space_number:
            state.superseded[trial.id] = None  # it crossed the change of the space
    if fact.source is f.SuggestionSource.RESUMED:
        state.interrupted = [i for i in state.interrupted if i.trial_id != fact.retry_of]
    if fact.source is f.SuggestionSource.RERUN:
        state.reruns += 1
    if fact.request_key is not None:
        state.added[fact.request_key] = AddedTrial.of(trial.id, trial.sequence, fact.parameters)
        while len(state.added) > MOST_REQUEST_KEYS:
            del state.added[next(iter(state.added))]
    reindex(state, trial)


def _exhausted(state: ExperimentState, r: f.Recorded) -> None:
    state.exhausted = True


def _aim(state: ExperimentState, fact: Any, kind: f.StopKind, reason: str) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    if trial.target is None or trial.target is f.StopKind.PAUSE:
        trial.target, trial.target_reason = kind, reason
        reindex(state, trial)


def _verdict(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    reason = f"the assessor judged it bad at report {fact.position + 1}"
    reason += f": {fact.reason}" if fact.reason else ""
    _aim(state, fact, f.StopKind.ASSESSOR, reason)


def _user_stop(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    paused = fact.kind is f.StopKind.PAUSE
    trial = state.trials[fact.trial_id]
    if not paused and trial.unknown_since is not None:
        trial.target = None  # others wait for its silent host without end; after a user's stop it is given up
    _aim(state, fact, fact.kind, "a user paused it" if paused else "a user stopped it")


def _target_moved(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    _aim(state, fact, fact.kind, fact.reason)


def _resume_requested(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = trial_touched(state, fact.trial_id, fact)
    if trial.target is f.StopKind.PAUSE:
        trial.target, trial.target_reason = None, ""
    reindex(state, trial)


def _attempt_due(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = trial_touched(state, fact.trial_id, fact)
    trial.lost_attempts += fact.lost
    trial.failed_attempts += fact.failed
    trial.attempt, trial.due_at = fact.attempt, fact.due_at
    trial.reason = f"waits for a new attempt: {fact.reason}"
    trial.closed_job = trial.started_at = trial.running_since = None
    trial.final_value = trial.final_text = trial.latest_value = trial.latest_text = None
    trial.intermediates = 0
    trial.parameter_sets = 1
    move(state, trial, f.TrialStatus.WAITING)
    reindex(state, trial)


def _paused(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = trial_touched(state, fact.trial_id, fact)
    trial.closed_job = trial.running_since = None
    trial.reason = fact.reason
    move(state, trial, f.TrialStatus.PAUSED)
    reindex(state, trial)


def _noted(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    note(state, fact.trial_id, fact.note)


def _ended(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = trial_touched(state, fact.trial_id, fact)
    move(state, trial, fact.status)
    trial.reason, trial.ended_at = fact.reason, r.at
    if trial.closed_job is not None and (job := state.touched.jobs.get(trial.closed_job)):
        trial.ended_at = job.ended_at or r.at
    trial.closed_job = trial.running_since = None
    reindex(state, trial)
    state.superseded.pop(trial.id, None)
    del state.trials[trial.id]
    if fact.untried:
        state.exhausted = False  # the tuner has that set to give again
    if fact.status is f.TrialStatus.SYS_CANCELED and trial.target is f.StopKind.CUT:
        state.interrupted.append(
            Interrupted(
                trial_id=trial.id,
                sequence=trial.sequence,
                source=trial.source,
                parameter_id=trial.parameter_id,
                parameters=trial.parameters,
            )
        )
    value = trial.final_value
    _count_fruitless(state, trial)
    if fact.status is f.TrialStatus.SUCCEEDED and value is not None:
        better = state.best is None or (
            value < state.best.value if state.minimises else value > state.best.value
        )
        if better:
            state.best = Best(trial_id=trial.id, sequence=trial.sequence, value=value)
        worse = max if state.minimises else min
        state.worst = value if state.worst is None else worse(state.worst, value)
        if state.objectives:
            _note_worst(state, trial)


def _count_fruitless(state: ExperimentState, trial: TrialState) -> None:
    if trial.status is f.TrialStatus.SUCCEEDED and trial.final_text is not None:
        own = meant("tuner", state.config.get("tuner") or {}) is None  # it may take what is no number
        if own or trial.final_value is not None:
            state.fruitless, state.fruitless_since = 0, ""
            return
    elif trial.status not in (f.TrialStatus.SUCCEEDED, f.TrialStatus.FAILED):
        return  # somebody has stopped it
    if not state.fruitless:
        state.fruitless_since = f"trial {trial.id} {trial.reason}"
    state.fruitless += 1


def _note_worst(state: ExperimentState, trial: TrialState) -> None:
    objectives, worst = state.objectives, state.worst_of
    numbers = numbers_of(json.loads(trial.final_text or "null"), objectives) or {}
    for name, number in numbers.items():
        worse = max if objectives[name] == "minimize" else min
        worst[name] = worse(worst.get(name, number), number)


EXPERIMENT_STEPS: Mapping[type[Any], Step] = {
    f.ExperimentCreated: _created,
    f.ExperimentOpened: _opened,
    f.ConfigChanged: _config_changed,
    f.ExperimentMoved: _moved,
    f.ExperimentStopRequested: _stop_requested,
    f.AlgorithmFailed: _failed,
    f.AlgorithmRecovered: _recovered,
    f.DataImported: lambda state, r: None,
    f.Suggested: _suggested,
    f.TunerExhausted: _exhausted,
    f.Verdict: _verdict,
    f.StopRequested: _user_stop,
    f.TargetMoved: _target_moved,
    f.ResumeRequested: _resume_requested,
    f.AttemptDue: _attempt_due,
    f.TrialPaused: _paused,
    f.TrialNoted: _noted,
    f.TrialEnded: _ended,
}
