"""``apply``: how each fact changes the state; ``admits``: whether a fact of the outside world is news at all.

Statuses move by a table. A pair that is not in it is a fault of ours, never a late packet: those are turned
away by ``admits`` at the mailbox.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnimgr.core import facts as f
from nnimgr.core.state import (
    Best,
    ExperimentState,
    Interrupted,
    JobState,
    KeeperState,
    TrialState,
    is_condemned,
    is_queued,
    is_unsettled,
    trial_of_job,
)

W, R, P, U = f.TrialStatus.WAITING, f.TrialStatus.RUNNING, f.TrialStatus.PAUSED, f.TrialStatus.UNKNOWN

TRANSITIONS: Mapping[type[f.Fact], frozenset[f.TrialStatus]] = {
    f.JobStarted: frozenset({W, U}),  # -> RUNNING
    f.JobEnded: frozenset({W, R, U}),  # stays until the plan has decided
    f.JobLost: frozenset({W, R, U}),
    f.AttemptDue: frozenset({W, R, P, U}),  # -> WAITING
    f.TrialPaused: frozenset({W, R, U}),  # -> PAUSED
    f.TrialEnded: frozenset({W, R, P, U}),  # -> its status
    f.KeeperSilent: frozenset({R}),  # -> UNKNOWN
    f.KeeperHeard: frozenset({U}),  # -> RUNNING
}

MAX_CRASHES = 3


class InvalidTransition(Exception):
    """A fact that the trial's status does not allow."""

    def __init__(self, trial: TrialState, fact: f.Fact) -> None:
        super().__init__(f"trial {trial.id} is {trial.status} and cannot take {fact}")


def admits(state: ExperimentState, fact: f.Fact) -> bool:
    """Whether the fact is news. Doubled, late and pointless ones are not."""
    match fact:
        case f.MetricReported() | f.FrameSkipped() | f.ParametersWanted():
            job = state.jobs.get(fact.job_id)
            return job is not None and not job.closed and fact.position == job.recorded
        case f.JobStarted():
            job = state.jobs.get(fact.job_id)
            return job is not None and not job.closed and job.started_at is None
        case f.JobEnded() | f.JobLost():
            job = state.jobs.get(fact.job_id)
            return job is not None and not job.closed
        case f.JobPlaced() | f.JobWaiting():
            return _placeable(state, fact)
        case f.Verdict():
            trial = state.trials.get(fact.trial_id)
            return trial is not None and trial.attempt == fact.attempt and trial.target is None
        case f.StopRequested() | f.ResumeRequested():
            return fact.trial_id in state.trials
        case f.KeeperAcknowledged():
            return fact.acked_cmd > state.keepers[fact.keeper_id].acked_cmd
        case f.KeeperSilent():
            return state.keepers[fact.keeper_id].silent is None
        case f.KeeperHeard():
            return state.keepers[fact.keeper_id].silent is not None
        case f.TunerExhausted():
            return not state.exhausted
        case f.AlgorithmRecovered():
            return fact.role in state.crashes
    return True


def _placeable(state: ExperimentState, fact: f.JobPlaced | f.JobWaiting) -> bool:
    trial_id, attempt = trial_of_job(fact.job_id)
    trial = state.trials.get(trial_id)
    if trial is None or trial.attempt != attempt:
        return False
    job = state.jobs.get(fact.job_id)
    if job is None:
        return is_queued(trial)
    if job.closed or job.placed is not None or job.stop is not None:
        return False
    return isinstance(fact, f.JobPlaced) or fact.reason != job.waiting


def apply(state: ExperimentState, recorded: f.Recorded) -> None:
    """Change the state by one fact. Raises InvalidTransition."""
    state.number, state.last_at = recorded.number, recorded.at
    _STEPS[type(recorded.fact)](state, recorded)


