"""The training service of the examples keeps the contract that is shipped with the product."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from examples.training_service.subprocesses import SubprocessConfig, make_service
from tests.training_services.machines.local_platform import PRELUDE, SCRIPTS
from training_services.base import ExperimentContext
from training_services.batch.service import BatchService
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.testing import Behaviour, ContractPlatform, TrainingServiceContract
from training_services.tools import ServiceTools
from trial_keeper.machine import procs


class ExamplePlatform(ContractPlatform):
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.code = directory / "code"
        self.code.mkdir()

    def make(self) -> BatchService:
        context = ExperimentContext(
            experiment_id="contract",
            directory=self.directory / "contract",
            trial_command=". ./$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.code,
            trial_gpu_number=None,
            python=sys.executable,
            environ=dict(os.environ),
        )
        tools = ServiceTools(hub=KeeperHub(), ledger=HostLedger())
        return make_service(context, SubprocessConfig(), tools)

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        (self.code / f"{trial_id}.sh").write_text(PRELUDE + SCRIPTS[behaviour])
        os.mkfifo(self.code / f"{trial_id}.gate")

    def release(self, trial_id: str) -> None:
        (self.code / f"{trial_id}.gate").write_text("go\n")

    def processes(self, trial_id: str) -> int:
        return len(procs.marked("NNI_SYS_DIR", f"{self.directory}/contract/trials/{trial_id}"))


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[ExamplePlatform]:
    yield ExamplePlatform(tmp_path)


class TestExample(TrainingServiceContract):
    """The contract, with ``platform`` from above."""
