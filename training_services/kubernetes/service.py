"""Kubernetes as a training service: one Job of the cluster per trial job, or a pool of pods for all.

A pod is a host with its own keeper; it is created for its jobs and removed after them. The cluster needs no
add-on. The service watches the cluster for what a keeper cannot report: why a pod has not started, and that
it was evicted, deleted, or killed for lack of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from training_services.allocations.gangs import GangAllocations
from training_services.allocations.queues import AllocationQueue, OwnAllocations, SharedAllocations
from training_services.allocations.service import AllocationService
from training_services.base import (
    Capabilities,
    ExperimentContext,
    KnownKeeper,
    KnownKeepers,
    Machine,
    ServiceError,
)
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.names import PODS, job_of_pod
from training_services.kubernetes.pod import PodHost, pod_of
from training_services.kubernetes.site import Site
from training_services.tools import ServiceTools

__all__ = ["KubernetesService"]


class KubernetesService(AllocationService):
    """Training service that runs the jobs of one experiment in pods."""

    capabilities = Capabilities(
        updates=True, allocations=True, keeps_files=True, checkpoints=True, gangs=True
    )
    _queue: AllocationQueue

    def __init__(self, context: ExperimentContext, config: KubernetesConfig, tools: ServiceTools) -> None:
        self._config = config
        self._site = Site(context, config, tools.doors, changed=self._seen)
        super().__init__(context, tools)

    def _make_queue(self) -> AllocationQueue:
        gang = self.context.gang
        if gang is not None and gang.nodes > 1:
            return GangAllocations(self._acts(), PODS, self._start_gang, gang)
        if not self._config.reuse_mode:
            return OwnAllocations(self._acts(), PODS)
        return SharedAllocations(self._acts(), PODS, self.context.experiment_id, idle=self._config.idle)

    async def open(self, known: KnownKeepers) -> None:
        self._site.open(known.db_id)
        await super().open(known)

    def _host(self, keeper_id: str, job_id: str | None, known: KnownKeeper | None = None) -> PodHost:
        return PodHost(
            keeper_id,
            context=self.context,
            config=self._config,
            site=self._site,
            job_id=None if self._config.reuse_mode else job_id,
            needs=lambda: self._queue.wants(keeper_id),
            image=lambda: self._queue.image(keeper_id),
            known=known is not None,
            instance=None if known is None else known.instance,
        )

    def _job_of(self, keeper_id: str) -> str | None:
        return job_of_pod(self.context.experiment_id, keeper_id)

    def _discard(self, keeper_id: str) -> None:
        self._site.dismiss(keeper_id)

    async def close(self, *, detach: bool) -> Sequence[str]:
        left = list(await super().close(detach=detach))
        if not detach and self._known.db_id:
            try:
                await self._site.remove_credentials()
            except ServiceError as error:
                left.append(f"the keepers' Secret could not be removed from the cluster: {error}")
        await self._site.close()
        return left

    async def remove(self, *, only_look: bool = False) -> Sequence[str]:
        try:
            await self._site.remove(only_look=only_look)
        except ServiceError as error:
            return [f"the experiment's objects could not be removed from the cluster: {error}"]
        finally:
            await self._site.close()
        return ()

    def machines(self) -> Sequence[Machine]:
        """Return a description of each pod, with the name of its node."""
        found = []
        for machine in super().machines():
            sight = self._site.sighting(machine.keeper_id)
            node = "" if sight is None or sight.node is None else f" on {sight.node}"
            found.append(replace(machine, name=f"{machine.name}{node}"))
        return found

    def notices(self) -> Mapping[str, str]:
        trouble = self._site.trouble
        doubts = {f"pod {seat.id}": doubt for seat in self._seats.values() if (doubt := pod_of(seat).doubt)}
        return {**super().notices(), **doubts, **({} if trouble is None else {"kubernetes": trouble})}