def _trial(state: ExperimentState, trial_id: str, fact: f.Fact) -> TrialState:
    """The trial, marked as touched, if its status allows the fact."""
    trial = state.trials[trial_id]
    allowed = TRANSITIONS.get(type(fact))
    if allowed is not None and trial.status not in allowed:
        raise InvalidTransition(trial, fact)
    state.touched.trials[trial_id] = trial
    return trial


def _job(state: ExperimentState, job_id: str) -> JobState:
    job = state.jobs[job_id]
    state.touched.jobs[job_id] = job
    return job


def _move(state: ExperimentState, trial: TrialState, status: f.TrialStatus) -> None:
    counts = state.counts
    counts[trial.status] -= 1
    if not counts[trial.status]:
        del counts[trial.status]
    counts[status] = counts.get(status, 0) + 1
    trial.status = status


def _reindex(state: ExperimentState, trial: TrialState) -> None:
    """Bring the derived sets in line with one trial."""
    for index, member in (
        (state.queued, is_queued(trial)),
        (state.retrying, trial.due_at is not None and is_queued(trial)),
        (state.unsettled, is_unsettled(trial)),
        (state.condemned, is_condemned(state, trial)),
        (state.running, trial.running_since is not None),
    ):
        if not member:
            index.pop(trial.id, None)
        elif trial.id not in index:
            index[trial.id] = None
    if trial.target is not None:
        state.superseded.pop(trial.id, None)


# ---- the experiment ---------------------------------------------------------------------------------------


