"""NNIManager: the experiments of one server. It creates, resumes, views, stops, deletes and lists; runners,
which ``nnimgr.core.managing.supervision`` keeps running, do the rest.

An experiment's folder is ``<experimentWorkingDirectory>/<id>``; the index leads to it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.config import ExperimentConfig, check_config, initial_sets, read_canonical
from nnimgr.config.secrets import hide_secrets
from nnimgr.core.managing.assembly import Assembly, seed_of
from nnimgr.core.managing.change_feed import Changes
from nnimgr.core.managing.experiments import (
    ExperimentConflict,
    ExperimentSummary,
    NewExperiment,
    UnknownExperiment,
    summary_of,
)
from nnimgr.core.managing.folder import Surroundings, make_folder, require_database
from nnimgr.core.managing.index_notes import IndexNotes, nni_status
from nnimgr.core.managing.leftovers import Remains
from nnimgr.core.managing.stopped_experiments import AtRest
from nnimgr.core.managing.stored import StoredSummaries
from nnimgr.core.managing.supervision import Held, Supervision
from nnimgr.core.running.requests import RequestRefused, initial_trials
from nnimgr.core.running.runner import LIVE, ExperimentRunner
from nnimgr.home import Home, HomeError
from nnimgr.index import Index, IndexEntry, check_experiment_id, new_experiment_id, nnis_own
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.store.reader import ExperimentReader, stored_status
from nnimgr.store.writer import database_path
from training_services.placement import HostLedger

__all__ = ["ExperimentConflict", "ExperimentSummary", "NNIManager", "NewExperiment", "UnknownExperiment"]

logger = logging.getLogger(__name__)

ENDED = frozenset({"STOPPED", "DONE"})
E = f.ExperimentStatus


class NNIManager:
    """Owns the runners. ``assembly`` makes what they need; ``port`` and ``url_prefix`` are this server's."""

    def __init__(
        self,
        *,
        home: Home,
        port: int,
        assembly: Assembly,
        url_prefix: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.home, self.port, self._url_prefix = home, port, url_prefix
        self.changes = Changes()
        self._index = Index(home)
        self._at_rest = AtRest(home=home, index=self._index, port=port)
        self._assembly, self._clock = assembly, clock
        self.remains = Remains(assembly)
        self._supervision = Supervision(
            assembly=assembly, clock=clock, free=self._free, on_turn=self._turned, on_end=self._over
        )
        self._readers: dict[str, ExperimentReader] = {}
        self._entries: dict[str, IndexEntry] = {}
        self._index_stamp: tuple[int, int] | None = None  # of the index that the entries were read from
        self.stored = StoredSummaries()
        self._changed = asyncio.Event()
        self._latest: str | None = None
        self._creating = asyncio.Lock()  # one experiment at a time begins, is viewed or goes
        self.used = False  # something was asked of it already, so that it may leave when it is idle
        self._notes = IndexNotes(self._index, on_change=self._noted)

    async def __aenter__(self) -> NNIManager:
        """Reopen every experiment of the index that names this port and was neither stopped nor done."""
        self._entries = await asyncio.to_thread(self._index.entries)
        ours = [
            entry
            for entry in self._entries.values()
            if entry.port == self.port and await asyncio.to_thread(nnis_own, entry.directory) is None
        ]
        alive = [entry for entry in ours if await asyncio.to_thread(_is_alive, entry)]
        self._at_rest.viewed.update(entry.id for entry in ours if entry.status == E.VIEWED)
        self.used = bool(self._at_rest.viewed)
        self._assembly.expect(entry.id for entry in alive)
        await asyncio.gather(*(self._reopen(entry) for entry in alive))
        self._latest = next((entry.id for entry in reversed(alive or ours)), None)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let go of all experiments; their trials run on and are adopted by the next server."""
        await self._supervision.close()
        await self._notes.close()
        for reader in self._readers.values():
            reader.close()

    async def _reopen(self, entry: IndexEntry) -> None:
        try:
            await self._start(entry.id, entry.directory)
        except Exception as error:  # one experiment's trouble must not keep the others from being served
            logger.error("experiment %s cannot be reopened yet: %s", entry.id, error)
        runner = self.find(entry.id)
        if runner is None or not runner.state.jobs:
            self._assembly.holds_nothing(entry.id)

    def _noted(self, entry: IndexEntry) -> None:
        self._entries[entry.id] = entry

    # ---- looking ------------------------------------------------------------------------------------------

    def get(self, experiment_id: str) -> ExperimentRunner:
        """The runner of an experiment of this server. Raises UnknownExperiment, RequestRefused."""
        held = self._supervision.get(experiment_id)
        if held is None:
            if self.viewed(experiment_id):
                raise RequestRefused(f"experiment {experiment_id} is only viewed: it cannot be changed")
            if experiment_id in self._entries:
                raise RequestRefused(
                    f"experiment {experiment_id} is not open on this server: resume it first"
                )
            raise UnknownExperiment(experiment_id)
        if held.runner is None:
            raise RequestRefused(f"experiment {experiment_id} is not running: {held.trouble}")
        return held.runner

    def find(self, experiment_id: str) -> ExperimentRunner | None:
        """The runner of an experiment if this server has one."""
        held = self._supervision.get(experiment_id)
        return held.runner if held is not None else None

    def viewed(self, experiment_id: str) -> bool:
        """Whether an experiment is only shown here: nothing of it runs, and nothing may change it."""
        return experiment_id in self._at_rest.viewed

    def trouble(self, experiment_id: str) -> str | None:
        """Why an experiment of this server has no runner at present."""
        held = self._supervision.get(experiment_id)
        return held.trouble if held is not None else None

    def reader(self, experiment_id: str) -> ExperimentReader:
        """Queries of an experiment of the index, running or not. Raises UnknownExperiment."""
        reader = self._readers.get(experiment_id)
        if reader is None:
            reader = self._readers[experiment_id] = ExperimentReader(self.directory(experiment_id))
        return reader

    def directory(self, experiment_id: str) -> Path:
        entry = self._entries.get(experiment_id)
        if entry is None:
            raise UnknownExperiment(experiment_id)
        return entry.directory

    async def look_again(self) -> None:
        """Take in what others have changed in the index; one that cannot be read changes nothing here.

        What is open or shown here is known here, but for what users have noted on it.
        """
        stamp = await asyncio.to_thread(self._index.stamp)
        if stamp == self._index_stamp:
            return
        try:
            found = await asyncio.to_thread(self._index.entries)
        except HomeError as error:
            logger.error("what others have changed in the index is not known: %s", error)
            self._index_stamp = stamp  # said once
            return
        for experiment_id, entry in self._entries.items():
            if experiment_id in self._supervision or self.viewed(experiment_id):
                noted = found.get(experiment_id, entry)
                found[experiment_id] = replace(entry, tag=noted.tag, archived=noted.archived)
            elif entry.port == self.port:  # it may have been created here after the file was read
                found.setdefault(experiment_id, entry)
        self._entries, self._index_stamp = found, stamp

    def summaries(self) -> list[ExperimentSummary]:
        """All experiments of the index, oldest first."""
        return [self.summary(experiment_id) for experiment_id in self._entries]

    def summary(self, experiment_id: str) -> ExperimentSummary:
        """Raises UnknownExperiment."""
        entry = self._entries.get(experiment_id)
        if entry is None:
            raise UnknownExperiment(experiment_id)
        runner = self.find(experiment_id)
        return summary_of(
            entry,
            runner.state if runner is not None else None,
            reason=self.trouble(experiment_id) or "",
            served=experiment_id in self._supervision or self.viewed(experiment_id),
            active_s=runner.active().total_seconds() if runner is not None else 0.0,
        )

    @property
    def ledger(self) -> HostLedger:
        """Who holds what of which machine, over all experiments of this server."""
        return self._assembly.ledger

    @property
    def latest(self) -> str | None:
        """The experiment that was created, resumed or viewed last here; after a start the youngest one.

        It is the one that a client means which knows of one experiment a server.
        """
        return self._latest if self._latest in self._entries else None

    def served(self) -> dict[str, str]:
        """The experiments that this server has open or shows, with their status under NNI's name."""
        return dict.fromkeys(self._at_rest.viewed, str(E.VIEWED)) | {
            held.id: held.nni_status or self._entries[held.id].status
            for held in self._supervision
            if held.id in self._entries
        }

    @property
    def idle(self) -> bool:
        """Whether no experiment but stopped ones is left, and none of their trials on silent machines."""
        return not self._at_rest.viewed and all(
            held.status == E.STOPPED and not held.awaits_silent for held in self._supervision
        )

    async def wait_idle(self) -> None:
        """Return once something was asked for and no experiment but stopped ones is left."""
        while not self.used or not self.idle:
            self._changed.clear()
            await self._changed.wait()

    # ---- acting -------------------------------------------------------------------------------------------

    async def create(self, new: NewExperiment) -> tuple[str, bool]:
        """Start an experiment; its id, and whether it is new. The same id and config again is no second one.

        Raises ConfigError, ExperimentConflict, ValueError (a bad id), StoreError.
        """
        written = read_canonical({**new.config, "searchSpace": dict(new.search_space)})
        config, secrets = hide_secrets(written)
        around = replace(new.surroundings(), secrets=secrets)
        for warning in await asyncio.to_thread(check_config, config, interpreter=around.interpreter):
            logger.warning("experiment %s: %s", new.id or "(new)", warning)
        canonical = config.canonical()
        space = canonical.pop("searchSpace")
        if new.id is not None:
            check_experiment_id(new.id)
        async with self._creating:  # the same id may be asked for twice at once
            self._at_rest.refuse_deleted(new.id)
            if new.id is not None and await self._is_same(new.id, canonical, space):
                return new.id, False
            self._entries = await asyncio.to_thread(self._index.entries)
            experiment_id = new.id or new_experiment_id(self._entries.keys())
            created = f.ExperimentCreated(
                experiment_id=experiment_id, config=canonical, search_space=space, limits=config.limits()
            )
            first = await asyncio.to_thread(initial_sets, config, seed_of(experiment_id))
            await self._begin([created, *initial_trials(experiment_id, first)], config, around)
        return experiment_id, True

    async def _begin(self, opening: Sequence[f.Fact], config: ExperimentConfig, around: Surroundings) -> None:
        """Make the folder and the entry of a new experiment, and start it; all or nothing.

        ``opening``: its first facts, that it was created before all others.
        """
        created = opening[0]
        assert isinstance(created, f.ExperimentCreated)
        experiment_id = created.experiment_id
        directory = config.experiment_working_directory / experiment_id
        entry = IndexEntry(
            id=experiment_id,
            port=self.port,
            started_at=self._clock(),
            ended_at=None,
            status="INITIALIZED",
            platform=config.platform,
            name=config.experiment_name or "",
            log_dir=str(config.experiment_working_directory),
            pid=os.getpid(),
            prefix_url=self._url_prefix,
        )
        fresh = not directory.exists()
        try:
            await asyncio.to_thread(make_folder, directory, around)
            # The index first: a server that is killed between the two finds an entry without a database,
            # which it leaves alone, and the client may ask again under the same id.
            await asyncio.to_thread(self._index.put, entry)
            self._entries[experiment_id] = entry
            await self._start(experiment_id, directory, opening)
            self._latest = experiment_id
        except Exception:
            if fresh:
                await asyncio.to_thread(shutil.rmtree, directory, True)
            if self._entries.pop(experiment_id, None) is not None:
                await self._take_back(lambda: self._index.remove(experiment_id))
            raise

    async def _take_back(self, change: Callable[[], object]) -> None:
        """Undo an entry of the index for something that failed; why that failed matters more."""
        try:
            await asyncio.to_thread(change)
        except HomeError as error:
            logger.error("the index says what did not come about: %s", error)

    async def resume(self, experiment_id: str, new: NewExperiment | None = None) -> None:
        """Run a stopped, done or failed experiment again, here. Raises UnknownExperiment, RequestRefused."""
        async with self._creating:
            self._at_rest.refuse_deleted(experiment_id)
            await self._resume(experiment_id, new)

    async def _resume(self, experiment_id: str, new: NewExperiment | None) -> None:
        self._entries = await asyncio.to_thread(self._index.entries) | self._entries
        directory = self.directory(experiment_id)
        require_database(directory)
        if self.viewed(experiment_id):
            raise RequestRefused(f"experiment {experiment_id} is only viewed: stop it first")
        runner = self.find(experiment_id)
        if runner is not None and runner.state.status in LIVE:
            raise RequestRefused(f"experiment {experiment_id} is running already")
        before = self._entries[experiment_id]
        # The index first: a server that is killed after the commit must be followed by one that opens it.
        await asyncio.to_thread(
            self._index.update,
            experiment_id,
            status="RUNNING",
            port=self.port,
            pid=os.getpid(),
            ended_at=None,
            prefix_url=self._url_prefix,
        )
        if runner is not None:
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
            if not held:  # what was asked for in vain must not come about later
                await self._supervision.forget(experiment_id)
                await self._take_back(lambda: self._index.put(before))
            raise

    async def stop(self, experiment_id: str, *, detach: bool) -> list[str]:
        """Stop an experiment; returns once nothing of it runs (or, detached, with the trials that run on).

        One that no server holds is opened for it: trials may run on that it was detached from.
        """
        async with self._creating:
            self._at_rest.refuse_deleted(experiment_id)
            entry = self._entries.get(experiment_id)
            if self.viewed(experiment_id) and entry is not None:
                self._entries[experiment_id] = await self._at_rest.hide(entry)
                self._stirred(experiment_id)
                return []
            if self.find(experiment_id) is None and entry is not None:
                require_database(entry.directory)
                await self._start(experiment_id, entry.directory)
        still_running = await self.get(experiment_id).stop(detach=detach)
        await self._notes.settled()
        return still_running

    async def label(
        self, experiment_id: str, *, tags: Sequence[str] | None = None, archived: bool | None = None
    ) -> None:
        """Change what a user has noted on an experiment of the index. Raises UnknownExperiment, HomeError."""
        changes: dict[str, Any] = {} if tags is None else {"tag": tuple(dict.fromkeys(tags))}
        if archived is not None:
            changes["archived"] = archived
        self._at_rest.refuse_deleted(experiment_id)
        try:
            await asyncio.to_thread(self._index.update, experiment_id, **changes)
        except KeyError:
            raise UnknownExperiment(experiment_id) from None
        await self.look_again()
        held = self._supervision.get(experiment_id)
        self.changes.tell(experiment_id, 0 if held is None else held.number)

    async def view(self, experiment_id: str) -> None:
        """Show a stopped experiment until ``stop``: it is read, never opened.

        Raises UnknownExperiment, RequestRefused.
        """
        async with self._creating:
            if not self.viewed(experiment_id):
                entry = await self._take(experiment_id, wish="viewed")
                self._entries[experiment_id] = await self._at_rest.show(entry)
                self._latest = experiment_id
                self._stirred(experiment_id)

    async def delete(self, experiment_id: str, *, leave: bool = False) -> list[str]:
        """Remove a stopped experiment: what it has on its machines, its folder and its entry.

        Raises UnknownExperiment, RequestRefused; with ``leave`` what cannot be removed from a machine is no
        reason for that: it stays, and is returned in sentences.
        """
        async with self._creating:
            entry = await self._take(experiment_id, wish="deleted")
            self._close_reader(experiment_id)
            self._at_rest.deleting.add(experiment_id)
        try:  # without the lock: a large folder takes long
            left = await self._at_rest.delete(entry, self.remains, leave=leave)
            self._entries.pop(experiment_id, None)
            return left
        finally:
            self._close_reader(experiment_id)  # who looked at it meanwhile has made one
            self._stirred(experiment_id)

    def _close_reader(self, experiment_id: str) -> None:
        reader = self._readers.pop(experiment_id, None)
        if reader is not None:
            reader.close()

    async def _take(self, experiment_id: str, *, wish: str) -> IndexEntry:
        """The entry of a stopped experiment, whose database is closed from here on."""
        await self._notes.settled()
        held = self._supervision.get(experiment_id)
        entry = await self._at_rest.take(experiment_id, held=None if held is None else held.status, wish=wish)
        await self._supervision.release(experiment_id)
        return entry

    def _stirred(self, experiment_id: str) -> None:
        """Tell those who follow the experiments, and who waits for their end."""
        self.used = True
        self._changed.set()
        self.changes.tell(experiment_id, 0)

    # ---- runners ------------------------------------------------------------------------------------------

    async def _is_same(self, experiment_id: str, config: Mapping[str, Any], space: Mapping[str, Any]) -> bool:
        if experiment_id not in self._entries:
            return False
        try:
            first = (await asyncio.to_thread(self.reader(experiment_id).facts, limit=1))[0].fact
        except (FileNotFoundError, IndexError):
            return False
        if (
            not isinstance(first, f.ExperimentCreated)
            or first.config != config
            or first.search_space != space
        ):
            raise ExperimentConflict(f"experiment {experiment_id} exists with another configuration")
        return True

    async def _start(
        self,
        experiment_id: str,
        directory: Path,
        created: Sequence[f.Fact] = (),
        *,
        resumed: bool = False,
    ) -> None:
        """As ``Supervision.start``. From then on the server may leave when it is idle."""
        try:
            await self._supervision.start(experiment_id, directory, created, resumed=resumed)
        finally:
            self.used = self.used or experiment_id in self._supervision

    async def _free(self, experiment_id: str) -> None:
        reader = self._readers.get(experiment_id)
        if reader is not None:
            await asyncio.to_thread(reader.release)

    def _over(self, held: Held) -> None:
        """A runner has ended."""
        self.changes.tell(held.id, held.number)
        self._changed.set()

    def _turned(self, held: Held, state: ExperimentState) -> None:
        """A turn is over. An end is noted only here, when its keepers are gone: a server that dies before
        leaves an entry that says otherwise, and the next one opens the experiment again.
        """
        if held.number != state.number:
            held.number = state.number
            self.changes.tell(state.id, state.number)
        awaits = held.runner is not None and held.runner.awaits_silent
        if (held.status, held.awaits_silent) == (state.status, awaits):
            return
        held.status, held.awaits_silent = str(state.status), awaits
        self._changed.set()
        status = nni_status(state.status, state.drain)
        if awaits:  # not over for the next server, which has to stop what silent machines still run
            status = "STOPPING" if state.status is E.STOPPED else "NO_MORE_TRIAL"
        self._notes.note(state.id, status=status, ended_at=state.ended_at)


def _surround(directory: Path, around: Surroundings) -> None:
    """From now on the experiment runs in another environment; the secrets of its configuration stay."""
    replace(around, secrets=Surroundings.read(directory).secrets).write(directory)


def _is_alive(entry: IndexEntry) -> bool:
    """Whether a server has to open it: neither stopped nor done, by the database where the index may lag."""
    if entry.status in (E.STOPPED, E.VIEWED) or not database_path(entry.directory).exists():
        return False
    return entry.status != "DONE" or stored_status(entry.directory) not in (None, *ENDED)
