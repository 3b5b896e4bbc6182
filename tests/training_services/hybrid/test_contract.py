"""Contract of training services on two platforms: jobs go on from a machine that never answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.training_services.fleet import FakeMachine
from tests.training_services.machines.local_platform import LocalPlatform, opened_platform
from training_services.base import (
    CheckpointKept,
    CheckpointStored,
    ExperimentContext,
)
from training_services.hybrid.service import HybridMember, HybridService
from training_services.machines.local import LocalService
from training_services.machines.service import MachineService
from training_services.testing import Behaviour, CoreDouble, TrainingServiceContract
from training_services.tools import ServiceTools

SOON = timedelta(milliseconds=10)


class _HybridPlatform(LocalPlatform):
    storage: str | None = None

    def context(self) -> ExperimentContext:
        return replace(super().context(), checkpoint_storage=self.storage)

    def make(self) -> HybridService:  # type: ignore[override]
        def members(tools: ServiceTools) -> list[HybridMember]:
            away = MachineService(self.context(), tools, [FakeMachine("away")])
            here = LocalService(self.context(), self.config, tools)
            return [HybridMember("remote", away), HybridMember("local", here)]

        return HybridService(self.tools, members, after=SOON)


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[_HybridPlatform]:
    async with opened_platform(_HybridPlatform, tmp_path) as platform:
        yield platform


class TestHybridService(TrainingServiceContract):
    """Contract of all training services, with ``platform`` from above."""


async def test_platforms_share_the_copies_of_checkpoints(platform: _HybridPlatform, tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    platform.storage = f"file://{tmp_path / 'storage'}"
    core = CoreDouble(copies=True)
    await core.open(platform.make())
    platform.behave("aaaa1", Behaviour.CONTINUES)
    job_id = core.submit("aaaa1")
    await core.seen(CheckpointStored, job_id)
    await core.close(detach=False)
    kinds = [type(fact) for fact in core.of(job_id)]
    assert (kinds.count(CheckpointKept), kinds.count(CheckpointStored)) == (1, 1)