def _created(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.id, state.created_at = fact.experiment_id, r.at
    state.config, state.search_space, state.limits = dict(fact.config), fact.search_space, fact.limits


def _opened(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.m_epoch = fact.m_epoch
    if fact.resumed:
        state.stop_requested = state.detached = False
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
    if fact.search_space is not None:
        state.search_space = fact.search_space
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
    state.detached = fact.detach


def _failed(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    if fact.trial_id is not None:
        _note(state, fact.trial_id, fact.sentence)
    if not fact.fatal and not fact.hopeless:
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
        reason="waits for a free slot",
    )
    state.trials[trial.id] = state.touched.trials[trial.id] = trial
    state.counts[trial.status] = state.counts.get(trial.status, 0) + 1
    state.next_sequence = fact.sequence + 1
    if fact.source is f.SuggestionSource.ALGORITHM:
        state.next_parameter_id = max(state.next_parameter_id, fact.parameter_id + 1)
    if fact.source is f.SuggestionSource.RESUMED:
        state.interrupted = [i for i in state.interrupted if i.trial_id != fact.retry_of]
    state.queued[trial.id] = None


def _exhausted(state: ExperimentState, r: f.Recorded) -> None:
    state.exhausted = True


def _aim(state: ExperimentState, fact: Any, kind: f.StopKind, reason: str) -> None:
    trial = _trial(state, fact.trial_id, fact)
    if trial.target is None or trial.target is f.StopKind.PAUSE:
        trial.target, trial.target_reason = kind, reason
        _reindex(state, trial)


def _verdict(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    reason = f"the assessor judged it bad at report {fact.position + 1}"
    _aim(state, fact, f.StopKind.ASSESSOR, reason)


def _user_stop(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    paused = fact.kind is f.StopKind.PAUSE
    _aim(state, fact, fact.kind, "a user paused it" if paused else "a user stopped it")


def _target_moved(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    _aim(state, fact, fact.kind, fact.reason)


def _resume_requested(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = _trial(state, fact.trial_id, fact)
    if trial.target is f.StopKind.PAUSE:
        trial.target, trial.target_reason = None, ""
    _reindex(state, trial)


def _attempt_due(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = _trial(state, fact.trial_id, fact)
    if trial.closed_job is not None and trial.status is not P:
        trial.lost_attempts += 1
    trial.attempt, trial.due_at = fact.attempt, fact.due_at
    trial.reason = f"waits for a new attempt: {fact.reason}"
    trial.closed_job = trial.started_at = trial.running_since = None
    trial.final_value = trial.final_text = trial.latest_value = trial.latest_text = None
    trial.intermediates = 0
    trial.parameter_sets = 1
    _move(state, trial, W)
    _reindex(state, trial)


def _paused(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = _trial(state, fact.trial_id, fact)
    trial.closed_job = trial.running_since = None
    trial.reason = fact.reason
    _move(state, trial, P)
    _reindex(state, trial)


def _noted(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    _note(state, fact.trial_id, fact.note)


def _note(state: ExperimentState, trial_id: str, note: str) -> None:
    """Put a sentence on a trial, which may have ended long ago."""
    if (trial := state.trials.get(trial_id)) is not None:
        trial.note = note
        state.touched.trials[trial_id] = trial
    else:
        state.touched.notes[trial_id] = note


def _ended(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial = _trial(state, fact.trial_id, fact)
    _move(state, trial, fact.status)
    trial.reason, trial.ended_at = fact.reason, r.at
    if trial.closed_job is not None and (job := state.touched.jobs.get(trial.closed_job)):
        trial.ended_at = job.ended_at or r.at
    trial.closed_job = trial.running_since = None
    _reindex(state, trial)
    state.superseded.pop(trial.id, None)
    del state.trials[trial.id]
    if fact.status is f.TrialStatus.SYS_CANCELED and state.stop_requested:
        state.interrupted.append(
            Interrupted(
                trial_id=trial.id,
                source=trial.source,
                parameter_id=trial.parameter_id,
                parameters=trial.parameters,
            )
        )
    value = trial.final_value
    if fact.status is f.TrialStatus.SUCCEEDED and value is not None:
        better = state.best is None or (
            value < state.best.value if state.minimises else value > state.best.value
        )
        if better:
            state.best = Best(trial_id=trial.id, sequence=trial.sequence, value=value)


# ---- jobs -------------------------------------------------------------------------------------------------


def _attach(state: ExperimentState, job_id: str, fact: f.Fact) -> tuple[TrialState, JobState]:
    """The trial and the job of a placing or waiting fact; the job is made when it is the first."""
    trial_id, attempt = trial_of_job(job_id)
    trial = _trial(state, trial_id, fact)
    job = state.jobs.get(job_id)
    if job is None:
        job = state.jobs[job_id] = JobState(id=job_id, trial_id=trial_id, attempt=attempt)
        state.open_jobs += 1
        trial.job_id, trial.due_at = job_id, None
    state.touched.jobs[job_id] = job
    return trial, job


def _placed(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial, job = _attach(state, fact.job_id, fact)
    job.placed, job.waiting, job.placed_at = fact, None, r.at
    trial.reason = "is being started"
    _reindex(state, trial)


def _waiting(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial, job = _attach(state, fact.job_id, fact)
    job.waiting = trial.reason = fact.reason
    _reindex(state, trial)


def _started(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    trial = _trial(state, job.trial_id, fact)
    job.started_at, job.pid = fact.started_at, fact.pid
    trial.started_at, trial.running_since = fact.started_at, r.at
    if job.stop is None:
        trial.reason = None
    _move(state, trial, R)
    _reindex(state, trial)


def _metric(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    job.recorded += 1
    trial = state.trials[job.trial_id]
    state.touched.trials[trial.id] = trial
    if fact.type == "FINAL":
        if trial.final_text is None:
            trial.final_value, trial.final_text = fact.value, fact.text
    else:
        trial.latest_value, trial.latest_text = fact.value, fact.text
        trial.intermediates += 1


def _skipped(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    job.recorded += 1
    _trial(state, job.trial_id, fact).note = fact.reason


def _wanted(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    job.recorded += 1
    _trial(
        state, job.trial_id, fact
    ).note = f"asked for parameter set {fact.index + 1}, but the experiment gives one per trial"


def _stop_ordered(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    job.stop = fact
    trial = _trial(state, job.trial_id, fact)
    trial.reason = f"is being stopped: {trial.target_reason}"
    if fact.cmd_seq is None:  # it had no place: nothing of it runs
        _close(state, job, trial, r)
    else:
        _reindex(state, trial)


def _update_ordered(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    trial = _trial(state, job.trial_id, fact)
    trial.parameter_sets = max(trial.parameter_sets, fact.index + 1)


def _job_ended(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    trial = _trial(state, job.trial_id, fact)
    job.ended = fact
    job.ended_at = fact.ended_at
    if job.placed is not None:
        keeper = state.keepers[job.placed.place.keeper_id]
        keeper.acked_cmd = max(keeper.acked_cmd, fact.acked_cmd)
    if fact.message:
        trial.note = fact.message
    _close(state, job, trial, r)


def _job_lost(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = _job(state, fact.job_id)
    trial = _trial(state, job.trial_id, fact)
    job.lost, job.ended_at = fact.reason, r.at
    _close(state, job, trial, r)


def _close(state: ExperimentState, job: JobState, trial: TrialState, r: f.Recorded) -> None:
    if not job.closed:
        job.lost, job.ended_at = "never placed", r.at
    state.open_jobs -= 1
    trial.closed_job, trial.job_id = job.id, None
    state.closing_jobs[job.id] = None
    _reindex(state, trial)
    _release(state)


def _job_noted(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial_id, _ = trial_of_job(fact.job_id)
    _note(state, trial_id, fact.note)


def _release(state: ExperimentState) -> None:
    """Forget the closed jobs whose keepers have acknowledged their last command."""
    for job_id in list(state.closing_jobs):
        job = state.jobs[job_id]
        if job.placed is not None:
            keeper = state.keepers[job.placed.place.keeper_id]
            same = keeper.instance == job.placed.place.instance
            if same and job.last_cmd > keeper.acked_cmd:
                continue
        del state.jobs[job_id], state.closing_jobs[job_id]


# ---- keepers ----------------------------------------------------------------------------------------------


def _enrolled(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    known = state.keepers.get(fact.keeper_id)
    if known is None:
        state.keepers[fact.keeper_id] = KeeperState(token_sha256=fact.token_sha256)
    else:
        known.token_sha256 = fact.token_sha256
    state.touched.keepers.add(fact.keeper_id)


def _bound(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    keeper = state.keepers[fact.keeper_id]
    if keeper.instance != fact.instance:
        keeper.acked_cmd = 0
    keeper.instance, keeper.boot_id = fact.instance, fact.boot_id
    state.touched.keepers.add(fact.keeper_id)
    _release(state)


def _acknowledged(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.keepers[fact.keeper_id].acked_cmd = fact.acked_cmd
    _release(state)


def _silent(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.keepers[fact.keeper_id].silent = fact.reason
    for job in state.jobs.values():
        if job.closed or job.placed is None or job.placed.place.keeper_id != fact.keeper_id:
            continue
        if state.trials[job.trial_id].status is R:
            trial = _trial(state, job.trial_id, fact)
            trial.reason = fact.reason
            _move(state, trial, U)


def _heard(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.keepers[fact.keeper_id].silent = None
    for job in state.jobs.values():
        if job.closed or job.placed is None or job.placed.place.keeper_id != fact.keeper_id:
            continue
        if state.trials[job.trial_id].status is U:
            trial = _trial(state, job.trial_id, fact)
            trial.reason = None
            _move(state, trial, R)


_STEPS: Mapping[type[Any], Callable[[ExperimentState, f.Recorded], None]] = {
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
    f.JobPlaced: _placed,
    f.JobWaiting: _waiting,
    f.JobStarted: _started,
    f.MetricReported: _metric,
    f.FrameSkipped: _skipped,
    f.ParametersWanted: _wanted,
    f.StopOrdered: _stop_ordered,
    f.UpdateOrdered: _update_ordered,
    f.JobEnded: _job_ended,
    f.JobLost: _job_lost,
    f.JobNoted: _job_noted,
    f.KeeperEnrolled: _enrolled,
    f.KeeperBound: _bound,
    f.KeeperAcknowledged: _acknowledged,
    f.KeeperSilent: _silent,
    f.KeeperHeard: _heard,
}
