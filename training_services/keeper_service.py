"""What all platforms share whose jobs are run by keepers.

A platform brings its ``KeeperHost``s (how to start a keeper there, and how to tell it where the server is)
and says what a start command holds. Everything else is here: enrolment, placement, orders, silence.
"""

from __future__ import annotations

import abc
import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from training_services.base import (
    Capabilities,
    EndReason,
    ExperimentContext,
    FrameSkipped,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KeeperAcknowledged,
    KeeperBound,
    KeeperEnrolled,
    KeeperHeard,
    KeeperSilent,
    KnownKeeper,
    KnownKeepers,
    MetricReported,
    ParametersWanted,
    ServiceError,
    StopOrdered,
    TrainingService,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.keeper_host import KeeperHost
from training_services.keeper_hub import MAX_BACKLOG, KeeperDesk, KeeperHub, token_digest
from training_services.keeper_link import Backlog, KeeperLink, Received, StartOrder
from training_services.outbox import Outbox
from training_services.placement import HostLedger, Need, Waits
from trial_keeper.wire import PATH, WAIT_S

__all__ = ["KeeperHost", "KeeperService", "ServiceTools"]

logger = logging.getLogger(__name__)

SHORT_LIFE_S = 1.0  # a keeper that ended sooner is not started again at once
PAUSES_S = (0.05, 5.0)  # first and longest such pause
FIRST = 8  # so many waiting jobs are told whatever is new of why they wait; what an event costs is bounded
LOOK_AGAIN_S = 5.0  # at what is in the way of every start: nothing tells when it has gone


@dataclass(frozen=True, slots=True)
class ServiceTools:
    """What a server gives to every service. ``urls``: where keepers reach it, as "http://host:port"."""

    hub: KeeperHub
    ledger: HostLedger
    urls: Sequence[str]


@dataclass(slots=True, eq=False)
class _Seat:
    """A host, its keeper's desk, and what is known of the keeper."""

    keeper: KeeperHost
    desk: KeeperDesk
    token: str
    enrolled: bool  # its token is committed
    jobs: set[str] = field(default_factory=set)  # placed here, until they are forgotten
    closing: dict[str, None] = field(default_factory=dict)  # those of them that have ended
    tending: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    heard_at: float = 0.0  # on the loop's clock
    silent: bool = False
    ready: bool = False  # it has spoken, and who waited for that has a place
    trouble: str | None = None  # why the keeper does not run

    @property
    def link(self) -> KeeperLink:
        return self.desk.link


class KeeperService(TrainingService):
    """A platform of keepers. Subclasses give ``find_hosts`` and ``start_order``."""

    capabilities = Capabilities(updates=True)

    def __init__(self, context: ExperimentContext, tools: ServiceTools) -> None:
        self.context = context
        self._tools = tools
        self._db_id = ""
        self._backlog = Backlog()
        self._outbox = Outbox()
        self._seats: dict[str, _Seat] = {}
        self._placed: dict[str, _Seat] = {}  # job -> where
        self._queue: OrderedDict[str, TrialJobSpec] = OrderedDict()  # not placed; its front is found at once
        self._waits: dict[str, str] = {}  # the sentence that each of them was told last
        self._adopted = False
        self._look: asyncio.TimerHandle | None = None  # at what was in the way
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- for the platform ---------------------------------------------------------------------------------

    @abc.abstractmethod
    async def find_hosts(self) -> Sequence[KeeperHost]:
        """The hosts of this experiment, checked. Raises ServiceUnavailable."""

    def obstacle(self) -> str | None:
        """Why no job can be started at present, as one sentence: looked at before each is placed."""
        return None

    @abc.abstractmethod
    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        """The start command of a job on these GPUs."""

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._db_id = known.db_id
        records = {keeper.keeper_id: keeper for keeper in known.keepers}
        for host in await self.find_hosts():
            self._seats[host.keeper_id] = await self._seat(host, records.get(host.keeper_id), known)
        for seat in self._seats.values():
            self._tools.hub.add(self.context.experiment_id, seat.desk)
            if not seat.enrolled:
                digest = token_digest(seat.token)
                self._outbox.put([KeeperEnrolled(keeper_id=seat.keeper.keeper_id, token_sha256=digest)])
        self._tools.ledger.listen(self, self._place_waiting, experiment_id=self.context.experiment_id)

    async def _seat(self, host: KeeperHost, record: KnownKeeper | None, known: KnownKeepers) -> _Seat:
        manager = await host.read_manager()
        token = str(manager.get("token", "")) if manager is not None else ""
        enrolled = record is not None and token_digest(token) == record.token_sha256
        if not enrolled:
            token = secrets.token_urlsafe(32)
        link = KeeperLink(
            record
            or KnownKeeper(
                keeper_id=host.keeper_id, token_sha256="", instance=None, boot_id=None, last_cmd=0
            ),
            db_id=known.db_id,
            m_epoch=known.m_epoch,
            backlog=self._backlog,
            reads_gpus=bool(self.context.trial_gpu_number),
        )
        desk = KeeperDesk(
            link=link,
            backlog=self._backlog,
            token_sha256=token_digest(token) if enrolled else None,
            deliver=self._deliver,
            wait_s=min(WAIT_S, self.context.silent_after.total_seconds() / 2),
        )
        silent = record is not None and record.silent
        return _Seat(host, desk, token, enrolled, silent=silent)

    def adopted(self) -> None:
        self._adopted = True
        self._tools.ledger.rebuilt(self.context.experiment_id)
        for seat in self._seats.values():
            seat.desk.open = True
            if seat.enrolled:
                self._tend(seat)

    async def close(self, *, detach: bool) -> None:
        self._tools.ledger.ignore(self)
        if self._look is not None:
            self._look.cancel()
        for seat in self._seats.values():
            if seat.timer is not None:
                seat.timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not detach:
            for job_id, seat in self._placed.items():
                self._tools.ledger.release(seat.keeper.host.id, job_id)
            await asyncio.gather(*(self._dismiss(seat) for seat in self._seats.values()))
        for seat in self._seats.values():
            self._tools.hub.remove(self.context.experiment_id, seat.desk)
            await seat.keeper.close()
        self._outbox.close()

    async def _dismiss(self, seat: _Seat) -> None:
        seat.link.leaving = True
        seat.desk.flush()
        try:
            await seat.keeper.end(told=seat.link.ready)
        except (OSError, ServiceError) as error:
            logger.warning("the keeper on %s could not be ended: %s", seat.keeper.host.name, error)

    # ---- orders -------------------------------------------------------------------------------------------

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        if job.id in self._placed or job.id in self._queue:
            return None
        if job.place is not None:
            self._adopt(job, job.place)
            return None
        outcome = self._place(job)
        if isinstance(outcome, JobPlaced):
            return outcome
        self._queue[job.id] = job
        reason = self._waits[job.id] = outcome.told(first=len(self._queue) <= FIRST)
        return JobWaiting(job_id=job.id, reason=reason)

    def _adopt(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        seat = self._seats.get(placed.place.keeper_id)
        if seat is None:
            reason = f"its keeper {placed.place.keeper_id} is not in the configuration any more"
            self._outbox.put([JobLost(job_id=job.id, reason=reason)])
            return
        seat.link.adopt(job, self.start_order(job, placed.place.gpus))
        self._settle_in(job.id, seat)
        self._tools.ledger.hold(self._need(job), seat.keeper.host, placed.place.gpus)

    def _place(self, job: TrialJobSpec) -> JobPlaced | Waits:
        """Raises JobRejected if no host will ever do."""
        need = self._need(job)
        obstacle = self.obstacle()
        if obstacle is not None and self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)
        waits: list[Waits] = []
        rejections: list[JobRejected] = []
        for seat in sorted(self._seats.values(), key=lambda seat: len(seat.jobs)):
            host = seat.keeper.host
            try:
                if obstacle is not None or not seat.link.ready:
                    self._tools.ledger.check(need, host)
                    waits.append(Waits(obstacle or _not_ready(seat)))
                    continue
                gpus = self._tools.ledger.place(need, host)
            except JobRejected as rejection:
                rejections.append(rejection)
                continue
            if isinstance(gpus, Waits):
                waits.append(gpus)
                continue
            order = self.start_order(job, gpus)
            placed = seat.link.order_start(job.id, job.trial_id, gpus=gpus, start=order)
            self._settle_in(job.id, seat)
            return placed
        if not waits:
            raise rejections[0]
        return Waits(
            *("; ".join(dict.fromkeys(w.told(first=first) for w in waits)) for first in (True, False))
        )

    def _settle_in(self, job_id: str, seat: _Seat) -> None:
        self._placed[job_id] = seat
        seat.jobs.add(job_id)

    def _need(self, job: TrialJobSpec) -> Need:
        context = self.context
        return Need(experiment_id=context.experiment_id, job_id=job.id, gpus=context.trial_gpu_number)

    def _place_waiting(self, *, tell_all: bool = False) -> None:
        """Place what can be placed, first come first served; tell the first of the rest, or all, why not.

        All jobs of an experiment need the same: where one has to wait, those behind it have to.
        """
        for job in self._front():
            event: JobEvent
            try:
                outcome = self._place(job)
            except JobRejected as rejection:
                event = _rejected(job.id, str(rejection))
            else:
                if isinstance(outcome, Waits):
                    self._tell_why(outcome, number=len(self._queue) if tell_all else FIRST)
                    return
                event = outcome
            del self._queue[job.id], self._waits[job.id]
            self._outbox.put([event])

    def _front(self) -> Iterator[TrialJobSpec]:
        """The first job of the queue, as long as there is another one each time."""
        while self._queue:
            yield next(iter(self._queue.values()))

    def _tell_why(self, waits: Waits, *, number: int) -> None:
        news: list[JobEvent] = []
        for position, job_id in enumerate(islice(self._queue, number)):
            reason = waits.told(first=position < FIRST)
            if reason != self._waits[job_id]:
                self._waits[job_id] = reason
                news.append(JobWaiting(job_id=job_id, reason=reason))
        self._outbox.put(news)

    def _look_again(self) -> None:
        self._look = None
        self._place_waiting(tell_all=True)

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        seat = self._placed.get(job_id)
        if seat is None:
            return None
        return seat.link.order_update(job_id, index=index, parameter=parameter_text)

    def cancel_trial_job(self, job_id: str, *, grace: timedelta) -> StopOrdered | None:
        if self._queue.pop(job_id, None) is not None:
            del self._waits[job_id]
            return StopOrdered(job_id=job_id, cmd_seq=None, grace=grace)
        seat = self._placed.get(job_id)
        return None if seat is None else seat.link.order_stop(job_id, grace=grace)

    # ---- facts that were committed ------------------------------------------------------------------------

    def committed(self, facts: Sequence[JobEvent]) -> None:
        frames: dict[str, int] = {}
        touched: dict[_Seat, None] = {}
        held_back = self._backlog.frames > MAX_BACKLOG
        for fact in facts:
            if type(fact) is MetricReported:
                frames[fact[0]] = fact[1] + 1
            elif isinstance(fact, FrameSkipped | ParametersWanted):
                frames[fact.job_id] = fact.position + 1
            elif (seat := self._take_fact(fact)) is not None:
                touched[seat] = None
        for job_id, count in frames.items():
            if (seat := self._placed.get(job_id)) is not None:
                seat.link.frames_committed(job_id, count)
                touched[seat] = None
        if held_back and self._backlog.frames <= MAX_BACKLOG:
            touched = dict.fromkeys(self._seats.values())
        for seat in touched:
            seat.desk.flush()

    def _take_fact(self, fact: JobEvent) -> _Seat | None:
        """Apply one fact; the seat whose calls it may answer."""
        if isinstance(fact, KeeperEnrolled | KeeperBound | KeeperAcknowledged):
            keeper_seat = self._seats.get(fact.keeper_id)
            if keeper_seat is not None:
                self._take_keeper_fact(fact, keeper_seat)
            return keeper_seat
        if isinstance(fact, KeeperSilent | KeeperHeard):
            return None
        seat = self._placed.get(fact.job_id)
        if seat is None:
            return None
        match fact:
            case JobPlaced() | UpdateOrdered():
                seat.link.command_committed(fact.job_id, fact.cmd_seq)
            case StopOrdered(cmd_seq=None):  # its start was withdrawn
                self._leave(fact.job_id, seat)
            case StopOrdered(cmd_seq=int(seq)):
                seat.link.command_committed(fact.job_id, seq)
            case JobEnded() | JobLost():
                self._outbox.put(seat.link.end_committed(fact.job_id, lost=isinstance(fact, JobLost)))
                seat.desk.settle(("ended", fact.job_id))
                self._leave(fact.job_id, seat)
        return seat

    def _take_keeper_fact(self, fact: KeeperEnrolled | KeeperBound | KeeperAcknowledged, seat: _Seat) -> None:
        match fact:
            case KeeperEnrolled():
                if not seat.enrolled and fact.token_sha256 == token_digest(seat.token):
                    seat.enrolled = True
                    seat.desk.token_sha256 = fact.token_sha256
                    if self._adopted:
                        self._tend(seat)
            case KeeperBound():
                seat.link.bound_committed(fact.instance, fact.boot_id)
                seat.desk.settle(("bound", fact.instance, fact.boot_id))
            case KeeperAcknowledged():
                for job_id in list(seat.closing):
                    self._forget(job_id, seat)

    def _leave(self, job_id: str, seat: _Seat) -> None:
        """The job has ended for good: free its place, and forget it when its keeper needs nothing more."""
        self._tools.ledger.release(seat.keeper.host.id, job_id)
        seat.closing[job_id] = None
        self._forget(job_id, seat)

    def _forget(self, job_id: str, seat: _Seat) -> None:
        if seat.link.forget_ended(job_id):
            self._placed.pop(job_id, None)
            seat.jobs.discard(job_id)
            seat.closing.pop(job_id, None)

    # ---- keepers ------------------------------------------------------------------------------------------

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        seat = self._seats[desk.link.keeper_id]
        seat.heard_at = asyncio.get_running_loop().time()
        seat.trouble = None
        if seat.silent:
            seat.silent = False
            self._outbox.put([KeeperHeard(keeper_id=seat.keeper.keeper_id)])
        self._outbox.put(received.events)
        for job_id in received.ended:
            self._tools.ledger.release(seat.keeper.host.id, job_id)
            self.job_ended(job_id)
        if received.gpus is not None:
            self._tools.ledger.read(seat.keeper.host.id, self, received.gpus)
        if not seat.ready:
            seat.ready = True
            self._place_waiting(tell_all=True)

    def job_ended(self, job_id: str) -> None:
        """For the platform: the keeper has reported the end of this job."""
        return None

    def _tend(self, seat: _Seat) -> None:
        """Keep the seat's keeper running from now on."""
        loop = asyncio.get_running_loop()
        if seat.tending is not None:
            seat.tending.cancel()
        else:
            seat.heard_at = loop.time()
            self._listen(seat)
        seat.tending = self._spawn(self._keep(seat), name=f"{self.context.experiment_id}:keeper")

    async def _keep(self, seat: _Seat) -> None:
        loop = asyncio.get_running_loop()
        first, longest = PAUSES_S
        pause = 0.0
        while True:
            began = loop.time()
            seat.trouble = await self._run_keeper(seat)
            name = seat.keeper.host.name
            logger.warning("keeper of %s on %s: %s", self.context.experiment_id, name, seat.trouble)
            lived = loop.time() - began >= SHORT_LIFE_S
            pause = 0.0 if lived else min(max(first, 2 * pause), longest)
            if pause:
                self._place_waiting(tell_all=True)  # whoever waits is told why
                await asyncio.sleep(pause)  # back-off

    async def _run_keeper(self, seat: _Seat) -> str:
        """Start it if it does not run, and return when it has ended: what is to be said of that."""
        try:
            await seat.keeper.write_manager(self._manager(seat))  # tells, too, if its disk takes no writing
        except (OSError, ServiceError) as error:
            return f"it cannot be told where the server is: {error}"
        try:
            await seat.keeper.keep()
        except (OSError, ServiceError) as error:
            return f"it could not be started: {error}"
        return "it has ended and is started again"

    def _manager(self, seat: _Seat) -> Mapping[str, Any]:
        path = PATH.format(experiment_id=self.context.experiment_id, keeper_id=seat.keeper.keeper_id)
        urls = [url.rstrip("/") + path for url in self._tools.urls]
        return {"urls": urls, "token": seat.token, "db_id": self._db_id, "fingerprint": None}

    def _listen(self, seat: _Seat) -> None:
        """One timer per keeper: it is set anew only when it goes off."""
        loop = asyncio.get_running_loop()
        limit = self.context.silent_after.total_seconds()
        left = seat.heard_at + limit - loop.time()
        if left <= 0:
            left = limit
            if not seat.silent:
                seat.silent = True
                reason = f"no word from the keeper on {seat.keeper.host.name} for {limit:g} s"
                if seat.trouble is not None:
                    reason += f": {seat.trouble}"
                self._outbox.put([KeeperSilent(keeper_id=seat.keeper.keeper_id, reason=reason)])
            self._tend(seat)
        seat.timer = loop.call_later(left, self._listen, seat)

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def notices(self) -> Mapping[str, str]:
        found = {}
        for keeper_id, seat in self._seats.items():
            name = seat.keeper.host.name
            if seat.trouble is not None:
                found[f"keeper {keeper_id}"] = f"the keeper on {name}: {seat.trouble}"
            elif seat.link.status is not None:
                found[f"keeper {keeper_id}"] = f"on {name}: {seat.link.status}"
            if self.context.trial_gpu_number:
                trouble = self._tools.ledger.trouble(seat.keeper.host)
                if trouble is not None:
                    found[f"gpus {keeper_id}"] = trouble
        return found

    # ---- questions ----------------------------------------------------------------------------------------

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        waiting = [
            TrialJobDetail(job_id=job_id, place=None, started=False, ended=False) for job_id in self._queue
        ]
        return [detail for seat in self._seats.values() for detail in seat.link.jobs()] + waiting

    async def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        while (batch := await self._outbox.take()) is not None:
            yield batch

    def is_open(self, job_id: str) -> bool:
        """Whether the job waits or runs."""
        seat = self._placed.get(job_id)
        return job_id in self._queue if seat is None else seat.link.is_open(job_id)


def _not_ready(seat: _Seat) -> str:
    sentence = f"waits for the keeper on {seat.keeper.host.name}"
    return sentence if seat.trouble is None else f"{sentence}: {seat.trouble}"


def _rejected(job_id: str, reason: str) -> JobEnded:
    return JobEnded(
        job_id=job_id,
        reason=EndReason.NEVER_STARTED,
        exit_code=None,
        signal=None,
        metrics=0,
        acked_cmd=0,
        ended_at=datetime.now(UTC),
        message=reason,
    )
