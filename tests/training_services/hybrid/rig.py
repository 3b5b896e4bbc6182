"""Several platforms of one experiment: fake machines, and fake clusters with an allocation for each job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.training_services.fleet import FakeMachine, Fleet
from training_services.allocations.allocation import Allocation
from training_services.allocations.queues import Naming, OwnAllocations
from training_services.allocations.service import AllocationService
from training_services.base import (
    Capabilities,
    ExperimentContext,
    JobEvent,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KnownKeeper,
    TrialJobSpec,
)
from training_services.hybrid.service import HybridMember, HybridService
from training_services.keepers.host import HostGone
from training_services.machines.service import MachineService
from training_services.placement.needs import Wants
from training_services.testing import CoreDouble
from training_services.tools import ServiceTools

ALLOCATIONS = Naming("allocation", str, str)


class FakeAllocation(Allocation, FakeMachine):
    """Allocation whose keeper calls when a test makes it."""

    doubt = None

    def __init__(self, keeper_id: str, job_id: str | None) -> None:
        super().__init__(keeper_id)
        self.job_id = job_id
        self.gone: asyncio.Future[HostGone] = asyncio.get_running_loop().create_future()

    async def keep(self) -> None:
        raise await asyncio.shield(self.gone)

    async def destroy(self) -> None:
        self.gone.set_result(HostGone("it was ended"))


class FakeCluster(AllocationService):
    """Cluster with an allocation for each job. ``largest``: CPUs that a job may ask for."""

    capabilities = Capabilities(updates=True, allocations=True, keeps_files=True, checkpoints=True)

    def __init__(self, rig: Rig, name: str, tools: ServiceTools, context: ExperimentContext) -> None:
        self._rig = rig
        super().__init__(replace(context, one_of_several=name), tools)

    def _make_queue(self) -> OwnAllocations:
        return OwnAllocations(self._acts(), ALLOCATIONS)

    def _wants_of(self, job: TrialJobSpec | None) -> Wants:
        if self._rig.rejects is not None:
            raise JobRejected(self._rig.rejects)
        return super()._wants_of(job)

    def _host(self, keeper_id: str, job_id: str | None, known: KnownKeeper | None = None) -> FakeAllocation:
        made = self._rig.allocations.get(keeper_id)
        if made is None or made.gone.done():
            made = self._rig.allocations[keeper_id] = FakeAllocation(keeper_id, job_id)
        return made

    def _job_of(self, keeper_id: str) -> str | None:
        return keeper_id


class Core(CoreDouble):
    """Core whose jobs have waited since ``since``."""

    since: datetime | None = None

    def spec(self, trial_id: str, **more: Any) -> TrialJobSpec:
        return replace(super().spec(trial_id, **more), waits_since=self.since)


Make = Callable[["Rig", ServiceTools], HybridMember]


class Rig(Fleet):
    """One experiment whose trials need a CPU each. ``platforms`` makes its platforms, in their order."""

    core: Core

    def __init__(
        self, directory: Path, *platforms: Make, machines: Sequence[FakeMachine], after: timedelta | None
    ) -> None:
        super().__init__(directory, *machines, trial_cpu_number=1)
        self.platforms, self.after = platforms, after
        self.core = Core(self.context.experiment_id)
        self.allocations: dict[str, FakeAllocation] = {}
        self.rejects: str | None = None  # why the clusters reject jobs

    def make(self) -> HybridService:  # type: ignore[override]
        def members(tools: ServiceTools) -> list[HybridMember]:
            return [make(self, tools) for make in self.platforms]

        return HybridService(self.tools, members, after=self.after)

    async def allocation(self, keeper_id: str) -> FakeAllocation:
        """Wait until an allocation was asked for, and return it."""
        await self.until(lambda: keeper_id in self.allocations)
        return self.allocations[keeper_id]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 (nothing reports all of these changes)
                await asyncio.sleep(0.005)

    def last(self, job_id: str) -> JobEvent:
        return self.core.of(job_id)[-1]

    def reason(self, job_id: str) -> str:
        """Return why the job waits."""
        last = self.last(job_id)
        assert isinstance(last, JobWaiting), last
        return last.reason

    def places(self, job_id: str) -> list[str]:
        """Return the keepers of all committed places of a job."""
        return [fact.place.keeper_id for fact in self.core.of(job_id) if isinstance(fact, JobPlaced)]


def machines(name: str, *keepers: str) -> Make:
    """Return a platform of these fake machines."""

    def make(rig: Rig, tools: ServiceTools) -> HybridMember:
        service = MachineService(rig.context, tools, [rig.machines[each] for each in keepers])
        return HybridMember(name, service)

    return make


def cluster(name: str) -> Make:
    return lambda rig, tools: HybridMember(name, FakeCluster(rig, name, tools, rig.context))
