"""Training service whose allocations run many trials each, one trial each, or one member of a gang each."""

from __future__ import annotations

import abc
from datetime import timedelta
from typing import NamedTuple

from training_services.allocations.gangs import GangAllocations
from training_services.allocations.pilots import PilotQueue
from training_services.allocations.queues import AllocationQueue, Naming, OwnAllocations
from training_services.allocations.service import AllocationPlacing, AllocationService
from training_services.base import Capabilities, ExperimentContext, TrialJobSpec
from training_services.placement.needs import Capacity, Wants
from training_services.tools import ServiceTools

__all__ = ["ALLOCATIONS", "PilotRules", "PilotService", "Room"]

ALLOCATIONS = Naming("allocation", str, str)


class PilotRules(NamedTuple):
    """What the configuration says of allocations. ``most``: number of pilots at the same time; None: any."""

    per_trial: bool
    idle: timedelta
    most: int | None


class Room(NamedTuple):
    """Resources of an allocation: CPUs, MiB of memory, GPUs. None: unknown, or not limited."""

    cpus: float | None
    memory: int | None
    gpus: float | None


class PilotService(AllocationService):
    """Training service in whose allocations a keeper runs trials, as the user's rules say.

    By default an allocation is a pilot, which runs many trials. With ``per_trial`` each trial has its own. In
    an experiment with gangs on several hosts, each member has its own.
    """

    capabilities = Capabilities(
        updates=True, allocations=True, keeps_files=True, checkpoints=True, gangs=True
    )

    def __init__(self, context: ExperimentContext, tools: ServiceTools, rules: PilotRules) -> None:
        self._rules = rules
        # True: each job, or member of a gang, has an allocation of its own
        self._each = rules.per_trial or (context.gang is not None and context.gang.nodes > 1)
        super().__init__(context, tools)

    @abc.abstractmethod
    def _room_of(self, needs: Wants) -> Room:
        """Return the resources of an allocation. ``needs``: its needs where the user has given nothing."""

    def _make_queue(self) -> AllocationPlacing:
        gang = self.context.gang
        if gang is not None and gang.nodes > 1:
            return GangAllocations(self._acts(), ALLOCATIONS, self._start_gang, gang)
        if self._rules.per_trial:
            return OwnAllocations(self._acts(), ALLOCATIONS)
        return PilotQueue(
            self._acts(),
            ALLOCATIONS,
            self.context.experiment_id,
            self._ledger,
            idle=self._rules.idle,
            most=self._rules.most,
            room=self._places,
            placed=lambda: len(self._placed),
        )

    def _wants(self) -> Wants:
        """Return what a job needs in an allocation. In a pilot, it needs a CPU unless the user says more."""
        if self._each:
            return Wants(None, None, None)  # the allocation was made for the job
        wants = Wants.of(self.context)
        own = wants.own
        return wants if wants.cpus or (own is not None and own.cpus is not None) else wants._replace(cpus=1)

    def _places(self, job: TrialJobSpec, capacity: Capacity | None) -> int:
        """Return the number of jobs like this one that fit in a pilot. ``capacity``: as pilots report it."""
        wants, room = self._wants().of_job(job), self._room_of(self._size(None))
        if capacity is not None:
            room = room._replace(cpus=capacity.cpus, memory=capacity.memory)
        needs = wants.cpus, wants.memory, wants.gpus
        return min(
            (int(has // need) for has, need in zip(room, needs, strict=True) if has and need), default=1
        )

    def _size(self, keeper_id: str | None) -> Wants:
        """Return what an allocation needs where the configuration gives nothing."""
        queue = self._queue
        if keeper_id is not None and isinstance(queue, AllocationQueue):
            return queue.wants(keeper_id)
        return Wants.of(self.context)

    def _job_of(self, keeper_id: str) -> str | None:
        return keeper_id if self._each else None
