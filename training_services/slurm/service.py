"""Slurm as a training service: allocations are pilots that run many trials, or each trial has its own.

An allocation is a host with its own keeper, which has come in the allocation's script. Slurm is asked rarely:
the keepers' calls say what runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from training_services.allocations.queues import Naming, OwnAllocations
from training_services.allocations.service import AllocationPlacing, AllocationService
from training_services.base import (
    Capabilities,
    ExperimentContext,
    KnownKeeper,
    KnownKeepers,
    Machine,
    MachineStatus,
    TrialJobSpec,
)
from training_services.keepers.hub import KeeperDesk
from training_services.keepers.link import Received
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Wants
from training_services.slurm.allocation import SlurmAllocation, pilot_of
from training_services.slurm.commands import Commands, LocalCommands, LoginCommands
from training_services.slurm.config import SlurmConfig
from training_services.slurm.login import Login
from training_services.slurm.pilots import PilotQueue
from training_services.slurm.site import Site
from training_services.tools import ServiceTools

__all__ = ["ALLOCATIONS", "SlurmService", "commands_of"]

ALLOCATIONS = Naming("allocation", str, str)


def commands_of(config: SlurmConfig, environ: Mapping[str, str], tools: ServiceTools) -> Commands:
    """Return the place where Slurm's commands run by this configuration."""
    if config.login is None:
        return LocalCommands(environ)
    return LoginCommands(config.login, tools.machines, environ)


class SlurmService(AllocationService):
    """Training service that runs the jobs of one experiment in allocations of Slurm."""

    capabilities = Capabilities(updates=True, allocations=True, keeps_files=True, checkpoints=True)

    def __init__(self, context: ExperimentContext, config: SlurmConfig, tools: ServiceTools) -> None:
        self._config = config
        self._tools = tools
        commands = commands_of(config, context.environ, tools)
        self._key = "slurm", commands.key
        self._login = tools.shared.take(self._key, lambda: Login(commands))
        self._site = Site(context, config, tools.doors, self._login)
        super().__init__(context, tools)

    def _make_queue(self) -> AllocationPlacing:
        if self._config.per_trial:
            return OwnAllocations(self._acts(), ALLOCATIONS)
        return PilotQueue(
            self._acts(),
            ALLOCATIONS,
            self.context.experiment_id,
            self._ledger,
            idle=self._config.idle_time,
            most=self._config.max_allocations,
            room=self._room,
            placed=lambda: len(self._placed),
        )

    def _wants(self) -> Wants:
        """Return what a job needs in an allocation. In a pilot, it needs a CPU unless the user says more."""
        if self._config.per_trial:
            return Wants(None, None, None)  # the allocation was made for the job
        wants = Wants.of(self.context)
        own = wants.own
        return wants if wants.cpus or (own is not None and own.cpus is not None) else wants._replace(cpus=1)

    def _room(self, job: TrialJobSpec) -> int:
        """Return the number of jobs like this one that fit in one pilot."""
        wants, config = self._wants().of_job(job), self._config
        has = config.cpus or math.ceil(self._size(None).cpus or 1), config.memory, config.gpu_number
        needs = wants.cpus, wants.memory, wants.gpus
        return min(
            (int(have // need) for have, need in zip(has, needs, strict=True) if have and need), default=1
        )

    def _size(self, keeper_id: str | None) -> Wants:
        """Return what an allocation needs where the configuration gives nothing."""
        queue = self._queue
        if keeper_id is not None and isinstance(queue, OwnAllocations):
            return queue.wants(keeper_id)
        return Wants.of(self.context)

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._site.database_id = known.db_id
        await super().open(known)

    async def close(self, *, detach: bool) -> Sequence[str]:
        left = await super().close(detach=detach)
        await self._tools.shared.leave(self._key)
        return left

    def _host(self, keeper_id: str, job_id: str | None, known: KnownKeeper | None = None) -> SlurmAllocation:
        return SlurmAllocation(
            keeper_id,
            context=self.context,
            config=self._config,
            site=self._site,
            job_id=job_id if self._config.per_trial else None,
            needs=lambda: self._size(keeper_id),
            wants=self._wants(),
            seen=lambda keeper_id: self._seen([keeper_id]),
            known=known is not None,
            instance=None if known is None else known.instance,
        )

    def _job_of(self, keeper_id: str) -> str | None:
        return keeper_id if self._config.per_trial else None

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        if (seat := self._seats.get(desk.link.keeper_id)) is not None:
            pilot = pilot_of(seat)
            pilot.bound(desk.link.caller.instance)
            if desk.link.ending and not pilot.leaving:
                pilot.leaving = True
                self._login.hurry()
        super()._deliver(desk, received)

    def machines(self) -> Sequence[Machine]:
        """Return a description of each allocation, with its id in Slurm, its node and its time limit."""
        return [_described(machine, self._seats[machine.keeper_id]) for machine in super().machines()]

    def notices(self) -> Mapping[str, str]:
        doubts = {seat.host.name: doubt for seat in self._seats.values() if (doubt := pilot_of(seat).doubt)}
        trouble = {} if self._login.trouble is None else {"slurm": self._login.trouble}
        return {**super().notices(), **doubts, **trouble}


def _described(machine: Machine, seat: KeeperSeat) -> Machine:
    pilot = pilot_of(seat)
    left = pilot.left
    # an allocation that has begun has an obstacle only if its time limit is near
    late = pilot.spoken and pilot.obstacle() is not None and not seat.silent
    return replace(
        machine,
        name=pilot.title,
        status=MachineStatus.DRAINING if late else machine.status,
        reason=None if machine.reason is None else machine.reason.removeprefix("waits: "),
        ends_at=None if left is None else datetime.now(UTC) + left,
    )
