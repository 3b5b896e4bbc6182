"""ExperimentRunner: the only writer of an experiment's truth, and the only async orchestration of it.

Mailbox -> (fold -> plan, until nothing follows) -> one commit -> act and answer. An action never raises into
the loop; a failed commit ends the runner, and NNIManager starts another from the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from nnimgr.config import check_feasibility
from nnimgr.core.running import requests
from nnimgr.core.running.mailbox import Mailbox, Request
from nnimgr.core.running.requests import FailedTrial, RequestRefused
from nnimgr.core.running.search import Builder, Item, Notice, Search
from nnimgr.rules import facts as f
from nnimgr.rules.activity import happening
from nnimgr.rules.commands import AskFurther, AskTuner, CancelJob, Command, SubmitJob, UpdateJob
from nnimgr.rules.fold import admits, apply, measured
from nnimgr.rules.phases import parameter_record
from nnimgr.rules.plan import plan
from nnimgr.rules.state import AddedTrial, ExperimentState, Touched, TrialState
from training_services.base import (
    JobRejected,
    KnownKeeper,
    KnownKeepers,
    KnownMachine,
    ServiceUnavailable,
    TrainingService,
    TrialJobSpec,
)

logger = logging.getLogger(__name__)

SERVICE_RETRY_S = (1.0, 30.0)  # first and longest wait before a service is opened again
LAST_EVENTS_S = 1.0
TURNS_WITHOUT_END = 10_000
FRUITLESS = 5  # so many trials in a row without a result are told

LIVE = frozenset({f.ExperimentStatus.INITIALIZED, f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING})


class Writer(Protocol):
    """Where turns are committed (``nnimgr.store.writer.ExperimentWriter``)."""

    db_id: str
    m_epoch: int

    async def append(self, state: ExperimentState, turn: Sequence[f.Recorded], touched: Touched) -> None: ...

    async def close(self, state: ExperimentState | None = None) -> None: ...


class RunnerClosed(RequestRefused):
    """The experiment's runner has ended."""

    def __init__(self) -> None:
        super().__init__("the experiment is being closed; try again")


@dataclass(slots=True)
class _Turn:
    """One pass of the loop: what was taken, what followed, and whom to answer."""

    at: datetime
    recorded: list[f.Recorded] = field(default_factory=list)
    answers: list[tuple[asyncio.Future[Sequence[f.Fact]], Sequence[f.Fact]]] = field(default_factory=list)
    ask: AskTuner | None = None
    further: list[AskFurther] = field(default_factory=list)


