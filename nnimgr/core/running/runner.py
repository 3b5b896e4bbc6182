"""ExperimentRunner: the only writer of an experiment's database, through which all its events pass.

In each turn, the runner takes the items in its mailbox, folds their facts into the state, and plans until
nothing follows. Then it makes one commit, carries out the commands and answers the requests. An action never
raises an exception into the loop. A failed commit ends the runner, and NNIManager starts another runner from
the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from nnimgr.config import AlgorithmConfig
from nnimgr.core.running import requests
from nnimgr.core.running.mailbox import Builder, Item, Mailbox, Request
from nnimgr.core.running.notices import Notice, notices_of
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.search import Search
from nnimgr.core.running.service_session import ServiceSession
from nnimgr.core.running.takes_requests import TakesRequests
from nnimgr.core.running.waits import Wait
from nnimgr.rules import facts as f
from nnimgr.rules.activity import happening
from nnimgr.rules.commands import AskFurther, AskTuner, Command
from nnimgr.rules.confirmations import about_confirmation
from nnimgr.rules.fold import admits, apply, measured
from nnimgr.rules.plan import plan
from nnimgr.rules.state import ExperimentState, Touched
from nnimgr.store.errors import StoreError
from training_services.base import TrainingService

logger = logging.getLogger(__name__)

TURNS_WITHOUT_END = 10_000

LIVE = frozenset({f.ExperimentStatus.INITIALIZED, f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING})


class Writer(Protocol):
    """Interface of the store, which commits the facts of a turn
    (``nnimgr.store.writer.ExperimentWriter``).
    """

    path: Path
    db_id: str
    m_epoch: int

    async def append(self, state: ExperimentState, turn: Sequence[f.Recorded], touched: Touched) -> None: ...

    async def close(self, state: ExperimentState | None = None) -> None: ...


class RunnerClosed(RequestRefused):
    """Error: the experiment's runner has ended. ``why``: one sentence."""

    def __init__(self, why: str = "the experiment is being closed; try again") -> None:
        super().__init__(why)


@dataclass(slots=True)
class _Turn:
    """One pass of the runner's loop, with the resulting facts, the requests to answer, and the requests to
    the tuner.
    """

    at: datetime
    recorded: list[f.Recorded] = field(default_factory=list)
    answers: list[tuple[asyncio.Future[Sequence[f.Fact]], Sequence[f.Fact]]] = field(default_factory=list)
    ask: AskTuner | None = None
    further: list[AskFurther] = field(default_factory=list)


def _may_run(state: ExperimentState) -> list[str]:
    """Return the ids of the trials that run after the experiment's stop, or that may still run."""
    placed = {job.trial_id for job in state.jobs.values() if job.placed is not None}
    live = [trial_id for trial_id in state.trials if trial_id in placed]
    return live or list(dict.fromkeys(job.trial_id for job in state.jobs.values() if job.lost))


def _canceled(state: ExperimentState, trial_ids: Container[str]) -> list[str]:
    """Return those of the trials that the experiment's stop has canceled, because they had no checkpoint."""
    return [cut.trial_id for cut in state.interrupted if cut.trial_id in trial_ids]


