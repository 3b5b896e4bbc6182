"""Fakes of the manager, the runner and the training service, as far as the API uses them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

from nnimgr.config import ExperimentConfig
from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.change_feed import Changes
from nnimgr.core.managing.index_notes import nni_status
from nnimgr.core.managing.leftovers import Remains
from nnimgr.core.managing.locks import ExperimentLocks
from nnimgr.core.managing.manager import (
    ExperimentConflict,
    ExperimentSummary,
    NewExperiment,
    UnknownExperiment,
)
from nnimgr.core.managing.stored import StoredSummaries
from nnimgr.core.running import new_trials, requests
from nnimgr.core.running.imported_results import ImportedResults, judge
from nnimgr.core.running.mailbox import Builder
from nnimgr.core.running.notices import Notice
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import RunnerClosed
from nnimgr.home import Home
from nnimgr.rules import facts as f
from nnimgr.rules.activity import happening
from nnimgr.rules.state import AddedTrial
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from tests.api.stored_life import StoredLife
from training_services.base import Capabilities, FileListing, Machine, TrialFile
from training_services.placement.ledger import HostLedger
from trial_keeper.machine.untrusted_files import check_path

T = TypeVar("T")


class FakeService:
    """Serves logs that tests have stored. Following a log continues until the log is closed."""

    def __init__(self) -> None:
        self.capabilities = Capabilities(updates=True, machines=True)
        self.logs: dict[tuple[str, str], bytes] = {}
        self.ended = asyncio.Event()
        self.open_readings = 0
        self.known_machines: Sequence[Machine] = ()
        self.cut: Exception | None = None  # error raised in the middle of a file
        self.refusal: Exception | None = None  # error raised before the first chunk

    def machines(self) -> Sequence[Machine]:
        return self.known_machines

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        try:
            self.open_readings += 1
            content = self.logs.get((job_id, name))
            if content is None:
                raise FileNotFoundError(name)
            if tail is not None:
                content = b"".join(content.splitlines(keepends=True)[-tail:] if tail else [])
            for at in range(0, len(content), 7):
                yield content[at : at + 7]
            if follow:
                await self.ended.wait()
                yield b"the end\n"
        finally:
            self.open_readings -= 1

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        if self.refusal is not None:
            raise self.refusal
        names = sorted(name for found, name in self.logs if found == job_id)
        at = datetime(2020, 1, 1, tzinfo=UTC)
        return FileListing(tuple(TrialFile(name, len(self.logs[job_id, name]), at) for name in names))

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        if self.refusal is not None:
            raise self.refusal
        check_path(path)
        async with aclosing(self.read_log(job_id, path, follow=False)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk
                if self.cut is not None:
                    raise self.cut


@dataclass(slots=True)
class FakeSession:
    """The parts of a runner's service session that the API uses."""

    service: FakeService | None
    closing: FakeService | None = None
    left: Sequence[str] = ()


class FakeRunner:
    """The parts of a runner that the API uses, on a scripted life."""

    def __init__(self, life: StoredLife, writer: ExperimentWriter) -> None:
        self.life = life
        self.state = life.state
        self.session = FakeSession(FakeService())
        self.notices: dict[str, Notice] = {}
        self.last_number = 0
        self.unsaved: list[str] = []
        self.waiting = asyncio.Event()  # set when a client waits for a commit
        self._writer = writer
        self._tick: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def config(self) -> ExperimentConfig:
        return requests.read_config(self.state)

    async def commit(self) -> None:
        turns, self.life.turns = self.life.turns, []
        for turn, touched in turns:
            await self._writer.append(self.life.state, turn, touched)
            self.last_number = turn[-1].number
        tick, self._tick = self._tick, asyncio.get_running_loop().create_future()
        tick.set_result(None)

    async def committed_after(self, number: int) -> int:
        while self.last_number <= number:
            self.waiting.set()
            await asyncio.shield(self._tick)
        return self.last_number

    def active(self) -> timedelta:
        return self.life.state.active_for(self.life.now + timedelta(seconds=7))

    def now(self) -> str:
        state = self.life.state
        return happening(state, self.life.now, searching=True, outstanding=0, service_trouble=None)

    def end(self) -> None:
        """End as a runner does, with an error for all waiting clients."""
        self._tick.set_exception(RunnerClosed())
        self._tick.exception()

    async def request(self, build: Builder) -> Sequence[f.Fact]:
        facts = build(self.life.state)
        self.life.take(*facts)
        await self.commit()
        return facts

    async def add_trial(
        self,
        parameters: Any,
        *,
        key: str | None = None,
        origin: f.Origin | None = None,
        raise_limit: bool = False,
    ) -> AddedTrial:
        addition = new_trials.TrialAddition(
            parameters,
            outstanding=0,
            key=key,
            origin=origin,
            raise_limit=self._raise_limit if raise_limit else None,
        )
        await self.request(addition)
        assert addition.added is not None
        return addition.added

    def _raise_limit(self, number: int) -> Builder:
        changes = {"maxTrialNumber": number}
        after = requests.changed_config(self.config, changes, elapsed=timedelta())
        return requests.record_config(self.config, after)

    async def rerun(self, find: Callable[[], Sequence[new_trials.FailedTrial]]) -> Sequence[f.Suggested]:
        facts = await self.request(new_trials.rerun(await asyncio.to_thread(find)))
        return [fact for fact in facts if isinstance(fact, f.Suggested)]

    async def pause_trial(self, trial_id: str) -> None:
        await self.request(requests.pause_trial(trial_id))

    async def resume_trial(self, trial_id: str) -> None:
        await self.request(requests.resume_trial(trial_id))

    async def save_trial(self, trial_id: str) -> None:
        await self.request(requests.save_trial(trial_id))

    async def pin_checkpoint(
        self, trial_id: str, attempt: int, number: int, *, pinned: bool, saved: f.Origin | None
    ) -> None:
        await self.request(requests.pin_checkpoint(trial_id, attempt, number, pinned=pinned, saved=saved))

    async def lose_trial(self, trial_id: str) -> None:
        await self.request(requests.lose_trial(trial_id))

    async def stop_trial(self, trial_id: str) -> None:
        await self.request(requests.stop_trial(trial_id))

    async def stop_trials(self, trial_ids: Sequence[str]) -> set[str]:
        facts = await self.request(requests.stop_trials(trial_ids))
        return {fact.trial_id for fact in facts if isinstance(fact, f.StopRequested)}

    async def change_config(self, changes: Mapping[str, Any]) -> None:
        before = requests.read_config(self.state)
        after = requests.changed_config(before, changes, elapsed=self.state.active)
        await self.request(requests.record_config(before, after))

    async def import_data(self, records: Sequence[Mapping[str, Any]]) -> ImportedResults:
        await self.request(requests.import_data(records))
        return judge(self.config, records)


