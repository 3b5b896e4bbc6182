"""Shows or deletes stopped experiments, which have no runner."""

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
from nnimgr.rules.facts import ExperimentStatus as E
from nnimgr.store.errors import empty_database
from nnimgr.store.location import database_path, has_database
from nnimgr.store.overview import stored_experiment
from training_services.keepers.names import LOCAL

__all__ = ["AtRest"]


class AtRest:
    """Stopped experiments that the server at ``port`` shows read-only or is deleting.

    ``viewed``: ids of the shown experiments. ``deleting``: ids of the experiments that are being deleted.
    """

    def __init__(self, *, home: Home, index: Index, port: int) -> None:
        self.viewed: set[str] = set()
        self.deleting: set[str] = set()
        self._home, self._index, self._port = home, index, port

    def refuse_deleted(self, experiment_id: str | None) -> None:
        """Raise RequestRefused for an experiment that is being deleted."""
        if experiment_id in self.deleting:
            raise RequestRefused(f"experiment {experiment_id} is being deleted")

    async def take(self, experiment_id: str, *, held: str | None, wish: str) -> IndexEntry:
        """Return the index entry of a stopped experiment that no server shows.

        ``held``: the experiment's status if this server has it open, else None. ``wish``: "viewed" or
        "deleted", for messages. Raise UnknownExperiment or RequestRefused; StoreError if its database cannot
        be viewed.
        """
        self.refuse_deleted(experiment_id)
        entry = await asyncio.to_thread(self._index.get, experiment_id)
        if entry is None:
            raise UnknownExperiment(experiment_id)
        if wish == "viewed":
            require_database(entry.directory)
            if await asyncio.to_thread(stored_experiment, entry.directory) is None:
                raise empty_database(database_path(entry.directory))
        status = entry.status if held is None else held
        if status == E.VIEWED and experiment_id not in self.viewed:
            shown = entry.port is not None and self._home.server_running(entry.port) is not None
            status = status if shown else E.STOPPED  # the server that showed the experiment was killed
        if wish == "deleted" and not has_database(entry.directory):
            return entry  # nothing is left that could run
        if status != E.STOPPED:
            is_so = f"is {status}" if status else "cannot be opened"
            raise RequestRefused(
                f"experiment {experiment_id} {is_so}: only a stopped experiment can be {wish}"
            )
        return entry

    async def show(self, entry: IndexEntry) -> IndexEntry:
        """Mark a stopped experiment as viewed in the index file; return the changed index entry."""
        shown = replace(entry, status=E.VIEWED.value, port=self._port, pid=os.getpid())
        await asyncio.to_thread(
            self._index.update, entry.id, status=shown.status, port=shown.port, pid=shown.pid
        )
        self.viewed.add(entry.id)
        return shown

    async def hide(self, entry: IndexEntry) -> IndexEntry:
        """Mark a viewed experiment as stopped in the index file; return the changed index entry."""
        await asyncio.to_thread(self._index.update, entry.id, status=E.STOPPED.value)
        self.viewed.discard(entry.id)
        return replace(entry, status=E.STOPPED.value)

    async def delete(self, entry: IndexEntry, remains: Remains, *, leave: bool) -> list[str]:
        """Delete the experiment with all its files; return sentences about files that remain.

        Without ``leave``, raise RequestRefused if files on machines cannot be removed. Also raise OSError or
        HomeError. In all cases, remove the experiment's id from ``deleting``.
        """
        try:
            await asyncio.to_thread(refuse_live, entry)
            left = [] if entry.platform == LOCAL else await remains.remove(entry.directory, leave=leave)
            if left and not leave:
                raise RequestRefused(
                    f"experiment {entry.id} is not deleted: {'; '.join(left)}; to delete it and leave these "
                    f'files: "nnictl experiment delete {entry.id} --leave-unreachable"'
                )
            return left + await asyncio.to_thread(delete_experiment, self._index, entry)
        finally:
            self.deleting.discard(entry.id)
