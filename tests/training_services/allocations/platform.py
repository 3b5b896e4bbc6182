"""What platforms of tests share whose allocations, or pods, run on this machine."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnimgr.server.doors import Doors
from tests.training_services.machines.local_platform import PRELUDE, SCRIPTS
from training_services.base import ExperimentContext
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.testing import Behaviour, ContractPlatform
from training_services.tools import ServiceTools

MARK = "CONTRACT_RUN"  # in the environment of its processes: other runs have trials of the same names


class AllocatedPlatform(ContractPlatform):
    """One experiment, whose trials run scripts in the folder ``shared``. ``run`` marks their processes.

    ``seen_as``: the path of this folder where the trials run.
    """

    def __init__(self, directory: Path, *, seen_as: str | None = None) -> None:
        self.directory = directory
        self.shared = directory / "shared"
        self.seen_as = seen_as or str(self.shared)
        for folder in (directory / "code", self.shared, directory / "work"):
            folder.mkdir()
        self.run = secrets.token_hex(8)
        self.open()

    def open(self) -> None:
        """Make the server's part of a new server."""
        hub = KeeperHub()
        self.doors = Doors(KeeperDoor(hub), folder=self.directory, name="test")
        self.tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=self.doors)

    async def close(self) -> None:
        self.tools.hub.close()
        await self.doors.close()

    def context(self, environ: Mapping[str, str], **more: Any) -> ExperimentContext:
        return ExperimentContext(
            experiment_id="contract",
            directory=self.directory / "contract",
            trial_command=f". {self.seen_as}/$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.directory / "code",
            trial_gpu_number=None,
            python=sys.executable,
            environ=environ,
            **more,
        )

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        gate = '"$NNI_TRIAL_JOB_ID.gate"'
        self.script(trial_id, SCRIPTS[behaviour].replace(gate, f"{self.seen_as}/{gate}"))

    def script(self, trial_id: str, body: str) -> None:
        (self.shared / f"{trial_id}.sh").write_text(PRELUDE + body)
        os.mkfifo(self.shared / f"{trial_id}.gate")

    def release(self, trial_id: str) -> None:
        (self.shared / f"{trial_id}.gate").write_text("go\n")

    def processes(self, trial_id: str) -> int:
        marks = {f"{MARK}={self.run}".encode(), f"NNI_TRIAL_JOB_ID={trial_id}".encode()}
        count = 0
        for process in Path("/proc").glob("[0-9]*/environ"):
            try:
                count += marks <= {*process.read_bytes().split(b"\0")}
            except OSError:
                continue
        return count
