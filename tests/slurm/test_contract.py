"""The contract of training services on a real Slurm: pilots for many trials, and an allocation for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.platform import SlurmPlatform
from training_services.testing import TrainingServiceContract


class _Contract(TrainingServiceContract):
    per_trial: bool

    @pytest.fixture
    async def platform(self, tmp_path: Path, slurm: SlurmCluster) -> AsyncIterator[SlurmPlatform]:
        made = SlurmPlatform(tmp_path, slurm, perTrial=self.per_trial)
        yield made
        await made.close()


class TestPilots(_Contract):
    per_trial = False


class TestAllocationsPerTrial(_Contract):
    per_trial = True
