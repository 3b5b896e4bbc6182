"""Functions that apply facts about the experiment and its trials to the state."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from nnimgr.objectives import numbers_of
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoint_limit import leave_files
from nnimgr.rules.checkpoints import begin_leg, continue_from
from nnimgr.rules.confirmations import count_canceled, is_confirmation, note_result
from nnimgr.rules.decisions import begin_fork
from nnimgr.rules.growth import forget_rooms
from nnimgr.rules.indexes import is_queued, reindex
from nnimgr.rules.pruning import leave_copies
from nnimgr.rules.state import (
    ATTEMPTS_OF_AN_EPOCH,
    AddedTrial,
    Best,
    ExperimentState,
    Interrupted,
    ParameterSet,
    TrialState,
)
from nnimgr.rules.steps import Steps
from nnimgr.rules.stop_rules import count_end, forget_improvements
from nnimgr.rules.transitions import TAKEN_BACK, move, note, stopping_reason, trial_touched

EXPERIMENT_STEPS = Steps()
MAX_CRASHES = 3
MOST_REQUEST_KEYS = 1000

# ---- the experiment ---------------------------------------------------------------------------------------


@EXPERIMENT_STEPS.of(f.ExperimentCreated)
def _created(state: ExperimentState, fact: f.ExperimentCreated, r: f.Recorded) -> None:
    state.id, state.created_at = fact.experiment_id, r.at
    state.config, state.search_space, state.limits = dict(fact.config), fact.search_space, fact.limits
    state.traits, state.ids_from = fact.traits, fact.ids_from


@EXPERIMENT_STEPS.of(f.ExperimentOpened)
def _opened(state: ExperimentState, fact: f.ExperimentOpened, r: f.Recorded) -> None:
    state.m_epoch, state.opened_at = fact.m_epoch, r.at
    forget_rooms(state, opened_at=r.at)
    if fact.next_sequence is not None:
        state.next_sequence = max(state.next_sequence, fact.next_sequence)
        state.missing += fact.missing
        for trial in state.trials.values():
            trial.forgotten = ATTEMPTS_OF_AN_EPOCH * fact.m_epoch
    if fact.resumed:
        state.stop_requested = state.detached = state.stop_saves = False
        state.stop_requested_at = None
        state.resumed = True
        state.failed = None
        state.first_failures = state.failures = 0
        state.crashes = {}
        for trial in [state.trials[trial_id] for trial_id in state.paused]:
            if trial.parked:
                trial.parked = False
                if trial.target is f.StopKind.PAUSE:  # else it was to be stopped meanwhile
                    trial.target, trial.target_reason = None, ""
                reindex(state, trial)
    elif state.active_since is not None and not state.jobs and state.last_at is not None:
        # No trial ran while no server ran, so the time without a server does not count towards
        # maxExperimentDuration.
        state.active_since = r.at


@EXPERIMENT_STEPS.of(f.ConfigChanged)
def _config_changed(state: ExperimentState, fact: f.ConfigChanged, r: f.Recorded) -> None:
    state.config.update(fact.changes)
    state.config = {key: value for key, value in state.config.items() if value is not None}
    state.limits = fact.limits
    forget_improvements(state)
    state.traits = fact.traits or state.traits
    if "tuner" in fact.changes:
        state.tuner_number, state.exhausted = r.number, False
        state.crashes.pop(f.Role.TUNER, None)
    if fact.search_space is not None:
        state.search_space, state.space_number = fact.search_space, r.number
        state.exhausted = False
        for trial in state.trials.values():
            job = state.jobs.get(trial.job_id or "")
            if trial.source is f.SuggestionSource.ALGORITHM and (
                is_queued(trial) or (job is not None and job.placed is None)
            ):
                trial.superseded = True
                reindex(state, trial)


@EXPERIMENT_STEPS.of(f.ExperimentMoved)
def _moved(state: ExperimentState, fact: f.ExperimentMoved, r: f.Recorded) -> None:
    ended_before = state.ended_at is not None and state.status is fact.status
    state.status, state.reason, state.drain = fact.status, fact.reason, fact.drain
    if fact.status in (f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING):
        state.ended_at = None
        if state.active_since is None:
            state.active_since = r.at
        return
    if not ended_before:  # else only the limit in the reason has changed
        state.ended_at, state.asks_again = r.at, False
    if state.active_since is not None:
        state.active += r.at - state.active_since
        state.active_since = None


@EXPERIMENT_STEPS.of(f.ExperimentStopRequested)
def _stop_requested(state: ExperimentState, fact: f.ExperimentStopRequested, r: f.Recorded) -> None:
    state.stop_requested = True
    state.stop_requested_at = r.at
    state.detached, state.stop_saves = fact.detach, fact.save


@EXPERIMENT_STEPS.of(f.AlgorithmFailed)
def _failed(state: ExperimentState, fact: f.AlgorithmFailed, r: f.Recorded) -> None:
    if fact.trial_id is not None:
        note(state, fact.trial_id, fact.sentence)
    if fact.idle or not (fact.fatal or fact.hopeless):
        return
    state.crashes[fact.role] = state.crashes.get(fact.role, 0) + 1
    if fact.hopeless or state.crashes[fact.role] > MAX_CRASHES:
        state.failed = fact.sentence


@EXPERIMENT_STEPS.of(f.AlgorithmRecovered)
def _recovered(state: ExperimentState, fact: f.AlgorithmRecovered, r: f.Recorded) -> None:
    state.crashes.pop(fact.role, None)


@EXPERIMENT_STEPS.of(f.DataImported)
def _imported(state: ExperimentState, fact: f.DataImported, r: f.Recorded) -> None:
    """Leave the state unchanged, because only the tuner uses the imported records."""


# ---- trials -----------------------------------------------------------------------------------------------


@EXPERIMENT_STEPS.of(f.Suggested)
def _suggested(state: ExperimentState, fact: f.Suggested, r: f.Recorded) -> None:
    trial = TrialState(
        id=fact.trial_id,
        sequence=fact.sequence,
        source=fact.source,
        parameter_id=fact.parameter_id,
        parameters=fact.parameters,
        created_at=r.at,
        retry_of=fact.retry_of,
        seed=fact.seed,
        reuse=fact.reuse,
        reason="waits for a free slot",
    )
    if fact.origin is not None:
        begin_fork(state, trial, fact.origin)
    if state.limits.multi_phase:
        trial.sets.append(ParameterSet(parameter_id=trial.parameter_id, parameters=trial.parameters))
    state.trials[trial.id] = state.touched.trials[trial.id] = trial
    state.counts[trial.status] = state.counts.get(trial.status, 0) + 1
    state.next_sequence = fact.sequence + 1
    if fact.source is f.SuggestionSource.ALGORITHM:
        assert fact.parameter_id is not None
        state.next_parameter_id = max(state.next_parameter_id, fact.parameter_id + 1)
        state.exhausted = False  # NNI's tuners may have parameter sets again later
        if fact.fed_to is not None and fact.fed_to < state.space_number:
            trial.superseded = True  # suggested before the tuner knew the current search space
    if fact.source is f.SuggestionSource.RESUMED:
        state.interrupted = [i for i in state.interrupted if i.trial_id != fact.retry_of]
    if fact.source is f.SuggestionSource.RERUN:
        state.reruns += 1
    if fact.source is f.SuggestionSource.CONFIRMATION and fact.retry_of is not None and fact.seed is not None:
        state.confirmations.setdefault(fact.retry_of, []).append(fact.seed)
    if fact.request_key is not None:
        state.added[fact.request_key] = AddedTrial.of(trial.id, trial.sequence, fact.parameters)
        while len(state.added) > MOST_REQUEST_KEYS:
            del state.added[next(iter(state.added))]
    reindex(state, trial)


@EXPERIMENT_STEPS.of(f.TunerExhausted)
def _exhausted(state: ExperimentState, fact: f.TunerExhausted, r: f.Recorded) -> None:
    state.exhausted, state.asks_again = True, False


def _aim(
    state: ExperimentState,
    fact: f.Verdict | f.StopRequested | f.TargetMoved,
    kind: f.StopKind,
    reason: str,
) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    if not trial.is_to_end:
        trial.target, trial.target_reason = kind, reason
        trial.paused_by = f.PausedBy.USER
        if trial.job_id is not None and state.jobs[trial.job_id].stop is not None:
            trial.reason = stopping_reason(state, trial)  # it was being paused
        reindex(state, trial)


@EXPERIMENT_STEPS.of(f.Verdict)
def _verdict(state: ExperimentState, fact: f.Verdict, r: f.Recorded) -> None:
    reason = f"the {fact.by} judged the trial bad {fact.when}"
    if fact.by is f.Role.SCHEDULER:
        reason = "the scheduler stopped it"
    reason += f": {fact.reason}" if fact.reason else ""
    _aim(state, fact, f.StopKind.ASSESSOR, reason)
    if fact.cause is not None:
        state.trials[fact.trial_id].decided = fact.cause


@EXPERIMENT_STEPS.of(f.StopRequested)
def _user_stop(state: ExperimentState, fact: f.StopRequested, r: f.Recorded) -> None:
    paused = fact.kind is f.StopKind.PAUSE
    trial = state.trials[fact.trial_id]
    if not paused and (trial.unknown_since is not None or trial.target is f.StopKind.CUT):
        # A user's stop replaces stops that wait for the silent host. It also replaces the stop of the whole
        # experiment, which would let the trial continue after the experiment's resume.
        trial.target = None
    _aim(state, fact, fact.kind, "a user paused it" if paused else "a user stopped it")


@EXPERIMENT_STEPS.of(f.TargetMoved)
def _target_moved(state: ExperimentState, fact: f.TargetMoved, r: f.Recorded) -> None:
    _aim(state, fact, fact.kind, fact.reason)


@EXPERIMENT_STEPS.of(f.ResumeRequested)
def _resume_requested(state: ExperimentState, fact: f.ResumeRequested, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    if trial.target is f.StopKind.PAUSE:
        trial.target, trial.target_reason = None, ""
        job = state.jobs.get(trial.job_id or "")
        if job is not None and job.stop is not None and not job.closed:
            trial.reason = TAKEN_BACK
    reindex(state, trial)


@EXPERIMENT_STEPS.of(f.AttemptDue)
def _attempt_due(state: ExperimentState, fact: f.AttemptDue, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.lost_attempts += fact.lost
    trial.failed_attempts += fact.failed
    if not (fact.lost or fact.failed):
        trial.memory_attempts += fact.cause is f.Cause.OUT_OF_MEMORY
        trial.preempted_attempts += fact.cause is f.Cause.PREEMPTED
    trial.attempt, trial.due_at = fact.attempt, fact.due_at
    trial.again = fact.reason
    # "to run again" stays true if the trial still waits for a slot when the delay is over
    trial.reason = f"waits {'to run again' if fact.due_at > r.at else 'for a free slot'}: {fact.reason}"
    trial.closed_job = trial.started_at = trial.running_since = None
    if fact.resources is not None and (coming := trial.next_resources) is not None:
        trial.previous_resources = replace(coming, resources=trial.resources)
        trial.resources, trial.next_resources = dict(fact.resources), None
    if trial.target is not f.StopKind.PREEMPT:
        trial.preempted_by = None
    reshaped = trial.target in (f.StopKind.GROW, f.StopKind.SHRINK)
    trial.is_reshaping = reshaped and fact.cause is None
    trial.seats, trial.most_members = fact.seats, fact.most_members
    if reshaped or trial.target in (f.StopKind.RESIZE, f.StopKind.PREEMPT):
        trial.target, trial.target_reason = None, ""
    if fact.leg is not None and trial.next_leg is not None and fact.origin is not None:
        trial.leg, trial.parameters = fact.leg, fact.parameters or trial.parameters
        begin_leg(trial, replace(trial.next_leg.checkpoint, origin=fact.origin))
        trial.next_leg = None
        if trial.target is f.StopKind.LEG:
            trial.target, trial.target_reason = None, ""
    else:
        continue_from(trial, fact.origin)
    if fact.origin is None:
        trial.ran = timedelta(0)
    trial.parameter_sets = 1
    move(state, trial, f.TrialStatus.WAITING)
    reindex(state, trial)


@EXPERIMENT_STEPS.of(f.ResultReused)
def _reused(state: ExperimentState, fact: f.ResultReused, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.final_value, trial.final_text = fact.value, fact.text


@EXPERIMENT_STEPS.of(f.TrialPaused)
def _paused(state: ExperimentState, fact: f.TrialPaused, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.closed_job = trial.running_since = None
    trial.reason = fact.reason
    trial.parked, trial.paused_by = fact.parked, fact.by
    if fact.parked:  # the stop of the experiment is carried out; the resume takes the pause back
        trial.target, trial.target_reason = f.StopKind.PAUSE, fact.reason
    move(state, trial, f.TrialStatus.PAUSED)
    reindex(state, trial)


@EXPERIMENT_STEPS.of(f.TrialNoted)
def _noted(state: ExperimentState, fact: f.TrialNoted, r: f.Recorded) -> None:
    note(state, fact.trial_id, fact.note)


@EXPERIMENT_STEPS.of(f.TrialEnded)
def _ended(state: ExperimentState, fact: f.TrialEnded, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    move(state, trial, fact.status)
    trial.reason, trial.ended_at = fact.reason, r.at
    if trial.closed_job is not None and (job := state.touched.jobs.get(trial.closed_job)):
        trial.ended_at = job.ended_at or r.at
    trial.closed_job = trial.running_since = None
    leave_copies(state, trial)
    leave_files(state, trial)
    del state.trials[trial.id]
    reindex(state, trial)
    if is_confirmation(trial):  # its result is not a result of the search
        if fact.status is f.TrialStatus.SYS_CANCELED:
            count_canceled(state, trial)
        return
    state.asks_again = True  # a tuner may have more parameter sets after a result
    if fact.untried:
        state.exhausted = False  # the tuner can give this parameter set again
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
    _count_first_failures(state, fact)
    better = False
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
        note_result(state, trial)
    count_end(state, trial, better=better)


def _count_fruitless(state: ExperimentState, trial: TrialState) -> None:
    if trial.status is f.TrialStatus.SUCCEEDED and trial.final_text is not None:
        if state.traits.own or trial.final_value is not None:
            state.fruitless, state.fruitless_since = 0, ""
            return
    elif trial.status not in (f.TrialStatus.SUCCEEDED, f.TrialStatus.FAILED):
        return  # the trial was stopped
    if not state.fruitless:
        state.fruitless_since = f"trial {trial.title}: {trial.reason}"
    state.fruitless += 1


def _count_first_failures(state: ExperimentState, fact: f.TrialEnded) -> None:
    """Count the first trials since the start or the last resume, as long as all of them failed alike.

    A trial that a user or the system has stopped is neither a failure nor a success.
    """
    if state.first_failures is None:
        return
    if fact.status is f.TrialStatus.FAILED:
        if fact.failure is None:
            return  # the command itself has not failed
        if not state.first_failures:
            state.first_failure, state.first_failure_reason = fact.failure, fact.reason
        alike = fact.failure == state.first_failure
        state.first_failures = state.first_failures + 1 if alike else None
    elif fact.status in (f.TrialStatus.SUCCEEDED, f.TrialStatus.EARLY_STOPPED):
        state.first_failures = None


def _note_worst(state: ExperimentState, trial: TrialState) -> None:
    objectives, worst = state.objectives, state.worst_of
    numbers = numbers_of(json.loads(trial.final_text or "null"), objectives) or {}
    for name, number in numbers.items():
        worse = max if objectives[name] == "minimize" else min
        worst[name] = worse(worst.get(name, number), number)
