"""Slurm as a training service: allocations are pilots that run many trials, or each trial has its own.

An allocation is a host with its own keeper, which has come in the allocation's script. Slurm is asked rarely:
the keepers' calls say what runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from training_services.allocations.pilot_service import PilotRules, PilotService, Room
from training_services.base import (
    ExperimentContext,
    KnownKeeper,
    KnownKeepers,
    Machine,
    MachineStatus,
)
from training_services.keepers.hub import KeeperDesk
from training_services.keepers.link import Received
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Wants
from training_services.slurm.allocation import SlurmAllocation, pilot_of
from training_services.slurm.commands import Commands, LocalCommands, LoginCommands
from training_services.slurm.config import SlurmConfig
from training_services.slurm.login import Login
from training_services.slurm.site import Site
from training_services.tools import ServiceTools

__all__ = ["SlurmService", "commands_of"]


def commands_of(config: SlurmConfig, environ: Mapping[str, str], tools: ServiceTools) -> Commands:
    """Return the place where Slurm's commands run by this configuration."""
    if config.login is None:
        return LocalCommands(environ)
    return LoginCommands(config.login, tools.machines, environ)


class SlurmService(PilotService):
    """Training service that runs the jobs of one experiment in allocations of Slurm."""

    def __init__(self, context: ExperimentContext, config: SlurmConfig, tools: ServiceTools) -> None:
        self._config = config = config.in_environment(context.environ)
        self._tools = tools
        commands = commands_of(config, context.environ, tools)
        self._key = "slurm", commands.key
        self._login = tools.shared.take(self._key, lambda: Login(commands))
        self._site = Site(context, config, tools.doors, self._login)
        super().__init__(
            context, tools, PilotRules(config.per_trial, config.idle_time, config.max_allocations)
        )

    def _room_of(self, needs: Wants) -> Room:
        config = self._config
        return Room(config.cpus or math.ceil(needs.cpus or 1), config.memory, config.gpu_number)

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._site.database_id = known.db_id
        self._errands.spawn("", self._site.prepare())
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
            job_id=job_id if self._each else None,
            needs=lambda: self._size(keeper_id),
            wants=self._wants(),
            seen=lambda keeper_id: self._seen([keeper_id]),
            vacated=lambda: self._is_vacated(keeper_id),
            known=known is not None,
            instance=None if known is None else known.instance,
        )

    def _is_vacated(self, keeper_id: str) -> bool:
        seat = self._seats.get(keeper_id)
        return seat is not None and seat.link.ending and not seat.jobs

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
    # an allocation that has begun has an obstacle only if its time limit is near, or if it is in doubt
    late = pilot.spoken and pilot.obstacle() is not None and not seat.silent
    status = MachineStatus.DRAINING if late else machine.status
    return replace(
        machine,
        name=pilot.title,
        status=MachineStatus.REMOVING if pilot.leaving else status,
        reason=None if machine.reason is None else machine.reason.removeprefix("waits: "),
        ends_at=None if left is None else datetime.now(UTC) + left,
    )
