"""Reads or removes the files that stopped experiments have left on machines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.running.requests import read_config
from nnimgr.rules.state import ExperimentState
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from training_services.base import ServiceError, ServiceUnavailable, TrainingService
from training_services.hybrid.service import HybridService
from training_services.keepers.host import KeeperFiles, KeeperHost
from training_services.keepers.names import LOCAL, host_of, why_no_files
from training_services.logs import FolderFiles
from training_services.machines.service import MachineService

__all__ = ["Remains"]


class Remains:
    """Access to the files of stopped experiments on machines. The experiments' stored configurations name
    the machines.
    """

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    @asynccontextmanager
    async def files(self, directory: Path, keeper_id: str | None) -> AsyncGenerator[KeeperFiles, None]:
        """Yield the files of an experiment on the machine of one of its keepers (the agents beside the
        trials).

        ``directory``: the experiment's folder. Opening and reading the files may raise ServiceUnavailable,
        or FileNotFoundError, also for trials that no keeper has run.
        """
        if keeper_id is not None and why_no_files(keeper_id) is not None:
            raise FileNotFoundError(keeper_id)
        if keeper_id is None or keeper_id == LOCAL:
            yield FolderFiles(directory)
            return
        state = await asyncio.to_thread(_stored, directory)
        service = self._assembly.service(state, directory, read_config(state))
        hosts = {host.keeper_id: host for host in _hosts(service, state)}
        host = hosts.get(keeper_id)
        if host is None and service.capabilities.keeps_files:
            yield FolderFiles(directory)
            return
        if host is None:
            raise ServiceUnavailable(
                f"the files on {host_of(keeper_id) or keeper_id} cannot be read: this machine is not in the "
                "experiment's configuration any more"
            )
        try:
            yield host.files()
        finally:
            await host.close()

    async def remove(self, directory: Path, *, leave: bool) -> list[str]:
        """Remove all files of the experiment from other machines.

        Return a sentence for each machine whose files cannot be removed. Unless ``leave`` is set, remove
        either all files or no files.
        """
        if not database_path(directory).exists():
            return []
        state = await asyncio.to_thread(_stored, directory)
        try:
            service = self._assembly.service(state, directory, read_config(state))
            hosts = _hosts(service, state)
        except (ServiceUnavailable, ValueError, OSError) as error:
            return [f"the machines of the experiment cannot be reached: {error}"]
        try:
            if not leave and (left := await _remove(service, hosts, only_look=True)):
                return left
            return await _remove(service, hosts)
        finally:
            await asyncio.gather(*(host.close() for host in hosts))


def _hosts(service: TrainingService, state: ExperimentState) -> Sequence[KeeperHost]:
    """Return the machines of an experiment that is stopped, so that its training service is not open.

    Raise ServiceUnavailable if the service cannot tell its machines.
    """
    if not isinstance(service, MachineService | HybridService):
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
