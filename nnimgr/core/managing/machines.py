"""Finds, lists, adds, drains and removes machines of a running experiment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnimgr.config.machines import hide_machine, read_machines
from nnimgr.config.model import plain_model
from nnimgr.core.managing.folder import Surroundings
from nnimgr.core.running import requests
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules import facts as f
from training_services.base import Machine, MachineStatus, TrainingService

__all__ = ["UnknownMachine", "add", "can_change", "drain", "find", "list_all", "remove"]

_MAKES = "makes its machines itself, for the trials that wait, and ends them after them"
_LEAVING = (MachineStatus.DRAINING, MachineStatus.REMOVING)


class UnknownMachine(RequestRefused):
    """Error: the experiment has no machine with this name. The message lists the machines."""


def list_all(runner: ExperimentRunner) -> Sequence[Machine]:
    """Return all machines of the experiment.

    Raise RequestRefused if the platform has no machines, or if its training service is not open.
    """
    return _service(runner).machines()


def can_change(runner: ExperimentRunner) -> bool:
    """Return True if machines can be added, drained and removed. Raise RequestRefused like ``list_all``."""
    return _service(runner).capabilities.machines


async def add(runner: ExperimentRunner, directory: Path, raw: Any) -> list[str]:
    """Add machines to the experiment. Return the ids of their keepers (the agents beside the trials).

    ``raw``: items of ``machineList`` in canonical form. A machine that is being drained or removed is enabled
    again. Raise ConfigError or RequestRefused.
    """
    present = {machine.keeper_id: machine for machine in _changeable(runner).machines()}
    facts: list[f.Fact] = []
    secrets: dict[str, str] = {}
    for given in read_machines(raw):
        known = present.get(given.keeper_id)
        if known is not None and known.status not in _LEAVING:
            raise RequestRefused(f"{known.name} is a machine of this experiment already")
        hidden, found = hide_machine(given)
        secrets |= found
        facts.append(f.MachineAdded(keeper_id=given.keeper_id, machine=plain_model(hidden)))
    if secrets:
        await asyncio.to_thread(_keep, directory, secrets)
    await runner.request(requests.change_machines(facts))
    return [fact.keeper_id for fact in facts if isinstance(fact, f.MachineAdded)]


async def drain(runner: ExperimentRunner, name: str, *, undo: bool = False) -> Machine:
    """Place no more jobs on a machine (drain it), or with ``undo`` allow jobs on it again.

    Raise UnknownMachine or RequestRefused.
    """
    machine = find(runner, name)
    fact: f.Fact = f.MachineDrained(keeper_id=machine.keeper_id)
    if undo:
        if machine.status not in _LEAVING:
            raise RequestRefused(f"{machine.name} is not being drained")
        fact = f.MachineAdded(keeper_id=machine.keeper_id)
    await runner.request(requests.change_machines([fact]))
    return machine


async def remove(runner: ExperimentRunner, name: str, *, force: bool) -> Machine:
    """Drain a machine, then remove it. With ``force``, the machine's trials are restarted on other machines.

    Raise UnknownMachine or RequestRefused.
    """
    machine = find(runner, name)
    fact = f.MachineRemoved(keeper_id=machine.keeper_id, force=force)
    await runner.request(requests.change_machines([fact]))
    return machine


def _service(runner: ExperimentRunner) -> TrainingService:
    service = runner.session.service
    if service is None:
        if runner.state.status in (f.ExperimentStatus.DONE, f.ExperimentStatus.ERROR):
            raise RequestRefused(f"the experiment is {runner.state.status} and uses no machines now")
        trouble = f": {runner.session.trouble}" if runner.session.trouble else ""
        raise RequestRefused(f"the experiment's training service is not open{trouble}")
    if not (service.capabilities.machines or service.capabilities.allocations):
        raise RequestRefused("this platform does not expose individual machines")
    return service


def _changeable(runner: ExperimentRunner) -> TrainingService:
    service = _service(runner)
    if not service.capabilities.machines:
        raise RequestRefused(f"this platform {_MAKES}")
    return service


def find(runner: ExperimentRunner, name: str) -> Machine:
    """Return the machine whose keeper id, shown name, address or host is ``name``, to change it.

    The match must be unique.

    Raise UnknownMachine or RequestRefused.
    """
    machines = _changeable(runner).machines()
    for key in (_keeper, _shown, _address, _host):
        found = [machine for machine in machines if key(machine) == name]
        if len(found) == 1:
            if found[0].passing:
                raise RequestRefused(f"the platform of {found[0].name} {_MAKES}")
            return found[0]
    names = ", ".join(machine.name for machine in machines) or "none"
    raise UnknownMachine(f"there is no machine {name!r} in this experiment; it has: {names}")


def _keeper(machine: Machine) -> str:
    return machine.keeper_id


def _shown(machine: Machine) -> str:
    return machine.name


def _address(machine: Machine) -> str:
    return machine.address


def _host(machine: Machine) -> str:
    return machine.address.rpartition(":")[0]


def _keep(directory: Path, secrets: dict[str, str]) -> None:
    """Add the secrets of new machines to the secrets that are stored in the experiment's folder."""
    around = Surroundings.read(directory)
    replace(around, secrets={**around.secrets, **secrets}).write(directory)
