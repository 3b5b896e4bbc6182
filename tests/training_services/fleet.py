"""Machines with keepers that run no processes: a test decides what they report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

from training_services.addresses import Reach
from training_services.base import ExperimentContext, JobEnded, JobLost, JobPlaced, TrialJobSpec
from training_services.keepers.host import JobFiles, KeeperHost
from training_services.keepers.hub import Answer, KeeperDesk, KeeperHub
from training_services.keepers.jobs import StartOrder
from training_services.machines.service import MachineService
from training_services.placement.ledger import Host, HostLedger
from training_services.placement.needs import Wants
from training_services.testing import CoreDouble
from training_services.tools import ServiceTools
from trial_keeper import wire

CAPACITY = {"cpus": 8.0, "memory": 16384, "disk": 100_000, "version": "1"}


class FakeMachine(KeeperHost):
    """Machine whose keeper calls only when a test makes it; ``speak`` is its first call."""

    def __init__(self, name: str, *, wants: Wants | None = None, **capacity: float) -> None:
        self.keeper_id = self.instance = name
        self.host = Host(id=name, name=name)
        self.wants = wants
        self.capacity: dict[str, Any] = {**CAPACITY, **capacity}
        self.manager: Mapping[str, Any] | None = None
        self.told = asyncio.Event()
        self.unreachable: str | None = None
        self.ended = 0  # number of calls of ``end``
        self.left_before_end = False
        self.without_keeper = False
        self.running: dict[str, int] = {}  # job -> number of frames sent
        self.left = False
        self.commands: list[tuple[str, str]] = []  # kind and job of each command that has arrived
        self.bodies: dict[tuple[str, str], Mapping[str, Any]] = {}  # content of the last command of each kind
        self.ordered: dict[str, TrialJobSpec] = {}  # jobs whose start was ordered, by any server
        self._hub: KeeperHub | None = None
        self._sync_no = 0
        self._acked = 0
        self.epoch = 0

    # ---- what the service asks for ------------------------------------------------------------------------

    async def read_manager(self) -> Mapping[str, Any] | None:
        return self.manager

    async def reach(self) -> Reach:
        if self.unreachable is not None:
            raise OSError(self.unreachable)
        return Reach(("http://server",))

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        self.manager = manager
        self.told.set()

    async def keep(self) -> None:
        await asyncio.Event().wait()

    def is_without_keeper(self) -> bool:
        return self.without_keeper

    async def end(self, *, told: bool) -> None:
        await self.reach()
        self.ended += 1
        self.left_before_end = self.left

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        self.ordered[job.id] = job
        return {"trial_id": job.trial_id, "directory": job.trial_id}

    async def read_log(
        self, job: JobFiles, name: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        raise FileNotFoundError(name)
        yield b""

    # ---- what its keeper does -----------------------------------------------------------------------------

    async def speak(self, hub: KeeperHub) -> None:
        """Make the keeper's first call, after its ``manager.json`` was written."""
        await self.told.wait()
        self._hub = hub
        self.epoch += 1
        held: dict[str, Any] = {
            job_id: {"from": frames, "events": [], "started": {"at": 1.0, "pid": 2}}
            for job_id, frames in self.running.items()
        }
        await self._sync(held, [], all=True, host=self.capacity)

    async def poll(self) -> None:
        """Make a call, and take the commands in its answer."""
        await self._sync({}, [])

    async def wait(self) -> None:
        """Make a waiting call, which is held until there is something to report."""
        await self._sync({}, [], wait=True)

    async def report(self, metrics: Mapping[str, list[bytes]]) -> None:
        attempts = {}
        for job_id, payloads in metrics.items():
            attempts[job_id] = {"from": self.running[job_id], "events": [len(each) for each in payloads]}
            self.running[job_id] += len(payloads)
        await self._sync(attempts, [each for payloads in metrics.values() for each in payloads])

    async def finish(self, job_id: str, *, code: int = 0, **more: Any) -> None:
        """Let a job end. ``more``: further fields of the report about its end."""
        frames = self.running.pop(job_id)
        await self._end(job_id, frames, reason="exited", code=code, **more)

    async def refused(self) -> str | None:
        """Return the reason for which the hub refuses the keeper's calls, or None."""
        found = self._find()
        return found.body.get("reason") if isinstance(found, Answer) else None

    def is_dismissed(self) -> bool:
        """Return True if the answer to the keeper's next call would tell it to leave."""
        found = self._find()
        return isinstance(found, KeeperDesk) and found.link.leaving

    def _find(self) -> KeeperDesk | Answer:
        assert self._hub is not None and self.manager is not None
        return self._hub.find("contract", self.keeper_id, token=self.manager["token"])

    async def _end(self, job_id: str, frames: int, *, reason: str, code: int | None, **more: Any) -> None:
        final = {
            "reason": reason,
            "code": code,
            "signal": None,
            "n": frames,
            "at": 2.0,
            "message": None,
        } | more
        started = {"at": 1.0, "pid": 2}
        attempt = {"from": frames, "events": [], "started": started, "final": final}
        await self._sync({job_id: attempt}, [])

    async def _sync(self, attempts: dict[str, Any], payloads: list[bytes], **more: Any) -> None:
        assert self._hub is not None and self.manager is not None
        self._sync_no += 1
        header = {
            "instance": self.instance, "k_epoch": self.epoch, "sync_no": self._sync_no, "boot_id": "b",
            "db_id_seen": self.manager["db_id"], "m_epoch_seen": 0, "acked_cmd": self._acked,
            "seen_cmd": self._acked, "wait": False, "status": None, "attempts": attempts, **more,
        }  # fmt: skip
        experiment = self.manager["urls"][0].split("/")[-3]
        desk = self._hub.find(experiment, self.keeper_id, token=self.manager["token"])
        assert isinstance(desk, KeeperDesk), desk
        called = desk.receive(wire.encode_request(header, payloads), token=self.manager["token"])
        answer = called if isinstance(called, Answer) else await called.answer
        assert answer.status == 200, answer
        for seq, kind, job_id, body in answer.body["cmds"]:
            self.commands.append((kind, job_id))
            self.bodies[kind, job_id] = body
            self._acked = max(self._acked, seq)
            if kind == "start":
                self.running[job_id] = 0
            elif kind == "stop" and job_id in self.running:
                await self._end(job_id, self.running.pop(job_id), reason="stopped", code=None)
        for number, *_ in answer.body["reads"]:  # jobs of this keeper have no files
            if (stream := desk.take_read(number)) is not None:
                stream.open()
                stream.finish(FileNotFoundError("no such file"))
        self.left = self.left or answer.body["leave"]