class ExperimentRunner(TakesRequests):
    """Runs one experiment until ``close`` is called. ``opening``: facts to record in the first turn.

    ``check_tuner`` raises ConfigError for a tuner that the experiment's Python cannot create.
    """

    def __init__(
        self,
        *,
        state: ExperimentState,
        writer: Writer,
        make_service: Callable[[ExperimentState], TrainingService],
        make_search: Callable[[ExperimentState, ExperimentRunner], Search],
        clock: Callable[[], datetime],
        on_turn: Callable[[ExperimentState], None],
        opening: Sequence[f.Fact],
        check_tuner: Callable[[AlgorithmConfig], None] | None = None,
    ) -> None:
        super().__init__(state, check_tuner)
        self.last_number = state.number
        self.search: Search | None = None
        self.unsaved: list[str] = []
        self._writer, self._make_search = writer, make_search
        self._committing = Wait(f"the disk has not completed a commit in {writer.path.parent}")
        self._clock, self._on_turn = clock, on_turn
        self._mailbox = Mailbox()
        self.session = ServiceSession(
            state,
            database=writer,
            make_service=make_service,
            mailbox=self._mailbox,
            search=lambda: self.search,
        )
        self._turn = _Turn(at=clock())
        self._wake_at: datetime | None = None
        self._closing = False
        self._tick = asyncio.get_running_loop().create_future()
        self._first_turn = asyncio.get_running_loop().create_future()
        self._group: asyncio.TaskGroup | None = None
        for fact in opening:
            self._mailbox.put(fact)

    # ---- requests from outside ----------------------------------------------------------------------------

    def post(self, item: Item, *, urgent: bool = True) -> None:
        """Put a fact, or a builder of facts, into the mailbox. An item that is not urgent may wait a
        moment.
        """
        self._mailbox.put(item, urgent=urgent)

    async def request(self, build: Builder) -> Sequence[f.Fact]:
        """Commit the facts of a user's request, and return these facts.

        ``build`` returns the facts, given the state at the beginning of a turn, and may raise RequestRefused.
        """
        if self._closing:
            raise RunnerClosed
        answer: asyncio.Future[Sequence[f.Fact]] = asyncio.get_running_loop().create_future()
        self._mailbox.put(Request(build, answer))
        return await answer

    async def stop(self, *, detach: bool, save: bool = False) -> list[str]:
        """Stop the experiment, and return when all trials have ended. ``save``: they save their state first.

        With ``detach``, return the ids of all trials, which continue. Otherwise return the ids of trials on
        silent machines, which end later. With ``save``, ``unsaved`` then has the ids of the trials that were
        canceled because they had saved nothing. Raise RequestRefused if the experiment is resumed meanwhile.
        """
        await self.request(stop := requests.ExperimentStop(detach=detach, save=save))
        running = {*self.state.running, *self.state.continued}
        while self.state.status in LIVE or self.search is not None or self._is_serving():
            if self.state.opened_at != stop.opened_at:
                raise RequestRefused(f"experiment {self.state.id} was resumed while it was being stopped")
            await asyncio.shield(self._tick)
        live = _may_run(self.state)
        self.unsaved = _canceled(self.state, running.difference(live)) if save else []
        return live

    def _is_serving(self) -> bool:
        """Return whether the training service is open, and not only to end trials that may still run on
        silent hosts.
        """
        return self.session.active and not self.awaits_silent

    @property
    def awaits_silent(self) -> bool:
        """True if the training service is open only to end trials that may still run on silent hosts."""
        return self.session.active and bool(self.state.jobs) and self.state.over

    async def committed_after(self, number: int) -> int:
        """Wait until a fact with a number above ``number`` is committed. Return the last committed fact's
        number.

        Raise RunnerClosed if the runner ends.
        """
        while self.last_number <= number:
            await asyncio.shield(self._tick)
        return self.last_number

    async def turn_over(self) -> None:
        """Wait until the runner's current turn is over. Raise RunnerClosed if the runner ends."""
        await asyncio.shield(self._tick)

    async def opened(self) -> None:
        """Wait until the runner's first turn is over. Raise the error if the runner ended before."""
        await asyncio.shield(self._first_turn)

    def active(self) -> timedelta:
        """Return the total time that the experiment has been running, by its own clock."""
        return self.state.active_for(self._clock())

    def now(self) -> str:
        """Return one sentence, without a full stop, about what the experiment is doing."""
        if (ending := self.session.ending) is not None:
            return f"{self.state.reason}; {ending}"
        doing = happening(
            self.state,
            self._clock(),
            searching=self.search is not None,
            outstanding=self.outstanding,
            service_trouble=self.session.trouble if self.session.service is None else None,
            wanted=self.session.wanted,
        )
        restarts = self.search.restarts if self.search is not None else ()
        return "; ".join([doing, *restarts, *(wait.sentence for wait in self._waits().values())])

    @property
    def notices(self) -> Mapping[str, Notice]:
        """Return the experiment's current notices by subject, for example about a call that takes long."""
        found = dict(self.search.all_notices) if self.search is not None else {}
        found |= {about: Notice(subject=told) for about, told in self.session.notices.items()}
        return found | notices_of(self.state) | self._waits()

    def _waits(self) -> dict[str, Notice]:
        """Return the notices about long waits for the disk and for the training service, by subject."""
        waits = {"commit": self._committing.notice, "opening": self.session.opening.notice}
        return {about: notice for about, notice in waits.items() if notice is not None}

    @property
    def outstanding(self) -> int:
        """Number of suggestions that were requested from the tuner and have not arrived."""
        return self.search.outstanding if self.search is not None else 0

    def pending_metrics(self) -> Iterator[f.MetricReported]:
        """Yield the metrics of the search that have arrived and are not committed yet, in order."""
        for fact in chain((recorded.fact for recorded in self._turn.recorded), self._mailbox.metrics()):
            if type(fact) is f.MetricReported and not about_confirmation(self.state, fact):
                yield fact

    def close(self) -> None:
        """Ask the runner to end after the current turn. Trials continue (see ``run``)."""
        self._closing = True
        self._mailbox.wake()

    # ---- the loop -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Process the mailbox until the runner is closed. Raise StoreError (in a group) if a commit fails."""
        end: BaseException = RunnerClosed()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                while not self._closing:
                    await self._take_turn()
                    await self._keep_open()
                    self._tell()
                self.session.interrupt()
        except BaseException as error:
            end = error
            raise
        finally:
            await self._let_go(end)

    async def _take_turn(self) -> None:
        items = await self._mailbox.take(self._seconds_to_wake())
        turn = self._turn = _Turn(at=self._clock())
        state = self.state
        for item in items:
            self._fold_item(turn, item)
        for _ in range(TURNS_WITHOUT_END):
            ahead = self.search.ahead(state) if self.search is not None else 0
            todo = plan(state, turn.at, ahead=ahead, wanted=self.session.wanted)
            fresh = [*todo.facts, *self._queue(todo.commands, turn)]
            if not fresh:
                break
            for fact in fresh:
                self._fold(turn, fact)
        else:
            raise RuntimeError(f"experiment {state.id}: planning does not come to an end: {todo}")
        self._wake_at = todo.wake_at
        await self._commit(turn)
        if turn.ask is not None and self.search is not None:
            self.search.ask(turn.ask.count, state, urgent=turn.ask.urgent)
        for wish in turn.further:
            if self.search is not None:
                self.search.ask_further(wish.trial_id, wish.index, state)

    def _seconds_to_wake(self) -> float | None:
        return None if self._wake_at is None else (self._wake_at - self._clock()).total_seconds()

    def _fold_item(self, turn: _Turn, item: Item | Request) -> None:
        if isinstance(item, Request):
            try:
                facts = item.build(self.state)
            except Exception as refusal:  # any error of a request goes to the client that sent the request
                if not item.answer.done():
                    item.answer.set_exception(refusal)
                return
            turn.answers.append((item.answer, facts))
        elif callable(item):
            facts = item(self.state)
        else:
            facts = (item,)
        for fact in facts:
            if admits(self.state, fact):
                self._fold(turn, measured(self.state, fact))

    def _fold(self, turn: _Turn, fact: f.Fact) -> None:
        recorded = f.Recorded(self.state.number + 1, turn.at, fact)
        apply(self.state, recorded)
        turn.recorded.append(recorded)

    def _queue(self, commands: Sequence[Command], turn: _Turn) -> list[f.Fact]:
        """Pass commands to the training service or keep them in ``turn``; return the facts to commit."""
        turn.ask, turn.further = None, []
        for command in commands:
            match command:
                case AskTuner():
                    turn.ask = command
                case AskFurther():
                    turn.further.append(command)
        return self.session.follow(commands, turn.at)

    async def _commit(self, turn: _Turn) -> None:
        state = self.state
        if turn.recorded:
            touched = state.take_touched()
            with self._committing.measured(state.id):
                await self._writer.append(state, turn.recorded, touched)
            self.last_number = state.number
            self.session.committed(turn.recorded, touched.jobs)
            if self.search is not None:
                self.search.committed(turn.recorded, touched, state)
        for answer, facts in turn.answers:
            if not answer.done():
                answer.set_result(facts)
        turn.recorded = []

    def _tell(self) -> None:
        """Notify ``on_turn`` and all waiting clients that the turn is over."""
        self._on_turn(self.state)
        tick, self._tick = self._tick, asyncio.get_running_loop().create_future()
        tick.set_result(None)
        if not self._first_turn.done():
            self._first_turn.set_result(None)

    # ---- service and search -------------------------------------------------------------------------------

    async def _keep_open(self) -> None:
        """Open or close the training service and the processes of tuner and assessor, as the status
        requires.
        """
        state = self.state
        live = state.status in LIVE and not self._closing
        needs_service = (live or bool(state.jobs)) and not (state.detached and state.stop_requested)
        if live and self.search is None:
            try:
                self.search = self._make_search(state, self)
            except (ValueError, OSError) as error:  # for example, a secret no longer exists
                sentence = f"the algorithms cannot be started: {error}"
                self.post(
                    f.AlgorithmFailed(role=f.Role.TUNER, call="start", sentence=sentence, hopeless=True)
                )
            else:
                self._spawn(self.search.open(state), "search")
        elif not live and self.search is not None:
            search, self.search = self.search, None
            await search.close()
        await self.session.keep(needed=needs_service, spawn=self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        assert self._group is not None
        return self._group.create_task(work, name=f"{self.state.id}:{name}")

    async def _let_go(self, end: BaseException) -> None:
        """End the runner: close its child processes and its database. Trials and keepers continue."""
        self._closing = True  # no more requests are accepted
        if not self._first_turn.done():
            _fail(self._first_turn, end)
        _fail(self._tick, closed := _closed(end))
        for item in await self._mailbox.take(0):
            if isinstance(item, Request) and not item.answer.done():
                item.answer.set_exception(closed)
        for answer, _ in self._turn.answers:
            if not answer.done():
                answer.set_exception(closed)
        if self.search is not None:
            await self.search.close()
        await self.session.detach()
        await self._writer.close(self.state if isinstance(end, RunnerClosed) else None)


def first_error(error: BaseException) -> BaseException:
    """Return the first exception in a group (or in nested groups) that is not a group itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _closed(end: BaseException) -> RunnerClosed:
    """Return the error for the requests that a runner leaves open. It says so if the database is to blame."""
    error = first_error(end)
    return RunnerClosed(str(error)) if isinstance(error, StoreError) else RunnerClosed()


def _fail(future: asyncio.Future[None], end: BaseException) -> None:
    """Set the error of a future, and mark the error as retrieved, because nobody may await the future."""
    error = first_error(end)
    future.set_exception(error if isinstance(error, Exception) else RunnerClosed())
    future.exception()
