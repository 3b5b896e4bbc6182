"""The contract of training services with a stand-in for Ray's dashboard: an allocation for each trial.

Its jobs are real processes. Allocations that run many trials are in ``tests/ray``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ray.fake import FakeRay
from tests.ray.platform import RayPlatform
from training_services.testing import TrainingServiceContract


class TestAllocationsPerTrial(TrainingServiceContract):
    @pytest.fixture
    async def platform(self, tmp_path: Path) -> AsyncIterator[RayPlatform[FakeRay]]:
        with FakeRay(tmp_path) as ray:
            made = RayPlatform(tmp_path, ray, perTrial=True)
            yield made
            await made.close()