class Fleet:
    """One experiment on fake machines."""

    def __init__(
        self, directory: Path, *machines: FakeMachine, experiment_id: str = "contract", **context: Any
    ) -> None:
        self.hub = KeeperHub()
        self.tools = ServiceTools(hub=self.hub, ledger=HostLedger())
        self.machines = {machine.keeper_id: machine for machine in machines}
        fields: dict[str, Any] = {"trial_gpu_number": None, "environ": {}, **context}
        self.context = ExperimentContext(
            experiment_id=experiment_id,
            directory=directory,
            trial_command="true",
            trial_code_directory=directory,
            python="python",
            **fields,
        )
        self.core = CoreDouble(experiment_id)

    def make(self) -> MachineService:
        return MachineService(self.context, self.tools, list(self.machines.values()))

    async def open(self, *names: str) -> None:
        """Open the service, and make the first calls of the keepers with these names; by default of all."""
        await self.core.open(self.make())
        for name in names or self.machines:
            await self.machines[name].speak(self.hub)

    def jobs(self, name: str) -> list[str]:
        """Return the trials that, by the committed facts, are placed on a machine and have not ended."""
        facts = self.core.facts
        over = {fact.job_id for fact in facts if isinstance(fact, JobEnded | JobLost)}
        return [
            fact.job_id.split("-")[1]
            for fact in facts
            if isinstance(fact, JobPlaced) and fact.place.keeper_id == name and fact.job_id not in over
        ]


def named(number: int, make: Callable[[str], FakeMachine] = FakeMachine) -> list[FakeMachine]:
    return [make(f"worker-{each}") for each in range(1, number + 1)]
