"""The contract of training services on a real Ray, whose allocations run many trials."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ray.cluster import RayCluster
from tests.ray.platform import RayPlatform
from training_services.testing import TrainingServiceContract


class TestPilots(TrainingServiceContract):
    @pytest.fixture
    async def platform(self, tmp_path: Path, ray: RayCluster) -> AsyncIterator[RayPlatform[RayCluster]]:
        made = RayPlatform(tmp_path, ray)
        yield made
        await made.close()
