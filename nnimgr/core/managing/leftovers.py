"""What experiments have left on their machines, while no service of theirs is open: read, or removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from nnimgr.core.managing.assembly import Assembly
from nnimgr.rules.state import ExperimentState
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import database_path
from training_services.base import ServiceError, ServiceUnavailable, TrainingService
from training_services.keeper_host import KeeperFiles, KeeperHost
from training_services.local import KEEPER_ID as LOCAL
from training_services.logs import FolderFiles
from training_services.machine_service import MachineService

__all__ = ["Remains"]


class Remains:
    """The machines of experiments at rest, reached as their stored configurations say."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    @asynccontextmanager
    async def files(self, directory: Path, keeper_id: str | None) -> AsyncGenerator[KeeperFiles, None]:
        """The files on the machine of a keeper, of the experiment with this folder.

        Raises ServiceUnavailable, which reading them may, too.
        """
        if keeper_id in (None, LOCAL):
            yield FolderFiles(directory)
            return
        state = await asyncio.to_thread(_stored, directory)
        service = self._assembly.service(state, directory)
        if service.capabilities.keeps_files:
            yield FolderFiles(directory)
            return
        hosts = {host.keeper_id: host for host in _hosts(service, state)}
        host = hosts.get(keeper_id)
        if host is None:
            raise ServiceUnavailable(
                f"the machine of keeper {keeper_id} cannot be reached: it is not in the configuration"
            )
        try:
            yield host.files()
        finally:
            await host.close()

    async def remove(self, directory: Path, *, leave: bool) -> list[str]:
        """Remove what the experiment of this folder has on other machines; what stays there, in sentences.

        Without ``leave`` nothing is removed if anything would have to stay.
        """
        if not database_path(directory).exists():
            return []
        state = await asyncio.to_thread(_stored, directory)
        try:
            service = self._assembly.service(state, directory)
            hosts = _hosts(service, state)
        except (ServiceUnavailable, ValueError, OSError) as error:
            return [f"its machines cannot be reached: {error}"]
        try:
            if not leave and (left := await _remove(service, hosts, only_look=True)):
                return left
            return await _remove(service, hosts)
        finally:
            await asyncio.gather(*(host.close() for host in hosts))


def _hosts(service: TrainingService, state: ExperimentState) -> Sequence[KeeperHost]:
    """The machines of an experiment that has no service open. Raises ServiceUnavailable."""
    if not isinstance(service, MachineService):
        return ()
    return service.hosts([machine.added for machine in state.machines.values() if machine.added])


async def _remove(
    service: TrainingService, hosts: Sequence[KeeperHost], *, only_look: bool = False
) -> list[str]:
    removed = (host.remove(only_look=only_look) for host in hosts)
    outcomes = await asyncio.gather(*removed, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ServiceError):
            raise outcome
    stays = [str(outcome) for outcome in outcomes if outcome is not None]
    return [*stays, *await service.remove(only_look=only_look)]


def _stored(directory: Path) -> ExperimentState:
    with closing(ExperimentReader(directory)) as reader:
        return reader.state()
