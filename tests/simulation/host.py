"""Simulated machine: its boots, its disk, its processes, and at most one keeper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.disk import Files, Saved
from tests.simulation.journal import Journal
from tests.simulation.keeper import SimKeeper
from tests.simulation.kernel import Clock, Kernel
from tests.simulation.network import Network
from tests.simulation.shim import Shim
from tests.simulation.witness import Witness
from trial_keeper.attempt.ending import Ending
from trial_keeper.core import effects as fx
from trial_keeper.core import recovery


class Host:
    """Simulated machine.

    ``cut``: no network reaches it; ``full``: only metrics can be written; ``busy``: forks are slow.
    """

    def __init__(self, kernel: Kernel, name: str, network: Network, witness: Witness) -> None:
        self.kernel, self.name, self.network, self.witness = kernel, name, network, witness
        self.clock = Clock(kernel)
        self.up = True
        self.ends = False  # True: the machine was told to end
        self.ending: Ending | None = None  # the same, as its keepers know it
        self.cut = self.full = self.busy = False
        self.keeper: SimKeeper | None = None
        self.journal = Journal()
        self.manager: Mapping[str, Any] | None = None
        self.written: Mapping[str, Any] | None = None  # the server's copy of it, beside the database
        self.instance: str | None = None
        self.shims: list[Shim] = []
        self.fetched: dict[str, Saved] = {}  # checkpoints from the server, by the digests of their copies
        self.leases: dict[int, float] = {}  # lease number -> its end; the leases of one file
        self._lease_number = 0
        self._boots, self._instances, self._forks = 1, 0, 0
        self._files: dict[str, Files] = {}
        self._waiters: list[Callable[[], None]] = []

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self._boots}"

    # ---- disk and processes -------------------------------------------------------------------------------

    def files(self, directory: str) -> Files:
        return self._files.setdefault(directory, Files())

    def knows_claim(self, job: str) -> bool:
        """Return True if the running keeper has seen who claimed the attempt."""
        found = None if self.keeper is None else self.keeper.core.attempts.get(job)
        return found is not None and found.claimed

    def take_claim(self, files: Files, line: bytes) -> bool:
        return files.take(line)

    def boottime(self) -> float:
        """Return the seconds since the boot, by the clock that leases use."""
        return self.clock.monotonic()

    def find_lease(self) -> tuple[int, float]:
        return self._lease_number, self.leases.get(self._lease_number, 0.0)

    def write_lease(self, order: fx.Extend) -> None:
        self._lease_number, self.leases = order.number, {order.number: order.until}

    def new_pid(self) -> tuple[int, str]:
        """Return the lowest free pid, so that pids are reused quickly, and its start time."""
        self._forks += 1
        taken = {shim.pid for shim in self.shims if shim.alive}
        pid = next(number for number in range(100, 1000) if number not in taken)
        return pid, str(self._forks)

    def find(self, pid: int, start_time: str) -> Shim | None:
        """Return the running shim with this pid and start time, or None."""
        for shim in self.shims:
            if shim.alive and shim.pid == pid and shim.start_time == start_time:
                return shim
        return None

    def spawn(self, keeper: SimKeeper, order: fx.Spawn) -> None:
        self.shims.append(Shim(self, keeper, order))

    def looks_alive(self, job: str, pid: int, start_time: str) -> bool:
        """Return True if the process that the claim names runs."""
        return self.find(pid, start_time) is not None

    # ---- what the keeper is told --------------------------------------------------------------------------

    def wake(self, job: str, told: bytes) -> None:
        """Write the job and its claim to the wake-up pipe of the current keeper."""
        if (keeper := self.keeper) is not None:
            slow = self.kernel.likely(0.1)
            delay = self.kernel.random.uniform(0.1, 2.0) if slow else 0.001
            keeper.told[job] = told
            self.kernel.at(delay, keeper.woken, job)

    def shim_gone(self, shim: Shim) -> None:
        if self.keeper is not None:
            self.kernel.at(0.001, self.keeper.shim_gone, shim.job)

    def grown(self, job: str) -> None:
        if self.keeper is not None:
            self.keeper.grown(job)

    # ---- the keeper ---------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start a keeper, unless one runs and holds the lock."""
        if not self.up or self.keeper is not None:
            return
        if self.instance is not None and not recovery.is_whole(self.journal.load()):
            self.instance = None
            self.journal = Journal()
        if self.instance is None:
            for shim in self.shims:  # shims of an earlier directory
                if shim.stirs:
                    self.kernel.say(self.name, "evicts %s", shim.job)
                    shim.die()
            self._instances += 1
            self.instance = f"{self.name}-instance-{self._instances}"
        SimKeeper(self).begin()

    def keeper_ended(self) -> None:
        self.keeper = None
        waiters, self._waiters = self._waiters, []
        for ended in waiters:
            ended()

    def on_keeper_end(self, ended: Callable[[], None]) -> None:
        self._waiters.append(ended)

    # ---- faults -------------------------------------------------------------------------------------------

    def lose_power(self, *, wipe: bool = False) -> None:
        """Turn off and, after a while, on again with the disk's content of that moment."""
        if not self.up:
            return
        self.kernel.fault("power loss", self.name)
        self.up = False
        if self.keeper is not None:
            self.keeper.die()
        for shim in self.shims:
            shim.die()
        self.shims.clear()
        self._boots += 1
        self.leases.clear()  # leases name the previous boot
        self.fetched.clear()
        self.journal.lose_power(self.kernel)
        for files in self._files.values():
            files.lose_power(self.kernel)
        self.witness.checkpoints.host(self)
        if wipe:
            self.wipe()
        self.kernel.at(self.kernel.random.uniform(1.0, 10.0), self.boot)

    def cut_off(self, seconds: float) -> None:
        """Block the network of the machine for this many seconds."""
        if not self.cut:
            self.kernel.fault("partition", self.name)
            self.cut = True
            self.kernel.at(seconds, self._heal)

    def _heal(self) -> None:
        self.cut = False
        self.kernel.say(self.name, "is reached again")

    def boot(self) -> None:
        if not self.up:
            self.kernel.say(self.name, "boots: %s", self.boot_id)
            self.up = True
            self.ends, self.ending = False, None

    def end(self) -> None:
        """Shut the machine down as a pod: its processes get a grace period, and then it disappears.

        Sometimes all processes get SIGTERM, as in a job of a batch system. The keeper is the last to notice.
        """
        if not self.up or self.ends:
            return
        self.ends = True
        self.kernel.fault("told to end", self.name)
        grace = self.kernel.random.choice([0.5, 5.0])
        whole = grace + self.kernel.random.uniform(0.0, 10.0)
        ending = Ending(grace, self.boottime() + whole * self.clock.rate)
        self.kernel.at(whole, self._vanish, self.boot_id)
        if self.kernel.likely(0.5):
            for shim in self.shims:
                if shim.main and not shim.conduct.stubborn:  # it ends before the shim gets the signal
                    self.witness.felled(shim.job)
                    shim.ends(None, 15)
                shim.terminate()
            self.kernel.at(self.kernel.random.uniform(0.0, 1.0), self._note_end, self.boot_id, ending)
        else:
            self._note_end(self.boot_id, ending)

    def _note_end(self, boot_id: str, ending: Ending) -> None:
        """Make the order to end known to the present keeper and to later ones."""
        if not self.up or self.boot_id != boot_id:
            return
        self.ending = ending
        if self.keeper is not None:
            self.keeper.tell(self.keeper.core.host_ends, ending)

    def _vanish(self, boot_id: str) -> None:
        if self.boot_id == boot_id:
            self.lose_power(wipe=True)

    def wipe(self) -> None:
        """Remove the directories of the keeper and of the attempts; processes continue."""
        self.kernel.fault("wipe", self.name)
        if self.keeper is not None:
            self.keeper.die()
        self.instance, self.manager = None, None
        self.journal = Journal()
        self._files = {}
        self.fetched = {}
        self._lease_number, self.leases = 0, {}
