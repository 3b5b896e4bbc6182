"""Machines over SSH as a platform: each experiment has one keeper on each of its machines.

All experiments that use a machine share one SSH connection to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from training_services.addresses import Reach
from training_services.base import ExperimentContext, ServiceUnavailable, TrialJobSpec
from training_services.code import PackedCode
from training_services.keepers.host import (
    KeeperFiles,
    KeeperHost,
    read_manager_file,
    start_order,
    write_manager_file,
)
from training_services.keepers.jobs import StartOrder
from training_services.keepers.names import experiment_folder
from training_services.machines.service import MachineService
from training_services.placement.ledger import Host
from training_services.placement.needs import Wants
from training_services.ssh.attendant import AttendantClient
from training_services.ssh.config import MachineConfig, RemoteConfig
from training_services.ssh.connection import Link, Share
from training_services.ssh.files import MachineFiles
from training_services.ssh.target import Target
from training_services.tools import ServiceTools

__all__ = [
    "MachineConfig",
    "RemoteConfig",
    "RemoteKeeper",
    "RemoteService",
]

logger = logging.getLogger(__name__)

REACH_S = 10.0  # limit in seconds for connecting to a machine whose keeper must exit
END_S = 30.0
REMOVE_S = 600.0


class RemoteKeeper(KeeperHost):
    """Keeper of one experiment on one machine over SSH.

    On the machine, all files of the experiment are in
    ``~/nni-experiments/<experiment>/environments/<keeper_id>``. On the server, the files about this keeper
    are in ``<experiment's directory>/keepers/<keeper_id>``.
    """

    def __init__(
        self,
        context: ExperimentContext,
        config: RemoteConfig,
        machine: MachineConfig,
        *,
        code: PackedCode,
        tools: ServiceTools,
    ) -> None:
        self.keeper_id = machine.keeper_id
        self.host = Host(
            id=machine.address,
            name=machine.title,
            gpu_indices=None if machine.gpu_indices is None else tuple(machine.gpu_indices),
            use_active_gpu=machine.use_active_gpu,
            max_jobs_per_gpu=machine.max_trial_number_per_gpu,
        )
        self.wants = Wants.of(context)
        self._gang_address = machine.gang_address or machine.host
        self.keeps_files = not config.clean_up
        self._context = context
        self._config = config
        self._code = code
        self._target = Target.of(machine, config, environ=context.environ)
        self._tools = tools
        self._share: Share | None = None
        self._notes = context.directory / "keepers" / self.keeper_id
        self._directory = experiment_folder(context.experiment_id, self.keeper_id)

    @property
    def gang_address(self) -> str:
        return self._gang_address

    async def open(self) -> None:
        await self._code.pack()

    async def read_manager(self) -> Mapping[str, Any] | None:
        return read_manager_file(self._notes)

    async def reach(self) -> Reach:
        link = await self._link()
        if self._context.nni_manager_ip is not None:
            return await self._tools.doors.network(self._context.nni_manager_ip)
        return await link.tunnel(self._tools.doors)

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        write_manager_file(self._notes, manager)
        await (await self._attendant()).ask("write", directory=self._directory, manager=manager)

    async def keep(self) -> None:
        attendant = await self._attendant()
        orphaned = self._config.orphaned
        environ = {} if orphaned is None else {"NNIMGR_KEEPER_ORPHAN_S": str(orphaned.total_seconds())}
        answer = await attendant.ask(
            "keep", limit=None, directory=self._directory, path=self._target.python_path, environ=environ
        )
        code = answer.get("code") or 0
        if code > 0:
            said = answer.get("said")
            end = "it has left no log" if said is None else f"the end of its log: {said}"
            raise ServiceUnavailable(f"the keeper has ended with code {code}; {end}")

    async def end(self, *, told: bool) -> None:
        for last in (False, True):
            try:
                attendant = await self._soon()
            except ServiceUnavailable as error:
                if not await self._was_reached():
                    return
                raise ServiceUnavailable(
                    f"{error}. If trials ran there, their keeper exits when they have ended. Then delete "
                    f"~/{self._directory} on that machine"
                ) from error
            try:
                await attendant.ask("end", limit=END_S, directory=self._directory, told=told)
                break
            except ServiceUnavailable:
                if last or not attendant.lost:
                    raise
                # the connection broke meanwhile: ask again over a new one, or the keeper stays for minutes
        if self._config.clean_up:
            await attendant.ask("remove", limit=REMOVE_S, directory=self._directory)

    async def revive(self) -> None:
        attendant = await self._soon()
        await attendant.ask("end", limit=END_S, directory=self._directory, told=False)

    async def close(self) -> None:
        share, self._share = self._share, None
        if share is not None:
            await share.close()

    def obstacle(self) -> str | None:
        if self._context.nni_manager_ip is not None:
            return None  # the keeper needs no connection: it calls by itself, or has not called yet
        return f"waits for a connection to {self.host.name}" if self._share is None else self._share.obstacle

    def files(self) -> KeeperFiles:
        return MachineFiles(self._ask_at_rest, self._directory, machine=self.host.name)

    async def remove(self, *, only_look: bool = False) -> None:
        if not await self._was_reached():
            return
        await self._ask_at_rest("remove", limit=REMOVE_S, directory=self._directory, only_look=only_look)

    async def _was_reached(self) -> bool:
        """Return False if the machine was never reached, so that the experiment has no files there."""
        return await asyncio.to_thread(self._notes.exists)  # it is written before anything on the machine

    async def _ask_at_rest(self, what: str, **fields: Any) -> Mapping[str, Any]:
        """Send a request to the attendant on the machine while no keeper runs, and return the answer.

        If the machine cannot be reached, the error names the experiment's folder on that machine.
        """
        try:
            attendant = await self._soon()
        except ServiceUnavailable as error:
            raise ServiceUnavailable(
                f"~/{self._directory} on {self.host.name} cannot be reached: {error}"
            ) from error
        return await attendant.ask(what, **fields)

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        folder = self._context.shared_folder
        return start_order(
            self._context,
            job,
            gpus,
            platform="remote",
            code=self._code.archive,
            storage=None if folder is None else folder.remote,
        )

    def _shared(self) -> Share:
        if self._share is None:
            self._share = self._tools.machines.share(self._target, lambda: self.changed())
        return self._share

    async def _link(self) -> Link:
        return await self._shared().link()

    async def _soon(self) -> AttendantClient:
        """Return the client of the machine's attendant.

        Connect at once if necessary, without the pause that otherwise follows a failed connection.
        """
        share = self._shared()
        try:
            async with asyncio.timeout(REACH_S):
                share.hurry()
                return await self._attendant()
        except TimeoutError:
            raise ServiceUnavailable(share.obstacle or f"{self.host.name} is slow to answer") from None

    async def _attendant(self) -> AttendantClient:
        return (await self._link()).attendant


class RemoteService(MachineService):
    """Training service that runs trials on the machines of ``machineList``."""

    def __init__(self, context: ExperimentContext, config: RemoteConfig, tools: ServiceTools) -> None:
        super().__init__(context, tools, RemoteHosts(context, config, tools).all())


class RemoteHosts:
    """Hosts of the platform ``remote``: the machines of ``machineList``, and machines that are added
    later.
    """

    def __init__(self, context: ExperimentContext, config: RemoteConfig, tools: ServiceTools) -> None:
        self._context, self._config, self._tools = context, config, tools
        self._code = PackedCode(context)

    def all(self) -> list[KeeperHost]:
        return [self.host(machine) for machine in self._config.machine_list]

    def host(self, machine: MachineConfig) -> KeeperHost:
        return RemoteKeeper(self._context, self._config, machine, code=self._code, tools=self._tools)
