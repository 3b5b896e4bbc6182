"""Looks at every machine of a configuration, without a server and without leaving anything there.

Each is connected to, asked what it is, given the trials' code, and made to run a trial that does nothing.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnimgr.config import ExperimentConfig
from nnimgr.config.model import HybridConfig, Member
from nnimgr.home import Home
from nnimgr.server.doors import Doors
from training_services.base import ExperimentContext, ServiceError, TrainingService
from training_services.code import pack_code
from training_services.findings import Check, Finding, Level, Needs, judge, shown_bytes
from training_services.keeper_door import KeeperDoor
from training_services.keeper_hub import KeeperHub
from training_services.keeper_service import ServiceTools
from training_services.local import LocalConfig, LocalService
from training_services.placement import HostLedger
from training_services.rehearsal import COMMAND, rehearse
from training_services.remote import MachineConfig, RemoteConfig, RemoteService
from training_services.ssh.target import Target
from trial_keeper.facts import facts

__all__ = ["examine"]

FACTS_S = 30.0
TRIAL_S = 60.0
HERE = "this machine"


@dataclass(frozen=True, slots=True)
class _Case:
    """What all machines are looked at with."""

    context: ExperimentContext
    tools: ServiceTools

    def needs(self, indices: Sequence[int] | None, *, python_path: str | None = None) -> Needs:
        return Needs(gpus=self.context.trial_gpu_number, gpu_indices=indices, python_path=python_path)


async def examine(config: ExperimentConfig, service: Any) -> AsyncIterator[Finding]:
    """Findings, machine by machine as these are done: they are looked at side by side.

    ``service``: the training service's configuration with its secrets.
    """
    with tempfile.TemporaryDirectory(prefix="nnimgr-doctor-") as folder:
        private = Path(folder) / "private"
        private.mkdir(mode=0o700)
        hub = KeeperHub()
        doors = Doors(KeeperDoor(hub), folder=private, name="doctor")
        try:
            tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=doors)
            parts = (
                [each.service for each in service.members] if isinstance(service, HybridConfig) else [service]
            )
            cases = [_Case(_context(member, Path(folder)), tools) for member in config.members]
            patients = [_patients(case, part) for case, part in zip(cases, parts, strict=True)]
            async with asyncio.TaskGroup() as group:
                looks = [group.create_task(_collect(each)) for some in patients for each in some]
                for look in asyncio.as_completed(looks):
                    for finding in await look:
                        yield finding
        finally:
            hub.close()
            await doors.close()


def _context(member: Member, folder: Path) -> ExperimentContext:
    experiment_id = _new_id()
    return ExperimentContext(
        experiment_id=experiment_id,
        directory=folder / experiment_id,
        trial_command=COMMAND,
        trial_code_directory=member.job_directory,
        trial_gpu_number=member.job_gpu_number,
        python=sys.executable,
        environ=dict(os.environ),
        nni_manager_ip=member.job_manager_ip,
    )


def _new_id() -> str:
    return f"doctor-{secrets.token_hex(4)}"


def _patients(case: _Case, service: Any) -> list[AsyncIterator[Finding]]:
    """One for each machine, and one for what concerns all of them."""
    if isinstance(service, RemoteConfig):
        machines = [_machine(case, service, machine) for machine in service.machine_list]
        return [_code(case.context), *machines]
    if isinstance(service, LocalConfig):
        return [_local(case, service)]
    if getattr(service, "platform", None) == "kubernetes":
        return [_code(case.context), _cluster(case, service)]
    return [_unknown(service)]


async def _cluster(case: _Case, config: Any) -> AsyncIterator[Finding]:
    from training_services.kubernetes.checkup import check_cluster  # few need it

    async for finding in check_cluster(_for_one(case.context), config, case.tools):
        yield finding


async def _unknown(service: Any) -> AsyncIterator[Finding]:
    platform = getattr(service, "platform", "this platform")
    sentence = f"machines of {platform} cannot be looked at: only the configuration was checked"
    yield Finding(machine=str(platform), check=Check.CONFIG, level=Level.WARNING, sentence=sentence)


async def _collect(source: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in source]


# ---- machines ----------------------------------------------------------------------------------------------


async def _code(context: ExperimentContext) -> AsyncIterator[Finding]:
    """The code as every machine is to get it."""
    try:
        packed = await asyncio.to_thread(pack_code, context.trial_code_directory, context.directory)
    except ServiceError as error:
        yield _finding("all machines", Check.CODE, Level.FAULT, str(error))
        return
    sizes = f"{shown_bytes(packed.content)}, packed {shown_bytes(packed.size)}"
    sentence = f"the trial code {context.trial_code_directory} is {sizes}"
    yield _finding("all machines", Check.CODE, Level.OK, sentence)


async def _machine(case: _Case, config: RemoteConfig, machine: MachineConfig) -> AsyncIterator[Finding]:
    title = machine.title
    share = case.tools.machines.share(Target.of(machine, config, environ=case.context.environ), lambda: None)
    try:
        began = time.monotonic()
        try:
            link = await share.link()
            took = time.monotonic() - began
            asked_at = time.time()
            there = await link.attendant.ask("facts", limit=FACTS_S)
            now = (asked_at + time.time()) / 2
        except ServiceError as error:
            yield _finding(title, Check.CONNECTION, Level.FAULT, str(error))
            return
        sentence = f"logged in as user {there['user']} of {there['host']} in {took:.1f} s"
        yield _finding(title, Check.CONNECTION, Level.OK, sentence)
        needs = case.needs(machine.gpu_indices, python_path=machine.python_path)
        for finding in judge(title, there, needs=needs, ahead_s=there["time"] - now):
            yield finding
        alone = config.model_copy(update={"machine_list": [machine], "clean_up": True})
        context = _for_one(case.context)
        yield await _rehearsed(title, RemoteService(context, alone, case.tools), context.experiment_id)
    finally:
        await share.close()


async def _local(case: _Case, config: LocalConfig) -> AsyncIterator[Finding]:
    found = await asyncio.to_thread(facts, str(Home.find().path))
    for finding in judge(HERE, found, needs=case.needs(config.gpu_indices), ahead_s=0.0):
        yield finding
    context = _for_one(case.context)
    context.directory.mkdir(mode=0o700, parents=True)
    yield await _rehearsed(HERE, LocalService(context, config, case.tools), context.experiment_id)


def _for_one(context: ExperimentContext) -> ExperimentContext:
    """An experiment of its own, whose trial wants no GPU: others may hold them at this moment."""
    experiment_id = _new_id()
    return replace(
        context,
        experiment_id=experiment_id,
        directory=context.directory.with_name(experiment_id),
        trial_gpu_number=None,
    )


async def _rehearsed(machine: str, service: TrainingService, experiment_id: str) -> Finding:
    try:
        took = await rehearse(service, experiment_id=experiment_id, limit_s=TRIAL_S)
    except ServiceError as error:
        return _finding(machine, Check.TRIAL, Level.FAULT, str(error))
    sentence = f"a trial that does nothing ran, and both its results arrived, in {took:.1f} s"
    return _finding(machine, Check.TRIAL, Level.OK, sentence)


def _finding(machine: str, check: Check, level: Level, sentence: str) -> Finding:
    return Finding(machine=machine, check=check, level=level, sentence=sentence)
