"""Ray as the platform of a test, whose node is this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.ray.cluster import RayCluster
from tests.ray.fake import FakeRay
from tests.training_services.allocations.platform import MARK, AllocatedPlatform
from training_services.base import KnownKeepers
from training_services.ray.config import RayConfig
from training_services.ray.service import RayService


class _Service(RayService):
    """Service of an experiment whose database differs from that of other tests, as in real life."""

    def __init__(self, database: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._database = database

    async def open(self, known: KnownKeepers) -> None:
        await super().open(replace(known, db_id=self._database))


Cluster = TypeVar("Cluster", bound=RayCluster | FakeRay)


class RayPlatform(AllocatedPlatform, Generic[Cluster]):
    """One experiment on a cluster. ``settings``: fields of its configuration."""

    def __init__(self, directory: Path, cluster: Cluster, **settings: Any) -> None:
        super().__init__(directory)
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

    def make(self) -> RayService:
        return _Service(self.run, self.context(dict(os.environ)), self.config, self.tools)
