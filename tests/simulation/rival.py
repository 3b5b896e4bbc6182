"""Simulated experiments of other users, which need the same machines."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import TYPE_CHECKING

from tests.simulation.service import SimService

if TYPE_CHECKING:
    from tests.simulation.world import World

ACTS = 30


class Rival:
    """Experiment of a higher priority, for whose trials running trials are stopped.

    It has a random source of its own, so that other lives do not change.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"rival {world.seed}")
        for _ in range(ACTS):
            world.kernel.at(self._chance.uniform(1.0, world.chaos_s), self._act)

    def _act(self) -> None:
        server = self._world.server
        runner = server.runner if server.alive else None
        service = None if runner is None else runner.session.service
        if isinstance(service, SimService):
            self._world.kernel.say("rival", "needs room: %s", service.preempt(self._chance))


class Tenant:
    """Other experiment whose jobs hold all GPUs of an idle machine for some seconds, again and again.

    It acts only if the trials' number of members may vary.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"tenant {world.seed}")
        self._numbers = count()
        for _ in range(0 if world.least_nodes is None else ACTS // 4 if world.sharing else ACTS):
            world.kernel.at(self._chance.uniform(1.0, world.chaos_s), self._act)

    def _act(self) -> None:
        server = self._world.server
        runner = server.runner if server.alive else None
        service = None if runner is None else runner.session.service
        if isinstance(service, SimService):
            server.spawn(self._stay(service, f"tenant-t{next(self._numbers):04}-1"))

    async def _stay(self, service: SimService, job_id: str) -> None:
        host_id = service.occupy(self._chance, job_id)
        if host_id is not None:
            self._world.kernel.say("tenant", "%s takes %s", job_id, host_id)
            for _ in range(self._chance.randint(5, 30)):
                await asyncio.sleep(0.2)
                if job_id in service.stopped:
                    break
            self._world.kernel.say("tenant", "%s leaves %s", job_id, host_id)
            service.vacate(host_id, job_id)


class Guest:
    """Other experiment of the same priority, whose jobs wait for a machine for which they need all GPUs.

    Running gangs give up members for them. It acts only if the trials' number of members may vary, and rests
    in between, so that the gangs get more members again.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"guest {world.seed}")
        self._numbers = count()
        for at in range(5, int(world.chaos_s) if world.sharing else 0, 20):
            world.kernel.at(self._chance.uniform(at, at + 5.0), self._act)

    def _act(self) -> None:
        server = self._world.server
        runner = server.runner if server.alive else None
        service = None if runner is None else runner.session.service
        if isinstance(service, SimService):
            server.spawn(self._visit(service, f"guest-t{next(self._numbers):04}-1"))

    async def _visit(self, service: SimService, job_id: str) -> None:
        kernel, host = self._world.kernel, service.any_host(self._chance)
        if host is None:
            return
        for _ in range(self._chance.randint(2, 20)):
            if service.request(host, job_id):
                kernel.counts["guest placed"] += 1
                kernel.say("guest", "%s takes %s", job_id, host.id)
                await asyncio.sleep(self._chance.uniform(1.0, 3.0))
                service.vacate(host.id, job_id)
                return
            await asyncio.sleep(0.5)
        service.give_up_request(job_id)
