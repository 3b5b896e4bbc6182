"""What all platforms share whose jobs are run by keepers.

A platform brings its ``KeeperHost``s (how to start a keeper there, how to tell it where the server is, what a
start command holds) and the queue that says which of them takes a job. Everything else is here: enrolment,
orders, silence. ``machine_service.py`` is for machines that stay, ``kubernetes`` for pods that come and go.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from training_services.base import (
    ExperimentContext,
    FileListing,
    FrameSkipped,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobWaiting,
    KeeperAcknowledged,
    KeeperBound,
    KeeperEnrolled,
    KeeperGone,
    KeeperHeard,
    KeeperSilent,
    KnownKeeper,
    KnownKeepers,
    Machine,
    MachineEvent,
    MetricReported,
    ParametersWanted,
    StopOrdered,
    TrainingService,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.code import archive_path
from training_services.doors import KeeperDoors, NoDoors
from training_services.keeper_host import HostGone, JobFiles, KeeperHost, Wants, attempt_folder
from training_services.keeper_hub import MAX_BACKLOG, KeeperDesk, KeeperHub, split_turn, token_digest
from training_services.keeper_link import Backlog, KeeperLink, Received
from training_services.keeper_seat import KeeperSeat
from training_services.outbox import Outbox
from training_services.placement import HostLedger
from training_services.ssh.connection import SshPool
from trial_keeper.wire import WAIT_S

__all__ = ["JobPlacing", "KeeperService", "ServiceTools"]


@dataclass(frozen=True, slots=True)
class ServiceTools:
    """What a server gives to every service.

    ``doors``: where keepers reach the server; ``machines``: one connection to each machine over SSH.
    """

    hub: KeeperHub
    ledger: HostLedger
    doors: KeeperDoors = field(default_factory=NoDoors)
    machines: SshPool = field(default_factory=SshPool)


class JobPlacing(Protocol):
    """The jobs of one experiment that have no place yet, and the seats that may give them one.

    Iterating over it gives the ids of the jobs.
    """

    def __contains__(self, job_id: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def listen(self) -> None:
        """Place jobs from now on."""

    def close(self) -> None:
        """Place no more."""

    def add(self, seat: KeeperSeat) -> None:
        """The seat takes jobs from now on."""

    def remove(self, seat: KeeperSeat) -> None:
        """It takes no more."""

    def ready(self, seat: KeeperSeat) -> None:
        """The seat's keeper has spoken for the first time, or again."""

    def left(self, seat: KeeperSeat) -> None:
        """A job has left the seat."""

    def reasons_changed(self) -> None:
        """Why jobs wait may have changed anywhere."""

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Give the job a place, or let it wait. Raises JobRejected if there will never be one."""

    def withdraw(self, job_id: str) -> bool:
        """Take the job back; False if it does not wait here."""

    def hold(self, job_id: str, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        """The job has its place on the seat, since before the service was opened."""

    def release(self, job_id: str, seat: KeeperSeat) -> bool:
        """The job holds nothing there any more, and nothing of it runs; False: that was so before."""

    def told(self, seat: KeeperSeat, received: Received) -> None:
        """The seat's keeper has called, and said perhaps what its host has."""


