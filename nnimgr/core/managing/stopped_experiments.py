"""Stopped experiments, which no runner has: shown as they are, or deleted."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from nnimgr.core.managing.experiments import UnknownExperiment
from nnimgr.core.managing.folder import delete_experiment, refuse_live, require_database
from nnimgr.core.managing.leftovers import Remains
from nnimgr.core.running.requests import RequestRefused
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry
from nnimgr.rules.facts import ExperimentStatus
from training_services.local import KEEPER_ID as LOCAL

__all__ = ["AtRest"]


class AtRest:
    """Those that the server of ``port`` shows (``viewed``), and those that it has begun to delete."""

    def __init__(self, *, home: Home, index: Index, port: int) -> None:
        self.viewed: set[str] = set()
        self.deleting: set[str] = set()
        self._home, self._index, self._port = home, index, port

    def refuse_deleted(self, experiment_id: str | None) -> None:
        """Raise RequestRefused for an experiment that is about to be gone."""
        if experiment_id in self.deleting:
            raise RequestRefused(f"experiment {experiment_id} is being deleted")

    async def take(self, experiment_id: str, *, held: str | None, wish: str) -> IndexEntry:
        """The entry of an experiment that was stopped and that no server shows.

        ``held``: its status if this server has it open. Raises UnknownExperiment, RequestRefused.
        """
        self.refuse_deleted(experiment_id)
        entry = await asyncio.to_thread(self._index.get, experiment_id)
        if entry is None:
            raise UnknownExperiment(experiment_id)
        if wish == "viewed":
            require_database(entry.directory)
        status = entry.status if held is None else held
        if status == ExperimentStatus.VIEWED and experiment_id not in self.viewed:
            shown = entry.port is not None and self._home.server_running(entry.port) is not None
            status = status if shown else "STOPPED"  # its server was killed
        if status != ExperimentStatus.STOPPED:
            is_so = f"is {status}" if status else "cannot be opened"
            raise RequestRefused(
                f"experiment {experiment_id} {is_so}: only one that was stopped can be {wish}"
            )
        return entry

    async def show(self, entry: IndexEntry) -> IndexEntry:
        """The entry as it is from now on."""
        shown = replace(entry, status="VIEWED", port=self._port, pid=os.getpid())
        await asyncio.to_thread(
            self._index.update, entry.id, status=shown.status, port=shown.port, pid=shown.pid
        )
        self.viewed.add(entry.id)
        return shown

    async def hide(self, entry: IndexEntry) -> IndexEntry:
        """The entry as it is from now on."""
        await asyncio.to_thread(self._index.update, entry.id, status="STOPPED")
        self.viewed.discard(entry.id)
        return replace(entry, status="STOPPED")

    async def delete(self, entry: IndexEntry, remains: Remains, *, leave: bool) -> list[str]:
        """Remove all of it; then it is not among those that are being deleted any more.

        Returns what was left on machines, if that may be (``leave``). Raises RequestRefused, OSError,
        HomeError.
        """
        try:
            await asyncio.to_thread(refuse_live, entry)
            left = [] if entry.platform == LOCAL else await remains.remove(entry.directory, leave=leave)
            if left and not leave:
                raise RequestRefused(f"experiment {entry.id} is not deleted: {'; '.join(left)}")
            await asyncio.to_thread(delete_experiment, self._index, entry)
            return left
        finally:
            self.deleting.discard(entry.id)
