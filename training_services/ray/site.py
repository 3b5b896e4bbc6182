"""Experiment's part of a Ray cluster: submits its allocations, and starts their keepers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training_services.addresses import KeeperDoors, Reach
from training_services.base import ExperimentContext, ServiceUnavailable
from training_services.code import PackedCode
from training_services.own_address import own_address
from training_services.placement.needs import Wants
from training_services.ray.cluster import Cluster
from training_services.ray.config import RayConfig
from training_services.ray.submission import provision, resources_of, size_of, submission
from trial_keeper import zipapp

__all__ = ["Site"]


class Site:
    """Experiment's part of a cluster.

    ``database_id``: differs from that of all other experiments, also of those that are restored copies.
    """

    def __init__(
        self, context: ExperimentContext, config: RayConfig, doors: KeeperDoors, cluster: Cluster
    ) -> None:
        self.code = PackedCode(context)
        self.cluster = cluster
        self.database_id = ""
        self._context, self._config, self._doors = context, config, doors
        self._program: bytes | None = None

    def ray_id(self, keeper_id: str) -> str:
        """Return the id of an allocation's job. Ray accepts it only once."""
        return f"nnimgr-{keeper_id}-{hashlib.sha256(self.database_id.encode()).hexdigest()[:8]}"

    def notes(self, keeper_id: str) -> Path:
        """Return the folder of the server's own files about a keeper."""
        return self._context.directory / "keepers" / keeper_id

    def resources(self, wants: Wants) -> dict[str, float]:
        """Return what an allocation needs, by Ray's names of resources."""
        return resources_of(self._config, size_of(self._config, wants))

    async def reach(self) -> Reach:
        """Return the server's address for nodes, and start to listen there. Raises ServiceUnavailable."""
        address = self._context.nni_manager_ip or self._doors.url
        if address is None:
            address = await asyncio.to_thread(own_address, self._config.address, loopback=True)
        if address is None:
            raise ServiceUnavailable(
                "the address at which nodes of the cluster can reach this server is unknown: set nniManagerIp"
            )
        return await self._doors.network(address)

    async def submit(self, keeper_id: str, *, wants: Wants, reach: Reach, ticket: str) -> None:
        """Submit the job of an allocation, unless the cluster has it.

        Raises HostGone if the cluster will never accept it, and ServiceUnavailable.
        """
        body = submission(
            self._config,
            ray_id=self.ray_id(keeper_id),
            experiment_id=self._context.experiment_id,
            keeper_id=keeper_id,
            wants=wants,
            reach=reach,
            ticket=ticket,
        )
        await self.cluster.submit(body)

    async def provision(
        self, keeper_id: str, *, wants: Wants, launch: str, manager: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the answer to the first program of the job, with the keeper and its token."""
        if self._program is None:
            self._program = await asyncio.to_thread(zipapp.content, compiled=True)
        return provision(
            self._config,
            experiment_id=self._context.experiment_id,
            keeper_id=keeper_id,
            wants=wants,
            launch=launch,
            manager=manager,
            program=self._program,
        )