class FakeManager:
    """A manager with one experiment, ``exp``. Created experiments are only remembered."""

    def __init__(self, runner: FakeRunner, directory: Path, *, port: int) -> None:
        self.runner: FakeRunner | None = runner
        self.folder = directory
        self.home = Home(directory / "home")
        self.latest: str | None = "exp"
        self.reading = ExperimentReader(directory)
        self.changes = Changes()
        self.created: list[NewExperiment] = []
        self.resumed: list[tuple[str, NewExperiment | None]] = []
        self.stopped: list[tuple[str, bool]] = []
        self.deleted: list[str] = []
        self.looked_for: list[str] = []
        self.stored = StoredSummaries()
        self.ledger = HostLedger()
        self.tags: tuple[str, ...] = ()
        self.archived = False
        self.views = False
        self.port = port
        self.locks = ExperimentLocks()
        self.remains = Remains(cast(Assembly, None))
        self.troubles: str | None = None
        self.failure: Exception | None = None

    def _check(self, experiment_id: str) -> None:
        if self.failure is not None:
            raise self.failure
        if experiment_id != "exp":
            raise UnknownExperiment(experiment_id)

    def get(self, experiment_id: str) -> FakeRunner:
        self._check(experiment_id)
        if self.runner is None:
            raise RequestRefused("experiment exp is not open on this server: resume it first")
        return self.runner

    def find(self, experiment_id: str) -> FakeRunner | None:
        return self.runner if experiment_id == "exp" else None

    def viewed(self, experiment_id: str) -> bool:
        return self.views

    @property
    def idle(self) -> bool:
        return self.runner is None

    def trouble(self, experiment_id: str) -> str | None:
        return self.troubles

    def notices(self, experiment_id: str) -> Mapping[str, Notice]:
        return {} if self.runner is None else self.runner.notices

    async def convert(self, experiment_id: str) -> None:
        self.reader(experiment_id)

    def reader(self, experiment_id: str) -> ExperimentReader:
        self._check(experiment_id)
        return self.reading

    def directory(self, experiment_id: str) -> Path:
        self._check(experiment_id)
        return self.folder

    def pid(self, experiment_id: str) -> int:
        return os.getpid()

    def served(self) -> dict[str, str]:
        if self.runner is None:
            return {"exp": "VIEWED"} if self.views else {}
        return {"exp": nni_status(self.runner.state.status, self.runner.state.drain)}

    def summaries(self) -> list[ExperimentSummary]:
        return [self.summary("exp")]

    def summary(self, experiment_id: str) -> ExperimentSummary:
        self._check(experiment_id)
        return ExperimentSummary(
            id="exp",
            name="lab",
            status="VIEWED" if self.views else "NO_MORE_TRIAL",
            drain=None,
            reason="",
            platform="local",
            port=self.port,
            served=self.runner is not None,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            ended_at=None,
            counts={"WAITING": 2},
            best_trial_id=None,
            best_value=None,
            active_s=1.5,
            directory=self.folder,
            tags=self.tags,
            archived=self.archived,
            stored=self.runner is None,
        )

    async def look_again(self) -> None:
        pass

    async def look_for(self, experiment_id: str) -> None:
        self.looked_for.append(experiment_id)

    async def label(
        self, experiment_id: str, *, tags: Sequence[str] | None = None, archived: bool | None = None
    ) -> None:
        self._check(experiment_id)
        self.tags = self.tags if tags is None else tuple(tags)
        self.archived = self.archived if archived is None else archived

    async def create(self, new: NewExperiment) -> tuple[str, bool]:
        if new.id == "taken":
            raise ExperimentConflict("there is another experiment taken")
        known = any(new.id is not None and new.id == other.id for other in self.created)
        self.created.append(new)
        return new.id or "fresh", not known

    async def resume(self, experiment_id: str, new: NewExperiment | None = None) -> None:
        self._check(experiment_id)
        self.resumed.append((experiment_id, new))

    async def stop(self, experiment_id: str, *, detach: bool, save: bool = False) -> list[str]:
        self._check(experiment_id)
        self.stopped.append((experiment_id, detach))
        return ["abcde"] if detach else []

    async def annotate(self, experiment_id: str, change: Callable[[Path], T]) -> T:
        self._check(experiment_id)
        changed = await asyncio.to_thread(change, self.folder)
        self.changes.tell(experiment_id, 0)
        return changed

    async def view(self, experiment_id: str) -> None:
        self._check(experiment_id)
        self.views = True

    async def delete(self, experiment_id: str, *, leave: bool = False) -> list[str]:
        self._check(experiment_id)
        self.deleted.append(experiment_id)
        return ["on gpu1, something"] if leave else []
