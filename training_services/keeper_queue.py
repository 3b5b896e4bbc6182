"""The jobs of one experiment that have no place yet: first come first served, and told why they wait."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

from training_services.base import (
    JobEvent,
    JobPlaced,
    JobRejected,
    JobWaiting,
    TrialJobSpec,
    never_started,
)
from training_services.keeper_choice import Choice
from training_services.keeper_link import Received
from training_services.keeper_seat import KeeperSeat
from training_services.needs import Need, Waits, all_of
from training_services.placement import HostLedger

__all__ = ["JobQueue"]

FIRST = 8  # so many waiting jobs are told whatever is new of why they wait; what an event costs is bounded
LOOK_AGAIN_S = 5.0  # at what is in the way of every start: nothing tells when it has gone


class JobQueue:
    """All jobs of an experiment need the same: where one has to wait, those behind it have to.

    ``start`` gives a job a place on a seat, with these GPUs; ``put`` takes events for the core; ``placed`` is
    the number of jobs that have a place.
    """

    def __init__(
        self,
        experiment_id: str,
        ledger: HostLedger,
        *,
        start: Callable[[TrialJobSpec, KeeperSeat, tuple[int, ...]], JobPlaced],
        put: Callable[[Sequence[JobEvent]], None],
        placed: Callable[[], int],
    ) -> None:
        self._experiment_id = experiment_id
        self._ledger = ledger
        self._start, self._put, self._placed = start, put, placed
        self._jobs: OrderedDict[str, TrialJobSpec] = OrderedDict()  # its front is found at once
        self._told: dict[str, str] = {}  # the sentence that each of them was told last
        self._seats: dict[KeeperSeat, None] = {}  # that take jobs
        self._on: dict[str, list[KeeperSeat]] = {}  # host -> those of them that are there
        self._choice = Choice(lambda seat: ledger.load(seat.keeper.host.id))
        self._arriving: dict[KeeperSeat, None] = {}  # whose keepers are on their way
        self._full: dict[
            KeeperSeat, None
        ] = {}  # have what is theirs of the jobs, until the others have arrived
        self._hindered: dict[KeeperSeat, None] = {}  # could start nothing when they were asked
        self._look: asyncio.TimerHandle | None = None  # at what was in the way

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    # ---- seats --------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Hear from the ledger what falls free."""
        self._ledger.listen(self, self._freed, experiment_id=self._experiment_id)

    def add(self, seat: KeeperSeat) -> None:
        """The seat takes jobs from now on."""
        if seat in self._seats:
            return
        self._seats[seat] = None
        self._on.setdefault(seat.keeper.host.id, []).append(seat)
        self._choice.offer(seat)
        if seat.arriving:
            self._arriving[seat] = None
        self.place(tell_all=True)

    def remove(self, seat: KeeperSeat) -> None:
        """It takes no more."""
        if seat in self._seats:
            del self._seats[seat]
            self._on[seat.keeper.host.id].remove(seat)
            self._choice.drop(seat)
            self._arrive(seat)
            self._ledger.withdraw(self._experiment_id, host_id=seat.keeper.host.id)
            self.place(tell_all=True)

    def left(self, seat: KeeperSeat) -> None:
        """A job has left the seat."""
        if seat in self._seats:
            self._choice.offer(seat)
            self.place()

    def ready(self, seat: KeeperSeat) -> None:
        """The seat's keeper has spoken for the first time."""
        if seat in self._seats:
            self._choice.offer(seat)
        self._arrive(seat)
        self.place(tell_all=True)

    def reasons_changed(self) -> None:
        """Anything may have changed anywhere."""
        for seat in [seat for seat in self._arriving if not seat.arriving]:
            self._arrive(seat)
        for seat in self._seats:
            self._choice.offer(seat)
        self.place(tell_all=True)

    def close(self) -> None:
        self._ledger.ignore(self)
        if self._look is not None:
            self._look.cancel()

    def _arrive(self, seat: KeeperSeat) -> None:
        self._arriving.pop(seat, None)
        if not self._arriving:
            self._offer_full()

    def _offer_full(self) -> None:
        full, self._full = self._full, {}
        for seat in full:
            if seat in self._seats:
                self._choice.offer(seat)

    def _freed(self, hosts: Collection[str] | None) -> None:
        for host in list(self._on) if hosts is None else hosts:
            for seat in self._on.get(host, ()):
                self._choice.offer(seat)
        self.place()

    # ---- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Raises JobRejected if no host will ever do."""
        if self._jobs and self._choice.best() is not None:
            self.place()
        outcome = self._choice.verdict() if self._jobs else self._try(job)
        if isinstance(outcome, JobPlaced):
            return outcome
        self._jobs[job.id] = job
        reason = self._told[job.id] = outcome.told(first=len(self._jobs) <= FIRST)
        if len(self._jobs) == 1:
            self._ledger.pass_on(self._experiment_id, job.id)
        if self._full:  # there is one more to share
            self._offer_full()
            self.place()
        return JobWaiting(job_id=job.id, reason=reason)

    def withdraw(self, job_id: str) -> bool:
        """Take the job back; False if it does not wait here."""
        first = next(iter(self._jobs), None) == job_id
        if self._jobs.pop(job_id, None) is None:
            return False
        del self._told[job_id]
        if first:
            self._next()
        return True

    def place(self, *, tell_all: bool = False) -> None:
        """Place what can be placed; tell the first of the rest, or all, why not."""
        while self._jobs:
            job = next(iter(self._jobs.values()))
            event: JobEvent
            try:
                outcome = self._try(job)
            except JobRejected as rejection:
                event = never_started(job.id, str(rejection))
            else:
                if isinstance(outcome, Waits):
                    self._tell_why(outcome, number=len(self._jobs) if tell_all else FIRST)
                    break
                event = outcome
            del self._jobs[job.id], self._told[job.id]
            self._put([event])
            self._next()
        self._leave_to_others()

    def _next(self) -> None:
        """The first job has gone: what is kept for it is for the next one."""
        self._ledger.pass_on(self._experiment_id, next(iter(self._jobs), None))

    def _leave_to_others(self) -> None:
        """Nothing is kept for jobs that could not be started there."""
        hindered, self._hindered = self._hindered, {}
        for seat in hindered:
            self._ledger.withdraw(self._experiment_id, host_id=seat.keeper.host.id)

    def _try(self, job: TrialJobSpec) -> JobPlaced | Waits:
        """Raises JobRejected if no host will ever do."""
        while (seat := self._choice.best()) is not None:
            try:
                answer = self._ask(job, seat)
            except JobRejected as rejection:
                self._choice.refuse(seat, rejection)
                continue
            if isinstance(answer, Waits):
                self._choice.refuse(seat, answer)
                continue
            placed = self._start(job, seat, answer)
            self._choice.offer(seat)
            return placed
        return self._choice.verdict()

    def _ask(self, job: TrialJobSpec, seat: KeeperSeat) -> tuple[int, ...] | Waits:
        """Raises JobRejected."""
        need, host = self._need(job.id, seat), seat.keeper.host
        if (obstacle := self._obstacle(seat)) is not None:
            self._hindered[seat] = None
            self._ledger.check(need, host)
            return Waits(obstacle)
        if self._arriving and len(seat.jobs) >= self._share():
            self._full[seat] = None
            names = [seat.keeper.host.name for seat in islice(self._arriving, 2)]
            names += [f"{more} more machines"] if (more := len(self._arriving) - 2) > 0 else []
            share = f"{host.name} has its share of the trials"
            return Waits(f"waits until {all_of(names)} can be reached: {share}")
        return self._ledger.place(need, host)

    def hold(self, job_id: str, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        """The job has its place on the seat, since before the service was opened."""
        self._ledger.hold(self._need(job_id, seat), seat.keeper.host, gpus)

    def release(self, job_id: str, seat: KeeperSeat) -> bool:
        """The job holds nothing there any more, and nothing of it runs; False: that was so before."""
        return self._ledger.release(seat.keeper.host.id, job_id)

    def told(self, seat: KeeperSeat, received: Received) -> None:
        """The seat's keeper has called, and said perhaps what its host has."""
        if received.host is not None:
            self._ledger.told(seat.keeper.host.id, received.host.capacity)
        if received.gpus is not None:
            self._ledger.read(seat.keeper.host.id, self, received.gpus)

    def _need(self, job_id: str, seat: KeeperSeat) -> Need:
        """What a job of the experiment needs on this seat."""
        wants = seat.wants
        return Need(
            experiment_id=self._experiment_id,
            job_id=job_id,
            gpus=wants.gpus,
            cpus=wants.cpus or 0,
            memory=wants.memory or 0,
        )

    def _share(self) -> int:
        """So many jobs each seat may have while others are still on their way: the first takes not all."""
        return max(1, (self._placed() + len(self._jobs)) // len(self._seats))

    def _obstacle(self, seat: KeeperSeat) -> str | None:
        """What is in the way of any start there; it is looked at again after a while."""
        obstacle = seat.keeper.obstacle()
        if obstacle is not None and self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)
        return obstacle or seat.obstacle()

    def _look_again(self) -> None:
        self._look = None
        self.reasons_changed()

    def _tell_why(self, waits: Waits, *, number: int) -> None:
        news: list[JobEvent] = []
        for position, job_id in enumerate(islice(self._jobs, number)):
            reason = waits.told(first=position < FIRST)
            if reason != self._told[job_id]:
                self._told[job_id] = reason
                news.append(JobWaiting(job_id=job_id, reason=reason))
        self._put(news)
