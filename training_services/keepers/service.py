"""Training service shared by all platforms whose jobs are run by keepers.

A platform provides its hosts (``KeeperHost``) and the queue that decides which host takes a job. A host can
start a keeper and make the commands that start jobs. This class does the rest: tokens, commands, and the
detection of silent keepers. The package ``machines`` is for machines that stay, ``kubernetes`` for pods that
are created and removed.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from training_services.base import (
    CheckpointReported,
    ExperimentContext,
    FrameSkipped,
    HostVanished,
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
    MachineEvent,
    MetricReported,
    ParametersWanted,
    StopOrdered,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.job_ids import job_of_member, trial_of_job
from training_services.keepers.checkpoints import CheckpointFact
from training_services.keepers.errands import Errands
from training_services.keepers.gangs import GangFact, GangsOfJobs
from training_services.keepers.host import HostGone, JobFiles, KeeperHost, attempt_folder
from training_services.keepers.hub import MAX_BACKLOG, KeeperDesk, KeeperHub
from training_services.keepers.job_ends import JobEnds
from training_services.keepers.jobs import Backlog
from training_services.keepers.keeping import Transfers
from training_services.keepers.link import Received
from training_services.keepers.placements import Placements
from training_services.keepers.placing import JobPlacing
from training_services.keepers.prunes import Prunes
from training_services.keepers.seat import KeeperSeat
from training_services.keepers.seating import make_seat
from training_services.placement.apart import Apart
from training_services.placement.ledger import HostLedger

__all__ = ["KeeperService"]


class KeeperService(GangsOfJobs):
    """Training service that runs the jobs of one experiment on hosts with keepers.

    A platform defines which hosts exist when the service is opened (``_known_hosts``), how jobs are placed on
    them (``_make_queue``), and what happens when a job has left a host (``_vacated``).
    """

    def __init__(
        self, context: ExperimentContext, *, hub: KeeperHub, ledger: HostLedger, transfers: Transfers
    ) -> None:
        super().__init__(context, ledger, transfers)
        # called with each job that gets its first place, before any other job does
        self.on_placed: Callable[[str], None] = lambda job_id: None
        self._hub = hub
        self._known = KnownKeepers(db_id="", m_epoch=0)
        self._adopted = False
        self._errands = Errands(context.experiment_id)  # adding and removing of hosts
        self._backlog = Backlog()
        self._gangs = {}
        self._apart = Apart(self.reasons_changed)
        self._queue = self._make_queue()
        self._placed = Placements(self._queue)
        self._ends = JobEnds()

    @abc.abstractmethod
    def _make_queue(self) -> JobPlacing:
        """Return a new queue for waiting jobs. The constructor calls this once."""

    @abc.abstractmethod
    def _known_hosts(self, known: KnownKeepers) -> Iterable[KeeperHost]:
        """Return the hosts that the experiment has when the service is opened. Raises ServiceUnavailable."""

    def _vacated(self, seat: KeeperSeat) -> None:
        return None

    def _parted(self, seat: KeeperSeat) -> None:
        """Clean up after the keeper of this seat has ended, or was ordered to exit."""
        return None

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._known = known
        self._prunes = {keeper.keeper_id: Prunes(keeper) for keeper in known.keepers}
        hosts = {host.keeper_id: host for host in self._known_hosts(known)}
        await asyncio.gather(*(host.open() for host in hosts.values()))
        records = {keeper.keeper_id: keeper for keeper in known.keepers}
        seats = [await self._seat(host, records.get(name)) for name, host in hosts.items()]
        for name, record in records.items():
            if name not in hosts:
                self._hub.bar(self.context.experiment_id, name, token_sha256=record.token_sha256)
        for seat in seats:
            self._admit(seat)
        self._queue.listen()

    def _admit(self, seat: KeeperSeat) -> None:
        self._seats[seat.id] = seat
        self._hub.add(self.context.experiment_id, seat.desk)
        if not seat.draining:
            self._queue.add(seat)
        seat.enrol()

    async def _seat(self, host: KeeperHost, record: KnownKeeper | None) -> KeeperSeat:
        host.changed = self.reasons_changed
        seat = await make_seat(
            host, record, self, known=self._known, backlog=self._backlog, deliver=self._deliver
        )
        seat.link.prunes = self._prunes.setdefault(seat.id, seat.link.prunes)
        return seat

    def adopted(self) -> None:
        self._ledger.rebuilt(self.context.experiment_id)
        self._adopted = True
        self._copying.begin(self._known.copies)
        for seat in self._seats.values():
            seat.open()
            self._vacated(seat)

    async def close(self, *, detach: bool) -> Sequence[str]:
        left: Sequence[str | None] = ()
        self._queue.close()
        self._apart.close()
        unstored = None if detach else await self._copy_last()
        self._adopted = False  # from now on, no host is removed because it is no longer needed
        await self._errands.close()
        if detach:
            self._placed.release_detached()
            await asyncio.gather(*(seat.stop() for seat in self._seats.values()))
        else:
            self._placed.release_all()
            left = await asyncio.gather(*(seat.dismiss(patient=True) for seat in self._seats.values()))
            for seat, sentence in zip(self._seats.values(), left, strict=True):
                if sentence is None:
                    self._parted(seat)
        await self._copying.close()
        for seat in self._seats.values():
            self._hub.remove(self.context.experiment_id, seat.desk, barred=not detach)
        await asyncio.gather(*(seat.keeper_host.close() for seat in self._seats.values()))
        self._outbox.close()
        return [sentence for sentence in (unstored, *left) if sentence is not None]

    # ---- orders -------------------------------------------------------------------------------------------

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        if job.id in self._placed or job.id in self._queue or job.id in self._gangs:
            return None
        if job.place is not None:
            (self._adopt_gang if job.members else self._adopt)(job, job.place)
            return None
        return self._queue.submit(job)

    def _adopt(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        seat = self._seats.get(placed.place.keeper_id)
        if seat is None:
            reason = f"keeper {placed.place.keeper_id} is no longer in the configuration"
            self._outbox.put([JobLost(job_id=job.id, reason=reason)])
            return
        seat.link.jobs.adopt(job, seat.start_order(job, placed.place.gpus))
        self._placed.put(job.id, seat)
        self._queue.hold(job, seat, placed.place.gpus)

    def _start(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> JobPlaced:
        placed = seat.link.jobs.order_start(job, gpus=gpus, start=seat.start_order(job, gpus))
        self._placed.put(job.id, seat)
        self.on_placed(job.id)
        return placed

    def reasons_changed(self) -> None:
        self._queue.reasons_changed()

    def put(self, events: Sequence[JobEvent]) -> None:
        self._outbox.put(events)

    def host_gone(self, seat: KeeperSeat, gone: HostGone) -> None:
        jobs = seat.link.jobs
        self._keeping.vanished(seat, str(gone))
        self._outbox.put([HostVanished(keeper_id=seat.id, reason=str(gone))])
        ended = jobs.fail(gone, datetime.now(UTC)) if gone.failed else jobs.give_up(str(gone), gone.cause)
        self._outbox.put(ended)
        for job_id in seat.jobs:
            self._placed.release(job_id, seat)
            self._ends.came(job_id)

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        seat = self._placed.get(job_id)
        if seat is None:
            return None
        return seat.link.jobs.order_update(job_id, index=index, parameter=parameter_text)

    def cancel_trial_job(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        if self._queue.withdraw(job_id):
            return StopOrdered(job_id=job_id, cmd_seq=None, grace=grace)
        if job_id in self._gangs:
            return self._cancel_gang(job_id, grace=grace, save_within=save_within)
        seat = self._placed.get(job_id)
        if seat is None:
            return None
        return seat.link.jobs.order_stop(job_id, grace=grace, save_within=save_within)

    # ---- facts that the core has committed ----------------------------------------------------------------

    def committed(self, facts: Sequence[JobEvent]) -> None:
        frames: dict[str, int] = {}
        touched: dict[KeeperSeat, None] = {}
        held_back = self._backlog.frames > MAX_BACKLOG
        for fact in facts:
            if type(fact) is MetricReported:
                frames[fact[0]] = fact[1] + 1
            elif isinstance(fact, FrameSkipped | ParametersWanted | CheckpointReported):
                frames[fact.job_id] = fact.position + 1
            elif (seat := self._take_fact(fact)) is not None:
                touched[seat] = None
        for job_id, count in frames.items():
            if (seat := self._placed.get(job_id)) is not None:
                seat.link.jobs.frames_committed(job_id, count)
                touched[seat] = None
        if held_back and self._backlog.frames <= MAX_BACKLOG:
            touched = dict.fromkeys(self._seats.values())
        for seat in touched:
            seat.desk.flush()

    def _take_fact(self, fact: JobEvent) -> KeeperSeat | None:
        """Apply one committed fact. Return the seat of the keeper whose held calls may now be answered."""
        if isinstance(fact, CheckpointFact):
            return self._take_checkpoint_fact(fact)
        if isinstance(fact, MachineEvent | KeeperSilent | KeeperHeard | HostVanished | KeeperGone):
            return None
        if isinstance(fact, KeeperEnrolled | KeeperBound | KeeperAcknowledged):
            keeper_seat = self._seats.get(fact.keeper_id)
            if keeper_seat is not None:
                self._take_keeper_fact(fact, keeper_seat)
            return keeper_seat
        if isinstance(fact, GangFact):
            self._take_gang_fact(fact)
            return None
        if isinstance(fact, JobEnded | JobLost) and self._forget_gang(fact.job_id):
            return None
        seat = self._placed.get(fact.job_id)
        if seat is None:
            return None
        match fact:
            case JobPlaced() | UpdateOrdered():
                seat.link.jobs.command_committed(fact.job_id, fact.cmd_seq)
                if isinstance(fact, JobPlaced):
                    self._commit_places(fact)
            case StopOrdered(cmd_seq=None):  # the start was withdrawn before it was sent
                self._leave_withdrawn(fact.job_id, seat)
            case StopOrdered(cmd_seq=int(seq)):
                seat.link.jobs.command_committed(fact.job_id, seq)
                seat.expect_obedience()
            case JobEnded() | JobLost():
                self._end_committed(fact.job_id, seat, lost=isinstance(fact, JobLost))
        return seat

    def _take_keeper_fact(
        self, fact: KeeperEnrolled | KeeperBound | KeeperAcknowledged, seat: KeeperSeat
    ) -> None:
        match fact:
            case KeeperEnrolled():
                seat.enrolled(fact)
            case KeeperBound():
                seat.link.caller.bound_committed(fact.instance, fact.boot_id)
                seat.desk.settle(("bound", fact.instance, fact.boot_id))
            case KeeperAcknowledged():
                for job_id in list(seat.closing):
                    self._placed.forget_ended(job_id, seat)

    # ---- hosts --------------------------------------------------------------------------------------------

    async def _join(self, host: KeeperHost) -> KeeperSeat:
        """Return a seat for a new host, which no committed fact mentions yet.

        Raises OSError, ServiceError.
        """
        await host.open()
        return await self._seat(host, None)

    def _begin(self, seat: KeeperSeat) -> None:
        """Start to place jobs on the seat of a new host."""
        self._admit(seat)
        if self._adopted:
            seat.open()

    async def _let_go(self, seat: KeeperSeat, *, barred: bool = False) -> str | None:
        """Stop using the seat's host and order its keeper to exit. ``barred``: refuse its later calls.

        Return a sentence about errors, or None.
        """
        note = await seat.dismiss(patient=False)
        self._hub.remove(self.context.experiment_id, seat.desk, barred=barred)
        await seat.keeper_host.close()
        self._placed.forget_all(seat)
        del self._seats[seat.id]
        return note

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        seat = self._seats[desk.link.keeper_id]
        news = seat.heard()
        self._outbox.put(received.events)
        for job_id in received.ended:
            self._placed.release(job_id, seat, heard=False)
            self._ends.came(job_id)
        facts = received.facts
        self._queue.told(seat, None if facts is None else facts.capacity, received.gpus)
        if news:
            for job_id in list(seat.closing):
                self._placed.forget_ended(job_id, seat)
            self._queue.ready(seat)
            self._keeping.heard(seat.id)

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        waiting = [
            TrialJobDetail(job_id=job_id, place=None, started=False, ended=False) for job_id in self._queue
        ]
        return [detail for seat in self._seats.values() for detail in seat.link.jobs.details()] + waiting

    async def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        while (batch := await self._outbox.take()) is not None:
            yield batch

    def _files(self, job_id: str, keeper_id: str | None) -> tuple[KeeperHost, JobFiles]:
        seat = self._placed.get(job_id) or self._seats.get(keeper_id or "")
        if seat is None:
            raise FileNotFoundError(f"{job_id} has not run on a machine of this experiment")
        files = JobFiles(
            job_id=job_id,
            parts=attempt_folder(*trial_of_job(job_id), job_of_member(job_id)[1]),
            keeper=seat.desk,
            is_open=partial(self._is_open, job_id),
            ended=partial(self._ends.wait, job_id),
        )
        return seat.keeper_host, files

    def _is_open(self, job_id: str) -> bool:
        """Return True while the job waits or runs."""
        seat = self._placed.get(job_id)
        return job_id in self._queue if seat is None else seat.link.jobs.is_open(job_id)
