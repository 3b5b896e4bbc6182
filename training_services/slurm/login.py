"""Place where Slurm's commands run, as all experiments of the server share it.

One squeue shows all allocations, at most every half minute, and rarely while nothing is pending or in doubt.
Allocations that end at the same time are ended by one scancel.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from typing import Protocol

from training_services.base import ServiceUnavailable
from training_services.slurm.commands import Commands, Outcome
from training_services.slurm.table import FORMAT, Table, parse

__all__ = ["Login", "Watcher"]

LOOK_S = 30.0  # least time between two squeues
REST_S = 300.0  # time between two squeues while no allocation is pending or in doubt
FIRST_LOOK_S = 1.5  # pause before the first squeue after a submission: Slurm has a reason by then
SUBMISSIONS = 4  # sbatch at the same time: if they hang, squeue and scancel must still find a free thread
CANCEL_PAUSE_S = 0.2  # time for which orders to end allocations are collected


class Watcher(Protocol):
    """Allocation that is looked for in the output of squeue. ``partition`` None: that of the cluster."""

    partition: str | None

    @property
    def pending(self) -> bool:
        """True if the allocation may wait in Slurm's queue."""

    @property
    def in_doubt(self) -> bool:
        """True if it is not known whether the allocation runs."""

    def seen(self) -> None:
        """Look at the new table, or at the reason why there is none."""


