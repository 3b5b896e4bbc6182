"""Queue of an experiment whose allocations are pilots: each runs many jobs, after and beside each other.

The queue of waiting jobs places them by what they need and what the pilots have, as on machines that stay.
New pilots are asked for as long as jobs wait that the coming ones cannot take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import islice

from training_services.allocations.coming import Coming
from training_services.allocations.queues import Acts, Naming
from training_services.base import (
    JobEnded,
    JobEvent,
    JobPlaced,
    JobWaiting,
    KeptCopy,
    TrialJobSpec,
    never_started,
)
from training_services.keepers.host import HostGone
from training_services.keepers.seat import KeeperSeat
from training_services.placement.ledger import HostLedger
from training_services.placement.needs import Capacity, GpuReading
from training_services.placement.queue import JobQueue

__all__ = ["PilotQueue"]

FIRST = 8  # waiting jobs that get every new reason at once; the limit bounds the cost of an event


class PilotQueue:
    """Queue of jobs that wait for places in pilots. Implements ``AllocationPlacing``.

    ``room`` returns the number of jobs like this one that fit in a pilot with this capacity; None: unknown.
    ``most``: greatest number of pilots; None: no limit. ``idle``: time without a job after which a pilot is
    given back. ``placed`` returns the number of jobs that have a place.
    """

    def __init__(
        self,
        acts: Acts,
        naming: Naming,
        experiment_id: str,
        ledger: HostLedger,
        *,
        idle: timedelta,
        most: int | None,
        room: Callable[[TrialJobSpec, Capacity | None], int],
        placed: Callable[[], int],
    ) -> None:
        self._acts, self._naming = acts, naming.beginning_with(acts.prefix)
        self._idle_s, self._most, self._room = idle.total_seconds(), most, room
        self._queue: JobQueue[KeeperSeat] = JobQueue(
            experiment_id, ledger, start=self._start, put=self._pass_on, placed=placed
        )
        self._coming = Coming(f"{experiment_id}-p", self._naming.valid, acts.bring, self._call)
        self._waiting: dict[str, TrialJobSpec] = {}
        # jobs that continue from a checkpoint in a pilot, of which the server has no copy yet
        self._bound: dict[str, TrialJobSpec] = {}
        self._told: dict[str, str] = {}
        self._seats: dict[str, KeeperSeat] = {}  # by keeper id
        self._pilots: dict[KeeperSeat, set[str]] = {}  # pilots whose keepers have called, with their jobs
        self._idle: dict[KeeperSeat, asyncio.TimerHandle] = {}
        self._surplus: asyncio.TimerHandle | None = None
        self._capacity: Capacity | None = None  # that a pilot has reported last

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._queue

    def __iter__(self) -> Iterator[str]:
        return iter(self._queue)

    def listen(self) -> None:
        self._queue.listen()

    def close(self) -> None:
        self._queue.close()
        self._coming.close()
        for timer in (*self._idle.values(), *filter(None, [self._surplus])):
            timer.cancel()

    # ---- pilots -------------------------------------------------------------------------------------------

    def add(self, seat: KeeperSeat) -> None:
        self._seats[seat.id] = seat
        self._coming.add(seat.id)

    def remove(self, seat: KeeperSeat) -> None:
        self._seats.pop(seat.id, None)
        if (timer := self._idle.pop(seat, None)) is not None:
            timer.cancel()
        if self._pilots.pop(seat, None) is not None:
            self._queue.remove(seat)
            self._call()  # with ``most``, there is room for another pilot now

    def ready(self, seat: KeeperSeat) -> None:
        if seat.id not in self._seats:
            return
        self._coming.came(seat.id)
        if seat not in self._pilots:
            self._pilots[seat] = {job_id for job_id in seat.jobs if job_id not in seat.closing}
            self._queue.add(seat)
        self._queue.ready(seat)
        self._rest(seat)

    def left(self, seat: KeeperSeat) -> None:
        self._queue.left(seat)
        self._rest(seat)

    def expects(self, seat: KeeperSeat) -> bool:
        return True

    def awaits(self, keeper_id: str) -> bool:
        if self._waiting:
            return True
        self._coming.discard(keeper_id)
        return False

    def gone(self, keeper_id: str, gone: HostGone) -> None:
        if keeper_id not in self._coming:
            self._call()
            return
        if self._coming.gone(keeper_id, failed=gone.failed) and self._waiting:
            job_id = next(iter(self._waiting))
            self.withdraw(job_id)
            self._acts.put([never_started(job_id, str(gone), gone.cause)])
            self._coming.job_failed()
        self.explain(keeper_id, f"waits for another {self._naming.noun}: {gone}")

    def _rest(self, seat: KeeperSeat) -> None:
        """Give a pilot back after a while, if no job runs there."""
        jobs = self._pilots.get(seat)
        if jobs is not None and not jobs and seat not in self._idle:
            loop = asyncio.get_running_loop()
            self._idle[seat] = loop.call_later(self._idle_s, self._give_back, seat)

    def _give_back(self, seat: KeeperSeat) -> None:
        del self._idle[seat]
        self._acts.send_away(seat)

    def _call(self) -> None:
        """Ask for pilots for the jobs that wait. Give back those that are coming and not needed any more."""
        if not self._waiting:
            if len(self._coming) and self._surplus is None:
                loop = asyncio.get_running_loop()
                self._surplus = loop.call_later(self._idle_s, self._give_back_coming)
            return
        if self._surplus is not None:
            self._surplus.cancel()
            self._surplus = None
        room = max(1, self._room(next(iter(self._waiting.values())), self._capacity))
        number = -(-len(self._waiting) // room)
        if self._most is not None:
            number = min(number, self._most - len(self._pilots))
        self._coming.call(number)

    def _give_back_coming(self) -> None:
        self._surplus = None
        for keeper_id in list(self._coming):
            if (seat := self._seats.get(keeper_id)) is not None and not seat.jobs:
                self._coming.discard(keeper_id)
                self._acts.send_away(seat)

    # ---- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        answer = self._queue.submit(job)
        if isinstance(answer, JobPlaced):
            return answer
        if job.origin is not None and job.kept is None:
            self._bound[job.id] = job
            return answer
        self._waiting[job.id] = job
        self._call()
        reason = answer.reason if self._pilots else self._why()
        self._told[job.id] = reason
        return JobWaiting(job_id=job.id, reason=reason)

    def copied(self, name: tuple[str, int], kept: KeptCopy) -> None:
        for job in [job for job in self._bound.values() if job.origin_id == name]:
            self._waiting[job.id] = self._bound.pop(job.id)
        self._queue.copied(name, kept)
        self._call()
        self.reasons_changed()

    def withdraw(self, job_id: str) -> bool:
        self._forget(job_id)
        found = self._queue.withdraw(job_id)
        self._call()
        return found

    def hold(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        self._coming.discard(seat.id)
        self._queue.hold(job, seat, gpus)

    def release(self, job_id: str, seat: KeeperSeat, *, heard: bool = True) -> bool:
        self._pilots.get(seat, set()).discard(job_id)
        return self._queue.release(job_id, seat, heard=heard)

    def told(self, seat: KeeperSeat, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        self._capacity = capacity or self._capacity
        self._queue.told(seat, capacity, gpus)

    def _start(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> JobPlaced:
        self._forget(job.id)
        self._pilots[seat].add(job.id)
        if (timer := self._idle.pop(seat, None)) is not None:
            timer.cancel()
        return self._acts.start(job, seat, gpus)

    def _forget(self, job_id: str) -> None:
        for jobs in (self._waiting, self._bound, self._told):
            jobs.pop(job_id, None)

    def _pass_on(self, events: Sequence[JobEvent]) -> None:
        """Pass events to the core. Without a pilot, the reasons of the queue say nothing about the engine."""
        passed: list[JobEvent] = []
        for event in events:
            if isinstance(event, JobWaiting) and event.job_id in self._waiting:
                if not self._pilots:
                    continue
                self._told[event.job_id] = event.reason
            elif isinstance(event, JobEnded):
                self._forget(event.job_id)
            passed.append(event)
        self._acts.put(passed)

    # ---- reasons ------------------------------------------------------------------------------------------

    def explain(self, keeper_id: str, reason: str) -> None:
        for job_id in islice(self._waiting, FIRST):
            if self._told.get(job_id) != reason:
                self._told[job_id] = reason
                self._acts.put([JobWaiting(job_id=job_id, reason=reason)])

    def tell(self, keeper_ids: Sequence[str]) -> None:
        first = next((name for name in self._coming if name in self._seats), None)
        if first is not None and first in keeper_ids:
            self.explain(first, self._why())

    def reasons_changed(self) -> None:
        self._queue.reasons_changed()
        self.tell(list(self._coming))

    def _why(self) -> str:
        """Return why jobs wait for the first pilot that is coming, as a sentence."""
        seat = next((self._seats[name] for name in self._coming if name in self._seats), None)
        if seat is None:
            return self._naming.coming
        if seat.trouble is not None:
            return f"waits: {seat.trouble}"
        return seat.keeper_host.obstacle() or seat.obstacle() or self._naming.coming
