"""Random faults. Every seed has at least one crash of the server and one of a keeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.kernel import Kernel

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World

JUMPS_S = (-3600.0, -5.0, 5.0, 3600.0, 86_400.0)


class Chaos:
    """Source of faults, until the kernel allows no more."""

    def __init__(self, world: World) -> None:
        self._world, self._kernel = world, world.kernel
        chance = self._kernel.random
        self._kernel.at(chance.uniform(0.1, 6.0), self._kill_server)
        self._kernel.at(chance.uniform(0.1, 6.0), self._kill_keeper)
        self._kernel.at(1.0, self._strike)

    def _strike(self) -> None:
        kernel = self._kernel
        if not kernel.faults:
            return
        kernel.at(kernel.random.uniform(0.5, 4.0) / kernel.severity, self._strike)
        host = kernel.random.choice(self._world.hosts)
        acts: list[tuple[int, Callable[[], None]]] = [
            (20, _rest), (8, lambda: self._crash(host)), (5, lambda: self._crash_server()),
            (3, lambda: host.lose_power(wipe=kernel.random.random() < 0.25)), (1, host.wipe),
            (10 if self._world.far else 5, lambda: self._cut(host)), (4, lambda: self._jump(host)),
            (3, lambda: self._fill(host)), (3, lambda: self._kill_shim(host)), (2, self._kill_child),
            (2, self._world.server.close), (1, self._world.start_second_server), (2, self._stall_server),
            (2, lambda: self._stall(host)), (6, lambda: self._hurry(host)), (1, host.end),
            (3, lambda: self._spoil_claim(host)), (2, lambda: self._shorten(host)),
        ]  # fmt: skip
        act = kernel.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]
        act()

    def _crash(self, host: Host) -> None:
        if host.keeper is not None:
            host.keeper.die()

    def _kill_keeper(self) -> None:
        running = [host for host in self._world.hosts if host.keeper is not None]
        if not running:
            self._kernel.at(0.5, self._kill_keeper)
            return
        self._crash(self._kernel.random.choice(running))

    def _kill_server(self) -> None:
        if self._world.server.alive:
            self._crash_server()
        else:
            self._kernel.at(0.5, self._kill_server)

    def _crash_server(self) -> None:
        server = self._world.server
        if not server.alive:
            return
        if self._kernel.random.random() < 0.3:
            self._kernel.fault("server power loss", server.name)
            server.die("its machine lost power")
            self._world.store.lose_power()
            self._world.copies.lose_power()
            self._world.witness.checkpoints.copies.whole()
        else:
            server.die("by chance")
            # parameter sets that were given cannot be reconstructed
            phased = self._world.witness.evidence.phased is not None
            if self._kernel.random.random() < 0.15 and not phased:
                self._world.store.restore_older()
                if self._kernel.random.random() < 0.5:  # the server then gives orders before a keeper calls
                    for host in self._world.hosts:
                        self._cut(host)

    def _stall_server(self) -> None:
        if self._world.server.alive:
            self._kernel.fault("server stalled", self._world.server.name)
            self._world.server.loop.stalled_until = self._kernel.now + self._draw_stall()

    def _stall(self, host: Host) -> None:
        if host.keeper is not None:
            self._kernel.fault("keeper stalled", host.name)
            host.keeper.stalled_until = self._kernel.now + self._draw_stall()

    def _draw_stall(self) -> float:
        return self._kernel.random.choice([0.5, 3.0, 12.0, 40.0])

    def _hurry(self, host: Host) -> None:
        if not host.busy:
            self._kernel.fault("busy host", host.name)
            host.busy = True
            self._kernel.at(self._kernel.random.choice([5.0, 20.0]), _relax, self._kernel, host)

    def _cut(self, host: Host) -> None:
        if not host.cut:
            chance = self._kernel.random
            length = chance.choice([1.0, 5.0, 20.0, 60.0, 120.0] if self._world.far else [1.0, 5.0, 20.0])
            host.cut_off(length)
            if self._world.far:  # a fault that the server cannot see
                acts = [_rest, _rest, host.lose_power, lambda: self._jump(host), lambda: self._crash(host)]
                self._kernel.at(chance.uniform(0.0, length), chance.choice(acts))
                if self._world.lease_s is not None and chance.random() < 0.4:
                    self._kernel.at(chance.uniform(0.0, self._world.lease_s), self._set_back, host)

    def _jump(self, host: Host) -> None:
        clock = self._kernel.random.choice([host.clock, self._world.clock])
        jump = self._kernel.random.choice(JUMPS_S)
        self._kernel.fault("clock jump", host.name if clock is host.clock else "server", "%g s", jump)
        clock.jump += jump

    def _set_back(self, host: Host) -> None:
        self._kernel.fault("clock jump", host.name, "back")
        host.clock.jump -= 3600.0

    def _fill(self, host: Host) -> None:
        if not host.full:
            self._kernel.fault("disk full", host.name)
            host.full = True
            self._kernel.at(self._kernel.random.choice([0.5, 2.0, 8.0]), _free, self._kernel, host)

    def _kill_shim(self, host: Host) -> None:
        shims = [shim for shim in host.shims if shim.alive]
        if shims:
            self._kernel.random.choice(shims).lose_shim()

    def _spoil_claim(self, host: Host) -> None:
        shims = [shim for shim in host.shims if shim.main]
        if shims:
            self._kernel.random.choice(shims).spoil_claim()

    def _shorten(self, host: Host) -> None:
        """Kill the keeper and cut the end of its journal, although it was flushed.

        This must not happen after claims were damaged: then nothing would know those attempts.
        """
        if any(self._world.witness.evidence.attempts[shim.job].spoiled for shim in host.shims):
            return
        self._crash(host)
        host.journal.shorten(self._kernel)

    def _kill_child(self) -> None:
        children = list(self._world.server.children.values())
        if children and self._world.server.alive:
            self._world.server.loop.call_soon(self._kernel.random.choice(children).kill)


def _rest() -> None:
    """Do nothing: no fault this time."""


def _relax(kernel: Kernel, host: Host) -> None:
    host.busy = False
    kernel.say(host.name, "is quick again")


def _free(kernel: Kernel, host: Host) -> None:
    host.full = False
    kernel.say(host.name, "has room again")
