"""The product's ``MachineService`` on simulated machines."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tests.simulation.host import Host
from tests.simulation.keeper import GPUS
from training_services.addresses import Reach
from training_services.base import ExperimentContext, KnownKeepers, TrialJobSpec
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers.host import JobFiles, KeeperHost, start_order
from training_services.keepers.jobs import StartOrder
from training_services.machines.service import MachineService
from training_services.placement import ledger as placement
from training_services.placement.preemption import Preemptible
from training_services.tools import ServiceTools

UNREACHABLE_S = 1.0


class SimKeeperHost(KeeperHost):
    """Simulated machine as a server reaches it, similar to SSH."""

    def __init__(self, host: Host, context: ExperimentContext, tools: ServiceTools) -> None:
        self._context, self._tools = context, tools
        self.keeper_id = host.name
        self.host = placement.Host(id=host.name, name=host.name)
        self._machine = host

    async def reach(self) -> Reach:
        if self._machine.cut or not self._machine.up:
            await asyncio.sleep(UNREACHABLE_S)
            raise OSError("no route to host")
        return Reach(["http://server"])

    async def read_manager(self) -> Mapping[str, Any] | None:
        return self._machine.written

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        await self.reach()
        machine = self._machine
        machine.written = manager
        machine.manager = {"path": urlsplit(manager["urls"][0]).path, "token": manager["token"]}
        if machine.keeper is not None:
            machine.keeper.tell(machine.keeper.core.manager_changed)

    async def keep(self) -> None:
        await self.reach()
        machine = self._machine
        if machine.keeper is None:
            await asyncio.sleep(machine.kernel.random.choice([0.05, 0.5, 3.0]))
            machine.launch()
        if machine.keeper is not None:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            machine.on_keeper_end(lambda: None if ended.done() else ended.set_result(None))
            await ended

    async def end(self, *, told: bool) -> None:
        await self.reach()
        machine = self._machine
        if machine.keeper is None:
            return
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        machine.on_keeper_end(lambda: None if ended.done() else ended.set_result(None))
        await asyncio.wait({ended}, timeout=5.0 if told else 0.0)
        if machine.keeper is not None:
            machine.kernel.say(machine.name, "the service ends the keeper")
            machine.keeper.exit()

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        given = {} if job.seed is None else {"NNI_TRIAL_SEED": str(job.seed)}
        if job.resources:
            given["RESOURCES"] = json.dumps(job.resources)
        return {**start_order(self._context, job, gpus, platform="local"), "environment": given}

    async def read_log(
        self, job: JobFiles, name: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        raise FileNotFoundError(name)
        yield b""


class SimService(MachineService):
    """Platform with simulated machines."""

    def __init__(
        self,
        context: ExperimentContext,
        tools: ServiceTools,
        hosts: Sequence[Host],
        store: CheckpointStore,
    ) -> None:
        self._store = store
        self._kernel = hosts[0].kernel
        self.stopped: set[str] = set()  # jobs of the tenant that are to leave
        super().__init__(context, tools, [SimKeeperHost(host, context, tools) for host in hosts])

    async def open(self, known: KnownKeepers) -> None:
        await super().open(known)
        gang = self.context.gang
        if gang is not None and gang.least < gang.nodes:
            self._allow_stops()

    def preempt(self, chance: random.Random) -> str | None:
        """Have one of the running jobs stopped for another experiment, as the ledger does. Return the job."""
        jobs = [job_id for seat in self._seats.values() for job_id in sorted(seat.jobs)]
        jobs = [job_id for job_id in jobs if self._can_stop(job_id)]
        job_id = chance.choice(jobs) if jobs else None
        if job_id is not None:
            self._want_preemption(job_id, "rival")
        return job_id

    def occupy(self, chance: random.Random, job_id: str) -> str | None:
        """Let a job of another experiment hold all GPUs of an idle machine. Return the machine."""
        hosts = [seat.host for seat in self._seats.values() if not self._ledger.use(seat.host.id).held]
        host = chance.choice(hosts) if hosts else None
        if host is None:
            return None
        need = placement.Need(experiment_id="tenant", job_id=job_id, gpus=GPUS)
        self._ledger.hold(need, host, tuple(range(GPUS)))
        return host.id

    def any_host(self, chance: random.Random) -> placement.Host | None:
        hosts = [seat.host for seat in self._seats.values()]
        return chance.choice(hosts) if hosts else None

    def request(self, host: placement.Host, job_id: str) -> bool:
        """Ask for a whole machine for a job of another experiment. Have room made if it has to wait."""
        need = placement.Need(experiment_id="guest", job_id=job_id, gpus=GPUS, line=job_id)
        found = self._ledger.place(need, host)
        if isinstance(found, placement.Waits):
            self._ledger.preemption.make_room("guest", job_id, found, jobs=1)
            return False
        self._ledger.pass_on("guest", None, line=job_id)
        return True

    def give_up_request(self, job_id: str) -> None:
        """Wait no longer for a machine."""
        self._ledger.pass_on("guest", None, line=job_id)
        self._ledger.forget("guest", job_id)

    def _allow_stops(self) -> None:
        """Let jobs of the tenant be stopped for gangs that wait, which have a higher priority."""
        self._ledger.prioritise("tenant", -1)
        self._ledger.preempt("tenant", Preemptible(lambda job_id: True, self._stop_tenant))

    def _stop_tenant(self, job_id: str, by: str) -> None:
        self.stopped.add(job_id)
        if by == self.context.experiment_id:
            asyncio.get_running_loop().call_soon(self._check_room)

    def _check_room(self) -> None:
        """Check that a gang has room when all have left that were stopped for it or otherwise."""
        if not list(self._queue):
            return
        wanted = self.context.trial_gpu_number or 0
        hosts = [seat.host.id for seat in self._seats.values()]
        leaving = {each.job_id for host_id in hosts for each in self._ledger.preemption.leaving(host_id)}
        held = [self._ledger.use(host_id).held for host_id in hosts]
        free = [
            GPUS - sum(len(each.gpus) for job_id, each in jobs.items() if job_id not in leaving)
            for jobs in held
        ]
        gang = self.context.gang
        if gang is not None and sum(each >= wanted for each in free) < gang.least:
            self._kernel.fail(f"jobs are stopped for a gang that has no room then: {held}, {leaving}")

    def vacate(self, host_id: str, job_id: str) -> None:
        """End such a job."""
        self._ledger.release(host_id, job_id)

    def _make_store(self) -> CheckpointStore:
        return self._store
