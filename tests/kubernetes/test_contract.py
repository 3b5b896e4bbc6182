"""The contract on a real cluster, whose node is this machine: a pod for each trial, and pods for many."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nnimgr.server.doors import Doors
from tests.kubernetes.conftest import PYTHON, RealCluster, node_address
from tests.training_services.machines.local_platform import PRELUDE, SCRIPTS
from training_services.base import ExperimentContext
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.service import KubernetesService
from training_services.placement.ledger import HostLedger
from training_services.testing import Behaviour, ContractPlatform, TrainingServiceContract
from training_services.tools import ServiceTools

MARK = "CONTRACT_RUN"  # in the environment of its processes: other runs have trials of the same names
SHARED = "/shared"  # in the pods: scripts and gates of this machine


class KubernetesPlatform(ContractPlatform):
    def __init__(self, directory: Path, namespace: str, address: str, *, reuse_mode: bool) -> None:
        self.directory = directory
        self.code = directory / "code"
        self.code.mkdir()
        self.shared = directory / "shared"
        self.shared.mkdir()
        self.run = secrets.token_hex(8)
        self.address = address
        hub = KeeperHub()
        self.doors = Doors(KeeperDoor(hub), folder=directory, name="test")
        self.tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=self.doors)
        self.config = KubernetesConfig.model_validate(
            {
                "image": PYTHON,
                "image_pull_policy": "IfNotPresent",
                "namespace": namespace,
                "reuse_mode": reuse_mode,
                "env": {MARK: self.run},
                "volumes": [{"name": "shared", "mount_path": SHARED, "host_path": str(self.shared)}],
            }
        )

    def make(self) -> KubernetesService:
        context = ExperimentContext(
            experiment_id="contract",
            directory=self.directory / "contract",
            trial_command=f". {SHARED}/$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.code,
            trial_gpu_number=None,
            python=sys.executable,
            environ=os.environ,
            nni_manager_ip=self.address,
        )
        return KubernetesService(context, self.config, self.tools)

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        gate = '"$NNI_TRIAL_JOB_ID.gate"'
        script = SCRIPTS[behaviour].replace(gate, f"{SHARED}/{gate}")
        (self.shared / f"{trial_id}.sh").write_text(PRELUDE + script)
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


class _Contract(TrainingServiceContract):
    reuse_mode: bool

    @pytest.fixture
    async def platform(self, tmp_path: Path, cluster: RealCluster) -> AsyncIterator[KubernetesPlatform]:
        address = await node_address()
        made = KubernetesPlatform(tmp_path, cluster.namespace, address, reuse_mode=self.reuse_mode)
        yield made
        made.tools.hub.close()
        await made.doors.close()


class TestOwnPods(_Contract):
    reuse_mode = False


class TestSharedPods(_Contract):
    reuse_mode = True
