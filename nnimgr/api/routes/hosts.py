"""Route for the machines of all experiments of the server, and for the resources that trials hold there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nnimgr.api import models
from nnimgr.api.dependencies import Parts
from nnimgr.api.routing import Router
from nnimgr.core.managing.manager import NNIManager
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules.state import trial_of_job
from training_services.base import Machine, experiment_of_job
from training_services.placement.ledger import HostUse

router = Router(prefix="/api/v1", tags=["machines"])

_Members = list[tuple[str, Machine]]


@router.get("/hosts")
async def list_hosts(parts: Parts) -> models.Hosts:
    """Return the machines of the open experiments, with their resources and the trials that hold them."""
    manager = parts.manager
    runners = {name: runner for name in manager.served() if (runner := manager.find(name)) is not None}
    members: dict[str, _Members] = {}
    for name, runner in runners.items():
        for machine in [] if runner.session.service is None else runner.session.service.machines():
            members.setdefault(machine.address, []).append((name, machine))
    return models.Hosts(
        hosts=[_host(manager, address, found) for address, found in members.items()],
        waiting=[each for name, runner in runners.items() for each in _waiting(name, runner)],
    )


def _host(manager: NNIManager, address: str, members: _Members) -> models.Host:
    use = manager.ledger.use(address)
    reading, capacity, told = use.reading, use.capacity, members[0][1]
    return models.Host(
        address=address,
        name=members[0][1].name,
        cpus=told.cpus if capacity is None else capacity.cpus,
        memory_mb=told.memory if capacity is None else capacity.memory,
        disk_free_mb=told.disk if capacity is None else capacity.disk,
        gpus=None
        if reading is None
        else [
            models.HostGpu(
                index=gpu.index,
                other_memory_mb=gpu.memory,
                other_processes=[process.pid for process in gpu.processes if process.job_id is None],
            )
            for gpu in reading.gpus
        ],
        gpu_trouble=None if reading is None else reading.trouble,
        experiments=[
            models.HostMember(
                experiment_id=name,
                machine=machine.keeper_id,
                status=machine.status,
                reason=machine.reason,
                since=machine.since,
            )
            for name, machine in members
        ],
        trials=sorted(_trials(manager, use), key=lambda trial: (trial.experiment_id, trial.trial_id)),
    )


def _trials(manager: NNIManager, use: HostUse) -> Iterator[models.HostTrial]:
    for job_id in use.jobs:
        experiment_id = experiment_of_job(job_id)
        trial_id, attempt = trial_of_job(job_id)
        runner, held = manager.find(experiment_id), use.held.get(job_id)
        trial = runner.state.trials.get(trial_id) if runner is not None else None
        yield models.HostTrial(
            experiment_id=experiment_id,
            trial_id=trial_id,
            sequence=None if trial is None else trial.sequence,
            attempt=attempt,
            gpus=[] if held is None else list(held.gpus),
            gpu_share=held.share if held is not None and held.gpus else None,
            cpus=0 if held is None else held.cpus,
            memory_mb=0 if held is None else held.memory,
        )


def _waiting(experiment_id: str, runner: ExperimentRunner) -> Iterator[models.WaitingTrials]:
    reasons = Counter(
        job.waiting or "is being placed"
        for job in runner.state.jobs.values()
        if job.placed is None and not job.closed
    )
    for reason, count in reasons.most_common():
        yield models.WaitingTrials(experiment_id=experiment_id, reason=reason, count=count)
    if queued := len(runner.state.queued):
        limit = runner.state.limits.trial_concurrency
        reason = (
            f"waits for its turn: at most {limit} {'trial runs' if limit == 1 else 'trials run'} at a time"
        )
        yield models.WaitingTrials(experiment_id=experiment_id, reason=reason, count=queued)
