"""Plans the next steps of an experiment, which follow from its state (``plan``).

The functions are pure. The facts of a plan follow from the state alone. The commands of a plan are orders to
the training service or the tuner, which may be repeated without harm. The cost of a call grows with the
number of next steps, not with the number of trials, because only the small indexes of the state are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from nnimgr.rules import facts as f
from nnimgr.rules.checkpoint_limit import keep_to_limit
from nnimgr.rules.checkpoints import saves_first
from nnimgr.rules.commands import (
    AskFurther,
    AskTuner,
    CancelJob,
    Command,
    SaveJob,
    SubmitJob,
    UpdateJob,
)
from nnimgr.rules.confirmations import confirm
from nnimgr.rules.experiment_status import move_status, time_is_up
from nnimgr.rules.gangs import barrier_at, due_commands, due_facts, losses
from nnimgr.rules.growth import grow, growth_due_at
from nnimgr.rules.indexes import is_unsettled
from nnimgr.rules.phases import is_due, parameter_record
from nnimgr.rules.phrases import in_seconds
from nnimgr.rules.pruning import prune, prune_copies, prune_last
from nnimgr.rules.reuse import reuse_result
from nnimgr.rules.silent_hosts import give_up_overdue, give_up_silent, given_up_at, lent_at, overdue_at
from nnimgr.rules.state import (
    ExperimentState,
    TrialState,
    job_id_of,
)
from nnimgr.rules.stop_rules import end_trials, has_started, rule_due_at
from nnimgr.rules.transitions import REMOVED
from nnimgr.rules.trial_ends import end_unplaced, settle, take_results
from training_services.base import TRIAL_GRACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    facts: tuple[f.Fact, ...]
    commands: tuple[Command, ...]
    wake_at: datetime | None  # time of the next limit or retry; None: nothing is scheduled


def plan(state: ExperimentState, now: datetime, *, ahead: int = 0, wanted: int = 0) -> Plan:
    """Return the facts and commands that follow from the state at the time ``now``.

    ``ahead``: number of suggestions to request in advance, beyond the free slots. ``wanted``: number of jobs
    for which programs wait, if programs ask for them. If the plan has facts, apply them and call ``plan``
    again. The plan has commands only if no more facts follow.
    """
    consequences = tuple(_consequences(state, now, wanted))
    if consequences:
        return Plan(facts=consequences, commands=(), wake_at=None)
    return Plan(facts=(), commands=tuple(_commands(state, now, ahead, wanted)), wake_at=_wake_at(state, now))


def _consequences(state: ExperimentState, now: datetime, wanted: int) -> Iterator[f.Fact]:
    if state.status is f.ExperimentStatus.VIEWED or not state.id:
        return
    for trial_id in state.hoarding:
        yield from prune(state, state.trials[trial_id])
    yield from prune_copies(state)
    yield from keep_to_limit(state)
    for trial_id in state.gangs:
        trial = state.trials[trial_id]
        yield from due_facts(state, trial, state.jobs[trial.job_id or ""])
    yield from grow(state, now)
    for trial_id in state.reported:
        yield from take_results(state.trials[trial_id])
    yield from _settlements(state, now)
    for keeper_id in state.forsaken:
        keeper = state.keepers.get(keeper_id)
        if keeper is not None and keeper.silent is not None:
            for job in state.open_jobs_at(keeper_id):
                yield from losses(job, f"{REMOVED}: {keeper.silent}", keepers=(keeper_id,))
    yield from _aims(state, now)
    given_up = tuple(give_up_silent(state, now))
    yield from given_up or give_up_overdue(state, now)  # only one of the lists, because a job may be in both
    if (moved := move_status(state, now, wanted=wanted)) is not None:
        yield moved
    elif state.interrupted and state.status is f.ExperimentStatus.RUNNING:
        yield from _run_again(state)
    elif not time_is_up(state, now):
        yield from confirm(state)


def _settlements(state: ExperimentState, now: datetime) -> Iterator[f.Fact]:
    """Yield what follows for trials whose attempt or pause has ended, or that end without an attempt.

    Stop after the end of a trial that keeps a checkpoint of another one: what that other one may delete at
    its own end depends on this fact, which has to be applied first.
    """
    for trial_id in state.unsettled:
        trial = state.trials[trial_id]
        if trial.reuse is not None:
            yield from reuse_result(trial, trial.reuse)
            continue
        fact = settle(state, trial, now)
        yield from _then_prune(state, trial, fact)
        if isinstance(fact, f.TrialEnded) and trial_id in state.borrowing:
            return
    for trial_id in state.condemned:
        trial = state.trials[trial_id]
        if trial.job_id is None and not trial.closed_job:
            fact = end_unplaced(state, trial)
            yield from _then_prune(state, trial, fact)
            if isinstance(fact, f.TrialEnded) and trial_id in state.borrowing:
                return


def _then_prune(state: ExperimentState, trial: TrialState, fact: f.Fact) -> Iterator[f.Fact]:
    """Yield the fact, and what may be deleted if it ends the trial."""
    yield fact
    if isinstance(fact, f.TrialEnded):
        yield from prune_last(state, trial)


def _aims(state: ExperimentState, now: datetime) -> Iterator[f.Fact]:
    """Yield facts that stop trials because of a limit, a changed search space, or the end of the
    experiment.
    """
    limit = state.limits.max_trial_duration
    if limit is not None:
        for trial in _too_long(state, limit, now):
            reason = f"exceeded maxTrialDuration ({in_seconds(limit)})"
            yield f.TargetMoved(trial_id=trial.id, kind=f.StopKind.DURATION, reason=reason)
    if state.stop_requested and not state.detached:
        for trial in state.trials.values():
            paused = trial.status is f.TrialStatus.PAUSED
            if not trial.is_to_end and not paused and not is_unsettled(trial):
                yield f.TargetMoved(
                    trial_id=trial.id, kind=f.StopKind.CUT, reason="the experiment was stopped"
                )
        return
    for trial_id in state.superseded:
        trial = state.trials[trial_id]
        if not is_unsettled(trial):
            yield _cancelled(trial, "the search space or its constraints were changed")
    if state.status is f.ExperimentStatus.DRAINING and state.drain is f.DrainReason.FAILURES:
        for trial in state.trials.values():
            unplaced = trial.job_id is None or state.jobs[trial.job_id].placed is None
            unplaced = unplaced and trial.status is not f.TrialStatus.PAUSED
            if unplaced and not trial.is_to_end and not is_unsettled(trial):
                reason = "the first trials had all failed alike"
                yield f.TargetMoved(trial_id=trial.id, kind=f.StopKind.CUT, reason=reason)
    yield from end_trials(state)
    if time_is_up(state, now):
        for trial in state.trials.values():
            job = state.jobs.get(trial.job_id or "")
            waits = trial.id in state.queued or (job is not None and job.placed is None and not job.closed)
            if waits and trial.target is None and not has_started(state, trial):
                yield _cancelled(trial, "the experiment exceeded maxExperimentDuration")


def _too_long(state: ExperimentState, limit: timedelta, now: datetime) -> Iterator[TrialState]:
    """Yield the trials that have run for longer than the limit and are not to be stopped yet."""
    for trial_id in state.running:
        trial = state.trials[trial_id]
        if trial.running_since is None or trial.running_since + limit > now:
            break  # the trials are ordered from the oldest start to the newest
        if trial.target is None and not trial.closed_job:
            yield trial
    for trial_id in state.continued:  # these are in no such order, because they have run before
        trial = state.trials[trial_id]
        if trial.running_since is not None and trial.running_since + limit - trial.ran <= now:
            if trial.target is None and not trial.closed_job:
                yield trial


def _cancelled(trial: TrialState, reason: str) -> f.TargetMoved:
    return f.TargetMoved(trial_id=trial.id, kind=f.StopKind.SYSTEM, reason=reason)


def _run_again(state: ExperimentState) -> Iterator[f.Fact]:
    """Yield a new trial with the same parameters for each trial that a stop of the experiment interrupted."""
    again = sorted(state.interrupted, key=lambda cut: cut.sequence)
    for offset, cut in enumerate(again):
        sequence = state.next_sequence + offset
        yield f.Suggested(
            trial_id=state.trial_id(sequence),
            sequence=sequence,
            source=f.SuggestionSource.RESUMED,
            parameter_id=cut.parameter_id,
            parameters=cut.parameters,
            retry_of=cut.trial_id,
        )


def _commands(state: ExperimentState, now: datetime, ahead: int, wanted_jobs: int) -> Iterator[Command]:
    stops = tuple(_stops(state))
    yield from stops
    yield from _saves(state)
    if state.gangs:
        stopping = {command.job_id for command in stops}
        for trial_id in state.gangs:
            job = state.jobs[state.trials[trial_id].job_id or ""]
            yield from due_commands(state, job, now, stops=job.id in stopping)
    for trial_id in state.wanting:
        yield from _hand_over(state, state.trials[trial_id])
    if state.status not in (f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING) or state.stop_requested:
        return
    free = min(state.free_slots, wanted_jobs) if state.asked else state.free_slots
    waiting = len(state.queued)
    if free > 0:
        # trials that have begun come first, so that results come earlier and fewer checkpoints are kept
        for trial_id in chain(state.retrying, (each for each in state.queued if each not in state.retrying)):
            if free <= 0:
                break
            trial = state.trials[trial_id]
            if trial.target is not None or (trial.due_at is not None and trial.due_at > now):
                continue
            free -= 1
            waiting -= 1
            yield SubmitJob(trial_id=trial_id, job_id=job_id_of(state.id, trial_id, trial.attempt))
    if state.status is f.ExperimentStatus.RUNNING or state.asks_exhausted:
        wanted = max(0, free) + ahead - waiting
        if state.budget is not None:
            wanted = min(wanted, state.budget)
        if wanted > 0:
            yield AskTuner(count=wanted, urgent=free > 0)


def _stops(state: ExperimentState) -> Iterator[CancelJob]:
    """Yield the stops of jobs that are to end and were not stopped yet."""
    for trial_id in state.condemned:
        trial = state.trials[trial_id]
        if trial.job_id is not None:
            within = state.limits.save_within if saves_first(state, trial) else None
            yield CancelJob(job_id=trial.job_id, grace=TRIAL_GRACE, save_within=within)
    for trial_id in state.stranded:
        trial = state.trials[trial_id]
        if trial.job_id is not None and trial.target is None:
            yield CancelJob(job_id=trial.job_id, grace=TRIAL_GRACE)
    for keeper_id in state.forsaken:
        for job in state.open_jobs_at(keeper_id):
            if job.stop is None:
                yield CancelJob(job_id=job.id, grace=TRIAL_GRACE)


def _saves(state: ExperimentState) -> Iterator[SaveJob]:
    """Yield the requests to running jobs to save their state."""
    for trial_id in state.saving:
        job = state.jobs.get(state.trials[trial_id].job_id or "")
        if job is not None and job.stop is None and job.started_at is not None:
            yield SaveJob(job_id=job.id, within=state.limits.save_within)


def _hand_over(state: ExperimentState, trial: TrialState) -> Iterator[Command]:
    """Yield the commands that bring a running multi-phase trial the parameter sets for which it waits."""
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
        due += [
            trial.running_since + limit - trial.ran
            for trial in map(state.trials.__getitem__, state.continued)
            if trial.target is None and trial.running_since is not None
        ]
    limit = state.limits.max_experiment_duration
    if limit is not None and state.active_since is not None and not time_is_up(state, now):
        due.append(state.active_since + limit - state.active)
    rule_due = rule_due_at(state, now)
    due += [] if rule_due is None else [rule_due]
    for trial_id in state.unknown:
        trial = state.trials[trial_id]
        if trial.job_id is not None:
            # what is due already waits for another fact, such as the order to stop a gang's members
            at = given_up_at(state, trial, state.jobs[trial.job_id])
            due += [] if at is None or at <= now else [at]
            at = lent_at(state, trial)
            due += [] if trial.slot_lent or at <= now else [at]
    for trial_id in state.gangs:
        at = barrier_at(state, state.jobs[state.trials[trial_id].job_id or ""])
        due += [] if at is None or at <= now else [at]
    due += [at for at in growth_due_at(state) if at > now]
    overdue = overdue_at(state)
    due += [] if overdue is None else [overdue]
    # Only trials that wait for a retry have due_at, and they are few. Trials that wait for a slot have no
    # due_at.
    due += [
        at for trial_id in state.retrying if (at := state.trials[trial_id].due_at) is not None and at > now
    ]
    return min(due) if due else None
