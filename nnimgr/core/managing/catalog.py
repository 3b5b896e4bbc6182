"""Experiments that a server knows: their entries in the index file, and readers of their databases."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnimgr.core.managing.experiments import UnknownExperiment
from nnimgr.home import HomeError
from nnimgr.index import Index, IndexEntry
from nnimgr.store.reader import ExperimentReader

__all__ = ["Catalog"]

logger = logging.getLogger(__name__)


class Catalog:
    """Cache of the index (the file that lists a user's experiments), and of readers of the experiments'
    databases.

    ``on_note`` is called with each entry that this server has written to the index.
    """

    def __init__(self, index: Index, *, on_note: Callable[[IndexEntry], None]) -> None:
        self._on_note = on_note
        self.entries: dict[str, IndexEntry] = {}
        self._index = index
        self._stamp: tuple[int, int] | None = None  # stamp of the index file at the last ``refresh``
        self._readers: dict[str, ExperimentReader] = {}
        self._reading = asyncio.Lock()  # held by reads, so that none brings back an entry removed meanwhile

    def __contains__(self, experiment_id: str) -> bool:
        return experiment_id in self.entries

    def __getitem__(self, experiment_id: str) -> IndexEntry:
        """Return the index entry of an experiment. Raise UnknownExperiment."""
        entry = self.entries.get(experiment_id)
        if entry is None:
            raise UnknownExperiment(experiment_id)
        return entry

    def note(self, entry: IndexEntry) -> None:
        """Add an entry that this server has written to the index to the cache, and call ``on_note``."""
        self.entries[entry.id] = entry
        self._on_note(entry)

    async def load(self) -> None:
        """Read all entries from the index file into the cache. Raise HomeError if the file cannot be read."""
        self.entries = await asyncio.to_thread(self._index.entries)

    async def load_more(
        self, named: str | None = None, let_go: Callable[[str], Awaitable[bool]] | None = None
    ) -> None:
        """Read the index file again, and add the experiments that are not in the cache yet.

        ``named``: experiment whose folder a user may have moved. If the file names another folder for it, and
        ``let_go`` closes what is open in the old one, its entry is replaced. Raise HomeError if the file
        cannot be read.
        """
        async with self._reading:
            found = await asyncio.to_thread(self._index.entries)
            if named in found and named in self.entries and let_go is not None:
                if found[named].directory != self.entries[named].directory and await let_go(named):
                    self.close_reader(named)
                    del self.entries[named]
            self.entries = found | self.entries

    async def refresh(self, *, port: int, has_open: Callable[[str], bool]) -> None:
        """Read the changes that other processes have made in the index file. Only log an error if it is
        unreadable.

        For an experiment that this server runs or shows (``has_open``), only the user's tags and archive mark
        are taken from the file.
        """
        async with self._reading:
            await self._refresh(port=port, has_open=has_open)

    async def _refresh(self, *, port: int, has_open: Callable[[str], bool]) -> None:
        stamp = await asyncio.to_thread(self._index.stamp)
        if stamp == self._stamp:
            return
        try:
            found = await asyncio.to_thread(self._index.entries)
        except HomeError as error:
            logger.error("changes of the list of experiments by other programs could not be read: %s", error)
            self._stamp = stamp  # report the error only once
            return
        for experiment_id, entry in self.entries.items():
            if has_open(experiment_id):
                noted = found.get(experiment_id, entry)
                found[experiment_id] = replace(entry, tag=noted.tag, archived=noted.archived)
            elif entry.port == port:  # the experiment may have been created here after the index was read
                found.setdefault(experiment_id, entry)
        outdated = [
            experiment_id
            for experiment_id, entry in self.entries.items()
            if experiment_id not in found or found[experiment_id].directory != entry.directory
        ]
        self.entries, self._stamp = found, stamp
        for experiment_id in outdated:
            self.close_reader(experiment_id)

    async def add(self, entry: IndexEntry) -> None:
        """Add an experiment's entry to the index file. Raise HomeError if the file cannot be written."""
        await asyncio.to_thread(self._index.put, entry)
        self.note(entry)

    async def withdraw(self, experiment_id: str) -> None:
        """Remove the index entry of an experiment that could not be created."""
        if experiment_id in self.entries:
            await self._undo(lambda: self._index.remove(experiment_id))
            await self.drop(experiment_id)

    async def drop(self, experiment_id: str) -> None:
        """Forget an entry that was removed from the index."""
        async with self._reading:
            self.entries.pop(experiment_id, None)

    async def put_back(self, before: IndexEntry) -> None:
        """Restore the earlier index entry of an experiment that could not be resumed."""
        await self._undo(lambda: self._index.put(before))

    async def _undo(self, change: Callable[[], object]) -> None:
        """Call ``change``, which restores the index after a failed request. Only log an error of ``change``,
        because the caller raises the error of the request.
        """
        try:
            await asyncio.to_thread(change)
        except HomeError as error:
            logger.error("the list of experiments could not be corrected after a failed request: %s", error)

    async def label(self, experiment_id: str, *, tags: Sequence[str] | None, archived: bool | None) -> None:
        """Write an experiment's tags and archive mark to the index file. Raise UnknownExperiment or
        HomeError.
        """
        changes: dict[str, Any] = {} if tags is None else {"tag": tuple(dict.fromkeys(tags))}
        if archived is not None:
            changes["archived"] = archived
        try:
            await asyncio.to_thread(self._index.update, experiment_id, **changes)
        except KeyError:
            raise UnknownExperiment(experiment_id) from None

    # ---- databases ----------------------------------------------------------------------------------------

    def directory(self, experiment_id: str) -> Path:
        """Return the experiment's folder. Raise UnknownExperiment."""
        return self[experiment_id].directory

    def reader(self, experiment_id: str) -> ExperimentReader:
        """Return the reader of the experiment's database. Raise UnknownExperiment."""
        reader = self._readers.get(experiment_id)
        if reader is None:
            reader = self._readers[experiment_id] = ExperimentReader(self.directory(experiment_id))
        return reader

    def has_reader(self, experiment_id: str) -> bool:
        """Return whether a reader of the experiment's database exists."""
        return experiment_id in self._readers

    async def release_reader(self, experiment_id: str) -> None:
        """Close the database connections of the experiment's reader. The next query opens new connections."""
        reader = self._readers.get(experiment_id)
        if reader is not None:
            await asyncio.to_thread(reader.release)

    def close_reader(self, experiment_id: str) -> None:
        """Close the reader of an experiment's database that is about to be deleted, or was moved."""
        reader = self._readers.pop(experiment_id, None)
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Close all readers of databases."""
        for reader in self._readers.values():
            reader.close()
