"""The steps of the fold that concern jobs and keepers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.core import facts as f
from nnimgr.core.moves import Step, job_touched, move, note, reindex, trial_touched
from nnimgr.core.phases import take_final, waiting_reason
from nnimgr.core.state import ExperimentState, JobState, KeeperState, TrialState, trial_of_job

# ---- jobs -------------------------------------------------------------------------------------------------


def _attach(state: ExperimentState, job_id: str, fact: f.Fact) -> tuple[TrialState, JobState]:
    """The trial and the job of a placing or waiting fact; the job is made when it is the first."""
    trial_id, attempt = trial_of_job(job_id)
    trial = trial_touched(state, trial_id, fact)
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
    reindex(state, trial)


def _waiting(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial, job = _attach(state, fact.job_id, fact)
    job.waiting = trial.reason = fact.reason
    reindex(state, trial)


def _started(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.started_at, job.pid = fact.started_at, fact.pid
    trial.started_at, trial.running_since = fact.started_at, r.at
    if job.stop is None:
        trial.reason = waiting_reason(trial)
    move(state, trial, f.TrialStatus.RUNNING)
    reindex(state, trial)


def _metric(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = job_touched(state, fact.job_id)
    job.recorded += 1
    trial = state.trials[job.trial_id]
    state.touched.trials[trial.id] = trial
    if fact.type == "FINAL":
        if state.limits.multi_phase:
            take_final(state, trial, fact)
        elif trial.final_text is None:
            trial.final_value, trial.final_text = fact.value, fact.text
    else:
        trial.latest_value, trial.latest_text = fact.value, fact.text
        trial.intermediates += 1


def _skipped(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = job_touched(state, fact.job_id)
    job.recorded += 1
    trial_touched(state, job.trial_id, fact).note = fact.reason


def _stop_ordered(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = job_touched(state, fact.job_id)
    job.stop = fact
    trial = trial_touched(state, job.trial_id, fact)
    trial.reason = f"is being stopped: {trial.target_reason}"
    if fact.cmd_seq is None:  # it had no place: nothing of it runs
        _close(state, job, trial, r)
    else:
        reindex(state, trial)


def _job_ended(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
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
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.lost, job.ended_at = fact.reason, r.at
    _close(state, job, trial, r)


def _close(state: ExperimentState, job: JobState, trial: TrialState, r: f.Recorded) -> None:
    if not job.closed:
        job.lost, job.ended_at = "never placed", r.at
    state.open_jobs -= 1
    trial.closed_job, trial.job_id = job.id, None
    trial.wants.clear()
    state.closing_jobs[job.id] = None
    reindex(state, trial)
    _release(state)


def _job_noted(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    trial_id, _ = trial_of_job(fact.job_id)
    note(state, trial_id, fact.note)


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
        if keeper.instance is not None:
            keeper.retired.append(keeper.instance)
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
        if state.trials[job.trial_id].status is f.TrialStatus.RUNNING:
            trial = trial_touched(state, job.trial_id, fact)
            trial.reason = fact.reason
            move(state, trial, f.TrialStatus.UNKNOWN)


def _heard(state: ExperimentState, r: f.Recorded) -> None:
    fact: Any = r.fact
    state.keepers[fact.keeper_id].silent = None
    for job in state.jobs.values():
        if job.closed or job.placed is None or job.placed.place.keeper_id != fact.keeper_id:
            continue
        if state.trials[job.trial_id].status is f.TrialStatus.UNKNOWN:
            trial = trial_touched(state, job.trial_id, fact)
            trial.reason = waiting_reason(trial)
            move(state, trial, f.TrialStatus.RUNNING)


JOB_STEPS: Mapping[type[Any], Step] = {
    f.JobPlaced: _placed,
    f.JobWaiting: _waiting,
    f.JobStarted: _started,
    f.MetricReported: _metric,
    f.FrameSkipped: _skipped,
    f.StopOrdered: _stop_ordered,
    f.JobEnded: _job_ended,
    f.JobLost: _job_lost,
    f.JobNoted: _job_noted,
    f.KeeperEnrolled: _enrolled,
    f.KeeperBound: _bound,
    f.KeeperAcknowledged: _acknowledged,
    f.KeeperSilent: _silent,
    f.KeeperHeard: _heard,
}
