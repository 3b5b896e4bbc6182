"""Simulated experiment of a higher priority, for whose trials running trials are stopped."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.service import SimService

if TYPE_CHECKING:
    from tests.simulation.world import World

ACTS = 30


class Rival:
    """Source of preemptions, with a random source of its own, so that other lives do not change."""

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