class ExperimentRunner:
    """Runs one experiment until ``close``. ``opening`` are the facts of the first turn."""

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
    ) -> None:
        self.state = state
        self.last_number = state.number
        self.service: TrainingService | None = None
        self.closing: TrainingService | None = (
            None  # it lets go, and may yet bring here what jobs have written
        )
        self._opening: TrainingService | None = None  # it has not adopted the jobs yet
        self.service_notice: str | None = None
        self.left: Sequence[str] = ()  # what the last end of the service may have left on machines: sentences
        self.search: Search | None = None
        self._writer = writer
        self._make_service, self._make_search = make_service, make_search
        self._clock, self._on_turn = clock, on_turn
        self._mailbox = Mailbox()
        self._door: dict[str, int] = {}  # job -> position of the next frame that is news
        self._turn = _Turn(at=clock())
        self._wake_at: datetime | None = None
        self._closing = False
        self._rerunning = asyncio.Lock()
        self._keepers_left = bool(state.keepers)
        self._tick = asyncio.get_running_loop().create_future()
        self._first_turn = asyncio.get_running_loop().create_future()
        self._group: asyncio.TaskGroup | None = None
        self._pump: asyncio.Task[None] | None = None
        for fact in opening:
            self._mailbox.put(fact)

    # ---- asked from outside -------------------------------------------------------------------------------

    def post(self, item: Item, *, urgent: bool = True) -> None:
        """Put a fact, or a builder of facts, into the mailbox; one that is not urgent waits for company."""
        self._mailbox.put(item, urgent=urgent)

    async def request(self, build: Builder) -> Sequence[f.Fact]:
        """Facts that a user wants, once they are committed.

        ``build`` sees the state of the turn that takes it and may raise RequestRefused.
        """
        if self._closing:
            raise RunnerClosed
        answer: asyncio.Future[Sequence[f.Fact]] = asyncio.get_running_loop().create_future()
        self._mailbox.put(Request(build, answer))
        return await answer

    async def add_trial(self, parameters: Any, *, key: str | None = None) -> AddedTrial:
        """Add a customised trial; if a previous request had the same ``key``, return its trial instead.

        Raises RequestRefused, ValueError (not JSON).
        """
        addition = requests.TrialAddition(parameters, outstanding=self.outstanding, key=key)
        await self.request(addition)
        assert addition.added is not None
        return addition.added

    async def rerun(self, find: Callable[[], Sequence[FailedTrial]]) -> Sequence[f.Suggested]:
        """Run failed trials again; ``find`` reads which, in a thread. Raises what it does, RequestRefused.

        One at a time: the next one sees in the database what was run again.
        """
        async with self._rerunning:
            trials = await asyncio.to_thread(find)
            facts = await self.request(requests.rerun(trials))
            return [fact for fact in facts if isinstance(fact, f.Suggested)]

    async def stop_trial(self, trial_id: str) -> None:
        """Stop a trial; returns once that is durable. Raises UnknownTrial."""
        await self.request(requests.stop_trial(trial_id))

    async def stop_trials(self, trial_ids: Sequence[str]) -> set[str]:
        """Stop those of these trials that are alive, in one turn; returns them once that is durable."""
        facts = await self.request(requests.stop_trials(trial_ids))
        return {fact.trial_id for fact in facts if isinstance(fact, f.StopRequested)}

    async def lose_trial(self, trial_id: str) -> None:
        """Count a trial whose machine is silent as lost; returns once that is durable.

        Raises UnknownTrial, RequestRefused.
        """
        await self.request(requests.lose_trial(trial_id))

    async def change_config(self, changes: Mapping[str, Any]) -> None:
        """Change top-level fields. Raises ConfigError, RequestRefused."""
        after = requests.changed_config(self.state, changes)
        if after.search_space_constraints:
            await asyncio.to_thread(check_feasibility, after)  # it draws sets, which is no work for the loop
        await self.request(requests.change_config(changes))

    async def import_data(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Give the tuner results from elsewhere. Raises RequestRefused."""
        await self.request(await asyncio.to_thread(requests.import_data, records))

    async def stop(self, *, detach: bool) -> list[str]:
        """Stop the experiment; returns once nothing of it runs, or with the trials that run on.

        Those are all if it is detached, and those that may still run on machines that are silent: they end
        when these are heard again, as long as there is a server. Raises RequestRefused if it is resumed
        meanwhile.
        """
        await self.request(requests.stop_experiment(detach=detach))
        opened_at = self.state.opened_at
        while self.state.status in LIVE or self.search is not None or self._is_serving():
            if self.state.opened_at != opened_at:
                raise RequestRefused(f"experiment {self.state.id} was resumed while it was being stopped")
            await asyncio.shield(self._tick)
        placed = {job.trial_id for job in self.state.jobs.values() if job.placed is not None}
        live = [trial_id for trial_id in self.state.trials if trial_id in placed]
        return live or list(dict.fromkeys(job.trial_id for job in self.state.jobs.values() if job.lost))

    def _is_serving(self) -> bool:
        """There is a service, and not only for what silent hosts may have left."""
        return self._pump is not None and not self.awaits_silent

    @property
    def awaits_silent(self) -> bool:
        """There is a service, and only because of what silent hosts are yet to be told."""
        return self._pump is not None and bool(self.state.jobs) and self.state.over

    async def committed_after(self, number: int) -> int:
        """Wait until a fact with a higher number is committed; the highest number then.

        Raises RunnerClosed.
        """
        while self.last_number <= number:
            await asyncio.shield(self._tick)
        return self.last_number

    async def opened(self) -> None:
        """Wait until the first turn is over. Raises StoreError, or whatever ended the runner before."""
        await asyncio.shield(self._first_turn)

    def active(self) -> timedelta:
        """How long the experiment has been running, by its own clock."""
        return self.state.active_for(self._clock())

    def now(self) -> str:
        """What it is doing, in one sentence without its end."""
        return happening(
            self.state,
            self._clock(),
            searching=self.search is not None,
            outstanding=self.outstanding,
            service_trouble=self.service_notice if self.service is None else None,
        )

    @property
    def notices(self) -> Mapping[str, Notice]:
        """What is so at present and is not stored: long calls, a platform that cannot be used."""
        found = dict(self.search.all_notices) if self.search is not None else {}
        if self.service is not None:
            found |= {about: Notice(sentence=told) for about, told in self.service.notices().items()}
        if self.service_notice is not None:
            found["service"] = Notice(sentence=self.service_notice)
        if self.state.missing:
            sentence = (
                "the database was replaced by an older one, or lost its write-ahead log: "
                f"{self.state.missing} recorded events are missing; trials that it does not know were stopped"
            )
            found["database"] = Notice(sentence=sentence)
        if self.state.fruitless >= FRUITLESS:
            sentence = (
                f"{FRUITLESS} or more trials in a row have ended without a result that the tuner can use: "
                f"the first of them, {self.state.fruitless_since}"
            )
            found["results"] = Notice(sentence=sentence)
        return found

    @property
    def outstanding(self) -> int:
        """Suggestions that the tuner has been asked for and has not given."""
        return self.search.outstanding if self.search is not None else 0

    def pending_metrics(self) -> Iterator[f.MetricReported]:
        """The metrics that have arrived and are not committed yet, in order."""
        for recorded in self._turn.recorded:
            if type(recorded.fact) is f.MetricReported:
                yield recorded.fact
        yield from self._mailbox.metrics()

    def close(self) -> None:
        """End after the present turn; trials run on (see ``run``)."""
        self._closing = True
        self._mailbox.wake()

    # ---- the loop -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take turns until closed; then leave a snapshot. Raises StoreError (inside a group)."""
        end: BaseException = RunnerClosed()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                while not self._closing:
                    await self._take_turn()
                    await self._keep_open()
                    self._tell()
                if self._pump is not None:
                    self._pump.cancel()
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
            ahead = self.search.ahead(state.limits) if self.search is not None else 0
            todo = plan(state, turn.at, ahead=ahead)
            fresh = [*todo.facts, *self._queue(todo.commands, turn)]
            if not fresh:
                break
            for fact in fresh:
                self._fold(turn, fact)
        else:
            raise RuntimeError(f"experiment {state.id}: the plan does not come to an end: {todo}")
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
            except Exception as refusal:  # whatever a request is refused with goes to who asked
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
        """Hand the commands to the service; the facts to commit with this turn."""
        turn.ask, turn.further = None, []
        facts: list[f.Fact] = []
        service = self.service
        for command in commands:
            match command:
                case AskTuner():
                    turn.ask = command
                case AskFurther():
                    turn.further.append(command)
                case SubmitJob() if service is not None:
                    facts += self._submit(service, self.state.trials[command.trial_id], command.job_id, turn)
                case CancelJob() if service is not None:
                    order = service.cancel_trial_job(command.job_id, grace=command.grace)
                    if order is not None:
                        facts.append(order)
                case UpdateJob() if service is not None:
                    update = service.update_trial_job(command.job_id, command.index, command.record)
                    if update is not None:
                        facts.append(update)
        return facts

    def _submit(
        self, service: TrainingService, trial: TrialState, job_id: str, turn: _Turn
    ) -> Sequence[f.Fact]:
        try:
            answer = service.submit_trial_job(job_spec(trial, job_id))
        except JobRejected as error:
            reason = str(error)
            return (
                f.JobWaiting(job_id=job_id, reason=reason),
                f.JobEnded(
                    job_id=job_id,
                    reason=f.EndReason.NEVER_STARTED,
                    exit_code=None,
                    signal=None,
                    metrics=0,
                    acked_cmd=0,
                    ended_at=turn.at,
                    message=reason,
                ),
            )
        return () if answer is None else (answer,)

    async def _commit(self, turn: _Turn) -> None:
        state = self.state
        if turn.recorded:
            touched = state.take_touched()
            await self._writer.append(state, turn.recorded, touched)
            self.last_number = state.number
            if self.service is not None:
                self.service.committed([r.fact for r in turn.recorded if isinstance(r.fact, f.JobEvent)])
            if self.search is not None:
                self.search.committed(turn.recorded, touched, state)
            for job_id in touched.jobs:
                if job_id not in state.jobs or state.jobs[job_id].closed:
                    self._door.pop(job_id, None)
        for answer, facts in turn.answers:
            if not answer.done():
                answer.set_result(facts)
        turn.recorded = []

    def _tell(self) -> None:
        """The turn is over: wake those who follow the log."""
        self._on_turn(self.state)
        tick, self._tick = self._tick, asyncio.get_running_loop().create_future()
        tick.set_result(None)
        if not self._first_turn.done():
            self._first_turn.set_result(None)

    # ---- service and search -------------------------------------------------------------------------------

    async def _keep_open(self) -> None:
        """Have a service and children exactly while the experiment needs them."""
        state = self.state
        live = state.status in LIVE and not self._closing
        needs_service = (live or bool(state.jobs)) and not (state.detached and state.stop_requested)
        if live and self.search is None:
            try:
                self.search = self._make_search(state, self)
            except (ValueError, OSError) as error:  # a secret that is not there any more, say
                sentence = f"the algorithms cannot be started: {error}"
                self.post(f.AlgorithmFailed(role="tuner", call="start", sentence=sentence, hopeless=True))
            else:
                self._spawn(self.search.open(state), "search")
        elif not live and self.search is not None:
            search, self.search = self.search, None
            await search.close()
        if needs_service and self._pump is None:
            self._pump = self._spawn(self._serve(), "service")
            self._keepers_left, self.left = False, ()
        elif not needs_service and self._pump is not None:
            pump, self._pump, opened = self._pump, None, self.service is not None
            service, self.service, self._opening = self.service or self._opening, None, None
            if not opened:
                pump.cancel()
            if service is not None:
                self.closing = service
                self.left = await service.close(detach=state.detached)
                self.closing = None
            await asyncio.wait({pump}, timeout=LAST_EVENTS_S)  # it brings what the service said last
            pump.cancel()
        elif self._keepers_left and not needs_service and not state.detached:
            # The last server died between the experiment's end and that of its keepers.
            self._keepers_left = False
            with contextlib.suppress(ServiceUnavailable):
                service = self._make_service(state)
                await service.open(self._known_keepers())
                await service.close(detach=False)
                async for events in service.events():  # which keepers are gone for good
                    for event in events:
                        self._arrived(event)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        assert self._group is not None
        return self._group.create_task(work, name=f"{self.state.id}:{name}")

    async def _serve(self) -> None:
        """Open the service, submit again what the state holds, and bring its events."""
        delay, longest = SERVICE_RETRY_S
        while True:
            try:
                service = self._opening = self._make_service(self.state)
                await service.open(self._known_keepers())
                break
            except ServiceUnavailable as error:
                self.service_notice = str(error)
                logger.warning("experiment %s: %s", self.state.id, error)
                await asyncio.sleep(delay)  # back-off
                delay = min(2 * delay, longest)
        self.service_notice = None
        self.post(lambda state: self._adopt(service, state))
        async for events in service.events():
            await self._mailbox.room()
            for event in events:
                self._arrived(event)
            if self.search is not None:
                self.search.flush()

    def _adopt(self, service: TrainingService, state: ExperimentState) -> Sequence[f.Fact]:
        """Between two turns: from here on the service has every job that the state has."""
        facts: list[f.Fact] = []
        if self._opening is not service:  # it was closed meanwhile
            return facts
        for job in state.jobs.values():
            trial = state.trials.get(job.trial_id)
            if job.closed or trial is None:
                continue
            answer = service.submit_trial_job(job_spec(trial, job.id, state=state))
            if answer is not None:
                facts.append(answer)
            self._door[job.id] = job.recorded
        service.adopted()
        self.service, self._opening = service, None
        return facts

    def _arrived(self, event: f.JobEvent) -> None:
        """An event at the mailbox's door: doubled frames are dropped, the assessor is fed."""
        if isinstance(event, f.MetricReported | f.FrameSkipped | f.ParametersWanted):
            if event.position != self._door.get(event.job_id, 0):
                return
            self._door[event.job_id] = event.position + 1
            if self.search is not None and self.search.judges and type(event) is f.MetricReported:
                self.search.judge(event)
        # What makes nobody act may wait for the end that often follows: one commit less a trial.
        self._mailbox.put(event, urgent=not isinstance(event, f.MetricReported | f.JobStarted))

    def _known_keepers(self) -> KnownKeepers:
        state = self.state
        last: dict[str, int] = {}
        for job in state.jobs.values():
            if job.placed is not None:
                keeper_id = job.placed.place.keeper_id
                last[keeper_id] = max(last.get(keeper_id, 0), job.last_cmd)
        return KnownKeepers(
            db_id=self._writer.db_id,
            m_epoch=self._writer.m_epoch,
            keepers=tuple(
                KnownKeeper(
                    keeper_id=keeper_id,
                    token_sha256=keeper.token_sha256,
                    instance=keeper.instance,
                    retired=tuple(keeper.retired),
                    boot_id=keeper.boot_id,
                    silent=keeper.silent is not None,
                    last_cmd=max(last.get(keeper_id, 0), keeper.acked_cmd),
                )
                for keeper_id, keeper in state.keepers.items()
            ),
            machines=tuple(
                KnownMachine(
                    keeper_id=keeper_id,
                    added=machine.added,
                    draining=machine.draining,
                    removing=machine.removing,
                    gone=machine.gone,
                )
                for keeper_id, machine in state.machines.items()
            ),
        )

    async def _let_go(self, end: BaseException) -> None:
        """The runner ends: trials and keepers run on, children end, the database is closed."""
        self._closing = True  # nobody takes a request any more
        if not self._first_turn.done():
            _fail(self._first_turn, end)
        _fail(self._tick, RunnerClosed())
        for item in await self._mailbox.take(0):
            if isinstance(item, Request) and not item.answer.done():
                item.answer.set_exception(RunnerClosed())
        for answer, _ in self._turn.answers:
            if not answer.done():
                answer.set_exception(RunnerClosed())
        if self.search is not None:
            await self.search.close()
        service = self.service or self._opening
        if service is not None:
            await service.close(detach=True)
        await self._writer.close(self.state if isinstance(end, RunnerClosed) else None)


def first_error(error: BaseException) -> BaseException:
    """The first exception of a group that is none itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _fail(future: asyncio.Future[None], end: BaseException) -> None:
    """Tell whoever waits; nobody has to."""
    error = first_error(end)
    future.set_exception(error if isinstance(error, Exception) else RunnerClosed())
    future.exception()


def job_spec(trial: TrialState, job_id: str, *, state: ExperimentState | None = None) -> TrialJobSpec:
    """The job as a service wants it; with ``state``, what is committed about it already."""
    job = state.jobs[job_id] if state is not None else None
    return TrialJobSpec(
        id=job_id,
        trial_id=trial.id,
        attempt=trial.attempt,
        sequence=trial.sequence,
        parameter_text=parameter_record(trial),
        place=job.placed if job else None,
        stop=job.stop if job else None,
        updates=tuple(job.updates) if job else (),
        recorded=job.recorded if job else 0,
        started=job is not None and job.started_at is not None,
    )
