"""Several platforms as one training service. Each job runs on the first of them that has a free place.

The platforms are ordinary services, which do not know of each other. This one passes each fact and order to
the platform that it is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from training_services.allocations.service import AllocationService
from training_services.base import (
    Capabilities,
    CheckpointKeepBegun,
    CheckpointKept,
    CheckpointLost,
    CheckpointsDeleted,
    CheckpointsPruned,
    CheckpointStored,
    FileListing,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobWaiting,
    KnownKeepers,
    Machine,
    MachineAdded,
    Origin,
    SaveOrdered,
    StopOrdered,
    TrainingService,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.hybrid.copies import SharedTransfers
from training_services.hybrid.queue import HybridQueue
from training_services.hybrid.route import Route
from training_services.keepers.host import KeeperHost
from training_services.keepers.service import KeeperService
from training_services.machines.service import MachineService
from training_services.outbox import Outbox
from training_services.tools import ServiceTools

__all__ = ["HybridMember", "HybridService"]

# The job in these facts is the one that has saved the checkpoint. Jobs of any platform may wait for it.
_FOR_ALL = (
    CheckpointKeepBegun
    | CheckpointKept
    | CheckpointLost
    | CheckpointsDeleted
    | CheckpointsPruned
    | CheckpointStored
)


class HybridMember(NamedTuple):
    """One platform. ``name``: what it is called in sentences. ``takes_added``: machines that users add while
    the experiment runs belong to it.
    """

    name: str
    service: KeeperService
    takes_added: bool = False


class HybridService(TrainingService):
    """Training service that runs the jobs of one experiment on several platforms.

    ``make`` returns the platforms in the order in which jobs ask them. ``after``: see ``Route``.
    """

    def __init__(
        self,
        tools: ServiceTools,
        make: Callable[[ServiceTools], Sequence[HybridMember]],
        *,
        after: timedelta | None,
    ) -> None:
        self._outbox = Outbox()
        transfers = SharedTransfers(tools.transfers.slots, self._outbox.put)
        members = make(replace(tools, transfers=transfers))
        self._services = [member.service for member in members]
        self._added = next((number for number, member in enumerate(members) if member.takes_added), None)
        self._machines: dict[str, int] = {}  # keeper of a machine that stays -> its platform
        self._homes: dict[str, int] = {}  # job with a place -> its platform, until its end is committed
        self._queue = HybridQueue(
            self._services,
            Route([member.name for member in members], after),
            platform_of=self._platform_of,
            put=self._outbox.put,
            found=self._homes.__setitem__,
        )
        self._pumps: list[asyncio.Task[None]] = []
        self._failure: Exception | None = None  # an error of this program that ends the events
        for number, service in enumerate(self._services):
            if isinstance(service, MachineService):
                self._machines.update((host.keeper_id, number) for host in service.hosts())
        able = [service.capabilities for service in self._services]
        self.capabilities = Capabilities(
            updates=True,
            machines=any(each.machines for each in able),
            allocations=any(each.allocations for each in able),
            keeps_files=any(each.keeps_files for each in able),
            checkpoints=True,
        )

    def hosts(self, added: Iterable[Mapping[str, Any]] = ()) -> list[KeeperHost]:
        """Return a host for each machine that stays. ``added``: machines that users have added.

        Raises ServiceUnavailable.
        """
        return [
            host
            for number, service in enumerate(self._services)
            if isinstance(service, MachineService)
            for host in service.hosts(added if number == self._added else ())
        ]

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        for machine in known.machines:
            if machine.added is not None and self._added is not None:
                self._machines.setdefault(machine.keeper_id, self._added)
        opened: list[KeeperService] = []
        try:
            for number, service in enumerate(self._services):
                await service.open(self._part(known, number))
                opened.append(service)
        except BaseException:
            for service in opened:
                await service.close(detach=True)
            raise
        self._pumps = [
            asyncio.create_task(self._pump(number), name=f"hybrid:{number}")
            for number in range(len(self._services))
        ]

    def _part(self, known: KnownKeepers, number: int) -> KnownKeepers:
        """Return what the core knows of the hosts of this platform."""
        return replace(
            known,
            keepers=tuple(each for each in known.keepers if self._platform_of(each.keeper_id) == number),
            machines=tuple(each for each in known.machines if self._platform_of(each.keeper_id) == number),
        )

    def _platform_of(self, keeper_id: str) -> int:
        """Return the platform of a keeper's host. A machine that is not known counts as an added one."""
        if (known := self._machines.get(keeper_id)) is not None:
            return known
        for number, service in enumerate(self._services):
            if isinstance(service, AllocationService) and keeper_id.startswith(service.name_prefix):
                return number
        return self._added or 0

    def adopted(self) -> None:
        for service in self._services:
            service.adopted()

    async def close(self, *, detach: bool) -> Sequence[str]:
        self._queue.close()
        left = await asyncio.gather(*(service.close(detach=detach) for service in self._services))
        await asyncio.gather(*self._pumps)
        self._outbox.close()
        return list(dict.fromkeys(sentence for sentences in left for sentence in sentences))

    async def remove(self, *, only_look: bool = False) -> Sequence[str]:
        left = [await service.remove(only_look=only_look) for service in self._services]
        return [sentence for sentences in left for sentence in sentences]

    # ---- orders -------------------------------------------------------------------------------------------

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        if job.id in self._homes or job.id in self._queue:
            return None
        if job.place is None:
            return self._queue.submit(job)
        number = self._homes[job.id] = self._platform_of(job.place.place.keeper_id)
        return self._services[number].submit_trial_job(job)

    def cancel_trial_job(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        if job_id in self._queue:
            return self._queue.cancel(job_id, grace)
        number = self._homes.get(job_id)
        if number is None:
            return None
        return self._services[number].cancel_trial_job(job_id, grace=grace, save_within=save_within)

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        number = self._homes.get(job_id)
        if number is None:
            return None
        return self._services[number].update_trial_job(job_id, index, parameter_text)

    def save_trial_job(self, job_id: str, *, within: timedelta) -> SaveOrdered | None:
        number = self._homes.get(job_id)
        return None if number is None else self._services[number].save_trial_job(job_id, within=within)

    def prioritise(self, priority: int) -> None:
        for service in self._services:
            service.prioritise(priority)

    def keep_checkpoint(self, trial_id: str, checkpoint: Origin | None) -> None:
        self._services[0].keep_checkpoint(trial_id, checkpoint)  # all platforms share the transfers

    # ---- facts that the core has committed ----------------------------------------------------------------

    def committed(self, facts: Sequence[JobEvent]) -> None:
        parts: list[list[JobEvent]] = [[] for _ in self._services]
        for fact in facts:
            for number in self._concerned(fact):
                parts[number].append(fact)
        for service, part in zip(self._services, parts, strict=True):
            if part:
                service.committed(part)
        for fact in facts:
            if isinstance(fact, JobEnded | JobLost):
                self._homes.pop(fact.job_id, None)
            elif isinstance(fact, CheckpointKept):
                self._queue.copied(fact)

    def _concerned(self, fact: JobEvent) -> Iterable[int]:
        """Return the platforms that a fact is about."""
        if isinstance(fact, _FOR_ALL):
            return range(len(self._services))
        job_id = getattr(fact, "job_id", None)
        if job_id is not None:
            home = self._homes.get(job_id)
            return () if home is None else (home,)
        keeper_id = getattr(fact, "keeper_id", "")
        if isinstance(fact, MachineAdded) and self._added is not None:
            self._machines.setdefault(keeper_id, self._added)
        return (self._platform_of(keeper_id),)

    # ---- events of the platforms --------------------------------------------------------------------------

    async def _pump(self, number: int) -> None:
        """Pass on the events of one platform."""
        try:
            async for batch in self._services[number].events():
                heard = (self._heard(number, event) for event in batch)
                self._outbox.put([event for event in heard if event is not None])
                self._queue.look()
        except Exception as error:
            self._failure = error
            self._outbox.close()

    def _heard(self, number: int, event: JobEvent) -> JobEvent | None:
        """Return what the core has to hear of an event; None: nothing, because it is about one queue only."""
        if isinstance(event, JobWaiting):
            return self._queue.still_waits(number, event)
        if isinstance(event, JobPlaced):
            return self._queue.with_reason(event)
        if isinstance(event, JobEnded | JobLost):
            if event.job_id in self._queue:
                return self._queue.over(number, event)
            return event if self._homes.get(event.job_id, number) == number else None
        return event

    async def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        while (batch := await self._outbox.take()) is not None:
            yield batch
        if self._failure is not None:
            raise self._failure

    # ---- what users look at -------------------------------------------------------------------------------

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        found = [detail for service in self._services for detail in await service.list_trial_jobs()]
        return list({detail.job_id: detail for detail in found}.values())

    def machines(self) -> Sequence[Machine]:
        return [machine for service in self._services for machine in service.machines()]

    def notices(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for service in self._services:
            found |= service.notices()
        return found

    def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        service = self._reader(job_id, keeper_id)
        return service.read_log(job_id, name, follow=follow, tail=tail, keeper_id=keeper_id)

    def read_file(self, job_id: str, path: str, *, keeper_id: str | None = None) -> AsyncIterator[bytes]:
        return self._reader(job_id, keeper_id).read_file(job_id, path, keeper_id=keeper_id)

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        return await self._reader(job_id, keeper_id).list_files(job_id, keeper_id=keeper_id)

    def _reader(self, job_id: str, keeper_id: str | None) -> KeeperService:
        """Return the service that can read the files of a job."""
        has = next((service for service in self._services if service.has_place(job_id)), None)
        if has is not None or keeper_id is None:
            return has or self._services[0]
        return self._services[self._platform_of(keeper_id)]
