"""Queue of an experiment's jobs that wait for a place, in order of arrival, with the reasons why they
wait.

Jobs that continue from a checkpoint of which the server has no copy wait apart, for the machine that has it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Generic

from training_services.base import (
    JobEvent,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KeptCopy,
    TrialJobSpec,
    never_started,
)
from training_services.placement.bound import BoundJobs
from training_services.placement.choice import Choice, S
from training_services.placement.ledger import HostLedger
from training_services.placement.needs import Capacity, GpuReading, Need, Waits, all_of
from training_services.placement.obstacles import Obstacles
from training_services.placement.seat import Seat

__all__ = ["JobQueue"]

FIRST = 8  # waiting jobs to which every new reason is reported at once, which bounds the cost of an event


class JobQueue(Generic[S]):
    """Queue of an experiment's waiting jobs. A seat is a machine that takes jobs.

    All jobs need the same resources, so if the first must wait, all must wait. ``start`` gives a job a place
    on a seat, with these GPUs. ``put`` passes events to the core. ``placed`` returns the number of jobs that
    have a place.
    """

    def __init__(
        self,
        experiment_id: str,
        ledger: HostLedger,
        *,
        start: Callable[[TrialJobSpec, S, tuple[int, ...]], JobPlaced],
        put: Callable[[Sequence[JobEvent]], None],
        placed: Callable[[], int],
    ) -> None:
        self._experiment_id = experiment_id
        self._ledger = ledger
        self._start, self._put, self._placed = start, put, placed
        # waiting jobs by id; an OrderedDict returns its first entry quickly, also after many deletions
        self._jobs: OrderedDict[str, TrialJobSpec] = OrderedDict()
        self._bound = BoundJobs(self._ask_bound)
        self._told: dict[str, str] = {}  # last reason reported for each waiting job
        self._seats: dict[S, None] = {}  # seats that take jobs
        self._on: dict[str, list[S]] = {}  # host -> seats on it that take jobs
        self._choice: Choice[S] = Choice(lambda seat: ledger.load(seat.host.id))
        self._arriving: dict[S, None] = {}  # seats whose keepers have not called yet
        # Seats that have got their share of the jobs. They get no more jobs until the keepers of all other
        # seats have called.
        self._full: dict[S, None] = {}
        self._obstacles: Obstacles[S] = Obstacles(self.reasons_changed)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs or job_id in self._bound

    def __iter__(self) -> Iterator[str]:
        return chain(self._bound, self._jobs)

    # ---- seats --------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Start to place waiting jobs when resources become free (see ``HostLedger.listen``)."""
        self._ledger.listen(self, self._freed, experiment_id=self._experiment_id)

    def add(self, seat: S) -> None:
        """Allow jobs to be placed on this seat (a machine that takes jobs)."""
        if seat in self._seats:
            return
        self._seats[seat] = None
        self._on.setdefault(seat.host.id, []).append(seat)
        self._choice.offer(seat)
        if seat.arriving:
            self._arriving[seat] = None
        self.place(tell_all=True)

    def remove(self, seat: S) -> None:
        """Place no more jobs on this seat (a machine that takes jobs)."""
        if seat in self._seats:
            del self._seats[seat]
            self._on[seat.host.id].remove(seat)
            self._choice.drop(seat)
            self._arrive(seat)
            self._ledger.withdraw(self._experiment_id, host_id=seat.host.id)
            self.place(tell_all=True)

    def left(self, seat: S) -> None:
        """Offer the seat to waiting jobs, because another job has left it."""
        if seat in self._seats:
            self._choice.offer(seat)
            self.place()

    def ready(self, seat: S) -> None:
        """Offer the seat to waiting jobs, because its keeper has become ready for jobs."""
        if seat in self._seats:
            self._choice.offer(seat)
        self._arrive(seat)
        self.place(tell_all=True)

    def reasons_changed(self) -> None:
        """Offer all seats to the waiting jobs again, because reasons for waiting may have changed."""
        for seat in [seat for seat in self._arriving if not seat.arriving]:
            self._arrive(seat)
        for seat in self._seats:
            self._choice.offer(seat)
        self.place(tell_all=True)

    def close(self) -> None:
        self._ledger.ignore(self)
        self._obstacles.close()

    def _arrive(self, seat: S) -> None:
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
        """Place the job, or queue it with a reason. Raises JobRejected if no machine can ever run it."""
        if job.origin is not None and job.kept is None:
            placed = self._bound.submit(job, job.origin.keeper_id)
            if isinstance(placed, JobWaiting):
                self._next()
            return placed
        if self._jobs and self._choice.best() is not None:
            self.place()
        outcome = self._choice.verdict() if self._jobs else self._try(job)
        if isinstance(outcome, JobPlaced):
            return outcome
        self._jobs[job.id] = job
        reason = self._told[job.id] = outcome.told(first=len(self._jobs) <= FIRST)
        if len(self._jobs) == 1:
            self._ledger.pass_on(self._experiment_id, job.id)
        if self._full:  # the shares grow with each job that arrives
            self._offer_full()
            self.place()
        return JobWaiting(job_id=job.id, reason=reason)

    def copied(self, name: tuple[str, int], kept: KeptCopy) -> None:
        """Let the jobs that wait for the machine with this checkpoint run anywhere (see ``JobPlacing``)."""
        for job in self._bound.release(name):
            self._next()
            try:
                self._put([self.submit(replace(job, kept=kept))])
            except JobRejected as rejection:
                self._put([never_started(job.id, str(rejection))])

    def withdraw(self, job_id: str) -> bool:
        """Remove a waiting job from the queue. Return False if the queue does not have the job."""
        if job_id in self._bound:
            self._bound.withdraw(job_id)
            self._next()
            return True
        first = next(iter(self._jobs), None) == job_id
        if self._jobs.pop(job_id, None) is None:
            return False
        del self._told[job_id]
        if first:
            self._next()
        return True

    def place(self, *, tell_all: bool = False) -> None:
        """Place waiting jobs in order of arrival as long as they fit.

        Report why the others wait: to the first few jobs in the queue, or with ``tell_all`` to all. Jobs that
        can run only on one machine come first.
        """
        bound = len(self._bound)
        self._put(self._bound.place())
        if len(self._bound) < bound:
            self._next()
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
        """Transfer the resources that were reserved for the first job, which has left the queue, to the next
        job.

        If all jobs wait for the machines with their checkpoints, free what is reserved on other machines.
        """
        self._ledger.pass_on(self._experiment_id, next(chain(self._jobs, self._bound), None))
        if self._bound and not self._jobs:
            needed = {seat.host.id for seat in map(self._seat, self._bound.keepers()) if seat is not None}
            for host_id in [host_id for host_id in self._on if host_id not in needed]:
                self._ledger.withdraw(self._experiment_id, host_id=host_id)

    def _leave_to_others(self) -> None:
        """Free the resources reserved on seats where no job can start now because of an obstacle."""
        for seat in self._obstacles.take_hindered():
            self._ledger.withdraw(self._experiment_id, host_id=seat.host.id)

    def _try(self, job: TrialJobSpec) -> JobPlaced | Waits:
        """Place the job on the best seat, or return why it waits. Raises JobRejected if no machine can ever
        run it.
        """
        preferred = self._seat_of_origin(job)
        while (seat := preferred or self._choice.best()) is not None:
            preferred = None
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

    def _seat_of_origin(self, job: TrialJobSpec) -> S | None:
        """Return the machine that has the files of the job's checkpoint, unless it would refuse the job."""
        seat = self._seat(job.origin.keeper_id) if job.origin is not None else None
        return seat if seat is not None and self._choice.offers(seat) else None

    def _seat(self, keeper_id: str) -> S | None:
        return next((seat for seat in self._seats if seat.id == keeper_id), None)

    def _ask_bound(self, job: TrialJobSpec, keeper_id: str) -> JobPlaced | Waits:
        """Place a job that continues from a checkpoint, or return why it waits. Raises JobRejected."""
        seat = self._seat(keeper_id)
        if seat is None:
            return Waits(
                "waits until the trial's checkpoint has been copied from its machine, which takes no more "
                "trials"
            )
        if (obstacle := self._obstacles.find(seat)) is not None:
            return Waits(f"{obstacle}; {seat.host.name} has the trial's checkpoint")
        granted = self._ledger.place(self._need(job.id, seat), seat.host)
        if isinstance(granted, Waits):
            return Waits(f"{granted.reason}; {seat.host.name} has the trial's checkpoint")
        placed = self._start(job, seat, granted)
        self._choice.offer(seat)
        return placed

    def _ask(self, job: TrialJobSpec, seat: S) -> tuple[int, ...] | Waits:
        """Return the GPUs that the seat gives to the job, or why the job cannot start there. Raises
        JobRejected.
        """
        need, host = self._need(job.id, seat), seat.host
        if (obstacle := self._obstacles.find(seat)) is not None:
            self._ledger.check(need, host)
            return Waits(obstacle)
        if self._arriving and len(seat.jobs) >= self._share():
            self._full[seat] = None
            return _waits_for(self._arriving, host.name)
        return self._ledger.place(need, host)

    def hold(self, job_id: str, seat: S, gpus: tuple[int, ...]) -> None:
        """Record that the job was placed on the seat before the server's restart."""
        self._ledger.hold(self._need(job_id, seat), seat.host, gpus)

    def release(self, job_id: str, seat: S) -> bool:
        """Free the resources of an ended job on the seat. Return False if the job was not there."""
        return self._ledger.release(seat.host.id, job_id)

    def told(self, seat: S, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        """Record the machine's capacity and GPUs, as its keeper reports them.

        None: not part of this report.
        """
        if capacity is not None:
            self._ledger.told(seat.host.id, capacity)
        if gpus is not None:
            self._ledger.read(seat.host.id, self, gpus)

    def _need(self, job_id: str, seat: S) -> Need:
        """Return the resources that a job of the experiment needs on this seat."""
        wants = seat.wants
        return Need(
            experiment_id=self._experiment_id,
            job_id=job_id,
            gpus=wants.gpus,
            cpus=wants.cpus or 0,
            memory=wants.memory or 0,
        )

    def _share(self) -> int:
        """Return the number of jobs that each seat may get before the keepers of all seats have called.

        Without this limit, the first machines to connect would take all jobs.
        """
        return max(1, (self._placed() + len(self._jobs)) // len(self._seats))

    def _tell_why(self, waits: Waits, *, number: int) -> None:
        news: list[JobEvent] = []
        for position, job_id in enumerate(islice(self._jobs, number)):
            reason = waits.told(first=position < FIRST)
            if reason != self._told[job_id]:
                self._told[job_id] = reason
                news.append(JobWaiting(job_id=job_id, reason=reason))
        self._put(news)


def _waits_for(arriving: Collection[Seat], name: str) -> Waits:
    """Return why the machine ``name``, which has its share, takes no job before these machines are there."""
    names = [seat.host.name for seat in islice(arriving, 2)]
    names += [f"{more} more machines"] if (more := len(arriving) - 2) > 0 else []
    share = f"{name} already has its share of the trials"
    return Waits(f"waits until {all_of(names)} can be reached: {share}")
