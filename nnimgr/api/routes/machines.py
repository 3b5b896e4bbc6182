"""Routes for the machines of an experiment: list, add, drain, remove."""

from __future__ import annotations

import asyncio
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import Path, Query

from nnimgr.api import models
from nnimgr.api.dependencies import ExperimentId, Live, Parts, refusals
from nnimgr.api.routing import Router
from nnimgr.config.machines import load_machines_text
from nnimgr.core.managing import machines
from nnimgr.core.running.runner import ExperimentRunner
from training_services.base import Machine, trial_of_job

router = Router(prefix="/api/v1/experiments/{id}/machines", tags=["machines"])

MachineName = Annotated[str, Path(alias="machine", max_length=300)]


@router.get("", responses=refusals(404, 409))
async def list_machines(runner: Live) -> models.Machines:
    """Return the machines that the experiment's trials run on, such as the allocations of a cluster."""
    found = machines.list_all(runner)
    return models.Machines(machines=list(map(_machine, found)), changeable=machines.can_change(runner))


@router.post("", responses=refusals(404, 409, 422))
async def add_machines(
    parts: Parts, experiment_id: ExperimentId, runner: Live, wanted: models.AddMachines
) -> models.AddedMachines:
    """Add machines to the experiment, given as items of ``machineList``.

    If one of these machines is being drained, trials are placed on it again.
    """
    directory, found = parts.manager.directory(experiment_id), wanted.machines
    if wanted.text is not None:
        found = await asyncio.to_thread(load_machines_text, wanted.text, base=FilePath.home())
    return models.AddedMachines(ids=await machines.add(runner, directory, found))


@router.post("/{machine}/drain", responses=refusals(404, 409))
async def drain_machine(
    runner: Live, name: MachineName, how: models.DrainMachine | None = None
) -> models.Machine:
    """Place no more trials on a machine; running trials continue. With ``undo``: place trials there again."""
    await machines.drain(runner, name, undo=how is not None and how.undo)
    return _now(runner, name)


@router.delete("/{machine}", responses=refusals(404, 409))
async def remove_machine(
    runner: Live,
    name: MachineName,
    force: Annotated[bool, Query(description="stop the machine's running trials and requeue them")] = False,
) -> models.Machine:
    """Drain a machine of the experiment, and remove it after its last trial has ended."""
    return _machine(await machines.remove(runner, name, force=force))


def _now(runner: ExperimentRunner, name: str) -> models.Machine:
    return _machine(machines.find(runner, name))


def _machine(machine: Machine) -> models.Machine:
    return models.Machine(
        id=machine.keeper_id,
        name=machine.name,
        address=machine.address,
        status=machine.status,
        reason=machine.reason,
        since=machine.since,
        trial_ids=list(dict.fromkeys(trial_of_job(job_id)[0] for job_id in machine.job_ids)),
        cpus=machine.cpus,
        memory_mb=machine.memory,
        disk_free_mb=machine.disk,
        gpus=machine.gpus,
        keeper_version=machine.version,
        made_on_demand=machine.passing,
        ends_at=machine.ends_at,
    )
