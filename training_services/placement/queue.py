"""Queue of an experiment's jobs that wait for a place, in order of arrival, with the reasons why they
wait.

Jobs that need the same form a line, and only the first job of a line asks for places. A job that fits on no
machine does not hold up jobs of other lines, but what it lacks is kept for it on one machine (see
``HostLedger``). Jobs that continue from a checkpoint of which the server has no copy wait apart, for the
machine that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
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
from training_services.placement.bound import BoundJobs, MakeRoom
from training_services.placement.choice import S
from training_services.placement.ledger import HostLedger
from training_services.placement.lines import FIRST, JobLines, WaitingJob
from training_services.placement.needs import Capacity, GpuReading, Waits
from training_services.placement.obstacles import Obstacles
from training_services.placement.shares import Shares

__all__ = ["JobQueue", "not_here"]

COPIED_FIRST = (
    "waits until the trial's checkpoint has been copied from its machine, which takes no more trials"
)
LENT = (
    "waits for the machine that has its checkpoint, which takes no more trials; to let it take trials again, "
    'see "nnictl machine drain --help"'
)
LATER = "waits behind trials of its experiment that need something else"


def not_here(job: TrialJobSpec) -> str:
    """Return why a job waits whose checkpoint is only on a machine that takes no more trials.

    The checkpoint is copied from there, unless another trial has saved it.
    """
    assert job.origin is not None
    return COPIED_FIRST if job.origin.trial_id is None else LENT


class JobQueue(Generic[S]):
    """Queue of an experiment's waiting jobs. A seat is a machine that takes jobs.

    ``start`` gives a job a place on a seat, with these GPUs. ``put`` passes events to the core. ``placed``
    returns the number of jobs that have a place.
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
        self._jobs: JobLines[S] = JobLines(
            lambda seat: ledger.load(seat.host.id), partial(ledger.forget, experiment_id), ledger.line_numbers
        )
        self._make_room: MakeRoom = partial(ledger.preemption.make_room, experiment_id)
        self._bound = BoundJobs(self._ask_bound, self._make_room)
        self._told: dict[str, str] = {}  # last reason reported for each waiting job
        self._seats: dict[S, None] = {}  # seats that take jobs
        self._on: dict[str, list[S]] = {}  # host -> seats on it that take jobs
        self._shares: Shares[S] = Shares()
        self._obstacles: Obstacles[S] = Obstacles(self.reasons_changed)
        self._placing = self._again = self._tell_all = False  # see ``place``

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
        self._shares.add(seat)
        for spec in self._jobs.add(seat):
            self._queue_again(spec)
        self.place(tell_all=True)

    def remove(self, seat: S) -> None:
        """Place no more jobs on this seat (a machine that takes jobs)."""
        if seat in self._seats:
            del self._seats[seat]
            self._on[seat.host.id].remove(seat)
            self._jobs.remove(seat)
            self._offer(self._shares.arrive(seat))
            self._ledger.withdraw(self._experiment_id, host_id=seat.host.id)
            self.place(tell_all=True)

    def left(self, seat: S) -> None:
        """Offer the seat to waiting jobs, because another job has left it."""
        if seat in self._seats:
            self._jobs.offer(seat)
            self.place()

    def ready(self, seat: S) -> None:
        """Offer the seat to waiting jobs, because its keeper has become ready for jobs."""
        if seat in self._seats:
            self._jobs.offer(seat)
        self._offer(self._shares.arrive(seat))
        self.place(tell_all=True)
        self._ledger.reachable(self._experiment_id, seat.host.id)

    def reasons_changed(self) -> None:
        """Offer all seats to the waiting jobs again, because reasons for waiting may have changed."""
        self._shares.look()
        self._offer(self._seats)
        self.place(tell_all=True)

    def close(self) -> None:
        self._ledger.ignore(self)
        self._obstacles.close()

    def _offer(self, seats: Iterable[S]) -> None:
        for seat in seats:
            if seat in self._seats:
                self._jobs.offer(seat)

    def _freed(self, hosts: Collection[str] | None) -> None:
        for host in list(self._on) if hosts is None else hosts:
            self._offer(self._on.get(host, ()))
        self.place()

    # ---- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Place the job, or queue it with a reason. Raises JobRejected if no machine can ever run it."""
        if job.origin is not None and job.kept is None:
            answer = self._bound.submit(job, job.origin.keeper_id)
            if isinstance(answer, JobPlaced):
                self._ledger.turn_taken(self._experiment_id)
            return answer
        new = self._jobs.job(job)
        if new is None:
            self._jobs.push_later(job)
            self._told[job.id] = LATER
            return JobWaiting(job_id=job.id, reason=LATER)
        line = new.line
        if line.jobs and line.choice.best() is not None:
            self.place()
        outcome = line.choice.verdict() if line.jobs else self._try(new)
        if isinstance(outcome, JobPlaced):
            self._ledger.placed_at_once(self._experiment_id, line=line.number)
            return outcome
        self._jobs.push(new)
        outcome = self._make_room(line.number, outcome, jobs=len(line.jobs))
        reason = self._told[job.id] = outcome.told(first=len(line.jobs) <= FIRST)
        if len(line.jobs) == 1:
            self._ledger.pass_on(self._experiment_id, job.id, line=line.number, arrival=new.arrival)
        if grown := self._shares.grow():  # the shares grow with each job that arrives
            self._offer(grown)
            self.place()
        return JobWaiting(job_id=job.id, reason=reason)

    def copied(self, name: tuple[str, int], kept: KeptCopy) -> None:
        """Let the jobs that wait for the machine with this checkpoint run anywhere (see ``JobPlacing``)."""
        for keeper_id, job in self._bound.release(name):
            self._ledger.pass_on(self._experiment_id, None, line=keeper_id)
            try:
                self._put([self.submit(replace(job, kept=kept))])
            except JobRejected as rejection:
                self._put([never_started(job.id, str(rejection))])

    def _queue_again(self, spec: TrialJobSpec) -> None:
        """Add a waiting job to its line, or behind all lines. Report its end if its needs are not valid."""
        try:
            job = self._jobs.job(spec)
        except JobRejected as rejection:
            del self._told[spec.id]
            self._put([never_started(spec.id, str(rejection))])
            return
        if job is None:
            self._jobs.push_later(spec)
        else:
            self._jobs.push(job)

    def withdraw(self, job_id: str) -> bool:
        """Remove a waiting job from the queue. Return False if the queue does not have the job."""
        if job_id in self._bound:
            self._ledger.pass_on(self._experiment_id, None, line=self._bound.withdraw(job_id))
            self.place()
            return True
        if job_id not in self._jobs:
            return False
        self._remove(job_id)
        return True

    def place(self, *, tell_all: bool = False) -> None:
        """Place waiting jobs in order of arrival as far as they fit.

        Report why the others wait: to the first few jobs of each line, or with ``tell_all`` to all. Jobs that
        can run only on one machine come first. A call that a placement causes, through the ledger, lets the
        present call begin again.
        """
        if not self._told and not self._bound:
            return
        self._tell_all = self._tell_all or tell_all
        self._again = True
        if self._placing:
            return
        self._placing = True
        try:
            while self._again:
                self._again = False
                self._place_all()
        finally:
            self._placing = self._tell_all = False

    def _place_all(self) -> None:
        placed = self._placed()
        self._put(self._bound.place())
        refused: set[int] = set()
        while line := next((line for line in self._jobs.lines() if line.number not in refused), None):
            job = line.first
            event: JobEvent
            try:
                outcome = self._try(job)
            except JobRejected as rejection:
                event = never_started(job.spec.id, str(rejection))
            else:
                if isinstance(outcome, Waits):
                    refused.add(line.number)
                    outcome = self._make_room(line.number, outcome, jobs=len(line.jobs))
                    self._put(line.news(outcome, self._told, everyone=self._tell_all))
                    continue
                event = outcome
            self._put([event])
            self._remove(job.spec.id)
        if self._placed() > placed:
            self._ledger.turn_taken(self._experiment_id)
        self._leave_to_others()

    def _remove(self, job_id: str) -> None:
        """Remove a job, and transfer the resources that were reserved for it to the next job of its line."""
        del self._told[job_id]
        line = self._jobs.pop(job_id)
        if line is not None:
            job = line.first if line.jobs else None
            self._ledger.pass_on(
                self._experiment_id,
                None if job is None else job.spec.id,
                line=line.number,
                arrival=0 if job is None else job.arrival,
            )
        if self._jobs.advance():
            self.place()

    def _leave_to_others(self) -> None:
        """Free the resources reserved on seats where no job can start now because of an obstacle."""
        for seat in self._obstacles.take_hindered():
            self._ledger.withdraw(self._experiment_id, host_id=seat.host.id)

    def _try(self, job: WaitingJob[S]) -> JobPlaced | Waits:
        """Place the first job of a line on the best seat, or return why it waits.

        Raises JobRejected if no machine can ever run it.
        """
        choice = job.line.choice
        preferred = _seat_of_origin(job, self._seats)
        while (seat := preferred or choice.best()) is not None:
            preferred = None
            try:
                answer = self._ask(job, seat)
            except JobRejected as rejection:
                choice.refuse(seat, rejection)
                continue
            if isinstance(answer, Waits):
                choice.refuse(seat, answer)
                continue
            placed = self._start(job.spec, seat, answer)
            self._jobs.offer(seat)
            return placed
        return choice.verdict()

    def _ask_bound(self, job: TrialJobSpec, keeper_id: str) -> JobPlaced | Waits:
        """Place a job that continues from a checkpoint, or return why it waits. Raises JobRejected."""
        seat = _seat_of(keeper_id, self._seats)
        if seat is None:
            return Waits(not_here(job))
        if (obstacle := self._obstacles.find(seat)) is not None:
            return Waits(f"{obstacle}; {seat.host.name} has the trial's checkpoint")
        wants = seat.wants.of_job(job)
        need = wants.need(self._experiment_id, job.id, line=keeper_id, arrival=-1)
        granted = self._ledger.place(need, seat.host)
        if isinstance(granted, Waits):
            return Waits(f"{granted.reason}; {seat.host.name} has the trial's checkpoint")
        placed = self._start(job, seat, granted)
        self._jobs.offer(seat)
        return placed

    def _ask(self, job: WaitingJob[S], seat: S) -> tuple[int, ...] | Waits:
        """Return the GPUs that the seat gives to the job, or why the job cannot start there. Raises
        JobRejected.
        """
        line, host = job.line, seat.host
        wants = line.wants_at(seat)
        need = wants.need(self._experiment_id, job.spec.id, line=line.number, arrival=job.arrival)
        if (obstacle := self._obstacles.find(seat)) is not None:
            self._ledger.check(need, host)
            return Waits(obstacle)
        if self._shares.arriving:
            jobs = self._placed() + len(self._jobs)
            waits = self._shares.refuses(seat, jobs=jobs, seats=len(self._seats))
            if waits is not None:
                return waits
        return self._ledger.place(need, host)

    def hold(self, job: TrialJobSpec, seat: S, gpus: tuple[int, ...]) -> None:
        """Record that the job was placed on the seat before the server's restart."""
        need = seat.wants.of_job(job).need(self._experiment_id, job.id)
        self._ledger.hold(need, seat.host, gpus)

    def release(self, job_id: str, seat: S, *, heard: bool = True) -> bool:
        """Free the resources of an ended job (see ``HostLedger.release``)."""
        return self._ledger.release(seat.host.id, job_id, heard=heard)

    def told(self, seat: S, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        """Record the machine's capacity and GPUs, as its keeper reports them.

        None: not part of this report.
        """
        if capacity is not None:
            self._ledger.told(seat.host.id, capacity)
        if gpus is not None:
            self._ledger.read(seat.host.id, self, gpus)


def _seat_of_origin(job: WaitingJob[S], seats: Iterable[S]) -> S | None:
    """Return the machine that has the files of the job's checkpoint, unless it would refuse the job."""
    origin = job.spec.origin
    if origin is None:
        return None
    seat = _seat_of(origin.keeper_id, seats)
    return seat if seat is not None and job.line.choice.offers(seat) else None


def _seat_of(keeper_id: str, seats: Iterable[S]) -> S | None:
    return next((seat for seat in seats if seat.id == keeper_id), None)
