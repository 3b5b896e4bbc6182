"""The training service of the examples keeps the contract that is shipped with the product."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from examples.training_service.subprocesses import SubprocessConfig, SubprocessService
from tests.training_services.test_local import PRELUDE, SCRIPTS
from training_services.base import ExperimentContext, JobEnded, JobStarted, JobWaiting
from training_services.keeper_hub import KeeperHub
from training_services.keeper_service import ServiceTools
from training_services.placement import HostLedger
from training_services.testing import Behaviour, ContractPlatform, CoreDouble, TrainingServiceContract
from trial_keeper import procs


class ExamplePlatform(ContractPlatform):
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.code = directory / "code"
        self.code.mkdir()
        self.limit = 64

    def make(self) -> SubprocessService:
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
        return SubprocessService(context, SubprocessConfig(max_trials=self.limit), tools)

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


async def test_jobs_wait_for_a_place(platform: ExamplePlatform) -> None:
    platform.limit = 1
    core = CoreDouble()
    await core.open(platform.make())
    for trial in ("aaaa1", "bbbb2"):
        platform.behave(trial, Behaviour.REPORTS_LATER)
    first, second = core.submit("aaaa1"), core.submit("bbbb2")
    (waits,) = core.of(second)
    assert isinstance(waits, JobWaiting) and waits.reason.startswith("waits for one of the 1 places")
    await core.seen(JobStarted, first)
    platform.release("aaaa1")
    await core.seen(JobEnded, first)
    await core.seen(JobStarted, second)
    platform.release("bbbb2")
    await core.seen(JobEnded, second)
    await core.close(detach=False)
