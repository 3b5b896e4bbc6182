"""Ray as the platform of a test, whose node is this machine."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from nnimgr.server.doors import Doors
from tests.ray.cluster import RayCluster
from tests.ray.fake import FakeRay
from tests.training_services.machines.local_platform import PRELUDE, SCRIPTS
from training_services.base import ExperimentContext, KnownKeepers
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.ray.config import RayConfig
from training_services.ray.service import RayService
from training_services.testing import Behaviour, ContractPlatform
from training_services.tools import ServiceTools

MARK = "NNIMGR_TEST_RUN"  # in the environment of its processes: other runs have trials of the same names


class _Service(RayService):
    """Service of an experiment whose database differs from that of other tests, as in real life."""

    def __init__(self, database: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._database = database

    async def open(self, known: KnownKeepers) -> None:
        await super().open(replace(known, db_id=self._database))


Cluster = TypeVar("Cluster", bound=RayCluster | FakeRay)


class RayPlatform(ContractPlatform, Generic[Cluster]):
    """One experiment on a cluster. ``settings``: fields of its configuration."""

    def __init__(self, directory: Path, cluster: Cluster, **settings: Any) -> None:
        self.directory = directory
        self.shared = directory / "shared"
        for folder in (directory / "code", self.shared, directory / "work"):
            folder.mkdir()
        self.run = secrets.token_hex(8)
        self.cluster = cluster
        self.config = RayConfig.model_validate(
            {
                "address": cluster.address,
                "token": cluster.token,
                "insecure": cluster.token is None,
                "python": sys.executable,
                "setup": f"export {MARK}={self.run}",
                "workDirectory": str(directory / "work"),
                "idle": "1s",
                **settings,
            }
        )
        self.open()

    def open(self) -> None:
        """Make the server's part of a new server."""
        hub = KeeperHub()
        self.doors = Doors(KeeperDoor(hub), folder=self.directory, name="test")
        self.tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=self.doors)

    async def close(self) -> None:
        self.tools.hub.close()
        await self.doors.close()

    def make(self) -> RayService:
        context = ExperimentContext(
            experiment_id="contract",
            directory=self.directory / "contract",
            trial_command=f". {self.shared}/$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.directory / "code",
            trial_gpu_number=None,
            python=sys.executable,
            environ=dict(os.environ),
        )
        return _Service(self.run, context, self.config, self.tools)

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        gate = '"$NNI_TRIAL_JOB_ID.gate"'
        self.script(trial_id, SCRIPTS[behaviour].replace(gate, f"{self.shared}/{gate}"))

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
