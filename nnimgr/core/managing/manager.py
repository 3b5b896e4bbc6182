"""NNIManager: creates, resumes, views, stops, deletes and lists the experiments of one server.

Each open experiment is run by its runner; ``nnimgr.core.managing.supervision`` keeps the runners running. An
experiment's folder is ``<experimentWorkingDirectory>/<id>``, and the index file contains its path.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from nnimgr.core.managing.activity import Activity
from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.catalog import Catalog
from nnimgr.core.managing.creation import Draft
from nnimgr.core.managing.experiments import (
    ExperimentConflict,
    ExperimentSummary,
    NewExperiment,
    UnknownExperiment,
)
from nnimgr.core.managing.folder import Surroundings, make_folder, require_command, require_database
from nnimgr.core.managing.index_notes import IndexNotes
from nnimgr.core.managing.leftovers import Remains
from nnimgr.core.managing.locks import ExperimentLocks
from nnimgr.core.managing.lookup import Lookup
from nnimgr.core.managing.nni_folder import adopt
from nnimgr.core.managing.stand_ins import StandIns
from nnimgr.core.managing.stopped_experiments import AtRest
from nnimgr.core.managing.stored import StoredSummaries
from nnimgr.core.managing.supervision import Supervision
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import LIVE
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry, check_experiment_id, new_experiment_id
from nnimgr.rules import facts as f
from nnimgr.store.location import database_path
from nnimgr.store.overview import stored_status

__all__ = ["ExperimentConflict", "ExperimentSummary", "NNIManager", "NewExperiment", "UnknownExperiment"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
E = f.ExperimentStatus
ENDED = frozenset({E.STOPPED, E.DONE})


class NNIManager(Lookup):
    """Manager of the experiments of one server, which listens at ``port`` under ``url_prefix``.

    ``assembly`` builds the parts of a runner. ``stand_ins``: whether each open experiment gets a process to
    which NNI's programs can send a signal (see ``StandIns``).
    """

    def __init__(
        self,
        *,
        home: Home,
        port: int,
        assembly: Assembly,
        url_prefix: str | None = None,
        stand_ins: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.home, self._url_prefix = home, url_prefix
        self._index = Index(home)
        self._stand_ins = StandIns(self._index, stop=partial(self.stop, detach=False), enabled=stand_ins)
        catalog = Catalog(self._index, on_note=self._stand_ins.note)
        self._notes = IndexNotes(self._index, on_change=catalog.note)
        self._activity = Activity(self._notes, server_log=home.server_log_path(port))
        self.changes = self._activity.changes
        supervision = Supervision(
            assembly=assembly,
            clock=clock,
            free=catalog.release_reader,
            on_turn=self._activity.turned,
            on_end=self._activity.ended,
        )
        at_rest = AtRest(home=home, index=self._index, port=port)
        super().__init__(
            port=port, assembly=assembly, catalog=catalog, at_rest=at_rest, supervision=supervision
        )
        self._clock = clock
        self.remains = Remains(assembly)
        self.stored = StoredSummaries()
        self.locks = ExperimentLocks()  # held while an experiment is created, viewed, resumed or deleted

    async def __aenter__(self) -> NNIManager:
        """Open all experiments that have this server's port in the index file, except stopped and ended
        experiments.
        """
        await self._catalog.load()
        ours = [entry for entry in self._catalog.entries.values() if entry.port == self.port]
        alive = [entry for entry in ours if await asyncio.to_thread(_is_alive, entry)]
        self._at_rest.viewed.update(entry.id for entry in ours if entry.status == E.VIEWED)
        self._activity.used = bool(self._at_rest.viewed)
        self._assembly.expect(entry.id for entry in alive)
        await asyncio.gather(*(self._reopen(entry) for entry in alive))
        self._latest = next((entry.id for entry in reversed(alive or ours)), None)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all experiments. Their trials continue, and the next server continues to watch them."""
        await self._supervision.close()
        await self._notes.close()
        await self._stand_ins.close()
        self._catalog.close()

    async def _reopen(self, entry: IndexEntry) -> None:
        try:
            await self._start(entry.id, entry.directory)
        except Exception as error:  # an experiment that fails must not stop other experiments
            logger.error("experiment %s cannot be reopened yet: %s", entry.id, error)
        runner = self.find(entry.id)
        if runner is None or not runner.state.jobs:
            self._assembly.holds_nothing(entry.id)

    async def wait_idle(self) -> None:
        """Wait until a request has opened or changed an experiment, and every experiment is stopped."""
        await self._activity.wait_idle(lambda: self.idle)

    @property
    def used(self) -> bool:
        """True once a request has opened or changed an experiment."""
        return self._activity.used

    # ---- actions ------------------------------------------------------------------------------------------

    async def create(self, new: NewExperiment) -> tuple[str, bool]:
        """Create and start an experiment; return its id, and whether the experiment is new.

        If an experiment with the requested id was created from the same request, return that experiment.
        Raise ConfigError, ExperimentConflict, ValueError (a bad id) or StoreError.
        """
        draft = await Draft.of(new)
        if new.id is not None:
            check_experiment_id(new.id)
        await self._catalog.load_more()
        experiment_id = new.id or new_experiment_id({*self._catalog.entries, *self.locks})
        async with self.locks.creating(experiment_id):  # two requests with the same id may arrive at once
            self._at_rest.refuse_deleted(experiment_id)
            if experiment_id in self._catalog:
                if await draft.is_created(experiment_id, self.reader(experiment_id)):
                    return experiment_id, False
            await self._begin(experiment_id, draft)
        return experiment_id, True

    async def _begin(self, experiment_id: str, draft: Draft) -> None:
        """Create the folder and the index entry of a new experiment, and start the experiment.

        After an error, remove the folder and the index entry again.
        """
        opening = await draft.opening(experiment_id)
        directory = draft.directory(experiment_id)
        entry = draft.entry(
            experiment_id, port=self.port, prefix_url=self._url_prefix, started_at=self._clock()
        )
        fresh = not directory.exists()
        try:
            await asyncio.to_thread(make_folder, directory, draft.around)
            # Write the index file first. If the server is killed before the database exists, the next server
            # ignores the index entry, and the client may repeat the request with the same id.
            await self._catalog.add(entry)
            await self._start(experiment_id, directory, opening)
            self._latest = experiment_id
        except Exception:
            if fresh:
                await asyncio.to_thread(shutil.rmtree, directory, True)
            await self._catalog.withdraw(experiment_id)
            raise

    async def resume(self, experiment_id: str, new: NewExperiment | None = None) -> None:
        """Run a stopped, done or failed experiment again on this server. Raise UnknownExperiment or
        RequestRefused.

        ``new``: request whose environment replaces the experiment's stored environment; None keeps the stored
        environment.
        """
        async with self.locks.of(experiment_id):
            self._at_rest.refuse_deleted(experiment_id)
            await self._resume(experiment_id, new)

    async def _resume(self, experiment_id: str, new: NewExperiment | None) -> None:
        await self._catalog.load_more(experiment_id, self._supervision.let_go)
        await self.convert(experiment_id)
        directory = self.directory(experiment_id)
        await asyncio.to_thread(require_command, directory)
        if self.viewed(experiment_id):
            raise RequestRefused(f"experiment {experiment_id} is only viewed: stop it first")
        runner = self.find(experiment_id)
        if runner is not None and runner.state.status in LIVE:
            raise RequestRefused(f"experiment {experiment_id} is running already")
        before = self._catalog[experiment_id]
        # Write the index file first: if the server is killed after the commit, the next server must open the
        # experiment.
        await asyncio.to_thread(
            self._index.update,
            experiment_id,
            status=E.RUNNING.value,
            port=self.port,
            pid=self.pid(experiment_id),
            ended_at=None,
            prefix_url=self._url_prefix,
        )
        if runner is not None:
            self._supervision.forget_status(experiment_id)
            await runner.request(lambda state: (f.ExperimentOpened(m_epoch=state.m_epoch, resumed=True),))
            self._latest = experiment_id
            return
        held = experiment_id in self._supervision
        try:
            if new is not None and new.environ is not None:
                await asyncio.to_thread(_surround, directory, new.surroundings())
            await self._start(experiment_id, directory, resumed=True)
            self._latest = experiment_id
        except Exception:
            if not held:  # a failed request to resume must not take effect later
                await self._supervision.forget(experiment_id)
                await self._catalog.put_back(before)
            raise

    async def stop(self, experiment_id: str, *, detach: bool, save: bool = False) -> list[str]:
        """Stop an experiment; return when no trial runs any more. ``save``: trials save their state first.

        With ``detach``, the trials continue, and their ids are returned at once. An experiment that no server
        has open is opened first, because detached trials may still run.
        """
        async with self.locks.of(experiment_id):
            self._at_rest.refuse_deleted(experiment_id)
            entry = self._catalog.entries.get(experiment_id)
            if self.viewed(experiment_id) and entry is not None:
                self._catalog.note(await self._at_rest.hide(entry))
                self._activity.changed(experiment_id)
                return []
            if self.find(experiment_id) is None and entry is not None:
                await self.convert(experiment_id)
                require_database(entry.directory)
                await self._start(experiment_id, entry.directory)
        still_running = await self.get(experiment_id).stop(detach=detach, save=save)
        await self._notes.settled()
        return still_running

    def pid(self, experiment_id: str) -> int:
        """Return the pid in the experiment's index entry. NNI's programs send a signal to this pid to stop
        the experiment.
        """
        return self._stand_ins.pid(experiment_id)

    async def label(
        self, experiment_id: str, *, tags: Sequence[str] | None = None, archived: bool | None = None
    ) -> None:
        """Change an experiment's tags and archive mark. Raise UnknownExperiment or HomeError."""
        self._at_rest.refuse_deleted(experiment_id)
        await self._catalog.label(experiment_id, tags=tags, archived=archived)
        await self.look_again()
        held = self._supervision.get(experiment_id)
        self.changes.tell(experiment_id, 0 if held is None else held.number)

    async def annotate(self, experiment_id: str, change: Callable[[Path], T]) -> T:
        """Call ``change`` in a thread with the folder of an experiment, and notify clients that follow the
        experiment.

        Raise UnknownExperiment, RequestRefused, or an error of ``change``.
        """
        self._at_rest.refuse_deleted(experiment_id)
        changed = await asyncio.to_thread(change, self.directory(experiment_id))
        held = self._supervision.get(experiment_id)
        self.changes.tell(experiment_id, 0 if held is None else held.number)
        return changed

    async def convert(self, experiment_id: str) -> None:
        """Create nnimgr's database for an experiment that NNI has run, unless the database exists.

        Raise UnknownExperiment, RequestRefused, HomeError or OSError.
        """
        entry = self._catalog[experiment_id]
        if experiment_id in self._supervision or self._catalog.has_reader(experiment_id):
            return
        found = await asyncio.to_thread(adopt, self._index, entry)
        if found is not entry:
            self._catalog.note(found)

    async def view(self, experiment_id: str) -> None:
        """Show a stopped experiment read-only until ``stop`` is called.

        Raise UnknownExperiment or RequestRefused.
        """
        async with self.locks.of(experiment_id):
            if not self.viewed(experiment_id):
                await self._catalog.load_more(experiment_id, self._supervision.let_go)
                self._at_rest.refuse_deleted(experiment_id)
                await self.convert(experiment_id)
                entry = await self._take(experiment_id, wish="viewed")
                self._catalog.note(await self._at_rest.show(entry))
                self._latest = experiment_id
                self._activity.changed(experiment_id)

    async def delete(self, experiment_id: str, *, leave: bool = False) -> list[str]:
        """Delete a stopped experiment: its files on machines, its folder and its index entry.

        With ``leave``, files that cannot be removed from a machine stay there, and sentences about these
        files are returned. Raise UnknownExperiment or RequestRefused.
        """
        async with self.locks.of(experiment_id):
            entry = await self._take(experiment_id, wish="deleted")
            self._catalog.close_reader(experiment_id)
            self._at_rest.deleting.add(experiment_id)
        try:  # without the lock, because the removal of a large folder takes long
            left = await self._at_rest.delete(entry, self.remains, leave=leave)
            await self._catalog.drop(experiment_id)
            return left
        finally:
            self._catalog.close_reader(experiment_id)  # a reader may have been opened meanwhile
            self._activity.changed(experiment_id)

    async def _take(self, experiment_id: str, *, wish: str) -> IndexEntry:
        """Close the database of a stopped experiment, which is to be ``wish``: "viewed" or "deleted".

        Return the experiment's index entry. Raise UnknownExperiment or RequestRefused.
        """
        held = self._supervision.get(experiment_id)
        if held is not None and held.runner is not None and held.runner.state.status is not held.status:
            await held.runner.turn_over()  # clients see a stop as soon as it is committed
        await self._notes.settled()
        status = None if held is None else held.status or ""
        entry = await self._at_rest.take(experiment_id, held=status, wish=wish)
        await self._supervision.release(experiment_id)
        return entry

    # ---- runners ------------------------------------------------------------------------------------------

    async def _start(
        self,
        experiment_id: str,
        directory: Path,
        created: Sequence[f.Fact] = (),
        *,
        resumed: bool = False,
    ) -> None:
        """Start an experiment by ``Supervision.start``. From then on, the server may exit when all
        experiments are stopped.
        """
        try:
            await self._supervision.start(experiment_id, directory, created, resumed=resumed)
        finally:
            if experiment_id in self._supervision:
                self._activity.opened()


def _surround(directory: Path, around: Surroundings) -> None:
    """Replace the environment that is stored in the experiment's folder, but keep the secrets that are
    stored there.
    """
    replace(around, secrets=Surroundings.read(directory).secrets).write(directory)


def _is_alive(entry: IndexEntry) -> bool:
    """Return whether a new server has to open the experiment, because the experiment is neither stopped
    nor done.
    """
    if entry.status in (E.STOPPED, E.VIEWED) or not database_path(entry.directory).exists():
        return False
    return entry.status != E.DONE or stored_status(entry.directory) not in (None, *ENDED)
