"""Ray as a training service: allocations are pilots that run many trials, or each trial has its own.

An allocation is a job of Ray, and a host with its own keeper. Only the cluster's dashboard is called. While a
keeper calls, Ray is not asked about its job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from training_services.allocations.pilot_service import PilotRules, PilotService, Room
from training_services.base import (
    ExperimentContext,
    KnownKeeper,
    KnownKeepers,
    Machine,
)
from training_services.keepers.hub import KeeperDesk
from training_services.keepers.link import Received
from training_services.placement.needs import Wants
from training_services.ray.allocation import RayAllocation, ray_allocation_of
from training_services.ray.cluster import Cluster, Credentials
from training_services.ray.config import RayConfig
from training_services.ray.site import Site
from training_services.ray.submission import size_of
from training_services.tools import ServiceTools

__all__ = ["RayService", "credentials"]


def credentials(config: RayConfig) -> Credentials:
    """Return how the cluster is asked by this configuration."""
    token = None if config.token is None else config.token.get_secret_value()
    return Credentials(token, config.token_file, config.insecure)


class RayService(PilotService):
    """Training service that runs the jobs of one experiment in allocations of a Ray cluster."""

    def __init__(self, context: ExperimentContext, config: RayConfig, tools: ServiceTools) -> None:
        self._config = config
        self._tools = tools
        found = credentials(config)
        self._key = "ray", config.address, found
        self._cluster = tools.shared.take(self._key, lambda: Cluster(config.address, found))
        self._site = Site(context, config, tools.doors, self._cluster)
        super().__init__(
            context, tools, PilotRules(config.per_trial, config.idle_time, config.max_allocations)
        )

    def _room_of(self, needs: Wants) -> Room:
        size = size_of(self._config, needs)
        return Room(size.cpus, size.memory, size.gpus)

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._site.database_id = known.db_id
        await super().open(known)

    async def close(self, *, detach: bool) -> Sequence[str]:
        left = await super().close(detach=detach)
        await self._tools.shared.leave(self._key)
        return left

    def _host(self, keeper_id: str, job_id: str | None, known: KnownKeeper | None = None) -> RayAllocation:
        return RayAllocation(
            keeper_id,
            context=self.context,
            config=self._config,
            site=self._site,
            job_id=job_id if self._each else None,
            needs=lambda: self._size(keeper_id),
            wants=self._wants(),
            seen=lambda keeper_id: self._seen([keeper_id]),
            known=known is not None,
            instance=None if known is None else known.instance,
        )

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        if (seat := self._seats.get(desk.link.keeper_id)) is not None:
            allocation = ray_allocation_of(seat)
            allocation.bound(desk.link.caller.instance)
            if desk.link.ending:
                allocation.leave()
        super()._deliver(desk, received)

    def machines(self) -> Sequence[Machine]:
        """Return a description of each allocation."""
        return [
            replace(each, reason=None if each.reason is None else each.reason.removeprefix("waits: "))
            for each in super().machines()
        ]

    def notices(self) -> Mapping[str, str]:
        doubts = {
            seat.host.name: doubt
            for seat in self._seats.values()
            if (doubt := ray_allocation_of(seat).doubt) is not None
        }
        trouble = {} if self._cluster.trouble is None else {"ray": self._cluster.trouble}
        return {**super().notices(), **doubts, **trouble}
