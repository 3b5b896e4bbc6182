"""Applies facts to the state of an experiment (``apply``), and filters facts that come from outside.

``admits`` rejects duplicate, late and pointless facts. ``measured`` adds what the state knows about a fact.

The table in ``transitions`` lists the allowed changes of a trial's status. Any other change is a bug in this
program. A late message of a keeper (the agent beside the trials) cannot cause this error, because ``admits``
rejects its fact.
"""

from __future__ import annotations

from dataclasses import replace

from nnimgr.objectives import main_value
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import CHECKPOINT_STEPS, checkpoint_of
from nnimgr.rules.decisions import DECISION_STEPS
from nnimgr.rules.fold_jobs import JOB_STEPS
from nnimgr.rules.fold_trials import EXPERIMENT_STEPS
from nnimgr.rules.growth import GROWTH_STEPS, can_shrink
from nnimgr.rules.indexes import is_queued
from nnimgr.rules.phases import PHASE_STEPS
from nnimgr.rules.pins import PIN_STEPS
from nnimgr.rules.state import ExperimentState, trial_of_job

_STEPS = dict(
    [
        *EXPERIMENT_STEPS,
        *JOB_STEPS,
        *PHASE_STEPS,
        *CHECKPOINT_STEPS,
        *DECISION_STEPS,
        *PIN_STEPS,
        *GROWTH_STEPS,
    ]
)


def admits(state: ExperimentState, fact: f.Fact) -> bool:
    """Return whether to record a fact that a user, a training service or an algorithm has caused. Duplicate,
    late and pointless facts are rejected.
    """
    match fact:
        case f.MetricReported() | f.FrameSkipped() | f.ParametersWanted() | f.CheckpointReported():
            job = state.jobs.get(fact.job_id)
            return job is not None and not job.closed and fact.position == job.recorded
        case f.JobStarted() | f.JobEnded() | f.JobLost() | f.RoomForMembers():
            return _concerns_job(state, fact)
        case f.MemberStarted() | f.MemberEnded() | f.MemberLost():
            return _concerns_member(state, fact)
        case f.JobPlaced() | f.JobWaiting():
            return _placeable(state, fact)
        case f.PreemptionWanted() | f.FewerMembersWanted():
            return _preemptible(state, fact)
        case f.Verdict():
            trial = state.trials.get(fact.trial_id)
            return trial is not None and fact.attempt in (0, trial.attempt) and not trial.is_to_end
        case f.StopRequested() | f.ResumeRequested() | f.SaveRequested():
            return fact.trial_id in state.trials
        case f.LossDeclared():
            trial = state.trials.get(fact.trial_id)
            return trial is not None and trial.unknown_since is not None and not trial.declared_lost
        case f.KeeperAcknowledged():
            keeper = state.keepers.get(fact.keeper_id)
            return keeper is not None and fact.acked_cmd > keeper.acked_cmd
        case f.KeeperSilent() | f.KeeperHeard():
            keeper = state.keepers.get(fact.keeper_id)
            return keeper is not None and (keeper.silent is None) == isinstance(fact, f.KeeperSilent)
        case f.KeeperBound() | f.KeeperGone() | f.HostVanished() | f.CheckpointsDeleted():
            return fact.keeper_id in state.keepers
        case f.CheckpointKeepBegun() | f.CheckpointKept() | f.CheckpointStored() | f.CheckpointLost():
            return _concerns_checkpoint(state, fact)
        case f.MachineGone():
            machine = state.machines.get(fact.keeper_id)
            return machine is not None and (machine.removing or fact.returns) and not machine.gone
        case f.TunerExhausted():
            return state.asks_again or not state.exhausted
        case f.AlgorithmRecovered():
            return fact.role in state.crashes
    return True


def measured(state: ExperimentState, fact: f.Fact) -> f.Fact:
    """Return the fact with the values to record: a checkpoint gets the number of results before it. With
    objectives, a metric's value is the main objective's number.
    """
    if type(fact) is f.MetricReported:
        if state.config.get("objectives"):
            final = fact.type == f.MetricType.FINAL
            return fact._replace(value=main_value(fact.text, fact.value, state.objectives, final=final))
    elif isinstance(fact, f.CheckpointReported):
        trial_id, _ = trial_of_job(fact.job_id)
        return replace(fact, reports=state.trials[trial_id].intermediates)
    return fact


def _concerns_checkpoint(
    state: ExperimentState,
    fact: f.CheckpointKeepBegun | f.CheckpointKept | f.CheckpointStored | f.CheckpointLost,
) -> bool:
    """Return whether the state knows the checkpoint. A copy is recorded as stored only once."""
    if not isinstance(fact, f.CheckpointStored):
        return checkpoint_of(state, fact.job_id, fact.number) is not None
    is_copied = fact.number in state.copies.get(fact.job_id, ())
    return is_copied and fact.number not in state.stored.get(fact.job_id, ())


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


def _concerns_job(
    state: ExperimentState, fact: f.JobStarted | f.JobEnded | f.JobLost | f.RoomForMembers
) -> bool:
    """Return whether the fact is news about an open job."""
    job = state.jobs.get(fact.job_id)
    if job is None or job.closed:
        return False
    if isinstance(fact, f.RoomForMembers):
        is_unknown = job.room is None and job.growth is None
        return fact.members > job.size if is_unknown else fact.members != job.room
    return job.started_at is None or not isinstance(fact, f.JobStarted)


def _concerns_member(state: ExperimentState, fact: f.MemberStarted | f.MemberEnded | f.MemberLost) -> bool:
    """Return whether the fact is news about a member of an open gang."""
    job = state.jobs.get(fact.job_id)
    if job is None or job.closed or fact.member >= len(job.members) or job.members[fact.member].over:
        return False
    return not isinstance(fact, f.MemberStarted) or job.members[fact.member].started_at is None


def _preemptible(state: ExperimentState, fact: f.PreemptionWanted | f.FewerMembersWanted) -> bool:
    """Return whether to stop the job for trials that wait. Leave a job alone that is to stop anyway, or whose
    host is silent.
    """
    job = state.jobs.get(fact.job_id)
    if job is None or job.closed or job.placed is None or job.stop is not None or state.limits.multi_phase:
        return False
    if isinstance(fact, f.FewerMembersWanted) and not can_shrink(state, fact):
        return False
    trial = state.trials[job.trial_id]
    return trial.target is None and trial.unknown_since is None


def apply(state: ExperimentState, recorded: f.Recorded) -> None:
    """Apply one fact to the state. Raise InvalidTransition if the trial's status does not allow the fact."""
    state.number, state.last_at = recorded.number, recorded.at
    _STEPS[type(recorded.fact)](state, recorded.fact, recorded)