class Login:
    """Shared use of one place where Slurm's commands run. ``table``: the last output of squeue."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands
        self.table: Table | None = None
        self.trouble: str | None = None  # sentence that says why squeue shows nothing
        self._watchers: dict[Watcher, None] = {}
        # those who wait for a table, and since when it has to be shown (by the loop's clock)
        self._fresh: list[tuple[float, asyncio.Future[Table]]] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._began_at = self._looked_at = float("-inf")  # by the loop's clock
        self._unknown = False
        self._address: str | None = None
        self._finding = asyncio.Lock()  # held while the address is being found
        self._not_before = float("-inf")
        self._canceled: dict[str, None] = {}
        self._canceling: asyncio.Task[Outcome] | None = None
        self._submissions = asyncio.Semaphore(SUBMISSIONS)

    def add(self, watcher: Watcher, *, unknown: bool = False) -> None:
        """Show an allocation what squeue says of it.

        ``unknown``: run squeue soon, because it is not known when the allocation's time limit is over.
        """
        self._watchers[watcher] = None
        self._unknown |= unknown
        self._wake.set()
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._began_at = loop.time()
            self._task = loop.create_task(self._run(), name="squeue")

    def remove(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def hurry(self) -> None:
        """Consider again when to look, because an allocation has become pending, or is in doubt."""
        self._wake.set()

    def look_for_new(self) -> None:
        """Run squeue soon, because the node of an allocation is not known, whose keeper has called before."""
        self._unknown = True
        self._wake.set()

    async def own_address(self) -> str | None:
        """Return the address of this machine from which it reaches Slurm's controller; None if unknown.

        Raises ServiceUnavailable.
        """
        async with self._finding:  # several allocations begin at the same time
            if self._address is None:
                outcome = await self.commands.run("scontrol", "show", "config")
                found = re.search(
                    r"^SlurmctldHost\[0\]\s*=\s*([^\s(]+)(?:\(([^)]+)\))?", outcome.output, re.MULTILINE
                )
                if outcome.code or found is None:
                    raise ServiceUnavailable(f"Slurm's controller does not answer: {outcome.said}")
                self._address = await asyncio.to_thread(_address_towards, found[2] or found[1])
            return self._address

    async def fresh(self, since: float | None = None) -> Table:
        """Return a table that squeue has shown since this time of the loop's clock; None: from now on.

        Raises ServiceUnavailable.
        """
        loop = asyncio.get_running_loop()
        if since is not None and self.table is not None and self.table.at >= since:
            return self.table
        waiter: asyncio.Future[Table] = loop.create_future()
        self._fresh.append((loop.time() if since is None else since, waiter))
        self._wake.set()
        return await waiter

    async def submit(self, script: str) -> Outcome:
        """Run sbatch with this script. Raises ServiceUnavailable if it is not known what came of it."""
        async with self._submissions:
            outcome = await self.commands.run("sbatch", "--parsable", text=script)
        self._not_before = asyncio.get_running_loop().time() + FIRST_LOOK_S
        self.hurry()
        return outcome

    async def cancel(self, job_id: str) -> None:
        """End a job of Slurm, in one call with others that are to be ended. Raises ServiceUnavailable."""
        self._canceled[job_id] = None
        if self._canceling is None:
            self._canceling = asyncio.get_running_loop().create_task(self._cancel())
        outcome = await asyncio.shield(self._canceling)
        if outcome.code and "Invalid job id" not in outcome.errors and "already" not in outcome.errors:
            raise ServiceUnavailable(f"scancel failed: {outcome.said}")

    async def _cancel(self) -> Outcome:
        await asyncio.sleep(CANCEL_PAUSE_S)
        ids, self._canceled, self._canceling = list(self._canceled), {}, None
        return await self.commands.run("scancel", *ids)

    async def ended(self, job_id: str, name: str) -> str | None:
        """Return the final state of a job in Slurm's accounting; None if it has none, or does not know it."""
        words = (
            "--noheader",
            "--allocations",
            "--parsable2",
            f"--jobs={job_id}",
            "--format=JobName%100,State",
        )
        try:
            outcome = await self.commands.run("sacct", *words)
        except ServiceUnavailable:
            return None
        for line in outcome.output.splitlines() if outcome.code == 0 else ():
            found, _, state = line.partition("|")
            if found == name:
                return state
        return None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for _, waiter in self._fresh:
            waiter.cancel()
        await self.commands.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            due = self._due()
            if loop.time() < due:
                # A keeper may become silent meanwhile.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(due, loop.time() + LOOK_S)):
                        await self._wake.wait()
                continue
            await self._look()

    def _due(self) -> float:
        """Return when to run squeue, by the loop's clock."""
        if self._fresh or self._unknown or any(each.pending or each.in_doubt for each in self._watchers):
            return max(self._looked_at + LOOK_S, self._not_before)
        return max(self._looked_at, self._began_at) + REST_S

    async def _look(self) -> None:
        self._looked_at = asyncio.get_running_loop().time()
        self._unknown = False
        try:
            rows = [await self._shown(choice) for choice in self._choices()]
        except ServiceUnavailable as error:
            self.trouble = str(error)
            for waiter in self._answered():
                waiter.set_exception(ServiceUnavailable(str(error)))
        else:
            self.trouble = None
            self.table = parse("\n".join(rows), self._looked_at)
            for waiter in self._answered():
                waiter.set_result(self.table)
        for watcher in list(self._watchers):
            watcher.seen()

    def _answered(self) -> list[asyncio.Future[Table]]:
        """Return those who wait for the table that squeue has just shown. They wait no longer."""
        answered = [waiter for since, waiter in self._fresh if since <= self._looked_at and not waiter.done()]
        self._fresh = [each for each in self._fresh if each[0] > self._looked_at]
        return answered

    async def _shown(self, choice: str) -> str:
        """Return what squeue shows with this option. Raises ServiceUnavailable."""
        outcome = await self.commands.run(
            "squeue", "--noheader", "--states=all", f"--format={FORMAT}", choice
        )
        if outcome.code:
            raise ServiceUnavailable(f"squeue on {self.commands.title} failed: {outcome.said}")
        return outcome.output

    def _choices(self) -> list[str]:
        """Return the options of squeue that choose the jobs to show.

        These are the user's own jobs, because somebody may have moved one to another partition. While an
        allocation is pending, all jobs of its partition are shown, too, to know how many are before it.
        """
        partitions = {each.partition for each in self._watchers}
        if None in partitions or not any(each.pending for each in self._watchers):
            return ["--me"]
        return ["--me", f"--partition={','.join(sorted(filter(None, partitions)))}"]


def _address_towards(host: str) -> str | None:
    """Return the address of this machine from which it would send to the host. Nothing is sent."""
    try:
        found = socket.getaddrinfo(host, 6817, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(address)
            except OSError:
                continue
            ours = ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0])
        if not ours.is_unspecified:
            return str(ours)
    return None