class KeeperService(TrainingService):
    """Runs the jobs of one experiment on hosts with keepers.

    A platform says which hosts there are when it is opened (``_known_hosts``), who places jobs on them
    (``_make_queue``), and what is done about a seat that a job has left (``_vacated``).
    """

    def __init__(self, context: ExperimentContext, tools: ServiceTools) -> None:
        self.context = context
        self._tools = tools
        self._known = KnownKeepers(db_id="", m_epoch=0)
        self._adopted = False
        self._tasks: dict[str, asyncio.Task[None]] = {}  # hosts that come or go
        self._backlog = Backlog()
        self._outbox = Outbox()
        self._seats: dict[str, KeeperSeat] = {}
        self._placed: dict[str, KeeperSeat] = {}  # job -> where
        self._queue = self._make_queue()
        self._ends: dict[str, list[asyncio.Future[None]]] = {}  # who waits for the end of a job

    @abc.abstractmethod
    def _make_queue(self) -> JobPlacing:
        """Called once, by the constructor."""

    @abc.abstractmethod
    def _known_hosts(self, known: KnownKeepers) -> Iterable[KeeperHost]:
        """The hosts that the experiment has when it is opened. Raises ServiceUnavailable."""

    def _vacated(self, seat: KeeperSeat) -> None:
        """A job has left the seat, or the seat was looked at first: now may be the time to let go of it."""
        return None

    def _parted(self, seat: KeeperSeat) -> None:
        """The seat's keeper was told to leave, or ended, for good."""
        return None

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._known = known
        hosts = {host.keeper_id: host for host in self._known_hosts(known)}
        await asyncio.gather(*(host.open() for host in hosts.values()))
        records = {keeper.keeper_id: keeper for keeper in known.keepers}
        seats = [await self._seat(host, records.get(name)) for name, host in hosts.items()]
        for name, record in records.items():
            if name not in hosts:
                self._tools.hub.bar(self.context.experiment_id, name, token_sha256=record.token_sha256)
        for seat in seats:
            self._admit(seat)
        self._queue.listen()

    def _admit(self, seat: KeeperSeat) -> None:
        self._seats[seat.id] = seat
        self._tools.hub.add(self.context.experiment_id, seat.desk)
        if not seat.draining:
            self._queue.add(seat)
        seat.enrol()

    async def _seat(self, host: KeeperHost, record: KnownKeeper | None) -> KeeperSeat:
        known, host.changed = self._known, self.reasons_changed
        manager = await host.read_manager()
        token = split_turn(str(manager.get("token", "")))[0] if manager is not None else ""
        enrolled = record is not None and token_digest(token) == record.token_sha256
        if not enrolled:
            token = host.new_token()
        link = KeeperLink(
            record
            or KnownKeeper(
                keeper_id=host.keeper_id, token_sha256="", instance=None, boot_id=None, last_cmd=0
            ),
            db_id=known.db_id,
            m_epoch=known.m_epoch,
            backlog=self._backlog,
            reads_gpus=bool((host.wants or Wants.of(self.context)).gpus),
            lease=self.context.lease,
            verdict=host.verdict,
        )
        desk = KeeperDesk(
            link=link,
            backlog=self._backlog,
            token_sha256=token_digest(token) if enrolled else None,
            deliver=self._deliver,
            archive=partial(archive_path, self.context.directory),
            wait_s=self._longest_call(host),
        )
        silent = record is not None and record.silent
        return KeeperSeat(host, desk, self, token=token, enrolled=enrolled, silent=silent, known=known)

    def _longest_call(self, host: KeeperHost) -> float:
        """Return the seconds that a call may wait: no keeper may seem silent, and no lease may end."""
        lease, silent_after = self.context.lease, self.context.silent_after
        longest = WAIT_S if lease is None else min(WAIT_S, lease.total_seconds() / 3)
        margin = min(host.call_margin, silent_after / 2)
        return min(longest, (silent_after - margin).total_seconds())

    def adopted(self) -> None:
        self._tools.ledger.rebuilt(self.context.experiment_id)
        self._adopted = True
        for seat in self._seats.values():
            seat.open()
            self._vacated(seat)

    async def close(self, *, detach: bool) -> Sequence[str]:
        left: Sequence[str | None] = ()
        self._queue.close()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if detach:
            await asyncio.gather(*(seat.stop() for seat in self._seats.values()))
        else:
            for job_id, seat in self._placed.items():
                self._queue.release(job_id, seat)
            left = await asyncio.gather(*(seat.dismiss(patient=True) for seat in self._seats.values()))
            for seat, sentence in zip(self._seats.values(), left, strict=True):
                if sentence is None:
                    self._parted(seat)
        for seat in self._seats.values():
            self._tools.hub.remove(self.context.experiment_id, seat.desk)
        await asyncio.gather(*(seat.keeper.close() for seat in self._seats.values()))
        self._outbox.close()
        return [sentence for sentence in left if sentence is not None]

    # ---- orders -------------------------------------------------------------------------------------------

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        if job.id in self._placed or job.id in self._queue:
            return None
        if job.place is not None:
            self._adopt(job, job.place)
            return None
        return self._queue.submit(job)

    def _adopt(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        seat = self._seats.get(placed.place.keeper_id)
        if seat is None:
            reason = f"its keeper {placed.place.keeper_id} is not in the configuration any more"
            self._outbox.put([JobLost(job_id=job.id, reason=reason)])
            return
        seat.link.adopt(job, seat.keeper.start_order(job, placed.place.gpus))
        self._settle_in(job.id, seat)
        self._queue.hold(job.id, seat, placed.place.gpus)

    def _start(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> JobPlaced:
        order = seat.keeper.start_order(job, gpus)
        placed = seat.link.order_start(job.id, job.trial_id, gpus=gpus, start=order)
        self._settle_in(job.id, seat)
        return placed

    def _settle_in(self, job_id: str, seat: KeeperSeat) -> None:
        self._placed[job_id] = seat
        seat.jobs.add(job_id)

    def reasons_changed(self) -> None:
        self._queue.reasons_changed()

    def put(self, events: Sequence[JobEvent]) -> None:
        self._outbox.put(events)

    def host_gone(self, seat: KeeperSeat, gone: HostGone) -> None:
        self._outbox.put(
            seat.link.fail(str(gone), datetime.now(UTC)) if gone.failed else seat.link.give_up(str(gone))
        )
        for job_id in seat.jobs:
            self._release(job_id, seat)
            self._end_waits(job_id)

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        seat = self._placed.get(job_id)
        if seat is None:
            return None
        return seat.link.order_update(job_id, index=index, parameter=parameter_text)

    def cancel_trial_job(self, job_id: str, *, grace: timedelta) -> StopOrdered | None:
        if self._queue.withdraw(job_id):
            return StopOrdered(job_id=job_id, cmd_seq=None, grace=grace)
        seat = self._placed.get(job_id)
        return None if seat is None else seat.link.order_stop(job_id, grace=grace)

    # ---- facts that were committed ------------------------------------------------------------------------

    def committed(self, facts: Sequence[JobEvent]) -> None:
        frames: dict[str, int] = {}
        touched: dict[KeeperSeat, None] = {}
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

    def _take_fact(self, fact: JobEvent) -> KeeperSeat | None:
        """Apply one fact; the seat whose calls it may answer."""
        if isinstance(fact, MachineEvent):
            return None
        if isinstance(fact, KeeperEnrolled | KeeperBound | KeeperAcknowledged):
            keeper_seat = self._seats.get(fact.keeper_id)
            if keeper_seat is not None:
                self._take_keeper_fact(fact, keeper_seat)
            return keeper_seat
        if isinstance(fact, KeeperSilent | KeeperHeard | KeeperGone):
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
                seat.expect_obedience()
            case JobEnded() | JobLost():
                self._outbox.put(seat.link.end_committed(fact.job_id, lost=isinstance(fact, JobLost)))
                seat.desk.settle(("ended", fact.job_id))
                self._end_waits(fact.job_id)
                self._leave(fact.job_id, seat)
        return seat

    def _take_keeper_fact(
        self, fact: KeeperEnrolled | KeeperBound | KeeperAcknowledged, seat: KeeperSeat
    ) -> None:
        match fact:
            case KeeperEnrolled():
                seat.enrolled(fact)
            case KeeperBound():
                seat.link.bound_committed(fact.instance, fact.boot_id)
                seat.desk.settle(("bound", fact.instance, fact.boot_id))
            case KeeperAcknowledged():
                for job_id in list(seat.closing):
                    self._forget(job_id, seat)

    def _leave(self, job_id: str, seat: KeeperSeat) -> None:
        """The job has ended for good: free its place, and forget it when its keeper needs nothing more."""
        if not seat.link.is_astray(job_id):
            self._release(job_id, seat)
        seat.closing[job_id] = None
        self._forget(job_id, seat)
        self._vacated(seat)

    def _release(self, job_id: str, seat: KeeperSeat) -> None:
        if self._queue.release(job_id, seat):
            self._queue.left(seat)

    def _forget(self, job_id: str, seat: KeeperSeat) -> None:
        if seat.link.forget_ended(job_id):
            self._release(job_id, seat)
            self._placed.pop(job_id, None)
            seat.jobs.discard(job_id)
            seat.closing.pop(job_id, None)

    # ---- hosts --------------------------------------------------------------------------------------------

    def machines(self) -> Sequence[Machine]:
        found = []
        for seat in self._seats.values():
            reading = self._tools.ledger.reading(seat.keeper.host.id)
            gpus = None if reading is None or reading.trouble is not None else len(reading.gpus)
            found.append(seat.machine(gpus=gpus))
        return found

    def _spawn(self, keeper_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Have a host come or go."""
        task = asyncio.create_task(work, name=f"{self.context.experiment_id}:{keeper_id}")
        self._tasks[keeper_id] = task

        def over(_: object) -> None:
            if self._tasks.get(keeper_id) is task:
                del self._tasks[keeper_id]

        task.add_done_callback(over)

    async def _join(self, host: KeeperHost) -> KeeperSeat:
        """Use a host from now on that nothing was committed of. Raises OSError, ServiceError."""
        await host.open()
        return await self._seat(host, None)

    def _begin(self, seat: KeeperSeat) -> None:
        """Let it take part."""
        self._admit(seat)
        if self._adopted:
            seat.open()

    async def _let_go(self, seat: KeeperSeat) -> str | None:
        """Use it no more: its keeper is told to leave; what could not be done there, as one sentence."""
        note = await seat.dismiss(patient=False)
        self._tools.hub.remove(self.context.experiment_id, seat.desk)
        await seat.keeper.close()
        for job_id in seat.jobs:
            self._queue.release(job_id, seat)
            self._placed.pop(job_id, None)
        del self._seats[seat.id]
        return note

    # ---- keepers ------------------------------------------------------------------------------------------

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        seat = self._seats[desk.link.keeper_id]
        news = seat.heard()
        self._outbox.put(received.events)
        for job_id in received.ended:
            self._release(job_id, seat)
            self._end_waits(job_id)
        self._queue.told(seat, received)
        if news:
            self._queue.ready(seat)

    def notices(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for keeper_id, seat in self._seats.items():
            if (notice := seat.notice()) is not None:
                found[f"keeper {keeper_id}"] = notice
            if seat.wants.gpus:
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

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        keeper, files = self._files(job_id, keeper_id)
        async with aclosing(keeper.read_log(files, name, follow=follow, tail=tail)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        keeper, files = self._files(job_id, keeper_id)
        async with aclosing(keeper.read_file(files, path)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        keeper, files = self._files(job_id, keeper_id)
        return await keeper.list_files(files)

    def _files(self, job_id: str, keeper_id: str | None) -> tuple[KeeperHost, JobFiles]:
        """Who reads the files of this job, and where they are. Raises FileNotFoundError."""
        seat = self._placed.get(job_id) or self._seats.get(keeper_id or "")
        if seat is None:
            raise FileNotFoundError(f"{job_id} has not run on a machine of this experiment")
        _, trial_id, attempt = job_id.rsplit("-", 2)
        files = JobFiles(
            job_id=job_id,
            parts=attempt_folder(trial_id, int(attempt)),
            keeper=seat.desk,
            is_open=partial(self._is_open, job_id),
            ended=partial(self._ended, job_id),
        )
        return seat.keeper, files

    def _is_open(self, job_id: str) -> bool:
        """Whether the job waits or runs."""
        seat = self._placed.get(job_id)
        return job_id in self._queue if seat is None else seat.link.is_open(job_id)

    def _end_waits(self, job_id: str) -> None:
        """The keeper has reported the end of this job."""
        for waiter in self._ends.pop(job_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def _ended(self, job_id: str, seconds: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._ends.setdefault(job_id, [])
        waiters.append(waiter)
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            if not waiter.done():
                waiters.remove(waiter)
                if not waiters:
                    self._ends.pop(job_id, None)
