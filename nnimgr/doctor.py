"""Checks of every machine of a configuration. They need no server and leave no files on the machines.

A check connects to the machine, reads its properties, copies the trial code to it, and runs a short test
trial.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from nnimgr.config import ExperimentConfig
from nnimgr.config.model import HybridConfig, Member
from nnimgr.home import Home
from nnimgr.server.doors import Doors
from training_services import registry
from training_services.base import ExperimentContext
from training_services.examination import Examination, new_experiment_id
from training_services.findings import Check, Finding, Level
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.rehearsal import COMMAND
from training_services.tools import ServiceTools

__all__ = ["examine"]


async def examine(
    config: ExperimentConfig, service: Any, *, tell: Callable[[str, str], object]
) -> AsyncIterator[Finding]:
    """Check all machines at the same time. Yield the findings of each machine when its check has ended.

    ``service``: the training service's configuration with its secrets. ``tell`` gets a machine's title and a
    sentence about what the test trial waits for there.
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
            home = Home.find().path
            patients = [
                _patients(
                    Examination(_context(config, member, Path(folder)), tools, home, tell),
                    member.platform,
                    part,
                )
                for member, part in zip(config.members, parts, strict=True)
            ]
            async with asyncio.TaskGroup() as group:
                looks = [group.create_task(_collect(each)) for some in patients for each in some]
                for look in asyncio.as_completed(looks):
                    for finding in await look:
                        yield finding
        finally:
            hub.close()
            await doors.close()


def _context(config: ExperimentConfig, member: Member, folder: Path) -> ExperimentContext:
    experiment_id = new_experiment_id()
    return ExperimentContext(
        experiment_id=experiment_id,
        directory=folder / experiment_id,
        trial_command=COMMAND,
        trial_code_directory=member.job_directory,
        trial_gpu_number=member.job_gpu_number,
        python=sys.executable,
        environ=dict(os.environ),
        nni_manager_ip=member.job_manager_ip,
        gang=config.gang_of_trials(),
    )


def _patients(examination: Examination, platform: str, service: Any) -> Sequence[AsyncIterator[Finding]]:
    """Return iterators of findings: one per machine, and one for findings that concern all machines."""
    found = registry.examine(platform, examination, service)
    return [_unknown(platform)] if found is None else found


async def _unknown(platform: str) -> AsyncIterator[Finding]:
    sentence = f"machines of {platform} cannot be checked: only the configuration was checked"
    yield Finding(machine=platform, check=Check.CONFIG, level=Level.WARNING, sentence=sentence)


async def _collect(source: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in source]
