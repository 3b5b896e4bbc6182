"""Slurm as the platform of a test, whose nodes are this machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.slurm.cluster import SlurmCluster
from tests.training_services.allocations.platform import MARK, AllocatedPlatform
from training_services.base import KnownKeepers
from training_services.slurm.config import SlurmConfig
from training_services.slurm.service import SlurmService


class _Service(SlurmService):
    """Service of an experiment whose database differs from that of other tests, as in real life."""

    def __init__(self, database: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._database = database

    async def open(self, known: KnownKeepers) -> None:
        await super().open(replace(known, db_id=self._database))


class SlurmPlatform(AllocatedPlatform):
    """One experiment on a cluster. ``settings``: fields of its configuration.

    ``environ``: of the user who creates the experiment. ``address``: its ``nniManagerIp``.
    ``lease``: see the configuration's field.
    """

    address: str | None = None
    lease: timedelta | None = None

    def __init__(self, directory: Path, cluster: SlurmCluster, **settings: Any) -> None:
        super().__init__(directory)
        self.cluster = cluster
        self.environ = dict(cluster.environ)
        self.config = SlurmConfig.model_validate(
            {
                "timeLimit": "10m",
                "python": sys.executable,
                "setup": f"export {MARK}={self.run}",
                "workDirectory": str(directory / "work"),
                "idle": "1s",
                **settings,
            }
        )

    def make(self) -> SlurmService:
        context = self.context(self.environ, nni_manager_ip=self.address, lease=self.lease)
        return _Service(self.run, context, self.config, self.tools)
